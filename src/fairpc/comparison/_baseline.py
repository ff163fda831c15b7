"""What the baselines share: the scikit-learn surface, and who sees the sensitive attribute."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fairpc.comparison import _baseline_inputs as inputs
from fairpc.comparison._baseline_inputs import Columns, Feature, Sensitive
from fairpc.core import Array, Floats, Ints, LearningError


@dataclass(kw_only=True, eq=False, repr=False)
class Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with ``fit``, ``predict`` and ``predict_proba``, and a sensitive attribute.

    The sensitive attribute S is either named among the columns of X (``sensitive``)
    or given apart (``sensitive_features``), never both. With ``use_sensitive`` it is
    also a feature, and must then be given at prediction too.

    Text becomes an indicator per level, of the 128 most frequent ones; numbers are standardised,
    except that a column of two numbers stays as it is. Missing values are refused.

    Args:
        sensitive: columns of X that are the sensitive attribute.
        use_sensitive: whether S is a feature.

    Attributes:
        classes_: the labels, sorted; column k of ``predict_proba`` belongs to the k-th.
        groups_: the groups, sorted.
        feature_names_in_: the columns of X that are features.
    """

    sensitive: Sensitive = None
    use_sensitive: bool = True
    classes_: Array = field(init=False)
    groups_: tuple[Any, ...] = field(init=False)
    feature_names_in_: Array = field(init=False)

    # What a subclass can do without: groups in fit, groups in predict, two classes.
    _groups_required: ClassVar[bool] = True
    _groups_at_prediction: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = False

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Learn from rows, labels and groups."""
        inputs.check_rows(X=X, y=y, sensitive_features=sensitive_features)
        features, groups = inputs.split(X, self.sensitive, sensitive_features)
        if not groups and self._groups_required:
            raise LearningError(
                f"{type(self).__name__} needs groups: give sensitive_features, or name columns of "
                "X in sensitive"
            )
        self.groups_ = inputs.learn_groups(groups) if groups else ()
        self.classes_, codes = np.unique(inputs.labels_of(y), return_inverse=True)
        n = len(self.classes_)
        if n < 2:
            raise LearningError(
                f"y has 1 class ({self.classes_[0]!r}): at least two are needed in the training "
                "rows"
            )
        if n > 2 and not self._any_classes:
            raise LearningError(
                f"y has {n} classes and {type(self).__name__} supports two: merge classes, or use "
                "LR or FairPC"
            )
        self.feature_names_in_ = np.array(list(features), object)
        self.n_features_in_ = len(features) + (len(groups) if self.sensitive is not None else 0)
        self._features = [Feature.learn(name, values) for name, values in features.items()]
        matrix, groups_of_rows = self._numbers(features, groups)
        self._fit(matrix, codes.astype(np.int64), groups_of_rows)
        return self

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Scores per class, rows × classes; what they mean is said by each class."""
        check_is_fitted(self, "_features", msg="this %(name)s is not fitted: call fit first")
        inputs.check_rows(X=X, sensitive_features=sensitive_features)
        features, groups = inputs.split(X, self.sensitive, sensitive_features)
        if not (self.groups_ and (self.use_sensitive or self._groups_at_prediction)):
            groups = {}
        elif not groups:
            name = type(self).__name__
            without = f", or make it {name}(use_sensitive=False)"
            raise LearningError(
                f"{name} uses the sensitive attribute to predict: give sensitive_features"
                + ("" if self._groups_at_prediction else without)
            )
        return self._scores(*self._numbers(features, groups))

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """The class with the highest score."""
        scores = self.predict_proba(X, sensitive_features=sensitive_features)
        chosen: Array = self.classes_[np.argmax(scores, axis=1)]
        return chosen

    @abstractmethod
    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        """Learn from numbers: features, class codes, group codes."""

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        """Scores per class of encoded rows; those of ``model_`` unless a method says otherwise."""
        return np.asarray(self.model_.predict_proba(matrix), np.float64)

    def _numbers(self, features: Columns, groups: Columns) -> tuple[Floats, Ints]:
        """Features, with indicators of the groups after them where they are used; group codes."""
        matrix = inputs.encode(self._features, features)
        if not groups:
            return matrix, np.zeros(len(matrix), np.int64)
        codes = inputs.group_codes(self.groups_, groups)
        if self.use_sensitive:
            matrix = np.hstack([matrix, inputs.indicators(codes, np.arange(1, len(self.groups_)))])
        return matrix, codes
