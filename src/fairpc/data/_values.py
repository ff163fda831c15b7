"""One column of a frame as typed values: text, numbers, booleans or dates, with its holes."""

from __future__ import annotations

import datetime as dt
import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.core import Array, Bools, Codes, Floats, TableError, is_missing, need_threads
from fairpc.data._writing import (
    DATED,
    dates_of,
    parsed_numbers,
)

Sentinel = str | int | float
Level = str | int | float | bool
ValueType = Literal["text", "number", "boolean", "date"]
EXACT: Final = 2.0**53  #: beyond this a float does not hold every integer
AS_NUMBERS: Final = "text read as numbers"
MIXED: Final = "values of several types, read as text"
NAMED_NUMERIC: Final = (
    "it was declared numeric, give a number there, name the text with missing_values=… "
    "(--missing), or the column with categorical=…"
)
DIRECT: Final = 1 << 16
"""Whole numbers that lie so close together are looked up in a table, not searched."""
_FEW: Final = 32  #: texts that are recognised by their hashes
_NUMBER: Final = r"^\s*[+-]?(0|[1-9]\d*)({}\d+)?([eE][+-]?\d+)?\s*$"
_NUMBERS: Final = (int, float, np.integer, np.floating, Decimal)
_DATES: Final = (dt.date, np.datetime64)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of one column."""

    type: ValueType  #: what they are
    #: "text": a polars series of strings, null = missing. "number": integers without holes, or
    #: float64 with NaN = missing. "boolean": int8, -1 = missing. "date": float64, microseconds
    #: since 1970 (UTC), NaN = missing
    data: Any
    declared: bool = False  #: the frame's own type says that these are categories
    remark: str = ""  #: how the values were read, where that is not obvious
    decimal: str = "."  #: the decimal mark of numbers in text
    numeric: bool = False  #: whether text is said to hold numbers

    def missing(self) -> Bools:
        """Which rows have no value."""
        if self.type == "text" and self.data.null_count():
            return np.asarray(self.data.is_null().to_numpy(), np.bool_)
        if self.type == "boolean":
            return np.asarray(self.data < 0, np.bool_)
        if self.type == "text" or self.data.dtype.kind in "iu":
            return np.zeros(len(self.data), np.bool_)
        return np.asarray(np.isnan(self.data), np.bool_)

    def parsed(self) -> Values:
        """Text as numbers or dates where it is nothing else."""
        if self.type != "text" or self.declared:
            return self
        return _read_text(self) or self

    def listed(self) -> list[Any]:
        """The values, None where missing; a boolean is 0 or 1, a date microseconds."""
        if self.type == "text":
            listed: list[Any] = self.data.to_list()
            return listed
        pairs = zip(self.data.tolist(), self.missing().tolist(), strict=True)
        return [None if missing else value for value, missing in pairs]

    def taken(self, rows: Bools) -> Values:
        """The values of some rows."""
        import polars as pl

        data = self.data.filter(pl.Series(rows)) if self.type == "text" else self.data[rows]
        return replace(self, data=data)


def marks_of(kind: ValueType, sentinels: Iterable[Sentinel]) -> list[float]:
    """The sentinels that are numbers, or the dates among them in microseconds."""
    if kind == "date":
        found = dates_of([v.strip() for v in sentinels if isinstance(v, str)])
        return [float(v) for v in found if not np.isnan(v)]
    return [float(v) for v in sentinels if kind == "number" and not isinstance(v, str)]


def sentinel_texts(sentinels: Iterable[Sentinel]) -> set[str]:
    """The sentinels as text: a number as a whole one, if it is, and as programs write floats."""
    texts = set()
    for sentinel in sentinels:
        if isinstance(sentinel, str):
            texts.add(sentinel.strip())
        elif np.isfinite(sentinel):
            texts |= {str(sentinel), str(float(sentinel)), f"{float(sentinel):.15g}"}
    return texts


def read_values(
    name: str,
    column: Any,
    missing_values: Iterable[Sentinel] = (),
    *,
    parse: bool = False,
    decimal: str = ".",
) -> Values:
    """The typed values of a narwhals series or of a vector; a TableError names what is in the way.

    NaN, None, null, NaT and the ``missing_values`` are missing, which are compared as the values
    are given: text with text, numbers with numbers, dates with dates. With ``parse``,
    text that is nothing but numbers or dates is read as such; numbers with
    leading zeros are codes and stay text. ``decimal`` is the decimal mark of numbers in text.
    """
    sentinels = tuple(missing_values)
    texts = sentinel_texts(sentinels)
    values = _vector(name, column) if isinstance(column, np.ndarray) else _native(name, column)
    if values is None:
        values = _objects(name, column, texts)
    if values.type == "text":
        values = replace(_without_texts(values, texts), decimal=decimal)
        values = values.parsed() if parse else values
    elif marks := marks_of(values.type, sentinels):
        marked = np.isin(values.data, marks)
        if marked.any():
            data = np.where(marked, np.nan, values.data.astype(np.float64))
            values = replace(values, data=data)
    if values.type == "number":
        return replace(values, data=_finite(name, values.data))
    return values


def read_classes(name: str, column: Any, missing_values: Iterable[Sentinel] = ()) -> Values:
    """The values of a label or a group: blanks at the ends of a text are no part of it."""
    return bare(read_values(name, column, missing_values))


def are_bare(levels: Iterable[Level]) -> bool:
    """Whether no text has blanks at its ends."""
    return all(level == level.strip() for level in levels if isinstance(level, str))


def bare(values: Values) -> Values:
    """Text without the blanks at its ends."""
    if values.type != "text":
        return values
    import polars as pl

    # Without polars' own functions of text: in a forked process they would not return.
    stripped = [text if text is None else text.strip() for text in values.data]
    return replace(values, data=pl.Series(values.data.name, stripped, dtype=pl.String))


def to_numbers(
    name: str, values: Values, *, rule: str = NAMED_NUMERIC, decimal: str = "."
) -> Values:
    """Text as numbers; a TableError names the first value that is none, rule and repair."""
    if values.type == "boolean":
        data = np.where(values.data < 0, np.nan, values.data.astype(np.float64))
        return replace(values, type="number", data=data)
    if values.type != "text":
        return values
    parsed = parsed_numbers(values.data, decimal)
    wrong = (parsed.is_null() & values.data.is_not_null()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise TableError(f"column {name!r} has {values.data[row]!r} in row {row}: {rule}")
    data = _finite(name, parsed.to_numpy())
    return replace(values, type="number", data=data, remark=AS_NUMBERS)


def to_dates(texts: Any) -> Floats:
    """A polars series of dates as microseconds; NaN where a text is not a date."""
    distinct = texts.drop_nulls().unique().to_list()
    return np.append(dates_of(distinct), np.nan)[number_texts(texts, distinct)]


def number_texts(texts: Any, levels: list[str]) -> Array:
    """Number of each text of a polars series among the levels, and beyond them where it is none."""
    import polars as pl

    beyond = len(levels)
    found = by_hash(texts, {level: i for i, level in enumerate(levels)}, beyond)
    if found is not None:
        return found
    numbers = texts.cast(pl.Enum(levels), strict=False).to_physical()
    if numbers.null_count():
        # The integers of an Enum have room for one number more than it has categories.
        numbers = numbers.zip_with(numbers.is_not_null(), pl.Series([beyond], dtype=numbers.dtype))
    return np.asarray(numbers.to_numpy())


def by_hash(texts: Any, levels: dict[str, int], beyond: int) -> npt.NDArray[np.int8] | None:
    """What ``levels`` says of each text, and ``beyond`` of others; None where levels are many.

    A few levels are recognised by 64-bit hashes, several times faster than by the texts themselves.
    That the hash of some other text is among theirs has a probability of 1e-18 per different text.
    """
    import polars as pl

    if len(levels) > _FEW:
        return None
    known = pl.Series(list(levels), dtype=pl.String).hash(0).to_numpy()
    if len(set(known.tolist())) < len(levels):
        return None
    hashes = texts.hash(0).to_numpy()
    ids = np.full(len(hashes), beyond, np.int8)
    for level, number in zip(known, levels.values(), strict=True):
        ids += (hashes == level).view(np.int8) * np.int8(number - beyond)
    return ids


def look_up_text(levels: dict[str, int], texts: Any) -> Codes:
    """Code of each text of a polars series; -1 where it is null or no level."""
    found = by_hash(texts, levels, -1)
    if found is not None:
        return found.astype(np.int16)
    codes = np.array([*levels.values(), -1], np.int16)
    return np.asarray(codes[number_texts(texts, list(levels))], np.int16)


def look_up_numbers(levels: dict[float, int], data: Array) -> Codes:
    """Code of each number; -1 where it is NaN or no level."""
    order = sorted(levels)
    codes = np.array([levels[v] for v in order], np.int16)
    known = np.array(order)
    low, span = int(order[0]), int(order[-1]) - int(order[0]) + 1
    direct = span < DIRECT and abs(low) < EXACT
    if direct and data.dtype.kind in "iu" and known.dtype.kind == "i":
        table = np.full(span + 2, -1, np.int16)
        table[known - low + 1] = codes
        # Clipped before the subtraction, so that no integer overflows.
        wide = np.clip(data.astype(np.int64, copy=False), low - 1, low + span)
        return table[wide - (low - 1)]
    place = np.searchsorted(known, data)
    place[place == len(known)] = 0
    return np.where(known[place] == data, codes[place], np.int16(-1))


def _vector(name: str, column: Array) -> Values | None:
    """Values of a NumPy vector; None where its type says nothing."""
    match column.dtype.kind:
        case "b":
            return Values("boolean", column.astype(np.int8))
        case "u" if column.dtype.itemsize == 8:
            fits = column.max(initial=0) <= np.iinfo(np.int64).max
            return Values("number", column.astype(np.int64 if fits else np.float64))
        case "i" | "u":
            return Values("number", column)
        case "f":
            return Values("number", np.ascontiguousarray(column, np.float64))
        case "c":
            raise _complex(name)
        case "M":
            data = column.astype("datetime64[us]")
            number = data.astype(np.int64).astype(np.float64)
            number[np.isnat(data)] = np.nan
            return Values("date", number)
        case "m":
            return Values("number", column / np.timedelta64(1, "s"), remark="durations in seconds")
        case "U" | "T":
            return Values("text", _strings(name, column.tolist()))
        case "O":
            return None
        case _:
            raise _unreadable(name, str(column.dtype))


def _native(name: str, series: Any) -> Values | None:
    """Values of a narwhals series; None where they must be looked at one by one."""
    import narwhals as nw

    # A method of a polars series asks for its column by name, which may look like a pattern.
    series = series.alias("")
    dtype = series.dtype
    if isinstance(dtype, nw.Categorical | nw.Enum | nw.String):
        declared = not isinstance(dtype, nw.String)
        texts = _native_texts(series)
        if texts is not None:
            return Values("text", texts, declared)
        values = _vector(name, series.to_numpy()) or _objects(name, series.to_numpy(), set())
        return replace(values, declared=declared)
    if isinstance(dtype, nw.Date | nw.Datetime):
        return Values("date", series.dt.timestamp("us").cast(nw.Float64).to_numpy())
    if isinstance(dtype, nw.Int128 | nw.UInt128):  # NumPy has none
        largest = max(abs(series.min() or 0), abs(series.max() or 0))
        return _vector(name, series.cast(nw.Int64 if largest < 2**63 else nw.Float64).to_numpy())
    if dtype.is_decimal():
        return Values("number", _decimals(series.to_polars()))
    if dtype.is_nested() or isinstance(dtype, nw.Binary | nw.Time):
        raise _unreadable(name, str(dtype))
    return _vector(name, series.to_numpy())


def _decimals(series: Any) -> Array:
    """Decimals of a polars series: whole numbers where all are, so that keys keep their digits."""
    import polars as pl

    whole = series.cast(pl.Int64, strict=False)
    if series.null_count() or whole.null_count() or (whole.cast(series.dtype) != series).any():
        return np.asarray(series.cast(pl.Float64).to_numpy(), np.float64)
    return np.asarray(whole.to_numpy())


def _native_texts(series: Any) -> Any | None:
    """Strings of a polars or pyarrow series without a detour over Python objects."""
    import polars as pl

    native = series.to_native()
    if isinstance(native, pl.Series):
        return native.cast(pl.String)
    if series.implementation.is_pyarrow():
        texts = pl.Series(pl.from_arrow(native))
        if texts.dtype in (pl.String, pl.Categorical, pl.Enum):
            return texts.cast(pl.String).alias("")
    return None


def _objects(name: str, column: Any, texts: set[str]) -> Values:
    """Values of Python objects: one type for all that are not missing, text where they differ."""
    items: list[Any] = list(column) if isinstance(column, np.ndarray) else column.to_list()
    if not set(map(type, items)) <= {str, int, bool}:
        items = [None if is_missing(v) else v for v in items]
    if texts:
        items = [None if isinstance(v, str) and v.strip() in texts else v for v in items]
    types = set(map(type, items)) - {type(None)}
    if all(issubclass(t, str) for t in types):
        return Values("text", _strings(name, items))
    if all(issubclass(t, bool | np.bool_) for t in types):
        return Values("boolean", np.array([-1 if v is None else int(v) for v in items], np.int8))
    if all(issubclass(t, _NUMBERS) for t in types):
        return Values("number", _numbers(name, items))
    if all(issubclass(t, _DATES) for t in types):
        return _vector(name, _instants(items)) or Values("date", np.empty(0))
    if any(issubclass(t, complex | np.complexfloating) for t in types):
        raise _complex(name)
    if all(issubclass(t, list | tuple | dict | set | bytes | np.ndarray) for t in types):
        raise _unreadable(name, sorted(t.__name__ for t in types)[0])
    return Values("text", _strings(name, items), remark=MIXED)


def _strings(name: str, items: list[Any]) -> Any:
    import polars as pl

    try:
        return pl.Series([None if v is None else str(v) for v in items], dtype=pl.String)
    except UnicodeEncodeError as error:
        raise TableError(
            f"column {name!r} has the text {reprlib.repr(error.object)}: half of a surrogate pair "
            "is not a character, correct the text or leave the cell empty"
        ) from None


def _numbers(name: str, items: list[Any]) -> Array:
    if all(map(_is_whole, items)):
        return np.array(list(map(int, items)), np.int64)
    try:
        return np.array([np.nan if v is None else float(v) for v in items], np.float64)
    except OverflowError:
        raise TableError(
            f"column {name!r} has a whole number beyond 1.8e308: numbers must fit into 64-bit "
            "floats, leave empty what is not known"
        ) from None


def _is_whole(value: Any) -> bool:
    """Whether a number is a whole one, by its type or as a decimal, that 64 bits hold."""
    if isinstance(value, Decimal):  # one of many digits is not written out
        short = value.is_finite() and value.adjusted() < 19
        return short and value == int(value) and abs(int(value)) < 2**63
    return isinstance(value, int | np.integer) and abs(int(value)) < 2**63


def _instants(items: list[Any]) -> Array:
    def naive(value: Any) -> Any:
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        return np.datetime64("NaT", "us") if value is None else value

    return np.array([naive(v) for v in items], dtype="datetime64[us]")


def _without_texts(values: Values, texts: set[str]) -> Values:
    """Text with its sentinels taken out."""
    import polars as pl

    if not texts:
        return values
    distinct = values.data.drop_nulls().unique().to_list()
    meant = [text for text in distinct if text.strip() in texts]
    kept = pl.Series(number_texts(values.data, meant) == len(meant))
    return replace(values, data=pl.select(pl.when(kept).then(values.data)).to_series())


def _read_text(values: Values) -> Values | None:
    """Text as numbers or dates where it is nothing else."""
    data, mark = values.data, values.decimal
    present = data.drop_nulls()
    if not len(present):
        return None
    need_threads("to tell numbers from text")
    numbers = present.str.contains(_NUMBER.format(re.escape(mark))).all()
    if values.numeric:  # leading zeros are no sign of codes then
        numbers = not parsed_numbers(present, mark).null_count()
    if numbers:
        if not values.numeric and not _exact(present, mark):
            return None  # a float would not hold the digits: names, not quantities
        found = parsed_numbers(data, mark).to_numpy()
        return Values("number", found, remark=AS_NUMBERS, decimal=mark)
    # The first rows are asked first: most text is seen to be no date at once.
    if present.head(100).str.contains(f"^{DATED}$").all():
        instants = to_dates(data)
        if np.isnan(instants).sum() == data.null_count():
            return Values("date", instants, remark="text read as dates")
    return None


def _exact(texts: Any, decimal: str) -> bool:
    """Whether floats hold the digits of all whole numbers."""
    long = texts.filter(texts.str.len_bytes() >= 16)
    if not len(long):
        return True
    numbers = parsed_numbers(long, decimal)
    whole = numbers.filter(numbers == numbers.round())
    return not (whole.abs() >= EXACT).any()


def _finite(name: str, data: Array) -> Array:
    infinite = np.isinf(data)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise TableError(
            f"column {name!r} has {data[row]} in row {row}: numbers must be finite, "
            "leave empty what is not known"
        )
    return data


def _complex(name: str) -> TableError:
    # The first words are those that scikit-learn's tools look for.
    return TableError(
        f"Complex data not supported: column {name!r} holds complex numbers, give real ones"
    )


def _unreadable(name: str, what: str) -> TableError:
    return TableError(
        f"column {name!r} holds {what}: give text, numbers, booleans or dates, or drop the column"
    )


def levels_of(values: Values) -> tuple[Level, ...]:
    """The distinct values, in alphabetical or numeric order; whole numbers are integers."""
    if values.type == "text":
        return tuple(values.data.drop_nulls().unique().sort().to_list())
    known = values.data[~values.missing()]
    if values.type == "boolean":
        return tuple(bool(v) for v in np.unique(known))
    distinct, _ = distinct_numbers(known)
    if is_integral(distinct):
        return tuple(int(v) for v in distinct.tolist())
    return tuple(distinct.tolist())


def check_keys(name: str, values: Values) -> None:
    """A TableError where whole numbers are keys, and floats hold another number than was meant."""
    if values.type != "number" or values.data.dtype.kind != "f":
        return
    long = np.abs(values.data) >= EXACT
    if long.any():
        raise TableError(
            f"column {name!r} has {values.data[int(long.argmax())]:.0f} as a float, and of whole "
            "numbers from 2^53 on floats make other keys: give whole numbers without empty cells, "
            "or text"
        )


def is_integral(numbers: Array) -> bool:
    """Whether all are whole numbers that a float holds exactly; NaN is ignored."""
    if numbers.dtype.kind in "iu":
        return True
    known = numbers[~np.isnan(numbers)]
    return bool(np.all((known == np.floor(known)) & (np.abs(known) < EXACT)))


def distinct_numbers(data: Array) -> tuple[Array, Array]:
    """As np.unique with its inverse; without sorting where integers lie close together."""
    if data.dtype.kind in "iu" and len(data):
        low, high = int(data.min()), int(data.max())
        if high - low < DIRECT:
            offset = np.subtract(data, low, dtype=np.int64)
            counts = np.bincount(offset, minlength=high - low + 1)
            present = np.flatnonzero(counts)
            if len(present) == len(counts):
                return present + low, offset
            rank = np.cumsum(counts > 0) - 1
            return present + low, rank[offset]
    return np.unique(data, return_inverse=True)
