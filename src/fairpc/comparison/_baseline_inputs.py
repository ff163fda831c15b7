"""Frames and arrays as the numbers a linear model takes: features, groups, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np

from fairpc.core import Array, Bools, Floats, Ints, LearningError, missing, warn_caller

MOST_LEVELS: Final = 128
"""Levels of a column that are told apart, the most frequent ones: each is a column."""

Columns = dict[str, Array]
Sensitive = str | int | Sequence[str | int] | None


def split(X: Any, sensitive: Sensitive, sensitive_features: Any) -> tuple[Columns, Columns]:
    """Features and sensitive columns, from one table or from two."""
    if sensitive is not None and sensitive_features is not None:
        raise LearningError(
            "sensitive names columns of X and sensitive_features is given too: use one of them"
        )
    features, groups = columns_of(X), {}
    if sensitive is not None:
        for name in map(str, [sensitive] if isinstance(sensitive, (str, int)) else sensitive):
            if name not in features:
                raise LearningError(f"X has no column {name!r}: name columns of X in sensitive")
            groups[name] = features.pop(name)
    elif sensitive_features is not None:
        groups = columns_of(sensitive_features, "sensitive_features")
    if not features:
        raise LearningError("X has no columns besides the sensitive ones: give features")
    return features, groups


def columns_of(X: Any, what: str = "X") -> Columns:
    """Columns of a frame by name, or of an array by number ("0", "1", …), nothing missing."""
    if isinstance(X, dict):
        raise LearningError(f"{what} is a dict: give a frame or an array of rows × columns")
    frame = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.alias(frame.name or what).to_frame()
    if isinstance(frame, nw.DataFrame):
        columns = {str(name): _values(frame[name], what) for name in frame.columns}
    else:
        array = np.asarray(X)
        if array.ndim == 1 and what != "X":
            array = array.reshape(-1, 1)
        if array.ndim != 2:
            raise LearningError(f"{what} has shape {array.shape}: give rows × columns")
        columns = {str(j): _tidy(array[:, j], str(j), what) for j in range(array.shape[1])}
    if not columns:
        raise LearningError(f"{what} has no columns: give at least one")
    return columns


def _values(series: nw.Series[Any], what: str) -> Array:
    # A method of a polars series asks for its column by name, which may look like a pattern.
    name, series = str(series.name), series.alias("")
    _refuse_missing(series.is_null().to_numpy(), name, what)
    if series.dtype.is_temporal():
        raise LearningError(
            f"column {name!r} of {what} holds dates or times: turn it into numbers first"
        )
    text = not (series.dtype.is_numeric() or series.dtype == nw.Boolean)
    return _tidy(series.cast(nw.String).to_numpy() if text else series.to_numpy(), name, what)


def _tidy(array: Array, name: str, what: str) -> Array:
    """Floats for numbers, text for the rest; a missing value is refused."""
    if array.dtype.kind == "O":
        _refuse_missing(missing(array), name, what)
        if all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in array):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        return array.astype(np.str_)
    numbers = array.astype(np.float64)
    _refuse_missing(~np.isfinite(numbers), name, what)
    return numbers


def _refuse_missing(hidden: Bools, name: str, what: str) -> None:
    if hidden.any():
        raise LearningError(
            f"column {name!r} of {what} has a missing or infinite value in row "
            f"{int(np.argmax(hidden))}: this baseline cannot sum it out; drop or impute such rows, "
            "or use FairPC"
        )


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
            standard: Floats = (values.astype(np.float64) - self.mean) / self.scale
            return standard.reshape(-1, 1)
        unseen = ~np.isin(values, self.levels)
        if unseen.any():
            warn_caller(
                f"column {self.name!r} has the level {str(values[unseen][0])!r}, which was not in "
                "the training rows: it counts as none of the known levels",
                UserWarning,
            )
        return indicators(values, np.array(self.shown))


def indicators(values: Array, shown: Array) -> Floats:
    """[value = v] for each v that is shown: rows × values."""
    return np.equal(values[:, None], shown[None, :]).astype(np.float64)


def encode(features: Sequence[Feature], columns: Columns) -> Floats:
    """Columns of X as a matrix, by what was learned of each from the training rows."""
    names = [f.name for f in features]
    lacking = [n for n in names if n not in columns]
    if lacking or len(columns) != len(names):
        odd = lacking[0] if lacking else next(n for n in columns if n not in names)
        raise LearningError(
            f"X has {len(columns)} columns and had {len(names)} in fit (see column {odd!r}): "
            "give the same columns"
        )
    return np.hstack([f.encode(columns[f.name]) for f in features])


def learn_groups(columns: Columns) -> tuple[Any, ...]:
    """Levels of the sensitive attribute, or of several crossed, in sorted order."""
    groups = tuple(sorted(set(_crossed(columns))))
    if len(groups) < 2:
        raise LearningError(
            f"the sensitive features have 1 group ({groups[0]!r}): at least two groups are "
            "needed in the training rows"
        )
    return groups


def group_codes(groups: Sequence[Any], columns: Columns) -> Ints:
    """Number of each row's group."""
    number = {group: i for i, group in enumerate(groups)}
    found = _crossed(columns)
    unseen = next((g for g in found if g not in number), None)
    if unseen is not None:
        raise LearningError(
            f"group {unseen!r} was not in the training rows: the groups are "
            f"{', '.join(repr(g) for g in groups)}"
        )
    return np.array([number[g] for g in found], np.int64)


def _crossed(columns: Columns) -> list[Any]:
    """The group of each row; whole numbers as such, so that group 1 is not called 1.0."""
    lists = []
    for values in columns.values():
        whole = values.dtype.kind == "f" and (values == np.round(values)).all()
        lists.append((values.astype(np.int64) if whole else values).tolist())
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def labels_of(y: Any) -> Array:
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


def check_rows(**given: Any) -> None:
    """The same number of rows everywhere, and the same index where there is one."""
    sizes = {name: len(values) for name, values in given.items() if values is not None}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise LearningError(f"the numbers of rows differ ({listed}): give one row for each")
    indexed = [(name, values.index) for name, values in given.items() if hasattr(values, "iloc")]
    for name, index in indexed[1:]:
        if not indexed[0][1].equals(index):
            raise LearningError(
                f"the indexes of {indexed[0][0]} and {name} differ: align them, or reset both"
            )


def distinct_rows(*arrays: Array) -> tuple[Ints, Floats]:
    """First position of each distinct row of several arrays side by side, and its count."""
    ids = np.zeros(len(arrays[0]), np.int64)
    for column in np.column_stack(arrays).T:
        values, codes = np.unique(column, return_inverse=True)
        _, first, ids, counts = np.unique(
            ids * len(values) + codes, return_index=True, return_inverse=True, return_counts=True
        )
    return first, counts.astype(np.float64)
