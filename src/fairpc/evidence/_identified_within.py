"""What stays open at any number of rows if Df ⟂ S *given* A.

With one mechanism for all strata the rates of two groups lie on a line over them, ρ_sa = α_s + β_s
ρ_0a, and it maps the mechanism of the reference onto that of the group, b_fs = α_s + β_s b_f0. Two
numbers are left open,

    b00 from max_s −α_s / β_s to min_s (m_s − α_s) / β_s,
    b10 from max_s (M_s − α_s) / β_s to min_s (1 − α_s) / β_s,

with m_s and M_s the least and the largest P(D=1 | x, s) over all strata, α_0 = 0 and β_0 = 1. A
score q = (r − b0) / (b1 − b0) falls in both, so its bounds are at their ends. If each stratum has a
mechanism of its own, each is the plain problem of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    Record,
    check_array,
    check_counts,
    check_groups,
    check_scores,
)
from fairpc.evidence._identified import IdentifiedSet, identified_set, score_range
from fairpc.evidence._intervals import Interval, check_enough_rows, some_of
from fairpc.evidence._lines import best_line
from fairpc.evidence._strata import LeftOut, check_strata, kept_strata, left_out, left_out_words

if TYPE_CHECKING:
    from fairpc.evidence._assumptions_within import StrataTest

_ALIKE = 1e-6
"""Rates of strata that differ by less give no line."""


@dataclass(frozen=True)
class GroupWithin:
    """One group.

    Attributes:
        group: its name.
        n: rows.
        intercept, slope: α and β of its line; 0 and 1 for the reference.
        low, high: m and M, the least and the largest score.
        b0, b1: ranges of P(D=1 | Df=0) and P(D=1 | Df=1), free of each other; None where nothing
            is possible.
    """

    group: Any
    n: int
    intercept: float
    slope: float
    low: float
    high: float
    b0: Interval | None
    b1: Interval | None


@dataclass(frozen=True)
class StratumWithin:
    """One stratum.

    Attributes:
        stratum: its name; a tuple where several attributes are crossed.
        n: rows of each group.
        rates: mean score of each group; NaN where it has no rows.
        rate: that of the reference which all groups together say, along the lines.
        pi: range of P(Df=1 | a), of all strata together; None where nothing is possible.
    """

    stratum: Any
    n: tuple[int, ...]
    rates: tuple[float, ...]
    rate: float
    pi: Interval | None


@dataclass(frozen=True, eq=False)
class IdentifiedWithin(Record):
    """Every mechanism, P(Df=1 | a) and score that is possible under parity within strata.

    Attributes:
        groups: the reference first: the largest group.
        strata: in sorted order.
        misfit: how far the rates of a stratum lie from their line at most.
        score_lower, score_upper: bounds of each row's P(Df=1 | x, s) over the whole set; NaN
            where it is empty.
        counts: how many equal rows each row is; None where each is one.
    """

    groups: tuple[GroupWithin, ...]
    strata: tuple[StratumWithin, ...]
    misfit: float
    score_lower: Floats
    score_upper: Floats
    counts: Floats | None = None

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
        return float(np.average(self.score_upper - self.score_lower, weights=self.counts))

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
            "If fair decisions are independent of the group within strata, and labels are bent "
            f"alike in all of them, P(Df=1) of the strata may be: {ranges}. A row's score then "
            f"ranges over {self.score_spread:.3f} on average."
        )


@dataclass(frozen=True, eq=False)
class IdentifiedByStratum(Record):
    """What is possible in each stratum where each has its own mechanism.

    Attributes:
        strata: the names of those that were looked at.
        sets: what is possible in each.
        left_out: those that were not looked at.
        score_lower, score_upper: bounds of each row's P(Df=1 | x, s); NaN in strata that were left
            out, or whose set is empty.
    """

    strata: tuple[Any, ...]
    sets: tuple[IdentifiedSet, ...]
    left_out: tuple[LeftOut, ...]
    score_lower: Floats
    score_upper: Floats

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


@dataclass(frozen=True, eq=False)
class _Mean:
    """Mean scores by group and stratum, the reference first."""

    n: Floats  #: [s, a]
    rates: Floats  #: [s, a]

    def line(self, s: int, names: tuple[Any, ...]) -> tuple[float, float]:
        """α and β of a group."""
        if s == 0:
            return 0.0, 1.0
        both = (self.n[0] > 0) & (self.n[s] > 0)
        rates = self.rates[[0, s]][:, both]
        if both.sum() < 2 or np.ptp(rates, axis=1).max() < _ALIKE:
            raise MetricError(
                f"groups {names[0]!r} and {names[s]!r} have no two strata in common whose rates "
                "differ: their line is not known; leave given out, or choose other strata"
            )
        return best_line(rates, self.n[[0, s]][:, both])

    def along(self, lines: Floats) -> Floats:
        """Per stratum the rate of the reference, from all groups, weighted by their rows."""
        moved = (self.rates - lines[:, :1]) / lines[:, 1:]
        weight = self.n * np.square(lines[:, 1:])
        return np.asarray(np.nansum(moved * weight, axis=0) / weight.sum(axis=0), np.float64)


def identified_within(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    ends: Mapping[Any, Interval] | None = None,
    test: StrataTest | None = None,
    counts: npt.ArrayLike | None = None,
) -> IdentifiedWithin:
    """Mechanisms, P(Df=1 | a) and scores that fit the same P(D=1 | x, s) within strata.

    Args:
        scores, groups, ends, counts: as for ``identified_set``; the scores know the stratum.
        given: stratum per row; several columns are crossed.
        test: of the same groups and strata; its confidence set takes the place of the ends of
            the formulas, so that the error of lines and ends is in the bounds.
    """
    values = check_scores(scores).copy()
    names, ids = check_groups(groups, len(values))
    strata, where = check_strata(given, len(values))
    times = check_counts(counts, len(values))
    check_enough_rows(names, ids, None, times)
    each = np.ones(len(values)) if times is None else times
    order = np.argsort(-np.bincount(ids, each), kind="stable")
    ids, names = np.argsort(order)[ids], tuple(names[g] for g in order.tolist())
    ranges = [
        score_range(name, values[ids == g], each[ids == g], ends) for g, name in enumerate(names)
    ]
    mean = _means(values, ids, where, each, (len(names), len(strata)))
    lines = np.array([mean.line(s, names) for s in range(len(names))])
    limits = np.array([(r.low, r.high) for r in ranges])
    boxes = _tested(test, names) if test is not None else _mapped(lines, limits)
    reference = mean.along(lines)
    found = np.full((2, len(values)), math.nan)
    for g, box in enumerate(boxes):
        here = ids == g
        found[:, here] = _scores(np.clip(values[here], *limits[g]), box)
    return IdentifiedWithin(
        groups=tuple(
            GroupWithin(r.group, r.n, alpha, beta, r.low, r.high, *(box or (None, None)))
            for r, (alpha, beta), box in zip(ranges, lines.tolist(), boxes, strict=True)
        ),
        strata=_strata(strata, mean, reference, boxes[0]),
        misfit=_misfit(mean, lines, reference),
        score_lower=found[0],
        score_upper=found[1],
        counts=times,
    )


Box = tuple[Interval, Interval]


def _means(
    values: Floats, ids: Positions, where: Positions, each: Floats, shape: tuple[int, int]
) -> _Mean:
    cell = ids * shape[1] + where
    n = np.bincount(cell, each, shape[0] * shape[1]).reshape(shape).astype(np.float64)
    total = np.bincount(cell, each * values, shape[0] * shape[1]).reshape(shape)
    return _Mean(n, np.where(n > 0, total / np.maximum(n, 1e-300), math.nan))


def _mapped(lines: Floats, limits: Floats) -> list[Box | None]:
    """The box of each group, from what all groups leave to the reference."""
    alpha, beta = lines.T
    b00 = float((-alpha / beta).max()), float(((limits[:, 0] - alpha) / beta).min())
    b10 = float(((limits[:, 1] - alpha) / beta).max()), float(((1 - alpha) / beta).min())
    if b00[0] > b00[1] or b10[0] > b10[1] or b00[1] >= b10[0]:
        return [None] * len(lines)
    return [
        ((a + b * b00[0], a + b * b00[1]), (a + b * b10[0], a + b * b10[1]))
        for a, b in lines.tolist()
    ]


def _tested(test: StrataTest, names: tuple[Any, ...]) -> list[Box | None]:
    known = {g.group: g for g in test.groups}
    if set(known) != set(names):
        raise MetricError(
            f"test has groups {list(known)[:5]}, the rows have {list(names)[:5]}: give the test "
            "of the same groups"
        )
    boxes: list[Box | None] = []
    for name in names:
        b0, b1 = known[name].b0, known[name].b1
        boxes.append(None if b0 is None or b1 is None else (b0, b1))
    return boxes


def _scores(scores: Floats, box: Box | None) -> tuple[Floats, Floats]:
    """Least and largest P(Df=1 | x, s): at the largest and at the least b0 and b1."""
    if box is None:
        unknown = np.full(len(scores), math.nan)
        return unknown, unknown
    low, high = (
        np.clip((scores - b0) / (b1 - b0), 0.0, 1.0)
        for b0, b1 in zip(*(reversed(ends) for ends in box), strict=True)
    )
    return low, high


def _strata(
    strata: tuple[Any, ...], mean: _Mean, reference: Floats, box: Box | None
) -> tuple[StratumWithin, ...]:
    found = []
    for a, name in enumerate(strata):
        pi = None
        if box is not None:
            low, high = _scores(reference[a : a + 1], box)
            pi = float(low[0]), float(high[0])
        n, rates = tuple(mean.n[:, a].astype(int).tolist()), tuple(mean.rates[:, a].tolist())
        found.append(StratumWithin(name, n, rates, float(reference[a]), pi))
    return tuple(found)


def _misfit(mean: _Mean, lines: Floats, reference: Floats) -> float:
    expected = lines[:, :1] + lines[:, 1:] * reference
    return float(np.nanmax(np.abs(mean.rates - expected)))


def identified_by_stratum(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    ends: Mapping[Any, Mapping[Any, Interval]] | None,
    counts: npt.ArrayLike | None,
    **options: Any,
) -> IdentifiedByStratum:
    """The plain set of each stratum; ``ends`` are by stratum, then by group."""
    values = check_scores(scores)
    names, ids = check_groups(groups, len(values))
    strata, where = check_strata(given, len(values))
    times = check_counts(counts, len(values))
    cells = np.zeros((len(strata), len(names)))
    np.add.at(cells, (where, ids), 1.0 if times is None else times)
    lost = {
        a: f"under 2 rows of group {names[int(np.argmin(cells[a]))]!r}"
        for a in np.flatnonzero(cells.min(axis=1) < 2).tolist()
    }
    kept = kept_strata(strata, lost)
    if ends is not None and (unknown := [strata[a] for a in kept if strata[a] not in ends]):
        raise MetricError(
            f"ends has no stratum {unknown[0]!r}: where each stratum has its own mechanism, give "
            "pairs by stratum, then by group"
        )
    sets, found = [], np.full((2, len(values)), math.nan)
    raw = check_array("groups", groups)
    for a in kept:
        here: Bools = where == a
        inside = None if ends is None else ends[strata[a]]
        rows = values[here], raw[here]
        own = identified_set(*rows, ends=inside, counts=some_of(times, here), **options)
        found[:, here] = own.score_lower, own.score_upper
        sets.append(own)
    named = tuple(strata[a] for a in kept)
    return IdentifiedByStratum(named, tuple(sets), left_out(strata, lost, where), *found)
