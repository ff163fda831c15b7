"""Decisions by each sensitive attribute alone and by each two crossed, on the audited rows.

The groups of a model are all its sensitive attributes crossed; who must report selection rates by
sex, by race and by both needs these as well. Rows that lack any of the attributes are in no group
and are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

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
    #: share of the weight with a score above the median of all audited rows
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
    rows, groups = job.rows, job.model.coding_.groups
    result = []
    for k in rows.shown_classes:
        median = _median(rows.scores[:, k], rows.each_weight)
        for which in _subsets(len(groups.columns)):
            names = tuple(groups.columns[j].name for j in which)
            label = rows.classes[k]
            found = tuple(
                _rate(rows, here, levels, k, median) for levels, here in _cells(rows, groups, which)
            )
            result.append(Categories(names, label, median, found))
    return tuple(result)


def _subsets(n: int) -> Iterator[tuple[int, ...]]:
    yield from combinations(range(n), 1)
    yield from combinations(range(n), 2)


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
    rows: AuditedRows, here: Bools, levels: tuple[str, ...], k: int, median: float
) -> CategoryRate:
    weights, n = rows.each_weight, rows.number(here)
    total, known = float(weights[here].sum()), float(weights[rows.s >= 0].sum())
    selected, above = here & (rows.decided == k), here & (rows.scores[:, k] > median)
    return CategoryRate(
        levels=levels,
        n=n,
        share=total / known if known else None,
        n_selected=rows.number(selected),
        selection_rate=float(weights[selected].sum()) / total if n else None,
        scoring_rate=float(weights[above].sum()) / total if n else None,
        small=n < SMALL,
    )


def _median(scores: Floats, weights: Floats) -> float:
    """The least score that half of the weight does not exceed.

    With an even number of rows that is the lower of the two in the middle; no score lies between
    them, so the same rows are above it as above their mean.
    """
    order = np.argsort(scores, kind="stable")
    passed = np.cumsum(weights[order])
    return float(scores[order][np.searchsorted(passed, passed[-1] / 2)])
