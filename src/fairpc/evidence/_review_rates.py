"""The rates that a review asks for: ratios of two sums, and limits that hold near 0 and 1.

A rate is Σ u / Σ v over the rows of a group, where u and v of a row depend on its fair decision t.
Both are kept as their values at t = 0 and at t = 1.

Limits are those of a score test, as Wilson's and Fieller's are: a value θ of the rate is kept if
the estimate of Σ (u − θ v) is within z standard errors of 0. Its variance is that of the residuals
at θ, moved to where the sum is 0 by their third moment (Johnson 1978): where few reviewed rows
carry a rate, the variance goes with the estimate. Half of each row's residual is that of its
answer, half what the corrected posterior expects of it, and half a row with the other answer is
added to each cell of recorded label and decision: a review without a surprise proves little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.core import Bools, Floats, MetricError, Positions, check_choice
from fairpc.evidence._intervals import Interval, quantile

FEW: Final = 5
LEAST_FREEDOM: Final = 6.0
_OTHER: Final = 0.5
"""Rows with the other answer that are added to a cell."""
_EXPECTED: Final = 0.5
"""Share of a residual that is what the posterior expects, in place of what was answered."""
_PRIOR_ROWS: Final = 5.0
"""Rows for which λ = 1 counts: a corrected posterior is worth its word, and λ has its own error."""
_HALVINGS: Final = 40

Quantity = Literal["all", "rates", "mechanism", "errors"]
QUANTITIES = ("all", "rates", "mechanism", "errors")


@dataclass(frozen=True, eq=False)
class Rate:
    """One rate of one group, over the rows of that group."""

    name: str  #: "fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy", "precision"
    group: int
    u: tuple[Floats, Floats]  #: numerator of each row at t = 0 and at t = 1
    v: tuple[Floats, Floats]  #: denominator likewise

    def gap(self, theta: float) -> tuple[Floats, Floats]:
        """u − θ v at t = 0 and at t = 1."""
        return self.u[0] - theta * self.v[0], self.u[1] - theta * self.v[1]


def rates_of_group(
    group: int, n: int, y: Floats | None, h: Floats | None, quantity: Quantity
) -> Iterator[Rate]:
    """The rates asked for, of a group with n rows, recorded labels y and decisions h."""
    no, yes = np.zeros(n), np.ones(n)
    if quantity in ("all", "rates"):
        yield Rate("fair_rate", group, (no, yes), (yes, yes))
    if y is not None and quantity in ("all", "mechanism"):
        yield Rate("mechanism_0", group, (y, no), (yes, no))
        yield Rate("mechanism_1", group, (no, y), (no, yes))
    if h is not None and quantity in ("all", "errors"):
        yield Rate("tpr", group, (no, h), (no, yes))
        yield Rate("fpr", group, (h, no), (yes, no))
        yield Rate("accuracy", group, (1 - h, h), (yes, yes))
        yield Rate("precision", group, (no, h), (h, h))


def check_quantity(quantity: Any, y: Any, decisions: Any) -> None:
    """Refuse a word that is none, and one without the arrays it is about."""
    check_choice("quantity", quantity, QUANTITIES, MetricError)
    for word, name, given in (("mechanism", "y", y), ("errors", "decisions", decisions)):
        if quantity == word and given is None:
            raise MetricError(f"quantity is {word!r} and {name} is None: give {name}")


def expected(rate: Rate, m: Floats) -> float:
    """What a posterior says of the rate; NaN where it has no rows."""
    top, bottom = rate.u[0] + m * (rate.u[1] - rate.u[0]), expected_rows(rate, m)
    return float(top.sum()) / bottom if bottom > 0 else math.nan


def expected_rows(rate: Rate, m: Floats) -> float:
    """Rows in the denominator of the rate, as a posterior expects them."""
    return float((rate.v[0] + m * (rate.v[1] - rate.v[0])).sum())


def influence_spread(rate: Rate, m: Floats) -> Floats:
    """Standard deviation of each row's influence on the rate that the posterior leaves."""
    theta = expected(rate, m)
    bottom = expected_rows(rate, m)
    if not bottom > 0:
        return np.zeros(len(m))
    at_0, at_1 = rate.gap(theta)
    return np.sqrt(m * (1 - m)) * np.abs(at_1 - at_0) / bottom


