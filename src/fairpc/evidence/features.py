"""Features of any type as numbers that a classifier takes, equal rows merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.errors import MetricError
from fairpc.errors.arrays import Array, Bools, Floats, Positions, check_array, missing

_MAX_LEVELS: Final = 32
_MAX_CELLS: Final = 2**40


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct rows of a matrix, and which of them each row is."""

    rows: Floats
    index: Positions


def design(x: npt.ArrayLike) -> Floats:
    """One or more numeric columns per feature; labels are not looked at.

    0/1 columns stay as they are, other numbers are standardised, anything else
    becomes one column per level (the 31 most frequent, the rest in one). A
    missing cell takes the column's mean, and a column of its own says so.
    """
    table = check_array("X", x)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or not table.size:
        raise MetricError(f"X has shape {table.shape}: give rows and at least one feature")
    columns = [column for j in range(table.shape[1]) for column in _columns(table[:, j], j)]
    if not columns:
        raise MetricError("every feature of X has one value only: give features that vary")
    return np.column_stack(columns)


def _columns(values: Array, j: int) -> list[Floats]:
    hidden = missing(values)
    if hidden.all():
        return []
    columns = _numeric(values, hidden, j)
    if columns is None:
        columns = _levels(values, hidden)
    if hidden.any():
        columns.append(hidden.astype(np.float64))
    return [column for column in columns if np.ptp(column) > 0]


def _numeric(values: Array, hidden: Bools, j: int) -> list[Floats] | None:
    if values.dtype.kind in "US":
        return None
    try:
        known = values[~hidden].astype(np.float64)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(known).all():
        raise MetricError(f"column {j} of X holds an infinite value: give finite numbers or NaN")
    centre = known.mean()
    column = np.full(len(values), centre)
    column[~hidden] = known
    if not np.isin(known, (0.0, 1.0)).all():
        spread = known.std()
        column = (column - centre) / (spread if spread > 0 else 1.0)
    return [column]


def _levels(values: Array, hidden: Bools) -> list[Floats]:
    names, codes = np.unique(values[~hidden].astype(str), return_inverse=True)
    if len(names) > _MAX_LEVELS:
        counts = np.bincount(codes)
        rank = np.empty(len(names), np.intp)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(names))
        codes = np.minimum(rank[codes], _MAX_LEVELS - 1)
    every = np.full(len(values), -1)
    every[~hidden] = codes
    return [(every == level).astype(np.float64) for level in range(int(codes.max()) + 1)]


def distinct(matrix: Floats) -> Distinct:
    """Equal rows merged; where few are equal, the rows as they are."""
    cells = np.zeros(len(matrix), np.intp)
    size = 1
    for column in matrix.T:
        values, codes = np.unique(column, return_inverse=True)
        cells = cells * len(values) + codes
        size *= len(values)
        if size * len(matrix) > _MAX_CELLS:
            kept, cells = np.unique(cells, return_inverse=True)
            size = len(kept)
            if size > len(matrix) / 2:
                return Distinct(matrix, np.arange(len(matrix)))
    _, first, index = np.unique(cells, return_index=True, return_inverse=True)
    if len(first) > len(matrix) / 2:
        return Distinct(matrix, np.arange(len(matrix)))
    return Distinct(matrix[first], index)
