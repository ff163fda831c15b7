"""How far apart groups are in a rate or a mean score, and how that could be chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.auditing.naming import named
from fairpc.auditing.numbers import number, p_words, share
from fairpc.auditing.rows import AuditedRows
from fairpc.errors.arrays import Bools, Floats
from fairpc.evidence import Parity, parity
from fairpc.evidence.gaps import PairGap
from fairpc.evidence.plain import fields_of, plain


@dataclass(frozen=True)
class Significance:
    """Test of "these two groups have the same rate", for one pair.

    Attributes:
        first, last: the groups.
        test: which test; "Fisher's exact" where a cell is expected to hold under 5 rows.
        p_value: adjusted for the number of pairs and classes (Bonferroni).
    """

    first: str
    last: str
    test: str
    p_value: float


@dataclass(frozen=True)
class Disparity:
    """Gaps between groups in the rate, or mean score, of one class.

    Attributes:
        label: the class.
        parity: means, differences and ratios with simultaneous intervals.
        significance: per pair; empty for mean scores.
        too_small: groups with fewer than two rows or persons, which are not compared.
    """

    label: str
    parity: Parity
    significance: tuple[Significance, ...] = ()
    too_small: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Largest absolute difference between two groups."""
        return abs(self.parity.difference)

    @property
    def gap_upper(self) -> float:
        """Upper bound of the largest absolute difference: the farthest end of all intervals."""
        return max(max(map(abs, pair.difference_interval)) for pair in self.parity.pairs)

    def to_dict(self) -> dict[str, Any]:
        """The record with ``gap`` and ``gap_upper``, as plain data."""
        return fields_of(self) | {"gap": plain(self.gap), "gap_upper": plain(self.gap_upper)}


@dataclass(frozen=True)
class LabelDisparity:
    """Disparity of the observed labels.

    Attributes:
        disparities: of the positive class; of every class where there are more than two.
        sentence: the largest gap in words.
    """

    disparities: tuple[Disparity, ...]
    sentence: str


def label_disparity(rows: AuditedRows, level: float) -> LabelDisparity:
    """Rates of the observed classes by group; rows without a label are left out."""
    kept = rows.comparable(rows.d >= 0)
    classes = rows.shown_classes
    values = [(rows.d == k).astype(np.float64) for k in classes]
    found = tuple(
        disparity(rows, value, kept, rows.classes[k], level, n_classes=len(classes), tested=True)
        for k, value in zip(classes, values, strict=True)
    )
    worst = max(found, key=lambda d: d.gap)
    pair = worst.parity.largest
    means = {g.group: g.mean for g in worst.parity.groups}
    p_value = min(t.p_value for t in worst.significance if _same(t, pair))
    return LabelDisparity(
        found,
        f"Observed labels: {share(means[pair.last])} of group {pair.last!r} and "
        f"{share(means[pair.first])} of group {pair.first!r} are {worst.label!r} "
        f"(impact ratio {_ratio(pair.impact_ratio)}, {_mark(pair)}; p {p_words(p_value)}).",
    )


def disparity(
    rows: AuditedRows,
    values: Floats,
    kept: Bools,
    label: str,
    level: float,
    *,
    n_classes: int = 1,
    tested: bool = False,
) -> Disparity:
    """Gaps in the mean of a value per row, over the kept rows; the level holds for all classes."""
    each = 1 - (1 - level) / n_classes
    found = parity(values[kept], rows.s[kept], level=each, **rows.weighing(kept).arguments)
    present = set(rows.groups_in(kept))
    too_small = tuple(
        name for g, name in enumerate(rows.groups) if g not in present and (rows.s == g).any()
    )
    record = named(found, rows.groups)
    tests = significance(record, n_classes) if tested else ()
    return Disparity(label, record, tests, too_small)


def significance(found: Parity, n_classes: int = 1) -> tuple[Significance, ...]:
    """A test per pair: the score test of two rates, on effective numbers of rows.

    It is Pearson's χ² without correction where rows are independent and count alike. Where
    a cell is expected to hold under 5 rows, and counts are whole, Fisher's exact test.
    """
    means = {g.group: g for g in found.groups}
    times = len(found.pairs) * n_classes
    result = []
    for pair in found.pairs:
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
    if spread <= 0:
        return "score test of two rates", 1.0
    return "score test of two rates", float(erfc(abs(p - q) / math.sqrt(2 * spread)))


def _same(test: Significance, pair: PairGap) -> bool:
    return (test.first, test.last) == (pair.first, pair.last)


def _mark(pair: PairGap) -> str:
    return {
        "below": "below four fifths",
        "above": "above four fifths",
        "undecided": "the rows do not decide on which side of four fifths",
    }[pair.four_fifths]


def _ratio(value: float) -> str:
    return number(value) if math.isfinite(value) else "not defined"
