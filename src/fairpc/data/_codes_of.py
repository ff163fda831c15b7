"""Values of a column to codes and back, by what its ``Column`` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fairpc.core import Array, Codes, Floats, TableError, TableWarning, counted, warn_caller
from fairpc.data._binning import bin_codes
from fairpc.data._categories import Level, look_up_numbers, look_up_text
from fairpc.data._frame import Frame
from fairpc.data._schema import Column
from fairpc.data._table import MISSING
from fairpc.data._values import (
    EXACT,
    Sentinel,
    Values,
    ValueType,
    marks_of,
    parsed_numbers,
    read_values,
    to_dates,
    to_numbers,
)
from fairpc.data._writing import PLAIN

_SHOWN: Final = 3
TYPE_ROWS: Final = 20
"""Values from which on a column of which none was there at fit is of another type."""
CALENDAR: Final = (-62_135_596_800_000_000.0, 253_402_214_400_000_000.0)
"""Microseconds of the first and the last day that Python knows."""
TRUTH: Final = {"False": 0, "True": 1, "false": 0, "true": 1, "0": 0, "1": 1}
"""How booleans are written as text."""


def code_values(column: Column, values: Values, *, warn: bool = True) -> Codes:
    """Code of each value; -1 where it is missing.

    A level that was not seen at fit counts as missing, with a TableWarning that
    names it if ``warn``. Labels of bins are understood too, so that what ``decode`` gives
    can be coded again.
    """
    values = unmarked(column, values)
    missing = values.missing()
    if missing.all():
        # A column of nothing has no type that could be wrong.
        return np.full(len(missing), MISSING, np.int16)
    codes = _codes(column, values)
    if column.textual and not (codes >= 0).any():
        _refuse_numbers(column, values.taken(~missing))
    if column.open and not column.binned:
        codes[(codes < 0) & ~missing] = column.arity - 1
    elif warn and not column.binned:
        _warn_unseen(column, values, codes)
    return codes


def any_seen(column: Column, values: Values) -> bool:
    """Whether some value is a level of the fit."""
    known = values.taken(~values.missing())
    return len(known.data) > 0 and bool((_codes(column, known) >= 0).any())


def unmarked(column: Column, values: Values) -> Values:
    """Text without what means "missing" once it is read as the numbers or dates of a column."""
    import polars as pl

    kind: ValueType = "date" if column.kind == "date" else "number"
    named = column.textual or column.kind == "boolean"
    if values.type != "text" or named or not marks_of(kind, values.sentinels):
        return values
    written = column.written or PLAIN
    texts = values.data
    read = to_dates(texts) if kind == "date" else parsed_numbers(texts, written).to_numpy()
    marked = pl.Series(replace(values, type=kind, data=read).marked())
    return replace(values, data=pl.select(pl.when(~marked).then(texts)).to_series())


def code_columns(
    columns: Sequence[Column],
    frame: Frame,
    missing_values: Sequence[Sentinel],
    absent: Callable[[str], str] | None,
) -> Codes:
    """Codes of some columns of a frame, rows × columns, column-major; -1 = missing.

    A column that is not there is missing in every row, or a TableError with what ``absent`` says.
    """
    codes = np.full((frame.n_rows, len(columns)), MISSING, np.int16, order="F")
    present = dict(zip(frame.names, frame.columns, strict=True))
    for j, column in enumerate(columns):
        if column.name in present:
            values = read_values(column.name, present[column.name], missing_values)
            codes[:, j] = code_values(column, values)
        elif absent is not None:
            raise TableError(absent(column.name))
    return codes


def numbers_of(column: Column, values: Values) -> Array:
    """Values of a column that held numbers or dates at fit, as numbers; NaN where missing.

    Dates are microseconds. A TableError names what is neither.
    """
    if (column.kind == "date") != (values.type == "date") and values.type != "text":
        raise _changed(column, values)
    values = unmarked(column, values)
    if column.kind != "date":
        return np.asarray(_numbers(column, values))
    if values.type == "date":
        return np.asarray(values.data)
    instants = to_dates(values.data)
    wrong = np.isnan(instants) & ~values.missing()
    if wrong.any():
        first = values.data[int(wrong.argmax())]
        raise TableError(
            f"column {column.name!r} has {first!r}: it held dates at fit, give dates or text like "
            "2024-05-31"
        )
    return instants


def _numbers(column: Column, values: Values) -> Array:
    """Numbers, or text in which they are written as at fit; a TableError names what is neither."""
    written = column.written or PLAIN
    like = f", written like {written.example}" if column.written else ""
    rule = f"it held numbers at fit{like}; give a number there, or leave the cell empty if it is "
    return np.asarray(
        to_numbers(column.name, values, rule=(rule + "not known",), written=written).data
    )


def exact_numbers(column: Column, values: Values) -> Floats:
    """Numbers or dates of a binned column as they are; NaN where missing, or known by their bin."""
    if values.type != "text":
        return np.asarray(numbers_of(column, values), np.float64)
    known = {label: i for i, label in enumerate(column.labels)}
    numbers = np.full(len(values.data), np.nan)
    rest = look_up_text(known, values.data) < 0
    if (rest & ~values.missing()).any():
        numbers[rest] = numbers_of(column, values.taken(rest))
    return numbers


def shown_numbers(column: Column, numbers: Floats) -> list[Any]:
    """Numbers of a binned column as its values: whole numbers, dates; None for NaN."""
    known = ~np.isnan(numbers)
    if column.kind == "date":
        instants = np.clip(np.nan_to_num(numbers), *CALENDAR).astype(np.int64)
        whole_days = column.density is not None and column.density.step > 0
        kind = "datetime64[D]" if whole_days else "datetime64[us]"
        found: list[Any] = instants.astype("datetime64[us]").astype(kind).tolist()
    elif column.integral:
        found = list(map(int, np.nan_to_num(numbers).tolist()))
    else:
        found = numbers.tolist()
    return [value if some else None for value, some in zip(found, known.tolist(), strict=True)]


def decode(column: Column, codes: Codes) -> list[Level | None]:
    """Level or label of each code; None where it is -1."""
    names: list[Level | None] = [*decoded_levels(column), None]
    return [names[code] for code in codes.tolist()]


def decoded_levels(column: Column) -> tuple[Level, ...]:
    """What each code is decoded to: its level; its label where bins or merged levels have none."""
    return column.labels if column.binned or column.has_other else column.levels


def _codes(column: Column, values: Values) -> Codes:
    if values.type == "text":
        return _text_codes(column, values)
    if column.kind == values.type == "boolean":
        return np.asarray(values.data, np.int16)
    if column.binned:
        return bin_codes(column.edges, numbers_of(column, values))
    if values.type == "date":
        raise _changed(column, values)
    if column.textual:
        texts = _truths(column, values) if values.type == "boolean" else _as_text(values)
        return look_up_text(text_levels(column), texts)
    return look_up_numbers(number_levels(column), _numbers(column, values))


def _text_codes(column: Column, values: Values) -> Codes:
    texts = values.data
    if column.kind == "boolean":
        return look_up_text(TRUTH, texts)
    known = {label: i for i, label in enumerate(column.labels)}
    codes = look_up_text(known if column.binned else text_levels(column), texts)
    rest = codes < 0
    if not column.textual and (rest & ~values.missing()).any():
        codes[rest] = _parsed_codes(column, values.taken(rest))
    return codes


def _parsed_codes(column: Column, values: Values) -> Codes:
    """Codes of numbers or dates that are written as text."""
    if column.kind == "category":
        return look_up_numbers(number_levels(column), _numbers(column, values))
    return bin_codes(column.edges, numbers_of(column, values))


def text_levels(column: Column) -> dict[str, int]:
    """Code of each level as text; of merged ones and of the label "other" too."""
    known = {str(level): i for i, level in enumerate(column.levels)}
    if column.has_other:
        other = column.arity - 1
        for text in (*map(str, column.merged), column.labels[-1]):
            known.setdefault(text, other)
    return known


def number_levels(column: Column) -> dict[float, int]:
    """Code of each level of a column of numbers, of merged ones too."""
    # A whole level stays an int: beyond 2^53 a float would be another number.
    numbers = [int(v) if isinstance(v, int) else float(v) for v in (*column.levels, *column.merged)]
    return {number: min(i, column.arity - 1) for i, number in enumerate(numbers)}


def _truths(column: Column, values: Values) -> Any:
    """Booleans as the column's levels spell them."""
    import polars as pl

    spelt = {str(level).lower(): str(level) for level in (*column.levels, *column.merged)}
    names = np.array([None, spelt.get("false", "False"), spelt.get("true", "True")], object)
    return pl.Series(names[values.data + 1].tolist(), dtype=pl.String)


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


