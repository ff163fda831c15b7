"""What the metrics ask of their arrays; each error says the argument, the rule and the repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors import MetricError
from fairpc.errors.arrays import Array, Floats, Positions


def labels(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Array:
    """A vector of labels of any type, complete, not empty, of the length asked for."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _check_length(name, array, n_rows)
    if array.dtype.kind == "f":
        hidden = np.isnan(array)
    elif array.dtype.kind == "O":
        hidden = np.array([_is_missing(v) for v in array], np.bool_)
    else:
        return array
    if hidden.any():
        raise MetricError(
            f"{name} is missing in row {int(np.argmax(hidden))}: leave out rows without a value"
        )
    if array.dtype.kind == "O":
        try:
            return np.array(array.tolist())
        except ValueError as error:
            raise MetricError(f"{name} holds values that are no labels ({error})") from error
    return array


def numbers(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Floats:
    """A vector of finite numbers, not empty, of the length asked for."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} holds something other than numbers: give numbers") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _check_length(name, array, n_rows)
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise MetricError(f"{name} is {array[row]} in row {row}: give finite numbers")
    return array


def weights(values: npt.ArrayLike | None, n_rows: int) -> Floats:
    """Weights per row, ones if None; finite, not negative, not all zero."""
    if values is None:
        return np.ones(n_rows)
    array = numbers("sample_weight", values, n_rows)
    if array.min() < 0:
        row = int(np.argmax(array < 0))
        raise MetricError(f"sample_weight is {array[row]} in row {row}: weights are not negative")
    if not array.any():
        raise MetricError("all weights are zero: at least one row needs a positive weight")
    return array


def groups(values: npt.ArrayLike, n_rows: int) -> tuple[list[Any], Positions]:
    """The groups in sorted order, at least two, and each row's group number."""
    array = labels("groups", values, n_rows)
    names, ids = np.unique(array, return_inverse=True)
    if len(names) < 2:
        raise MetricError(
            f"groups has 1 value ({names.tolist()[0]!r}): a comparison needs at least two groups"
        )
    return names.tolist(), ids


def label_pair(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> tuple[Array, Array]:
    """True and predicted labels, of one length and of types that can be equal."""
    truth = labels("y_true", y_true)
    guess = labels("y_pred", y_pred, len(truth))
    if (truth.dtype.kind in "US") != (guess.dtype.kind in "US"):
        raise MetricError(
            f"y_true holds {truth.dtype} and y_pred {guess.dtype}: give labels of one type"
        )
    return truth, guess


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _check_length(name: str, array: Array, n_rows: int | None) -> None:
    if array.ndim != 1:
        raise MetricError(f"{name} has shape {array.shape}: give one value per row")
    if n_rows is not None and len(array) != n_rows:
        raise MetricError(
            f"{name} has {len(array)} rows and the first argument {n_rows}: give as many"
        )
    if not len(array):
        raise MetricError(f"{name} is empty: give at least one row")
