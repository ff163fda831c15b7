"""The identified set: mechanisms and scores that fit alike.

With P(x | f, s) free, the data fix r_s(x) = P(D=1 | x, s) and nothing else. Every
mechanism b0 ≤ min r_s, b1 ≥ max r_s with (ρ_s − b0) / (b1 − b0) = P(Df=1) explains them
equally well. The closed forms here list those mechanisms; sampling error is not in them
(see ``test_assumptions`` for a set that has it).

Where fair rates may differ by δ, each group has its own π_s: the set is that of all π_s in the
interval I_s that group s leaves by itself, of which no two differ by more. Group s then has what
I_s leaves between max L − δ and min U + δ. δ = 0 is one rate for all, δ = 1 assumes nothing.

If Df is independent of S *given* A only, and each stratum of A has a mechanism of its own, each is
that problem of its rows. With one mechanism for all strata the rates of two groups lie on a line
over them, ρ_sa = α_s + β_s ρ_0a, and it maps the mechanism of the reference onto that of the group,
b_fs = α_s + β_s b_f0. Two numbers are left open,

    b00 from max_s −α_s / β_s to min_s (m_s − α_s) / β_s,
    b10 from max_s (M_s − α_s) / β_s to min_s (1 − α_s) / β_s,

with m_s and M_s the least and the largest P(D=1 | x, s) over all strata, α_0 = 0 and β_0 = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, overload

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
    NO_DELTA,
    SLACK,
    GroupRange,
    MechanismRange,
    check_difference,
    rates_within,
)
from fairpc.evidence._intervals import Interval, check_enough_rows, some_of
from fairpc.evidence._lines import Box, best_line, mapped, reference_ranges, scores_within
from fairpc.evidence._strata import (
    LeftOut,
    Mechanism,
    apart,
    check_mechanism,
    check_strata,
    left_out_words,
)

if TYPE_CHECKING:
    from fairpc.evidence._test_records import StrataTest

_ALIKE: Final = 1e-6
"""Rates of strata that differ by less give no line."""
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
        return _spread(self)

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


@dataclass(frozen=True)
class GroupWithin:
    """One group, with a mechanism that all strata share."""

    group: Any  #: its name
    n: int  #: rows
    intercept: float  #: α of its line; 0 for the reference
    slope: float  #: β of its line; 1 for the reference
    low: float  #: m, the least score
    high: float  #: M, the largest score
    b0: Interval | None  #: range of P(D=1 | Df=0), free of b1; None where nothing is possible
    b1: Interval | None  #: range of P(D=1 | Df=1)


@dataclass(frozen=True)
class StratumWithin:
    """One stratum that shares the mechanism of all."""

    stratum: Any  #: its name; a tuple where several attributes are crossed
    n: tuple[int, ...]  #: rows of each group
    rates: tuple[float, ...]  #: mean score of each group; NaN where it has no rows
    rate: float  #: that of the reference which all groups together say, along the lines
    pi: Interval | None  #: P(Df=1 | a), of all strata together; None where nothing is possible


@dataclass(frozen=True, eq=False)
class IdentifiedWithin(Record):
    """Every mechanism, P(Df=1 | a) and score that is possible under parity within strata."""

    groups: tuple[GroupWithin, ...]  #: the reference first: the largest group
    strata: tuple[StratumWithin, ...]  #: in sorted order
    misfit: float  #: how far the rates of a stratum lie from their line at most
    score_lower: Floats  #: least P(Df=1 | x, s) of each row over the whole set; NaN where empty
    score_upper: Floats  #: the largest
    counts: Floats | None = None  #: how many equal rows each row is; None where each is one

    _computed = ("empty", "area", "score_spread", "table", "summary")
    _long = ("score_lower", "score_upper", "counts")

    @property
    def empty(self) -> bool:
        return self.groups[0].b0 is None

    @property
    def area(self) -> float:
        """Of the possible mechanisms of the reference."""
        b0, b1 = self.groups[0].b0, self.groups[0].b1
        return 0.0 if b0 is None or b1 is None else (b0[1] - b0[0]) * (b1[1] - b1[0])

    @property
    def score_spread(self) -> float:
        """How far a row's P(Df=1 | x, s) is open, on average; NaN where the set is empty."""
        return _spread(self)

    def table(self) -> tuple[dict[str, Any], ...]:
        """A row per group: its line and its mechanism."""
        rows = []
        for g in self.groups:
            row = {name: getattr(g, name) for name in ("group", "n", "intercept", "slope")}
            for name in ("b0", "b1"):
                ends = getattr(g, name) or (math.nan, math.nan)
                row |= {f"{name}_lower": ends[0], f"{name}_upper": ends[1]}
            rows.append(row)
        return tuple(rows)

    def summary(self) -> str:
        """The set and what it means, in plain words."""
        if self.empty:
            return (
                "No mechanism is possible that is the same in all strata. If the scores are exact, "
                "parity within these strata contradicts the data; test_assumptions within strata "
                "says whether chance explains it."
            )
        ranges = "; ".join(
            f"{s.stratum!r} {s.pi[0]:.3f} to {s.pi[1]:.3f}" for s in self.strata if s.pi is not None
        )
        return (
            "If fair decisions are independent of the group within strata, and labels are "
            f"altered alike in all of them, P(Df=1) of the strata may be: {ranges}. A row's "
            f"score then ranges over {self.score_spread:.3f} on average."
        )