def group_rows(ids: Positions) -> list[Positions]:
    """The rows of each group."""
    return [np.flatnonzero(ids == g) for g in range(int(ids.max()) + 1)]


@dataclass(frozen=True, eq=False)
class ReviewedTable:
    """Checked arrays of all rows; weight and spread are 0 where a row was not drawn."""

    truth: Floats
    y: Floats
    ids: Positions
    h: Floats | None
    m: Floats | None
    weight: Floats
    spread: Floats
    level: float


@dataclass(frozen=True, eq=False)
class Ratio:
    """A ratio, its limits, and the variance of it as a rate of a population."""

    value: float
    low: float
    high: float
    n: int
    few: bool
    reliance: float
    variance: float  #: of the value for a population of which the table is a draw
    freedom: float


def ratio_of(rows: ReviewedTable, rate: Rate, where: Positions) -> Ratio:
    """One rate from the reviewed rows of its group."""
    t = rows.truth[where]
    known = ~np.isnan(t)
    t, weight, spread = t[known], rows.weight[where][known], rows.spread[where][known]
    u, v = (np.where(t == 1, at[1][known], at[0][known]) for at in (rate.u, rate.v))
    n, ones = int(v.sum()), int(u.sum())
    if not n:
        return Ratio(math.nan, 0.0, 1.0, 0, True, 0.0, math.inf, LEAST_FREEDOM)
    if rows.m is None:
        totals, hats = (0.0, 0.0), (np.zeros(len(t)), np.zeros(len(t)))
    else:
        m = rows.m[where]
        full = [at[0] + m * (at[1] - at[0]) for at in (rate.u, rate.v)]
        totals = float(full[0].sum()), float(full[1].sum())
        hats = full[0][known], full[1][known]
    (top, bottom), trust = least_variance((u, v), hats, totals, weight, spread)
    theta = min(max(top / bottom, 0.0), 1.0)
    answers = _Answers.of(rows, where, known)
    draw = _Draw.of(rate, known, hats, trust, answers, weight, spread)
    draw = draw.with_unseen(rate, answers, theta, float(weight.mean()))
    low, high = draw.limits(top, bottom, theta, quantile((1 + rows.level) / 2))
    few = min(ones, n - ones) < FEW
    return Ratio(theta, low, high, n, few, trust, *draw.in_population(theta, bottom))


def least_variance(
    parts: tuple[Floats, Floats],
    hats: tuple[Floats, Floats],
    totals: tuple[float, float],
    weight: Floats,
    spread: Floats,
) -> tuple[tuple[float, float], float]:
    """Numerator and denominator of a ratio, and their λ.

    Args:
        parts: u and v of reviewed rows.
        hats: what the posterior expects of them.
        totals: sums of these over all rows of the group.
        weight: of reviewed rows.
        spread: what a squared residual of each adds to the variance.
    """
    alone = difference_totals(parts, hats, totals, weight, 0.0)
    trust, (top, bottom) = 0.0, alone
    for _ in range(3):
        theta = min(max(top / bottom, 0.0), 1.0)
        a, b = parts[0] - theta * parts[1], hats[0] - theta * hats[1]
        size = float(spread @ (b * b))
        prior = _PRIOR_ROWS * size / len(b)
        if size > 0:
            trust = min(max((float(spread @ (a * b)) + prior) / (size + prior), 0.0), 1.0)
        top, bottom = difference_totals(parts, hats, totals, weight, trust)
        if bottom <= 0:  # a denominator that is not positive: the posterior misleads
            return alone, 0.0
    return (top, bottom), trust


def difference_totals(
    parts: tuple[Floats, Floats],
    hats: tuple[Floats, Floats],
    totals: tuple[float, float],
    weight: Floats,
    trust: float,
) -> tuple[float, float]:
    """λ Σ û + Σ W (u − λ û), and the same of v: both unbiased at any λ that is fixed before."""
    top, bottom = (
        trust * total + float(weight @ (part - trust * hat))
        for part, hat, total in zip(parts, hats, totals, strict=True)
    )
    return top, bottom


