"""Distinct rows in parts on disk, where they do not fit into memory: Arrow files, read one by one.

A row may be in several parts; what is summed over rows is then summed over its copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fairpc.data.atomic import read_whole, replacing, write_atomically
from fairpc.data.distinct import CodedRows, Distinct, Packing
from fairpc.data.schema import Record
from fairpc.errors import FileFormatError

T = TypeVar("T")

PART_ROWS: Final = 1 << 17
PART_CELLS: Final = 1 << 20
"""Rows, and rows × columns, of a part: two, made ready for EM, are in memory at a time."""

_INDEX: Final = "parts.json"
_FIELDS: Final = ("arities", "unit", "rows", "copies", "weights")
_MAX_INDEX: Final = 1 << 24


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
            frame = pl.read_ipc(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise FileFormatError(f"{path} is gone or damaged ({error}): fit again") from error
        if frame.shape != (self.rows[k], len(arities) + 1 + self.packing.unit):
            raise FileFormatError(f"{path} is of another table: fit again, in a new folder")
        codes = np.empty((len(frame), len(arities)), np.int16, order="F")
        for j in range(len(arities)):
            codes[:, j] = frame[f"c{j}"].to_numpy()
        copies = np.array(frame["copies"].to_numpy(), np.float64) if self.packing.unit else None
        return CodedRows(codes, np.array(frame["weight"].to_numpy(), np.float64), copies)

    @classmethod
    def find(cls, folder: Path) -> Parts | None:
        """The parts that were written to a folder; None if they were not all written."""
        path = folder / _INDEX
        if not path.exists():
            return None
        try:
            data = json.loads(read_whole(path, _MAX_INDEX))
        except ValueError as error:
            raise FileFormatError(f"{path} is damaged ({error}): fit again") from error
        record = Record(data, str(path), _FIELDS)
        arities, rows = (tuple(int(v) for v in record.numbers(f)) for f in ("arities", "rows"))
        packing = Packing(arities, record.flag("unit"))
        return cls(folder, packing, rows, record.numbers("copies"), record.numbers("weights"))


@dataclass
class PartWriter:
    """Writes parts as they come; they are there when all of them are."""

    folder: Path
    packing: Packing
    _sizes: list[tuple[int, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _INDEX).unlink(missing_ok=True)

    def write(self, distinct: Distinct) -> None:
        """One part more, or several where it is long."""
        step = max(min(PART_ROWS, PART_CELLS // len(self.packing.arities)), 1)
        for start in range(0, distinct.n_rows, step):
            some = slice(start, start + step)
            words = np.ascontiguousarray(distinct.words[:, some])
            self._write(self.packing.rows(Distinct(words, distinct.weights[some])))

    def finish(self) -> Parts:
        """All parts that were written."""
        rows, copies, weights = zip(*self._sizes, strict=True)
        parts = Parts(self.folder, self.packing, rows, copies, weights)
        sizes = {"rows": rows, "copies": copies, "weights": weights}
        index = {"arities": self.packing.arities, "unit": self.packing.unit, **sizes}
        write_atomically(self.folder / _INDEX, json.dumps(index).encode())
        return parts

    def _write(self, rows: CodedRows) -> None:
        import polars as pl

        columns: dict[str, Any] = {
            f"c{j}": rows.codes[:, j].astype(np.int8 if arity < 128 else np.int16)
            for j, arity in enumerate(self.packing.arities)
        }
        columns["weight"] = rows.weights
        if rows.copies is not None:
            columns["copies"] = rows.copies
        with replacing(_path(self.folder, len(self._sizes))) as path:
            pl.DataFrame(columns).write_ipc(path, compression="uncompressed")
        self._sizes.append(rows.sizes)


def _path(folder: Path, k: int) -> Path:
    return folder / f"part-{k:06}.arrow"
