"""FairLR: logistic regression whose scores do not covary with the groups."""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fairpc.baselines.base import Baseline, Sensitive, two_columns
from fairpc.baselines.inputs import distinct_rows
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats, Ints


class FairLR(Baseline):
    """Logistic regression under a bound on covariance (Zafar et al., AISTATS 2017).

    For each group g the covariance between [S = g] and θᵀx over the training
    rows is at most c in absolute value. S itself is not a feature (as in the paper),
    so that predictions need no S. The constraint is on the linear score before the
    logistic function: neither mean scores nor selection rates are made equal.

    Scores are probabilities of the observed label under the constrained model.
    Two classes, any number of groups.

    At c = 0 the admissible θ are a linear space, and on a basis of it the problem
    is plain logistic regression; at c > 0 it is solved by SLSQP with gradients.

    Args:
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature.
        c: bound on the covariance.
        C: inverse strength of the L2 penalty, as in scikit-learn.
        max_iter: of the solver.
    """

    def __init__(
        self,
        *,
        sensitive: Sensitive = None,
        use_sensitive: bool = False,
        c: float = 0.0,
        C: float = 1.0,
        max_iter: int = 1000,
    ) -> None:
        self.sensitive = sensitive
        self.use_sensitive = use_sensitive
        self.c = c
        self.C = C
        self.max_iter = max_iter

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        if not self.c >= 0:
            raise LearningError(f"c is {self.c}: a bound on covariance is 0 or more")
        covariance = group_covariance(matrix, groups, len(self.groups_))
        if self.c == 0:
            self._fit_on(_admissible(covariance), matrix, codes)
        else:
            self._fit_on(np.eye(matrix.shape[1]), matrix, codes)
            if np.abs(covariance @ self.coef_).max() > self.c:
                self._fit_bounded(matrix, codes, covariance)
        self.covariance_ = covariance @ self.coef_

    def _fit_on(self, basis: Floats, matrix: Floats, codes: Ints) -> None:
        """Logistic regression with θ in the span of an orthonormal basis, which keeps ‖θ‖."""
        model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(matrix @ basis, codes)
        self.coef_ = basis @ model.coef_[0]
        self.intercept_ = float(model.intercept_[0])

    def _fit_bounded(self, matrix: Floats, codes: Ints, covariance: Floats) -> None:
        rows, counts = distinct_rows(matrix, codes)
        x, sign, n = matrix[rows], 2.0 * codes[rows] - 1.0, counts.sum()

        def loss(parameters: Floats) -> tuple[float, Floats]:
            theta, margin = parameters[:-1], sign * (x @ parameters[:-1] + parameters[-1])
            value = counts @ np.logaddexp(0.0, -margin) + theta @ theta / (2 * self.C)
            pull = -counts * sign * expit(-margin)
            return value / n, np.append(pull @ x + theta / self.C, pull.sum()) / n

        # Both signs of each covariance, the intercept not entering; the gradient is constant.
        jacobian = np.vstack([-covariance, covariance])
        jacobian = np.hstack([jacobian, np.zeros((len(jacobian), 1))])
        shrunk = self.coef_ * min(1.0, self.c / np.abs(covariance @ self.coef_).max())
        result = minimize(
            loss,
            np.append(shrunk, self.intercept_),
            jac=True,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda p: self.c + jacobian @ p,
                "jac": lambda p: jacobian,
            },
            options={"maxiter": self.max_iter, "ftol": 1e-12},
        )
        if not result.success:
            raise LearningError(
                f"FairLR did not converge at c = {self.c} ({result.message}): raise max_iter, or "
                "use c = 0"
            )
        self.coef_, self.intercept_ = result.x[:-1], float(result.x[-1])

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return two_columns(expit(matrix @ self.coef_ + self.intercept_))


def group_covariance(matrix: Floats, groups: Ints, n_groups: int) -> Floats:
    """Covariance of each column with [S = g], groups × columns; of two groups, the second only."""
    shown = np.arange(1 if n_groups == 2 else 0, n_groups)
    indicator = np.equal(groups[:, None], shown[None, :]).astype(np.float64)
    return np.asarray((indicator - indicator.mean(axis=0)).T @ matrix / len(matrix), np.float64)


def _admissible(covariance: Floats) -> Floats:
    """Orthonormal basis of the θ with covariance 0; a column of zeros if there is only θ = 0."""
    basis = np.asarray(null_space(covariance), np.float64)
    return basis if basis.shape[1] else np.zeros((covariance.shape[1], 1))
