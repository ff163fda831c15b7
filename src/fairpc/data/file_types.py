"""Types of the columns of several files that are one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairpc.errors import FileFormatError

Types = Mapping[str, Any]
"""Polars' type of each column."""


def common_types(files: Sequence[tuple[Path, Types]]) -> Types | None:
    """The types that hold the columns of all files; None where all have the same, in one order.

    Numbers of several widths are joined, as are dates with instants and texts with categories. A
    FileFormatError names a file that lacks a column, or has numbers where others have text.
    """
    first, types = files[0]
    for path, other in files[1:]:
        _check_names(first, types, path, other)
    if all(list(other.items()) == list(types.items()) for _, other in files):
        return None
    return {name: _common(name, [(path, other[name]) for path, other in files]) for name in types}


def _check_names(first: Path, types: Types, path: Path, other: Types) -> None:
    for name in sorted(types.keys() ^ other.keys()):
        without, having = (path, first) if name in types else (first, path)
        raise FileFormatError(
            f"{without} has no column {name!r}, and {having.name} has one: give files with the "
            "same columns"
        )


def _common(name: str, found: Sequence[tuple[Path, Any]]) -> Any:
    """The type of one column."""
    import polars as pl

    first, start = next(((p, t) for p, t in found if t != pl.Null), found[0])
    distinct = list(dict.fromkeys(dtype for _, dtype in found))
    for path, dtype in found:
        if _kind(dtype) not in (_kind(start), "nothing"):
            raise FileFormatError(
                f"column {name!r} holds {dtype} in {path} and {start} in {first.name}: write it "
                "with one type"
            )
    if len(distinct) == 1:
        return distinct[0]
    if _kind(start) == "text":
        return pl.String()
    try:
        empty = [pl.DataFrame(schema={name: dtype}) for dtype in distinct]
        return pl.concat(empty, how="vertical_relaxed").schema[name]
    except pl.exceptions.PolarsError as error:
        raise FileFormatError(
            f"column {name!r} holds {' and '.join(map(str, distinct))} in files of one table: "
            "write it with one type"
        ) from error


def _kind(dtype: Any) -> str:
    """What can be joined without a change of meaning has one name."""
    import polars as pl

    if dtype.is_numeric() or dtype == pl.Boolean:
        return "number"
    if dtype in (pl.Date, pl.Datetime):
        return "date"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "nothing" if dtype == pl.Null else str(dtype)
