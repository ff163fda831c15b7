"""The identified set: mechanisms and scores that fit alike.

With P(x | f, s) free, the data fix r_s(x) = P(D=1 | x, s) and nothing else. Every
mechanism b0 ≤ min r_s, b1 ≥ max r_s with (ρ_s − b0) / (b1 − b0) = P(Df=1) explains them
equally well. The closed forms here list those mechanisms; sampling error is not in them
(see ``test_assumptions`` for a set that has it).

Where fair rates may differ by δ, each group has its own π_s: the set is that of all π_s in the
interval I_s that group s leaves by itself, of which no two differ by more. Group s then has what
I_s leaves between max L − δ and min U + δ. δ = 0 is one rate for all, δ = 1 assumes nothing.

If Df is independent of S *given* A only, each stratum of A is that problem of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    Record,
    check_counts,
    check_groups,
    check_scores,
    two_numbers,
    whole_number,
)
from fairpc.evidence._group_range import (
    SLACK,
    GroupRange,
    MechanismRange,
    check_difference,
    rates_within,
)
from fairpc.evidence._intervals import Interval, check_enough_rows, some_of
from fairpc.evidence._strata import LeftOut, apart, check_strata, left_out_words

_BAR: Final = 40


@dataclass(frozen=True, eq=False)
class IdentifiedSet(Record):
    """Every P(Df=1), mechanism and score that the data leave possible."""

    #: the least P(Df=1) possible for all groups at once; for some group where rates may differ
    lower: float
    upper: float  #: the largest; ``lower > upper`` is empty
    groups: tuple[GroupRange, ...]  #: in sorted order
    mechanism: tuple[MechanismRange, ...]  #: per grid point of P(Df=1) and group
    score_lower: Floats  #: least P(Df=1 | x, s) of each row over the whole set; NaN where empty
    score_upper: Floats  #: the largest
    counts: Floats | None = None  #: how many equal rows each row is; None where each is one
    delta: float = 0.0  #: by how much fair rates of groups may differ
    rates: tuple[Interval, ...] = ()  #: the P(Df=1 | s) possible in each group; none where empty

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
        """Per group the mechanisms possible at one P(Df=1) that all of them share."""
        lower = max((r[0] for r in self.rates), default=self.lower)
        upper = min((r[1] for r in self.rates), default=self.upper)
        if not lower - SLACK <= pi <= upper + SLACK:
            raise MetricError(
                f"pi is {pi}: give a P(Df=1) of the set, from {lower:.4f} to {upper:.4f}"
            )
        return tuple(g.mechanism(pi) for g in self.groups)

    def table(self) -> tuple[dict[str, Any], ...]:
        """A row per group: its bounds of P(Df=1), and its mechanism over the common ones."""
        each = self.mechanism
        return tuple(g.row([m for m in each if m.group == g.group]) for g in self.groups)

    def picture(self) -> str:
        """A bar per group on the line from 0 to 1, and their overlap; or, where rates may differ
        and the set is not empty, what that leaves of each bar."""
        bars = [(str(g.group), g.lower, g.upper) for g in self.groups]
        if self.delta > 0 and not self.empty:
            bars = [(bar[0], *own) for bar, own in zip(bars, self.rates, strict=True)]
        else:
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
            allowed = f" with rates {self.delta:.3g} apart at most" if self.delta > 0 else ""
            return (
                f"No P(Df=1) is possible{allowed}: group {low.group!r} needs at least "
                f"{low.lower:.3f}, group {high.group!r} at most {high.upper:.3f}. If the scores "
                "are exact, the assumptions contradict the data; test_assumptions says whether "
                "chance explains it."
            )
        if self.delta > 0:
            each = "; ".join(
                f"{g.group!r} {low:.3f} to {high:.3f}"
                for g, (low, high) in zip(self.groups, self.rates, strict=True)
            )
            return (
                f"If fair rates differ by at most {self.delta:.3g}, P(Df=1) of the groups may be: "
                f"{each}. A row's score then ranges over {self.score_spread:.3f} on average."
            )
        return (
            f"P(Df=1) may be anything from {self.lower:.3f} to {self.upper:.3f}, and more rows "
            "would not narrow this; a row's score then ranges over "
            f"{self.score_spread:.3f} on average. The order of rows within a group is fixed, "
            "the level and the spread of their scores are not."
        )


@dataclass(frozen=True, eq=False)
class IdentifiedByStratum(Record):
    """What is possible in each stratum, each with a mechanism of its own."""

    strata: tuple[Any, ...]  #: the names of those that were looked at
    sets: tuple[IdentifiedSet, ...]  #: what is possible in each
    left_out: tuple[LeftOut, ...]  #: those that were not looked at
    #: least P(Df=1 | x, s) of each row; NaN in strata that were left out, or whose set is empty
    score_lower: Floats
    score_upper: Floats  #: the largest

    _computed = ("empty", "summary")
    _long = ("score_lower", "score_upper")

    @property
    def empty(self) -> bool:
        """Whether some stratum leaves nothing."""
        return any(found.empty for found in self.sets)

    def summary(self) -> str:
        """The set of each stratum, in plain words."""
        pairs = zip(self.strata, self.sets, strict=True)
        each = " ".join(f"Stratum {name!r}: {found.summary()}" for name, found in pairs)
        return f"{each}{left_out_words(self.left_out)}"


@overload
def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: None = None,
    ends: Mapping[Any, Any] | None = None,
    pi: Interval | None = None,
    delta: float = 0.0,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedSet: ...


@overload
def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    ends: Mapping[Any, Any] | None = None,
    pi: Interval | None = None,
    delta: float = 0.0,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedByStratum: ...


def identified_set(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    ends: Mapping[Any, Any] | None = None,
    pi: Interval | None = None,
    delta: float = 0.0,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedSet | IdentifiedByStratum:
    """Mechanisms and scores that fit the same P(D=1 | x, s), for every possible P(Df=1).

    Args:
        scores: P(D=1 | x, s) per row, of any model; taken as exact, so noise in the smallest
            and largest score narrows the set.
        groups: group per row; several columns are crossed.
        given: stratum per row, several columns are crossed: Df may depend on it, and each stratum
            is a problem of its own, an :class:`IdentifiedByStratum`.
        ends: per group the least and the largest P(D=1 | x, s), where they are known better than
            from the scores, such as ``test_assumptions(…).ends()``; scores beyond count as these.
            An end beyond the mean score of its group counts as that mean. With ``given`` by
            stratum, then by group.
        pi: keep to this range of P(Df=1), such as a confidence set or prior knowledge.
        delta: by how much P(Df=1 | s) of two groups may differ.
        n_points: grid of P(Df=1) on which the mechanism is listed.
        counts: how many equal rows each row is; the same as repeating it.
    """
    delta = check_difference("delta", delta)
    start, stop = (0.0, 1.0) if pi is None else two_numbers("pi", pi)
    if not 0 <= start <= stop <= 1:
        raise MetricError(f"pi is {pi}: give a range within 0 to 1, lower end first")
    n_points = whole_number("n_points", n_points, 2, 10**6)
    values = check_scores(scores)
    strata, where = check_strata(given, len(values))
    rows = _Scored(values, *check_groups(groups, len(values)), check_counts(counts, len(values)))
    if given is not None:
        return _by_stratum(rows, strata, where, ends, ((start, stop), delta, n_points))
    check_enough_rows(rows.names, rows.ids, None, rows.counts)
    return _identified(rows, ends, (start, stop), delta, n_points)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Checked rows: scores, and the groups that they are of."""

    values: Floats
    names: tuple[Any, ...]
    ids: Positions
    counts: Floats | None

    @property
    def each(self) -> Floats:
        return np.ones(len(self.values)) if self.counts is None else self.counts

    def where(self, rows: Bools) -> _Scored:
        """Some of the rows, of every group."""
        return _Scored(self.values[rows], self.names, self.ids[rows], some_of(self.counts, rows))

    def ranges(self, bounds: Any) -> tuple[GroupRange, ...]:
        """Each group by its scores, or by the ends that are known of it."""
        found = []
        for g, name in enumerate(self.names):
            scores, counts = self.values[self.ids == g], self.each[self.ids == g]
            low, high = float(scores.min()), float(scores.max())
            # The mean of equal scores may miss them by rounding.
            rate = min(max(float(np.average(scores, weights=counts)), low), high)
            if bounds is not None:
                if not isinstance(bounds, Mapping) or name not in bounds:
                    raise MetricError(f"ends has no group {name!r}: give a pair for every group")
                low, high = two_numbers(f"ends of group {name!r}", bounds[name])
                if not 0 <= low <= high <= 1:
                    raise MetricError(
                        f"ends of group {name!r} are {low:.4f} and {high:.4f}: give the lower one "
                        "first, both within 0 to 1"
                    )
            found.append(GroupRange.of(name, int(counts.sum()), rate, (low, high)))
        return tuple(found)


