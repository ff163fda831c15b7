"""What one group's labels leave possible, and what all leave together where fair rates may differ.

With ρ = P(D=1 | s) and scores from m to M, mechanisms are b0 ≤ m and b1 ≥ M, and P(Df=1 | s) lies
from L = (ρ − m) / (1 − m) to U = ρ / M.

One point of this is chosen by a rule that can be said in a sentence. The fair rate is the middle of
the part of the set that lies between the lowest and the highest recorded rate of a group; the
labels of each group are then altered as little as that rate allows, in |ρ_s − π| of its rows. It is
a convention: labels fit every other point of the set as well. Groups of fewer than 30 rows are not
asked: a held-out set of rows needs as many, so that their labels bound nothing, and a recorded rate
of so few rows is mostly chance.

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.core import Floats, MetricError, Record, one_number
from fairpc.evidence._intervals import Interval, quantile
from fairpc.evidence._top_sets import MIN_SIZE

SLACK: Final = 1e-12
"""Rounding that is allowed when a single P(Df) is left."""
Rule = Literal["middle", "end", "between"]
_RULES: Final = {
    "middle": "the middle of what is possible between the lowest and the highest recorded rate",
    "end": "the end of what is possible that is nearest to the recorded rates",
    "between": "the middle of the gap between what one group needs and another allows",
}


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

    def row(self, possible: Sequence[MechanismRange]) -> dict[str, Any]:
        """A line of a table: the bounds of P(Df=1), and the ends over these mechanisms."""
        row = {name: getattr(self, name) for name in ("group", "n", "rate", "lower", "upper")}
        for name in ("b0", "b1"):
            ends = [getattr(one, name) for one in possible]
            row[f"{name}_lower"] = min((end[0] for end in ends), default=math.nan)
            row[f"{name}_upper"] = max((end[1] for end in ends), default=math.nan)
        return row

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

    def scores(self, low: Floats, high: Floats, possible: Interval) -> Floats:
        """Least and largest P(Df=1 | x, s) of rows whose scores lie from low to high, over the
        P(Df=1) that is possible."""
        at = self.corners(*possible)
        least = np.min([q for pi in at for q in self.score_ends(low, pi)], axis=0)
        most = np.max([q for pi in at for q in self.score_ends(high, pi)], axis=0)
        # Rounding may step over what is a probability.
        return np.asarray(np.clip([least, most], 0.0, 1.0))

    def corners(self, lower: float, upper: float) -> list[float]:
        """Every P(Df=1) at which a bound of a score can turn: it is linear in between."""
        turns = [lower, upper]
        for least, most in ((self.floor, self.ceiling), (self.low, self.high)):
            if most > least:
                turns.append((self.rate - least) / (most - least))
        return sorted({pi for pi in turns if lower <= pi <= upper})


def rates_within(own: Sequence[Interval], delta: float = 0.0) -> tuple[Interval, ...]:
    """The P(Df=1 | s) of each group where no two may differ by more than δ; none where impossible.

    ``own`` is what each leaves by itself.
    """
    least, most = max(low for low, _ in own), min(high for _, high in own)
    if least - delta > most + SLACK:
        return ()
    within = ((max(low, least - delta), min(high, most + delta)) for low, high in own)
    # Rounding may leave an end just beyond the other where a single rate is possible.
    return tuple((min(low, high), high) for low, high in within)


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


@dataclass(frozen=True)
class FairRatePoint(Record):
    """A fair rate, and for each group the mechanism with the fewest altered labels."""

    rate: float  #: P(Df=1) by the rule
    rates: tuple[float, ...]  #: P(Df=1 | s); all the same unless the labels contradict it
    mechanism: tuple[Interval, ...]  #: (b0, b1) of each group
    altered: tuple[float, ...]  #: share of each group's rows whose label was altered
    #: "middle" of the part between recorded rates; "end", where the set has no such part;
    #: "between", where the set is empty
    rule: Rule
    unused: tuple[bool, ...]  #: whether a group has too few rows to be asked

    _computed = ("summary",)

    def summary(self) -> str:
        """The rule, in plain words."""
        return (
            f"A fair rate of {self.rate:.3f} is {_RULES[self.rule]}; the labels of each group are "
            "altered as little as it allows. It is a convention, and not a finding."
        )


def fair_rate_point(
    groups: Sequence[GroupRange], *, delta: float = 0.0, pi: Interval = (0.0, 1.0)
) -> FairRatePoint:
    """The point of an identified set that lies between the recorded rates.

    Where no rate fits all groups, groups have different ones, as near to the point as their labels
    allow and no further apart than ``delta``; else ``delta`` does not move it.

    Args:
        groups: what each leaves possible, such as ``identified_set(…).groups``.
        delta: by how much fair rates of groups may differ.
        pi: range of P(Df=1) that is known beforehand.
    """
    delta = check_difference("delta", delta)
    small = [g.n < MIN_SIZE for g in groups]
    if all(small):
        small = [False] * len(groups)
    used = [g for g, few in zip(groups, small, strict=True) if not few]
    ends = max(pi[0], *(g.lower for g in used)), min(pi[1], *(g.upper for g in used))
    recorded = min(g.rate for g in used), max(g.rate for g in used)
    start, stop = sorted(ends)
    low, high = max(start, recorded[0]), min(stop, recorded[1])
    rule: Rule = "between" if ends[0] > ends[1] else "middle" if low <= high else "end"
    rate = (low + high) / 2 if low <= high else start if start > recorded[1] else stop
    rate = min(max(rate, pi[0]), pi[1])  # what is known holds, also where labels contradict it
    rates = np.full(len(groups), rate)
    if rule == "between":
        own = [
            (0.0, 1.0) if few else (g.lower, g.upper) for g, few in zip(groups, small, strict=True)
        ]
        away = np.clip(rate, *np.array(own).T) - rate
        rates += away * min(1.0, delta / max(float(np.ptp(away)), 1e-300))
        rates = np.clip(rates, *pi)
    each = list(zip(groups, rates.tolist(), strict=True))
    mechanism = tuple((g.b0(p)[0], g.b1(p)[1]) for g, p in each)
    altered = (
        p * (1 - b1) + (1 - p) * b0 for (_, p), (b0, b1) in zip(each, mechanism, strict=True)
    )
    return FairRatePoint(rate, tuple(rates.tolist()), mechanism, tuple(altered), rule, tuple(small))
