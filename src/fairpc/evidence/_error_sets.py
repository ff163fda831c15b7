"""Error rates of decisions against Df: what mechanisms leave possible, and their sampling error.

Let h be a decision that saw X and S and not the labels, so that D and h are independent given
(Df, S). With b_f = P(D=1 | Df=f, s), P(h, D | s) gives every rate of h against Df as a ratio of
two means over rows that are linear in (b0, b1):

    TPR = E[h (D − b0)] / E[D − b0]          FPR = E[h (b1 − D)] / E[b1 − D]
    accuracy = E[2hD − (b0 + b1) h + b1 − D] / (b1 − b0)
    precision = E[h (D − b0)] / E[h (b1 − b0)]

Over a polygon of (b0, b1) such a ratio is largest and least at corners, and so are the limits of
Fieller: the points whose upper limit is below a number are those at which the norm of something
linear is below something linear, a convex set. P(Df=1 | s) from l to u is a polygon too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final, Literal

import numpy as np

from fairpc.core import Bools, Floats, Positions
from fairpc.evidence._identified import GroupRange
from fairpc.evidence._intervals import Interval
from fairpc.learners import kish

Rate = Literal["tpr", "fpr", "accuracy", "precision", "selection"]
RATES: Final[tuple[Rate, ...]] = ("tpr", "fpr", "accuracy", "precision", "selection")
N_SLABS: Final = 32
"""Parts of P(Df=1) in which two groups that depend on each other are compared."""
_SLACK: Final = 1e-12
_H: Final = np.array([0.0, 0.0, 1.0, 1.0])
_D: Final = np.array([0.0, 1.0, 0.0, 1.0])


def terms(rate: Rate, b0: Floats, b1: Floats) -> tuple[Floats, Floats]:
    """Numerator and denominator of a rate in the cells (h, D) = 00, 01, 10, 11: [corner, cell]."""
    b0, b1 = b0[:, None], b1[:, None]
    if rate == "tpr":
        return _H * (_D - b0), _D - b0
    if rate == "fpr":
        return _H * (b1 - _D), b1 - _D
    if rate == "accuracy":
        return 2 * _H * _D - (b0 + b1) * _H + b1 - _D, (b1 - b0) * np.ones(4)
    if rate == "precision":
        return _H * (_D - b0), (b1 - b0) * _H
    return _H + 0 * b0, np.ones(4) + 0 * b0


@dataclass(frozen=True, eq=False)
class DecisionCells:
    """One group: shares of the cells (h, D), and how well they are known."""

    shares: Floats
    covariance: Floats
    size: float  #: independent rows they are worth
    freedom: float  #: degrees of freedom of the covariance; infinite where it was not estimated

    @classmethod
    def of(
        cls, decided: Bools, positive: Bools, weights: Floats | None, persons: Positions | None
    ) -> DecisionCells:
        cell = 2 * decided.astype(np.intp) + positive
        w = np.ones(len(cell)) if weights is None else weights
        shares = np.bincount(cell, w, 4) / w.sum()
        if weights is None and persons is None:
            spread = np.diag(shares) - np.outer(shares, shares)
            return cls(shares, spread / len(cell), float(len(cell)), math.inf)
        who = (
            np.arange(len(cell)) if persons is None else np.unique(persons, return_inverse=True)[1]
        )
        n = int(who.max()) + 1
        sums = np.bincount(who * 4 + cell, w, 4 * n).reshape(n, 4)
        totals = sums.sum(axis=1)
        gaps = sums - totals[:, None] * shares
        covariance = gaps.T @ gaps / totals.sum() ** 2 * n / max(n - 1, 1)
        return cls(shares, covariance, kish(totals), float(n - 1))

    def smoothed(self, z: float) -> DecisionCells:
        """With z²/2 rows more in each cell, as Agresti and Coull have them for one rate: a rate
        that is 0 or 1 in these rows is not certain."""
        extra = z * z / 2
        n = self.size + 4 * extra
        shares = (self.size * self.shares + extra) / n
        off = np.eye(4) - shares
        covariance = self.covariance * (self.size / n) ** 2 + extra * off.T @ off / n**2
        return replace(self, shares=shares, covariance=covariance, size=n)

    @property
    def selected(self) -> float:
        return float(self.shares[2] + self.shares[3])

    @property
    def labelled(self) -> float:
        """ρ = P(D=1 | s)."""
        return float(self.shares[1] + self.shares[3])

    def values(self, rate: Rate, corners: Floats) -> Floats:
        """A rate at each (b0, b1), not kept within 0 and 1; NaN where its denominator is 0."""
        u, v = terms(rate, corners[:, 0], corners[:, 1])
        top, bottom = u @ self.shares, v @ self.shares
        fine = bottom > _SLACK
        return np.asarray(np.where(fine, top / np.where(fine, bottom, 1.0), math.nan))

    def limits(self, rate: Rate, corners: Floats, z: float) -> Floats:
        """Lower limit, value, upper limit of a rate at each (b0, b1), [corner, 3] (Fieller 1954).

        From 0 to 1 where the denominator may be 0.
        """
        u, v = terms(rate, corners[:, 0], corners[:, 1])
        p, s, z2 = self.shares, self.covariance, z * z
        top, bottom = u @ p, v @ p
        a = bottom**2 - z2 * ((v @ s) * v).sum(axis=1)
        b = top * bottom - z2 * ((u @ s) * v).sum(axis=1)
        c = top**2 - z2 * ((u @ s) * u).sum(axis=1)
        fine = (a > 1e-24) & (bottom > _SLACK)
        a, bottom = np.where(fine, a, 1.0), np.where(fine, bottom, 1.0)
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))
        ends = np.stack([(b - root) / a, top / bottom, (b + root) / a], axis=1)
        if z == 0:
            ends[:, [0, 2]] = ends[:, [1, 1]]
        return np.asarray(np.where(fine[:, None], np.clip(ends, 0.0, 1.0), [0.0, 0.5, 1.0]))


@dataclass(frozen=True, eq=False)
class GroupSet:
    """One group: its cells, and the mechanisms and P(Df=1) that are possible for it."""

    cells: DecisionCells
    b0: Interval
    b1: Interval
    rho: Interval  #: limits of P(D=1 | s)
    pi: Interval = (0.0, 1.0)
    z: float = 0.0  #: how many standard errors limits are away; 0 at the estimates

    def corners(self, pi: Interval | None = None) -> Floats:
        """Of the polygon of (b0, b1) at which P(Df=1 | s) is between two numbers; none if empty.

        The box, cut by (1 − u) b0 + u b1 ≥ ρ and (1 − l) b0 + l b1 ≤ ρ.
        """
        low, high = self.pi if pi is None else pi
        (x0, x1), (y0, y1) = self.b0, self.b1
        if x0 > x1 or y0 > y1:
            return np.empty((0, 2))
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        corners = _cut(corners, (1 - high, high), self.rho[0])
        corners = _cut(corners, (low - 1, -low), -self.rho[1])
        return np.array(corners).reshape(-1, 2)

    def ends(self, rate: Rate, pi: Interval | None = None) -> Floats:
        """Limits and values at the corners, [corner, 3]."""
        return self.cells.limits(rate, self.corners(pi), self.z)

    def range(self, rate: Rate) -> Interval:
        ends = self.ends(rate)
        if not len(ends) or (rate == "precision" and self.cells.selected <= 0):
            return math.nan, math.nan
        return float(ends[:, 0].min()), float(ends[:, 2].max())

    @property
    def possible(self) -> GroupRange:
        """What the box leaves of P(Df=1 | s), at the estimates."""
        return GroupRange.of(
            None, 0, self.cells.labelled, (self.b0[1], self.b1[0]), self.b0[0], self.b1[1]
        )


def _cut(
    corners: list[tuple[float, float]], slope: Interval, least: float
) -> list[tuple[float, float]]:
    """The part of a convex polygon in which slope · (b0, b1) is at least a number."""
    over = [slope[0] * x + slope[1] * y - least for x, y in corners]
    kept: list[tuple[float, float]] = []
    for i, (x, y) in enumerate(corners):
        before = i - 1
        a, b = over[before], over[i]
        if (a > _SLACK and b < -_SLACK) or (a < -_SLACK and b > _SLACK):
            t = a / (a - b)
            px, py = corners[before]
            kept.append((px + t * (x - px), py + t * (y - py)))
        if b >= -_SLACK:
            kept.append((x, y))
    return kept


def coupled(
    sets: list[GroupSet], possible: list[Interval], delta: float
) -> tuple[list[GroupSet], bool]:
    """The sets where P(Df=1) of any two groups differ by at most delta; and whether any is left.

    A window of that width must meet every group's range, so P(Df=1 | s) is at least the largest
    lower end less delta and at most the least upper end plus delta.
    """
    if delta >= 1:
        return sets, True
    least, most = max(low for low, _ in possible) - delta, min(high for _, high in possible) + delta
    if least + delta > most:
        return sets, False
    ranges = [(max(low, least, 0.0), min(high, most, 1.0)) for low, high in possible]
    return [replace(s, pi=pi) for s, pi in zip(sets, ranges, strict=True)], True


def gap_limits(first: GroupSet, last: GroupSet, rate: Rate, delta: float) -> Interval:
    """Limits of last − first where P(Df=1) of both differ by delta at most.

    Both lie in parts of its range that are so near to each other; in every such pair of parts the
    limits of the groups, at corners, are joined (MOVER: Zou and Donner 2008).
    """
    low, high = math.inf, -math.inf
    for x, y in _facing(first, last, rate, delta):
        gaps = joined_gap(x[None, :, :], y[:, None, :])
        low, high = min(low, float(gaps[0].min())), max(high, float(gaps[1].max()))
    return (max(low, -1.0), min(high, 1.0)) if low <= high else (math.nan, math.nan)


def ratio_limits(first: GroupSet, last: GroupSet, rate: Rate, delta: float) -> Interval:
    """Limits of last / first, likewise (MOVER: Donner and Zou 2012)."""
    low, high = math.inf, 0.0
    for x, y in _facing(first, last, rate, delta):
        a, b = y[:, None, :], x[None, :, :]
        low = min(low, float(joined_ratio(b, a, 0).min()))
        high = max(high, float(joined_ratio(b, a, 2).max()))
    return (low, high) if low <= high else (math.nan, math.nan)


def joined_gap(first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Limits of last − first from those of both, each [.., (lower, value, upper)]."""
    middle = last[..., 1] - first[..., 1]
    down = np.hypot(last[..., 1] - last[..., 0], first[..., 2] - first[..., 1])
    up = np.hypot(last[..., 2] - last[..., 1], first[..., 1] - first[..., 0])
    return middle - down, middle + up


