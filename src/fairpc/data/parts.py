"""Distinct rows in parts on disk, where they do not fit into memory: Arrow files, read one by one.

A row may be in several parts; what is summed over rows is then summed over its copies.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fairpc.data.atomic import read_sealed, read_whole, write_atomically, write_sealed
from fairpc.data.distinct import CodedRows, Distinct, Packing
from fairpc.data.files import Reading
from fairpc.data.schema import Record
from fairpc.errors import FileFormatError

T = TypeVar("T")

PART_ROWS: Final = 1 << 17
PART_CELLS: Final = 1 << 20
"""Rows, and rows × columns, of a part: two, made ready for EM, are in memory at a time."""

_INDEX: Final = "parts.json"
_FIELDS: Final = ("arities", "unit", "rows", "copies", "weights", "checksums")
_MAX_INDEX: Final = 1 << 24
_MAX_PART: Final = 1 << 28


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
    """Parts in a folder, each with the checksum of its file: a part is verified when it is read."""

    folder: Path
    packing: Packing
    rows: tuple[int, ...]
    copies: tuple[float, ...]
    weights: tuple[float, ...]
    checksums: tuple[str, ...]
    repeats: bool = True

    def read(self, k: int) -> CodedRows:
        import polars as pl

        path, arities = _path(self.folder, k), self.packing.arities
        try:
            data = read_whole(path, _MAX_PART)
        except OSError as error:
            raise FileFormatError(f"{path} is gone or damaged ({error}): fit again") from error
        if _checksum(data) != self.checksums[k]:
            raise FileFormatError(
                f"{path} is gone or damaged (its checksum does not fit): fit again, in a new folder"
            )
        with Reading(str(path)):
            frame = pl.read_ipc(io.BytesIO(data))
        if frame.height != self.rows[k] or frame.columns != _columns(self.packing):
            raise FileFormatError(f"{path} is of another table: fit again, in a new folder")
        codes = np.empty((len(frame), len(arities)), np.int16, order="F")
        for j in range(len(arities)):
            codes[:, j] = frame[f"c{j}"].to_numpy()
        copies = np.array(frame["copies"].to_numpy(), np.float64) if self.packing.unit else None
        return CodedRows(codes, np.array(frame["weight"].to_numpy(), np.float64), copies)

    @classmethod
    def find(cls, folder: Path, mark: str) -> Parts | None:
        """The parts that were kept in a folder under this mark; None if none were."""
        path = folder / _INDEX
        if not path.exists():
            return None
        try:
            data = json.loads(read_sealed(path, _MAX_INDEX, mark))
        except ValueError as error:
            raise FileFormatError(f"{path} is damaged ({error}): fit again") from error
        record = Record(data, str(path), _FIELDS)
        arities, rows = (tuple(int(v) for v in record.numbers(f)) for f in ("arities", "rows"))
        packing = Packing(arities, record.flag("unit"))
        copies, weights = record.numbers("copies"), record.numbers("weights")
        checksums = record.texts("checksums")
        if {len(copies), len(weights), len(checksums)} != {len(rows)}:
            raise FileFormatError(f"{path} does not list its parts: fit again, in a new folder")
        return cls(folder, packing, rows, copies, weights, checksums)

    def keep(self, mark: str) -> None:
        """Write what :meth:`find` needs to find them again."""
        own = {"arities": self.packing.arities, "unit": self.packing.unit}
        index = own | {name: getattr(self, name) for name in _FIELDS[2:]}
        write_sealed(self.folder / _INDEX, json.dumps(index).encode(), mark)


@dataclass
class PartWriter:
    """Writes parts as they come."""

    folder: Path
    packing: Packing
    _written: list[tuple[int, float, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, distinct: Distinct) -> None:
        """One part more, or several where it is long."""
        step = max(min(PART_ROWS, PART_CELLS // len(self.packing.arities)), 1)
        for start in range(0, distinct.n_rows, step):
            some = slice(start, start + step)
            words = np.ascontiguousarray(distinct.words[:, some])
            self._write(self.packing.rows(Distinct(words, distinct.weights[some])))

    def finish(self) -> Parts:
        """All parts that were written."""
        rows, copies, weights, checksums = zip(*self._written, strict=True)
        return Parts(self.folder, self.packing, rows, copies, weights, checksums)

    def _write(self, rows: CodedRows) -> None:
        import polars as pl

        columns: dict[str, Any] = {
            f"c{j}": rows.codes[:, j].astype(np.int8 if arity < 128 else np.int16)
            for j, arity in enumerate(self.packing.arities)
        }
        columns["weight"] = rows.weights
        if rows.copies is not None:
            columns["copies"] = rows.copies
        buffer = io.BytesIO()
        pl.DataFrame(columns).select(_columns(self.packing)).write_ipc(
            buffer, compression="uncompressed"
        )
        data = buffer.getvalue()
        write_atomically(_path(self.folder, len(self._written)), data)
        self._written.append((*rows.sizes, _checksum(data)))


def _columns(packing: Packing) -> list[str]:
    names = [f"c{j}" for j in range(len(packing.arities))]
    return [*names, "weight", *(["copies"] if packing.unit else [])]


def _checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _path(folder: Path, k: int) -> Path:
    return folder / f"part-{k:06}.arrow"
