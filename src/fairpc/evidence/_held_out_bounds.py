"""What held-out labels leave possible in a table without strata: P(Df), the mechanism, scores.

Within the model r(x, s) = P(D=1 | x, s) lies between b0 and b1, b_f = P(D=1 | Df=f, s). Rows that a
classifier ranks highest have a rate of D that b1 cannot be below, those that it ranks lowest a rate
that b0 cannot exceed. The sets are chosen on other folds than those that are counted, by scores of
a classifier that had not seen the rows. Counts are kept, so that everything can be bounded at any
level of confidence, or at the estimates themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from fairpc.core import Floats, MetricError, Positions, Record
from fairpc.evidence._group_range import (
    FairRatePoint,
    GroupRange,
    RateRanges,
    check_difference,
    fair_rate_point,
    rates_within,
)
from fairpc.evidence._intervals import Interval, Sample, clopper_pearson
from fairpc.evidence._joint_limits import GroupLimits, Moved
from fairpc.evidence._top_sets import ClassRates, held_out_rates, joint_bound, set_limits, top_rate

ANYTHING: Final[Interval] = (0.0, 1.0)
LEVEL: Final = 0.95
"""At which labels reject the assumptions, and of the set that a mechanism is kept within."""


@dataclass(frozen=True)
class HeldOutRates:
    """One group: D = 1 in all rows and in the top set, D = 0 in all rows and in the bottom set."""

    group: Any
    positive: ClassRates
    negative: ClassRates

    def __post_init__(self) -> None:
        for rates in (self.positive, self.negative):
            check_rates(rates.whole, rates.top)
            _check_shares(rates.correlation)

    @classmethod
    def of(
        cls,
        group: Any,
        hits: Floats,
        scores: Floats,
        folds: Positions,
        weights: Floats | None,
        persons: Positions | None,
    ) -> HeldOutRates:
        """From scores that are cross-fitted over folds; hits are 1.0 where D is."""
        rest = folds, weights, persons
        rates = held_out_rates(hits, scores, *rest), held_out_rates(1 - hits, -scores, *rest)
        return cls(group, *rates)

    def without_few(self, min_cell: int) -> HeldOutRates:
        """The same with all rows as the top set where that has, or leaves out, fewer."""

        def shown(own: ClassRates) -> ClassRates:
            if not any(0 < n < min_cell for n in (own.n_top, own.n - own.n_top)):
                return own
            varies = float(own.whole.variance > 0)
            return replace(own, n_top=own.n, top=own.whole, correlation=varies)

        return replace(self, positive=shown(self.positive), negative=shown(self.negative))

    @property
    def rate(self) -> float:
        """ρ = P(D = 1 | s)."""
        return self.positive.whole.mean

    def rate_limits(self, tail: float | None) -> Interval:
        """Confidence limits of ρ; the estimate itself where no tail is given."""
        whole = self.positive.whole
        if tail is None:
            return whole.mean, whole.mean
        return clopper_pearson(whole.mean * whole.size, whole.size, tail)

    def limits(
        self, known: Known, tail: float, lowers: list[Moved], uppers: list[Moved]
    ) -> GroupLimits:
        """ρ, m and M at the estimates and as far as the tail allows, within what is known.

        ρ cuts m and M at its own limit: in few rows its estimate is mostly chance.
        """
        least, most = self.rate_limits(tail)
        here, far = known.range(self, self.rate, self.scores(None)), self.scores(tail)
        lowest, highest = 1 - set_limits(self.negative, tail)[1], set_limits(self.positive, tail)[1]
        low, high = known.range(self, most, far).low, known.range(self, least, far).high
        lows = min(lowest, here.low), max(low, here.low)
        highs = min(high, here.high), max(highest, here.high)
        correlations = self.negative.correlation, self.positive.correlation
        own = GroupLimits(self.rate, (least, most), here.low, lows, here.high, highs, *correlations)
        floor, ceiling = known.b0[0], known.b1[1]
        return replace(own, floor=floor, ceiling=ceiling, lowers=lowers, uppers=uppers)

    def scores(self, tail: float | None) -> Interval:
        """m and M, as far in as the tail allows; the held-out rates where none is given."""
        return 1 - top_rate(self.negative, tail), top_rate(self.positive, tail)


def check_rates(*samples: Sample | None) -> None:
    for one in samples:
        if one is not None:
            _check_shares(one.mean)
            if not (0 < one.size < math.inf and 0 <= one.variance < math.inf):
                raise MetricError("a rate has no rows")


def _check_ranges(*ranges: Interval) -> None:
    for low, high in ranges:
        _check_shares(low, high)
        if low > high:
            raise MetricError(f"the range from {low} to {high} is empty")


def _check_shares(*values: float) -> None:
    if not all(0 <= value <= 1 for value in values):
        raise MetricError(f"{values} are not shares from 0 to 1")


@dataclass(frozen=True)
class Known:
    """What is known of one group beforehand: ranges of b0 and of b1."""

    b0: Interval = ANYTHING
    b1: Interval = ANYTHING

    def __post_init__(self) -> None:
        _check_ranges(self.b0, self.b1)

    def fits(self, own: HeldOutRates, tail: float) -> bool:
        """Whether labels leave room for it: b0 is at most m and ρ, b1 at least M and ρ."""
        scores, rates = own.scores(tail), own.rate_limits(tail)
        return self.b0[0] <= min(scores[0], rates[1]) and max(scores[1], rates[0]) <= self.b1[1]

    def range(self, own: HeldOutRates, rate: float, scores: Interval) -> GroupRange:
        """What a group leaves possible at a rate ρ and scores from m to M, within what is known."""
        narrowed = min(scores[0], self.b0[1]), max(scores[1], self.b1[0])
        return GroupRange.of(own.group, own.positive.n, rate, narrowed, self.b0[0], self.b1[1])


@dataclass(frozen=True)
class HeldOutBounds(Record):
    """What held-out labels, and what is known beforehand, leave possible.

    Arrays by group and stratum have one stratum where there are none. What bounds of every kind
    answer is said by :class:`StratumBounds`.
    """

    groups: tuple[HeldOutRates, ...]  #: over all rows, in the order of their codes

    def tail(self, level: float) -> float:
        """Of each of two limits per group, so that all hold together at the level."""
        return (1 - level) / (2 * len(self.groups))

    def without_few(self, min_cell: int) -> Self:
        """What a file keeps: no set that has, or leaves out, fewer people than this."""
        return replace(self, groups=tuple(own.without_few(min_cell) for own in self.groups))


def around(q: Floats, bounds: tuple[Floats, Floats]) -> Floats:
    """Bounds of scores as rows × 2, widened to the scores that a model gives: it may be just
    outside where its own mechanism is estimated in another way."""
    return np.column_stack([np.minimum(bounds[0], q), np.maximum(bounds[1], q)])


@dataclass(frozen=True)
class StratumBounds(HeldOutBounds):
    """Those of one stratum, or of a table without strata."""

    pi: Interval = ANYTHING  #: range of P(Df = 1), where it is known beforehand
    known: tuple[Known, ...] = ()  #: the same for the mechanism of each group
    delta: float = 0.0  #: by how much P(Df = 1 | s) of two groups may differ

    def __post_init__(self) -> None:
        _check_ranges(self.pi)
        _check_shares(self.delta)
        if not self.groups or len(self.known) != len(self.groups):
            raise MetricError("each group needs its rates and what is known of it")

    def parts(self) -> Iterator[tuple[int, list[int], StratumBounds]]:
        """Strata that have rows, each a problem of its own: number, groups in it, and bounds."""
        yield 0, list(range(len(self.groups))), self

    def level_each(self, level: float) -> float:
        return level

    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> StratumBounds:
        """The same within what is known of each group's mechanism and, without strata, P(Df)."""
        return replace(self, known=known, pi=pi)

    def with_delta(self, delta: float) -> StratumBounds:
        """The same where P(Df = 1 | s) of two groups may differ by delta."""
        return replace(self, delta=check_difference("delta", delta))

    def ranges(self) -> tuple[GroupRange, ...]:
        """What each group leaves possible, at the estimates."""
        return tuple(known.range(g, g.rate, g.scores(None)) for g, known in self._each())

    def possible(self, tail: float | None = None) -> Floats:
        """Ends of the P(Df = 1 | s) that each group by itself leaves possible, [group, end].

        At the estimates, or their confidence limits, each wrong with the probability of the tail.
        """
        if tail is None:
            return np.array([(own.lower, own.upper) for own in self.ranges()])
        found = []
        for g, known in self._each():
            low, high = 1 - joint_bound(g.negative, tail), joint_bound(g.positive, tail)
            inside = [known.range(g, rate, g.scores(tail)) for rate in g.rate_limits(tail)]
            # Of both limits of ρ the one that leaves more counts.
            low = max(low, min(own.lower for own in inside))
            found.append((low, min(high, max(own.upper for own in inside))))
        return np.array(found)

    def differences(self, level: float = LEVEL) -> RateRanges:
        """By how much fair rates must differ, ``least()``, and may, ``most()``."""
        n = len(self.groups)
        tail = (1 - level) / max(n * (n - 1), 1)
        names = tuple(g.group for g in self.groups)
        return RateRanges(names, self.possible(), self.possible(tail), tail)

    def rejected(self, level: float = LEVEL) -> bool:
        """Whether fair rates must differ by more than ``delta``, or contradict what is known."""
        tail = self.tail(level)
        if not all(known.fits(g, tail) for g, known in self._each()):
            return True
        if self.differences(level).least().limit > self.delta:
            return True
        possible = self.possible(tail)
        return bool(possible[:, 0].max() > self.pi[1] or possible[:, 1].min() < self.pi[0])

    def rate_set(self, level: float, share: Floats | None = None) -> Interval:
        """Confidence set of P(Df = 1), by separate intervals of the groups; lower > upper where
        rejected, but it may be just not empty there. Where rates may differ, of the whole table by
        P(S, A), its ``share``, [s, a], or of any group without it."""
        tail = self.tail(level)
        if not all(known.fits(g, tail) for g, known in self._each()):
            return 1.0, 0.0
        own = self._stated(self.possible(tail))
        rates = rates_within(own, self.delta)
        if self.delta == 0 or not rates:
            return max(low for low, _ in own) - self.delta, min(high for _, high in own)
        if share is None:
            return min(low for low, _ in rates), max(high for _, high in rates)
        low, high = (share.sum(axis=1) / share.sum() @ np.array(rates)).tolist()
        return low, high

    def point_set(self) -> Interval:
        """P(Df = 1) that the estimates leave; lower > upper where chance, or a wrong assumption,
        leaves none."""
        own = self._stated(self.possible())
        return max(low for low, _ in own), min(high for _, high in own)

    def point(self) -> FairRatePoint:
        """The point of the set by the rule of ``fair_rate_point``."""
        return fair_rate_point(self.ranges(), delta=self.delta, pi=self.pi)

    def mechanism_range(self, level: float = LEVEL) -> Floats:
        """Least and largest P(D = 1 | Df = f, s), [s, f, end]; NaN where rejected.

        Each range holds at the level. In draws all did together, see ``benchmarks/quotable.py``:
        the errors that widen one range widen the others.
        """
        n = len(self.groups)
        if self.rejected(level):
            return np.full((n, 2, 2), math.nan)
        each = self._limited((1 - level) / (2 * n))
        return np.array([own.mechanism() for own in each])

    def score_bounds(
        self,
        low: Floats,
        high: Floats,
        groups: Positions,
        level: float | None = None,
        strata: Positions | None = None,
        *,
        rejected_at: float = LEVEL,
    ) -> tuple[Floats, Floats]:
        """Least and largest P(Df = 1 | x, s) of rows whose P(D = 1 | x, s) lies from low to high.

        Without a level at the estimates. With one, those of each row hold at it; ``low`` and
        ``high`` are then confidence limits of r, whose error counts with those of all other rates,
        as squares. ``strata`` are numbers of the rows' strata, -1 where one is not known. NaN where
        the assumptions are rejected, at ``LEVEL`` if none is given.
        """
        found = np.full((2, len(low)), math.nan)
        if self.rejected(rejected_at if level is None else level):
            return found[0], found[1]
        if level is not None:
            each, r = self._limited((1 - level) / (4 * len(self.groups))), (low + high) / 2
            for g, limits in enumerate(each):
                here = np.flatnonzero(groups == g)
                found[:, here] = limits.scores((low[here], r[here], high[here]))
            # Chance may leave a row nothing: what lies between its ends is nearest to both.
            crossed = found[0] > found[1]
            found[:, crossed] = found[:, crossed].mean(axis=0)
            return found[0], found[1]
        own = self._stated(self.possible())
        middle = sum(self.point_set()) / 2
        rates = rates_within(own, self.delta) or ((middle, middle),) * len(own)
        for g, (range_, possible) in enumerate(zip(self.ranges(), rates, strict=True)):
            here = np.flatnonzero(groups == g)
            start, stop = max(possible[0], range_.lower), min(possible[1], range_.upper)
            if start > stop:
                start = stop = min(max((start + stop) / 2, possible[0]), possible[1])
            found[:, here] = range_.scores(low[here], high[here], (start, stop))
        return found[0], found[1]

    def _each(self) -> Iterator[tuple[HeldOutRates, Known]]:
        return zip(self.groups, self.known, strict=True)

    def _stated(self, possible: Floats) -> list[Interval]:
        """What groups leave, within the P(Df = 1) that is known beforehand."""
        return [(max(low, self.pi[0]), min(high, self.pi[1])) for low, high in possible.tolist()]

    def _limited(self, tail: float) -> Iterator[GroupLimits]:
        """Limits of each group, and the bounds of its P(Df = 1) by the others and by knowledge."""
        here, far = self.possible(), self.possible(tail)
        for s, (g, known) in enumerate(self._each()):
            others = [t for t in range(len(self.groups)) if t != s]
            lowers = [(here[t, 0] - self.delta, far[t, 0] - self.delta) for t in others]
            uppers = [(here[t, 1] + self.delta, far[t, 1] + self.delta) for t in others]
            low, high = self.pi
            yield g.limits(known, tail, [*lowers, (low, low)], [*uppers, (high, high)])
