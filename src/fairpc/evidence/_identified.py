"""What the data leave open even at any number of rows: mechanisms and scores that fit alike.

With P(x | f, s) free, the data fix r_s(x) = P(D=1 | x, s) and nothing else. Every
mechanism b0 ≤ min r_s, b1 ≥ max r_s with (ρ_s − b0) / (b1 − b0) = P(Df=1) explains them
equally well. The closed forms here list those mechanisms; sampling error is not in them
(see ``test_assumptions`` for a set that has it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Positions,
    Record,
    check_array,
    check_counts,
    check_groups,
    check_scores,
    two_numbers,
    whole_number,
)
from fairpc.evidence._intervals import Interval, check_enough_rows
from fairpc.evidence._strata import Mechanism, check_mechanism

if TYPE_CHECKING:
    from fairpc.evidence._assumptions_within import StrataTest
    from fairpc.evidence._identified_within import IdentifiedByStratum, IdentifiedWithin

# Rounding that is allowed when a single P(Df) is left.
_SLACK: Final = 1e-12
_BAR: Final = 40


@dataclass(frozen=True)
class MechanismRange:
    """One group at one P(Df=1): ranges of P(D=1 | Df=0) and P(D=1 | Df=1).

    The two move together: a larger b1 goes with a smaller b0, along πb1 + (1−π)b0 = ρ.
    """

    group: Any
    pi: float
    b0: Interval
    b1: Interval


@dataclass(frozen=True)
class GroupRange:
    """One group: what its scores say about P(Df=1).

    Attributes:
        group: its name.
        n: rows.
        rate: ρ, the mean of its scores, P(D=1 | s).
        low, high: m and M, the smallest and the largest score: b0 is at most m, b1 at least M.
        lower, upper: the P(Df=1) that are possible for this group alone.
        floor, ceiling: the least b0 and the largest b1, where they are known beforehand.
    """

    group: Any
    n: int
    rate: float
    low: float
    high: float
    lower: float
    upper: float
    floor: float = 0.0
    ceiling: float = 1.0

    @classmethod
    def of(
        cls,
        group: Any,
        n: int,
        rate: float,
        scores: Interval,
        floor: float = 0.0,
        ceiling: float = 1.0,
    ) -> GroupRange:
        """A group whose scores lie between these two; an end beyond the mean counts as the mean.

        What is known beforehand counts for more than an end: b0 is not below the floor.
        """
        low, high = max(min(scores[0], rate), floor), min(max(scores[1], rate), ceiling)
        lower = (rate - low) / (ceiling - low) if low < ceiling else 0.0
        upper = (rate - floor) / (high - floor) if high > floor else 1.0
        lower, upper = (min(max(end, 0.0), 1.0) for end in (lower, upper))
        return cls(group, n, rate, low, high, lower, upper, floor, ceiling)

    def b1(self, pi: float) -> Interval:
        """Range of P(D=1 | Df=1) at a P(Df=1) that is possible for this group."""
        least, most = self.high, self.ceiling
        if pi > 0:
            least = max(least, (self.rate - (1 - pi) * self.low) / pi)
            most = min(most, (self.rate - (1 - pi) * self.floor) / pi)
        return min(least, most), most

    def b0(self, pi: float) -> Interval:
        """Range of P(D=1 | Df=0) at a P(Df=1) that is possible for this group."""
        if pi >= 1:
            return self.floor, self.low
        b1_low, b1_high = self.b1(pi)
        low, high = ((self.rate - pi * b1) / (1 - pi) for b1 in (b1_high, b1_low))
        return max(low, self.floor), min(high, self.low)

    def mechanism(self, pi: float) -> MechanismRange:
        """Both ranges at a P(Df=1) that is possible for this group."""
        return MechanismRange(self.group, pi, self.b0(pi), self.b1(pi))

    def score_ends(self, scores: Floats, pi: float) -> tuple[Floats, Floats]:
        """P(Df=1 | x, s) at the least and at the most informative labels that are possible.

        q = π + (r − ρ) / Δ with Δ = (b1 − ρ) / (1 − π): every score between the two ends is
        possible too, all rows of the group together.
        """
        least, most = (
            (scores - b0) / (b1 - b0) if b1 - b0 > 0 else np.full(len(scores), pi)
            for b0, b1 in zip(reversed(self.b0(pi)), self.b1(pi), strict=True)
        )
        return least, most

    def corners(self, lower: float, upper: float) -> list[float]:
        """Every P(Df=1) at which a bound of a score can turn: it is linear in between."""
        turns = [lower, upper]
        for least, most in ((self.floor, self.ceiling), (self.low, self.high)):
            if most > least:
                turns.append((self.rate - least) / (most - least))
        return sorted({pi for pi in turns if lower <= pi <= upper})


@dataclass(frozen=True, eq=False)
class IdentifiedSet(Record):
    """Every P(Df=1), mechanism and score that the data leave possible.

    Attributes:
        lower, upper: the P(Df=1) possible for all groups at once; ``lower > upper`` is empty.
        groups: per group, in sorted order.
        mechanism: per group and grid point of P(Df=1) in [lower, upper].
        score_lower, score_upper: bounds of each row's P(Df=1 | x, s) over the whole set; NaN
            where it is empty.
        counts: how many equal rows each row is; None where each is one.
    """

    lower: float
    upper: float
    groups: tuple[GroupRange, ...]
    mechanism: tuple[MechanismRange, ...]
    score_lower: Floats
    score_upper: Floats
    counts: Floats | None = None

    _computed = ("empty", "score_spread", "table", "summary")
    _long = ("score_lower", "score_upper", "counts")

    @property
    def empty(self) -> bool:
        return self.lower > self.upper

    @property
    def score_spread(self) -> float:
        """How far a row's P(Df=1 | x, s) is open, on average; NaN where the set is empty."""
        return float(np.average(self.score_upper - self.score_lower, weights=self.counts))

    def mechanism_at(self, pi: float) -> tuple[MechanismRange, ...]:
        """Per group the mechanisms possible at one P(Df=1)."""
        if not self.lower - _SLACK <= pi <= self.upper + _SLACK:
            raise MetricError(
                f"pi is {pi}: give a P(Df=1) of the set, from {self.lower:.4f} to {self.upper:.4f}"
            )
        return tuple(g.mechanism(pi) for g in self.groups)

    def table(self) -> tuple[dict[str, Any], ...]:
        """A row per group: its bounds of P(Df=1), and its mechanism over the common ones."""
        rows = []
        for g in self.groups:
            mine = [m for m in self.mechanism if m.group == g.group]
            row = {name: getattr(g, name) for name in ("group", "n", "rate", "lower", "upper")}
            for name in ("b0", "b1"):
                ends = [getattr(m, name) for m in mine]
                row[f"{name}_lower"] = min((e[0] for e in ends), default=math.nan)
                row[f"{name}_upper"] = max((e[1] for e in ends), default=math.nan)
            rows.append(row)
        return tuple(rows)

    def picture(self) -> str:
        """A bar per group on the line from 0 to 1, and their overlap."""
        bars = [(str(g.group), g.lower, g.upper) for g in self.groups]
        bars.append(("overlap", self.lower, self.upper))
        width = max(len(name) for name, _, _ in bars)
        return "\n".join(
            f"{name:<{width}} |{_bar(low, high)}| "
            + (f"{low:.3f} to {high:.3f}" if low <= high else "empty")
            for name, low, high in bars
        )

    def summary(self) -> str:
        """The set and what it means, in plain words."""
        if self.empty:
            low = max(self.groups, key=lambda g: g.lower)
            high = min(self.groups, key=lambda g: g.upper)
            return (
                f"No P(Df=1) is possible: group {low.group!r} needs at least {low.lower:.3f}, "
                f"group {high.group!r} at most {high.upper:.3f}. If the scores are exact, the "
                "assumptions contradict the data; test_assumptions says whether chance explains it."
            )
        return (
            f"P(Df=1) may be anything from {self.lower:.3f} to {self.upper:.3f}, and more rows "
            "would not narrow this; a row's score then ranges over "
            f"{self.score_spread:.3f} on average. The order of rows within a group is fixed, "
            "the level and the spread of their scores are not."
        )


