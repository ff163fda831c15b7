"""Distinct rows in parts on disk, where they do not fit into memory: Arrow files, read one by one.

A row may be in several parts; what is summed over rows is then summed over its copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from fairpc.data.atomic import read_whole, replacing, write_atomically
from fairpc.data.distinct import Distinct, Packing
from fairpc.data.schema import Record
from fairpc.errors import FileFormatError
from fairpc.errors.arrays import Codes, Floats

T = TypeVar("T")

PART_ROWS: Final = 1 << 17
PART_CELLS: Final = 1 << 20
"""Rows, and rows × columns, of a part: two, made ready for EM, are in memory at a time."""

_INDEX: Final = "parts.json"
_FIELDS: Final = ("arities", "rows", "weights")
_MAX_INDEX: Final = 1 << 24


@dataclass(frozen=True)
class Parts:
    """Parts in a folder.

    Attributes:
        folder: where their files are.
        arities: number of values per column.
        rows, weights: number and total weight of the rows of each part.
    """

    folder: Path
    arities: tuple[int, ...]
    rows: tuple[int, ...]
    weights: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    @property
    def total_weight(self) -> float:
        return sum(self.weights)

    def read(self, k: int) -> tuple[Codes, Floats]:
        """Codes (rows × columns, column-major) and weights of part ``k``."""
        import polars as pl

        path = _path(self.folder, k)
        try:
            frame = pl.read_ipc(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise FileFormatError(f"{path} is gone or damaged ({error}): fit again") from error
        if frame.shape != (self.rows[k], len(self.arities) + 1):
            raise FileFormatError(f"{path} is of another table: fit again, in a new folder")
        codes = np.empty((len(frame), len(self.arities)), np.int16, order="F")
        for j in range(len(self.arities)):
            codes[:, j] = frame[f"c{j}"].to_numpy()
        return codes, np.array(frame["weight"].to_numpy(), np.float64)

    @property
    def repeats(self) -> bool:
        """Whether a row may be in several parts."""
        return True

    def map(self, work: Callable[[int, Codes, Floats], T]) -> Iterator[T]:
        """What ``work`` makes of the number, codes and weights of each part, in order."""
        return (work(k, *self.read(k)) for k in range(len(self)))

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
        return cls(folder, arities, rows, record.numbers("weights"))


def pieces(distinct: Distinct, packing: Packing) -> Iterator[tuple[Codes, Floats]]:
    """Codes and weights of distinct rows, cut to the size of parts."""
    step = max(min(PART_ROWS, PART_CELLS // len(packing.arities)), 1)
    for start in range(0, distinct.n_rows, step):
        some = slice(start, start + step)
        words = np.ascontiguousarray(distinct.words[:, some])
        yield packing.unpack(words), distinct.weights[some]


@dataclass
class PartWriter:
    """Writes parts as they come; they are there when all of them are."""

    folder: Path
    packing: Packing
    _rows: list[int] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _INDEX).unlink(missing_ok=True)

    def write(self, distinct: Distinct) -> None:
        """One part more, or several where it is long."""
        for codes, weights in pieces(distinct, self.packing):
            self._write(codes, weights)

    def finish(self) -> Parts:
        """All parts that were written."""
        parts = Parts(self.folder, self.packing.arities, tuple(self._rows), tuple(self._weights))
        index = {"arities": parts.arities, "rows": parts.rows, "weights": parts.weights}
        write_atomically(self.folder / _INDEX, json.dumps(index).encode())
        return parts

    def _write(self, codes: Codes, weights: Floats) -> None:
        import polars as pl

        columns: dict[str, Any] = {
            f"c{j}": codes[:, j].astype(np.int8 if arity < 128 else np.int16)
            for j, arity in enumerate(self.packing.arities)
        }
        with replacing(_path(self.folder, len(self._rows))) as path:
            pl.DataFrame(columns | {"weight": weights}).write_ipc(path, compression="uncompressed")
        self._rows.append(len(weights))
        self._weights.append(float(weights.sum()))


def _path(folder: Path, k: int) -> Path:
    return folder / f"part-{k:06}.arrow"
