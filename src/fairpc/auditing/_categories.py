"""Selection rates by each sensitive attribute alone, and by each two crossed.

The groups of an audit are all sensitive attributes crossed; who must report selection rates by sex,
by race and by both needs each attribute alone and each two crossed as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Floats
from fairpc.data import SMALL, Groups


@dataclass(frozen=True)
class CategoryRate:
    """The rows of one category, and what was decided of them."""

    levels: tuple[str, ...]  #: a value per attribute
    n: int  #: rows
    share: float | None  #: of the weight of the rows whose group is known
    n_selected: int  #: rows that were decided so
    selection_rate: float | None  #: share of the weight that was; None where there are no rows
    #: share of the weight with a score above the median of all audited rows; None without scores
    scoring_rate: float | None
    small: bool  #: fewer than 30 rows


@dataclass(frozen=True)
class Categories:
    """One attribute, or two crossed: how often each category was decided so."""

    attributes: tuple[str, ...]  #: names of the sensitive columns
    label: str  #: the class that "selected" means
    median: float  #: of the scores of this class, over all audited rows
    categories: tuple[CategoryRate, ...]  #: those that occurred at fit


def categories(job: Job) -> tuple[Categories, ...]:
    """Each attribute alone, then each two crossed; for every class that gaps are shown of."""
    rows, groups = job.rows, job.coding.groups
    numbers, result = range(len(groups.columns)), []
    for k in rows.shown_classes:
        middle = median(rows.scores[:, k], rows.each_weight)
        for which in (*combinations(numbers, 1), *combinations(numbers, 2)):
            cells = _cells(rows, groups, which)
            found = tuple(_rate(rows, here, levels, k, middle) for levels, here in cells)
            names = tuple(groups.columns[j].name for j in which)
            result.append(Categories(names, rows.classes[k], middle, found))
    return tuple(result)


def _cells(
    rows: AuditedRows, groups: Groups, which: tuple[int, ...]
) -> Iterator[tuple[tuple[str, ...], Bools]]:
    """The levels of each category that occurred at fit, and its rows."""
    codes = [tuple(cell[j] for j in which) for cell in groups.cells]
    for category in sorted(set(codes)):
        inside = np.array([code == category for code in codes])
        columns = (groups.columns[j] for j in which)
        levels = tuple(c.labels[v] for c, v in zip(columns, category, strict=True))
        yield levels, (rows.s >= 0) & inside[rows.s]


def _rate(
    rows: AuditedRows, here: Bools, levels: tuple[str, ...], k: int, middle: float
) -> CategoryRate:
    n, selected = rows.number(here), rows.decided == k
    return CategoryRate(
        levels=levels,
        n=n,
        share=rows.mean(here, rows.s >= 0),
        n_selected=rows.number(here & selected),
        selection_rate=rows.mean(selected, here),
        scoring_rate=rows.mean(rows.scores[:, k] > middle, here) if rows.scored else None,
        small=n < SMALL,
    )


def median(scores: Floats, weights: Floats) -> float:
    """The least score that half of the weight does not exceed.

    With an even number of rows that is the lower of the two in the middle; no score lies between
    them, so the same rows are above it as above their mean.
    """
    return float(np.quantile(scores, 0.5, weights=weights, method="inverted_cdf"))


def show_categories(found: Sequence[Categories], most: int) -> Iterator[blocks.TableBlock]:
    """Decisions by so many sensitive attributes, crossed, at most."""
    for part in found:
        if len(part.attributes) <= most:
            rows = [(", ".join(c.levels), c.n, c.selection_rate) for c in part.categories]
            by = " × ".join(text.short(name, 40) for name in part.attributes)
            caption = f"Share decided {text.quoted(part.label)}, by {by}"
            yield blocks.TableBlock(caption, ("Category", "Rows", "Rate"), rows)
