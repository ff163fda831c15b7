"""Mechanisms that are possible for each group, from its held-out sets: boxes, and what cuts them.

Without strata a box of (b0, b1) per group, cut where fair rates may differ by delta at most. With
strata such a box in each.

Of two groups, P(Df=1) may differ by delta at most. At one P(Df=1) = π the mechanisms of a group are
a line from (b0 largest, b1 least) to (b0 least, b1 largest), and a rate is extreme at its ends. On
either end one of b0 and b1 stays and the other follows π, which makes TPR linear in 1/π, FPR linear
in 1/(1 − π), accuracy and precision linear in π, piece by piece. So a difference is extreme where a
piece of either group ends, where the strip |π − π'| ≤ delta cuts such a line, or, along the edges
of the strip, at one stationary point per piece.

Limits of both groups, at corners, are joined by MOVER (Zou and Donner 2008, Donner and Zou 2012).
Where groups depend on each other, that is done in parts of P(Df=1) which are near to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, cast

import numpy as np

from fairpc.core import Floats, MetricError
from fairpc.evidence._decision_rows import DecisionRows, HeldOut
from fairpc.evidence._error_sets import DecisionCells, GroupSet, Rate, StrataSet, coupled
from fairpc.evidence._held_out_bounds import HeldOutRates, Known, StratumBounds
from fairpc.evidence._intervals import Interval, quantile

_SLACK: Final = 1e-12
_SHORT: Final = 1e-9
"""Pieces of P(Df=1) shorter than this are points, but for rounding."""
_STEPS: Final = 60
N_SLABS: Final = 32
"""Parts of P(Df=1) in which two groups that depend on each other are compared."""
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
        if not rows.within:
            return cls._of_part(rows, held[0], known, delta, alpha)
        # Ends of all strata hold together; the error of the rates themselves is that of the group.
        parts = list(zip(map(rows.of_part, rows.parts), held, strict=True))
        each = [cls._of_part(*part, known, delta, alpha, len(parts)) for part in parts]
        estimated, limited = [], []
        for g, own in enumerate(rows.every_cells):
            z = quantile(1 - alpha / 4, own.freedom)
            here = tuple(cast(GroupSet, e.estimated[g]) for e in each)
            far = tuple(cast(GroupSet, e.limited[g]) for e in each)
            estimated.append(StrataSet(own, here))
            limited.append(StrataSet(own.smoothed(z), far, z))
        return cls(estimated, limited, any(e.rejected for e in each))

    @classmethod
    def _of_part(
        cls,
        rows: DecisionRows,
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
        each = list(zip(rows.every_cells, held, known, strict=True))
        estimated, limited = [_estimated(*one) for one in each], []
        for name, (cells, splits, own) in zip(rows.names, each, strict=True):
            z = quantile(1 - tail, cells.freedom)
            m, top = np.median([h.scores(tail / n_parts) for h in splits], axis=0).tolist()
            b0, b1 = (own.b0[0], min(m, own.b0[1])), (max(top, own.b1[0]), own.b1[1])
            if b0[0] > b0[1] or b1[0] > b1[1]:
                raise MetricError(
                    f"knowledge of group {name!r} contradicts its labels: it leaves b0 from "
                    f"{b0[0]:.3f} to {b0[1]:.3f} and b1 from {b1[0]:.3f} to {b1[1]:.3f}; widen it"
                )
            rho = splits[0].rate_limits(tied) if tied else (0.0, 1.0)
            limited.append(GroupSet(cells.smoothed(z), b0, b1, rho, z=z))
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


def _estimated(cells: DecisionCells, held: list[HeldOutRates], known: Known) -> GroupSet:
    """A group at the estimates; what is known counts for more than an end."""
    rho = cells.labelled
    m, top = np.median([h.scores(None) for h in held], axis=0).tolist()
    b0 = known.b0[0], max(known.b0[0], min(m, rho, known.b0[1]))
    b1 = min(known.b1[1], max(top, rho, known.b1[0])), known.b1[1]
    return GroupSet(cells, b0, b1, (rho, rho))


def pair_range(
    first: GroupSet, last: GroupSet, rate: Rate, delta: float, *, ratio: bool
) -> Interval:
    """Least and largest last − first, or last / first, over all mechanisms that are possible, at
    the estimates."""
    own = first.range(rate), last.range(rate)
    if math.isnan(sum(map(sum, own))):
        return math.nan, math.nan
    low, high = free_range(*own, ratio=ratio)
    if delta >= 1 or (ratio and own[0][0] <= 0):
        return low, high
    pair = _Pair(first, last, rate, delta)
    if ratio:
        return max(low, pair.ratio(-1, low)), min(high, pair.ratio(1, high))
    down, up = pair.extreme(1.0, -1.0), pair.extreme(-1.0, 1.0)
    if down is None or up is None:
        return low, high
    # What lies outside 0 to 1 is chance: nothing that is possible does.
    return max(low, down[1] - down[0]), min(high, up[1] - up[0])


def free_range(first: Interval, last: Interval, *, ratio: bool) -> Interval:
    """The same of two groups that do not depend on each other, by what each leaves."""
    (a, b), (c, d) = first, last
    if not ratio:
        return c - b, d - a
    return c / b if b > 0 else math.inf, d / a if a > 0 else math.inf


@dataclass(frozen=True, eq=False)
class _Pair:
    first: GroupSet
    last: GroupSet
    rate: Rate
    delta: float

    def ratio(self, sign: int, otherwise: float) -> float:
        """The largest (1) or least (-1) last / first, by the iteration of Dinkelbach (1967)."""
        found = self.extreme(0.0, float(sign))
        for _ in range(_STEPS):
            if found is None or found[0] <= 0:
                return otherwise
            before = found[1] / found[0]
            found = self.extreme(-sign * before, float(sign))
            if found is not None and abs(found[1] - before * found[0]) < _SLACK:
                break
        return otherwise if found is None or found[0] <= 0 else found[1] / found[0]

    def extreme(self, u: float, v: float) -> tuple[float, float] | None:
        """The rates of both groups at which u · first + v · last is largest.

        None where a rate is not defined at some mechanism.
        """
        groups = self.first, self.last
        turns = [g.possible.corners(*g.pi) for g in groups]
        own = [
            _within(g.pi, [*mine, *(t + d for t in others for d in (-self.delta, self.delta))])
            for g, mine, others in zip(groups, turns, reversed(turns), strict=True)
        ]
        if self.rate in ("tpr", "fpr") and self.delta > 0:
            still = self._still(own[0], u, v)
            each = zip(groups, own, still, strict=True)
            own = [_within(g.pi, [*x, *more]) for g, x, more in each]
        x, y = (self._values(g, pis) for g, pis in zip(groups, own, strict=True))
        if np.isnan(x).any() or np.isnan(y).any():
            return None
        near = np.abs(np.subtract.outer(own[0], own[1])) <= self.delta + _SLACK
        if not near.any():
            return None
        best = np.where(near[:, None, :, None], u * x[:, :, None, None] + v * y, -math.inf)
        i, a, j, b = np.unravel_index(int(np.argmax(best)), best.shape)
        return float(x[i, a]), float(y[j, b])

    def _values(self, group: GroupSet, pis: Sequence[float]) -> Floats:
        """The rate at both ends of the mechanisms of each P(Df=1), [P(Df=1), end]."""
        range_ = group.possible
        ends = []
        for pi in pis:
            b0, b1 = range_.b0(pi), range_.b1(pi)
            ends += [(b0[1], b1[0]), (b0[0], b1[1])]
        return group.cells.values(self.rate, np.array(ends)).reshape(-1, 2)

    def _still(self, turns: list[float], u: float, v: float) -> tuple[list[float], list[float]]:
        """Points inside pieces of the edges of the strip at which the sum is stationary.

        On a piece it is a constant plus p g(π) + q g(π + d), with g(π) = 1/π or 1/(1 − π).
        """
        mine: list[float] = []
        theirs: list[float] = []
        for d in (-self.delta, self.delta):
            inside = _within((self.last.pi[0] - d, self.last.pi[1] - d), turns)
            for low, high in pairwise(inside):
                if high - low < _SHORT:
                    continue
                x = u * self._values(self.first, (low, high))
                y = v * self._values(self.last, (low + d, high + d))
                p, q = (
                    (z[1] - z[0]) / (self._g(high + e) - self._g(low + e))
                    for z, e in ((x, 0.0), (y, d))
                )
                for a, b in product(p.tolist(), q.tolist()):
                    pi = self._stationary(a, b, d)
                    if low < pi < high:
                        mine.append(pi)
                        theirs.append(pi + d)
        return mine, theirs

    def _g(self, pi: float) -> float:
        at = pi if self.rate == "tpr" else 1 - pi
        return 1 / at if at > 0 else math.inf

    def _stationary(self, p: float, q: float, d: float) -> float:
        """Where p g(π) + q g(π + d) is stationary; NaN where it is nowhere."""
        if not p * q < 0:
            return math.nan
        root = math.sqrt(-q / p)
        if root == 1:
            return math.nan
        return d / (root - 1) if self.rate == "tpr" else 1 - d / (1 - root)


def _within(range_: Interval, values: Sequence[float]) -> list[float]:
    """Different values in a range, in order."""
    return sorted({v for v in values if range_[0] - _SLACK <= v <= range_[1] + _SLACK})


def pair_limits(
    first: GroupSet, last: GroupSet, rate: Rate, delta: float, *, ratio: bool
) -> Interval:
    """Limits of last − first, or last / first, where P(Df=1) of both differ by delta at most.

    Both lie in parts of its range that are so near to each other.
    """
    low, high = math.inf, -math.inf
    for x, y in _facing(first, last, rate, delta):
        least, most = joined(x[None, :, :], y[:, None, :], ratio=ratio)
        low, high = min(low, float(least.min())), max(high, float(most.max()))
    if low > high:
        return math.nan, math.nan
    return (low, high) if ratio else (max(low, -1.0), min(high, 1.0))


def joined(first: Floats, last: Floats, *, ratio: bool) -> tuple[Floats, Floats]:
    """Limits of last − first, or last / first, from those of both, [.., (lower, value, upper)]."""
    x, y = last[..., 1], first[..., 1]
    if not ratio:
        down = np.hypot(x - last[..., 0], first[..., 2] - y)
        up = np.hypot(last[..., 2] - x, y - first[..., 0])
        return x - y - down, x - y + up
    found = []
    for side, lost in ((0, 0.0), (2, math.inf)):
        end, other = last[..., side], first[..., 2 - side]
        scale = other * (2 * y - other)
        root = np.sqrt(np.maximum((x * y) ** 2 - end * (2 * x - end) * scale, 0.0))
        top = np.maximum(x * y + (root if side else -root), 0.0)
        fine = scale > 1e-15
        found.append(np.where(fine, top / np.where(fine, scale, 1.0), lost))
    return found[0], found[1]


def _facing(
    first: GroupSet, last: GroupSet, rate: Rate, delta: float
) -> Iterator[tuple[Floats, Floats]]:
    """Limits of both groups at corners of parts of P(Df=1) in which both can be at once."""
    edges = np.linspace(
        min(first.pi[0], last.pi[0]), max(first.pi[1], last.pi[1]), N_SLABS + 1
    ).tolist()
    parts = list(pairwise(edges))

    def ends(group: GroupSet, part: Interval) -> Floats:
        low, high = max(part[0], group.pi[0]), min(part[1], group.pi[1])
        return group.ends(rate, (low, high)) if low <= high else np.empty((0, 3))

    each = [[ends(group, part) for part in parts] for group in (first, last)]
    for (i, x), (j, y) in product(enumerate(each[0]), enumerate(each[1])):
        apart = max(parts[i][0] - parts[j][1], parts[j][0] - parts[i][1], 0.0)
        near = i == j if delta == 0 else apart <= delta
        if near and len(x) and len(y):
            yield x, y
