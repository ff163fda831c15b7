"""What held-out labels leave possible: P(Df), the mechanism, and the scores of Df.

Within the model r(x, s) = P(D=1 | x, s) lies between b0 and b1, b_f = P(D=1 | Df=f, s). Rows that a
classifier ranks highest have a rate of D that b1 cannot be below, those that it ranks lowest a rate
that b0 cannot exceed. The sets are chosen on other folds than those that are counted, by scores of
a classifier that had not seen the rows. Counts are kept, so that everything can be bounded at any
level of confidence, or at the estimates themselves.

Without strata there is one, and its bounds have a closed form (:class:`StratumBounds`). Where each
stratum has a mechanism of its own, each is that problem of its rows (:class:`WithinBounds`). Where
strata share it, the rates of two groups lie on a line over them, which maps the mechanism of one
onto that of the other (:mod:`fairpc.evidence._lines`): a box of b0 and b1 per group
(:class:`SharedBounds`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from fairpc.core import FileFormatError, Floats, MetricError, Positions, Record, record
from fairpc.evidence._differences import NO_DELTA, RateRanges, check_difference
from fairpc.evidence._identified import GroupRange, rates_within
from fairpc.evidence._intervals import Interval, Sample, clopper_pearson, rate_sample, some_of
from fairpc.evidence._joint_limits import GroupLimits, Moved
from fairpc.evidence._lines import (
    INFORMATIVE,
    Box,
    CountedStrata,
    Line,
    LineLimits,
    looked_at,
    reference_ranges,
    region,
    scores_within,
)
from fairpc.evidence._point import FairRatePoint, fair_rate_point
from fairpc.evidence._strata import level_of_each
from fairpc.evidence._top_sets import ClassRates, held_out_rates, joint_bound, top_rate

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
            _check_rates(rates.whole, rates.top)
            _check_shares(rates.correlation)

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

    def possible(self, tail: float) -> Interval:
        """Confidence limits of the P(Df = 1) that this group leaves possible."""
        return 1 - joint_bound(self.negative, tail), joint_bound(self.positive, tail)

    def limits(self, known: Known, tail: float) -> GroupLimits:
        """ρ, m and M at the estimates and as far as the tail allows, within what is known."""
        here, far = (known.range(self, self.rate, self.scores(t)) for t in (None, tail))
        return GroupLimits(
            rate=self.rate,
            rate_limits=self.rate_limits(tail),
            low=(here.low, max(far.low, here.low)),
            high=(here.high, min(far.high, here.high)),
            low_correlation=self.negative.correlation,
            high_correlation=self.positive.correlation,
            floor=known.b0[0],
            ceiling=known.b1[1],
        )

    def scores(self, tail: float | None) -> Interval:
        """m and M, as far in as the tail allows; the held-out rates where none is given."""
        return 1 - top_rate(self.negative, tail), top_rate(self.positive, tail)


def _check_rates(*samples: Sample | None) -> None:
    for one in samples:
        if one is not None:
            _check_shares(one.mean)
            if not (0 < one.size < math.inf and 0 <= one.variance < math.inf):
                raise MetricError("a rate has no rows")


def _check_shares(*values: float) -> None:
    if not all(0 <= value <= 1 for value in values):
        raise MetricError(f"{values} are not shares from 0 to 1")


@dataclass(frozen=True)
class Known:
    """What is known of one group beforehand: ranges of b0 and of b1."""

    b0: Interval = ANYTHING
    b1: Interval = ANYTHING

    def __post_init__(self) -> None:
        _check_shares(*self.b0, *self.b1)

    def fits(self, own: HeldOutRates, tail: float) -> bool:
        """Whether labels leave room for it: b0 is at most m and ρ, b1 at least M and ρ."""
        scores, rates = own.scores(tail), own.rate_limits(tail)
        return self.b0[0] <= min(scores[0], rates[1]) and max(scores[1], rates[0]) <= self.b1[1]

    def range(self, own: HeldOutRates, rate: float, scores: Interval) -> GroupRange:
        """What a group leaves possible at a rate ρ and scores from m to M, within what is known."""
        narrowed = min(scores[0], self.b0[1]), max(scores[1], self.b1[0])
        return GroupRange.of(own.group, own.positive.n, rate, narrowed, self.b0[0], self.b1[1])

    def anchored(self, hits: Sequence[float], totals: Sequence[float], tail: float) -> Known:
        """The same, cut by rows whose fair decision is known: of each f, those with D = 1."""
        b0, b1 = (
            _narrowed(box, hits[f], totals[f], tail) for f, box in enumerate((self.b0, self.b1))
        )
        return Known(b0, b1)


def _narrowed(box: Interval, hits: float, n: float, tail: float) -> Interval:
    """The range of P(D = 1 | Df = f, s), cut by rows of which Df = f is known."""
    if n <= 0:
        return box
    low, high = clopper_pearson(hits, n, tail)
    low = max(box[0], low)
    return low, max(min(box[1], high), low)


@dataclass(frozen=True)
class _Bounds(Record, ABC):
    """What held-out labels, and what is known beforehand, leave possible.

    Arrays by group and stratum have one stratum where there are none.
    """

    groups: tuple[HeldOutRates, ...]  #: over all rows, in the order of their codes

    @abstractmethod
    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> _Bounds:
        """The same within what is known of each group's mechanism and, without strata, P(Df)."""

    @abstractmethod
    def anchored(self, hits: Floats, totals: Floats, level: float) -> _Bounds:
        """The same, cut by rows whose fair decision is known.

        Args:
            hits: how many of them have D = 1, by group, stratum and fair decision, [s, a, f].
            totals: how many there are.
            level: of the set that they cut; each of their limits has half of its tail.
        """

    @abstractmethod
    def rate_set(self, level: float, share: Floats | None = None) -> Interval:
        """Confidence set of P(Df = 1); lower > upper where the assumptions are rejected.

        ``share`` is P(S, A), [s, a]; without strata it is not needed.
        """

    @abstractmethod
    def with_delta(self, delta: float) -> _Bounds:
        """The same where P(Df = 1 | s) of two groups may differ by delta."""

    @abstractmethod
    def rejected(self, level: float = LEVEL) -> bool | list[int]:
        """Whether labels contradict the assumptions; the strata in which they do, if each has a
        mechanism of its own."""

    @abstractmethod
    def mechanism_range(self, level: float = LEVEL) -> Floats:
        """Least and largest P(D = 1 | Df = f, s), [s, f, end], or [s, a, f, end] where each stratum
        has its own mechanism; NaN where rejected."""

    @abstractmethod
    def score_bounds(
        self,
        low: Floats,
        high: Floats,
        groups: Positions,
        level: float | None = None,
        strata: Positions | None = None,
    ) -> tuple[Floats, Floats]:
        """Least and largest P(Df = 1 | x, s) of rows whose P(D = 1 | x, s) lies from low to high.

        Without a level at the estimates. ``strata`` are numbers of the rows' strata, -1 where one
        is not known. NaN where the assumptions are rejected, at ``LEVEL`` if none is given.
        """

    def around(
        self,
        q: Floats,
        low: Floats,
        high: Floats,
        groups: Positions,
        level: float | None,
        strata: Positions | None = None,
    ) -> Floats:
        """The same as rows × 2, widened to the scores that a model gives: it may be just outside
        where its own mechanism is estimated in another way."""
        least, most = self.score_bounds(low, high, groups, level, strata)
        return np.column_stack([np.minimum(least, q), np.maximum(most, q)])

    def tail(self, level: float) -> float:
        """Of each of two limits per group, so that all hold together at the level."""
        return (1 - level) / (2 * len(self.groups))


