"""Held-out ends of P(D = 1 | x, s), and the scores of Df that they leave possible.

Within the model r(x, s) = P(D=1 | x, s) lies between b0 and b1, b_f = P(D=1 | Df=f, s). Rows that a
classifier ranks highest have a rate of D that b1 cannot be below, those that it ranks lowest a rate
that b0 cannot exceed. The sets are chosen on other folds than those that are counted, by scores of
a classifier that had not seen the rows. Counts are kept, so that P(Df), the mechanism and each
score can be bounded at any level of confidence, or at the estimates themselves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import FileFormatError, Floats, Positions, Record
from fairpc.evidence._crossfit import MIN_SIZE, ClassRates, best_cut, class_rates, joint_bound
from fairpc.evidence._identified import GroupRange
from fairpc.evidence._intervals import Interval, Sample, clopper_pearson, some_of
from fairpc.learners import kish

ANYTHING: Final[Interval] = (0.0, 1.0)
LEVEL: Final = 0.95
"""At which labels reject the assumptions, and of the set that a mechanism is kept within."""


def held_out_rates(
    hits: Floats,
    scores: Floats,
    folds: Positions,
    weights: Floats | None = None,
    persons: Positions | None = None,
) -> ClassRates:
    """A class among all rows of a group and in its top set, whose cut each fold gets from others.

    Scores of the other folds were learned with this one too. A cut-off is one number, so that it
    hardly tells what its labels are.

    Args:
        hits: 1.0 where a row is of the class.
        scores: cross-fitted; rows of the class tend to have large ones.
        folds: of the cross-fit.
        weights, persons: as for ``class_rates``.
    """
    each = np.ones(len(hits)) if weights is None else weights
    # In independent rows: weights that differ are worth fewer.
    each = each * kish(each) / each.sum()
    top = np.zeros(len(hits), np.bool_)
    for k in np.unique(folds).tolist():
        inside = folds == k
        rest = ~inside
        if not rest.any():
            continue
        size = MIN_SIZE * rest.sum() / len(hits)
        cut = best_cut(scores[rest], (each * hits)[rest], each[rest], size)
        top[inside] = scores[inside] >= cut
    return class_rates(hits, top, weights, persons)


@dataclass(frozen=True)
class GroupEnds:
    """One group: the positive class in all rows and in the top set, the other in the bottom set.

    Attributes:
        group: its name.
        positive: rates of D = 1.
        negative: rates of D = 0.
    """

    group: Any
    positive: ClassRates
    negative: ClassRates

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

    def scores(self, tail: float | None) -> Interval:
        """m and M, as far in as the tail allows; the held-out rates where none is given."""
        return 1 - top_rate(self.negative, tail), top_rate(self.positive, tail)


def top_rate(rates: ClassRates, tail: float | None) -> float:
    """The rate of a class in its top set, or a lower confidence limit of it."""
    top = rates.top
    if top is None:
        return 0.0 if tail is not None else rates.whole.mean
    return top.mean if tail is None else clopper_pearson(top.mean * top.size, top.size, tail)[0]


@dataclass(frozen=True)
class Known:
    """What is known of one group beforehand: ranges of b0 and of b1."""

    b0: Interval = ANYTHING
    b1: Interval = ANYTHING

    def fits(self, ends: GroupEnds, tail: float) -> bool:
        """Whether labels leave room for it: b0 is at most m and ρ, b1 at least M and ρ."""
        scores, rates = ends.scores(tail), ends.rate_limits(tail)
        return self.b0[0] <= min(scores[0], rates[1]) and max(scores[1], rates[0]) <= self.b1[1]

    def range(self, ends: GroupEnds, rate: float, scores: Interval) -> GroupRange:
        """What a group leaves possible at a rate ρ and ends m, M, within what is known."""
        narrowed = min(scores[0], self.b0[1]), max(scores[1], self.b1[0])
        return GroupRange.of(ends.group, ends.positive.n, rate, narrowed, self.b0[0], self.b1[1])


@dataclass(frozen=True)
class Ends(Record, ABC):
    """What held-out labels leave possible; within strata in ``fairpc.evidence._ends_within``.

    Attributes:
        groups: ends of each group over all rows, in the order of their codes.
    """

    groups: tuple[GroupEnds, ...]

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


@contextmanager
def reading_ends() -> Iterator[None]:
    """A block that reads plain data; a FileFormatError says what is wrong with it."""
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise FileFormatError(f"the held-out ends are not as saved: {error}") from error


@dataclass(frozen=True)
class LabelEnds(Ends):
    """What held-out labels, and what is known beforehand, leave of P(Df = 1) and its scores.

    Attributes:
        pi: range of P(Df = 1), where it is known beforehand.
        known: the same for the mechanism of each group.
    """

    pi: Interval = ANYTHING
    known: tuple[Known, ...] = ()

    def __post_init__(self) -> None:
        if not self.known:
            object.__setattr__(self, "known", tuple(Known() for _ in self.groups))

    def tail(self, level: float) -> float:
        """Of each of two limits per group, so that all hold together at the level."""
        return (1 - level) / (2 * len(self.groups))

    def anchored(self, hits: Floats, totals: Floats, level: float) -> LabelEnds:
        """The same, cut by rows whose fair decision is known.

        Args:
            hits: how many of them have D = 1, by group and fair decision, [s, f].
            totals: how many there are.
            level: of the set that they cut; each of their limits has half of its tail.
        """
        return replace(self, known=anchored_known(self.known, hits, totals, self.tail(level) / 2))

    def rate_set(self, level: float) -> Interval:
        """Confidence set of P(Df = 1); lower > upper where the assumptions are rejected."""
        tail = self.tail(level)
        if not all(known.fits(g, tail) for g, known in zip(self.groups, self.known, strict=True)):
            return 1.0, 0.0
        lowers, uppers = zip(*(g.possible(tail) for g in self.groups), strict=True)
        inside = [
            known.range(g, rate, g.scores(tail))
            for g, known in zip(self.groups, self.known, strict=True)
            for rate in g.rate_limits(tail)
        ]
        # Of both limits of ρ the one that leaves more counts.
        pairs = list(zip(inside[::2], inside[1::2], strict=True))
        low = max(self.pi[0], *lowers, *(min(a.lower, b.lower) for a, b in pairs))
        high = min(self.pi[1], *uppers, *(max(a.upper, b.upper) for a, b in pairs))
        return low, high

    def ranges(self) -> tuple[GroupRange, ...]:
        """What each group leaves possible, at the estimates."""
        pairs = zip(self.groups, self.known, strict=True)
        return tuple(known.range(g, g.rate, g.scores(None)) for g, known in pairs)

    def point_set(self) -> Interval:
        """P(Df = 1) that the estimates leave; lower > upper where chance, or a wrong assumption,
        leaves none."""
        ranges = self.ranges()
        lower = max(self.pi[0], *(r.lower for r in ranges))
        return lower, min(self.pi[1], *(r.upper for r in ranges))

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
        """With a level, π, ρ, m and M vary within their confidence limits; ``low`` and ``high``
        must then hold what is not known of r itself. Strata play no part."""
        found = np.full((2, len(low)), math.nan)
        least, most = self.rate_set(rejected_at if level is None else level)
        if least > most:
            return found[0], found[1]
        set_at = (least, most) if level is not None else self.point_set()
        if set_at[0] > set_at[1]:
            # Chance alone leaves no P(Df): what lies between the two ends is nearest to both.
            set_at = ((set_at[0] + set_at[1]) / 2,) * 2
        tail = None if level is None else self.tail(level)
        for g, (ends, known) in enumerate(zip(self.groups, self.known, strict=True)):
            here = np.flatnonzero(groups == g)
            rates = sorted({*ends.rate_limits(tail), ends.rate})
            ranges = [known.range(ends, rate, ends.scores(tail)) for rate in rates]
            found[:, here] = _extremes(ranges, low[here], high[here], set_at)
        return found[0], found[1]

    @classmethod
    def from_dict(cls, data: Any) -> LabelEnds:
        """The ends of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        with reading_ends():
            groups, known = group_ends_of(data["groups"]), known_of(data["known"])
            if not groups or len(known) != len(groups):
                raise ValueError("each group needs its ends")
            return cls(groups, _pair(data["pi"]), known)


