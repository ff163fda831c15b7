"""The label: its classes, and which of them is meant by "positive"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Array, ClassWarning, Codes, Floats, TableError, warn_caller
from fairpc.data._column import Coded, Column, Kind
from fairpc.data._frame import read_columns
from fairpc.data._groups import MANY
from fairpc.data._names import GivenNames, refuse_alike
from fairpc.data._table import check_weights
from fairpc.data._values import (
    MIXED,
    Level,
    Sentinel,
    Values,
    are_bare,
    check_keys,
    levels_of,
    read_classes,
)

MAX_CLASSES: Final = 100


@dataclass(frozen=True)
class Labels(Coded):
    """Classes of the label."""

    column: Column  #: the label as a column: its levels are the classes, in sorted order
    positive: int  #: number of the class that is meant by "positive"
    missing_values: tuple[Sentinel, ...] = ()  #: values that mean "missing", besides null and NaN

    def __post_init__(self) -> None:
        if self.column.binned or self.column.has_other or self.column.arity < 2:
            raise TableError(f"the label {self.name!r} needs at least two classes, none merged")
        if not are_bare(self.classes):
            raise TableError(f"a class of the label {self.name!r} begins or ends with a blank")
        if not 0 <= self.positive < self.column.arity:
            raise TableError(f"the positive class of {self.name!r} is none of its classes")

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def classes(self) -> tuple[Level, ...]:
        """The classes, as they appear in the data."""
        return self.column.levels

    @property
    def positive_class(self) -> Level:
        """The class that is meant by "positive"."""
        return self.classes[self.positive]

    def classes_array(self) -> Array:
        """The classes as an array, as scikit-learn's ``classes_``."""
        return np.array(self.classes)

    def transform(self, y: Any) -> Codes:
        """Class code of each row; -1 where the label is missing or, with a warning, unknown."""
        _, values = _read_label(y, self.missing_values, self.name)
        return self.column.codes(values)

    def check_known(self, y: Any) -> None:
        """A TableError where labels are given and none of them is a class."""
        name, values = _read_label(y, self.missing_values, self.name)
        codes = self.column.codes(values, warn=False)
        present = ~values.missing()
        if present.any() and not (codes >= 0).any():
            first = values.taken(present).data[0]
            raise TableError(
                f"label {name!r} holds {first!r} and none of the classes of the fit, "
                f"{', '.join(map(repr, self.classes))}: give the column that has them"
            )

    def inverse(self, codes: npt.ArrayLike) -> Array:
        """Class of each code; None (an object array) where some are -1."""
        numbers = np.asarray(codes, np.int16)
        if len(numbers) and numbers.min() < 0:
            return np.array(self.column.decode(numbers), dtype=object)
        return np.asarray(self.classes_array()[numbers])


def warn_of_classes(labels: Labels, n_groups: int) -> None:
    """Say before the work begins that classes are many."""
    n = len(labels.classes)
    if n <= MANY:
        return
    warn_caller(
        f"the label {labels.name!r} has {n} classes: in each of {n_groups} groups a mechanism of "
        f"{n} × {n} numbers is learned, which may take minutes and of few rows per class tells "
        "little; merge classes",
        ClassWarning,
    )


def fit_labels(
    y: Any,
    *,
    positive: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    missing_values: Iterable[Sentinel] = (),
    name: str = "y",
) -> Labels:
    """Classes of a label, from the rows of positive weight; the last one is positive if None is.

    The label is a vector, series, or a frame or array of one column, called ``name`` where it has
    no name of its own.
    """
    sentinels = tuple(missing_values)
    name, values = _read_label(y, sentinels, name)
    weights = check_weights(sample_weight, len(values.data))
    if not weights.all():
        values, weights = values.taken(weights > 0), weights[weights > 0]
    return labels_of(name, values, weights, positive, sentinels)


def labels_of(
    name: str,
    values: Values,
    weights: Floats,
    positive: Any = None,
    missing_values: tuple[Sentinel, ...] = (),
    names: GivenNames | None = None,
) -> Labels:
    """Classes of a label whose values have these weights; each may stand for many rows.

    Two that differ by case alone are refused, unless ``names`` calls one of them something else.
    """
    missing = values.missing()
    if missing.all():
        raise TableError(f"label {name!r} is missing in every row: at least two classes are needed")
    column = _label_column(name, values, float(weights[missing].sum() / weights.sum()))
    refuse_alike("label", name, column.levels, names)
    return Labels(column, _positive(column, positive), missing_values)


def _label_column(name: str, values: Values, missing_share: float) -> Column:
    distinct = levels_of(values)
    if values.remark == MIXED:
        raise TableError(f"label {name!r} holds values of several types: give text or numbers")
    # More different broken numbers than this are a measurement.
    broken = isinstance(distinct[0], float) and len(distinct) > 10
    if values.type == "date" or broken or (len(distinct) > MAX_CLASSES and values.type == "number"):
        # The words in brackets are those that scikit-learn's tools look for.
        raise TableError(
            f"label {name!r} has {len(distinct)} different numbers or dates, a label of continuous "
            "numbers (Unknown label type: continuous): give classes, or cut it into classes first"
        )
    if len(distinct) > MAX_CLASSES:
        raise TableError(
            f"label {name!r} has {len(distinct)} classes: at most {MAX_CLASSES}, merge some of them"
        )
    if len(distinct) == 1:
        raise TableError(
            f"label {name!r} has 1 class ({distinct[0]!r}): "
            "at least two classes are needed in the training rows"
        )
    check_keys(name, values)
    kind: Kind = "boolean" if values.type == "boolean" else "category"
    done = f"label of {len(distinct)} classes"
    return Column(name, kind, levels=distinct, missing_share=missing_share, done=done)


def _read_label(y: Any, missing_values: tuple[Sentinel, ...], name: str) -> tuple[str, Values]:
    frame = read_columns(y, name)
    if len(frame.columns) != 1:
        raise TableError(f"the label has {len(frame.columns)} columns: give one")
    return frame.names[0], read_classes(frame.names[0], frame.columns[0], missing_values)


def _positive(column: Column, positive: Any) -> int:
    if positive is None:
        return column.arity - 1
    values = read_classes(column.name, np.array([positive], dtype=object))
    code = -1 if values.type == "date" else int(column.codes(values, warn=False)[0])
    if code < 0:
        raise TableError(
            f"positive is {positive!r}: it must be one of the classes of label {column.name!r}, "
            f"{', '.join(map(repr, column.levels))}"
        )
    return code
