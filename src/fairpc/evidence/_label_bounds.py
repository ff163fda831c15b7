"""What held-out labels leave possible: P(Df), the mechanism, and the scores of Df.

Without strata the bounds have a closed form (:class:`StratumBounds`); each stratum is that problem
of its rows (:class:`WithinBounds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from fairpc.core import FileFormatError, Floats, MetricError, Positions, record
from fairpc.evidence._held_out_bounds import (
    ANYTHING,
    LEVEL,
    HeldOutBounds,
    HeldOutRates,
    Known,
    StratumBounds,
)
from fairpc.evidence._intervals import Interval, some_of
from fairpc.evidence._strata import level_of_each


@dataclass(frozen=True)
class WithinBounds(HeldOutBounds):
    """Those of strata, each with a mechanism of its own."""

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


LabelBounds = StratumBounds | WithinBounds


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
) -> LabelBounds:
    """The bounds of every group, from cross-fitted P(D = 1 | x, s): each row's ``scores`` are by a
    classifier that had not seen its fold.

    Labels are 1 for the positive class, groups and strata are numbers.
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
    inside = [np.flatnonzero(strata == a) for a in range(n_strata)]
    return WithinBounds(whole.groups, tuple(bounds(at) if len(at) else None for at in inside))


def read_bounds(data: Any, n_strata: int | None) -> LabelBounds:
    """The bounds of ``to_dict`` of a model with so many strata, None for one without."""
    if n_strata is None:
        return record(StratumBounds, data, _WHERE)
    found = record(WithinBounds, data, _WHERE)
    if len(found.strata) != n_strata:
        raise FileFormatError("the held-out rates are not of the strata: they were altered")
    return found


_WHERE: Final = "the held-out rates"
