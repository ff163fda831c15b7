"""What one group's labels leave possible, and what all leave together where fair rates may differ.

With ρ = P(D=1 | s) and scores from m to M, mechanisms are b0 ≤ m and b1 ≥ M, and P(Df=1 | s) lies
from L = (ρ − m) / (1 − m) to U = ρ / M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Floats
from fairpc.evidence._intervals import Interval

SLACK: Final = 1e-12
"""Rounding that is allowed when a single P(Df) is left."""


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
    """One group: what its scores say about P(Df=1)."""

    group: Any  #: its name
    n: int  #: rows
    rate: float  #: ρ, the mean of its scores, P(D=1 | s)
    low: float  #: m, the smallest score: b0 is at most this
    high: float  #: M, the largest score: b1 is at least this
    lower: float  #: the least P(Df=1) that is possible for this group alone
    upper: float  #: the largest
    floor: float = 0.0  #: the least b0, where it is known beforehand
    ceiling: float = 1.0  #: the largest b1, likewise

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
            (scores - b0) / (b1 - b0) if b1 - b0 > SLACK else np.full(len(scores), pi)
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


def rates_within(own: Sequence[Interval], delta: float = 0.0) -> tuple[Interval, ...]:
    """The P(Df=1 | s) of each group where no two may differ by more than δ; none where impossible.

    Args:
        own: what each group leaves by itself.
        delta: δ.
    """
    least, most = max(low for low, _ in own), min(high for _, high in own)
    if least - delta > most + SLACK:
        return ()
    within = ((max(low, least - delta), min(high, most + delta)) for low, high in own)
    # Rounding may leave an end just beyond the other where a single rate is possible.
    return tuple((min(low, high), high) for low, high in within)
