"""How good and how even scores and decisions are, on plain arrays; paired tests of two models.

Where rows come in clusters (one person, several rows), a test adds up the differences of a cluster
before it takes their spread, so that a person counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairpc import core
from fairpc.core import Array, Floats, MetricError, Positions

Weights = ArrayLike | None


def accuracy(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Weights = None) -> float:
    """Share of rows whose predicted class is the true one."""
    truth, guess = _label_pair(y_true, y_pred)
    weights = core.check_sample_weight(sample_weight, len(truth))
    return float(np.average(truth == guess, weights=weights))


def f1(
    y_true: ArrayLike, y_pred: ArrayLike, *, positive: Any = None, sample_weight: Weights = None
) -> float:
    """Harmonic mean of precision and recall of the positive class.

    ``positive`` is 1 (or True) where labels are 0 and 1, the last of two classes otherwise.
    """
    tp, fp, fn, _ = _confusion(y_true, y_pred, positive, sample_weight)
    if tp + fp + fn == 0:
        raise MetricError("no row is positive in y_true or y_pred: F1 is not defined there")
    return tp / (tp + (fp + fn) / 2)


def rate_f1(
    y_true: ArrayLike, y_pred: ArrayLike, *, positive: Any = None, sample_weight: Weights = None
) -> float:
    """The paper's F1, made of rates: tpr / (tpr + (fpr + fnr) / 2)."""
    tp, fp, fn, tn = _confusion(y_true, y_pred, positive, sample_weight)
    if tp + fn == 0 or fp + tn == 0:
        raise MetricError("y_true has one class only: rates need positive and negative rows")
    tpr, fnr, fpr = tp / (tp + fn), fn / (tp + fn), fp / (fp + tn)
    return tpr / (tpr + (fpr + fnr) / 2)


def group_means(
    scores: ArrayLike, groups: ArrayLike, *, sample_weight: Weights = None
) -> dict[Any, float]:
    """Mean score per group, groups in sorted order."""
    values = core.check_numbers("scores", scores)
    weights = core.check_sample_weight(sample_weight, len(values))
    names, ids = core.check_groups(groups, len(values), crossed=False)
    total = np.bincount(ids, weights)
    if not total.all():
        empty = names[int(np.argmin(total))]
        raise MetricError(f"group {empty!r} has no weight: leave it out or give it some")
    means = np.bincount(ids, weights * values) / total
    return dict(zip(names, means.tolist(), strict=True))


def discrimination(scores: ArrayLike, groups: ArrayLike, *, sample_weight: Weights = None) -> float:
    """Mean score of the last group minus that of the first, in sorted order; signed."""
    means = list(group_means(scores, groups, sample_weight=sample_weight).values())
    return means[-1] - means[0]


def largest_gap(scores: ArrayLike, groups: ArrayLike, *, sample_weight: Weights = None) -> float:
    """Largest difference of mean scores between any two groups; not negative."""
    means = group_means(scores, groups, sample_weight=sample_weight).values()
    return max(means) - min(means)


def selection_rates(
    y_pred: ArrayLike, groups: ArrayLike, *, positive: Any = None, sample_weight: Weights = None
) -> dict[Any, float]:
    """Share of each group that is decided positively, groups in sorted order."""
    guess = core.check_labels("y_pred", y_pred)
    wanted = _positive(np.unique(guess), positive)
    return group_means((guess == wanted).astype(float), groups, sample_weight=sample_weight)


def auc(
    y_true: ArrayLike, scores: ArrayLike, *, positive: Any = None, sample_weight: Weights = None
) -> float:
    """Area under the ROC curve: chance that a positive row scores higher than a negative one."""
    from sklearn.metrics import roc_auc_score

    truth = core.check_labels("y_true", y_true)
    values = core.check_numbers("scores", scores, len(truth))
    weights = core.check_sample_weight(sample_weight, len(truth))
    hit = truth == _positive(np.unique(truth), positive)
    if not weights[hit].any() or not weights[~hit].any():
        raise MetricError("y_true has one class only: the AUC needs positive and negative rows")
    return float(roc_auc_score(hit, values, sample_weight=weights))


