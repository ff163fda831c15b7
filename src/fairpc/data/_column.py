"""What an encoding knows of a column: how its values become codes, and its form in a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Final, Literal, Self

import numpy as np

from fairpc.core import (
    ALTERED,
    Array,
    Codes,
    Floats,
    Record,
    TableError,
    TableWarning,
    counted,
    record,
    refuse,
    warn_caller,
)
from fairpc.data._binning import bin_codes, bin_labels
from fairpc.data._frame import Frame
from fairpc.data._intervals import DAY, Intervals
from fairpc.data._table import MAX_ARITY, MISSING
from fairpc.data._values import (
    EXACT,
    Level,
    Sentinel,
    Values,
    check_keys,
    look_up_numbers,
    look_up_text,
    read_values,
    to_dates,
    to_numbers,
)
from fairpc.data._writing import DECIMALS, parsed_numbers

Kind = Literal["category", "number", "boolean", "date"]
MIN_CELL: Final = 5  #: people that a level, a bin or a group of a model stands for, at least
AS_MISSING: Final = "as missing"
"""How what was done with a column ends where values of few people were left out."""
TYPE_ROWS: Final = 20
"""Values from which on a column of which none was there at fit is of another type."""
CALENDAR: Final = (-62_135_596_800_000_000.0, 253_402_214_400_000_000.0)
"""Microseconds of the first and the last day that Python knows."""
TRUTH: Final = {"False": 0, "True": 1, "false": 0, "true": 1, "0": 0, "1": 1}
"""How booleans are written as text."""


class Coded(Record):
    """A part of a coding, which files hold."""

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """What ``to_dict`` gave; a FileFormatError says what is wrong with anything else."""
        return record(cls, _fields(data), "the coding", exact=True, repair=ALTERED)


def _fields(data: Any) -> Any:
    """The fields of a coding with those that columns leave out, and names in place of pairs."""
    if isinstance(data, list):
        return [_fields(each) for each in data]
    if not isinstance(data, dict):
        return data
    named = {name: _fields(value) for name, value in data.items()}
    if "edges" in named and "levels" in named:
        return {"ends": [], "decimal": "."} | named
    if isinstance(pairs := named.get("dropped"), list):
        names = ("name", "reason")
        listed = (p if isinstance(p, list) and len(p) == len(names) else [p] for p in pairs)
        named["dropped"] = [dict(zip(names, pair, strict=False)) for pair in listed]
    return named


@dataclass(frozen=True)
class Column(Coded):
    """How one column becomes codes."""

    name: str  #: name in the table
    kind: Kind  #: categories and booleans have levels, numbers and dates have edges
    levels: tuple[Level, ...] = ()  #: of each code; if some were merged, one code more follows
    merged: tuple[Level, ...] = ()  #: levels that share the code "other"
    open: bool = False  #: "other" takes values that were not seen: too many were merged to list
    edges: tuple[float, ...] = ()  #: ascending; bin i is [edges[i - 1], edges[i])
    integral: bool = False  #: the numbers are whole, or the dates whole days
    missing_share: float = 0.0  #: share of the training weight without a value
    done: str = ""  #: what was done, in words
    ends: tuple[float, ...] = ()  #: the least and the greatest number that is kept, if known
    decimal: str = "."  #: the mark before decimals of numbers that are text

    def __post_init__(self) -> None:
        share = not 0 <= self.missing_share <= 1, ": its missing share lies between 0 and 1"
        many = self.arity > MAX_ARITY, f" has {self.arity} values: at most {MAX_ARITY}"
        own = self._edge_faults() if self.binned else self._level_faults()
        mark = self.decimal not in DECIMALS, ": its decimal mark is '.' or ','"
        faults = chain([share, mark], own, [many])
        refuse(TableError, ((there, f"column {self.name!r}{fault}") for there, fault in faults))

    @property
    def binned(self) -> bool:
        """Whether codes are bins, not levels."""
        return self.kind in ("number", "date")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A readable name per code."""
        if self.binned:
            return bin_labels(self.edges, integral=self.integral, date=self.kind == "date")
        texts = tuple(str(level) for level in self.levels)
        if not self.has_other:
            return texts
        other = "other"
        while other in texts:
            other = f"({other})"
        return (*texts, other)

    @property
    def known(self) -> tuple[Level, ...]:
        """The levels and those that were merged."""
        return (*self.levels, *self.merged)

    @property
    def has_other(self) -> bool:
        """Whether the last code stands for merged levels."""
        return bool(self.merged) or self.open

    @property
    def arity(self) -> int:
        """Number of codes."""
        if self.binned:
            return len(self.edges) + 1
        return len(self.levels) + self.has_other

    @property
    def textual(self) -> bool:
        """Whether the levels are text."""
        return not self.binned and isinstance(self.known[0], str)

    @cached_property
    def has_long_keys(self) -> bool:
        """Whether some level is a whole number that a float may not hold, written as text too."""
        return not self.binned and any(
            isinstance(level, int | str)
            and re.fullmatch(r"[+-]?\d{16,}", str(level)) is not None
            and abs(int(level)) >= EXACT
            for level in self.known
        )

    @property
    def few(self) -> bool:
        """Whether values of few people count as missing."""
        return self.done.endswith(AS_MISSING)

    @property
    def unit(self) -> float:
        """What a density is per: a day in microseconds for dates, 1 for numbers."""
        return DAY if self.kind == "date" else 1.0

    @cached_property
    def intervals(self) -> Intervals:
        """The bins; where a file does not say how far they reach, as far as the mean inner one."""
        mean = (self.edges[-1] - self.edges[0]) / max(len(self.edges) - 1, 1) or self.unit
        ends = self.ends or (self.edges[0] - mean, self.edges[-1] + mean)
        return Intervals.of(self.edges, ends, self.unit if self.integral else 0.0)

    def _edge_faults(self) -> Iterator[tuple[object, str]]:
        edges, ends = self.edges, self.ends
        # The calendar of Python ends with the year 9999.
        late = self.kind == "date" and any(abs(edge) > 2.5e17 for edge in (*edges, *ends))
        yield self.levels or self.merged or self.open, " is binned: it has edges and no levels"
        yield not all(map(math.isfinite, edges)), " has an edge that is not finite"
        yield (
            any(a >= b for a, b in pairwise(edges)),
            f" has the edges {list(edges)}: edges must ascend",
        )
        yield (
            late,
            " has an edge beyond the calendar: give dates of the years 1 to 9999, or drop the "
            "column",
        )
        if ends:
            inside = len(ends) == 2 and edges and -math.inf < ends[0] <= edges[0]
            inside = inside and edges[-1] <= ends[1] < math.inf
            yield not inside, f" has the ends {list(ends)}: its edges lie between them"

    def _level_faults(self) -> Iterator[tuple[object, str]]:
        known, boolean = self.known, self.kind == "boolean"
        broken = any(isinstance(level, float) and not math.isfinite(level) for level in known)
        truths = any(isinstance(level, bool) for level in known)
        yield not known, " has no levels: a category needs at least one"
        yield self.edges or self.ends, " is a category: it has levels and no edges"
        yield len(set(map(type, known))) > 1, " has levels of several types: use one"
        yield len(set(known)) < len(known), " has a level twice: levels must differ"
        yield broken, " has a level that is not finite"
        yield boolean and known != (False, True), " is boolean: its levels are false and true"
        yield truths != boolean, ": only a boolean has the levels false and true"

    def codes(self, values: Values, *, warn: bool = True) -> Codes:
        """Code of each value; -1 where it is missing.

        A level that was not seen at fit counts as missing, with a TableWarning that names it if
        ``warn``. Labels of bins are understood too: what ``decode`` gives can be coded again.
        """
        missing = values.missing()
        if missing.all():
            # A column of nothing has no type that could be wrong.
            return np.full(len(missing), MISSING, np.int16)
        codes = self._codes(values)
        if self.textual and not (codes >= 0).any():
            self._refuse_numbers(values.taken(~missing))
        if self.open and not self.binned:
            codes[(codes < 0) & ~missing] = self.arity - 1
        elif warn and not self.binned:
            self._warn_unseen(values, codes)
        return codes

    def any_seen(self, values: Values) -> bool:
        """Whether some value is a level of the fit."""
        known = values.taken(~values.missing())
        return len(known.data) > 0 and bool((self._codes(known) >= 0).any())

    def numbers(self, values: Values) -> Array:
        """Numbers, or dates as microseconds, NaN where missing; a TableError names others."""
        if (self.kind == "date") != (values.type == "date") and values.type != "text":
            raise self._changed(values)
        if self.kind != "date":
            return np.asarray(self._read_numbers(values))
        if values.type == "date":
            return np.asarray(values.data)
        instants = to_dates(values.data)
        wrong = np.isnan(instants) & ~values.missing()
        if wrong.any():
            first = values.data[int(wrong.argmax())]
            raise TableError(
                f"column {self.name!r} has {first!r}: it held dates at fit, give dates or text "
                "like 2024-05-31"
            )
        return instants

    def _read_numbers(self, values: Values) -> Array:
        """Numbers, or text in which they are written as at fit; a TableError names others."""
        like = "" if self.decimal == "." else f", written like 1234{self.decimal}5"
        repair = "give a number there, or leave the cell empty if it is not known"
        rule = f"it held numbers at fit{like}; {repair}"
        return np.asarray(to_numbers(self.name, values, rule=rule, decimal=self.decimal).data)

    def exact_numbers(self, values: Values) -> Floats:
        """Numbers or dates of a binned column; NaN where missing, or known by their bin."""
        if values.type != "text":
            return np.asarray(self.numbers(values), np.float64)
        numbers = np.full(len(values.data), np.nan)
        rest = look_up_text(self.text_levels, values.data) < 0
        if (rest & ~values.missing()).any():
            numbers[rest] = self.numbers(values.taken(rest))
        return numbers

    def shown_numbers(self, numbers: Floats) -> list[Any]:
        """Numbers of a binned column as its values: whole numbers, dates; None for NaN."""
        known = ~np.isnan(numbers)
        if self.kind == "date":
            instants = np.clip(np.nan_to_num(numbers), *CALENDAR).astype(np.int64)
            kind = "datetime64[D]" if self.integral else "datetime64[us]"
            found: list[Any] = instants.astype("datetime64[us]").astype(kind).tolist()
        elif self.integral:
            found = list(map(int, np.nan_to_num(numbers).tolist()))
        else:
            found = numbers.tolist()
        return [value if some else None for value, some in zip(found, known.tolist(), strict=True)]

    def decode(self, codes: Codes) -> list[Level | None]:
        """Level or label of each code; None where it is -1."""
        names: list[Level | None] = [*self.decoded_levels, None]
        return [names[code] for code in codes.tolist()]

    @property
    def decoded_levels(self) -> tuple[Level, ...]:
        """What each code is decoded to: its level, or its label for bins and merged levels."""
        return self.labels if self.binned or self.has_other else self.levels

    def _codes(self, values: Values) -> Codes:
        if values.type == "text":
            return self._text_codes(values)
        if self.kind == values.type == "boolean":
            return np.asarray(values.data, np.int16)
        if values.type == "date" and not self.binned:
            raise self._changed(values)
        if self.has_long_keys:
            check_keys(self.name, values)
        if self.textual:
            texts = self._truths(values) if values.type == "boolean" else _as_text(values)
            return look_up_text(self.text_levels, texts)
        return self._number_codes(values)

    def _text_codes(self, values: Values) -> Codes:
        if self.kind == "boolean":
            return look_up_text(TRUTH, values.data)
        codes = look_up_text(self.text_levels, values.data)
        rest = codes < 0
        if not self.textual and (rest & ~values.missing()).any():
            codes[rest] = self._number_codes(values.taken(rest))
        return codes

    def _number_codes(self, values: Values) -> Codes:
        """Codes of numbers or dates, which may be written as text."""
        if self.binned:
            return bin_codes(self.edges, self.numbers(values))
        return look_up_numbers(self.number_levels, self._read_numbers(values))

    @property
    def text_levels(self) -> dict[str, int]:
        """Code of each level as text, of merged ones and of the label "other" too; or of labels."""
        known = {
            str(level): i for i, level in enumerate(self.labels if self.binned else self.levels)
        }
        if self.has_other:
            other = self.arity - 1
            for text in (*map(str, self.merged), self.labels[-1]):
                known.setdefault(text, other)
        return known

    @property
    def number_levels(self) -> dict[float, int]:
        """Code of each level of a column of numbers, of merged ones too."""
        # A whole level stays an int: beyond 2^53 a float would be another number.
        numbers = [int(v) if isinstance(v, int) else float(v) for v in self.known]
        return {number: min(i, self.arity - 1) for i, number in enumerate(numbers)}

    def _truths(self, values: Values) -> Any:
        """Booleans as the column's levels spell them."""
        import polars as pl

        spelt = {str(level).lower(): str(level) for level in self.known}
        names = np.array([None, spelt.get("false", "False"), spelt.get("true", "True")], object)
        return pl.Series(names[values.data + 1].tolist(), dtype=pl.String)

    def _refuse_numbers(self, values: Values) -> None:
        """A TableError where a column of names holds nothing but numbers, none of them known."""
        import polars as pl

        if len(values.data) < TYPE_ROWS:  # a few may be new levels: those are warned of
            return
        read = values.parsed()
        levels = pl.Series(list(map(str, self.known)))
        if read.type == "number" and parsed_numbers(levels).null_count() == len(levels):
            shown = ", ".join(map(repr, self.levels[:3]))
            raise TableError(
                f"column {self.name!r} holds numbers such as {values.data[0]} and held text at fit "
                f"({shown}): give it as it was at fit, or fit again"
            )

    def _changed(self, values: Values) -> TableError:
        return TableError(
            f"column {self.name!r} holds a {values.type} and held a {self.kind} at fit: "
            "convert it, or fit again"
        )

    def _warn_unseen(self, values: Values, codes: Codes) -> None:
        if not (codes < 0).any():
            return
        unseen = (codes < 0) & ~values.missing()
        # Values of few people were left out at fit, and are as few in rows like those.
        if int(unseen.sum()) < (TYPE_ROWS if self.few else 1):
            return
        data = values.taken(unseen).data
        levels = sorted(set(data.to_list() if values.type == "text" else data.tolist()))
        shown = ", ".join(map(repr, levels[:3]))
        more = f" and {len(levels) - 3} more" if len(levels) > 3 else ""
        warn_caller(
            f"column {self.name!r} has {shown}{more}, not seen at fit: "
            f"{counted(int(unseen.sum()), 'value counts', 'values count')} as missing",
            TableWarning,
        )


