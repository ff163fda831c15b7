"""Paired tests of two models on the same rows: Wilcoxon, on likelihoods, and McNemar, on decisions.

Where rows come in clusters (one person, several rows), a test adds up the differences of a cluster
before it takes their spread, so that a person counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairpc import core
from fairpc.core import Floats, MetricError, Positions


@dataclass(frozen=True)
class TestResult:
    """A two-sided paired test of a against b."""

    __test__ = False  # not a test case, whatever its name says to pytest

    effect: float  #: mean of a minus b: nats per row, or difference of accuracies
    statistic: float
    p_value: float  #: two-sided
    n: int  #: rows that differ
    n_clusters: int | None  #: clusters among all rows; None if rows are independent
    method: str  #: the test, in words


def wilcoxon(
    log_likelihood_a: ArrayLike, log_likelihood_b: ArrayLike, *, clusters: ArrayLike | None = None
) -> TestResult:
    """Wilcoxon signed-rank test on likelihoods of the same rows under two models.

    With clusters, the signed-rank test of Rosner, Glynn and Lee (2006): signed
    ranks are added within clusters, and their sum is compared with its spread over clusters.
    """
    a = core.check_numbers("log_likelihood_a", log_likelihood_a)
    b = core.check_numbers("log_likelihood_b", log_likelihood_b, len(a))
    difference = a - b
    ids, n_clusters = _clusters(clusters, len(a))
    effect, n = float(difference.mean()), int(np.count_nonzero(difference))
    if n == 0:
        return TestResult(0.0, 0.0, 1.0, 0, n_clusters, "Wilcoxon signed-rank, no row differs")
    if ids is None:
        from scipy.stats import wilcoxon as signed_rank

        found = signed_rank(difference[difference != 0])
        statistic, p = float(found.statistic), float(found.pvalue)
        return TestResult(effect, statistic, p, n, None, "Wilcoxon signed-rank")
    from scipy.stats import rankdata

    some = difference != 0
    signed = np.zeros(len(a))
    signed[some] = np.sign(difference[some]) * rankdata(np.abs(difference[some]))
    z, p = _cluster_z(ids, signed)
    return TestResult(effect, z, p, n, n_clusters, "Wilcoxon signed-rank, clustered")


def mcnemar(
    y_true: ArrayLike,
    y_pred_a: ArrayLike,
    y_pred_b: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
) -> TestResult:
    """McNemar's exact test on the rows that only one of two models gets right.

    With clusters, the difference of right answers is added up within clusters
    and compared with its spread over clusters; for clusters of one row this is
    McNemar's test without continuity correction.
    """
    truth = core.check_labels("y_true", y_true)
    right_a = core.check_labels("y_pred_a", y_pred_a, len(truth)) == truth
    right_b = core.check_labels("y_pred_b", y_pred_b, len(truth)) == truth
    difference = right_a.astype(np.float64) - right_b
    ids, n_clusters = _clusters(clusters, len(truth))
    effect, n = float(difference.mean()), int(np.count_nonzero(difference))
    if n == 0:
        return TestResult(0.0, 0.0, 1.0, 0, n_clusters, "McNemar, no row differs")
    if ids is None:
        from scipy.stats import binomtest

        only_a = int((difference > 0).sum())
        p = float(binomtest(only_a, n, 0.5).pvalue)
        return TestResult(effect, float(only_a), p, n, None, "McNemar, exact")
    z, p = _cluster_z(ids, difference)
    return TestResult(effect, z, p, n, n_clusters, "McNemar, clustered")


def _clusters(clusters: ArrayLike | None, n_rows: int) -> tuple[Positions | None, int | None]:
    if clusters is None:
        return None, None
    names, ids = core.check_classes("clusters", clusters, n_rows, by_case=True)
    if len(names) < 2:
        raise MetricError("clusters has 1 value: a spread over clusters needs at least two")
    return ids, len(names)


def _cluster_z(ids: Positions, values: Floats) -> tuple[float, float]:
    """Sum over its standard error under the null, where each cluster's sum has mean zero."""
    sums = np.asarray(np.bincount(ids, values), np.float64)
    spread = math.sqrt(float(np.dot(sums, sums)))
    if spread == 0:
        return 0.0, 1.0
    z = float(sums.sum()) / spread
    return z, math.erfc(abs(z) / math.sqrt(2))
