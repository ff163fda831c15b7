"""What the evidence asks of its arrays; each error says the argument, the rule and the repair."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors import MetricError
from fairpc.errors.arrays import Array, Bools, Floats, Positions


def array(name: str, values: npt.ArrayLike) -> Array:
    """An array of any type; rows must be of one length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise MetricError(
            f"{name} has rows of different lengths: give one value, or as many columns, per row"
        ) from error


def labels(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Array:
    """A vector of labels of any type, complete, not empty, of the length asked for."""
    column = array(name, values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    _check_length(name, column, n_rows)
    hidden = missing(column)
    if hidden.any():
        row = int(np.argmax(hidden))
        raise MetricError(f"{name} is missing in row {row}: leave out rows without a value")
    return array(name, column.tolist()) if column.dtype.kind == "O" else column


def missing(values: Array) -> Bools:
    """Where an array of any type and shape has no value: NaN, None, NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), np.bool_)
    if values.dtype.kind == "O":
        flat = np.array([_is_missing(v) for v in values.ravel()], np.bool_)
        return flat.reshape(values.shape)
    return np.zeros(values.shape, np.bool_)


def number(name: str, value: Any) -> float:
    """One number; NaN and infinity are for the caller to judge."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise MetricError(f"{name} is {value!r}: give one number")
    return float(value)


def pair(name: str, value: Any) -> tuple[float, float]:
    """Two numbers."""
    try:
        first, last = value
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} is {value!r}: give two numbers, lower end first") from error
    return number(name, first), number(name, last)


def threshold(value: Any) -> float:
    """A threshold of scores."""
    found = number("threshold", value)
    if not 0 <= found <= 1:
        raise MetricError(f"threshold is {value}: give a number from 0 to 1, as the scores are")
    return found


def numbers(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Floats:
    """A vector of finite numbers, not empty, of the length asked for."""
    try:
        column = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} holds something other than numbers: give numbers") from error
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    _check_length(name, column, n_rows)
    bad = ~np.isfinite(column)
    if bad.any():
        row = int(np.argmax(bad))
        raise MetricError(f"{name} is {column[row]} in row {row}: give finite numbers")
    return column


def scores(values: npt.ArrayLike, n_rows: int | None = None, name: str = "scores") -> Floats:
    """Scores from 0 to 1, one per row."""
    column = numbers(name, values, n_rows)
    outside = (column < 0) | (column > 1)
    if outside.any():
        row = int(np.argmax(outside))
        raise MetricError(f"{name} is {column[row]} in row {row}: give scores from 0 to 1")
    return column


def weights(values: npt.ArrayLike | None, n_rows: int) -> Floats | None:
    """Positive weights per row, or None where all rows count alike."""
    if values is None:
        return None
    column = numbers("sample_weight", values, n_rows)
    if column.min() <= 0:
        row = int(np.argmax(column <= 0))
        raise MetricError(
            f"sample_weight is {column[row]} in row {row}: "
            "weights are positive; leave out rows that count for nothing"
        )
    return None if np.ptp(column) == 0 else column


def counts(values: npt.ArrayLike | None, n_rows: int, clusters: Any = None) -> Floats | None:
    """How many equal rows each row is; None where each is one."""
    if values is None:
        return None
    if clusters is not None:
        raise MetricError(
            "counts and clusters were given: merged rows are not about one person, give them one "
            "by one"
        )
    column = numbers("counts", values, n_rows)
    wrong = (column < 1) | (column != np.floor(column))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise MetricError(f"counts is {column[row]:g} in row {row}: give whole numbers from 1 on")
    return column


def groups(
    values: npt.ArrayLike, n_rows: int, name: str = "groups"
) -> tuple[tuple[Any, ...], Positions]:
    """The groups in sorted order, at least two, and each row's group number."""
    names, ids = group_names(values, n_rows, name)
    if len(names) < 2:
        raise MetricError(
            f"{name} has 1 value ({names[0]!r}): a comparison needs at least two groups"
        )
    return names, ids


def group_names(
    values: npt.ArrayLike, n_rows: int, name: str = "groups"
) -> tuple[tuple[Any, ...], Positions]:
    """The groups that occur, in sorted order, and each row's group number.

    Several columns are crossed: each combination that occurs is a group, named by a tuple.
    """
    table = array(name, values)
    if table.ndim == 2 and table.shape[1] > 1:
        return _crossed(table, n_rows, name)
    found, ids = np.unique(labels(name, table, n_rows), return_inverse=True)
    return tuple(found.tolist()), ids


def clusters(values: npt.ArrayLike | None, n_rows: int) -> Positions | None:
    """Who each row is about, as numbers from 0; None where each row is its own person."""
    if values is None:
        return None
    found, ids = np.unique(labels("clusters", values, n_rows), return_inverse=True)
    return None if len(found) == n_rows else ids


def level(value: Any) -> float:
    """A confidence level, such as .95."""
    if not 0.5 <= number("level", value) < 1:
        raise MetricError(
            f"level is {value!r}: give the confidence level, at least .5 and below 1, such as .95"
        )
    return float(value)


def enough_rows(
    names: tuple[Any, ...], ids: Positions, persons: Positions | None, counts: Floats | None = None
) -> None:
    """At least two rows per group, or two persons where persons repeat."""
    for g, name in enumerate(names):
        here = ids == g
        count, what = int(here.sum() if counts is None else counts[here].sum()), "row"
        if count > 1 and persons is not None:
            count, what = len(np.unique(persons[here])), "person"
        if count < 2:
            raise MetricError(
                f"group {name!r} has 1 {what}: an interval needs at least two per group; "
                "merge it with another group or collect more"
            )


def _crossed(table: Array, n_rows: int, name: str) -> tuple[tuple[Any, ...], Positions]:
    cells = np.zeros(n_rows, np.intp)
    levels = []
    for j in range(table.shape[1]):
        column = table[:, j]
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


def _check_length(name: str, column: Array, n_rows: int | None) -> None:
    if column.ndim != 1:
        raise MetricError(f"{name} has shape {column.shape}: give one value per row")
    if n_rows is not None and len(column) != n_rows:
        raise MetricError(
            f"{name} has {len(column)} rows and the first argument {n_rows}: give as many"
        )
    if not len(column):
        raise MetricError(f"{name} is empty: give at least one row")
