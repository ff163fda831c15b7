"""Methods over several tables: average ranks, Friedman's test, critical differences.

After Demšar, "Statistical comparisons of classifiers over multiple data sets" (JMLR 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import f, rankdata, studentized_range

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Methods by their average rank over blocks; 1 is the best.

    Attributes:
        ranks: average rank of each method.
        n_blocks: tables, or cells, over which they are averages.
        statistic: Friedman's χ².
        p_value: of the F statistic of Iman and Davenport, that all methods are alike.
        difference: the least difference of two ranks that Nemenyi's test finds at .05.
    """

    ranks: Floats
    n_blocks: int
    statistic: float
    p_value: float
    difference: float


def rank(values: npt.ArrayLike, *, largest_first: bool = True) -> Ranking:
    """Compare methods, the columns, over blocks, the rows; equal values share their ranks."""
    table = np.asarray(values, np.float64)
    n, k = table.shape
    ranks = rankdata(-table if largest_first else table, axis=1).mean(axis=0)
    statistic = 12 * n / (k * (k + 1)) * (float(ranks @ ranks) - k * (k + 1) ** 2 / 4)
    left = n * (k - 1) - statistic
    ratio = (n - 1) * statistic / left if left > 0 else math.inf
    p_value = float(f.sf(ratio, k - 1, (k - 1) * (n - 1)))
    return Ranking(ranks, n, statistic, p_value, critical_difference(k, n))


def critical_difference(n_methods: int, n_blocks: int, level: float = 0.95) -> float:
    """Nemenyi's, for all pairs of methods together."""
    q = float(studentized_range.ppf(level, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))
