"""Linear learners: many logistic regressions at once, log odds of Df behind altered labels, sums.

Logistic regressions of two classes are fitted by Newton's method, to the minimum of scikit-learn's
``LogisticRegression(C=1)``: the test of the assumptions fits hundreds of them on a few dozen
distinct rows each, where checking arguments takes scikit-learn longer than solving.

Learners of Df minimise the loss of the label that their score predicts,

    −log Σ_f P(f | x, s) P(d | f, s),

(forward correction: Patrini et al., CVPR 2017). Where D = Df it is the usual loss of a classifier
of D. A learner of altered labels must tell by how much those of each group were altered before it
can tell who is alike; one that knows the mechanism learns what is common to all groups from all
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import Codes, Floats, Ints

_NEWTON_STEPS: Final = 100
_NEWTON_TOLERANCE: Final = 1e-9
"""Of the Newton decrement per row: the step that is then taken squares it."""
SHARED: Final = 2**21
"""Numbers in the products of columns, up to which fits share them; beyond, each makes its own."""
PENALTY: Final = 10.0
LINEAR_STEPS: Final = 100
LINEAR_TOLERANCE: Final = 1e-3
"""Of linear log odds: the weight of squared coefficients, steps, and the gradient that ends
them."""
WIDEST: Final = 20.0
"""Log odds beyond which a class is certain."""
ADDED_ROWS: Final = 0.2
ADDED_ROUNDS: Final = 20
"""Of the numbers of a sum: rows by which each is drawn to zero, and how often each column has its
turn, at most."""
MOST_STEP: Final = 1.0
"""Most that a number of a sum moves at once: where labels are beyond what a mechanism allows,
scores have no best fit."""
SETTLED: Final = 0.01
"""Once no number of a sum moves by more, they have settled."""


def softmax(odds: Floats) -> Floats:
    """P(f), along the last axis, of log odds."""
    shares = np.exp(odds - odds.max(axis=-1, keepdims=True))
    result: Floats = shares / shares.sum(axis=-1, keepdims=True)
    return result


def class_shares(odds: Floats) -> Floats:
    """P(f) of each row, rows × classes, of the log odds of class 1 against 0."""
    from scipy.special import expit

    return np.stack([expit(-odds), expit(odds)], axis=1)


def logistic_probabilities(rows: Floats, negative: Floats, positive: Floats) -> Floats:
    """P(positive | row) as [fit, row]; each fit learns from counts [fit, row] of both classes."""
    from scipy.special import expit

    n_at_once = len(negative)
    if rows.shape[0] * (rows.shape[1] + 1) ** 2 > SHARED:
        n_at_once = 1
    start, found = None, []
    for k in range(0, len(negative), n_at_once):
        some = slice(k, k + n_at_once)
        seen = np.flatnonzero((negative[some] + positive[some]).any(axis=0))
        # Fits have most of their rows in common: the last one is a good start.
        start = coefficients(rows[seen], negative[some, seen], positive[some, seen], start)
        found.append(expit(start[:, :-1] @ rows.T + start[:, -1:]))
    return np.concatenate(found)


def coefficients(
    rows: Floats, negative: Floats, positive: Floats, start: Floats | None = None
) -> Floats:
    """Per fit the slopes and, last, the intercept, which alone is not shrunk.

    Both classes must occur in every fit.
    """
    fits = _Fits.of(rows, negative, positive)
    beta = np.zeros((len(negative), rows.shape[1] + 1))
    beta[:, -1] = np.log(positive.sum(axis=1) / negative.sum(axis=1))
    beta = beta if start is None else start
    fitted, open_fits = beta.copy(), np.arange(len(beta))
    loss, p = fits.at(beta)
    for _ in range(_NEWTON_STEPS):
        step, decrement = fits.newton(beta, p)
        done = decrement <= _NEWTON_TOLERANCE * fits.total.sum(axis=1)
        fitted[open_fits] = beta - step
        if done.all():
            return fitted
        if done.any():
            fits = replace(fits, total=fits.total[~done], positive=fits.positive[~done])
            open_fits = open_fits[~done]
            beta, step, decrement, loss = (a[~done] for a in (beta, step, decrement, loss))
        share = np.ones((len(beta), 1))
        tried, p = fits.at(beta - step)
        # Far from the minimum a full step may overshoot; it is halved until it gains.
        while (bad := (tried > loss - 1e-4 * share[:, 0] * decrement) & (share[:, 0] > 1e-6)).any():
            share[bad] /= 2
            tried, p = fits.at(beta - share * step)
        beta, loss = beta - share * step, tried
    fitted[open_fits] = beta
    return fitted


@dataclass(frozen=True, eq=False)
class _Fits:
    """Penalised losses on the same rows, each with counts of its own."""

    x: Floats
    products: Floats | None
    total: Floats
    positive: Floats
    penalty: Floats

    @classmethod
    def of(cls, rows: Floats, negative: Floats, positive: Floats) -> _Fits:
        x = np.column_stack([rows, np.ones(len(rows))])
        products = None
        if x.shape[0] * x.shape[1] ** 2 <= SHARED:
            products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        penalty = np.append(np.ones(rows.shape[1]), 0.0)
        return cls(x, products, negative + positive, positive, penalty)

    def at(self, beta: Floats) -> tuple[Floats, Floats]:
        """The losses, and the probabilities [fit, row]."""
        eta = beta @ self.x.T
        small = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, small) / (1 + small)
        softplus = np.maximum(eta, 0.0) + np.log(1 + small)
        loss = (self.total * softplus - self.positive * eta).sum(axis=1)
        return loss + 0.5 * (beta * beta) @ self.penalty, p

    def newton(self, beta: Floats, p: Floats) -> tuple[Floats, Floats]:
        """The steps to be subtracted, and what they promise to gain, twice."""
        gradient = (self.total * p - self.positive) @ self.x + self.penalty * beta
        weights, size = self.total * p * (1 - p), self.x.shape[1]
        if self.products is None:
            # Of a matrix and itself NumPy computes one half, and copies it to the other.
            scaled = (self.x * w[:, None] for w in np.sqrt(weights))
            hessian = np.stack([each.T @ each for each in scaled])
        else:
            hessian = (weights @ self.products).reshape(-1, size, size)
        hessian += np.diag(self.penalty)
        try:
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:  # all rows that count are certain: the loss is flat
            step = (np.linalg.pinv(hessian) @ gradient[..., None])[..., 0]
        return step, (gradient * step).sum(axis=1)


@dataclass(frozen=True, eq=False)
class AlteredLabels:
    """Labels to learn Df from.

    Attributes:
        d, weights: label and weight of each row.
        kind: which mechanism altered it.
        mechanism: P(D = d | Df = f), kinds × 2 × 2.
    """

    d: Ints
    weights: Floats
    kind: Ints
    mechanism: Floats

    @classmethod
    def of(
        cls, d: Codes | Ints, weights: Floats, kind: Codes | Ints, mechanism: Floats
    ) -> AlteredLabels:
        """Labels and kinds by their codes."""
        return cls(d.astype(np.int64), weights, kind.astype(np.int64), mechanism)

    @property
    def given(self) -> tuple[Ints, Floats, Ints, Floats]:
        """What kernels take."""
        return self.d, self.weights, self.kind, self.mechanism

    def take(self, rows: Ints) -> AlteredLabels:
        return AlteredLabels(self.d[rows], self.weights[rows], self.kind[rows], self.mechanism)

    def start(self) -> float:
        """Log odds of P(Df) that fits the labels, by a few steps of EM."""
        from scipy.special import logit

        counts = np.zeros(self.mechanism.shape[::2])
        np.add.at(counts, (self.kind, self.d), self.weights)
        rate = np.full(2, 0.5)
        for _ in range(50):
            joint = rate[None, :, None] * self.mechanism
            joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
            rate = np.einsum("kfd,kd->f", joint, counts) / max(counts.sum(), 1e-300)
        rate = np.clip(rate, 1e-6, 1.0)
        rate /= rate.sum()
        return float(logit(rate[1]))


@dataclass(frozen=True, eq=False)
class LinearOdds:
    """Log odds of Df that are linear in columns of numbers.

    Attributes:
        coefficients: of the columns.
        base: log odds where all columns are 0.
    """

    coefficients: Floats
    base: float

    @classmethod
    def learned(cls, table: Any, labels: AlteredLabels) -> LinearOdds:
        """Ridge regression under the corrected loss, by L-BFGS from the log odds of P(Df).

        The table is an array, or a sparse one of SciPy.
        """
        from scipy.optimize import minimize

        from fairpc.learners._kernels import corrected_gradients, corrected_loss

        total = float(labels.weights.sum())
        gradient, hessian = np.empty((2, table.shape[0]))

        def objective(theta: Floats) -> tuple[float, Floats]:
            base, slopes = theta[0], theta[1:]
            odds = np.exp(np.clip(table @ slopes + base, -WIDEST, WIDEST))
            corrected_gradients(odds, *labels.given, gradient, hessian)
            down = np.append(-gradient.sum(), PENALTY * slopes - gradient @ table)
            loss = float(corrected_loss(odds, *labels.given))
            loss += PENALTY * float(np.square(slopes).sum()) / 2
            return loss / total, down / total

        first = np.append(labels.start(), np.zeros(table.shape[1]))
        limits = {"maxiter": LINEAR_STEPS, "gtol": LINEAR_TOLERANCE}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=limits)
        return cls(found.x[1:], float(found.x[0]))

    def decided(self, table: Any) -> Floats:
        """P(Df = f | x) of rows of the table."""
        return class_shares(np.clip(table @ self.coefficients + self.base, -WIDEST, WIDEST))


def additive_scores(
    codes: Codes | Ints,
    sizes: Sequence[int],
    labels: Floats,
    offset: Floats,
    mechanism: Floats,
    *,
    weights: Floats,
) -> tuple[Floats, ...]:
    """Additive log odds of Df that predict labels through a known mechanism, by Fisher scoring.

        P(f | x) ∝ exp(offset_f + Σ_j g_j(x_j)_f),    P(d | x) = Σ_f P(f | x) P(d | f)

    One column moves after the other (backfitting: Hastie and Tibshirani 1990, *Generalized Additive
    Models*). Labels may be hard, or what a classifier says of them: then the sums imitate it.

    Args:
        codes: value of each column in each row, rows × columns.
        sizes: how many values each column has.
        labels: P(D = d) of each row, rows × 2.
        offset: log odds of Df that each row starts from, rows × 2.
        mechanism: P(D = d | Df = f).
        weights: weight of each row.

    Returns:
        The numbers g_j of each column, values × 2.
    """
    odds = np.ascontiguousarray(offset[:, 1] - offset[:, 0])
    found = [np.zeros(size) for size in sizes]
    columns = [np.ascontiguousarray(column, np.int64) for column in codes.T]
    of_class = np.ascontiguousarray(labels.T)
    for _ in range(ADDED_ROUNDS):
        gradient, hessian = _derivatives(odds, of_class, mechanism)
        gradient *= weights
        hessian *= weights
        moved = 0.0
        for column, numbers in zip(columns, found, strict=True):
            up, down = (np.bincount(column, part, len(numbers)) for part in (gradient, hessian))
            # The two classes move against each other, so that each moves by half.
            step = 0.5 * (up - ADDED_ROWS * numbers) / (down + ADDED_ROWS)
            step = np.clip(step, -MOST_STEP, MOST_STEP)
            numbers += step
            each = step.take(column)
            odds += 2.0 * each
            # What the other columns then see, to first order.
            each *= hessian
            each /= 0.5
            gradient -= each
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved < SETTLED:
            break
    return tuple(np.stack([-each, each], axis=1) for each in found)


def _derivatives(odds: Floats, labels: Floats, mechanism: Floats) -> tuple[Floats, Floats]:
    """Gradient and expected Hessian of the log-likelihood of each row's label, by its log odds.

    Labels are classes × rows.
    """
    from scipy.special import expit

    q = expit(odds)
    p = [
        np.maximum(mechanism[0, d] + q * (mechanism[1, d] - mechanism[0, d]), 1e-12) for d in (0, 1)
    ]
    apart = mechanism[1] - mechanism[0]
    slope = q * (1 - q)
    gradient = slope * (labels[0] / p[0] * apart[0] + labels[1] / p[1] * apart[1])
    return gradient, slope**2 * (apart[0] ** 2 / p[0] + apart[1] ** 2 / p[1])
