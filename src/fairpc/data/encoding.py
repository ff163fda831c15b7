"""A fitted encoding: rows of any frame to codes and back, the same way every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.data.categories import Level
from fairpc.data.codes_of import code_columns, code_values, decode
from fairpc.data.frame import Frame, read_frame
from fairpc.data.schema import Column, Dropped, Record, Saved, fields_of
from fairpc.data.table import MISSING, check_codes
from fairpc.data.values import Sentinel, read_values
from fairpc.errors import TableError
from fairpc.errors.arrays import Codes


@dataclass(frozen=True)
class Encoding(Saved):
    """How a table becomes codes.

    Attributes:
        columns: the columns that are used, in the order of the table.
        dropped: the columns that are not, each with the reason.
        names_in: all columns of the table that was fitted, in order.
        from_array: that table was an array: columns are known by position.
        missing_values: values that mean "missing", besides null and NaN.
    """

    columns: tuple[Column, ...]
    dropped: tuple[Dropped, ...]
    names_in: tuple[str, ...]
    from_array: bool = False
    missing_values: tuple[Sentinel, ...] = ()

    def __post_init__(self) -> None:
        used = [column.name for column in self.columns]
        all_names = [*used, *(d.name for d in self.dropped)]
        if sorted(all_names) != sorted(self.names_in) or len(set(all_names)) < len(all_names):
            raise TableError(
                "the columns of the encoding are not those of its table: "
                "each column of the table is used or dropped, once"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(column.name for column in self.columns)

    @property
    def arities(self) -> tuple[int, ...]:
        """Number of codes per column that is used."""
        return tuple(column.arity for column in self.columns)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether the codes of each column that is used are bins, which have an order."""
        return tuple(column.binned for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of this name; a TableError if it is not used."""
        for column in self.columns:
            if column.name == name:
                return column
        for dropped in self.dropped:
            if dropped.name == name:
                raise TableError(dropped.message)
        raise TableError(f"column {name!r} is not in the table: use one of {_listed(self.names)}")

    def code(self, name: str, value: Any) -> int:
        """Code of one value, given as a level, a number, a date or a label."""
        column = self.column(name)
        values = read_values(name, np.array([value], dtype=object), self.missing_values)
        if values.missing()[0]:
            return MISSING
        code = int(code_values(column, values, warn=False)[0])
        if code < 0:
            shown = _listed(column.labels)
            raise TableError(f"column {name!r} has no value {value!r}: use one of {shown}")
        return code

    def transform(self, frame: Any, *, allow_absent: bool = False) -> Codes:
        """Codes of the rows of a frame, shape (rows, columns used), column-major; -1 = missing.

        Columns that are not used are ignored. A column that is absent is an
        error, or missing in every row if ``allow_absent``. A level that was not
        seen at fit counts as missing, with a warning that names it.
        """
        table = self.aligned(read_frame(frame))
        return code_columns(
            self.columns, table, self.missing_values, None if allow_absent else absent
        )

    def inverse(self, codes: npt.ArrayLike) -> dict[str, list[Level | None]]:
        """Rows of codes as levels and bin labels, a list per column."""
        checked = check_codes(codes, self.arities, self.names)
        return {c.name: decode(c, checked[:, j]) for j, c in enumerate(self.columns)}

    def describe(self) -> list[dict[str, Any]]:
        """One record per column of the table: what was done with it."""
        used = {column.name: column for column in self.columns}
        reasons = {dropped.name: dropped.reason for dropped in self.dropped}
        return [
            _used(used[name])
            if name in used
            else {"column": name, "used": False, "kind": None, "values": [], "missing": None}
            | {"done": f"dropped: {reasons[name]}"}
            for name in self.names_in
        ]

    def lines(self) -> list[str]:
        """One line per column of the table: what was done with it."""
        return [f"{record['column']}: {record['done']}" for record in self.describe()]

    @classmethod
    def from_dict(cls, data: Any) -> Encoding:
        """The encoding of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        record = Record(data, "the encoding", fields_of(cls))
        dropped = []
        for pair in record.items("dropped"):
            if not (isinstance(pair, list) and [type(v) for v in pair] == [str, str]):
                raise record.error("dropped", "a list of names with reasons")
            dropped.append(Dropped(*pair))
        return record.build(
            lambda: cls(
                columns=record.columns("columns"),
                dropped=tuple(dropped),
                names_in=record.texts("names_in"),
                from_array=record.flag("from_array"),
                missing_values=record.levels("missing_values"),
            )
        )

    def aligned(self, table: Frame) -> Frame:
        """The frame under the names of the fit: an array is known by position."""
        if not (table.from_array or self.from_array) or table.names == self.names_in:
            return table
        if len(table.names) != len(self.names_in):
            raise TableError(
                f"the table has {len(table.names)} columns and had {len(self.names_in)} at fit: "
                "columns of an array are known by position, give all of them"
            )
        return Frame(self.names_in, table.columns, table.n_rows, table.from_array)


def _used(column: Column) -> dict[str, Any]:
    missing = f", {column.missing_share:.1%} missing" if column.missing_share else ""
    return {
        "column": column.name,
        "used": True,
        "kind": column.kind,
        "values": list(column.labels),
        "missing": column.missing_share,
        "done": column.done + missing,
    }


def _listed(names: tuple[str, ...], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown}, …" if len(names) > most else shown


def absent(name: str) -> str:
    """What is said of a column that a table lacks."""
    return (
        f"column {name!r} is absent: the table must have the columns it was fitted with; add it, "
        "with empty cells where nothing is known"
    )
