"""Weighted rows of integer codes: what every learner and every plan takes, equal rows merged.

Rows of a long table are merged as sorted keys with weights, which add up. A whole weight counts
rows. Where weights are not whole numbers, rows differ by their weight too, and counted: how
many rows there are is not lost, nor what each of them weighs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Codes,
    CodesError,
    Floats,
    Int32s,
    Integers,
    Ints,
    Words,
    private_file,
)

T = TypeVar("T")
MISSING = -1
MAX_ARITY = 32_766  #: codes are int16 and -1 means missing


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
        raise CodesError("weights are not numbers: give one number per row") from None
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

    def merged(self) -> Table:
        """Distinct rows with summed weights, by first appearance."""
        ids, first = distinct_rows(self.codes, self.arities)
        weights = np.asarray(np.bincount(ids, self.weights, len(first)), np.float64)
        codes = np.asfortranarray(self.codes[first])
        for array in (codes, weights):
            array.flags.writeable = False
        return Table(codes, weights, self.arities, self.names)


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
    """A view that cannot be written: Numba compiles another version of a kernel for what can be."""
    flags = array.flags
    if array.ndim == 1 and not flags.c_contiguous:
        array = np.ascontiguousarray(array)
    elif not flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


BUFFERED: Final = 1 << 19  #: distinct rows of parts that are kept before they are merged
UNBOUNDED: Final = 1 << 62  #: more rows than there are
_WORD: Final = 1 << 63


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Weighted rows of codes, equal ones merged."""

    codes: Codes  #: rows × columns, column-major
    weights: Floats  #: of each, all its copies together
    copies: Floats | None = None  #: rows of the table that each is; None where weights say it

    @property
    def each(self) -> Floats:
        """How many rows each one is."""
        return self.weights if self.copies is None else self.copies

    @property
    def sizes(self) -> tuple[int, float, float]:
        """How many rows differ, how many rows of the table they are, and their total weight."""
        return len(self.weights), float(self.each.sum()), float(self.weights.sum())


@dataclass(frozen=True)
class Packing:
    """Rows of codes as few 64-bit words: numbers whose digits are the codes, missing = 0.

    The order of the words is the lexicographic order of the rows.
    """

    arities: tuple[int, ...]  #: number of values per column
    unit: bool = False  #: whether a last word holds what one row weighs

    @property
    def words(self) -> tuple[range, ...]:
        """The columns that each word holds."""
        groups: list[range] = []
        size, start = 1, 0
        for j, arity in enumerate(self.arities):
            if size * (arity + 1) > _WORD:
                groups.append(range(start, j))
                size, start = 1, j
            size *= arity + 1
        return (*groups, range(start, len(self.arities)))

    def pack(self, columns: Sequence[Codes]) -> Words:
        """Words × rows."""
        result = np.zeros((len(self.words), len(columns[0])), np.uint64)
        for word, group in zip(result, self.words, strict=True):
            key = word.view(np.int64)
            ones = 0  # the digits of a missing code are 0: every code is one more
            for j in group:
                ones = ones * (self.arities[j] + 1) + 1
                key *= self.arities[j] + 1
                key += columns[j]
            key += ones
        return result

    def distinct(self, columns: Sequence[Codes], weights: Floats | None = None) -> Distinct:
        """The distinct rows among some; without weights, rows are counted."""
        table: list[Integers] = list(columns)
        sizes, units = [arity + 1 for arity in self.arities], np.zeros(0)
        if self.unit:
            units, place = np.unique(
                np.ones(len(columns[0])) if weights is None else weights, return_inverse=True
            )
            table, sizes, weights = [*table, place - 1], [*sizes, len(units) + 1], None
        ids, first = distinct_columns(table, sizes)
        words = self.pack([column[first] for column in columns])
        if self.unit:
            words = np.vstack([words, units[table[-1][first] + 1].view(np.uint64)])
        return _sorted(words, np.bincount(ids, weights, len(first)).astype(np.float64))

    def rows(self, distinct: Distinct) -> CodedRows:
        """Distinct rows as codes."""
        codes = self.unpack(distinct.words)
        if not self.unit:
            return CodedRows(codes, distinct.weights)
        each = distinct.words[-1].view(np.float64)
        return CodedRows(codes, each * distinct.weights, distinct.weights)

    def unpack(self, words: Words) -> Codes:
        """Rows × columns, column-major."""
        codes = np.empty((words.shape[1], len(self.arities)), np.int16, order="F")
        for word, group in zip(words, self.words, strict=False):
            key = word.view(np.int64)
            for j in reversed(group):
                key, digit = np.divmod(key, self.arities[j] + 1)
                codes[:, j] = digit - 1
        return codes


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct rows in the order of their keys: words × rows, and a weight per row."""

    words: Words
    weights: Floats

    @classmethod
    def empty(cls, packing: Packing) -> Distinct:
        """No rows."""
        return cls(np.zeros((len(packing.words) + packing.unit, 0), np.uint64), np.zeros(0))

    @property
    def n_rows(self) -> int:
        return len(self.weights)

    def __sizeof__(self) -> int:
        """What rows take in memory: Dask weighs by it whether to move them."""
        return self.words.nbytes + self.weights.nbytes


def add_distinct(parts: Sequence[Distinct]) -> Distinct:
    """The distinct rows of all parts; weights are added in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    words = np.concatenate([part.words for part in parts], axis=1)
    ordered = _sorted(words, np.concatenate([part.weights for part in parts]))
    new = np.ones(ordered.n_rows, np.bool_)
    new[1:] = (ordered.words[:, 1:] != ordered.words[:, :-1]).any(axis=0)
    start = np.flatnonzero(new)
    if not len(start):
        return ordered
    return Distinct(ordered.words[:, start], np.add.reduceat(ordered.weights, start))


