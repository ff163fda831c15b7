"""Distinct rows in parts on disk, where they do not fit into memory: Arrow files, read one by one.

A row may be in several parts; what is summed over rows is then summed over its copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fairpc.core import FileFormatError
from fairpc.data._distinct import CodedRows, Distinct, Packing
from fairpc.data._files import Reading

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
            with path.open("rb") as file, Reading(str(path)):
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