def _anchored(known: tuple[Known, ...], hits: Floats, totals: Floats, tail: float) -> Any:
    each = zip(known, hits.sum(axis=1).tolist(), totals.sum(axis=1).tolist(), strict=True)
    return tuple(own.anchored(successes, n, tail) for own, successes, n in each)


@dataclass(frozen=True)
class StratumBounds(_Bounds):
    """Those of one stratum, or of a table without strata."""

    pi: Interval = ANYTHING  #: range of P(Df = 1), where it is known beforehand
    known: tuple[Known, ...] = ()  #: the same for the mechanism of each group
    delta: float = 0.0  #: by how much P(Df = 1 | s) of two groups may differ

    def __post_init__(self) -> None:
        _check_shares(*self.pi, self.delta)
        if not self.groups or len(self.known) != len(self.groups):
            raise MetricError("each group needs its rates and what is known of it")

    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> StratumBounds:
        return replace(self, known=known, pi=pi)

    def with_delta(self, delta: float) -> StratumBounds:
        return replace(self, delta=check_difference("delta", delta))

    def anchored(self, hits: Floats, totals: Floats, level: float) -> StratumBounds:
        return replace(self, known=_anchored(self.known, hits, totals, self.tail(level) / 2))

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
            low, high = g.possible(tail)
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
        """That of the separate intervals of the groups: it may be just not empty where they are
        rejected. Where rates may differ, of the whole table, or of any group without its shares."""
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
        each = self._limited((1 - level) / (2 * n - 1))
        return np.array([own.mechanism(lowers, uppers) for own, lowers, uppers in each])

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
        """With a level, those of each row hold at it; ``low`` and ``high`` must then hold what is
        not known of r itself."""
        found = np.full((2, len(low)), math.nan)
        if self.rejected(rejected_at if level is None else level):
            return found[0], found[1]
        if level is not None:
            each = self._limited((1 - level) / (4 * len(self.groups) - 2))
            for g, (limits, *bounds) in enumerate(each):
                here = np.flatnonzero(groups == g)
                found[:, here] = limits.scores(low[here], high[here], *bounds)
            # Chance may leave a row nothing: what lies between its ends is nearest to both.
            crossed = found[0] > found[1]
            found[:, crossed] = found[:, crossed].mean(axis=0)
            return found[0], found[1]
        own = self._stated(self.possible())
        middle = sum(self.point_set()) / 2
        rates = rates_within(own, self.delta) or ((middle, middle),) * len(own)
        for g, (range_, possible) in enumerate(zip(self.ranges(), rates, strict=True)):
            here = np.flatnonzero(groups == g)
            found[:, here] = _extremes(range_, low[here], high[here], possible)
        return found[0], found[1]

    def _each(self) -> Iterator[tuple[HeldOutRates, Known]]:
        return zip(self.groups, self.known, strict=True)

    def _stated(self, possible: Floats) -> list[Interval]:
        """What groups leave, within the P(Df = 1) that is known beforehand."""
        return [(max(low, self.pi[0]), min(high, self.pi[1])) for low, high in possible.tolist()]

    def _limited(self, tail: float) -> Iterator[tuple[GroupLimits, list[Moved], list[Moved]]]:
        """Limits of each group, and the bounds of its P(Df = 1) by the others and by knowledge."""
        here, far = self.possible(), self.possible(tail)
        for s, (g, known) in enumerate(self._each()):
            others = [t for t in range(len(self.groups)) if t != s]
            lowers = [(here[t, 0] - self.delta, far[t, 0] - self.delta) for t in others]
            uppers = [(here[t, 1] + self.delta, far[t, 1] + self.delta) for t in others]
            low, high = self.pi
            yield g.limits(known, tail), [*lowers, (low, low)], [*uppers, (high, high)]


