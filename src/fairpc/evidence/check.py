"""What the evidence asks of its arrays; each error says the argument, the rule and the repair."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors import MetricError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def labels(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> npt.NDArray[Any]:
    """A vector of labels of any type, complete, not empty, of the length asked for."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _check_length(name, array, n_rows)
    hidden = missing(array)
    if hidden.any():
        row = int(np.argmax(hidden))
        raise MetricError(f"{name} is missing in row {row}: leave out rows without a value")
    return np.array(array.tolist()) if array.dtype.kind == "O" else array


def missing(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where an array of any type and shape has no value: NaN, None, NA."""
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array), np.bool_)
    if array.dtype.kind == "O":
        flat = np.array([_is_missing(v) for v in array.ravel()], np.bool_)
        return flat.reshape(array.shape)
    return np.zeros(array.shape, np.bool_)


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


def scores(values: npt.ArrayLike, n_rows: int | None = None, name: str = "scores") -> Floats:
    """Scores from 0 to 1, one per row."""
    array = numbers(name, values, n_rows)
    outside = (array < 0) | (array > 1)
    if outside.any():
        row = int(np.argmax(outside))
        raise MetricError(f"{name} is {array[row]} in row {row}: give scores from 0 to 1")
    return array


def weights(values: npt.ArrayLike | None, n_rows: int) -> Floats | None:
    """Positive weights per row, or None where all rows count alike."""
    if values is None:
        return None
    array = numbers("sample_weight", values, n_rows)
    if array.min() <= 0:
        row = int(np.argmax(array <= 0))
        raise MetricError(
            f"sample_weight is {array[row]} in row {row}: "
            "weights are positive; leave out rows that count for nothing"
        )
    return None if np.ptp(array) == 0 else array


def groups(
    values: npt.ArrayLike, n_rows: int, name: str = "groups"
) -> tuple[tuple[Any, ...], Ints]:
    """The groups in sorted order, at least two, and each row's group number.

    Several columns are crossed: each combination that occurs is a group, named by a tuple.
    """
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] == 1:
        found, ids = np.unique(labels(name, array, n_rows), return_inverse=True)
        names = tuple(found.tolist())
    else:
        names, ids = _crossed(array, n_rows, name)
    if len(names) < 2:
        raise MetricError(
            f"{name} has 1 value ({names[0]!r}): a comparison needs at least two groups"
        )
    return names, ids


def clusters(values: npt.ArrayLike | None, n_rows: int) -> Ints | None:
    """Who each row is about, as numbers from 0; None where each row is its own person."""
    if values is None:
        return None
    found, ids = np.unique(labels("clusters", values, n_rows), return_inverse=True)
    return None if len(found) == n_rows else ids


def level(value: float) -> float:
    """A confidence level, such as .95."""
    if not 0.5 <= value < 1:
        raise MetricError(
            f"level is {value!r}: give the confidence level, at least .5 and below 1, such as .95"
        )
    return float(value)


def enough_rows(names: tuple[Any, ...], ids: Ints, persons: Ints | None) -> None:
    """At least two rows per group, or two persons where persons repeat."""
    for g, name in enumerate(names):
        here = ids == g
        count, what = int(here.sum()), "row"
        if count > 1 and persons is not None:
            count, what = len(np.unique(persons[here])), "person"
        if count < 2:
            raise MetricError(
                f"group {name!r} has 1 {what}: an interval needs at least two per group; "
                "merge it with another group or collect more"
            )


def _crossed(array: npt.NDArray[Any], n_rows: int, name: str) -> tuple[tuple[Any, ...], Ints]:
    cells = np.zeros(n_rows, np.intp)
    levels = []
    for j in range(array.shape[1]):
        column = array[:, j]
        found, codes = np.unique(
            labels(f"{name} (column {j})", column, n_rows), return_inverse=True
        )
        levels.append(found.tolist())
        cells = cells * len(found) + codes
    if math.prod(map(len, levels)) > 2**40:
        raise MetricError(f"{name} has too many combinations to cross: give fewer columns")
    kept, ids = np.unique(cells, return_inverse=True)
    index = np.unravel_index(kept, [len(found) for found in levels])
    names = [
        tuple(levels[j][int(i)] for j, i in enumerate(combination))
        for combination in zip(*index, strict=True)
    ]
    return tuple(names), ids


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _check_length(name: str, array: npt.NDArray[Any], n_rows: int | None) -> None:
    if array.ndim != 1:
        raise MetricError(f"{name} has shape {array.shape}: give one value per row")
    if n_rows is not None and len(array) != n_rows:
        raise MetricError(
            f"{name} has {len(array)} rows and the first argument {n_rows}: give as many"
        )
    if not len(array):
        raise MetricError(f"{name} is empty: give at least one row")
