"""Confidence limits of the mechanism and of scores, with the errors of all rates at once.

Let P(Df = 1 | s) = π lie from l to u, which the other groups bound, and b0 from its floor to m, b1
from M to its ceiling. Along π b1 + (1 − π) b0 = ρ then

    b1 ≥ M,   b1 ≥ m + (ρ − m) / u,         b1 ≤ ceiling,   b1 ≤ floor + (ρ − floor) / l,
    b0 ≤ m,   b0 ≤ (ρ − l M) / (1 − l),     b0 ≥ floor,     b0 ≥ (ρ − u ceiling) / (1 − u),

and with [c, C] = [m, M] for r ≥ ρ, [floor, ceiling] below, q = P(Df = 1 | x, s) is at most

    (r − floor) / (M − floor),    u (r − c) / (ρ − c),    u + (1 − u) (r − ρ) / (C − ρ)

and at least the same with l, m and the ceiling in the places of u, the floor and M, [c, C] being
swapped. Whatever the sets of rows are, b1 ≥ ρ and b0 ≤ ρ: m and M are cut at ρ, and at its limit
where they are at theirs.

Each side is a smooth function of a few rates. Its limit moves one rate at a time to its own limit,
and adds the squares of what that changes (MOVER; Donner and Zou 2012); together they hold at the
level by Bonferroni. All rates at their limits at once would be far less probable.

The errors of ρ and of a rate of some of its rows go together. Where one moves to its limit, the
other goes along towards its own limit on that side, by their correlation; what is left of its error
is added as a square. Of both orders the one that leaves more counts. With limits that are as far to
both sides this is the covariance term of MOVER; limits of few rows are not, and a set that is the
whole group then has no more error, and no less, than ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Bools, Floats
from fairpc.evidence._intervals import Interval

_TINY: Final = 1e-12

Moved = tuple[float, float]
"""A rate at its estimate, and at the limit that is less favourable."""
Limits = tuple[float, float, float]
"""The same, and at its other limit."""


@dataclass(frozen=True)
class GroupLimits:
    """One group: ρ, m and M at the estimates and at their limits."""

    rate: float
    rate_limits: Interval
    low: float  #: m
    low_limits: Interval
    high: float  #: M
    high_limits: Interval
    low_correlation: float  #: of the errors of ρ and m
    high_correlation: float  #: of the errors of ρ and M
    floor: float = 0.0
    ceiling: float = 1.0
    #: bounds of P(Df = 1 | s) from below and above, by the other groups or stated beforehand
    lowers: Sequence[Moved] = ()
    uppers: Sequence[Moved] = ()

    def mechanism(self) -> tuple[Interval, Interval]:
        """Limits of b0 and of b1."""
        fall, rise = self._rate(-1), self._rate(1)
        low, high = self._low, self._high
        floor, ceiling = self.floor, self.ceiling
        b1_low, b0_high = [self.high_limits[0]], [self.low_limits[1]]
        b1_high, b0_low = [ceiling], [floor]
        for above in _inside(self.uppers):
            args = (fall, low, above)
            b1_low.append(_limit(_b1_least, args, -1, self.low_correlation))
            b0_low.append(_limit(lambda p, pi: (p - pi * ceiling) / (1 - pi), (fall, above), -1))
        for below in _inside(self.lowers):
            args = (rise, high, below)
            b0_high.append(_limit(_b0_most, args, 1, self.high_correlation))
            b1_high.append(_limit(lambda p, pi: floor + (p - floor) / pi, (rise, below), 1))
        return _in_order(max(b0_low), min(b0_high)), _in_order(max(b1_low), min(b1_high))

    def _rate(self, sign: int) -> Limits:
        """ρ that moves down (−1) or up (1)."""
        least, most = self.rate_limits
        return (self.rate, least, most) if sign < 0 else (self.rate, most, least)

    @property
    def _low(self) -> Limits:
        least, most = self.low_limits
        return self.low, most, least

    @property
    def _high(self) -> Limits:
        return self.high, *self.high_limits

    def scores(self, r: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
        """Limits of P(Df = 1 | x, s) of rows with P(D = 1 | x, s) = r: its limits, and between."""
        low, middle, high = r
        least = np.max(self._side(-1, (middle, low), self.lowers), axis=0)
        most = np.min(self._side(1, (middle, high), self.uppers), axis=0)
        return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)

    def _side(self, sign: int, r: tuple[Floats, Floats], bounds: Sequence[Moved]) -> list[Floats]:
        """Limits of all that bounds a score from below (−1) or from above (1)."""

        def inner(r: Floats, rate: float) -> Bools:
            # Above ρ the largest score has the least informative labels, the least score the most.
            return r >= rate if sign > 0 else r < rate

        def by_bottom(rate: float, low: float, pi: float, r: Floats) -> Floats:
            room = rate - np.where(inner(r, rate), low, self.floor)
            return np.asarray(pi * (1 + (r - rate) / np.maximum(room, _TINY)))

        def by_top(rate: float, high: float, pi: float, r: Floats) -> Floats:
            room = np.where(inner(r, rate), high, self.ceiling) - rate
            return np.asarray(pi + (1 - pi) * (r - rate) / np.maximum(room, _TINY))

        if sign > 0:
            found = [_limit(lambda r, b1: _between(self.floor, r, b1), (r, self._high), sign)]
        else:
            found = [_limit(lambda r, b0: _between(b0, r, self.ceiling), (r, self._low), sign)]
        rate = self._rate(-sign)
        for pi in _inside(bounds):
            found.append(_limit(by_bottom, (rate, self._low, pi, r), sign, self.low_correlation))
            found.append(_limit(by_top, (rate, self._high, pi, r), sign, self.high_correlation))
        return found


def _b1_least(rate: float, low: float, pi: float) -> float:
    return low + (rate - low) / pi


def _b0_most(rate: float, high: float, pi: float) -> float:
    return (rate - pi * high) / (1 - pi)


def _between(b0: float, r: Floats, b1: float) -> Floats:
    return (r - b0) / max(b1 - b0, _TINY)


def _limit(
    f: Callable[..., Any], args: Sequence[tuple[Any, ...]], sign: int, correlation: float = 0.0
) -> Any:
    """f at the estimates, moved by the squares of what each limit changes.

    The errors of the first two arguments go together, if there are more than two.
    """
    here = [one[0] for one in args]
    middle = f(*here)

    def square(moved: dict[int, Any]) -> Any:
        at = [moved.get(k, value) for k, value in enumerate(here)]
        return np.square(np.maximum(sign * (f(*at) - middle), 0.0))

    squares = [square({k: one[1]}) for k, one in enumerate(args)]
    if len(args) > 2:
        (a, a_far, _), (b, b_far, _) = args[:2]
        # Which limit of one is on the side to which the other moves.
        side = 1 if (a_far - a) * (b_far - b) > 0 else 2
        both = [
            square({k: args[k][1], other: here[other] + correlation * (beside - here[other])})
            + (1 - correlation**2) * squares[other]
            for k, other, beside in ((0, 1, args[1][side]), (1, 0, args[0][side]))
        ]
        squares[:2] = [np.maximum(*both)]
    return middle + sign * np.sqrt(sum(squares))


def _inside(bounds: Iterable[Moved]) -> Iterable[Moved]:
    """Bounds of a rate that say something: those from 0 to 1."""
    for here, far in bounds:
        if 0 < here < 1:
            here, far = (min(max(end, _TINY), 1 - _TINY) for end in (here, far))
            yield here, far


def _in_order(low: Any, high: Any) -> Interval:
    """A range; where chance leaves none, what lies between its ends is nearest to both."""
    low, high = (min(max(float(end), 0.0), 1.0) for end in (low, high))
    return (low, high) if low <= high else ((low + high) / 2,) * 2
