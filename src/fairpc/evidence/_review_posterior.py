"""P(Df = 1 | x, s, d), corrected by the rows that were reviewed.

A model that never saw a true decision is often wrong by a constant within a group and a recorded
label: errors that groups share leave no trace in the labels. A logistic regression of the reviewed
truth on the logit of the posterior, one per recorded label with intercepts per group, takes that
out. It is a posterior mode: without reviews it leaves the posterior as it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Floats, Positions, check_groups
from fairpc.evidence._review_rows import binary, check_chances, posterior_of, weights_of

FOLDS: Final = 10
_EDGE: Final = 0.005
"""Least chance that a posterior is taken to mean; 0 and 1 have no logit."""
_PRIOR: Final = (0.25, 1.0, 2.0)
"""Precision of the priors: intercept around 0, slope around 1, a group's own intercept around 0."""
_STEPS: Final = 25


def recalibrate_posterior(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    probability: npt.ArrayLike,
    batch: npt.ArrayLike | None = None,
    cross_fit: bool = False,
) -> Floats:
    """The posterior of every row after a review, for the design of the next batch.

    Args:
        posterior: P(Df = 1 | x, s, d) of every row, from a model.
        truth: the reviewed fair decision, 0 or 1; NaN where a row was not reviewed.
        y: recorded label, 0 or 1.
        sensitive_features: group per row.
        probability: chance with which a row was drawn; only that of reviewed rows is used.
        batch: number of the batch in which a row was drawn, where there were several.
        cross_fit: correct each row by the truth of rows in other folds alone, as estimates need.
    """
    m = posterior_of(posterior)
    n = len(m)
    t = binary("truth", truth, n, blank=True)
    labels = binary("y", y, n).astype(np.intp)
    _, ids = check_groups(sensitive_features, n, "sensitive_features", least=1)
    drawn = ~np.isnan(t)
    weight, _ = weights_of(check_chances(probability, drawn), drawn, batch)
    folds = folds_of_rows(n) if cross_fit else None
    return recalibrated(m, t, labels, ids, weight, folds)


def folds_of_rows(n: int) -> Positions:
    """A fold per row that depends on nothing but the number of rows."""
    return np.random.default_rng(0).permutation(n) % FOLDS


def recalibrated(
    m: Floats,
    truth: Floats,
    labels: Positions,
    ids: Positions,
    weight: Floats,
    folds: Positions | None,
) -> Floats:
    """Checked arrays in, corrected posterior out; weights are those of rows with a truth."""
    known = np.flatnonzero(~np.isnan(truth))
    x = _columns(_logit(m[known]), ids[known], int(ids.max()) + 1)
    t, w, label = truth[known], weight[known], labels[known]
    if folds is None:
        own, n_folds = np.zeros(len(m), np.intp), 1
        others = np.ones((1, len(known)), np.bool_)
    else:
        own, n_folds = folds, FOLDS
        others = folds[known] != np.arange(FOLDS)[:, None]
    beta = np.empty((n_folds, 2, x.shape[1]))
    for fold in range(n_folds):
        for d in (0, 1):
            seen = others[fold] & (label == d)
            beta[fold, d] = _posterior_mode(x[seen], t[seen], w[seen])
    case = own, labels
    return _expit(beta[*case, 0] + beta[*case, 1] * _logit(m) + beta[*case, 2 + ids])


def _columns(logit: Floats, ids: Positions, k: int) -> Floats:
    """Intercept, logit, and an indicator per group."""
    groups = (ids[:, None] == np.arange(k)).astype(np.float64)
    return np.column_stack([np.ones(len(logit)), logit, groups])


def _posterior_mode(x: Floats, t: Floats, weight: Floats) -> Floats:
    """Coefficients of a weighted logistic regression with normal priors, by damped Newton steps."""
    k = x.shape[1] - 2
    precision = np.array([*_PRIOR[:2], *[_PRIOR[2]] * k])
    centre = np.array([0.0, 1.0, *[0.0] * k])
    beta = centre.copy()
    if not len(t):
        return beta
    # Weights add up to the number of rows they are worth, so that the priors weigh as much as rows.
    w = weight * weight.sum() / (weight @ weight)

    def objective(b: Floats) -> float:
        z = x @ b
        return float(w @ (t * z - np.logaddexp(0.0, z)) - precision @ (b - centre) ** 2 / 2)

    reached = objective(beta)
    for _ in range(_STEPS):
        p = _expit(x @ beta)
        gradient = x.T @ (w * (t - p)) - precision * (beta - centre)
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        while objective(beta + step) < reached and np.abs(step).max() > 1e-10:
            step /= 2
        beta = beta + step
        reached = objective(beta)
        if np.abs(step).max() < 1e-8:
            break
    return beta


def _logit(p: Floats) -> Floats:
    inner = np.clip(p, _EDGE, 1 - _EDGE)
    return np.log(inner / (1 - inner))


def _expit(z: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(z, -30, 30)))