def brier(
    y_true: ArrayLike, scores: ArrayLike, *, positive: Any = None, sample_weight: Weights = None
) -> float:
    """Mean squared difference between the probability of the positive class and what happened."""
    hit, values, weights = _outcomes(y_true, scores, positive, sample_weight)
    return float(np.average((values - hit) ** 2, weights=weights))


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of one group whose score lies in [low, high); the last bin includes 1."""

    group: Any
    low: float
    high: float
    weight: float
    mean_score: float
    positive_rate: float


def calibration(
    y_true: ArrayLike,
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    n_bins: int = 10,
    positive: Any = None,
    sample_weight: Weights = None,
) -> tuple[CalibrationBin, ...]:
    """Mean score beside the rate of positives, per group and bin of scores; empty bins left out."""
    if n_bins < 1:
        raise MetricError(f"n_bins is {n_bins}: give at least 1")
    hit, values, weights = _outcomes(y_true, scores, positive, sample_weight)
    names: tuple[Any, ...] = (None,)
    ids = np.zeros(len(hit), np.intp)
    if groups is not None:
        names, ids = core.check_groups(groups, len(hit), crossed=False)
    cell = ids * n_bins + np.minimum((values * n_bins).astype(np.intp), n_bins - 1)
    total, score, rate = (np.bincount(cell, weights * each) for each in (1.0, values, hit))
    bins = []
    for i in np.flatnonzero(total).tolist():
        g, place = divmod(i, n_bins)
        means = float(score[i] / total[i]), float(rate[i] / total[i])
        edges = place / n_bins, (place + 1) / n_bins
        bins.append(CalibrationBin(names[g], *edges, float(total[i]), *means))
    return tuple(bins)


def mean_log_likelihood(log_likelihood: ArrayLike, *, sample_weight: Weights = None) -> float:
    """Mean of log-likelihoods per row, in nats; minus infinity if a row is impossible."""
    values = np.asarray(log_likelihood, np.float64)
    if not len(values) or np.isnan(values).any() or np.isposinf(values).any():
        raise MetricError(
            "log_likelihood is empty or has a row that is NaN or inf: give one per row"
        )
    weights = core.check_sample_weight(sample_weight, len(values))
    some = weights > 0
    return float(np.average(values[some], weights=weights[some]))


def _outcomes(
    y_true: ArrayLike, scores: ArrayLike, positive: Any, sample_weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Whether each row is positive, its probability, its weight."""
    truth = core.check_labels("y_true", y_true)
    values = core.check_numbers("scores", scores, len(truth))
    outside = (values < 0) | (values > 1)
    core.refuse_rows("scores", values, outside, "give probabilities, from 0 to 1")
    hit = truth == _positive(np.unique(truth), positive)
    return hit.astype(np.float64), values, core.check_sample_weight(sample_weight, len(truth))


def _confusion(
    y_true: ArrayLike, y_pred: ArrayLike, positive: Any, sample_weight: Weights
) -> tuple[float, float, float, float]:
    """Weights of true positives, false positives, false negatives and true negatives."""
    truth, guess = _label_pair(y_true, y_pred)
    weights = core.check_sample_weight(sample_weight, len(truth))
    wanted = _positive(np.union1d(truth, guess), positive)
    a, b = truth == wanted, guess == wanted
    tp, fp, fn, tn = (float(weights[cell].sum()) for cell in (a & b, ~a & b, a & ~b, ~a & ~b))
    return tp, fp, fn, tn


def _positive(known: Array, positive: Any) -> Any:
    """The class that counts as positive."""
    if positive is not None:
        # Asked of the type only: the class itself may be absent from these rows.
        if np.asarray(positive).dtype.kind in "US" and known.dtype.kind not in "US":
            raise MetricError(
                f"positive is {positive!r} and labels are numbers: give one of {known.tolist()[:5]}"
            )
        return positive
    if known.dtype.kind in "biuf" and set(known.tolist()) <= {0, 1}:
        return 1
    if len(known) == 2:
        return known[-1]
    raise MetricError(
        f"the labels have {len(known)} classes ({', '.join(map(repr, known.tolist()[:5]))}): "
        "say which is meant with positive"
    )


def _label_pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[Array, Array]:
    """True and predicted labels, of one length and of types that can be equal."""
    truth = core.check_labels("y_true", y_true)
    guess = core.check_labels("y_pred", y_pred, len(truth))
    if (truth.dtype.kind in "US") != (guess.dtype.kind in "US"):
        raise MetricError(
            f"y_true holds {truth.dtype} and y_pred {guess.dtype}: give labels of one type"
        )
    return truth, guess


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
