"""Logistic regression: accurate, and as unfair as the labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpc.baselines.base import Baseline, Sensitive
from fairpc.errors.arrays import Floats, Ints


class LR(Baseline):
    """Plain logistic regression with an L2 penalty (the paper's LR: C = 1, S is a feature).

    Scores are probabilities of the observed label, P(D = k | x, s), biased where
    the labels are. Groups may be left out altogether; any number of classes.

    Args:
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature.
        C: inverse strength of the penalty, as in scikit-learn.
        max_iter: of the solver.
    """

    _groups_required: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = True

    def __init__(
        self,
        *,
        sensitive: Sensitive = None,
        use_sensitive: bool = True,
        C: float = 1.0,
        max_iter: int = 1000,
    ) -> None:
        self.sensitive = sensitive
        self.use_sensitive = use_sensitive
        self.C = C
        self.max_iter = max_iter

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        self.model_ = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(matrix, codes)

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return np.asarray(self.model_.predict_proba(matrix), np.float64)
