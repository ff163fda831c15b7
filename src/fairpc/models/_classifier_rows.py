"""Rows as a user's classifiers take them, with their groups, and what the classifiers answer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import has_fit_parameter

from fairpc.core import (
    Array,
    Codes,
    FairpcError,
    Floats,
    LearningError,
    TableError,
    TableWarning,
    counted,
)
from fairpc.data import Encoding, Frame, TableCoding, numbers_of, read_frame, read_values, take_rows

APART: Final = "sensitive_feature"
"""Name of the column of groups that were given as an array."""


@dataclass(frozen=True, eq=False)
class GroupView:
    """How classifiers see the group of a row.

    Attributes:
        names: columns of the group.
        levels: of each group, its value in each of these columns.
        inside: whether they are columns of X; else they are added to it.
        library: of the frames at fit; "" for arrays.
        written: how columns of numbers are written that are text, which our classifiers are given
            as numbers.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    inside: bool
    library: str
    written: Encoding | None = None

    @classmethod
    def of(cls, coding: TableCoding, X: Any, s: Codes, *, own: bool) -> GroupView:
        """The value that stands for a group is that of its first row, where S is in X.

        Given apart it is a number if X holds no text, because most classifiers take none; that
        of fairpc, its ``own``, does.
        """
        frame, groups = read_frame(X), coding.groups
        library, written = _library(X), coding.features if own else None
        names, inside = group_columns(coding)
        if not inside:
            taken = [n for n in names if n in frame.names]
            if taken:
                raise TableError(
                    f"X has a column {taken[0]!r}, as the groups given apart are called: rename "
                    "one of them, or name the column of X as sensitive"
                )
            levels = _levels(coding) if own or _has_text(X) else groups.cells
            return cls(names, levels, False, library, written)
        first = [int(np.flatnonzero(s == g)[0]) for g in range(len(groups.names))]
        columns = [frame.column(name) for name in names]
        levels = tuple(tuple(_item(column[row]) for column in columns) for row in first)
        return cls(names, levels, True, library, written)

    def table(self, X: Any, s: Codes) -> Any:
        """Rows with their groups, as classifiers take them."""
        return self._native(X) if self.inside else self.taken_as(X, s)

    def taken_as(self, X: Any, s: Codes) -> Any:
        """Rows as if they were of these groups."""
        native = self._native(X)
        values = {name: [level[j] for level in self.levels] for j, name in enumerate(self.names)}
        frame = nw.from_native(native, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            columns = [series_of(frame, name, np.array(each)[s]) for name, each in values.items()]
            return frame.with_columns(*columns).to_native()
        array = np.asarray(native)
        if not self.inside:
            # A number, so that an array of numbers stays one.
            return np.column_stack([array, s.astype(array.dtype if array.dtype != object else int)])
        array = array.copy()
        places = [int(name[1:]) for name in self.names]
        for j, place in enumerate(places):
            array[:, place] = np.array([level[j] for level in self.levels])[s]
        return array

    def features(self, X: Any) -> Any:
        """Rows without their groups."""
        native = self._native(X)
        if not self.inside:
            return native
        frame = nw.from_native(native, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            # By place: a name of pandas may be a number, and one of polars a pattern.
            kept = [j for j, name in enumerate(frame.columns) if name not in self.names]
            return frame[:, kept].to_native()
        array = np.asarray(native)
        return np.delete(array, [int(name[1:]) for name in self.names], axis=1)

    def _native(self, X: Any) -> Any:
        """A batch of a file as a frame of the library that the classifiers know."""
        if isinstance(X, Frame):
            frame = X.to_polars()
            X = frame.to_pandas() if self.library == "pandas" else frame
        return X if self.written is None else _unwritten(X, self.written)


def _unwritten(X: Any, features: Encoding) -> Any:
    """A frame whose numbers are numbers where they were written as text in a way of their own."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    changed = []
    for column in features.columns:
        if column.written is not None and column.name in frame.columns:
            values = read_values(column.name, frame[column.name], features.missing_values)
            if values.type == "text" and not values.missing().all():
                changed.append(series_of(frame, column.name, numbers_of(column, values)))
    return frame.with_columns(*changed).to_native() if changed else X


def series_of(frame: nw.DataFrame[Any], name: str, values: Array) -> nw.Series[Any]:
    """A column for a frame, of the type that it has there, with its index where it has one."""
    series = nw.new_series(name, values.tolist(), backend=frame.implementation)
    if name in frame.columns and frame.schema[name] in (nw.Categorical, nw.Enum):
        series = series.cast(frame.schema[name])
    index = nw.maybe_get_index(frame)
    return series if index is None else nw.maybe_set_index(series, index=index)


def in_order(table: Any, names: Sequence[str]) -> Any:
    """A frame with the columns of the fit, in their order; scikit-learn notes names of text."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not (isinstance(frame, nw.DataFrame) and len(names)):
        return table
    return frame[[name for name in names if name in frame.columns]].to_native()


def _has_text(X: Any) -> bool:
    """Whether a column of a frame is text, or whatever an object may be."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    types = frame.schema.values() if isinstance(frame, nw.DataFrame) else ()
    return any(type_ in (nw.String, nw.Object) for type_ in types)


def group_columns(coding: TableCoding) -> tuple[tuple[str, ...], bool]:
    """Names of the columns of the group as classifiers see them, and whether X has them."""
    if coding.sensitive:
        return coding.sensitive, True
    names = coding.groups.column_names
    return tuple(APART if name == "sensitive" else name for name in names), False


def _library(X: Any) -> str:
    native = nw.from_native(X, eager_only=True, pass_through=True)
    return native.implementation.value if isinstance(native, nw.DataFrame) else ""


def _levels(coding: TableCoding) -> tuple[tuple[Any, ...], ...]:
    """Of each group its value in each sensitive column; a label where values were binned."""
    from fairpc.data import decoded_levels

    names = [decoded_levels(column) for column in coding.groups.columns]
    return tuple(
        tuple(levels[c] for levels, c in zip(names, cell, strict=True))
        for cell in coding.groups.cells
    )


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def scores_by(classifiers: tuple[Any, ...], table: Any, s: Codes) -> Floats:
    """P(D = positive | x, s) by one classifier, or by that of each row's group."""
    if len(classifiers) == 1:
        return positive_scores(classifiers[0], table)
    found = np.empty(len(s))
    for g, classifier in enumerate(classifiers):
        here = np.flatnonzero(s == g)
        if len(here):
            found[here] = positive_scores(classifier, take_rows(table, here))
    return found


def positive_scores(classifier: Any, table: Any) -> Floats:
    """P(1) of a classifier of 0 and 1."""
    with warnings.catch_warnings():
        # A level that one fold lacks is known to others.
        warnings.simplefilter("ignore", TableWarning)
        scores = np.asarray(_asked_of(classifier, "predict_proba", table), np.float64)
    # NaN is not inside.
    inside = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape != (len(table), 2) or not inside:
        raise LearningError(
            f"predict_proba of {type(classifier).__name__} gives shape {scores.shape} for "
            f"{counted(len(table), 'row')}, or numbers that are not from 0 to 1: it must give two "
            "probabilities for each row"
        )
    return scores[:, 1]


def check_classifier(name: str, classifier: Any) -> None:
    if isinstance(classifier, type) or not hasattr(classifier, "get_params"):
        raise LearningError(
            f"{name} is {classifier!r}: give a classifier of scikit-learn's kind, as an object"
        )
    if not hasattr(classifier, "predict_proba"):
        raise LearningError(
            f"{name} is a {type(classifier).__name__} without predict_proba: give a classifier "
            "that has it, or wrap it in scikit-learn's CalibratedClassifierCV"
        )


def fitted_classifier(
    classifier: Any, table: Any, labels: Any, weights: Floats | None, **more: Any
) -> Any:
    """The classifier, fitted; weights go to where it takes them."""
    if weights is None:
        return _asked_of(classifier, "fit", table, labels, **more)
    name = weight_name(classifier)
    if not name:
        raise LearningError(
            f"sample_weight is given and {type(classifier).__name__}.fit takes none: give a "
            "classifier that takes weights, or leave the weights out"
        )
    return _asked_of(classifier, "fit", table, labels, **{name: weights}, **more)


def _asked_of(classifier: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """What a classifier answers; a LearningError says what it could not take."""
    try:
        return getattr(classifier, method)(*args, **kwargs)
    except FairpcError:
        raise
    except ValueError as error:
        said = str(error).strip().split("\n")[0].rstrip(".")
        raise LearningError(
            f"{type(classifier).__name__}.{method} does not take these rows ({said}): put what it "
            "needs into a Pipeline, or leave the estimator out, which takes tables as they are"
        ) from error


def weight_name(classifier: Any) -> str:
    """The argument of ``fit`` that weights have; empty where there is none."""
    steps = getattr(classifier, "steps", None)
    if steps:
        last, final = steps[-1]
        inner = weight_name(final)
        return f"{last}__{inner}" if inner else ""
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else ""