def _extremes(
    own: GroupRange, low: Floats, high: Floats, possible: Interval
) -> tuple[Floats, Floats]:
    """Least and largest q of rows of one group over everything that it leaves."""
    least, most = np.ones(len(low)), np.zeros(len(low))
    start, stop = max(possible[0], own.lower), min(possible[1], own.upper)
    if start > stop:
        start = stop = min(max((start + stop) / 2, possible[0]), possible[1])
    for pi in own.corners(start, stop):
        for q in own.score_ends(low, pi):
            np.minimum(least, q, out=least)
        for q in own.score_ends(high, pi):
            np.maximum(most, q, out=most)
    return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)


@dataclass(frozen=True)
class WithinBounds(_Bounds):
    """Those where each stratum has a mechanism of its own."""

    #: of each stratum, of the groups that have rows in it; None where none has
    strata: tuple[StratumBounds | None, ...]

    def __post_init__(self) -> None:
        names = [g.group for g in self.groups]
        for own in self.strata:
            inside = [] if own is None else [g.group for g in own.groups]
            if inside != [name for name in names if name in inside]:
                raise MetricError("a stratum has other groups than the table")

    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> WithinBounds:
        """What is known holds in every stratum."""
        return self._each(lambda a, own: replace(own, known=tuple(known[s] for s in self.of(a))))

    def anchored(self, hits: Floats, totals: Floats, level: float) -> WithinBounds:
        each = self.level_each(level)
        return self._each(
            lambda a, own: own.anchored(*(n[self.of(a), a][:, None] for n in (hits, totals)), each)
        )

    def of(self, a: int) -> list[int]:
        """The groups that have rows in a stratum, by their codes."""
        names, own = [g.group for g in self.groups], self.strata[a]
        return [] if own is None else [names.index(g.group) for g in own.groups]

    def level_each(self, level: float) -> float:
        """Of each stratum, so that all hold together at the level."""
        return level_of_each(level, len(self.strata))

    def _rate_sets(self, level: float) -> list[Interval]:
        each = self.level_each(level)
        return [ANYTHING if own is None else own.rate_set(each) for own in self.strata]

    def rejected(self, level: float = LEVEL) -> list[int]:
        """Strata in which no P(Df) fits every group."""
        each = self.level_each(level)
        pairs = enumerate(self.strata)
        return [a for a, own in pairs if own is not None and own.rejected(each)]

    def with_delta(self, delta: float) -> WithinBounds:
        return self._each(lambda a, own: own.with_delta(delta))

    def mechanism_range(self, level: float = LEVEL) -> Floats:
        """Least and largest P(D = 1 | Df = f, s, a), [s, a, f, end].

        Those of each stratum hold at its share of the level; NaN where a stratum is rejected, and
        anything in a subgroup without rows.
        """
        found = np.tile(np.array(ANYTHING), (len(self.groups), len(self.strata), 2, 1))
        for a, own in enumerate(self.strata):
            if own is not None:
                found[self.of(a), a] = own.mechanism_range(self.level_each(level))
        return found

    def rate_set(self, level: float, share: Floats | None = None) -> Interval:
        """Rejected where some stratum leaves nothing."""
        sets = self._rate_sets(level)
        if share is None or any(low > high for low, high in sets):
            return 1.0, 0.0
        low, high = (share.sum(axis=0) @ np.array(sets)).tolist()
        return low, high

    def score_bounds(
        self,
        low: Floats,
        high: Floats,
        groups: Positions,
        level: float | None = None,
        strata: Positions | None = None,
    ) -> tuple[Floats, Floats]:
        """A row whose stratum is not known may be of any. Of a subgroup that no row was in, nothing
        is known."""
        at = np.full(len(low), -1, np.intp) if strata is None else strata
        at_level = None if level is None else self.level_each(level)
        rejected_at = self.level_each(LEVEL)
        least, most = np.full(len(low), math.inf), np.full(len(low), -math.inf)
        for a, own in enumerate(self.strata):
            for place, s in enumerate(self.of(a)):
                here = np.flatnonzero((groups == s) & ((at == a) | (at < 0)))
                if own is None or not len(here):
                    continue
                of = np.full(len(here), place, np.intp)
                found = own.score_bounds(
                    low[here], high[here], of, at_level, rejected_at=rejected_at
                )
                least[here] = np.minimum(least[here], found[0])
                most[here] = np.maximum(most[here], found[1])
            unseen = (at == a) & ~np.isin(groups, self.of(a))
            least[unseen], most[unseen] = ANYTHING
        return least, most

    def _each(self, change: Any) -> WithinBounds:
        strata = tuple(None if own is None else change(a, own) for a, own in enumerate(self.strata))
        return replace(self, strata=strata)


