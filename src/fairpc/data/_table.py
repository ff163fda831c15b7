"""Weighted rows of integer codes: what every learner and every plan takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairpc.core import Array, Codes, CodesError, Floats, Int32s, Integers, Ints

MISSING = -1
MAX_ARITY = 32_766
"""Codes are int16 and -1 means missing."""


def check_codes(
    codes: npt.ArrayLike, arities: npt.ArrayLike, names: tuple[str, ...] | None = None
) -> Codes:
    """Rows as int16 codes, column-major; a CodesError names the first value out of range."""
    raw = np.asarray(codes)
    limits = np.asarray(arities, np.int64)
    if raw.ndim != 2 or raw.shape[1] != len(limits):
        raise CodesError(
            f"codes have shape {raw.shape}: give a table with {len(limits)} columns, "
            "one per variable"
        )
    if raw.dtype.kind not in "iub" and raw.size:
        raise CodesError(
            f"codes are of type {raw.dtype}: give integers, with {MISSING} for a missing value"
        )
    result = np.empty(raw.shape, np.int16, order="F")
    for j, arity in enumerate(limits.tolist()):
        column = raw[:, j]
        if len(column) and (column.min() < MISSING or column.max() >= arity):
            row = int(np.argmax((column < MISSING) | (column >= arity)))
            name = f"column {j}" if names is None else f"column {names[j]!r}"
            raise CodesError(
                f"{name} has code {column[row]} in row {row}: its codes are 0 to {arity - 1}, "
                f"or {MISSING} for missing"
            )
        result[:, j] = column
    return result


def check_weights(weights: npt.ArrayLike | None, n_rows: int) -> Floats:
    """Row weights as float64, ones if None; they are finite, not negative, and not all zero."""
    if weights is None:
        return np.ones(n_rows)
    result = check_some_weights(weights, n_rows)
    if n_rows and not result.any():
        raise no_weight()
    return result


def no_weight() -> CodesError:
    return CodesError("all weights are zero: at least one row needs a positive weight")


def check_some_weights(weights: npt.ArrayLike, n_rows: int) -> Floats:
    """Weights of some rows of a table, which may all be zero."""
    try:
        result = np.ascontiguousarray(weights, np.float64)
    except (TypeError, ValueError):
        raise CodesError("weights are no numbers: give one number per row") from None
    if result.shape != (n_rows,):
        raise CodesError(f"weights have shape {result.shape}: give one weight per row ({n_rows})")
    bad = ~(result >= 0) | ~np.isfinite(result)
    if bad.any():
        row = int(np.argmax(bad))
        raise CodesError(
            f"the weight of row {row} is {result[row]}: weights are finite and not negative"
        )
    return result


@dataclass(frozen=True, eq=False)
class Table:
    """Weighted rows over discrete variables.

    Attributes:
        codes: int16, one row per record and one column per variable, column-major; -1 = missing.
        weights: one non-negative weight per row.
        arities: number of values per variable.
        names: name per variable.
    """

    codes: Codes
    weights: Floats
    arities: Ints
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        codes: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        *,
        arities: npt.ArrayLike | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Table:
        """A checked table; arities default to one more than the largest code of each column."""
        raw = np.asarray(codes)
        if raw.ndim != 2:
            raise CodesError(f"codes have shape {raw.shape}: give rows × columns")
        if arities is None:
            if not len(raw):
                raise CodesError("the table has no rows and no arities: give arities")
            sizes = np.maximum(raw.max(axis=0).astype(np.int64) + 1, 1)
        else:
            sizes = np.array(arities, np.int64)
        labels = tuple(names) if names is not None else tuple(f"X{j}" for j in range(len(sizes)))
        if len(labels) != len(sizes):
            raise CodesError(f"{len(labels)} names for {len(sizes)} columns: give one name each")
        for name, size in zip(labels, sizes, strict=True):
            if not 1 <= size <= MAX_ARITY:
                raise CodesError(
                    f"column {name!r} has arity {size}: an arity lies between 1 and {MAX_ARITY}"
                )
        table = cls(
            check_codes(raw, sizes, labels), check_weights(weights, len(raw)), sizes, labels
        )
        for array in (table.codes, table.weights, table.arities):
            array.flags.writeable = False
        return table

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @property
    def n_variables(self) -> int:
        return len(self.arities)

    @cached_property
    def total_weight(self) -> float:
        return float(self.weights.sum())

    def merged(self) -> tuple[Table, Int32s]:
        """Distinct rows with summed weights, by first appearance; and each row's number."""
        ids, first = distinct_rows(self.codes, self.arities)
        weights = np.asarray(np.bincount(ids, self.weights, len(first)), np.float64)
        codes = np.asfortranarray(self.codes[first])
        for array in (codes, weights):
            array.flags.writeable = False
        return Table(codes, weights, self.arities, self.names), ids


def distinct_rows(codes: Codes, arities: Ints) -> tuple[Int32s, Int32s]:
    """Number of the distinct row that each row equals, and the first row of each number."""
    return distinct_columns(codes.T, [arity + 1 for arity in arities.tolist()])


def distinct_columns(columns: Iterable[Integers], sizes: Sequence[int]) -> tuple[Int32s, Int32s]:
    """As ``distinct_rows``, of columns with values from -1 to ``size`` - 2."""
    from fairpc.data import _kernels

    ids = first = np.zeros(0, np.int32)
    count = 0
    for j, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        if not j:
            ids, first = np.zeros(len(column), np.int32), np.zeros(len(column), np.int32)
            count = min(len(column), 1)
        shifted = column.astype(np.int32) + np.int32(1)
        count = _kernels.pair_ids(ids, shifted, count, size, ids, first)
    return ids, first[:count].copy()


def readonly(array: Array) -> Array:
    """A view that cannot be written.

    Numba compiles one version of a kernel for writable arrays and one for
    read-only arrays: inputs are always passed as the latter, so that there is one.
    """
    flags = array.flags
    if array.ndim == 1 and not flags.c_contiguous:
        array = np.ascontiguousarray(array)
    elif not flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
