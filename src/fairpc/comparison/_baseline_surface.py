"""What the baselines share: the scikit-learn surface, who sees the sensitive attribute, and frames
and arrays as the numbers that a linear model takes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fairpc import data
from fairpc.core import Array, Floats, Ints, LearningError, missing, warn_caller
from fairpc.learners import indicators

MOST_NUMBER: Final = 1e100  #: largest number of a column that is standardised
MOST_LEVELS: Final = 128
"""Levels of a column that are kept apart, the most frequent ones: each is a column."""

Columns = dict[str, Array]
Sensitive = str | int | Sequence[str | int] | None


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
        features, groups = _split(X, self.sensitive, sensitive_features)
        data.check_rows(X, data.read_frame(X), y, "label")
        if not groups and self._groups_required:
            raise LearningError(
                f"{type(self).__name__} needs groups: give sensitive_features, or name columns of "
                "X in sensitive"
            )
        self.groups_ = tuple(sorted(set(_crossed(groups)))) if groups else ()
        if len(self.groups_) == 1:
            raise LearningError(
                f"the sensitive features have 1 group ({self.groups_[0]!r}): at least two groups "
                "are needed in the training rows"
            )
        self.classes_, codes = np.unique(_labels(y), return_inverse=True)
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
        features, groups = _split(X, self.sensitive, sensitive_features)
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
        names = [feature.name for feature in self._features]
        odd = [*(n for n in names if n not in features), *(n for n in features if n not in names)]
        if odd:
            raise LearningError(
                f"X has {len(features)} columns and had {len(names)} in fit (see column "
                f"{odd[0]!r}): give the same columns"
            )
        matrix = np.hstack([feature.encode(features[feature.name]) for feature in self._features])
        if not groups:
            return matrix, np.zeros(len(matrix), np.int64)
        number = {group: i for i, group in enumerate(self.groups_)}
        found = _crossed(groups)
        unseen = next((g for g in found if g not in number), None)
        if unseen is not None:
            raise LearningError(
                f"group {unseen!r} was not in the training rows: the groups are "
                f"{', '.join(map(repr, self.groups_))}"
            )
        codes = np.array([number[g] for g in found], np.int64)
        if self.use_sensitive:
            matrix = np.hstack([matrix, indicators(codes, np.arange(1, len(self.groups_)))])
        return matrix, codes


def _split(X: Any, sensitive: Sensitive, sensitive_features: Any) -> tuple[Columns, Columns]:
    """Features and sensitive columns, from one table or from two."""
    frame = data.read_frame(X)
    features, groups = _columns(frame, "X"), {}
    if sensitive is not None:
        data.check_not_both(sensitive_features)
        for name in map(str, [sensitive] if isinstance(sensitive, str | int) else sensitive):
            if name not in features:
                raise LearningError(f"X has no column {name!r}: name columns of X in sensitive")
            groups[name] = features.pop(name)
    elif sensitive_features is not None:
        data.check_rows(X, frame, sensitive_features, "sensitive feature")
        groups = _columns(data.read_columns(sensitive_features, "s"), "sensitive_features")
    if not features:
        raise LearningError("X has no columns besides the sensitive ones: give features")
    return features, groups


def _columns(frame: data.Frame, what: str) -> Columns:
    """Columns by name, those of an array by number ("0", "1", …): text, or numbers; no holes."""
    names = tuple(map(str, range(len(frame.names)))) if frame.from_array else frame.names
    return {
        name: _numbers_or_text(name, column, what)
        for name, column in zip(names, frame.columns, strict=True)
    }


def _numbers_or_text(name: str, column: Any, what: str) -> Array:
    values = data.read_values(name, column)
    hidden = values.missing()
    if hidden.any():
        raise LearningError(
            f"column {name!r} of {what} has a missing value in row {int(np.argmax(hidden))}: this "
            "baseline cannot marginalise it; drop or impute such rows, or use FairPC"
        )
    if not isinstance(column, np.ndarray) and column.dtype == nw.Object:
        return np.asarray(column).astype(np.str_)  # a frame that gives no type holds names
    if values.type == "date":
        raise LearningError(
            f"column {name!r} of {what} holds dates or times: turn it into numbers first"
        )
    text = values.type == "text"
    cells: Array = values.data.to_numpy() if text else values.data
    return cells.astype(np.str_ if text or values.declared else np.float64)


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers: standardised, or an indicator per level that is shown."""

    name: str
    levels: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def learn(cls, name: str, values: Array) -> Feature:
        distinct, counts = np.unique(values, return_counts=True)
        if values.dtype.kind == "U":
            most = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
            # Of two levels one indicator says all.
            shown = distinct[1:] if len(distinct) == 2 else distinct[most]
            return cls(name, tuple(distinct.tolist()), tuple(shown.tolist()))
        # A column of two numbers stays as it is: that is how the paper's tables are used.
        if len(distinct) <= 2:
            return cls(name)
        values = _squarable(name, values)
        return cls(name, mean=float(values.mean()), scale=float(values.std()))

    def encode(self, values: Array) -> Floats:
        text = values.dtype.kind == "U"
        if text != bool(self.levels):
            kinds = ("text", "numbers") if text else ("numbers", "text")
            raise LearningError(
                f"column {self.name!r} holds {kinds[0]}, and held {kinds[1]} in fit: give the "
                "same kind of column"
            )
        if not text:
            standard: Floats = (_squarable(self.name, values) - self.mean) / self.scale
            return standard.reshape(-1, 1)
        unseen = ~np.isin(values, self.levels)
        if unseen.any():
            warn_caller(
                f"column {self.name!r} has the level {str(values[unseen][0])!r}, which was not in "
                "the training rows: it counts as none of the known levels",
                UserWarning,
            )
        return indicators(values, np.array(self.shown))


def _squarable(name: str, values: Array) -> Floats:
    """Numbers whose squares are numbers, so that they have a variance; else a LearningError."""
    numbers = values.astype(np.float64)
    if (np.abs(numbers) > MOST_NUMBER).any():
        raise LearningError(
            f"column {name!r} reaches {np.abs(numbers).max():g} and has no variance that a number "
            f"holds: leave it out, or divide it to at most {MOST_NUMBER:g}"
        )
    return numbers


def _crossed(columns: Columns) -> list[Any]:
    """The group of each row; whole numbers as such, so that group 1 is not called 1.0."""
    lists = []
    for values in columns.values():
        whole = values.dtype.kind == "f" and (values == np.round(values)).all()
        lists.append((values.astype(np.int64) if whole else values).tolist())
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def _labels(y: Any) -> Array:
    """The label as one array of its own values, nothing missing."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        array = np.asarray(series.to_list(), object if series.is_null().any() else None)
    else:
        array = np.asarray(y)
    if array.ndim != 1:
        raise LearningError(f"y has shape {array.shape}: give one label per row")
    hidden = missing(array)
    if hidden.any():
        raise LearningError(
            f"y has a missing label in row {int(np.argmax(hidden))}: drop such rows, or use "
            "FairPC, which can learn from them"
        )
    return array