@overload
def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: None = None,
    mechanism: Mechanism = "shared",
    ends: Mapping[Any, Any] | None = None,
    test: None = None,
    pi: Interval | None = None,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedSet: ...


@overload
def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    mechanism: Literal["shared"] = "shared",
    ends: Mapping[Any, Any] | None = None,
    test: StrataTest | None = None,
    pi: None = None,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedWithin: ...


@overload
def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    mechanism: Literal["within"],
    ends: Mapping[Any, Any] | None = None,
    test: None = None,
    pi: Interval | None = None,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedByStratum: ...


def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    mechanism: Mechanism = "shared",
    ends: Mapping[Any, Any] | None = None,
    test: StrataTest | None = None,
    pi: Interval | None = None,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedSet | IdentifiedWithin | IdentifiedByStratum:
    """Mechanisms and scores that fit the same P(D=1 | x, s), for every possible P(Df=1).

    Args:
        scores: P(D=1 | x, s) per row, of any model; taken as exact, so noise in the smallest
            and largest score narrows the set.
        groups: group per row; several columns are crossed.
        given: stratum per row, several columns are crossed: Df may depend on it.
        mechanism: with ``given``, "shared": labels are bent alike in all strata of a group, an
            :class:`IdentifiedWithin`; or "within": each stratum is a problem of its own, an
            :class:`IdentifiedByStratum`.
        ends: per group the least and the largest P(D=1 | x, s), where they are known better than
            from the scores, such as ``test_assumptions(…).ends()``; scores beyond count as these.
            An end beyond the mean score of its group counts as that mean. With "within" by
            stratum, then by group.
        test: with ``given`` and "shared", ``test_assumptions(…, given=…)`` of the same rows: what
            is possible is then its confidence set, which has the error of lines and ends.
        pi: keep to this range of P(Df=1), such as a confidence set or prior knowledge; not with
            "shared" strata, of which each has its own.
        n_points: grid of P(Df=1) on which the mechanism is listed.
        counts: how many equal rows each row is; the same as repeating it.
    """
    check_mechanism(mechanism, given)
    if test is not None and (given is None or mechanism != "shared"):
        raise MetricError("test is of strata that share a mechanism: give given and 'shared'")
    if given is not None:
        from fairpc.evidence._identified_within import identified_by_stratum, identified_within

        if mechanism == "within":
            plain: dict[str, Any] = {"ends": ends, "pi": pi, "n_points": n_points}
            return identified_by_stratum(scores, groups, given, counts=counts, **plain)
        if pi is not None:
            raise MetricError("pi is given with given: each stratum has a P(Df=1) of its own")
        return identified_within(scores, groups, given, ends=ends, test=test, counts=counts)
    values = check_scores(scores).copy()
    names, ids = check_groups(groups, len(values))
    times = check_counts(counts, len(values))
    check_enough_rows(names, ids, None, times)
    n_points = whole_number("n_points", n_points, 2, 10**6)
    each = np.ones(len(values)) if times is None else times
    ranges = tuple(
        score_range(name, values[ids == g], each[ids == g], ends) for g, name in enumerate(names)
    )
    for g, group in enumerate(ranges):
        values[ids == g] = np.clip(values[ids == g], group.low, group.high)
    start, stop = (0.0, 1.0) if pi is None else two_numbers("pi", pi)
    if not 0 <= start <= stop <= 1:
        raise MetricError(f"pi is {pi}: give a range within 0 to 1, lower end first")
    lower = max(start, *(g.lower for g in ranges))
    upper = min(stop, *(g.upper for g in ranges))
    if upper < lower <= upper + _SLACK:
        lower = upper
    points = np.linspace(lower, upper, n_points).tolist() if lower <= upper else []
    listed = tuple(g.mechanism(point) for point in points for g in ranges)
    bounds = _score_bounds(values, ids, ranges, lower, upper)
    return IdentifiedSet(lower, upper, ranges, listed, *bounds, times)