@dataclass(frozen=True, eq=False)
class IdentifiedByStratum(Record):
    """What is possible in each stratum where each has its own mechanism."""

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


def _spread(identified: IdentifiedSet | IdentifiedWithin) -> float:
    return float(
        np.average(identified.score_upper - identified.score_lower, weights=identified.counts)
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
    mechanism: Literal["shared"] = "shared",
    ends: Mapping[Any, Any] | None = None,
    test: StrataTest | None = None,
    pi: None = None,
    delta: float = 0.0,
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
    delta: float = 0.0,
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
    delta: float = 0.0,
    n_points: int = 11,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedSet | IdentifiedWithin | IdentifiedByStratum:
    """Mechanisms and scores that fit the same P(D=1 | x, s), for every possible P(Df=1).

    Args:
        scores: P(D=1 | x, s) per row, of any model; taken as exact, so noise in the smallest
            and largest score narrows the set.
        groups: group per row; several columns are crossed.
        given: stratum per row, several columns are crossed: Df may depend on it.
        mechanism: with ``given``, "shared": labels are altered alike in all strata of a group, an
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
        delta: by how much P(Df=1 | s) of two groups may differ; not with "shared" strata.
        n_points: grid of P(Df=1) on which the mechanism is listed.
        counts: how many equal rows each row is; the same as repeating it.
    """
    check_mechanism(mechanism, given)
    shared = given is not None and mechanism == "shared"
    if test is not None and not shared:
        raise MetricError("test is of strata that share a mechanism: give given and 'shared'")
    if pi is not None and shared:
        raise MetricError("pi is given with given: each stratum has a P(Df=1) of its own")
    delta = check_difference("delta", delta)
    if delta > 0 and shared:
        raise MetricError(NO_DELTA)
    start, stop = (0.0, 1.0) if pi is None else two_numbers("pi", pi)
    if not 0 <= start <= stop <= 1:
        raise MetricError(f"pi is {pi}: give a range within 0 to 1, lower end first")
    n_points = whole_number("n_points", n_points, 2, 10**6)
    values = check_scores(scores)
    strata, where = check_strata(given, len(values))
    rows = _Scored(values, *check_groups(groups, len(values)), check_counts(counts, len(values)))
    if mechanism == "within":
        return _by_stratum(rows, strata, where, ends, ((start, stop), delta, n_points))
    check_enough_rows(rows.names, rows.ids, None, rows.counts)
    if shared:
        return _identified_within(rows, strata, where, ends, test)
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
            f"ends has no stratum {unknown[0]!r}: where each stratum has its own mechanism, give "
            "pairs by stratum, then by group"
        )
    sets, found = [], np.full((2, len(where)), math.nan)
    for name, here in kept:
        own = _identified(rows.where(here), None if bounds is None else bounds[name], *asked)
        found[:, here] = own.score_lower, own.score_upper
        sets.append(own)
    return IdentifiedByStratum(tuple(name for name, _ in kept), tuple(sets), left_out, *found)


