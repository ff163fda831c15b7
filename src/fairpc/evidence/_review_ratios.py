"""A ratio of two sums from reviewed rows: its value, and limits that hold near 0 and 1.

Limits are score limits as Wilson's are: the variance at another value of the rate differs by the
third moment over the variance, times the distance (Johnson 1978). Where no reviewed row contradicts
the posterior, residuals are small and say too little. So half a row with the other answer is added
to each cell of recorded label and decision before the moments are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Bools, Floats, Positions
from fairpc.evidence._intervals import quantile
from fairpc.evidence._review_quantities import Rate

FEW: Final = 5
LEAST_FREEDOM: Final = 6.0
_OTHER: Final = 0.5
"""Rows with the other answer that are added to a cell."""


@dataclass(frozen=True, eq=False)
class ReviewedTable:
    """Checked arrays of all rows; weight and spread are 0 where a row was not drawn."""

    truth: Floats
    y: Floats
    ids: Positions
    h: Floats | None
    m: Floats | None
    weight: Floats
    spread: Floats
    level: float


@dataclass(frozen=True, eq=False)
class Ratio:
    """A ratio, its limits, and the variance of it as a rate of a population."""

    value: float
    low: float
    high: float
    n: int
    few: bool
    reliance: float
    variance: float  #: of the value for a population of which the table is a draw
    freedom: float


def ratio_of(rows: ReviewedTable, rate: Rate, where: Positions) -> Ratio:
    """One rate from the reviewed rows of its group."""
    t = rows.truth[where]
    told = ~np.isnan(t)
    t, weight, spread = t[told], rows.weight[where][told], rows.spread[where][told]
    u, v = (np.where(t == 1, at[1][told], at[0][told]) for at in (rate.u, rate.v))
    n, ones = int(v.sum()), int(u.sum())
    if not n:
        return Ratio(math.nan, 0.0, 1.0, 0, True, 0.0, math.inf, LEAST_FREEDOM)
    if rows.m is None:
        totals, hats = (0.0, 0.0), (np.zeros(len(t)), np.zeros(len(t)))
    else:
        m = rows.m[where]
        full = [at[0] + m * (at[1] - at[0]) for at in (rate.u, rate.v)]
        totals, hats = (float(full[0].sum()), float(full[1].sum())), (full[0][told], full[1][told])
    theta, trust, bottom = least_variance((u, v), hats, totals, weight, spread)
    theta = min(max(theta, 0.0), 1.0)
    guess = trust * (hats[0] - theta * hats[1])
    at_0, at_1 = (gap[told] for gap in rate.gap(theta))
    seen = (np.where(t == 1, at_1, at_0) - guess) / bottom
    other = (np.where(t == 1, at_0, at_1) - guess) / bottom
    carrying = weight[v > 0]
    kish = float(carrying.sum() ** 2 / (carrying @ carrying))
    own = _cells(rows, where[told])
    share = _OTHER / (np.bincount(own)[own] + 2 * _OTHER)
    unseen = [
        (w, gap / bottom) for w, gap in _unseen(rows, rate, where, told, theta, weight.mean())
    ]
    # Moments of the draw: of what was seen, of the other answers, of cells that were not seen.
    residuals = np.concatenate([seen, other, [e for _, e in unseen]])
    unseen_weight = np.array([w for w, _ in unseen])
    weights = np.concatenate([weight, weight, unseen_weight])
    shares = np.concatenate([1 - share, share, np.full(len(unseen), _OTHER)])
    spreads = np.concatenate([spread, spread, unseen_weight * np.maximum(unseen_weight - 1, 0.0)])
    draw = _Draw(shares * spreads * residuals**2, weights * residuals)
    low, high, freedom = _limits(theta, draw, kish, rows.level)
    # The table is a draw of a population: every row then counts, not only those left out.
    variance = float((shares * weights**2) @ residuals**2)
    few = min(ones, n - ones) < FEW
    return Ratio(theta, low, high, n, few, trust, variance, freedom)


def least_variance(
    parts: tuple[Floats, Floats],
    hats: tuple[Floats, Floats],
    totals: tuple[float, float],
    weight: Floats,
    spread: Floats,
) -> tuple[float, float, float]:
    """The ratio, its λ and the denominator.

    Args:
        parts: u and v of reviewed rows.
        hats: what the posterior expects of them.
        totals: sums of these over all rows of the group.
        weight: of reviewed rows.
        spread: what a squared residual of each adds to the variance.
    """
    trust = 0.0
    top, bottom = difference_totals(parts, hats, totals, weight, trust)
    for _ in range(3):
        theta = min(max(top / bottom, 0.0), 1.0)
        a, b = parts[0] - theta * parts[1], hats[0] - theta * hats[1]
        size = float(spread @ (b * b))
        trust = min(max(float(spread @ (a * b)) / size, 0.0), 1.0) if size > 0 else 0.0
        top, bottom = difference_totals(parts, hats, totals, weight, trust)
        if bottom <= 0:  # a denominator that is not positive: the posterior misleads
            trust = 0.0
            top, bottom = difference_totals(parts, hats, totals, weight, trust)
            break
    return top / bottom, trust, bottom


def difference_totals(
    parts: tuple[Floats, Floats],
    hats: tuple[Floats, Floats],
    totals: tuple[float, float],
    weight: Floats,
    trust: float,
) -> tuple[float, float]:
    """λ Σ û + Σ W (u − λ û), and the same of v: both unbiased at any λ that is fixed before."""
    top, bottom = (
        trust * total + float(weight @ (part - trust * hat))
        for part, hat, total in zip(parts, hats, totals, strict=True)
    )
    return top, bottom


def _cells(rows: ReviewedTable, where: Positions) -> Positions:
    """Recorded label and decision of rows, as one number."""
    cell = rows.y[where].astype(np.intp)
    return cell if rows.h is None else 2 * cell + rows.h[where].astype(np.intp)


def _unseen(
    rows: ReviewedTable, rate: Rate, where: Positions, told: Bools, theta: float, weight: float
) -> Iterator[tuple[float, float]]:
    """Weight and residual of half a row of each cell without any reviewed row.

    The residual is the larger one that the cell's rows could have; a row stands for no more rows
    than the cell has.
    """
    cell = _cells(rows, where)
    for c in np.setdiff1d(cell, cell[told]).tolist():
        here = np.flatnonzero(cell == c)
        gaps = [float(gap[here[0]]) for gap in rate.gap(theta)]
        yield min(weight, float(len(here))), max(gaps, key=abs)


@dataclass(frozen=True, eq=False)
class _Draw:
    """What each row, or share of one, adds to the variance, and how far it moves the rate."""

    variance: Floats
    move: Floats


def _limits(theta: float, draw: _Draw, kish: float, level: float) -> tuple[float, float, float]:
    """Score limits: distances x with x² = t² (V + s x − x² / n), s the skewness of the draw."""
    variance = float(draw.variance.sum())
    if variance <= 0:
        return theta, theta, math.inf  # every row was reviewed
    third = float(draw.variance @ draw.move)
    freedom = max(2 * variance**2 / float(draw.variance @ draw.variance), LEAST_FREEDOM)
    t = quantile((1 + level) / 2, freedom)
    a, b = 1 + t * t / kish, t * t * third / variance
    root = math.sqrt(b * b + 4 * a * t * t * variance)
    low, high = theta + (b - root) / (2 * a), theta + (b + root) / (2 * a)
    return max(0.0, low), min(1.0, high), freedom
