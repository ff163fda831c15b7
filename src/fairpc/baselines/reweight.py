"""Reweight: logistic regression on rows weighted so that groups are selected alike."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fairpc.baselines.base import Baseline, Sensitive
from fairpc.baselines.inputs import distinct_rows
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats, Ints


class Reweight(Baseline):
    """Label bias corrected by weights, for demographic parity (Jiang & Nachum, AISTATS 2020).

    Each round fits logistic regression on weighted rows, then moves a multiplier
    λ_g per group (but the first) by the gap between the overall and the group's
    rate of positive predictions. Rows of group g weigh σ(2 λ_g) if positive,
    σ(−2 λ_g) if negative, rows of the first group ½.

    Scores are probabilities under the *reweighted* labels, the method's estimate of
    unbiased ones; they are not calibrated to the observed labels. Parity is sought for
    hard predictions in the training rows, so mean scores may differ. Two classes,
    any number of groups.

    Args:
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature.
        n_rounds: number of rounds (100 in the paper).
        rate: step of the multipliers (1 in the paper).
        C: inverse strength of the L2 penalty, as in scikit-learn.
    """

    def __init__(
        self,
        *,
        sensitive: Sensitive = None,
        use_sensitive: bool = True,
        n_rounds: int = 100,
        rate: float = 1.0,
        C: float = 1.0,
    ) -> None:
        self.sensitive = sensitive
        self.use_sensitive = use_sensitive
        self.n_rounds = n_rounds
        self.rate = rate
        self.C = C

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        if self.n_rounds < 1:
            raise LearningError(f"n_rounds is {self.n_rounds}: at least one round is needed")
        rows, counts = distinct_rows(matrix, codes, groups)
        x, positive, group = matrix[rows], codes[rows] == 1, groups[rows]
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
        self.model_ = model
        self.multipliers_ = multipliers

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        return np.asarray(self.model_.predict_proba(matrix), np.float64)
