"""What held-out labels leave possible: P(Df), the mechanism, and the scores of Df.

Without strata there is one, and its bounds have a closed form (:class:`StratumBounds`). Where each
stratum has a mechanism of its own, each is that problem of its rows (:class:`WithinBounds`). Where
strata share it, the rates of two groups lie on a line over them, which maps the mechanism of one
onto that of the other (:mod:`fairpc.evidence._lines`): a box of b0 and b1 per group
(:class:`SharedBounds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Self

import numpy as np

from fairpc.core import FileFormatError, Floats, MetricError, Positions, record
from fairpc.evidence._group_range import NO_DELTA, check_difference
from fairpc.evidence._held_out_bounds import (
    ANYTHING,
    LEVEL,
    HeldOutBounds,
    HeldOutRates,
    Known,
    StratumBounds,
    check_rates,
)
from fairpc.evidence._intervals import Interval, some_of
from fairpc.evidence._lines import (
    INFORMATIVE,
    Box,
    Cells,
    CountedStrata,
    Line,
    LineLimits,
    cell_counts,
    cell_rates,
    looked_at,
    reference_ranges,
    region,
    scores_within,
    without_few_rates,
)
from fairpc.evidence._strata import level_of_each


@dataclass(frozen=True)
class WithinBounds(HeldOutBounds):
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
        return self._each(lambda _, at, own: replace(own, known=tuple(known[s] for s in at)))

    def without_few(self, min_cell: int) -> Self:
        shown = self._each(lambda _, at, own: own.without_few(min_cell))
        return replace(shown, groups=super().without_few(min_cell).groups)

    def parts(self) -> Iterator[tuple[int, list[int], StratumBounds]]:
        names = [g.group for g in self.groups]
        for a, own in enumerate(self.strata):
            if own is not None:
                yield a, [names.index(g.group) for g in own.groups], own

    def level_each(self, level: float) -> float:
        """Of each stratum, so that all hold together at the level."""
        return level_of_each(level, len(self.strata))

    def rejected(self, level: float = LEVEL) -> list[int]:
        """Strata in which no P(Df) fits every group."""
        each = self.level_each(level)
        return [a for a, _, own in self.parts() if own.rejected(each)]

    def with_delta(self, delta: float) -> WithinBounds:
        return self._each(lambda _, at, own: own.with_delta(delta))

    def mechanism_range(self, level: float = LEVEL) -> Floats:
        """Least and largest P(D = 1 | Df = f, s, a), [s, a, f, end].

        Those of each stratum hold at its share of the level; NaN where a stratum is rejected, and
        anything in a subgroup without rows.
        """
        found = np.tile(np.array(ANYTHING), (len(self.groups), len(self.strata), 2, 1))
        for a, groups, own in self.parts():
            found[groups, a] = own.mechanism_range(self.level_each(level))
        return found

    def rate_set(self, level: float, share: Floats | None = None) -> Interval:
        """Rejected where some stratum leaves nothing."""
        each = self.level_each(level)
        sets = [ANYTHING if own is None else own.rate_set(each) for own in self.strata]
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
        there = np.zeros((len(self.groups), len(self.strata)), np.bool_)
        for a, inside, own in self.parts():
            there[inside, a] = True
            here = np.flatnonzero(np.isin(groups, inside) & ((at == a) | (at < 0)))
            of = np.searchsorted(inside, groups[here])  # groups of a stratum are in order
            found = own.score_bounds(low[here], high[here], of, at_level, rejected_at=rejected_at)
            least[here] = np.minimum(least[here], found[0])
            most[here] = np.maximum(most[here], found[1])
        unseen = (at >= 0) & ((groups < 0) | ~there[groups, at])
        least[unseen], most[unseen] = ANYTHING
        return least, most

    def _each(self, change: Any) -> Self:
        found = {part[0]: change(*part) for part in self.parts()}
        return replace(self, strata=tuple(found.get(a) for a in range(len(self.strata))))


@dataclass(frozen=True)
class SharedBounds(HeldOutBounds):
    """Those where labels are altered alike in all strata of a group."""

    #: rate of D = 1 in each subgroup, [s][a]; None where it has no rows
    cells: Cells
    known: tuple[Known, ...]  #: what is known of each group's mechanism beforehand

    def __post_init__(self) -> None:
        if not len(self.groups) == len(self.cells) == len(self.known):
            raise MetricError("each group needs its rates and what is known of it")
        if len({len(own) for own in self.cells}) != 1:
            raise MetricError("each group needs a rate per stratum")
        for own in self.cells:
            check_rates(*own)

    def without_few(self, min_cell: int) -> Self:
        """Nor the rate of a stratum that informs no line, if few of its people have a label."""
        pairs = zip(self.cells, self.groups, strict=True)
        cells = tuple(without_few_rates(own, group.rate, min_cell) for own, group in pairs)
        return replace(super().without_few(min_cell), cells=cells)

    def with_known(self, known: tuple[Known, ...], pi: Interval = ANYTHING) -> SharedBounds:
        return replace(self, known=known)

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
        n, rates = cell_counts(self.cells)
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
    def _counted(self) -> CountedStrata:
        n, rates = cell_counts(self.cells)
        tops = [[(g.negative, g.positive)] for g in self.groups]
        each = [tops[s] for s in self._order.tolist()]
        return CountedStrata(n[self._order], rates[self._order], each)

    def _limited(self, level: float) -> tuple[tuple[Line, ...], LineLimits, list[int]]:
        """Lines that are informed, their limits, and the places of their groups in the order."""
        lines, each = self._counted.lines, self._counted.known_lines
        at = [0, *(s for s, line in enumerate(lines, start=1) if line is not None)]
        whole = self._counted.limits(1 - level, each)
        return each, replace(whole, b0=whole.b0[at], b1=whole.b1[at]), at

    def _estimated(self) -> tuple[Box, ...] | None:
        """The boxes at the best lines; None where a line is not known, or nothing is left."""
        found = [(0.0, 1.0)]
        for line in self._counted.lines:
            if line is None:
                return None
            # Rates differ so much over strata that the slope of their line is bounded.
            kept = line.least - line.misfit <= line.limit(1 - LEVEL)
            if kept[0] or kept[-1]:
                return None
            best = int(np.argmin(line.least))
            found.append((float(line.intercept[best]), float(line.slope[best])))
        lines = np.array(found)
        # Per group the least b0, m, M and the largest b1, at the estimates; the largest first. A
        # stratum is a set of rows too, so that its rate is none that b0 may exceed.
        n, rates, limits = self._counted.n, self._counted.rates, []
        for k, s in enumerate(self._order.tolist()):
            low, high = self.groups[s].scores(None)
            own, known = rates[k][n[k] >= INFORMATIVE].tolist(), self.known[s]
            low, high = min(low, known.b0[1], *own), max(high, known.b1[0], *own)
            limits.append((known.b0[0], low, high, known.b1[1]))
        # Where chance leaves no range, what lies between its ends is nearest to both.
        b00, b10 = (
            ends if ends[0] <= ends[1] else (sum(ends) / 2,) * 2
            for ends in reference_ranges(lines, np.array(limits))
        )
        if b00[1] >= b10[0]:
            return None
        bounds = np.clip(lines[:, :1] + lines[:, 1:] * np.array([*b00, *b10]), 0.0, 1.0)
        back = bounds[np.argsort(self._order)].tolist()
        return tuple(((a, b), (c, d)) for a, b, c, d in back)


LabelBounds = StratumBounds | SharedBounds | WithinBounds


@lru_cache(maxsize=32)
def _tested(bounds: SharedBounds, level: float) -> tuple[Box, ...] | None:
    """The ranges of the confidence set within what is known; None where that leaves nothing.

    A group without a line has its held-out rates alone. Ranges are kept: a table in many batches
    asks for the same ones again and again.
    """
    each, limits, at = bounds._limited(level)
    found = region(each, limits)
    if found.empty:
        return None
    own = bounds._counted.limits(1 - level, ())
    boxes: list[Box] = [
        ((0.0, b0), (b1, 1.0)) for b0, b1 in zip(own.b0.tolist(), own.b1.tolist(), strict=True)
    ]
    for place, box in zip(at, found.ranges, strict=True):
        boxes[place] = box
    for s, known in zip(np.argsort(bounds._order).tolist(), bounds.known, strict=True):
        b0, b1 = boxes[s]
        b0 = max(b0[0], known.b0[0]), min(b0[1], known.b0[1])
        b1 = max(b1[0], known.b1[0]), min(b1[1], known.b1[1])
        if b0[0] > b0[1] or b1[0] > b1[1] or b0[0] >= b1[0] or b0[1] >= b1[1]:
            return None
        boxes[s] = b0, b1
    return tuple(boxes[s] for s in np.argsort(bounds._order).tolist())


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
    """The bounds of every group, from cross-fitted P(D = 1 | x, s): each row's ``scores`` are by a
    classifier that had not seen its fold.

    Labels are 1 for the positive class, groups and strata are numbers; ``within`` says whether each
    stratum has a mechanism of its own.
    """
    hits = (labels == 1).astype(np.float64)

    def bounds(here: Positions) -> StratumBounds:
        samples = []
        for g in np.unique(groups[here]).tolist():
            at = here[groups[here] == g]
            who = None if persons is None else np.unique(persons[at], return_inverse=True)[1]
            given = hits[at], scores[at], folds[at], some_of(weights, at), who
            samples.append(HeldOutRates.of(names[g], *given))
        return StratumBounds(tuple(samples), known=tuple(Known() for _ in samples))

    whole = bounds(np.arange(len(labels)))
    if strata is None:
        return whole
    if within:
        inside = [np.flatnonzero(strata == a) for a in range(n_strata)]
        return WithinBounds(whole.groups, tuple(bounds(at) if len(at) else None for at in inside))
    cells = cell_rates(hits, groups, strata, (len(names), n_strata), weights, persons)
    return SharedBounds(whole.groups, cells, whole.known)


def read_bounds(data: Any, n_strata: int | None, *, within: bool) -> LabelBounds:
    """The bounds of ``to_dict`` of a model with so many strata, None for one without."""
    if n_strata is None:
        return record(StratumBounds, data, _WHERE)
    kind: type[WithinBounds] | type[SharedBounds] = WithinBounds if within else SharedBounds
    found = record(kind, data, _WHERE)
    if len(found.strata if isinstance(found, WithinBounds) else found.cells[0]) != n_strata:
        raise FileFormatError("the held-out rates are not of the strata: they were altered")
    return found


_WHERE: Final = "the held-out rates"
