"""How far the fair rates of groups must differ, and how far they may.

Each group s by itself leaves its fair rate an interval I_s from L_s to U_s. One rate for all groups
is possible where they overlap. Where group a needs more than group b allows, fair rates differ by
at least δ* = max over a ≠ b of L_a − U_b. Groups are independent samples, so that limits of a
difference come from those of its terms, added as squares (MOVER; Zou and Donner 2008):

    (L̂_a − Û_b) − sqrt((L̂_a − l_a)² + (u_b − Û_b)²)

with l_a and u_b at the tail α / (G(G − 1)), one for each ordered pair of G groups. That it is over
0 for some pair is the test of equal fair rates. It has more power than asking whether separate
intervals overlap, which adds the errors and not their squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, MetricError, one_number
from fairpc.evidence._intervals import quantile

NO_DELTA: Final = (
    "delta is over 0 with strata that share a mechanism: groups' rates then lie on a line over the "
    "strata only if fair rates are equal within them; use mechanism='within', or leave delta out"
)


@dataclass(frozen=True)
class LeastDifference:
    """By how much the labels force fair rates of groups apart, δ*."""

    limit: float  #: lower confidence limit; 0 where one rate for all groups is not rejected
    estimate: float  #: at the estimates; 0 where groups' ranges overlap
    above: Any  #: the group that needs the larger rate; None of a single group
    below: Any  #: the group that allows the smaller one only
    overlap: float  #: by how much their ranges overlap at the estimates; 0 where they do not
    half_width: float  #: the estimate less the limit, before both are cut at 0
    error: float  #: standard error of the estimate; 0 where the labels bound a rate not at all

    def noticed(self, difference: float = 0.1, delta: float = 0.0) -> float:
        """In which share of tables like this one a δ* of this size would be noticed, about.

        By the normal distribution, with the errors of the table at hand. It is less where held-out
        sets of rows miss the most extreme ones, and so show less than the population has: in draws
        .17 for .45, and .84 for .96, where features show the fair decision of some rows only.
        """
        from scipy.special import ndtr

        difference = check_difference("difference", difference)
        if self.error <= 0:
            return 0.0
        return float(ndtr((difference - delta - self.half_width) / self.error))

    def power(self, n_rows: int, difference: float = 0.1, delta: float = 0.0) -> str:
        """What the test can see in a table of so many rows, in plain words."""
        points = f"{100 * difference:.3g} points"
        if self.error <= 0:
            return (
                f"The features say too little of these {n_rows:,} labels: however far fair rates "
                "differ, the test would not notice."
            )
        text = (
            f"With {n_rows:,} rows, labels that force fair rates {points} apart would be noticed "
            f"in about {100 * self.noticed(difference, delta):.0f} of 100 tables at best."
        )
        if self.overlap > 0:
            text += (
                f" Sampling error left out, the groups' ranges overlap by {100 * self.overlap:.1f} "
                "points, which more rows would not narrow."
            )
        return text


@dataclass(frozen=True, eq=False)
class RateRanges:
    """What each group leaves of its own fair rate: ends and their limits, [group, end]."""

    names: tuple[Any, ...]
    estimates: Floats
    limits: Floats
    tail: float  #: of each limit
    added: bool = False  #: whether errors are added, which is exact, or their squares

    def limits_apart(self) -> Floats:
        """Lower confidence limits of L_a − U_b, [a, b]; NaN of a group against itself.

        What is above 0 must be between a and b. Turned round, −(L_a − U_b) is how far b may be
        above a at most, with the same limit.
        """
        errors = np.abs(self.limits - self.estimates)
        middle = self.estimates[:, 0, None] - self.estimates[None, :, 1]
        own, other = errors[:, 0, None], errors[None, :, 1]
        found = middle - (own + other if self.added else np.hypot(own, other))
        np.fill_diagonal(found, math.nan)
        return np.asarray(found, np.float64)

    def most(self) -> float:
        """The largest difference of two fair rates that is not excluded."""
        if len(self.names) < 2:
            return 1.0
        return min(max(-float(np.nanmin(self.limits_apart())), 0.0), 1.0)

    def least(self) -> LeastDifference:
        """Of the pair of groups whose limit is largest."""
        if len(self.names) < 2:
            return LeastDifference(0.0, 0.0, None, None, 0.0, 0.0, 0.0)
        limits = self.limits_apart()
        a, b = divmod(int(np.nanargmax(limits)), len(self.names))
        limit, (lower, upper) = float(limits[a, b]), (self.limits[a, 0], self.limits[b, 1])
        estimate = float(self.estimates[a, 0] - self.estimates[b, 1])
        error = math.hypot(self.estimates[a, 0] - lower, upper - self.estimates[b, 1])
        # An end that is cut at 0 or 1 has no error that could be measured.
        known = lower > 0 and upper < 1 and self.tail < 0.5
        return LeastDifference(
            limit=max(limit, 0.0),
            estimate=max(estimate, 0.0),
            above=self.names[a],
            below=self.names[b],
            overlap=max(float(self.estimates[:, 1].min() - self.estimates[:, 0].max()), 0.0),
            half_width=estimate - limit,
            error=error / quantile(1 - self.tail) if known else 0.0,
        )


def check_difference(name: str, value: Any) -> float:
    """A difference of two rates, from 0 to 1."""
    share = one_number(name, value)
    if not 0 <= share <= 1:
        raise MetricError(f"{name} is {value}: give a difference of rates from 0 to 1, such as .05")
    return share