def _identified_within(
    rows: _Scored, strata: tuple[Any, ...], where: Positions, bounds: Any, test: StrataTest | None
) -> IdentifiedWithin:
    """The set of strata that share a mechanism.

    The confidence set of a test takes the place of the ends of the formulas, so that the error of
    lines and ends is in the bounds.
    """
    order = np.argsort(-np.bincount(rows.ids, rows.each), kind="stable")
    names, ids = tuple(rows.names[g] for g in order.tolist()), np.argsort(order)[rows.ids]
    rows = _Scored(rows.values, names, ids, rows.counts)
    ranges = rows.ranges(bounds)
    shape, cell = (len(names), len(strata)), ids * len(strata) + where
    n = np.bincount(cell, rows.each, cell_count := math.prod(shape)).reshape(shape)
    total = np.bincount(cell, rows.each * rows.values, cell_count).reshape(shape)
    rates = np.where(n > 0, total / np.maximum(n, 1e-300), math.nan)
    lines = np.array([_line(s, rates, n.astype(np.float64), names) for s in range(len(names))])
    boxes: list[Box | None] = [None] * len(names)
    if test is not None:
        boxes = _tested(test, names)
    else:  # what all groups leave to the reference, mapped onto each
        reference = reference_ranges(lines, np.array([(0.0, r.low, r.high, 1.0) for r in ranges]))
        (b00_least, b00_most), (b10_least, b10_most) = reference
        if b00_least <= b00_most < b10_least <= b10_most:
            boxes = [*mapped(lines, reference)]
    # Per stratum the rate of the reference, from all groups, weighted by their rows.
    weight = n * np.square(lines[:, 1:])
    moved = (rates - lines[:, :1]) / lines[:, 1:]
    reference = np.nansum(moved * weight, axis=0) / weight.sum(axis=0)
    score_set = np.full((2, len(rows.values)), math.nan)
    for g, (range_, box) in enumerate(zip(ranges, boxes, strict=True)):
        if box is not None:
            inside = np.clip(rows.values[ids == g], range_.low, range_.high)
            score_set[:, ids == g] = scores_within(inside, inside, box)
    pi = np.full((2, len(strata)), math.nan)
    if boxes[0] is not None:
        pi = np.array(scores_within(reference, reference, boxes[0]))
    return IdentifiedWithin(
        groups=tuple(
            GroupWithin(r.group, r.n, alpha, beta, r.low, r.high, *(box or (None, None)))
            for r, (alpha, beta), box in zip(ranges, lines.tolist(), boxes, strict=True)
        ),
        strata=tuple(
            StratumWithin(
                name,
                tuple(n[:, a].astype(int).tolist()),
                tuple(rates[:, a].tolist()),
                float(reference[a]),
                None if boxes[0] is None else (float(pi[0, a]), float(pi[1, a])),
            )
            for a, name in enumerate(strata)
        ),
        misfit=float(np.nanmax(np.abs(rates - (lines[:, :1] + lines[:, 1:] * reference)))),
        score_lower=score_set[0],
        score_upper=score_set[1],
        counts=rows.counts,
    )


def _line(s: int, rates: Floats, n: Floats, names: tuple[Any, ...]) -> tuple[float, float]:
    """α and β of a group against the reference."""
    if s == 0:
        return 0.0, 1.0
    both = (n[0] > 0) & (n[s] > 0)
    own = rates[[0, s]][:, both]
    if both.sum() < 2 or np.ptp(own, axis=1).max() < _ALIKE:
        raise MetricError(
            f"groups {names[0]!r} and {names[s]!r} have no two strata in common whose rates "
            "differ: their line is not known; leave given out, or choose other strata"
        )
    return best_line(own, n[[0, s]][:, both])


def _tested(test: StrataTest, names: tuple[Any, ...]) -> list[Box | None]:
    known = {g.group: g for g in test.groups}
    if set(known) != set(names):
        raise MetricError(
            f"test has groups {list(known)[:5]}, the rows have {list(names)[:5]}: give the test "
            "of the same groups"
        )
    boxes = ((known[name].b0, known[name].b1) for name in names)
    return [None if b0 is None or b1 is None else (b0, b1) for b0, b1 in boxes]


def _bar(low: float, high: float) -> str:
    cells = (np.arange(_BAR) + 0.5) / _BAR
    inside = (cells >= low) & (cells <= high)
    if low <= high and not inside.any():
        inside[min(int(low * _BAR), _BAR - 1)] = True
    return "".join("█" if cell else " " for cell in inside)