def _extremes(
    ranges: list[GroupRange], low: Floats, high: Floats, possible: Interval
) -> tuple[Floats, Floats]:
    """Least and largest q of rows of one group over everything that some range leaves."""
    least, most = np.ones(len(low)), np.zeros(len(low))
    for own in ranges:
        start, stop = max(possible[0], own.lower), min(possible[1], own.upper)
        if start > stop:
            start = stop = min(max((start + stop) / 2, possible[0]), possible[1])
        for pi in own.corners(start, stop):
            for q in own.score_ends(low, pi):
                np.minimum(least, q, out=least)
            for q in own.score_ends(high, pi):
                np.maximum(most, q, out=most)
    return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)


def anchored_known(
    known: tuple[Known, ...], hits: Floats, totals: Floats, tail: float
) -> tuple[Known, ...]:
    """What is known of each group, cut by rows whose fair decision is known, [s, f]."""
    found = []
    for own, successes, n in zip(known, hits.tolist(), totals.tolist(), strict=True):
        b0, b1 = (
            _narrowed(box, successes[f], n[f], tail) for f, box in enumerate((own.b0, own.b1))
        )
        found.append(Known(b0, b1))
    return tuple(found)


def _narrowed(box: Interval, hits: float, n: float, tail: float) -> Interval:
    """The range of P(D = 1 | Df = f, s), cut by rows of which Df = f is known."""
    if n <= 0:
        return box
    low, high = clopper_pearson(hits, n, tail)
    low = max(box[0], low)
    return low, max(min(box[1], high), low)


