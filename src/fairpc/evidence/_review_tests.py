"""What a review can test and recorded labels cannot: Df ⟂ S, and D ⟂ X_j given Df and S.

The second asks which column alters labels. If D does not depend on X_j given Df and S, its rate at
a level l of X_j in a group is b_0 + (b_1 − b_0) P(Df = 1 | l), with b_f = P(D = 1 | Df = f) of that
group. The rate is known from all rows and b from the review, so P(Df = 1 | l) follows, and with it
what share of the rows of each level and label should be positive. The posterior is shifted to these
shares; if they hold, weighted differences between answers and the shifted posterior add up to
nothing, whatever the posterior is worth. The statistic adds up squares of these sums, over levels
and labels and over levels alone: where labels of a level are altered in one direction, answers
differ alike at both labels. A third part asks whether they go with the label rate of a level, which
altered labels lower or raise. Its distribution is that of answers drawn from the shifted posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from fairpc.core import Array, Floats, Positions, Record, as_numbers, missing
from fairpc.evidence._review_rows import shifted

N_DRAWS: Final = 1000
PER_COLUMN: Final = 60
"""Draws for each column at least: the least p-value must survive the correction for all."""
EDGE: Final = 0.005
"""Least P(Df = 1 | l): b is estimated, and a share of 0 would make one surprise a proof."""
BINS: Final = 4
LEAST_ROWS: Final = 2
"""Reviewed rows of a level; rarer ones are one level together."""
BALLAST: Final = 0.1
"""Rows added to a variance, so that one surprise where none was likely does not decide."""
TREND: Final = 0.25
"""Share of the levels that one part, whether differences go with label rates, counts for."""
SEED: Final = 0
_INSIDE: Final = (0.001, 0.999)
"""Label rates that are taken for possible."""


@dataclass(frozen=True)
class ReviewTest(Record):
    """A test on reviewed rows."""

    p_value: float
    corrected: float  #: p-value after Holm's correction for all columns that can be tested
    n: int  #: reviewed rows it rests on; 0 where there is nothing to test

    _computed = ("rejected",)

    @property
    def rejected(self) -> bool:
        """At .05, after the correction."""
        return self.corrected < 0.05


UNTESTED: Final = ReviewTest(1.0, 1.0, 0)
"""Of a column with one level; it does not count in the correction."""


@dataclass(frozen=True)
class RatesTest(ReviewTest):
    """A test of equal fair rates, and the pair that stands out most."""

    first: Any = None  #: None where fewer than two groups have reviewed rows
    last: Any = None
    value: float = math.nan  #: last minus first, in the population
    low: float = math.nan  #: limits that hold for all pairs at once; 0 is within unless rejected
    high: float = math.nan


def rates_test(
    names: Sequence[Any],
    rates: Sequence[float],
    variances: Sequence[float],
    freedom: float,
    n: int,
) -> RatesTest:
    """Are the fair rates of all groups equal in the population? By the weighted rates.

    Limits are those of Scheffé (1953), which go with this test.
    """
    from scipy.stats import f

    theta, v = np.asarray(rates), np.asarray(variances)
    usable = np.flatnonzero(np.isfinite(theta) & (v > 0))
    k = len(usable) - 1
    if k < 1:
        return RatesTest(1.0, 1.0, n)
    precision = 1 / v[usable]
    gap = theta[usable] - precision @ theta[usable] / precision.sum()
    p = float(f.sf(precision @ gap**2 / k, k, freedom))
    i, j = max(
        combinations(usable.tolist(), 2),
        key=lambda pair: abs(np.subtract(*theta[[*pair]])) / math.sqrt(v[[*pair]].sum()),
    )
    value, half = theta[j] - theta[i], math.sqrt(k * f.isf(0.05, k, freedom) * (v[i] + v[j]))
    low, high = max(value - half, -1.0), min(value + half, 1.0)
    return RatesTest(p, p, n, names[i], names[j], float(value), float(low), float(high))


@dataclass(frozen=True, eq=False)
class ReviewedRows:
    """Reviewed rows, and what is known of all rows."""

    rows: Positions  #: positions of the reviewed ones
    truth: Floats  #: of these
    weight: Floats  #: of these
    y: Floats  #: of all rows
    ids: Positions  #: of all rows
    posterior: Floats  #: of all rows, corrected by the review


def feature_tests(columns: Mapping[Any, Array], reviewed: ReviewedRows) -> dict[Any, ReviewTest]:
    """D ⟂ X_j given Df and S for every column; one with a single level has nothing to test."""
    rng = np.random.default_rng(SEED)
    levels = {name: _levels(column, reviewed.rows) for name, column in columns.items()}
    tested = {name: level for name, level in levels.items() if level.max() > 0}
    draws = rng.random((max(N_DRAWS, PER_COLUMN * len(tested)), len(reviewed.rows)))
    found = {name: _p_value(level, reviewed, draws, rng) for name, level in tested.items()}
    corrected = holm(found)
    n = len(reviewed.rows)
    return {
        name: ReviewTest(found[name], corrected[name], n) if name in found else UNTESTED
        for name in columns
    }


def _p_value(
    level: Positions, reviewed: ReviewedRows, draws: Floats, rng: np.random.Generator
) -> float:
    """Share of reviews drawn under independence with at least the statistic of this one."""
    kinds = _Kinds.of(level, reviewed)
    p = kinds.shares(reviewed.truth[None], kinds.rate[None])
    fair = shifted(reviewed.posterior, kinds.own, p[0])
    score = _score(kinds, reviewed, fair, p[0])
    # Labels of all rows are a draw, too: their rates vary in tables like this one.
    spread = np.sqrt(kinds.rate * (1 - kinds.rate) / (kinds.size.sum(axis=1) + 1))
    rate = np.clip(kinds.rate + rng.standard_normal((len(draws), len(spread))) * spread, *_INSIDE)
    answers = (draws < fair[reviewed.rows]).astype(np.float64)
    seen = score(reviewed.truth[None], p)[0]
    drawn = score(answers, kinds.shares(answers, rate))
    return (1 + int((drawn >= seen * (1 - 1e-9)).sum())) / (1 + len(draws))


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Rows by level, group and label, which is the order of kinds: ((level, group), label)."""

    k: int  #: groups
    own: Positions  #: kind of every row
    size: Floats  #: rows by level and group, and label
    rate: Floats  #: P(D = 1) by level and group
    counted: Floats  #: [reviewed row, kind]: its weight where it is of the kind
    hat: Floats  #: what the posterior expects of each reviewed row
    total: Floats  #: and of all rows of each kind

    @classmethod
    def of(cls, level: Positions, reviewed: ReviewedRows) -> _Kinds:
        k, rows, m = int(reviewed.ids.max()) + 1, reviewed.rows, reviewed.posterior
        own = 2 * (level * k + reviewed.ids) + reviewed.y.astype(np.intp)
        n = 2 * k * (int(level.max()) + 1)
        size = np.bincount(own, minlength=n).reshape(-1, 2).astype(np.float64)
        rate = (size[:, 1] + 0.5) / (size.sum(axis=1) + 1)
        counted = reviewed.weight[:, None] * (own[rows][:, None] == np.arange(n))
        total = np.bincount(own, m, n).astype(np.float64)
        return cls(k, own, size, rate, counted, m[rows], total)

    def shares(self, truth: Floats, rate: Floats) -> Floats:
        """P(Df = 1) of each kind under independence; a line per draw of the truth of reviewed rows
        and of the rate P(D = 1) by level and group."""
        total = self.total + (truth - self.hat) @ self.counted
        b0 = np.clip(self._mechanism(self.size.ravel() - total), _INSIDE[0], 0.98)
        b1 = np.clip(self._mechanism(total), b0 + 0.02, _INSIDE[1])
        group = np.arange(rate.shape[1]) % self.k
        b0, b1 = b0[:, group], b1[:, group]
        fair = np.clip((rate - b0) / (b1 - b0), EDGE, 1 - EDGE)
        on = np.stack([fair * (1 - b1), fair * b1], axis=2)
        off = np.stack([(1 - fair) * (1 - b0), (1 - fair) * b0], axis=2)
        return (on / (on + off)).reshape(total.shape)

    def _mechanism(self, total: Floats) -> Floats:
        """P(D = 1) by group among so many rows of each kind, half a reviewed row of each added."""
        by_group = total.reshape(len(total), -1, self.k, 2).sum(axis=1)
        counts = np.maximum(by_group, 0.0) + 0.5 * self.counted.sum() / len(self.counted)
        return np.asarray(counts[..., 1] / counts.sum(axis=2))


