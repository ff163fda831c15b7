"""Plain classifiers of a label with two classes, on tables as they are; their state is numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from fairpc.core import (
    ALTERED,
    Array,
    FileFormatError,
    Floats,
    Ints,
    OptionError,
    TableError,
    check_choice,
    is_missing,
    record,
)
from fairpc.data import (
    MIN_CELL,
    Encoding,
    Frame,
    Level,
    Sentinel,
    check_rows,
    check_weights,
    fit_labels,
    read_frame,
)
from fairpc.learners import (
    CLASSIFIER_KINDS,
    AlteredLabels,
    ClassifierKind,
    Edges,
    Learned,
    SavedLinear,
    SavedTrees,
    corrected_boosting,
    corrected_linear,
    encoded_matrix,
    encoded_sizes,
    fit_encoding,
    learn_boosting,
    learn_forest,
    learn_linear,
)
from fairpc.models._settings import check_settings, serialised
from fairpc.models._tables import check_fit_input


@dataclass(frozen=True)
class _SavedClassifier:
    """What a file holds of a classifier."""

    kind: ClassifierKind
    random_state: int | None
    classes: tuple[Level, ...]
    encoding: dict[str, Any]
    learned: dict[str, Any]


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """P(D | x) by a plain classifier, for tables with text, dates and holes.

    Text that is nothing but numbers or dates is read as such, other text is a category. A level
    that was not seen counts as missing, with a warning that names it. Columns that are empty, and
    text or whole numbers that differ in every row, are left out.

    What was learned is kept as arrays and evaluated by fairpc itself: ``to_dict`` gives it as plain
    numbers, and ``from_dict`` a classifier that predicts the same bits.

    Args:
        kind: "hgb", gradient boosting by histograms; "logistic", ridge regression with indicators
            of levels and holes; "forest", a random forest.
        missing_values: values that mean "missing", besides null and NaN.
        random_state: of what is drawn; a number gives the same classifier again.

    Attributes:
        classes_: the two labels, sorted; column k of ``predict_proba`` belongs to the k-th.
        encoding_: the columns that are used, and why others are not.
        learned_: coefficients or trees.
    """

    classes_: Array
    encoding_: Encoding
    learned_: Learned

    def __init__(
        self,
        kind: ClassifierKind = "hgb",
        *,
        missing_values: tuple[Sentinel, ...] = (),
        random_state: Any = None,
    ) -> None:
        self.kind = kind
        self.missing_values = missing_values
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        identifiers: Mapping[str, str] | None = None,
        min_cell: int = MIN_CELL,
    ) -> Self:
        """Learn from rows and labels; rows of no weight play no part.

        ``identifiers`` are columns that tell rows apart, and why they are left out, where these are
        some rows of a table that is known whole. Levels of fewer than ``min_cell`` rows count as
        missing.
        """
        check_choice("kind", self.kind, CLASSIFIER_KINDS, OptionError)
        check_settings(self.get_params(deep=False))
        check_fit_input(self, X, y)
        frame = read_frame(X)
        classes, codes, weights = _labels(X, frame, y, sample_weight)
        used = np.flatnonzero(weights > 0)
        if len(used) < frame.n_rows:
            frame, codes, weights = frame.taken(used), codes[used], weights[used]
        missing = sentinels(self.missing_values)
        encoding = fit_encoding(frame, codes, weights, self.kind, missing, identifiers, min_cell)
        return self.fit_encoded(classes, encoding, encoded_matrix(encoding, frame), codes, weights)

    def fit_encoded(
        self,
        classes: Array,
        encoding: Encoding,
        matrix: Floats,
        codes: Ints,
        weights: Floats,
        edges: Edges | None = None,
    ) -> Self:
        """Learn from rows that are encoded already; ``edges`` are of the bins that boosting tells
        apart."""
        known = matrix, encoded_sizes(encoding), codes, weights
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        learned: Learned
        if self.kind == "logistic":
            learned = learn_linear(*known)
        elif self.kind == "forest":
            learned = learn_forest(*known, seed)
        else:
            learned = learn_boosting(*known, seed, edges)
        self._store(classes, encoding, learned)
        return self

    @classmethod
    def behind(
        cls,
        kind: Literal["hgb", "logistic"],
        encoding: Encoding,
        matrix: Floats,
        labels: AlteredLabels,
        edges: Edges,
        random_state: int = 0,
        n_rounds: int | None = None,
    ) -> Self:
        """P(Df = k | x), learned from labels 0 and 1 that known mechanisms have altered, by so many
        rounds of boosting."""
        known = matrix, encoded_sizes(encoding), labels
        model = cls(kind, missing_values=encoding.missing_values, random_state=random_state)
        learned: Learned
        if kind == "logistic":
            learned = corrected_linear(*known)
        else:
            learned = corrected_boosting(*known, random_state, edges, n_rounds)
        model._store(np.array([0, 1]), encoding, learned)
        return model

    def predict_proba(self, X: Any) -> Floats:
        """P(D = k | x) of each row, shape (rows, 2)."""
        check_is_fitted(self, "learned_")
        frame, known = read_frame(X), self.encoding_
        if (frame.from_array or known.from_array) and len(frame.names) != self.n_features_in_:
            raise TableError(
                f"X has {len(frame.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: array columns are matched by position"
            )
        second = self.learned_.probability(encoded_matrix(known, frame))
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> Array:
        """The class with the higher probability."""
        second = self.predict_proba(X)[:, 1] > 0.5
        return np.asarray(self.classes_[second.astype(np.intp)])

    def to_dict(self) -> dict[str, Any]:
        """What was learned, as JSON-safe data."""
        check_is_fitted(self, "learned_")
        seed = serialised(self.random_state)
        return {
            "kind": self.kind,
            "random_state": seed if type(seed) is int else None,
            "classes": self.classes_.tolist(),
            "encoding": self.encoding_.to_dict(),
            "learned": self.learned_.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The classifier of ``to_dict``; a FileFormatError names what is wrong in anything else."""
        saved = record(_SavedClassifier, data, "the classifier", exact=True, repair=ALTERED)
        kind, classes = saved.kind, saved.classes
        one_type = len(classes) == 2 and type(classes[0]) is type(classes[1])
        if not one_type or not classes[0] < classes[1]:  # type: ignore[operator]  # of one type
            raise FileFormatError(f"the classes of the classifier are {classes}: {ALTERED}")
        encoding = Encoding.from_dict(saved.encoding)
        if not encoding.columns:
            raise FileFormatError("the classifier has no columns: give the file as it was saved")
        state, sizes = saved.learned, encoded_sizes(encoding)
        learned: Learned
        if kind == "logistic":
            learned = SavedLinear.from_dict(state, sizes)
        else:
            learned = SavedTrees.from_dict(state, sizes, boosted=kind == "hgb")
        model = cls(kind, missing_values=encoding.missing_values, random_state=saved.random_state)
        model._store(np.array(classes), encoding, learned)
        return model

    def _store(self, classes: Array, encoding: Encoding, learned: Learned) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        self.classes_, self.encoding_, self.learned_ = classes, encoding, learned
        self.n_features_in_ = len(encoding.names_in)
        if not encoding.from_array:
            self.feature_names_in_ = np.array(encoding.names_in, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        return tags


def sentinels(missing_values: tuple[Sentinel, ...]) -> tuple[Sentinel, ...]:
    """Values that mean "missing", as a file can hold them; NaN means it anyway."""
    values = tuple(serialised(value) for value in missing_values)
    if any(value in (math.inf, -math.inf) for value in values):
        raise OptionError(
            "missing_values hold infinity, which no file can: replace it in the table"
        )
    return tuple(value for value in values if not is_missing(value))


def _labels(X: Any, frame: Frame, y: Any, sample_weight: Any) -> tuple[Array, Ints, Floats]:
    """The classes, the number of each row's class, and the weights."""
    check_rows(X, frame, y, "label")
    weights = check_weights(sample_weight, frame.n_rows)
    labels = fit_labels(y, sample_weight=weights)
    if len(labels.classes) > 2:
        # The words in brackets, here and below, are those that scikit-learn's tools look for.
        raise TableError(
            f"label {labels.name!r} has {len(labels.classes)} classes, and a TableClassifier tells "
            "two apart (Only binary classification is supported): merge classes"
        )
    codes = labels.transform(y).astype(np.int64)
    hidden = (codes < 0) & (weights > 0)
    if hidden.any():
        raise TableError(
            f"label {labels.name!r} is missing in row {int(np.argmax(hidden))} (it contains NaN): "
            "leave out rows without a label"
        )
    return labels.classes_array(), codes, weights
