"""Two methods of fairlearn behind the surface of the other baselines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpc.baselines.base import Baseline, Sensitive, two_columns
from fairpc.errors import MissingExtraError
from fairpc.errors.arrays import Floats, Ints


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
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature.
        eps: allowed violation of parity.
        max_iter: rounds of exponentiated gradient.
    """

    def __init__(
        self,
        *,
        sensitive: Sensitive = None,
        use_sensitive: bool = True,
        eps: float = 0.01,
        max_iter: int = 50,
    ) -> None:
        self.sensitive = sensitive
        self.use_sensitive = use_sensitive
        self.eps = eps
        self.max_iter = max_iter

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        reductions = _fairlearn("reductions", "Reduction")
        self.model_ = reductions.ExponentiatedGradient(
            LogisticRegression(solver="liblinear"),
            constraints=reductions.DemographicParity(),
            eps=self.eps,
            max_iter=self.max_iter,
        )
        with _quiet():
            self.model_.fit(matrix, codes, sensitive_features=groups)

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        with _quiet():
            return np.asarray(self.model_._pmf_predict(matrix), np.float64)


class ThresholdOptimizer(Baseline):
    """Logistic regression with a threshold per group (Hardt et al., NeurIPS 2016), from fairlearn.

    Groups get thresholds, randomised between two where needed, that give them equal
    selection rates in the training rows at the least loss of accuracy. S is always
    needed to predict, whether or not it is a feature.

    Scores are the probability with which the randomised rule decides for a class, mostly
    0 or 1; they are not probabilities of the label. ``predict`` takes the likelier
    decision. Two classes, any number of groups.

    Args:
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature of the logistic regression.
    """

    _groups_at_prediction: ClassVar[bool] = True

    def __init__(self, *, sensitive: Sensitive = None, use_sensitive: bool = True) -> None:
        self.sensitive = sensitive
        self.use_sensitive = use_sensitive

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        postprocessing = _fairlearn("postprocessing", "ThresholdOptimizer")
        self.model_ = postprocessing.ThresholdOptimizer(
            estimator=LogisticRegression(max_iter=1000),
            constraints="demographic_parity",
            predict_method="predict_proba",
        )
        with _quiet():
            self.model_.fit(matrix, codes, sensitive_features=groups)

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        with _quiet():
            votes = np.asarray(self.model_._pmf_predict(matrix, sensitive_features=groups))
        return two_columns(np.clip(votes[:, 1].astype(np.float64), 0.0, 1.0))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that fairlearn's own use of pandas and scikit-learn gives rise to."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _fairlearn(module: str, name: str) -> ModuleType:
    if find_spec("fairlearn") is None:
        raise MissingExtraError(f"{name} is fairlearn's: pip install 'fairpc[baselines]'")
    return import_module(f"fairlearn.{module}")