def class_bounds(
    scores: npt.ArrayLike, groups: npt.ArrayLike
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of P(Df = c) for any number of classes, from exact scores [row, class].

    π_c ≤ min over groups of ρ_c / max r_c, if D = c is at least as frequent under Df = c as
    under any other Df; from below by what the other classes leave. The lower bound of one
    class against the rest, taken as if there were two, is not valid for three or more.
    """
    table = check_array("scores", scores)
    if table.ndim != 2 or table.shape[1] < 2:
        raise MetricError(f"scores has shape {table.shape}: give a column per class")
    each = [check_scores(column, f"scores (column {c})") for c, column in enumerate(table.T)]
    table = np.column_stack(each)
    if not np.allclose(table.sum(axis=1), 1, atol=1e-6):
        raise MetricError("the scores of a row do not sum to 1: give a probability per class")
    names, ids = check_groups(groups, len(table))
    cells = [table[ids == g] for g in range(len(names))]
    # A class that never occurs has rate 0, and 0 is its bound.
    ratios = [c.mean(axis=0) / np.where(c.any(axis=0), c.max(axis=0), 1.0) for c in cells]
    uppers = np.min(ratios, axis=0)
    lowers = np.maximum(1 - (uppers.sum() - uppers), 0.0)
    return tuple(lowers.tolist()), tuple(uppers.tolist())


def score_range(name: Any, scores: Floats, counts: Floats, ends: Any = None) -> GroupRange:
    """One group by its scores, or by the ends that are known of it."""
    low, high = float(scores.min()), float(scores.max())
    # The mean of equal scores may miss them by rounding.
    rate = min(max(float(np.average(scores, weights=counts)), low), high)
    if ends is not None:
        if not isinstance(ends, Mapping) or name not in ends:
            raise MetricError(f"ends has no group {name!r}: give a pair for every group")
        low, high = two_numbers(f"ends of group {name!r}", ends[name])
        if not 0 <= low <= high <= 1:
            raise MetricError(
                f"ends of group {name!r} are {low:.4f} and {high:.4f}: give the lower one first, "
                "both within 0 to 1"
            )
    return GroupRange.of(name, int(counts.sum()), rate, (low, high))


def _score_bounds(
    values: Floats, ids: Positions, ranges: tuple[GroupRange, ...], lower: float, upper: float
) -> tuple[Floats, Floats]:
    least, most = np.full((2, len(values)), math.nan)
    for g, group in enumerate(ranges if lower <= upper else ()):
        here = ids == g
        corners = group.corners(lower, upper)
        ends = np.array([end for pi in corners for end in group.score_ends(values[here], pi)])
        least[here], most[here] = ends.min(axis=0), ends.max(axis=0)
    # Rounding may step over what is a probability.
    return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)


def _bar(low: float, high: float) -> str:
    cells = (np.arange(_BAR) + 0.5) / _BAR
    inside = (cells >= low) & (cells <= high)
    if low <= high and not inside.any():
        inside[min(int(low * _BAR), _BAR - 1)] = True
    return "".join("█" if cell else " " for cell in inside)