@dataclass(frozen=True)
class SharedBounds(_Bounds):
    """Those where labels are altered alike in all strata of a group."""

    #: rate of D = 1 in each subgroup, [s][a]; None where it has no rows
    cells: tuple[tuple[Sample | None, ...], ...]
    known: tuple[Known, ...]  #: what is known of each group's mechanism beforehand

    def __post_init__(self) -> None:
        if not len(self.groups) == len(self.cells) == len(self.known):
            raise MetricError("each group needs its rates and what is known of it")
        if len({len(own) for own in self.cells}) != 1:
            raise MetricError("each group needs a rate per stratum")
        for own in self.cells:
            _check_rates(*own)

    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> SharedBounds:
        return replace(self, known=known)

    def anchored(self, hits: Floats, totals: Floats, level: float) -> SharedBounds:
        return replace(self, known=_anchored(self.known, hits, totals, self.tail(level) / 2))

    def with_delta(self, delta: float) -> SharedBounds:
        if check_difference("delta", delta) > 0:
            raise MetricError(NO_DELTA)
        return self

    def rejected(self, level: float = LEVEL) -> bool:
        return self.boxes(level) is None

    def mechanism_range(self, level: float = LEVEL) -> Floats:
        """All ranges hold together at the level."""
        boxes = self.boxes(level)
        return np.full((len(self.groups), 2, 2), math.nan) if boxes is None else np.array(boxes)

    def stratum_rates(self, mechanism: Floats, prior_rows: float) -> Floats:
        """π_a that fits the rates of all groups best, where b0 and b1 are these, [s, f]; per a.

        Least squares: a group whose labels tell more of Df counts for more. Each stratum has prior
        rows at the rate of the whole table.
        """
        n, rates = self._counts
        b0, b1 = mechanism[:, :1], mechanism[:, 1:]
        weight = n * np.square(b1 - b0)
        own = np.where(n > 0, (rates - b0) / (b1 - b0), 0.0)
        whole = float((weight * own).sum() / weight.sum())
        prior = prior_rows * float(weight.sum() / n.sum())
        total = weight.sum(axis=0) + prior
        found = (weight * own).sum(axis=0) + prior * whole
        return np.where(total > 0, found / np.maximum(total, 1e-300), whole)

    def boxes(self, level: float | None) -> tuple[Box, ...] | None:
        """b0 and b1 of each group; None where labels contradict the assumptions.

        Without a level at the estimates, if the lines are known; else with the error of the lines
        and of the held-out rates, all together at the level.
        """
        tested = _tested(self, LEVEL if level is None else level)
        if level is not None or tested is None:
            return tested
        return self._estimated() or tested

    def rate_set(self, level: float, share: Floats | None = None) -> Interval:
        """P(D = 1 | s) = b0 + (b1 − b0) P(Df = 1 | s), whatever the strata are. Half of the error
        is for the boxes, half for the rates."""
        boxes = self.boxes((1 + level) / 2)
        if boxes is None or share is None:
            return 1.0, 0.0
        rates = np.array([g.rate_limits(self.tail(level) / 2) for g in self.groups])
        each = [scores_within(rates[s, :1], rates[s, 1:], box) for s, box in enumerate(boxes)]
        low, high = (float(share.sum(axis=1) @ own) for own in np.array(each)[:, :, 0].T)
        return low, high

    def score_bounds(
        self,
        low: Floats,
        high: Floats,
        groups: Positions,
        level: float | None = None,
        strata: Positions | None = None,
    ) -> tuple[Floats, Floats]:
        """Of the stratum of a row only its P(D = 1 | x, s) depends."""
        found = np.full((2, len(low)), math.nan)
        for s, box in enumerate(self.boxes(level) or ()):
            here = groups == s
            found[:, here] = scores_within(low[here], high[here], box)
        return found[0], found[1]

    def nearest(self, mechanism: Floats, level: float) -> Floats:
        """The mechanism [s, f] that is possible at a level and nearest to this one.

        The same where nothing is possible: then it is the assumptions that do not fit.
        """
        each, limits, at = self._limited(level)
        wanted = mechanism[self._order]
        whole = region(each, limits)
        if whole.empty:
            return mechanism
        near = min(wanted[0, 0], limits.b0[0]), max(wanted[0, 1], limits.b1[0])
        values = (np.union1d(*pair) for pair in zip((whole.b00, whole.b10), near, strict=True))
        found = looked_at(each, limits, *values)
        i, j = np.nonzero(found.distance <= 1)
        away = np.square(found.b00[i] - wanted[0, 0]) + np.square(found.b10[j] - wanted[0, 1])
        first = float(found.b00[i[np.argmin(away)]]), float(found.b10[j[np.argmin(away)]])
        own = self._counted.limits(1 - level, ())
        result = np.column_stack(
            [np.minimum(wanted[:, 0], own.b0), np.maximum(wanted[:, 1], own.b1)]
        )
        result[0] = first
        for k, line in enumerate(each, start=1):
            result[at[k]] = _on_line(line, limits, k, first, wanted[at[k]])
        boxes = np.array([(known.b0, known.b1) for known in self.known])
        back: Floats = result[np.argsort(self._order)]
        return np.asarray(np.clip(back, boxes[:, :, 0], boxes[:, :, 1]), np.float64)

    @cached_property
    def _order(self) -> Positions:
        """The largest group first: lines are against it."""
        n = np.array([g.positive.n for g in self.groups])
        return np.argsort(-n, kind="stable")

    @cached_property
    def _counts(self) -> tuple[Floats, Floats]:
        """Effective rows and rates [s, a]; no rows, no rate."""
        n = [[0.0 if c is None else c.size for c in own] for own in self.cells]
        rates = [[math.nan if c is None else c.mean for c in own] for own in self.cells]
        return np.array(n), np.array(rates)

    @cached_property
    def _counted(self) -> CountedStrata:
        n, rates = self._counts
        tops = tuple((((g := self.groups[s]).negative, g.positive),) for s in self._order.tolist())
        return CountedStrata(n[self._order], rates[self._order], tops)

    @cached_property
    def _lines(self) -> tuple[Line | None, ...]:
        """Of each group but the largest; None where no stratum informs it."""
        return tuple(self._counted.line(s) for s in range(1, len(self.groups)))

    def _limited(self, level: float) -> tuple[tuple[Line, ...], LineLimits, list[int]]:
        """Lines that are informed, their limits, and the places of their groups in the order."""
        at = [0, *(s for s, line in enumerate(self._lines, start=1) if line is not None)]
        each = tuple(line for line in self._lines if line is not None)
        whole = self._counted.limits(1 - level, each)
        return each, replace(whole, b0=whole.b0[at], b1=whole.b1[at]), at

    def tested(self, level: float) -> tuple[Box, ...] | None:
        """The ranges of the confidence set; a group without a line has its held-out rates alone."""
        each, limits, at = self._limited(level)
        found = region(each, limits)
        if found.empty:
            return None
        own = self._counted.limits(1 - level, ())
        boxes: list[Box] = [
            ((0.0, b0), (b1, 1.0)) for b0, b1 in zip(own.b0.tolist(), own.b1.tolist(), strict=True)
        ]
        for place, box in zip(at, found.ranges, strict=True):
            boxes[place] = box
        return self._cut([boxes[place] for place in np.argsort(self._order).tolist()])

    def _estimated(self) -> tuple[Box, ...] | None:
        """The boxes at the best lines; None where a line is not known, or nothing is left."""
        found = [(0.0, 1.0)]
        for line in self._lines:
            if line is None or not _is_known(line):
                return None
            best = int(np.argmin(line.least))
            found.append((float(line.intercept[best]), float(line.slope[best])))
        lines = np.array(found)
        b00, b10 = map(_meeting, reference_ranges(lines, self._limits_in_order()))
        if b00[1] >= b10[0]:
            return None
        bounds = np.clip(lines[:, :1] + lines[:, 1:] * np.array([*b00, *b10]), 0.0, 1.0)
        back = bounds[np.argsort(self._order)].tolist()
        return tuple(((a, b), (c, d)) for a, b, c, d in back)

    def _limits_in_order(self) -> Floats:
        """Per group the least b0, m, M and the largest b1, at the estimates; the largest first.

        A stratum is a set of rows too, so that its rate is none that b0 may exceed.
        """
        n, rates = self._counts
        found = []
        for s in self._order.tolist():
            low, high = self.groups[s].scores(None)
            own, known = rates[s][n[s] >= INFORMATIVE].tolist(), self.known[s]
            low, high = min(low, known.b0[1], *own), max(high, known.b1[0], *own)
            found.append((known.b0[0], low, high, known.b1[1]))
        return np.array(found)

    def _cut(self, boxes: list[Box]) -> tuple[Box, ...] | None:
        """Boxes within what is known; None where it leaves nothing."""
        found: list[Box] = []
        for (b0, b1), known in zip(boxes, self.known, strict=True):
            b0 = max(b0[0], known.b0[0]), min(b0[1], known.b0[1])
            b1 = max(b1[0], known.b1[0]), min(b1[1], known.b1[1])
            if b0[0] > b0[1] or b1[0] > b1[1] or b0[0] >= b1[0] or b0[1] >= b1[1]:
                return None
            found.append((b0, b1))
        return tuple(found)


