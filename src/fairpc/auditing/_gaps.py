"""How far apart groups are in a rate or a mean score, and whether that could be chance.

Evidence is computed on codes of groups and named afterwards, because names sort as text ("10"
before "2") and "last minus first" must not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._drawing import Row, bars
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Codes, Floats, Positions, Record
from fairpc.evidence import Parity, parity

_DRAWN: Final = 12
_LONG: Final = 10
_SIDES: Final = {
    "below": "below four fifths",
    "above": "above four fifths",
    "undecided": "the rows do not decide on which side of four fifths",
}
_MARKS: Final = {
    "below": "at least one pair of groups is below four fifths, and chance does not explain it",
    "above": "every pair of groups is above four fifths, allowing for chance",
    "undecided": "these rows do not decide whether every pair is above four fifths",
}


@dataclass(frozen=True)
class Significance:
    """Test of "these two groups have the same rate", for one pair."""

    first: str  #: one group
    last: str  #: the other
    test: str  #: which test; "Fisher's exact" where a cell is expected to hold under 5 rows
    p_value: float  #: adjusted for the number of pairs and classes (Bonferroni)


@dataclass(frozen=True)
class Disparity(Record):
    """Gaps between groups in the rate, or mean score, of one class."""

    label: str  #: the class
    parity: Parity  #: means, differences and ratios with simultaneous intervals
    significance: tuple[Significance, ...] = ()  #: per pair; empty for mean scores
    #: groups with fewer than two rows or persons, which are not compared
    too_small: tuple[str, ...] = ()

    _computed = ("gap", "gap_upper")

    @property
    def gap(self) -> float:
        """Largest absolute difference between two groups."""
        return abs(self.parity.difference)

    @property
    def gap_upper(self) -> float:
        """Upper bound of the largest absolute difference: the farthest end of all intervals."""
        return max(max(map(abs, pair.difference_interval)) for pair in self.parity.pairs)


@dataclass(frozen=True)
class LabelDisparity(Record):
    """Disparity of the recorded labels."""

    #: of the positive class; of every class where there are more than two
    disparities: tuple[Disparity, ...]

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """The largest gap in words."""
        worst = max(self.disparities, key=lambda d: d.gap)
        pair = worst.parity.largest
        means = {g.group: g.mean for g in worst.parity.groups}
        p = worst.significance[worst.parity.pairs.index(pair)].p_value
        known = math.isfinite(pair.impact_ratio)
        ratio = text.number(pair.impact_ratio) if known else "not defined"
        return (
            f"Recorded labels: {text.share(means[pair.last])} of group {pair.last!r} and "
            f"{text.share(means[pair.first])} of group {pair.first!r} are {worst.label!r} "
            f"(impact ratio {ratio}, {_SIDES[pair.four_fifths]}; p {text.p_words(p)})."
        )


def label_disparity(job: Job) -> LabelDisparity:
    """Rates of the recorded classes by group; rows without a label are left out."""
    rows = job.rows
    return LabelDisparity(rates(rows, rows.d, rows.comparable(rows.d >= 0), job.settings.level))


def rates(
    rows: AuditedRows, classes: Codes | Positions, kept: Bools, level: float
) -> tuple[Disparity, ...]:
    """Gaps in the rates of the classes shown, tested pair by pair."""
    found = []
    for k in rows.shown_classes:
        one = disparity(rows, (classes == k).astype(np.float64), kept, k, level)
        tests = _significance(one.parity, len(rows.shown_classes))
        found.append(replace(one, significance=tests))
    return tuple(found)


def disparity(rows: AuditedRows, values: Floats, kept: Bools, k: int, level: float) -> Disparity:
    """Gaps in the mean of a value of class k; the level holds for all classes shown together."""
    each = 1 - (1 - level) / len(rows.shown_classes)
    found = parity(values[kept], rows.s[kept], level=each, **rows.weighing(kept))
    present = set(rows.groups_in(kept))
    too_small = tuple(
        name
        for g, name in enumerate(rows.groups)
        if g not in present and (g in rows.too_few or (rows.s == g).any())
    )
    return Disparity(rows.classes[k], rows.named(found), (), too_small)


def _significance(parity: Parity, n_classes: int) -> tuple[Significance, ...]:
    """A test per pair: the score test of two rates, on effective numbers of rows.

    It is Pearson's χ² without correction where rows are independent and count alike. Where
    a cell is expected to hold under 5 rows, and counts are whole, Fisher's exact test.
    """
    means = {g.group: g for g in parity.groups}
    times = len(parity.pairs) * n_classes
    result = []
    for pair in parity.pairs:
        a, b = means[pair.first], means[pair.last]
        test, p_value = _test(a.mean, a.effective_n, b.mean, b.effective_n)
        result.append(Significance(pair.first, pair.last, test, min(1.0, p_value * times)))
    return tuple(result)


def _test(p: float, n: float, q: float, m: float) -> tuple[str, float]:
    from scipy.special import erfc
    from scipy.stats import fisher_exact

    pooled = (p * n + q * m) / (n + m)
    least = min(n, m) * min(pooled, 1 - pooled)
    if least < 5 and float(n).is_integer() and float(m).is_integer():
        a, b = round(p * n), round(q * m)
        return "Fisher's exact", float(fisher_exact([[a, n - a], [b, m - b]])[1])
    spread = pooled * (1 - pooled) * (1 / n + 1 / m)
    p_value = float(erfc(abs(p - q) / math.sqrt(2 * spread))) if spread > 0 else 1.0
    return "score test of two rates", p_value


@blocks.section("labels", "Recorded labels")
def show_labels(audit: blocks.Audit, disparity: LabelDisparity) -> Iterator[blocks.Block]:
    """How often each group was given each label."""
    yield blocks.Paragraph(
        f"{disparity.sentence} This does not say why: groups may differ in what the label "
        "measures, in how it was given, or in both."
    )
    for one in disparity.disparities:
        label = text.quoted(one.label)
        what = f"The share of rows labelled {label}"
        yield show_means(audit, one, f"Recorded {label}, by group", what)
        yield show_pairs(one, f"Recorded {label}: differences and ratios between groups")


def show_means(audit: blocks.Audit, disparity: Disparity, title: str, what: str) -> blocks.Figure:
    """Rate or mean score of each group as a bar; ``what`` begins the sentence about it."""
    groups, order = disparity.parity.groups, blocks.group_order(audit)
    rows = [Row(g.group, g.mean, series=order[g.group]) for g in groups[:_DRAWN]]
    low, high = (pick(groups, key=lambda g: g.mean) for pick in (min, max))
    sentence = (
        f"{what} is lowest in group {text.short(low.group, 40)}, {text.share(low.mean)}, and "
        f"highest in group {text.short(high.group, 40)}, {text.share(high.mean)}."
    )
    head = ["Group", "Rows", "Rate" if disparity.parity.kind == "rate" else "Mean", "Note"]
    cells = [(g.group, g.n, g.mean, "few rows" if g.small else "") for g in groups]
    table = blocks.TableBlock(title, head, cells, folded=True).without_empty_remarks()
    return blocks.Figure(title, sentence, bars(rows), table)


def show_pairs(disparity: Disparity, caption: str) -> blocks.TableBlock:
    """Every pair: difference, ratio, their intervals, and the test where there is one."""
    parity, tests = disparity.parity, disparity.significance
    head = ["Pair", "Difference, points", "Impact ratio", "Four fifths"]
    rows = []
    for pair in parity.pairs:
        known = math.isfinite(pair.ratio) and math.isfinite(pair.impact_interval[0])
        cells = (
            f"{text.short(pair.last, 40)} {text.MINUS} {text.short(pair.first, 40)}",
            text.bracketed(pair.difference, pair.difference_interval, text.points),
            text.bracketed(pair.impact_ratio, pair.impact_interval if known else None, text.number),
            pair.four_fifths,
        )
        rows.append([*cells])
    together = text.share(parity.level, 0)
    note = (
        f"In brackets: intervals that hold together at the {together} level. The impact ratio is "
        f"the smaller rate over the larger; here {_MARKS[parity.four_fifths]}, a rule of thumb of "
        "US employment law and not a test of fairness."
    )
    if tests:
        head.append("p")
        for row, test in zip(rows, tests, strict=True):
            row.append(text.p_value(test.p_value))
        names = sorted({test.test for test in tests})
        note += f" p-values: {' or '.join(names)}, adjusted for the number of comparisons."
    if parity.clustered:
        note += " Persons repeat; the intervals take that into account."
    if disparity.too_small:
        note += f" Too few rows to compare: {text.listed(disparity.too_small)}."
    folded = len(rows) > _LONG
    return blocks.TableBlock(caption, head, rows, words={3}, note=note, folded=folded)


@dataclass(frozen=True)
class CategoryRate:
    """The rows of one category, and what was decided of them."""

    level: str  #: of the attribute
    n: int  #: rows
    n_selected: int  #: rows that were decided so
    selection_rate: float | None  #: share of the weight that was; None where there are no rows


@dataclass(frozen=True)
class Categories:
    """One sensitive attribute: how often each category was decided so."""

    attribute: str  #: name of the sensitive column
    label: str  #: the class that "selected" means
    categories: tuple[CategoryRate, ...]  #: those that occurred at fit


def categories(job: Job) -> tuple[Categories, ...]:
    """Each attribute alone, for every class that gaps are shown of."""
    rows, groups, result = job.rows, job.coding.groups, []
    for k in rows.shown_classes:
        selected = rows.decided == k
        for j, column in enumerate(groups.columns):
            codes, found = np.array([cell[j] for cell in groups.cells]), []
            for category in np.unique(codes):
                here = (rows.s >= 0) & (codes == category)[rows.s]
                one = CategoryRate(
                    level=column.labels[category],
                    n=rows.number(here),
                    n_selected=rows.number(here & selected),
                    selection_rate=rows.mean(selected, here),
                )
                found.append(one)
            result.append(Categories(column.name, rows.classes[k], tuple(found)))
    return tuple(result)


def show_categories(found: Sequence[Categories]) -> Iterator[blocks.TableBlock]:
    """Decisions by each sensitive attribute alone."""
    for part in found:
        cells = [(c.level, c.n, c.selection_rate) for c in part.categories]
        caption = f"Share decided {text.quoted(part.label)}, by {text.short(part.attribute, 40)}"
        yield blocks.TableBlock(caption, ("Category", "Rows", "Rate"), cells)