def joined_ratio(first: Floats, last: Floats, side: int) -> Floats:
    """A limit of last / first from those of both: ``side`` 0 the lower, 2 the upper."""
    x, y = last[..., 1], first[..., 1]
    end, other = last[..., side], first[..., 2 - side]
    scale = other * (2 * y - other)
    root = np.sqrt(np.maximum((x * y) ** 2 - end * (2 * x - end) * scale, 0.0))
    top = x * y + (root if side else -root)
    fine = scale > 1e-15
    lost = math.inf if side else 0.0
    return np.asarray(np.where(fine, np.maximum(top, 0.0) / np.where(fine, scale, 1.0), lost))


def _facing(
    first: GroupSet, last: GroupSet, rate: Rate, delta: float
) -> list[tuple[Floats, Floats]]:
    """Limits of both groups at corners of parts of P(Df=1) in which both can be at once."""
    edges = np.linspace(
        min(first.pi[0], last.pi[0]), max(first.pi[1], last.pi[1]), N_SLABS + 1
    ).tolist()
    parts = list(pairwise(edges))
    each = [[_ends_in(group, rate, part) for part in parts] for group in (first, last)]
    found = []
    for (i, x), (j, y) in product(enumerate(each[0]), enumerate(each[1])):
        apart = max(parts[i][0] - parts[j][1], parts[j][0] - parts[i][1], 0.0)
        near = i == j if delta == 0 else apart <= delta
        if near and len(x) and len(y):
            found.append((x, y))
    return found


def _ends_in(group: GroupSet, rate: Rate, part: Interval) -> Floats:
    low, high = max(part[0], group.pi[0]), min(part[1], group.pi[1])
    return group.ends(rate, (low, high)) if low <= high else np.empty((0, 3))
