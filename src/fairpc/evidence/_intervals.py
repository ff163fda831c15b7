"""Intervals for rates, means, and what is made of two of them.

A mean comes as a :class:`Sample`: its value and the number of independent rows
it is worth. Where persons repeat or rows carry weights that number is smaller
than the number of rows, and the same formulas then serve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.core import Array, Floats, MetricError, Positions
from fairpc.learners import kish

Interval = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """A (weighted) mean of scores in [0, 1] and how well it is known."""

    mean: float
    size: float  #: effective number of independent rows; n where rows are independent and alike
    variance: float  #: of the mean, estimated
    freedom: float  #: degrees of freedom of that variance; infinite where none was estimated

    def __post_init__(self) -> None:
        if math.isnan(self.freedom):  # JSON has no word for infinite.
            object.__setattr__(self, "freedom", math.inf)


def rate_sample(
    values: Floats, weights: Floats | None, persons: Positions | None, counts: Floats | None = None
) -> Sample:
    """A rate and its effective size: the size at which a binomial rate varies as this one does.

    ``counts`` says how many equal rows each row is; the weight is that of one of them.
    """
    if weights is None and persons is None:
        n = _total(np.ones(len(values)), counts)
        rate = _total(values, counts) / n
        return Sample(rate, n, rate * (1 - rate) / n, math.inf)
    w = np.ones(len(values)) if weights is None else weights
    rate = _total(w * values, counts) / _total(w, counts)
    variance, clusters = clustered_variance(values, rate, w, persons, counts)
    largest = kish(w, counts)
    if 0 < rate < 1 and variance > 0:
        size = min(rate * (1 - rate) / variance, largest)
    else:
        # All rows alike: nothing shows how much persons repeat themselves, so each counts once.
        size = largest if persons is None else kish(_sums(persons, w))
    return Sample(rate, size, rate * (1 - rate) / size, clusters - 1)


def mean_sample(
    values: Floats, weights: Floats | None, persons: Positions | None, counts: Floats | None = None
) -> Sample:
    """A mean with one pseudo-score 0 and one 1 added, so that equal scores are not "certain"."""
    w = np.ones(len(values))
    if weights is not None:
        w = weights / np.average(weights, weights=counts)
    padded, w = np.append(values, [0.0, 1.0]), np.append(w, [1.0, 1.0])
    times = None if counts is None else np.append(counts, [1.0, 1.0])
    if persons is not None:
        persons = np.append(persons, [persons.max() + 1, persons.max() + 2])
    mean = _total(w * padded, times) / _total(w, times)
    variance, clusters = clustered_variance(padded, mean, w, persons, times)
    return Sample(mean, kish(w, times), variance, clusters - 1)


def clustered_variance(
    values: Floats,
    mean: float,
    weights: Floats,
    persons: Positions | None,
    counts: Floats | None = None,
) -> tuple[float, float]:
    """Variance of a weighted mean from sums within persons, and the number of persons."""
    sums = weights * (values - mean)
    if persons is not None:
        sums = _sums(persons, sums)
    count = _total(np.ones(len(sums)), counts)
    if count < 2:
        return 0.0, count
    spread = _total(sums * sums, counts)
    return spread / _total(weights, counts) ** 2 * count / (count - 1), count


def _sums(persons: Positions, values: Floats) -> Floats:
    """Values added up within the persons who occur."""
    present = np.unique(persons, return_inverse=True)[1]
    return np.asarray(np.bincount(present, values), np.float64)


def _total(values: Floats, counts: Floats | None) -> float:
    """The sum over rows, each as often as it is there."""
    return float(values.sum() if counts is None else np.dot(values, counts))


def quantile(p: float, freedom: float = math.inf) -> float:
    """Of Student's t, or of the normal distribution where the freedom is infinite."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(p) if math.isinf(freedom) else stdtrit(freedom, p))


def joint_freedom(first: Sample, last: Sample) -> float:
    """Degrees of freedom of a difference, by Welch and Satterthwaite."""
    if math.isinf(first.freedom) or math.isinf(last.freedom):
        return math.inf
    a, b = first.variance, last.variance
    if a + b == 0:
        return min(first.freedom, last.freedom)
    return (a + b) ** 2 / (a * a / first.freedom + b * b / last.freedom)


