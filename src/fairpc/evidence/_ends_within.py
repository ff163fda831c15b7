"""Held-out ends of P(D = 1 | x, s) within strata, and the scores of Df that they leave possible.

Df is independent of S given A, P(Df = 1 | a) = π_a. Where labels are bent alike in all strata of a
group, the rates of two groups lie on a line over the strata, which maps the mechanism of one onto
that of the other (:mod:`fairpc.evidence._lines`); each group then has a box of b0 and b1. A score
q = (r − b0) / (b1 − b0) falls in both, so that its bounds are at the corners of the box. Where each
stratum has a mechanism of its own, each is the plain problem of its rows.

Counts are kept, so that the bounds can be given at any level, or at the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fairpc.core import FileFormatError, Floats, Positions
from fairpc.evidence._ends import (
    ANYTHING,
    LEVEL,
    Ends,
    Known,
    LabelEnds,
    anchored_known,
    group_ends_of,
    known_of,
    label_ends,
    reading_ends,
    sample_of,
)
from fairpc.evidence._intervals import Interval, Sample, rate_sample, some_of
from fairpc.evidence._lines import INFORMATIVE, CountedStrata, Limits, Line, looked_at, region

Box = tuple[Interval, Interval]
"""Ranges of b0 and of b1."""


@dataclass(frozen=True)
class SharedEnds(Ends):
    """What held-out labels leave where labels are bent alike in all strata of a group.

    Attributes:
        cells: rate of D = 1 in each subgroup, [s][a]; None where it has no rows.
        known: what is known of each group's mechanism beforehand.
    """

    cells: tuple[tuple[Sample | None, ...], ...]
    known: tuple[Known, ...] = ()

    def __post_init__(self) -> None:
        if not self.known:
            object.__setattr__(self, "known", tuple(Known() for _ in self.groups))

    def with_known(self, known: tuple[Known, ...]) -> SharedEnds:
        """The same within what is known of each group's mechanism."""
        return replace(self, known=known)

    def anchored(self, hits: Floats, totals: Floats, level: float) -> SharedEnds:
        """The same, cut by rows whose fair decision is known; see ``LabelEnds.anchored``.

        Their counts are of subgroups, [s, a, f].
        """
        tail = (1 - level) / (4 * len(self.groups))
        return self.with_known(
            anchored_known(self.known, hits.sum(axis=1), totals.sum(axis=1), tail)
        )

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
        and of the ends, all together at the level.
        """
        tested = _tested(self, LEVEL if level is None else level)
        if level is not None or tested is None:
            return tested
        return self._estimated() or tested

    def rate_set(self, level: float, share: Floats) -> Interval:
        """The P(Df = 1) that are possible; lower > upper where the assumptions are rejected.

        P(D = 1 | s) = b0 + (b1 − b0) P(Df = 1 | s), whatever the strata are. Half of the error is
        for the boxes, half for the rates; ``share`` is P(S, A), [s, a].
        """
        boxes = self.boxes((1 + level) / 2)
        if boxes is None:
            return 1.0, 0.0
        tail = (1 - level) / (4 * len(self.groups))
        rates = np.array([g.rate_limits(tail) for g in self.groups])
        each = [
            _ends_of_scores(rates[s : s + 1, 0], rates[s : s + 1, 1], box)
            for s, box in enumerate(boxes)
        ]
        low, high = (float(share.sum(axis=1) @ ends) for ends in np.array(each)[:, :, 0].T)
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
            found[:, here] = _ends_of_scores(low[here], high[here], box)
        return found[0], found[1]

    def nearest(self, mechanism: Floats, level: float) -> Floats:
        """The mechanism [s, f] that is possible at a level and nearest to this one.

        The same where nothing is possible: then it is the assumptions that do not fit.
        """
        each, limits, told = self._limited(level)
        wanted = mechanism[self._order]
        whole = region(each, limits)
        if whole.empty:
            return mechanism
        near = min(wanted[0, 0], limits.b0[0]), max(wanted[0, 1], limits.b1[0])
        ends = (np.union1d(*pair) for pair in zip((whole.b00, whole.b10), near, strict=True))
        found = looked_at(each, limits, *ends)
        i, j = np.nonzero(found.distance <= 1)
        away = np.square(found.b00[i] - wanted[0, 0]) + np.square(found.b10[j] - wanted[0, 1])
        first = float(found.b00[i[np.argmin(away)]]), float(found.b10[j[np.argmin(away)]])
        result = np.column_stack(
            [np.minimum(wanted[:, 0], self._b0(level)), np.maximum(wanted[:, 1], self._b1(level))]
        )
        result[0] = first
        for k, line in enumerate(each, start=1):
            result[told[k]] = _on_line(line, limits, k, first, wanted[told[k]])
        back: Floats = result[np.argsort(self._order)]
        boxes = ((known.b0, known.b1) for known in self.known)
        return np.stack(
            [
                [min(max(b, box[f][0]), box[f][1]) for f, b in enumerate(own)]
                for own, box in zip(back.tolist(), boxes, strict=True)
            ]
        )

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

    def _limited(self, level: float) -> tuple[tuple[Line, ...], Limits, list[int]]:
        """Lines that are informed, their limits, and the places of their groups in the order."""
        told = [0, *(s for s, line in enumerate(self._lines, start=1) if line is not None)]
        each = tuple(line for line in self._lines if line is not None)
        whole = self._counted.limits(1 - level, each)
        return each, replace(whole, b0=whole.b0[told], b1=whole.b1[told]), told

    def _b0(self, level: float) -> Floats:
        """The largest b0 of each group, in their order."""
        return self._counted.limits(1 - level, ()).b0

    def _b1(self, level: float) -> Floats:
        return self._counted.limits(1 - level, ()).b1

    def tested(self, level: float) -> tuple[Box, ...] | None:
        """The ranges of the confidence set; a group without a line has its ends alone."""
        each, limits, told = self._limited(level)
        found = region(each, limits)
        if found.empty:
            return None
        boxes: list[Box] = [
            ((0.0, b0), (b1, 1.0))
            for b0, b1 in zip(self._b0(level).tolist(), self._b1(level).tolist(), strict=True)
        ]
        for place, box in zip(told, found.ranges, strict=True):
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
        alpha, beta = np.array(found).T
        floor, low, high, ceiling = self._ends_in_order()
        b00 = _meeting(((floor - alpha) / beta).max(), ((low - alpha) / beta).min())
        b10 = _meeting(((high - alpha) / beta).max(), ((ceiling - alpha) / beta).min())
        if b00[1] >= b10[0]:
            return None
        ends = np.clip(alpha[:, None] + beta[:, None] * np.array([*b00, *b10]), 0.0, 1.0)
        back = ends[np.argsort(self._order)].tolist()
        return tuple(((a, b), (c, d)) for a, b, c, d in back)

    def _ends_in_order(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Per group the least b0, m, M and the largest b1, at the estimates; the largest first.

        A stratum is a set of rows too, so that its rate is none that b0 may exceed.
        """
        n, rates = self._counts
        rates = np.where(n >= INFORMATIVE, rates, math.nan)
        found = []
        for s in self._order.tolist():
            low, high = self.groups[s].scores(None)
            own, known = rates[s][~np.isnan(rates[s])].tolist(), self.known[s]
            low, high = min(low, known.b0[1], *own), max(high, known.b1[0], *own)
            found.append((known.b0[0], low, high, known.b1[1]))
        floor, low, high, ceiling = np.array(found).T
        return floor, low, high, ceiling

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

    @classmethod
    def from_dict(cls, data: Any) -> SharedEnds:
        """The ends of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        with reading_ends():
            groups = group_ends_of(data["groups"])
            cells = tuple(
                tuple(None if cell is None else sample_of(cell) for cell in own)
                for own in data["cells"]
            )
            known = known_of(data["known"])
            if not len(groups) == len(cells) == len(known) or len({len(c) for c in cells}) != 1:
                raise ValueError("each group needs its ends and a rate per stratum")
            return cls(groups, cells, known)


@dataclass(frozen=True)
class WithinEnds(Ends):
    """What held-out labels leave where each stratum has a mechanism of its own.

    Attributes:
        strata: the plain ends of each stratum, of the groups that have rows in it; None where none
            has.
    """

    strata: tuple[LabelEnds | None, ...]

    def with_known(self, known: tuple[Known, ...]) -> WithinEnds:
        """The same within what is known of each group's mechanism, in every stratum."""
        return self._each(lambda a, own: replace(own, known=tuple(known[s] for s in self.of(a))))

    def anchored(self, hits: Floats, totals: Floats, level: float) -> WithinEnds:
        """The same, cut by rows whose fair decision is known; their counts are [s, a, f]."""
        return self._each(
            lambda a, own: own.anchored(
                hits[self.of(a), a], totals[self.of(a), a], self.level_each(level)
            )
        )

    def of(self, a: int) -> list[int]:
        """The groups that have rows in a stratum, by their codes."""
        names, own = [g.group for g in self.groups], self.strata[a]
        return [] if own is None else [names.index(g.group) for g in own.groups]

    def level_each(self, level: float) -> float:
        """Of each stratum, so that all hold together at the level."""
        return 1 - (1 - level) / len(self.strata)

    def rejected(self, level: float) -> list[int]:
        """Strata in which no P(Df) fits every group."""
        each = self.level_each(level)
        sets = [ANYTHING if own is None else own.rate_set(each) for own in self.strata]
        return [a for a, (low, high) in enumerate(sets) if low > high]

    def rate_set(self, level: float, share: Floats) -> Interval:
        """The P(Df = 1) that are possible; lower > upper where some stratum leaves nothing."""
        if self.rejected(level):
            return 1.0, 0.0
        each = self.level_each(level)
        sets = np.array([ANYTHING if own is None else own.rate_set(each) for own in self.strata])
        low, high = (share.sum(axis=0) @ sets).tolist()
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
        for a, ends in enumerate(self.strata):
            for place, s in enumerate(self.of(a)):
                here = np.flatnonzero((groups == s) & ((at == a) | (at < 0)))
                if ends is None or not len(here):
                    continue
                of = np.full(len(here), place, np.intp)
                found = ends.score_bounds(
                    low[here], high[here], of, at_level, rejected_at=rejected_at
                )
                least[here] = np.minimum(least[here], found[0])
                most[here] = np.maximum(most[here], found[1])
            unseen = (at == a) & ~np.isin(groups, self.of(a))
            least[unseen], most[unseen] = ANYTHING
        return least, most

    def _each(self, change: Any) -> WithinEnds:
        return replace(
            self,
            strata=tuple(None if e is None else change(a, e) for a, e in enumerate(self.strata)),
        )

    @classmethod
    def from_dict(cls, data: Any) -> WithinEnds:
        """The ends of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        with reading_ends():
            groups = group_ends_of(data["groups"])
            strata = tuple(None if e is None else LabelEnds.from_dict(e) for e in data["strata"])
            names = [g.group for g in groups]
            for own in strata:
                inside = [] if own is None else [g.group for g in own.groups]
                if inside != [name for name in names if name in inside]:
                    raise ValueError("the ends of a stratum are not of the groups")
            return cls(groups, strata)


StrataEnds = SharedEnds | WithinEnds


def ends_of(data: Any, n_strata: int | None, *, within: bool) -> LabelEnds | StrataEnds:
    """The ends of ``to_dict`` of a model with so many strata, None for one without."""
    if n_strata is None:
        return LabelEnds.from_dict(data)
    found: StrataEnds = WithinEnds.from_dict(data) if within else SharedEnds.from_dict(data)
    each = found.strata if isinstance(found, WithinEnds) else found.cells[0]
    if len(each) != n_strata:
        raise FileFormatError("the held-out ends are not of the strata: they were altered")
    return found


def ends_within(
    labels: Positions,
    scores: Floats,
    groups: Positions,
    folds: Positions,
    names: tuple[Any, ...],
    weights: Floats | None = None,
    persons: Positions | None = None,
    *,
    strata: Positions,
    n_strata: int,
    within: bool,
) -> StrataEnds:
    """The ends of every group and stratum, from cross-fitted P(D = 1 | x, s).

    Args:
        labels, scores, groups, folds, names, weights, persons: as for ``label_ends``.
        strata: number of each row's stratum.
        n_strata: how many there are.
        within: whether each has a mechanism of its own.
    """
    rest = folds, names, weights, persons
    whole = label_ends(labels, scores, groups, *rest).groups
    if not within:
        hits = labels.astype(np.float64)
        cells = tuple(
            tuple(
                _cell(hits, weights, persons, (groups == s) & (strata == a))
                for a in range(n_strata)
            )
            for s in range(len(names))
        )
        return SharedEnds(whole, cells)
    each: list[LabelEnds | None] = []
    for a in range(n_strata):
        here = np.flatnonzero(strata == a)
        present = np.unique(groups[here]).tolist()
        if not present:
            each.append(None)
            continue
        given = labels[here], scores[here], np.searchsorted(present, groups[here]), folds[here]
        own = tuple(names[s] for s in present)
        each.append(label_ends(*given, own, some_of(weights, here), some_of(persons, here)))
    return WithinEnds(whole, tuple(each))


@lru_cache(maxsize=32)
def _tested(ends: SharedEnds, level: float) -> tuple[Box, ...] | None:
    """Of ``tested``, kept: a table in many batches asks for the same boxes again and again."""
    return ends.tested(level)


def _cell(
    hits: Floats, weights: Floats | None, persons: Positions | None, here: Any
) -> Sample | None:
    if not here.any():
        return None
    return rate_sample(hits[here], some_of(weights, here), some_of(persons, here))


def _is_known(line: Line) -> bool:
    """Whether rates differ so much over strata that the slope of their line is bounded."""
    kept = line.least - line.misfit <= line.limit(1 - LEVEL)
    return not (kept[0] or kept[-1])


def _meeting(low: float, high: float) -> Interval:
    """A range; where chance leaves none, what lies between its ends is nearest to both."""
    return (float(low), float(high)) if low <= high else (float(low + high) / 2,) * 2


def _ends_of_scores(low: Floats, high: Floats, box: Box) -> tuple[Floats, Floats]:
    """Least and largest q of rows whose r lies from low to high: at the ends of both ranges."""
    (b0_least, b0_most), (b1_least, b1_most) = box
    least = np.clip((low - b0_most) / (b1_most - b0_most), 0.0, 1.0)
    return least, np.clip((high - b0_least) / (b1_least - b0_least), 0.0, 1.0)


def _on_line(
    line: Line, limits: Limits, s: int, first: Sequence[float], wanted: Floats
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