def _score(
    kinds: _Kinds, reviewed: ReviewedRows, fair: Floats, p: Floats
) -> Callable[[Floats, Floats], Floats]:
    """The statistic of answers and of the shares that follow from them; a line per draw.

    It adds up weighted differences between answers and a posterior that was shifted to shares
    ``p``. Groups are pooled: what alters labels is taken to do so in the same direction in all.
    """
    given, spread = fair[reviewed.rows], fair * (1 - fair)
    mean = np.bincount(kinds.own, spread, len(p)) / np.maximum(kinds.size.ravel(), 1)
    base = given @ kinds.counted
    # By how much what is expected goes up with the share of the kind.
    slope = spread[reviewed.rows] @ kinds.counted / np.maximum(mean, 1e-9)
    shape = -1, kinds.k, 2
    variance = (spread[reviewed.rows] @ kinds.counted**2).reshape(shape).sum(axis=1)
    own = variance.sum(axis=1)
    size = kinds.size.reshape(shape).sum(axis=1)
    rate = size[:, 1] / size.sum(axis=1)
    off = rate - own @ rate / max(float(own.sum()), 1e-300)
    ballast = BALLAST * float((reviewed.weight**2).mean())

    def statistic(truth: Floats, shares: Floats) -> Floats:
        gap = truth @ kinds.counted - base - slope * (shares - p)
        cells = gap.reshape(len(gap), *shape).sum(axis=2)
        levels = cells.sum(axis=2)
        trend = (levels @ off) ** 2 / max(float(own @ off**2), 1e-300)
        parts = (cells**2 / (variance + ballast)).sum(axis=(1, 2)), TREND * len(own) * trend
        return np.asarray(sum(parts) + (levels**2 / (own + ballast)).sum(axis=1))

    return statistic


def _levels(column: Array, rows: Positions) -> Positions:
    """A column as numbers of levels: many numbers in bins of like size, rare levels in one."""
    numbers, hidden = as_numbers(column), missing(column)
    if numbers is not None and len(np.unique(numbers[~hidden])) > BINS + 1:
        cuts = np.unique(np.quantile(numbers[~hidden], np.arange(1, BINS) / BINS))
        level = np.searchsorted(cuts, numbers, side="left")
    else:
        level = np.unique(column.astype(str), return_inverse=True)[1]
    level = np.where(hidden, level.max() + 1, level)
    count = np.bincount(level[rows], minlength=int(level.max()) + 1)
    merged = np.where(count[level] < LEAST_ROWS, -1, level)
    return np.unique(merged, return_inverse=True)[1]


def holm(p_values: Mapping[Any, float]) -> dict[Any, float]:
    """P-values after Holm's correction (1979)."""
    order = sorted(p_values, key=lambda name: p_values[name])
    each = [min(1.0, p_values[name] * (len(order) - k)) for k, name in enumerate(order)]
    return dict(zip(order, np.maximum.accumulate(each).tolist(), strict=True))