def _identified(
    rows: _Scored, bounds: Any, pi: Interval, delta: float, n_points: int
) -> IdentifiedSet:
    """The set of one stratum, in closed form."""
    ranges = rows.ranges(bounds)
    own = [(max(pi[0], g.lower), min(pi[1], g.upper)) for g in ranges]
    rates = rates_within(own, delta)
    lower, upper = max(low for low, _ in own) - delta, min(high for _, high in own)
    if rates:
        lower, upper = min(low for low, _ in rates), max(high for _, high in rates)
    grids = [np.linspace(*ends, n_points).tolist() for ends in rates]
    points = zip(*grids, strict=True)
    listed = tuple(g.mechanism(pi) for at in points for g, pi in zip(ranges, at, strict=True))
    scores = np.full((2, len(rows.values)), math.nan)
    for g, (group, ends) in enumerate(zip(ranges, rates, strict=False)):
        here = rows.ids == g
        inside = np.clip(rows.values[here], group.low, group.high)
        scores[:, here] = group.scores(inside, inside, ends)
    rest = rows.counts, delta, rates
    return IdentifiedSet(lower, upper, ranges, listed, scores[0], scores[1], *rest)


def _by_stratum(
    rows: _Scored,
    strata: tuple[Any, ...],
    where: Positions,
    bounds: Mapping[Any, Any] | None,
    asked: tuple[Interval, float, int],
) -> IdentifiedByStratum:
    """The set of each stratum by itself; ``ends`` are by stratum, then by group."""
    cells = np.zeros((len(strata), len(rows.names)))
    np.add.at(cells, (where, rows.ids), rows.each)

    def unfit(a: int) -> str:
        g = int(np.argmin(cells[a]))
        return f"under 2 rows of group {rows.names[g]!r}" if cells[a, g] < 2 else ""

    kept, left_out = apart(strata, where, unfit)
    if bounds is not None and (unknown := [name for name, _ in kept if name not in bounds]):
        raise MetricError(
            f"ends has no stratum {unknown[0]!r}: give pairs by stratum, then by group"
        )
    sets, found = [], np.full((2, len(where)), math.nan)
    for name, here in kept:
        own = _identified(rows.where(here), None if bounds is None else bounds[name], *asked)
        found[:, here] = own.score_lower, own.score_upper
        sets.append(own)
    return IdentifiedByStratum(tuple(name for name, _ in kept), tuple(sets), left_out, *found)


def _bar(low: float, high: float) -> str:
    cells = (np.arange(_BAR) + 0.5) / _BAR
    inside = (cells >= low) & (cells <= high)
    if low <= high and not inside.any():
        inside[min(int(low * _BAR), _BAR - 1)] = True
    return "".join("█" if cell else " " for cell in inside)
