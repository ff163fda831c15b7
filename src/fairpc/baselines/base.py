"""What the baselines share: the scikit-learn surface, and who sees the sensitive attribute."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from fairpc.baselines.inputs import (
    Columns,
    FeatureEncoding,
    GroupEncoding,
    check_rows,
    columns_of,
    labels_of,
    split,
)
from fairpc.errors import LearningError
from fairpc.errors.arrays import Array, Floats, Ints

Sensitive = str | int | Sequence[str | int] | None


class Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with ``fit``, ``predict`` and ``predict_proba``, and a sensitive attribute.

    The sensitive attribute S is either named among the columns of X (``sensitive``)
    or given apart (``sensitive_features``), never both. With ``use_sensitive`` it is
    also a feature, and must then be given at prediction too.

    Text becomes an indicator per level; numbers are standardised, except that a
    column of two numbers stays as it is. Missing values are refused.

    Attributes:
        classes_: the labels, sorted; column k of ``predict_proba`` belongs to the k-th.
        groups_: the groups, sorted.
        feature_names_in_: the columns of X that are features.
    """

    sensitive: Sensitive
    use_sensitive: bool
    classes_: Array
    groups_: tuple[Any, ...]
    feature_names_in_: Array

    # What a subclass can do without: groups in fit, groups in predict, two classes.
    _groups_required: ClassVar[bool] = True
    _groups_at_prediction: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = False

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Learn from rows, labels and groups."""
        check_rows(X=X, y=y, sensitive_features=sensitive_features)
        features, groups = self._parts(X, sensitive_features)
        self._group_encoding = GroupEncoding.learn(groups) if groups else None
        if self._group_encoding is None and self._groups_required:
            raise LearningError(
                f"{type(self).__name__} needs groups: give sensitive_features, or name columns of "
                "X in sensitive"
            )
        labels = labels_of(y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._check_classes()
        self.feature_names_in_ = np.array(list(features), object)
        self.n_features_in_ = len(features) + (len(groups) if self.sensitive is not None else 0)
        self._encoding = FeatureEncoding.learn(features)
        group_codes = np.zeros(len(labels), np.int64)
        self.groups_ = ()
        if self._group_encoding is not None:
            self.groups_ = self._group_encoding.groups
            group_codes = self._group_encoding.encode(groups)
        self._fit(self._matrix(features, groups), codes.astype(np.int64), group_codes)
        return self

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Scores per class, rows × classes; what they mean is said by each class."""
        if not hasattr(self, "_encoding"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit first")
        check_rows(X=X, sensitive_features=sensitive_features)
        features, groups = self._parts(X, sensitive_features)
        encoding = self._group_encoding
        codes = np.zeros(len(next(iter(features.values()))), np.int64)
        if encoding is not None and (self.use_sensitive or self._groups_at_prediction):
            if not groups:
                raise LearningError(
                    f"{type(self).__name__} uses the sensitive attribute to predict: give "
                    "sensitive_features" + self._without_groups()
                )
            codes = encoding.encode(groups)
        return self._scores(self._matrix(features, groups), codes)

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """The class with the highest score."""
        scores = self.predict_proba(X, sensitive_features=sensitive_features)
        chosen: Array = self.classes_[np.argmax(scores, axis=1)]
        return chosen

    @abstractmethod
    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        """Learn from numbers: features, class codes, group codes."""

    @abstractmethod
    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        """Scores per class of encoded rows."""

    def _without_groups(self) -> str:
        if self._groups_at_prediction:
            return ""
        return f", or make it {type(self).__name__}(use_sensitive=False)"

    def _parts(self, X: Any, sensitive_features: Any) -> tuple[Columns, Columns]:
        """Features and sensitive columns, from one table or from two."""
        if self.sensitive is not None and sensitive_features is not None:
            raise LearningError(
                "sensitive names columns of X and sensitive_features is given too: use one of them"
            )
        features, groups = split(X, self.sensitive)
        if sensitive_features is not None:
            groups = columns_of(sensitive_features, "sensitive_features")
        if not features:
            raise LearningError("X has no columns besides the sensitive ones: give features")
        return features, groups

    def _matrix(self, features: Columns, groups: Columns) -> Floats:
        """Encoded features, and indicators of the groups after them where they are used."""
        matrix = self._encoding.encode(features)
        if self._group_encoding is None or not self.use_sensitive:
            return matrix
        codes = self._group_encoding.encode(groups)
        return np.hstack([matrix, self._group_encoding.indicators(codes)])

    def _check_classes(self) -> None:
        n = len(self.classes_)
        if n < 2:
            raise LearningError(
                f"y has 1 class ({self.classes_[0]!r}): at least two are needed in the training "
                "rows"
            )
        if n > 2 and not self._any_classes:
            raise LearningError(
                f"y has {n} classes and {type(self).__name__} knows two: join classes, or use "
                "LR or FairPC"
            )


def two_columns(positive: Floats) -> Floats:
    """Scores of both classes from those of the second."""
    return np.column_stack([1.0 - positive, positive])
