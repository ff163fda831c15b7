"""What a learner asks of its table; each error names the column, the rule and the repair."""

from __future__ import annotations

import numpy as np

from fairpc.data.table import Table
from fairpc.errors import LearningError


def check_table(table: Table, *, lenient: bool = False) -> None:
    """Raise a LearningError for a table that no structure can be learned from.

    ``lenient`` lets constant columns and a single column pass: both have a
    circuit, though nothing to learn, and a model that meets them in one of
    many cells cannot leave the column out.
    """
    if not table.n_rows:
        raise LearningError("the table has no rows: give at least one row of positive weight")
    if table.n_variables == 0:
        raise LearningError("the table has no columns: give at least two")
    if not table.weights.any():
        raise LearningError("all weights are zero: give at least one row of positive weight")
    if table.n_variables == 1 and not lenient:
        raise LearningError(
            f"the table has one column, {table.names[0]!r}: a structure relates at least two"
        )
    rows = table.codes if table.weights.all() else table.codes[table.weights > 0]
    for name, column in zip(table.names, rows.T, strict=True):
        low, high = _range(column)
        if high < 0:
            raise LearningError(f"column {name!r} is missing in every row: leave it out")
        if low == high and not lenient:
            raise LearningError(f"column {name!r} has one value ({low}) in all rows: leave it out")


def _range(column: np.ndarray[tuple[int], np.dtype[np.int16]]) -> tuple[int, int]:
    """Smallest and largest observed code; (-1, -1) where all are missing."""
    high = int(column.max())
    low = int(column.min())
    if low < 0 <= high:
        low = int(column[column >= 0].min())
    return low, high