@dataclass(frozen=True, eq=False)
class _Answers:
    """How probable the answer 1 was to each reviewed row of a group; and cells without a review."""

    chance: Floats
    unseen: tuple[Positions, ...]  #: rows of each such cell, as positions in the group

    @classmethod
    def of(cls, rows: ReviewedTable, where: Positions, known: Bools) -> _Answers:
        """By the answers and by the posterior, or by the mean of the cell where there is none."""
        cell = rows.y[where].astype(np.intp)
        if rows.h is not None:
            cell = 2 * cell + rows.h[where].astype(np.intp)
        own, t, w = cell[known], rows.truth[where[known]], rows.weight[where[known]]
        count, sizes = np.bincount(own, minlength=4), np.bincount(cell, minlength=4)
        share = (_OTHER / (count + 2 * _OTHER))[own]
        if rows.m is None:
            mean = np.bincount(own, w * t, 4) / np.maximum(np.bincount(own, w, 4), 1e-300)
            expected = mean[own]
        else:
            expected = rows.m[where[known]]
        chance = (1 - _EXPECTED) * t + _EXPECTED * expected
        empty = np.flatnonzero((count == 0) & (sizes > 0))
        unseen = tuple(np.flatnonzero(cell == c) for c in empty)
        return cls(chance * (1 - 2 * share) + share, unseen)


@dataclass(frozen=True, eq=False)
class _Draw:
    """Residuals a − θ b of rows at each answer, and what they add to the moments of the sum."""

    a: Floats
    b: Floats
    weight: Floats
    spread: Floats
    share: Floats  #: how probable the answer was

    @classmethod
    def of(
        cls,
        rate: Rate,
        known: Bools,
        hats: tuple[Floats, Floats],
        trust: float,
        answers: _Answers,
        weight: Floats,
        spread: Floats,
    ) -> _Draw:
        a, b = (
            np.concatenate([at[t][known] - trust * hat for t in (0, 1)])
            for at, hat in zip((rate.u, rate.v), hats, strict=True)
        )
        share = np.concatenate([1 - answers.chance, answers.chance])
        return cls(a, b, np.tile(weight, 2), np.tile(spread, 2), share)

    def with_unseen(self, rate: Rate, answers: _Answers, theta: float, weight: float) -> _Draw:
        """The same with half a row of each cell that has no reviewed one.

        Its answer is the one with the larger residual; it stands for no more rows than the cell
        has.
        """
        added = []
        for rows in answers.unseen:
            t = int(np.argmax([abs(gap[rows[0]]) for gap in rate.gap(theta)]))
            w = min(weight, float(len(rows)))
            one = rate.u[t][rows[0]], rate.v[t][rows[0]], w, w * max(w - 1, 0.0), _OTHER
            added.append(one)
        if not added:
            return self
        own = self.a, self.b, self.weight, self.spread, self.share
        more = np.array(added).T
        return _Draw(*(np.append(each, new) for each, new in zip(own, more, strict=True)))

    def limits(self, top: float, bottom: float, theta: float, z: float) -> Interval:
        """Values of θ that the score test keeps."""
        a, b, first = self.a, self.b, self.share * self.spread
        second = first * self.weight
        v0, v1, v2 = (float(first @ each) for each in (a * a, -2 * a * b, b * b))
        k0, k1, k2, k3 = (
            float(second @ each) for each in (a**3, -3 * a * a * b, 3 * a * b * b, -(b**3))
        )

        def keeps(x: float) -> bool:
            excess = top - x * bottom
            variance = v0 + x * (v1 + x * v2)
            third = k0 + x * (k1 + x * (k2 + x * k3))
            if variance <= 0:
                return False
            return excess * excess <= z * z * (variance - third / variance * excess)

        ends = []
        for end in (0.0, 1.0):
            inside, outside = theta, end
            for _ in range(0 if keeps(end) else _HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if keeps(middle) else (inside, middle)
            ends.append(end if keeps(end) else inside)
        return ends[0], ends[1]

    def in_population(self, theta: float, bottom: float) -> tuple[float, float]:
        """Variance of the rate of a population that the table is a draw of, and its freedom.

        Every row then counts, not only those that were left out.
        """
        each = self.weight**2 * ((self.a - theta * self.b) / bottom) ** 2
        variance = float(self.share @ each)
        if variance <= 0:
            return 0.0, math.inf
        return variance, max(2 * variance**2 / float(self.share @ each**2), LEAST_FREEDOM)
