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

Where strata have mechanisms of their own, a rate of the group is Σ_a u_a / Σ_a v_a, both divided by
b1 − b0 of the stratum. It is at most t if Σ_a (u_a − t v_a) is at most 0, and each stratum is
largest at a corner of its own: one equation in t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from fairpc.core import Bools, Floats, Positions
from fairpc.evidence._group_range import GroupRange
from fairpc.evidence._intervals import Interval
from fairpc.learners import kish

Rate = Literal["tpr", "fpr", "accuracy", "precision", "selection"]
RATES: Final[tuple[Rate, ...]] = ("tpr", "fpr", "accuracy", "precision", "selection")
_SLACK: Final = 1e-12
_H: Final = np.array([0.0, 0.0, 1.0, 1.0])
_D: Final = np.array([0.0, 1.0, 0.0, 1.0])
_GRID: Final = np.linspace(0.0, 1.0, 33)
_LOOKS: Final = 6
"""A rate is searched among 33 values, then among 33 between two of these, and so on: to 1e-9."""
_LEAST: Final = 1e-6
"""b1 − b0 of a stratum is not taken to be below this."""


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
    """One group: shares of the cells (h, D), stratum by stratum, and how well they are known."""

    shares: Floats
    covariance: Floats
    size: float  #: independent rows they are worth
    freedom: float  #: degrees of freedom of the covariance; infinite where it was not estimated

    @classmethod
    def of(
        cls,
        decided: Bools,
        positive: Bools,
        weights: Floats | None,
        persons: Positions | None,
        strata: Positions | None = None,
    ) -> DecisionCells:
        cell = 2 * decided.astype(np.intp) + positive
        k = 4
        if strata is not None:
            cell, k = 4 * strata + cell, 4 * (int(strata.max()) + 1)
        w = np.ones(len(cell)) if weights is None else weights
        shares = np.bincount(cell, w, k) / w.sum()
        if weights is None and persons is None:
            spread = np.diag(shares) - np.outer(shares, shares)
            return cls(shares, spread / len(cell), float(len(cell)), math.inf)
        who = (
            np.arange(len(cell)) if persons is None else np.unique(persons, return_inverse=True)[1]
        )
        n = int(who.max()) + 1
        sums = np.bincount(who * k + cell, w, k * n).reshape(n, k)
        totals = sums.sum(axis=1)
        gaps = sums - totals[:, None] * shares
        covariance = gaps.T @ gaps / totals.sum() ** 2 * n / max(n - 1, 1)
        return cls(shares, covariance, kish(totals), float(n - 1))

    def smoothed(self, z: float) -> DecisionCells:
        """With z²/2 rows more in each cell, as Agresti and Coull have them for one rate: a rate
        that is 0 or 1 in these rows is not certain. Strata share them by their rows."""
        extra = z * z / 2 * np.repeat(self.shares.reshape(-1, 4).sum(axis=1), 4)
        n = self.size + extra.sum()
        shares = (self.size * self.shares + extra) / n
        off = np.eye(len(shares)) - shares
        covariance = self.covariance * (self.size / n) ** 2 + (off.T * extra) @ off / n**2
        return replace(self, shares=shares, covariance=covariance, size=n)

    @property
    def selected(self) -> float:
        return float(np.tile(_H, len(self.shares) // 4) @ self.shares)

    @property
    def labelled(self) -> float:
        """ρ = P(D=1 | s)."""
        return float(np.tile(_D, len(self.shares) // 4) @ self.shares)

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
        ends = self.b0[1], self.b1[0]
        return GroupRange.of(None, 0, self.cells.labelled, ends, self.b0[0], self.b1[1])


@dataclass(frozen=True, eq=False)
class StrataSet:
    """One group whose strata have mechanisms of their own: its cells, and what each leaves."""

    cells: DecisionCells
    parts: tuple[GroupSet, ...]
    z: float = 0.0

    @property
    def b0(self) -> Interval:
        return min(p.b0[0] for p in self.parts), max(p.b0[1] for p in self.parts)

    @property
    def b1(self) -> Interval:
        return min(p.b1[0] for p in self.parts), max(p.b1[1] for p in self.parts)

    def range(self, rate: Rate) -> Interval:
        corners = [part.corners() for part in self.parts]
        if not all(map(len, corners)) or (rate == "precision" and self.cells.selected <= 0):
            return math.nan, math.nan
        each = []
        for own in corners:
            u, v = terms(rate, own[:, 0], own[:, 1])
            apart = np.maximum(own[:, 1] - own[:, 0], _LEAST)[:, None]
            each.append((u, v) if rate == "selection" else (u / apart, v / apart))
        return self._end(rate, each, -1), self._end(rate, each, 1)

    def _end(self, rate: Rate, each: list[tuple[Floats, Floats]], sign: int) -> float:
        """The least (-1) or largest (1) rate that is possible: past it the excess is negative."""
        low, high = 0.0, 1.0
        for _ in range(_LOOKS):
            t = low + _GRID * (high - low)
            possible = self._excess(rate, each, sign, t) >= 0
            if not possible.any():
                return high if sign < 0 else low
            at = int(np.flatnonzero(possible)[0 if sign < 0 else -1])
            beside = min(max(at + sign, 0), len(t) - 1)
            low, high = sorted((float(t[at]), float(t[beside])))
        return high if sign > 0 else low

    def _excess(
        self, rate: Rate, each: list[tuple[Floats, Floats]], sign: int, t: Floats
    ) -> Floats:
        """The largest mean of sign (u − t v) over all strata, and its error, at each t."""
        p, s, chosen = self.cells.shares, self.cells.covariance, []
        for a, (u, v) in enumerate(each):
            here = slice(4 * a, 4 * a + 4)
            g = sign * (u - t[:, None, None] * v)
            spread = np.sqrt(np.maximum(((g @ s[here, here]) * g).sum(axis=2), 0.0))
            best = np.take_along_axis(
                g, np.argmax(g @ p[here] + self.z * spread, axis=1)[:, None, None], axis=1
            )[:, 0]
            # No fair decisions whatever give more of sign (u − t v) than these do.
            none_of = {"tpr": 1 - _H, "fpr": 1 - _H, "precision": _H}.get(rate, np.ones(4))
            all_of = np.ones(4) if rate in ("accuracy", "selection") else _H
            most = np.outer(1 - t, all_of) if sign > 0 else np.outer(t, none_of)
            chosen.append(np.where((best @ p[here] > most @ p[here])[:, None], most, best))
        g = np.concatenate(chosen, axis=1)
        return np.asarray(g @ p + self.z * np.sqrt(np.maximum(((g @ s) * g).sum(axis=1), 0.0)))


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
