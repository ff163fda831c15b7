"""Equal rows merged: rows of codes as sorted keys with weights, which add up.

A whole weight counts rows. Where weights are no whole numbers, rows are told apart by their weight
too, and counted: how many rows there are is not lost, nor what each of them weighs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fairpc.core import Codes, FileFormatError, Floats, Integers, Words
from fairpc.data._files import ReadErrors
from fairpc.data._table import distinct_columns

BUFFERED: Final = 1 << 19
"""Distinct rows of parts that are kept before they are merged."""

UNBOUNDED: Final = 1 << 62
"""More rows than there are."""

_WORD: Final = 1 << 63


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Weighted rows of codes, equal ones merged.

    Attributes:
        codes: rows × columns, column-major.
        weights: of each, all its copies together.
        copies: how many rows of the table each one is; None where weights say it.
    """

    codes: Codes
    weights: Floats
    copies: Floats | None = None

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

    Attributes:
        arities: number of values per column.
        unit: whether a last word holds what one row weighs.
    """

    arities: tuple[int, ...]
    unit: bool = False

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
    return _merged(
        np.concatenate([part.words for part in parts], axis=1),
        np.concatenate([part.weights for part in parts]),
    )


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


def _merged(words: Words, weights: Floats) -> Distinct:
    ordered = _sorted(words, weights)
    new = np.ones(words.shape[1], np.bool_)
    new[1:] = (ordered.words[:, 1:] != ordered.words[:, :-1]).any(axis=0)
    start = np.flatnonzero(new)
    if not len(start):
        return ordered
    return Distinct(ordered.words[:, start], np.add.reduceat(ordered.weights, start))


def _sorted(words: Words, weights: Floats) -> Distinct:
    # Sorted lists stand one after the other: a stable sort merges them, in their order.
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    return Distinct(words[:, order], weights[order])


T = TypeVar("T")

PART_ROWS: Final = 1 << 17
PART_CELLS: Final = 1 << 20
"""Rows, and rows × columns, of a part: two, made ready for EM, are in memory at a time."""


class RowParts(Protocol):
    """Distinct rows in parts, on disk or on the workers of a cluster.

    Attributes:
        packing: the columns of the rows.
        rows, copies, weights: of each part, how many rows differ, how many rows of the table they
            are, and their total weight.
        repeats: whether a row may be in several parts.
    """

    packing: Packing
    rows: tuple[int, ...]
    copies: tuple[float, ...]
    weights: tuple[float, ...]
    repeats: bool

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

        path, arities = _path(self.folder, k), self.packing.arities
        try:
            with path.open("rb") as file, ReadErrors(str(path)):
                frame = pl.read_ipc(file)
        except (OSError, FileFormatError) as error:
            raise FileFormatError(f"{path} is gone or damaged ({error}): fit again") from error
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
        step = max(min(PART_ROWS, PART_CELLS // len(self.packing.arities)), 1)
        for start in range(0, distinct.n_rows, step):
            some = slice(start, start + step)
            words = np.ascontiguousarray(distinct.words[:, some])
            self._write(self.packing.rows(Distinct(words, distinct.weights[some])))

    def finish(self) -> Parts:
        """All parts that were written."""
        rows, copies, weights = zip(*self._written, strict=True)
        return Parts(self.folder, self.packing, rows, copies, weights)

    def _write(self, rows: CodedRows) -> None:
        import polars as pl

        columns: dict[str, Any] = {
            f"c{j}": rows.codes[:, j].astype(np.int8 if arity < 128 else np.int16)
            for j, arity in enumerate(self.packing.arities)
        }
        columns["weight"] = rows.weights
        if rows.copies is not None:
            columns["copies"] = rows.copies
        path = _path(self.folder, len(self._written))
        pl.DataFrame(columns).write_ipc(path, compression="uncompressed")
        self._written.append(rows.sizes)


def _path(folder: Path, k: int) -> Path:
    return folder / f"part-{k:06}.arrow"