def wilson(rate: float, n: float, z: float) -> Interval:
    """Score interval of one rate (Wilson 1927)."""
    share = z * z / n
    middle = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * math.sqrt(rate * (1 - rate) / n + share / (4 * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def clopper_pearson(successes: float, n: float, tail: float) -> Interval:
    """Exact bounds of one rate, each wrong with probability at most ``tail``."""
    from scipy.special import betainccinv, betaincinv

    x = min(max(successes, 0.0), n)
    low = 0.0 if x <= 0 else float(betaincinv(x, n - x + 1, tail))
    high = 1.0 if x >= n else float(betainccinv(x + 1, n - x, tail))
    return low, high


def welch(first: Sample, last: Sample, tail: float) -> Interval:
    """Difference of two means, last − first, variances unequal (Welch 1947)."""
    middle = last.mean - first.mean
    t = quantile(1 - tail, joint_freedom(first, last))
    half = t * math.sqrt(first.variance + last.variance)
    return max(-1.0, middle - half), min(1.0, middle + half)


def fieller(first: Sample, last: Sample, tail: float) -> Interval:
    """Ratio of two means, last / first (Fieller 1954); unbounded where the first may be 0."""
    t = quantile(1 - tail, joint_freedom(first, last))
    a = first.mean**2 - t * t * first.variance
    b = first.mean * last.mean
    c = last.mean**2 - t * t * last.variance
    if a <= 0:
        return 0.0, math.inf
    root = math.sqrt(max(b * b - a * c, 0.0))
    return max(0.0, (b - root) / a), (b + root) / a


def newcombe(first: Sample, last: Sample, tail: float) -> Interval:
    """Difference of two rates, last − first, from two Wilson intervals (Newcombe 1998)."""
    z = quantile(1 - tail, joint_freedom(first, last))
    p, q = last.mean, first.mean
    p_low, p_high = wilson(p, last.size, z)
    q_low, q_high = wilson(q, first.size, z)
    down = math.hypot(p - p_low, q_high - q)
    up = math.hypot(p_high - p, q - q_low)
    return max(-1.0, p - q - down), min(1.0, p - q + up)


def koopman(first: Sample, last: Sample, tail: float) -> Interval:
    """Ratio of two rates, last / first: score interval (Koopman 1984), no correction."""
    from scipy.optimize import brentq

    if first.mean == 0 and last.mean == 0:
        return 0.0, math.inf
    limit = quantile(1 - tail, joint_freedom(first, last)) ** 2

    def excess(log_ratio: float) -> float:
        return _score(first, last, math.exp(log_ratio)) - limit

    # Where one rate is 0 the statistic is monotone, and any inner point will do as a start.
    x = last.mean if last.mean > 0 else 1e-3 / last.size
    y = first.mean if first.mean > 0 else 1e-3 / first.size
    start = math.log(x / y)
    low = 0.0 if last.mean == 0 else math.exp(brentq(excess, *_bracket(excess, start, -1)))
    if first.mean == 0:
        return low, math.inf
    return low, math.exp(brentq(excess, *_bracket(excess, start, 1)))


def _score(first: Sample, last: Sample, ratio: float) -> float:
    """Squared score statistic of "last = ratio · first" at the constrained estimate."""
    x, y = last.mean * last.size, first.mean * first.size
    a = (last.size + first.size) * ratio
    b = last.size * ratio + x + first.size + y * ratio
    c = x + y
    q = 2 * c / (b + math.sqrt(max(b * b - 4 * a * c, 0.0)))
    p = min(ratio * q, 1.0)
    spread = p * (1 - p) / last.size + ratio * ratio * q * (1 - q) / first.size
    gap = last.mean - ratio * first.mean
    if spread <= 0:
        return 0.0 if gap == 0 else math.inf
    return gap * gap / spread


def _bracket(excess: Callable[[float], float], start: float, sign: int) -> Interval:
    """Two points between which ``excess`` changes its sign, to one side of ``start``."""
    inside, step = start, 0.25
    while excess(start + sign * step) < 0 and step < 500:
        inside = start + sign * step
        step *= 2
    outside = start + sign * step
    return min(inside, outside), max(inside, outside)


def some_of(values: Array | None, rows: Array) -> Any:
    """Some rows of an array; None where there is none."""
    return None if values is None else values[rows]


def check_enough_rows(
    names: tuple[Any, ...],
    ids: Positions,
    persons: Positions | None,
    counts: Floats | None = None,
    *,
    least: int = 2,
    rule: str = "an interval needs at least two per group",
) -> None:
    """At least so many rows per group, or persons where persons repeat."""
    for g, name in enumerate(names):
        here = ids == g
        count, what = int(here.sum() if counts is None else counts[here].sum()), "row"
        if count > 1 and persons is not None:
            count, what = len(np.unique(persons[here])), "person"
        if count < least:
            raise MetricError(
                f"group {name!r} has {count} {what}{'' if count == 1 else 's'}: {rule}; merge it "
                "with another group or collect more"
            )
