"""The methods to compare with: logistic regression and boosting, plain and constrained; chance.

Parameters are the fields of each class, after those of all baselines. To add a method, write its
class here and name it in ``every_baseline``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import ClassVar

import numpy as np
from scipy.linalg import null_space
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fairpc.comparison._baseline_surface import Baseline
from fairpc.core import Array, Floats, Ints, LearningError, MissingExtraError
from fairpc.learners import indicators


@dataclass(kw_only=True, eq=False, repr=False)
class LR(Baseline):
    """Plain logistic regression with an L2 penalty (the paper's LR: C = 1, S is a feature).

    Scores are probabilities of the recorded label, P(D = k | x, s), biased where
    the labels are. Groups may be left out altogether; any number of classes.

    Args:
        C: inverse strength of the penalty, as in scikit-learn.
        max_iter: of the solver.
    """

    C: float = 1.0
    max_iter: int = 1000

    _groups_required: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = True

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        self.model_ = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(matrix, codes)


@dataclass(kw_only=True, eq=False, repr=False)
class Boosting(Baseline):
    """Gradient boosting of the recorded label, S being a feature (scikit-learn's, by histograms).

    Scores are probabilities of the recorded label, biased where the labels are.

    Args:
        n_fits: the mean of so many fits, each without its share of the rows; 1 uses all rows.
        random_state: seed.
    """

    n_fits: int = 1
    random_state: int | None = 0

    _groups_required: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = True

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        if self.n_fits < 1:
            raise LearningError(f"n_fits is {self.n_fits}: at least one fit is needed")
        weights = self._weights(codes, groups)
        folds = np.random.default_rng(self.random_state).permutation(len(codes)) % self.n_fits
        self.models_ = []
        for k in range(self.n_fits):
            some = (folds != k) | (self.n_fits == 1)
            if len(np.unique(codes[some])) < len(self.classes_):
                some = np.ones(len(codes), np.bool_)  # a class in one fold alone
            model = HistGradientBoostingClassifier(random_state=self.random_state)
            self.models_.append(model.fit(matrix[some], codes[some], weights[some]))

    def _weights(self, codes: Ints, groups: Ints) -> Floats:
        return np.ones(len(codes))

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        each = [model.predict_proba(matrix) for model in self.models_]
        return np.asarray(np.mean(each, axis=0), np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class ReweighedBoosting(Boosting):
    """Boosting on reweighed rows (Kamiran & Calders 2012), the mean of five fits.

    A row of group s with label d weighs P(s) P(d) / P(s, d), so that label and group are
    independent in the weighted table. Scores are probabilities under those weights.
    """

    n_fits: int = 5

    _groups_required: ClassVar[bool] = True

    def _weights(self, codes: Ints, groups: Ints) -> Floats:
        counts = np.zeros((int(groups.max()) + 1, len(self.classes_)))
        np.add.at(counts, (groups, codes), 1.0)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        return np.asarray((expected / np.maximum(counts, 1.0))[groups, codes], np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class Rand(Baseline):
    """Scores drawn uniformly, whatever the row (the paper's Rand).

    With two classes the score of the second is uniform on [0, 1]; with more,
    scores are uniform on the simplex. They mean nothing, and groups are ignored. The same seed and
    number of rows give the same scores.

    Args:
        random_state: seed.
    """

    random_state: int | None = None

    use_sensitive: bool = field(default=False, init=False)
    _groups_required: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = True

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        """There is nothing to learn."""

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        rng = np.random.default_rng(self.random_state)
        return rng.dirichlet(np.ones(len(self.classes_)), len(matrix))


@dataclass(kw_only=True, eq=False, repr=False)
class Reweight(Baseline):
    """Label bias corrected by weights, for demographic parity (Jiang & Nachum, AISTATS 2020).

    Each round fits logistic regression on weighted rows, then moves a multiplier
    λ_g per group (but the first) by the gap between the overall and the group's
    rate of positive predictions. Rows of group g weigh σ(2 λ_g) if positive,
    σ(−2 λ_g) if negative, rows of the first group ½.

    Scores are probabilities under the *reweighted* labels, the method's estimate of
    unbiased ones; they are not calibrated to the recorded labels. Parity is sought for
    hard predictions in the training rows, so mean scores may differ. Two classes,
    any number of groups.

    Args:
        n_rounds: number of rounds (100 in the paper).
        rate: step of the multipliers (1 in the paper).
        C: inverse strength of the L2 penalty, as in scikit-learn.
    """

    n_rounds: int = 100
    rate: float = 1.0
    C: float = 1.0

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        if self.n_rounds < 1:
            raise LearningError(f"n_rounds is {self.n_rounds}: at least one round is needed")
        rows, counts = distinct_rows(matrix, codes, groups)
        x, positive, group = matrix[rows], codes[rows] == 1, groups[rows]
        basis = row_space(x)
        if basis is not None:
            x = x @ basis
        members = np.bincount(group, counts, len(self.groups_))
        multipliers = np.zeros(len(self.groups_))
        model = LogisticRegression(C=self.C, solver="newton-cholesky", warm_start=True)
        for _ in range(self.n_rounds):
            push = 2.0 * multipliers[group]
            weights = counts * expit(np.where(positive, push, -push))
            model.fit(x, positive, weights)
            selected = np.bincount(group, counts * model.predict(x), len(self.groups_))
            gap = selected.sum() / members.sum() - selected / members
            multipliers[1:] += self.rate * gap[1:]
        self.basis_ = basis
        self.model_ = model
        self.multipliers_ = multipliers

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return super()._scores(matrix if self.basis_ is None else matrix @ self.basis_, groups)


@dataclass(kw_only=True, eq=False, repr=False)
class FairLR(Baseline):
    """Logistic regression without covariance with the groups (Zafar et al., AISTATS 2017).

    For each group g the covariance between [S = g] and θᵀx over the training rows is zero (c = 0,
    as in the paper). S itself is not a feature, so that predictions need no S. The constraint is on
    the linear score before the logistic function: neither mean scores nor selection rates are made
    equal.

    Scores are probabilities of the recorded label under the constrained model.
    Two classes, any number of groups.

    The admissible θ are a linear space, and on a basis of it the problem is plain logistic
    regression.

    Args:
        C: inverse strength of the L2 penalty, as in scikit-learn.
        max_iter: of the solver.
    """

    use_sensitive: bool = False
    C: float = 1.0
    max_iter: int = 1000

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        covariance = group_covariance(matrix, groups, len(self.groups_))
        rows = row_space(matrix)
        basis = null_space(covariance) if rows is None else rows @ null_space(covariance @ rows)
        if not basis.shape[1]:
            basis = np.zeros((matrix.shape[1], 1))  # only θ = 0 is left
        # A basis is orthonormal, which keeps ‖θ‖.
        model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(matrix @ basis, codes)
        self.coef_ = basis @ model.coef_[0]
        self.intercept_ = float(model.intercept_[0])

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return _both(expit(matrix @ self.coef_ + self.intercept_))


def row_space(matrix: Floats) -> Floats | None:
    """Orthonormal vectors that span the rows, columns × rows; None where columns are no more.

    Under an L2 penalty θ is in their space, and its norm is that of its coordinates: on them the
    problem is the same, with rows in place of columns. Solvers take the cube of these.
    """
    if matrix.shape[1] <= matrix.shape[0]:
        return None
    return np.linalg.qr(matrix.T)[0]  # SciPy's own would keep the lock, and so signals, for minutes


def distinct_rows(*arrays: Array) -> tuple[Ints, Floats]:
    """First position of each distinct row of several arrays side by side, and its count."""
    rows = np.column_stack(arrays)
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    return first, counts.astype(np.float64)


def group_covariance(matrix: Floats, groups: Ints, n_groups: int) -> Floats:
    """Covariance of each column with [S = g], groups × columns; of two groups, the second only."""
    shown = np.arange(1 if n_groups == 2 else 0, n_groups)
    member = indicators(groups, shown)
    return np.asarray((member - member.mean(axis=0)).T @ matrix / len(matrix), np.float64)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that fairlearn's own use of pandas and scikit-learn gives rise to."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


@dataclass(kw_only=True, eq=False, repr=False)
class Reduction(Baseline):
    """Fair classification by reductions (Agarwal et al., ICML 2018), from fairlearn.

    Exponentiated gradient under demographic parity finds a *randomised* classifier: a
    mixture of logistic regressions of which one is drawn per decision. Fairlearn's
    defaults, liblinear, and S as a feature, as in the paper.

    Scores are the weighted votes of the mixture, the probability with which the randomised
    classifier decides for a class. They are not probabilities of the label and take
    few values. Parity holds, up to ``eps``, for the randomised decisions in the training
    rows; ``predict`` takes the majority vote, for which it need not. Two classes, any
    number of groups.

    Args:
        eps: allowed violation of parity.
        max_iter: rounds of exponentiated gradient.
    """

    eps: float = 0.01
    max_iter: int = 50

    @_quiet()
    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        reductions = _fairlearn("reductions", "Reduction")
        self.model_ = reductions.ExponentiatedGradient(
            LogisticRegression(solver="liblinear"),
            constraints=reductions.DemographicParity(),
            eps=self.eps,
            max_iter=self.max_iter,
        )
        self.model_.fit(matrix, codes, sensitive_features=groups)

    @_quiet()
    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return np.asarray(self.model_._pmf_predict(matrix), np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class ThresholdOptimizer(Baseline):
    """Logistic regression with a threshold per group (Hardt et al., NeurIPS 2016), from fairlearn.

    Groups get thresholds, randomised between two where needed, that give them equal
    selection rates in the training rows at the least loss of accuracy. S is always
    needed to predict, whether or not it is a feature.

    Scores are the probability with which the randomised rule decides for a class, mostly
    0 or 1; they are not probabilities of the label. ``predict`` takes the likelier
    decision. Two classes, any number of groups.
    """

    _groups_at_prediction: ClassVar[bool] = True

    @_quiet()
    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        postprocessing = _fairlearn("postprocessing", "ThresholdOptimizer")
        self.model_ = postprocessing.ThresholdOptimizer(
            estimator=LogisticRegression(max_iter=1000),
            constraints="demographic_parity",
            predict_method="predict_proba",
        )
        self.model_.fit(matrix, codes, sensitive_features=groups)

    @_quiet()
    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        votes = np.asarray(self.model_._pmf_predict(matrix, sensitive_features=groups))
        return _both(np.clip(votes[:, 1].astype(np.float64), 0.0, 1.0))


def _fairlearn(module: str, name: str) -> ModuleType:
    if find_spec("fairlearn") is None:
        raise MissingExtraError(f"{name} is fairlearn's: pip install 'fairpc[baselines]'")
    return import_module(f"fairlearn.{module}")


def _both(positive: Floats) -> Floats:
    """Scores of both classes from those of the second."""
    return np.column_stack([1.0 - positive, positive])


def every_baseline(random_state: int = 0) -> dict[str, Baseline]:
    """Baselines by name: the paper's, boosting, reweighed boosting; fairlearn's if installed."""
    boosted = Boosting(random_state=random_state), ReweighedBoosting(random_state=random_state)
    ours = LR(), Rand(random_state=random_state), FairLR(), Reweight(), *boosted
    theirs = (Reduction(), ThresholdOptimizer()) if find_spec("fairlearn") is not None else ()
    return {type(method).__name__: method for method in (*ours, *theirs)}