def _sorted(words: Words, weights: Floats) -> Distinct:
    # Sorted lists stand one after the other: a stable sort merges them, in their order.
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    return Distinct(words[:, order], weights[order])


@dataclass
class DistinctSum:
    """Distinct rows added up as they come.

    Where more than ``most`` remain, ``spill`` is given them, and the sum starts anew.
    """

    most: int
    spill: Callable[[Distinct], object]
    n_spilled: int = 0
    _base: Distinct | None = None
    _pending: list[Distinct] = field(default_factory=list)

    def push(self, part: Distinct) -> None:
        self._pending.append(part)
        waiting = sum(p.n_rows for p in self._pending)
        base = 0 if self._base is None else self._base.n_rows
        if waiting > max(BUFFERED, base) or waiting + base > self.most:
            self._merge()

    def total(self) -> Distinct | None:
        """The sum; None where it was spilled, the last of it too."""
        self._merge()
        if self._base is not None and self.n_spilled:
            self._spill(self._base)
        return self._base

    def _merge(self) -> None:
        parts = [*([] if self._base is None else [self._base]), *self._pending]
        self._pending = []
        if not parts:
            return
        self._base = add_distinct(parts)
        # Half of the room must be left for what comes, or every part would be merged anew.
        if self._base.n_rows > self.most // 2:
            self._spill(self._base)

    def _spill(self, part: Distinct) -> None:
        self.spill(part)
        self.n_spilled += 1
        self._base = None


PART_ROWS: Final = 1 << 17
PART_CELLS: Final = 1 << 20
"""Rows, and rows × columns, of a part: two, made ready for EM, are in memory at a time."""


class RowParts(Protocol):
    """Distinct rows in parts, on disk or on the workers of a cluster."""

    packing: Packing  #: the columns of the rows
    rows: tuple[int, ...]  #: how many rows of each part differ
    copies: tuple[float, ...]  #: how many rows of the table they are
    weights: tuple[float, ...]  #: their total weight
    repeats: bool  #: whether a row may be in several parts

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    @property
    def n_copies(self) -> float:
        """Rows of the table."""
        return sum(self.copies)

    @property
    def total_weight(self) -> float:
        return sum(self.weights)

    def read(self, k: int) -> CodedRows:
        """The rows of part ``k``."""
        ...

    def map(self, work: Callable[[int, CodedRows], T]) -> Iterator[T]:
        """What ``work`` makes of the number and the rows of each part, in order."""
        return (work(k, self.read(k)) for k in range(len(self)))


@dataclass(frozen=True)
class Parts(RowParts):
    """Parts in a folder."""

    folder: Path
    packing: Packing
    rows: tuple[int, ...]
    copies: tuple[float, ...]
    weights: tuple[float, ...]
    repeats: bool = True

    def read(self, k: int) -> CodedRows:
        import polars as pl

        arities = self.packing.arities
        with _path(self.folder, k).open("rb") as file:
            frame = pl.read_ipc(file)
        codes = np.empty((len(frame), len(arities)), np.int16, order="F")
        for j in range(len(arities)):
            codes[:, j] = frame[f"c{j}"].to_numpy()
        copies = np.array(frame["copies"].to_numpy(), np.float64) if self.packing.unit else None
        return CodedRows(codes, np.array(frame["weight"].to_numpy(), np.float64), copies)


@dataclass
class PartWriter:
    """Writes parts as they come."""

    folder: Path
    packing: Packing
    _written: list[tuple[int, float, float]] = field(default_factory=list)

    def write(self, distinct: Distinct) -> None:
        """One part more, or several where it is long."""
        import polars as pl

        arities = self.packing.arities
        step = max(min(PART_ROWS, PART_CELLS // len(arities)), 1)
        for start in range(0, distinct.n_rows, step):
            some = slice(start, start + step)
            words = np.ascontiguousarray(distinct.words[:, some])
            rows = self.packing.rows(Distinct(words, distinct.weights[some]))
            columns: dict[str, Any] = {
                f"c{j}": rows.codes[:, j].astype(np.int8 if arity < 128 else np.int16)
                for j, arity in enumerate(arities)
            }
            columns["weight"] = rows.weights
            if rows.copies is not None:
                columns["copies"] = rows.copies
            path = private_file(_path(self.folder, len(self._written)))
            pl.DataFrame(columns).write_ipc(path, compression="uncompressed")
            self._written.append(rows.sizes)

    def finish(self) -> Parts:
        """All parts that were written."""
        rows, copies, weights = zip(*self._written, strict=True)
        return Parts(self.folder, self.packing, rows, copies, weights)


def _path(folder: Path, k: int) -> Path:
    return folder / f"part-{k:06}.arrow"