def group_ends_of(data: Any) -> tuple[GroupEnds, ...]:
    """The ends of groups from plain data; a ValueError or a KeyError where it is none."""
    return tuple(GroupEnds(g["group"], _rates(g["positive"]), _rates(g["negative"])) for g in data)


def known_of(data: Any) -> tuple[Known, ...]:
    """What is known of groups, from plain data."""
    return tuple(Known(_pair(k["b0"]), _pair(k["b1"])) for k in data)


def _rates(data: Any) -> ClassRates:
    top = None if data["top"] is None else sample_of(data["top"])
    n, n_top = int(data["n"]), int(data["n_top"])
    return ClassRates(n, sample_of(data["whole"]), n_top, top, _share(data["correlation"]))


def sample_of(data: Any) -> Sample:
    """A rate from plain data."""
    size, variance = float(data["size"]), float(data["variance"])
    if not (0 < size < math.inf and 0 <= variance < math.inf):
        raise ValueError("a rate needs rows")
    # JSON has no word for infinite.
    freedom = math.inf if data["freedom"] is None else float(data["freedom"])
    return Sample(_share(data["mean"]), size, variance, freedom)


def _share(value: Any) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError(f"{value!r} is no share from 0 to 1")
    return float(value)


def _pair(values: Any) -> Interval:
    low, high = (_share(v) for v in values)
    return low, high


def label_ends(
    labels: Positions,
    scores: Floats,
    groups: Positions,
    folds: Positions,
    names: tuple[Any, ...],
    weights: Floats | None = None,
    persons: Positions | None = None,
) -> LabelEnds:
    """The ends of every group, from cross-fitted P(D = 1 | x, s).

    Args:
        labels: 1 for the positive class, 0 for the other.
        scores: of each row, by a classifier that had not seen its fold.
        groups: number of each row's group.
        folds: of each row.
        names: of the groups.
        weights: how many people each row stands for; None where all count alike.
        persons: who each row is about, where persons repeat.
    """
    found = []
    for g, name in enumerate(names):
        here = groups == g
        hits = (labels[here] == 1).astype(np.float64)
        given = folds[here], some_of(weights, here), _own(persons, here)
        positive = held_out_rates(hits, scores[here], *given)
        found.append(GroupEnds(name, positive, held_out_rates(1 - hits, -scores[here], *given)))
    return LabelEnds(tuple(found))


def _own(persons: Positions | None, here: Any) -> Positions | None:
    """The persons of some rows, numbered anew."""
    return None if persons is None else np.unique(persons[here], return_inverse=True)[1]
