"""What a review can test and recorded labels cannot: Df ⟂ S, and D ⟂ X_j given Df and S.

The second asks which column alters labels. If D does not depend on X_j given Df and S, its rate at
a level l of X_j in a group is b_0 + (b_1 − b_0) P(Df = 1 | l), with b_f = P(D = 1 | Df = f) of that
group. The rate is known from all rows and b from the reviewed ones, so P(Df = 1 | l) follows, and
with it what share of the reviewed rows of each level and label should be positive. The statistic
adds up squared differences, weighted as the draw asks, between that share and what reviewers said,
over levels and labels. Its distribution is that of reviews drawn from these shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Array, Floats, Positions, Record, as_numbers, missing

N_DRAWS: Final = 1000
PER_COLUMN: Final = 60
"""Draws for each column at least: the least p-value must survive the correction for all."""
EDGE: Final = 0.005
"""Least P(Df = 1 | l): b is estimated, and a share of 0 would make one surprise a proof."""
BINS: Final = 4
LEAST_ROWS: Final = 3
"""Reviewed rows of a level; rarer ones are one level together."""
BALLAST: Final = 0.1
"""Rows added to the variance of a level, so that one surprise where none was likely is no proof."""
SEED: Final = 0


@dataclass(frozen=True)
class ReviewTest(Record):
    """A test on reviewed rows."""

    p_value: float
    corrected: float  #: p-value after Holm's correction for all columns; the same without others
    n: int  #: reviewed rows it rests on

    _computed = ("rejected",)

    @property
    def rejected(self) -> bool:
        """At .05, after the correction."""
        return self.corrected < 0.05


def rates_test(
    rates: Sequence[float], variances: Sequence[float], freedom: float, n: int
) -> ReviewTest:
    """Are the fair rates of all groups equal in the population? By the weighted rates."""
    from scipy.stats import f

    theta, v = np.asarray(rates), np.asarray(variances)
    usable = np.isfinite(theta) & (v > 0)
    k = int(usable.sum()) - 1
    if k < 1:
        return ReviewTest(1.0, 1.0, n)
    theta, precision = theta[usable], 1 / v[usable]
    gap = theta - precision @ theta / precision.sum()
    p = float(f.sf(precision @ gap**2 / k, k, freedom))
    return ReviewTest(p, p, n)


@dataclass(frozen=True, eq=False)
class ReviewedRows:
    """Reviewed rows, and what is known of all rows."""

    rows: Positions  #: positions of the reviewed ones
    truth: Floats  #: of these
    weight: Floats  #: of these
    y: Floats  #: of all rows
    ids: Positions  #: of all rows


def feature_tests(columns: Mapping[Any, Array], reviewed: ReviewedRows) -> dict[Any, ReviewTest]:
    """D ⟂ X_j given Df and S for every column."""
    rng = np.random.default_rng(SEED)
    n_draws = max(N_DRAWS, PER_COLUMN * len(columns))
    draws = rng.random((n_draws, len(reviewed.rows)))
    found = {}
    for name, column in columns.items():
        level = _levels(column, reviewed.rows)
        found[name] = _p_value(level, reviewed, draws, rng) if level.max() > 0 else 1.0
    return _holm(found, len(reviewed.rows))


def _p_value(
    level: Positions, reviewed: ReviewedRows, draws: Floats, rng: np.random.Generator
) -> float:
    """Share of reviews drawn under independence with at least the statistic of this one."""
    k, rows = int(reviewed.ids.max()) + 1, reviewed.rows
    place = level * k + reviewed.ids
    size = np.bincount(place, minlength=(int(level.max()) + 1) * k)
    rate = (np.bincount(place, reviewed.y, len(size)) + 0.5) / (size + 1)
    kinds, kind = np.unique(2 * place[rows] + reviewed.y[rows].astype(np.intp), return_inverse=True)
    weight: Floats = reviewed.weight / reviewed.weight.mean()
    counted: Floats = weight[:, None] * (kind[:, None] == np.arange(len(kinds)))
    test = _Statistic(kinds % 2, kinds // 2, k, counted.sum(axis=0), (counted**2).sum(axis=0))
    p, seen = test(reviewed.truth[None] @ counted, rate[None])
    # Labels of all rows are a draw, too: their rates vary in tables like this one.
    noise = rng.standard_normal((len(draws), len(rate))) * np.sqrt(rate * (1 - rate) / (size + 1))
    _, chance = test((draws < p[0, kind]) @ counted, np.clip(rate + noise, 0.001, 0.999))
    return (1 + int((chance >= seen[0] * (1 - 1e-9)).sum())) / (1 + len(draws))


@dataclass(frozen=True, eq=False)
class _Statistic:
    """Reviewed rows by kind: level, group and label; their truth varies between draws."""

    y: Positions  #: recorded label of each kind
    place: Positions  #: level and group of each kind
    k: int  #: groups
    weight: Floats  #: sum of the weights of each kind
    square: Floats  #: sum of their squares

    def __call__(self, truth: Floats, rate: Floats) -> tuple[Floats, Floats]:
        """P(Df = 1) of each kind under independence, and the statistic; a line per draw.

        Args:
            truth: sum of the weights of each kind with a positive truth.
            rate: P(D = 1) by level and group.
        """
        group = self.place % self.k
        b0 = np.clip(self._mechanism(self.weight - truth), 0.001, 0.98)
        b1 = np.clip(self._mechanism(truth), b0 + 0.02, 0.999)
        b0, b1 = b0[:, group], b1[:, group]
        fair = np.clip((rate[:, self.place] - b0) / (b1 - b0), EDGE, 1 - EDGE)
        on = fair * np.where(self.y == 1, b1, 1 - b1)
        p = on / (on + (1 - fair) * np.where(self.y == 1, b0, 1 - b0))
        # Groups are pooled: what alters labels is taken to do so in the same direction in both.
        pooled = 2 * (self.place // self.k) + self.y
        cells = (pooled[:, None] == np.unique(pooled)).astype(np.float64)
        residual, spread = (truth - self.weight * p) @ cells, (self.square * p * (1 - p)) @ cells
        ballast = BALLAST * self.square.sum() / self.weight.sum()
        return p, (residual**2 / (spread + ballast)).sum(axis=1)

    def _mechanism(self, member: Floats) -> Floats:
        """P(D = 1) among the members of each group, half a row of each label added."""
        groups = (self.place[:, None] % self.k == np.arange(self.k)).astype(np.float64)
        found: Floats = ((member * self.y) @ groups + 0.5) / (member @ groups + 1)
        return found


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


def _holm(p_values: Mapping[Any, float], n: int) -> dict[Any, ReviewTest]:
    """Each with its p-value after Holm's correction (1979), in the order of the columns."""
    order = sorted(p_values, key=lambda name: p_values[name])
    corrected, largest = {}, 0.0
    for k, name in enumerate(order):
        largest = max(largest, min(1.0, p_values[name] * (len(order) - k)))
        corrected[name] = largest
    return {name: ReviewTest(p, corrected[name], n) for name, p in p_values.items()}
