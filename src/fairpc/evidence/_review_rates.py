"""The rates that a review asks for: ratios of two sums, and limits that hold near 0 and 1.

A rate is Σ u / Σ v over the rows of a group, where u and v of a row depend on its fair decision t.
Both are kept as their values at t = 0 and at t = 1.

Limits are those of a score test, as Wilson's and Fieller's are: a value θ of the rate is kept if
the estimate of Σ (u − θ v) is within z standard errors of 0. Its variance is that of the residuals
at θ, moved to where the sum is 0 by their third moment (Johnson 1978): where few reviewed rows
carry a rate, the variance goes with the estimate. Half of each row's residual is that of its
answer, half what the corrected posterior expects of it, and part of a row with the other answer is
added to each cell of recorded label and decision: a review without a surprise proves little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fairpc.core import Bools, Floats, Positions
from fairpc.evidence._intervals import Interval, quantile

FEW: Final = 5
LEAST_FREEDOM: Final = 6.0
_OTHER: Final = 0.4
"""Rows with the other answer that are added to a cell."""
_EXPECTED: Final = 0.5
"""Share of a residual that is what the posterior expects, in place of what was answered."""
_PRIOR_ROWS: Final = 5.0
"""Rows for which λ = 1 counts: a corrected posterior is worth its word, and λ has its own error."""
_GRAIN: Final = 1000
"""Steps of a posterior between 0 and 1, in a plan."""
_OUTWARD: Final = np.geomspace(1e-4, 1.0, 120)
"""Parts of the way from the estimate to 0 or 1 at which a limit is looked for."""
_HALVINGS: Final = 20

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


def expected(rate: Rate, m: Floats) -> float:
    """What a posterior says of the rate; NaN where it has no rows."""
    top, bottom = rate.u[0] + m * (rate.u[1] - rate.u[0]), expected_rows(rate, m)
    return float(top.sum()) / bottom if bottom > 0 else math.nan


def expected_rows(rate: Rate, m: Floats) -> float:
    """Rows in the denominator of the rate, as a posterior expects them."""
    return float((rate.v[0] + m * (rate.v[1] - rate.v[0])).sum())


@dataclass(frozen=True, eq=False)
class ExpectedReview:
    """The rows of a group, and what a review of them would show if a posterior were right.

    Sums over reviewed rows become sums over all rows, each as often as it is drawn on average and
    answered as the posterior says. So the limits are those of a review, and no formula beside them.
    Rows of one cell with one posterior, to a thousandth, are drawn alike and count together.
    """

    m: Floats  #: posterior
    cell: Positions  #: of recorded label and decision, 0 to 3
    times: Floats  #: how many rows are alike
    first: Positions  #: one of them, by its position in the group

    @classmethod
    def of(cls, m: Floats, cell: Positions) -> ExpectedReview:
        place = cell * (_GRAIN + 1) + np.rint(m * _GRAIN).astype(np.intp)
        _, first, own, times = np.unique(
            place, return_index=True, return_inverse=True, return_counts=True
        )
        return cls(np.bincount(own, m) / times, cell[first], times.astype(np.float64), first)

    def limits(self, rate: Rate, chance: Floats, z: float) -> Interval:
        """Limits of a rate, where rows of the group are drawn with these chances.

        λ is 1, as it is on average where the posterior is right.
        """
        p, m = chance[self.first], self.m
        drawn = p * self.times
        u, v = ([value[self.first] for value in part] for part in (rate.u, rate.v))
        hats = [zero + m * (one - zero) for zero, one in (u, v)]
        a, b = (
            np.concatenate([each - hat for each in part])
            for part, hat in zip((u, v), hats, strict=True)
        )
        count, sizes = (np.bincount(self.cell, each) for each in (drawn, self.times))
        other = (_OTHER / (count + 2 * _OTHER))[self.cell]
        share = drawn * np.array([1 - m, m]) * (1 - 2 * other) + drawn * other
        weight, spread = np.tile(1 / p, 2), np.tile((1 - p) / p**2, 2)
        whole = np.concatenate(u), np.concatenate(v)
        top, bottom = (float(self.times @ hat) for hat in hats)
        unseen = [
            (int(self.first[np.argmax(self.cell == c)]), float(sizes[c]), math.exp(-count[c]))
            for c in np.flatnonzero(sizes)
        ]
        draw = _Draw(a, b, *whole, weight, spread, share.ravel())
        draw = draw.with_unseen(rate, unseen, float(sizes.sum() / count.sum()), top / bottom)
        return draw.limits(top, bottom, math.inf, z)


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
class ReviewedGroup:
    """The reviewed rows of a group."""

    rows: Positions  #: positions in the group
    truth: Floats
    weight: Floats
    spread: Floats
    m: Floats | None  #: posterior of all rows of the group; None where there is none
    #: how probable the answer 1 was, by the answer and by the posterior, or by the mean of the cell
    #: of label and decision where there is none
    chance: Floats
    unseen: tuple[tuple[int, int], ...]  #: a row of each cell without a reviewed one; its rows

    @classmethod
    def of(cls, table: ReviewedTable, where: Positions) -> ReviewedGroup:
        rows = np.flatnonzero(~np.isnan(table.truth[where]))
        t, w, spread = (each[where[rows]] for each in (table.truth, table.weight, table.spread))
        m = None if table.m is None else table.m[where]
        cell = table.y[where].astype(np.intp)
        if table.h is not None:
            cell = 2 * cell + table.h[where].astype(np.intp)
        own, sizes = cell[rows], np.bincount(cell, minlength=4)
        count = np.bincount(own, minlength=4)
        share = (_OTHER / (count + 2 * _OTHER))[own]
        if m is None:
            mean = np.bincount(own, w * t, 4) / np.maximum(np.bincount(own, w, 4), 1e-300)
            expected = mean[own]
        else:
            expected = m[rows]
        chance = (1 - _EXPECTED) * t + _EXPECTED * expected
        empty = np.flatnonzero((count == 0) & (sizes > 0)).tolist()
        unseen = tuple((int(np.argmax(cell == c)), int(sizes[c])) for c in empty)
        return cls(rows, t, w, spread, m, chance * (1 - 2 * share) + share, unseen)


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


def ratio_of(group: ReviewedGroup, rate: Rate, level: float) -> Ratio:
    """One rate from the reviewed rows of its group."""
    at = [[part[t][group.rows] for t in (0, 1)] for part in (rate.u, rate.v)]
    u, v = (np.where(group.truth == 1, one, zero) for zero, one in at)
    n, ones = int(v.sum()), int(u.sum())
    if not n:
        return Ratio(math.nan, 0.0, 1.0, 0, True, 0.0, math.inf, LEAST_FREEDOM)
    if group.m is None:
        totals, hats = (0.0, 0.0), (np.zeros(len(u)), np.zeros(len(u)))
    else:
        m = group.m
        full = [zero + m * (one - zero) for zero, one in (rate.u, rate.v)]
        totals = float(full[0].sum()), float(full[1].sum())
        hats = full[0][group.rows], full[1][group.rows]
    (top, bottom), trust = least_variance((u, v), hats, totals, group.weight, group.spread)
    theta = min(max(top / bottom, 0.0), 1.0)
    a, b = (
        np.concatenate([each - trust * hat for each in part])
        for part, hat in zip(at, hats, strict=True)
    )
    draw = _Draw.of(a, b, np.concatenate(at[0]), np.concatenate(at[1]), group)
    unseen = [(row, float(size), 1.0) for row, size in group.unseen]
    draw = draw.with_unseen(rate, unseen, float(group.weight.mean()), theta)
    carrying = group.weight[v > 0]
    # As far as a rate rests on reviewed rows alone, it rests on those of its denominator.
    size = float(carrying.sum() ** 2 / (carrying @ carrying)) / max(1 - trust, 1e-9)
    low, high = draw.limits(top, bottom, size, quantile((1 + level) / 2))
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

    ``parts`` are u and v of reviewed rows, ``hats`` what the posterior expects of them, ``totals``
    sums of that over all rows of the group, ``spread`` what squared residuals add to the variance.
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
class _Draw:
    """Residuals a − θ b of rows at each answer, and what they add to the moments of the sum."""

    a: Floats
    b: Floats
    u: Floats  #: numerator and denominator themselves, with nothing that the posterior expects
    v: Floats
    weight: Floats
    spread: Floats
    share: Floats  #: how probable the answer was

    @classmethod
    def of(cls, a: Floats, b: Floats, u: Floats, v: Floats, group: ReviewedGroup) -> _Draw:
        """Of residuals at the answer 0, then of those at 1."""
        weight, spread = (np.concatenate([each, each]) for each in (group.weight, group.spread))
        share = np.concatenate([1 - group.chance, group.chance])
        return cls(a, b, u, v, weight, spread, share)

    def with_unseen(
        self, rate: Rate, unseen: Iterable[tuple[int, float, float]], weight: float, theta: float
    ) -> _Draw:
        """The same with part of a row of each cell that has no reviewed one.

        Its answer is the one with the larger residual; it has the mean weight, and stands for no
        more rows than the cell has. ``unseen`` is a row of the cell, its rows, and how probable it
        is that none is reviewed.
        """
        added = []
        for row, n, empty in unseen:
            t = int(np.argmax([abs(gap[row]) for gap in rate.gap(theta)]))
            w = min(weight, n)
            u, v = rate.u[t][row], rate.v[t][row]
            added.append((u, v, u, v, w, w * max(w - 1, 0.0), _OTHER * empty))
        if not added:
            return self
        own = self.a, self.b, self.u, self.v, self.weight, self.spread, self.share
        more = np.array(added).T
        return _Draw(*(np.append(each, new) for each, new in zip(own, more, strict=True)))

    def limits(self, top: float, bottom: float, size: float, z: float) -> Interval:
        """Values of θ that the score test keeps; ``size`` is what the rows it rests on are worth.

        With moments about 0 of what the rows add up to, g, their variance V grows by
        (third − V g / n) / (M − g² / n) with g. M adds squares of all that rows count, V of what
        the draw adds, which is less where most rows were drawn. At g = 0 V is p (1 − p) n for a
        share p of n rows of a large table, and the limits are Wilson's.
        """
        a, b, first = self.a, self.b, self.share * self.spread
        squares, second = (a * a, -2 * a * b, b * b), first * self.weight
        v0, v1, v2 = (float(first @ each) for each in squares)
        m0, m1, m2 = (float((self.share * self.weight**2) @ each) for each in squares)
        k0, k1, k2, k3 = (
            float(second @ each) for each in (a**3, -3 * a * a * b, 3 * a * b * b, -(b**3))
        )

        def keeps(x: Floats | float) -> Bools:
            excess = top - x * bottom
            variance = v0 + x * (v1 + x * v2)
            third = k0 + x * (k1 + x * (k2 + x * k3))
            centred = m0 + x * (m1 + x * m2) - excess * excess / size
            # A few rows that all agree show no spread, and nothing moves the variance.
            slope = (third - variance * excess / size) / np.where(centred > 0, centred, np.inf)
            return np.asarray(excess * excess <= z * z * (variance - slope * excess))

        start, ends = min(max(top / bottom, 0.0), 1.0), []
        for end in (0.0, 1.0):
            # Outward step by step: further out, where `centred` nears 0, values are kept again.
            tried = start + (end - start) * np.append(0.0, _OUTWARD)
            kept = keeps(tried[1:])
            k = int(np.argmin(kept))
            inside, outside = (end, end) if kept.all() else tried[k : k + 2].tolist()
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if keeps(middle) else (inside, middle)
            ends.append(inside)
        return ends[0], ends[1]

    def in_population(self, theta: float, bottom: float) -> tuple[float, float]:
        """Variance of the rate of a population that the table is a draw of, and its freedom.

        The draw of rows to review adds the squares of what the posterior does not explain, the
        draw of the table those of the rate itself: a posterior makes no table larger.
        """
        left, whole = self.a - theta * self.b, self.u - theta * self.v
        each = (self.spread * left**2 + self.weight * whole**2) / bottom**2
        variance = float(self.share @ each)
        if variance <= 0:
            return 0.0, math.inf
        return variance, max(2 * variance**2 / float(self.share @ each**2), LEAST_FREEDOM)