@dataclass(frozen=True)
class Dropped:
    """A column that is not used, and why."""

    name: str
    reason: str

    @property
    def message(self) -> str:
        return f"column {self.name!r} is not used: {self.reason}"


def code_columns(
    columns: Sequence[Column],
    frame: Frame,
    missing_values: Sequence[Sentinel],
    absent: Callable[[str], str] | None,
    *,
    read: Callable[[str, Any, Sequence[Sentinel]], Values] = read_values,
    warn: bool = True,
) -> Codes:
    """Codes of some columns of a frame, rows × columns, column-major; -1 = missing.

    A column that is not there is missing in every row, or a TableError with what ``absent`` says.
    """
    codes = np.full((frame.n_rows, len(columns)), MISSING, np.int16, order="F")
    present = dict(zip(frame.names, frame.columns, strict=True))
    for j, column in enumerate(columns):
        if column.name in present:
            values = read(column.name, present[column.name], missing_values)
            codes[:, j] = column.codes(values, warn=warn)
        elif absent is not None:
            raise TableError(absent(column.name))
    return codes


def _as_text(values: Values) -> Any:
    """Numbers as the text that each would have been, whatever the others are."""
    import polars as pl

    data = values.data
    texts = pl.Series(data, nan_to_null=True).cast(pl.String)
    if data.dtype.kind != "f":
        return texts
    whole = (data == np.floor(data)) & (np.abs(data) < EXACT)
    integers = pl.Series(np.where(whole, data, 0).astype(np.int64)).cast(pl.String)
    return pl.select(pl.when(pl.Series(whole)).then(integers).otherwise(texts)).to_series()
