"""Upper confidence bounds of P(Df = c) from one group: the rate of c over its rate in a top set.

In a group where D is independent of X given Df, and D = c is at least as
frequent under Df = c as under any other Df, no set of rows has a larger rate
of c than P(D = c | Df = c), so P(Df = c) ≤ P(D = c) / P(D = c | top set).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpc.errors.arrays import Bools, Floats, Positions
from fairpc.evidence.intervals import Sample, clopper_pearson, rate_sample


@dataclass(frozen=True)
class Tally:
    """A class in a group and in the top set: rates, sizes, and how their errors go together."""

    n: int
    whole: Sample
    n_top: int
    top: Sample | None
    correlation: float


def tally(hits: Floats, top: Bools, weights: Floats | None, persons: Positions | None) -> Tally:
    """Counts of a class among all rows of a group and among the held-out rows of its top set."""
    whole = rate_sample(hits, weights, persons)
    n_top = int(top.sum())
    if not n_top:
        return Tally(len(hits), whole, 0, None, 0.0)
    inside = rate_sample(
        hits[top],
        None if weights is None else weights[top],
        None if persons is None else persons[top],
    )
    spread = whole.variance * inside.variance
    if spread <= 0:
        correlation = 0.0
    elif weights is None and persons is None:
        covariance = inside.mean * (1 - inside.mean) / len(hits)
        correlation = min(covariance / math.sqrt(spread), 1.0)
    else:
        covariance = _covariance(hits, top, weights, persons, whole.mean, inside.mean)
        correlation = min(max(covariance / math.sqrt(spread), 0.0), 1.0)
    return Tally(len(hits), whole, n_top, inside, correlation)


def _covariance(
    hits: Floats,
    top: Bools,
    weights: Floats | None,
    persons: Positions | None,
    rate: float,
    top_rate: float,
) -> float:
    """Of the two rates, from sums within persons."""
    w = np.ones(len(hits)) if weights is None else weights
    a = w * (hits - rate) / w.sum()
    b = np.where(top, w * (hits - top_rate) / w[top].sum(), 0.0)
    if persons is not None:
        a, b = np.bincount(persons, a), np.bincount(persons, b)
    return float(np.dot(a, b))


def joint_bound(counts: Tally, tail: float) -> float:
    """Upper bound of the ratio from the two rates' exact bounds and their correlation.

    The larger root of π²(r² − B²) − 2π(ρr − co·A·B) + ρ² − A² = 0, with
    A = up(ρ) − ρ and B = r − low(r): the confidence limit of a ratio recovered
    from those of its terms (Donner and Zou 2012).
    """
    if counts.top is None:
        return 1.0
    rho, r = counts.whole.mean, counts.top.mean
    up = clopper_pearson(rho * counts.whole.size, counts.whole.size, tail)[1]
    low = clopper_pearson(r * counts.top.size, counts.top.size, tail)[0]
    if low <= 0:
        return 1.0
    a, b = up - rho, r - low
    square = r * r - b * b
    middle = rho * r - counts.correlation * a * b
    root = math.sqrt(max(middle * middle - square * (rho * rho - a * a), 0.0))
    return min((middle + root) / square, 1.0)


def separate_bound(counts: Tally, tail: float) -> float:
    """Upper bound of the ratio from two exact bounds, each at half the tail: exact, wider."""
    if counts.top is None:
        return 1.0
    whole, top = counts.whole, counts.top
    up = clopper_pearson(whole.mean * whole.size, whole.size, tail / 2)[1]
    low = clopper_pearson(top.mean * top.size, top.size, tail / 2)[0]
    return min(up / low, 1.0) if low > 0 else 1.0
