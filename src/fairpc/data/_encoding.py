"""A fitted encoding: rows of any frame to codes and back, the same way every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.core import Codes, Floats, TableError
from fairpc.data._codes_of import code_columns, decode, exact_numbers, shown_numbers
from fairpc.data._frame import Frame, read_frame
from fairpc.data._schema import Column, Dropped, Record, Saved, fields_of
from fairpc.data._table import check_codes
from fairpc.data._values import Sentinel, read_values


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

    @property
    def rewritten(self) -> bool:
        """Whether numbers of some column are written otherwise than programs write them."""
        return any(column.written is not None for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of this name; a TableError if it is not used."""
        for column in self.columns:
            if column.name == name:
                return column
        for dropped in self.dropped:
            if dropped.name == name:
                raise TableError(dropped.message)
        raise TableError(f"column {name!r} is not in the table: use one of {_listed(self.names)}")

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

    def inverse(
        self, codes: npt.ArrayLike, numbers: Mapping[str, Floats] | None = None
    ) -> dict[str, list[Any]]:
        """Rows of codes as levels and bin labels, a list per column; numbers where they are given.

        ``numbers`` are those of some columns of numbers or dates.
        """
        checked = check_codes(codes, self.arities, self.names)
        known = numbers or {}
        return {
            c.name: shown_numbers(c, known[c.name]) if c.name in known else decode(c, checked[:, j])
            for j, c in enumerate(self.columns)
        }

    def numbers(self, frame: Any) -> dict[str, Floats]:
        """Numbers of the columns with a density; NaN where missing, or known by their bin alone.

        A column that is absent is missing in every row.
        """
        table = self.aligned(read_frame(frame))
        found = {}
        for column in self.columns:
            if column.density is None:
                continue
            found[column.name] = np.full(table.n_rows, np.nan)
            if column.name in table.names:
                given = table.column(column.name)
                values = read_values(column.name, given, self.missing_values)
                if not values.missing().all():
                    found[column.name] = exact_numbers(column, values)
        return found

    def log_density(self, frame: Any) -> Floats:
        """log P(x | bin) of the numbers of each row, summed over columns; 0 without any.

        Densities are per unit of a number, or per day of a date; whole numbers, whole days
        and values with a mass of their own have masses.
        """
        total: Floats = np.zeros(read_frame(frame).n_rows)
        for name, numbers in self.numbers(frame).items():
            column = self.column(name)
            if column.density is not None:
                total = total + column.density.log_density(numbers, column.unit)
        return total

    def drawn(self, codes: Codes, rng: np.random.Generator) -> dict[str, Floats]:
        """Numbers of the columns with a density, each drawn from its bin."""
        return {
            column.name: column.density.quantiles(codes[:, j], rng.random(len(codes)))
            for j, column in enumerate(self.columns)
            if column.density is not None
        }

    def medians(self, codes: Codes) -> dict[str, Floats]:
        """Numbers of the columns with a density, each the median of its bin."""
        return {
            column.name: column.density.medians()[codes[:, j]]
            for j, column in enumerate(self.columns)
            if column.density is not None
        }

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
        names = record.texts("names_in")
        if len(set(names)) < len(names):
            raise record.error("names_in", "a list of names, each once")
        return record.build(
            lambda: cls(
                columns=record.columns("columns"),
                dropped=tuple(dropped),
                names_in=names,
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
