"""How good and how even scores and decisions are, on plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairpc import core
from fairpc.core import Array, MetricError

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