def _refuse_numbers(column: Column, values: Values) -> None:
    """A TableError where a column of names holds nothing but numbers, none of them known.

    A few unknown values may be new levels: those are warned of.
    """
    import polars as pl

    if len(values.data) < TYPE_ROWS:
        return
    read = values.parsed()
    levels = pl.Series([str(level) for level in (*column.levels, *column.merged)])
    if read.type == "number" and parsed_numbers(levels).null_count() == len(levels):
        shown = ", ".join(repr(level) for level in column.levels[:_SHOWN])
        raise TableError(
            f"column {column.name!r} holds numbers such as {values.data[0]} and held text at fit "
            f"({shown}): give it as it was at fit, or fit again"
        )


def _changed(column: Column, values: Values) -> TableError:
    return TableError(
        f"column {column.name!r} holds a {values.type} and held a {column.kind} at fit: "
        "convert it, or fit again"
    )


def _warn_unseen(column: Column, values: Values, codes: Codes) -> None:
    if not (codes < 0).any():
        return
    unseen = (codes < 0) & ~values.missing()
    if not unseen.any():
        return
    data = values.taken(unseen).data
    found = sorted(set(data.to_list() if values.type == "text" else data.tolist()))
    shown = ", ".join(repr(level) for level in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    warn_caller(
        f"column {column.name!r} has {shown}{more}, not seen at fit: "
        f"{counted(int(unseen.sum()), 'value counts', 'values count')} as missing",
        TableWarning,
    )