LabelBounds = StratumBounds | SharedBounds | WithinBounds


@lru_cache(maxsize=32)
def _tested(bounds: SharedBounds, level: float) -> tuple[Box, ...] | None:
    """Of ``tested``, kept: a table in many batches asks for the same boxes again and again."""
    return bounds.tested(level)


def _is_known(line: Line) -> bool:
    """Whether rates differ so much over strata that the slope of their line is bounded."""
    kept = line.least - line.misfit <= line.limit(1 - LEVEL)
    return not (kept[0] or kept[-1])


def _meeting(range_: Interval) -> Interval:
    """A range; where chance leaves none, what lies between its ends is nearest to both."""
    low, high = range_
    return range_ if low <= high else ((low + high) / 2,) * 2


def _on_line(
    line: Line, limits: LineLimits, s: int, first: Sequence[float], wanted: Floats
) -> tuple[float, float]:
    """b0 and b1 of a group on a possible line at the reference's, nearest to those wanted."""
    b00, b10 = first
    rise, start = line.slope * (b10 - b00), line.slope * b00
    left = limits.excess[s - 1] - (line.least - line.misfit)
    room = np.sqrt(np.maximum(left, 0.0) / line.curvature)
    least = np.maximum(np.maximum(0.0, limits.b1[s] - rise) - start, line.intercept - room)
    most = np.minimum(np.minimum(limits.b0[s], 1 - rise) - start, line.intercept + room)
    alpha = np.clip((wanted.sum() - line.slope * (b00 + b10)) / 2, least, np.maximum(least, most))
    b0, b1 = alpha + start, alpha + start + rise
    away = np.square(b0 - wanted[0]) + np.square(b1 - wanted[1])
    away = np.where((left >= 0) & (least <= most), away, math.inf)
    best = int(np.argmin(away))
    return float(b0[best]), float(b1[best])


