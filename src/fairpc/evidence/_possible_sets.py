"""Mechanisms that are possible for each group, from its held-out sets: boxes, and what cuts them.

Without strata a box of (b0, b1) per group, cut where fair rates may differ by delta at most. Where
strata have mechanisms of their own, such a box in each. Where strata share a mechanism and fair
rates are equal in each, lines over strata narrow the boxes (:class:`SharedBounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import MetricError
from fairpc.evidence._decision_rows import DecisionRows, HeldOut
from fairpc.evidence._error_sets import DecisionCells, GroupSet, StrataSet, coupled
from fairpc.evidence._held_out_bounds import HeldOutRates, Known, StratumBounds
from fairpc.evidence._intervals import quantile
from fairpc.evidence._label_bounds import SharedBounds
from fairpc.evidence._lines import cell_rates

_TIED: Final = 0.2
"""Share of the error that is spent on what ties groups to each other, where delta is below 1."""


@dataclass(frozen=True, eq=False)
class PossibleSets:
    """What is possible for each group: at the estimates, and at the level."""

    estimated: Sequence[GroupSet | StrataSet]
    limited: Sequence[GroupSet | StrataSet]
    rejected: bool
    free: Sequence[tuple[GroupSet, GroupSet]] = ()  #: both, as if fair rates could differ
    delta: float = 1.0  #: by how much they may, where groups depend on each other
    estimated_delta: float = 1.0  #: the least that estimates leave, if that is more

    @classmethod
    def of(
        cls,
        rows: DecisionRows,
        held: list[HeldOut],
        known: list[Known],
        delta: float,
        alpha: float,
    ) -> PossibleSets:
        cells = [rows.cells(g) for g in range(len(rows.names))]
        if len(rows.strata) > 1 and not rows.within and delta == 0:
            return cls._of_lines(rows, held[0], known, cells, alpha)
        if not rows.within:
            return cls._of_part(rows.names, cells, held[0], known, delta, alpha)
        # Ends of all strata hold together; the error of the rates themselves is that of the group.
        every = range(len(rows.names))
        parts = [rows.of_part(here) for here in rows.parts]
        each = [
            cls._of_part(
                rows.names, [p.cells(g) for g in every], own, known, delta, alpha, len(parts)
            )
            for p, own in zip(parts, held, strict=True)
        ]
        z = [quantile(1 - alpha / 4, own.freedom) for own in cells]
        return cls(
            [StrataSet(cells[g], tuple(e.estimated[g] for e in each)) for g in every],  # type: ignore[misc]
            [
                StrataSet(cells[g].smoothed(z[g]), tuple(e.limited[g] for e in each), z[g])  # type: ignore[misc]
                for g in every
            ],
            any(e.rejected for e in each),
        )

    @classmethod
    def _of_part(
        cls,
        names: tuple[Any, ...],
        cells: list[DecisionCells],
        held: HeldOut,
        known: list[Known],
        delta: float,
        alpha: float,
        n_parts: int = 1,
    ) -> PossibleSets:
        """Groups that may depend on each other by delta."""
        # m, M and both ends of a rate; with delta also ρ, and P(Df) of every group, at both ends.
        tied = alpha * _TIED if delta < 1 else 0.0
        tail, tied = (alpha - tied) / 4, tied / (2 + 2 * len(held)) / n_parts
        each = list(zip(cells, held, known, strict=True))
        estimated = [_estimated(*one) for one in each]
        limited = [_limited(*one, (tail, tail / n_parts, tied)) for one in each]
        for name, own in zip(names, limited, strict=True):
            if own.b0[0] > own.b0[1] or own.b1[0] > own.b1[1]:
                raise MetricError(
                    f"knowledge of group {name!r} contradicts its labels: it leaves b0 from "
                    f"{own.b0[0]:.3f} to {own.b0[1]:.3f} and b1 from {own.b1[0]:.3f} to "
                    f"{own.b1[1]:.3f}; widen it"
                )
        ranges = [(own.possible.lower, own.possible.upper) for own in estimated]
        least = max(low for low, _ in ranges) - min(high for _, high in ranges)
        own_delta = max(delta, least)
        free = list(zip(estimated, limited, strict=True))
        estimated, _ = coupled(estimated, ranges, own_delta)
        possible = ranges
        if delta < 1:  # Confidence limits, at their medians over splits.
            seeds = (StratumBounds(own, known=tuple(known)) for own in zip(*held, strict=True))
            ends = np.median([own.possible(tied) for own in seeds], axis=0)
            possible = [(low, high) for low, high in ends.tolist()]
        limited, left = coupled(limited, possible, delta)
        return cls(estimated, limited, not left, free, delta, own_delta)

    @classmethod
    def _of_lines(
        cls,
        rows: DecisionRows,
        held: HeldOut,
        known: list[Known],
        cells: list[DecisionCells],
        alpha: float,
    ) -> PossibleSets:
        """Strata share a mechanism and fair rates are equal in each: rates lie on lines."""
        hits, shape = rows.labelled.astype(np.float64), (len(rows.names), len(rows.strata))
        counted = cell_rates(hits, rows.ids, rows.where, shape, rows.weights, rows.persons)
        bounds = SharedBounds(tuple(own[0] for own in held), counted, tuple(known))
        # Half of the error is for the mechanisms, half for both ends of a rate.
        z = [quantile(1 - alpha / 4, own.freedom) for own in cells]
        most = bounds.boxes(1 - alpha / 2)
        here = None if most is None else bounds.boxes(None)
        free = [_estimated(*one) for one in zip(cells, held, known, strict=True)]
        if most is None:
            return cls(free, free, True)
        estimated, limited = [], []
        for g, own in enumerate(cells):
            b0, b1 = most[g] if here is None else here[g]
            rho = own.labelled
            low, high = (b0[0], min(b0[1], rho)), (max(b1[0], rho), b1[1])
            estimated.append(replace(free[g], b0=low, b1=high))
            limited.append(GroupSet(own.smoothed(z[g]), *most[g], (0.0, 1.0), z=z[g]))
        return cls(estimated, limited, False)


def _estimated(cells: DecisionCells, held: list[HeldOutRates], known: Known) -> GroupSet:
    """A group at the estimates; what is known counts for more than an end."""
    rho = cells.labelled
    m, top = np.median([h.scores(None) for h in held], axis=0).tolist()
    b0 = known.b0[0], max(known.b0[0], min(m, rho, known.b0[1]))
    b1 = min(known.b1[1], max(top, rho, known.b1[0])), known.b1[1]
    return GroupSet(cells, b0, b1, (rho, rho))


def _limited(
    cells: DecisionCells,
    held: list[HeldOutRates],
    known: Known,
    tails: tuple[float, float, float],
) -> GroupSet:
    """A group at limits; ``tails`` are those of the rates, of m and M, and of ρ."""
    tail, end_tail, tied = tails
    m, top = np.median([h.scores(end_tail) for h in held], axis=0).tolist()
    z = quantile(1 - tail, cells.freedom)
    b0 = known.b0[0], min(m, known.b0[1])
    b1 = max(top, known.b1[0]), known.b1[1]
    rho = held[0].rate_limits(tied) if tied else (0.0, 1.0)
    return GroupSet(cells.smoothed(z), b0, b1, rho, z=z)
