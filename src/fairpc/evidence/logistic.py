"""Logistic regressions on counts of distinct rows, several at once, by Newton's method.

The minimum is that of scikit-learn's ``LogisticRegression(C=1)``. The test of the assumptions
fits hundreds of them on a few dozen distinct rows each, where checking arguments takes
scikit-learn longer than solving.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.errors.arrays import Bools, Floats

_MAX_STEPS: Final = 100
# Of the Newton decrement per row: the step that is then taken squares it.
_TOLERANCE: Final = 1e-9
# Numbers in the products of columns, up to which fits share them; beyond, each makes its own.
_SHARED: Final = 2**21


def logistic_probabilities(rows: Floats, negative: Floats, positive: Floats) -> Floats:
    """P(positive | row) as [fit, row]; each fit learns from counts [fit, row] of both classes."""
    from scipy.special import expit

    if len(negative) > 1 and rows.shape[0] * (rows.shape[1] + 1) ** 2 > _SHARED:
        pairs = zip(negative, positive, strict=True)
        return np.concatenate([logistic_probabilities(rows, a[None], b[None]) for a, b in pairs])
    seen = np.flatnonzero((negative + positive).any(axis=0))
    found = coefficients(rows[seen], negative[:, seen], positive[:, seen])
    return np.asarray(expit(found[:, :-1] @ rows.T + found[:, -1:]), np.float64)


def coefficients(rows: Floats, negative: Floats, positive: Floats) -> Floats:
    """Per fit the slopes and, last, the intercept, which alone is not shrunk.

    Both classes must occur in every fit.
    """
    fits = _Fits.of(rows, negative, positive)
    beta = np.zeros((len(negative), rows.shape[1] + 1))
    beta[:, -1] = np.log(positive.sum(axis=1) / negative.sum(axis=1))
    found, open_fits = beta.copy(), np.arange(len(beta))
    loss, p = fits.at(beta)
    for _ in range(_MAX_STEPS):
        step, decrement = fits.newton(beta, p)
        done = decrement <= _TOLERANCE * fits.total.sum(axis=1)
        found[open_fits] = beta - step
        if done.all():
            return found
        if done.any():
            fits, open_fits = fits.some(~done), open_fits[~done]
            beta, step, decrement, loss = (a[~done] for a in (beta, step, decrement, loss))
        share = np.ones((len(beta), 1))
        tried, p = fits.at(beta - step)
        # Far from the minimum a full step may overshoot; it is halved until it gains.
        while (bad := (tried > loss - 1e-4 * share[:, 0] * decrement) & (share[:, 0] > 1e-6)).any():
            share[bad] /= 2
            tried, p = fits.at(beta - share * step)
        beta, loss = beta - share * step, tried
    found[open_fits] = beta
    return found


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
        if x.shape[0] * x.shape[1] ** 2 <= _SHARED:
            products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        penalty = np.append(np.ones(rows.shape[1]), 0.0)
        return cls(x, products, negative + positive, positive, penalty)

    def some(self, kept: Bools) -> _Fits:
        return _Fits(self.x, self.products, self.total[kept], self.positive[kept], self.penalty)

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
            hessian = np.stack([self.x.T @ (self.x * w[:, None]) for w in weights])
        else:
            hessian = (weights @ self.products).reshape(-1, size, size)
        step = np.linalg.solve(hessian + np.diag(self.penalty), gradient[..., None])[..., 0]
        return step, (gradient * step).sum(axis=1)