def label_bounds(
    labels: Positions,
    scores: Floats,
    groups: Positions,
    folds: Positions,
    names: tuple[Any, ...],
    weights: Floats | None = None,
    persons: Positions | None = None,
    *,
    strata: Positions | None = None,
    n_strata: int = 1,
    within: bool = False,
) -> LabelBounds:
    """The bounds of every group, from cross-fitted P(D = 1 | x, s).

    Args:
        labels: 1 for the positive class, 0 for the other.
        scores: of each row, by a classifier that had not seen its fold.
        groups: number of each row's group.
        folds: of each row.
        names: of the groups.
        weights: how many people each row stands for; None where all count alike.
        persons: who each row is about, where persons repeat.
        strata: number of each row's stratum; None without strata.
        n_strata: how many there are.
        within: whether each has a mechanism of its own.
    """
    hits = (labels == 1).astype(np.float64)

    def bounds(here: Positions) -> StratumBounds:
        samples = []
        for g in np.unique(groups[here]).tolist():
            at = here[groups[here] == g]
            who = None if persons is None else np.unique(persons[at], return_inverse=True)[1]
            rest = folds[at], some_of(weights, at), who
            rates = held_out_rates(hits[at], scores[at], *rest)
            other = held_out_rates(1 - hits[at], -scores[at], *rest)
            samples.append(HeldOutRates(names[g], rates, other))
        return StratumBounds(tuple(samples), known=tuple(Known() for _ in samples))

    def cell(s: int, a: int) -> Sample | None:
        at = np.flatnonzero((groups == s) & (strata == a))
        rest = some_of(weights, at), some_of(persons, at)
        return rate_sample(hits[at], *rest) if len(at) else None

    whole = bounds(np.arange(len(labels)))
    if strata is None:
        return whole
    if within:
        inside = [np.flatnonzero(strata == a) for a in range(n_strata)]
        return WithinBounds(whole.groups, tuple(bounds(at) if len(at) else None for at in inside))
    cells = (tuple(cell(s, a) for a in range(n_strata)) for s in range(len(names)))
    return SharedBounds(whole.groups, tuple(cells), whole.known)


def read_bounds(data: Any, n_strata: int | None, *, within: bool) -> LabelBounds:
    """The bounds of ``to_dict`` of a model with so many strata, None for one without."""
    if n_strata is None:
        return record(StratumBounds, data, _WHERE)
    found: WithinBounds | SharedBounds
    if within:
        found = record(WithinBounds, data, _WHERE)
        n = len(found.strata)
    else:
        found = record(SharedBounds, data, _WHERE)
        n = len(found.cells[0])
    if n != n_strata:
        raise FileFormatError("the held-out rates are not of the strata: they were altered")
    return found


_WHERE: Final = "the held-out rates"
