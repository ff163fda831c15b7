"""Frames of any library, or arrays, as named columns; nothing is converted yet."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import Array, TableError, counted, quoted, refuse

Names = str | int | Iterable[str | int]
MAX_COLUMNS: Final = 4096
"""More columns than this are a mistake (one-hot text, a transposed table) or out of reach."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length."""

    names: tuple[str, ...]  #: one per column; "x0", "x1", … where the input was an array
    columns: tuple[Any, ...]  #: a narwhals series or a one-dimensional array each
    n_rows: int  #: length of every column
    from_array: bool  #: whether the names are only positions

    def __post_init__(self) -> None:
        for name in self.names:
            if name.encode(errors="ignore").decode() != name:
                raise TableError(
                    f"column {name!r} has half of a surrogate pair in its name, which is not "
                    "a character: rename it"
                )

    def column(self, name: str) -> Any:
        """The column of this name."""
        return self.columns[self.names.index(name)]

    def select(self, names: Iterable[str]) -> Frame:
        """Those of the named columns that are there, in the order of the names."""
        kept = tuple(name for name in names if name in self.names)
        return replace(self, names=kept, columns=tuple(self.column(name) for name in kept))

    def drop(self, names: Collection[str]) -> Frame:
        """All other columns."""
        return self.select(name for name in self.names if name not in names)

    def with_columns(self, more: Mapping[str, Any]) -> Frame:
        """The same with some columns more."""
        names, columns = (*self.names, *more), (*self.columns, *more.values())
        return replace(self, names=names, columns=columns)

    def to_polars(self) -> Any:
        """The columns as a polars frame."""
        import narwhals as nw
        import polars as pl

        native = (nw.to_native(column, pass_through=True) for column in self.columns)
        return pl.DataFrame(dict(zip(self.names, native, strict=True)))

    def taken(self, rows: Array) -> Frame:
        """Some of the rows, by number."""
        taken = tuple(column[rows] for column in self.columns)
        return replace(self, columns=taken, n_rows=len(rows))


def read_frame(frame: Any) -> Frame:
    """The columns of a pandas, polars or pyarrow frame, or of a two-dimensional array."""
    import narwhals as nw

    if isinstance(frame, Frame):
        return frame
    if hasattr(frame, "toarray") and hasattr(frame, "nnz"):
        raise TableError("the table is a sparse matrix: give a dense array, frame.toarray()")
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        raise TableError("the table is a lazy frame: give its rows, frame.collect()")
    _check_names(frame)
    wrapped = nw.from_native(frame, eager_only=True, pass_through=True)
    if isinstance(wrapped, nw.DataFrame):
        names = tuple(str(name) for name in wrapped.columns)
        _check_shape(len(wrapped), len(names))
        return Frame(names, tuple(wrapped.iter_columns()), len(wrapped), from_array=False)
    return _read_array(frame)


def read_columns(values: Any, default: str) -> Frame:
    """A frame as ``read_frame`` does, or one column: a series, a vector, a mapping of vectors.

    A column without a name is called ``default``; the columns of an array are
    called ``default`` with their number.
    """
    import narwhals as nw

    if isinstance(values, Frame):
        return values
    if isinstance(values, dict):
        return _read_mapping(values)
    column: Any = nw.from_native(values, series_only=True, pass_through=True)
    series = isinstance(column, nw.Series)
    if not (series or hasattr(column, "columns") or hasattr(column, "toarray")):
        column = _as_array(column)
    if series or getattr(column, "ndim", 2) == 1:
        # A vector has no name, and a pandas series may have none.
        named = series and column.name not in (None, "")
        _check_shape(len(column), 1)
        name = str(column.name) if named else default
        return Frame((name,), (column,), len(column), from_array=True)
    frame = read_frame(values)
    if not frame.from_array:
        return frame
    width = len(frame.names)
    names = (default,) if width == 1 else tuple(f"{default}{j}" for j in range(width))
    return Frame(names, frame.columns, frame.n_rows, from_array=True)


def exactly(names: Iterable[str]) -> Any:
    """A selector of polars for columns of these names, in their order.

    A bare name would be a pattern to polars where it is ``*`` or stands between ``^`` and ``$``.
    """
    import polars.selectors as cs

    return cs.by_name(*names)


def take_rows(values: Any, rows: Array) -> Any:
    """Some rows of an array, series or frame, by number, in its own library."""
    import narwhals as nw

    native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame) and native.implementation.is_polars():
        # Column by column: a frame would ask for threads, which a forked process does not have.
        # A series is asked under another name, because polars takes some for patterns.
        taken = {c.name: c.alias("").gather(rows) for c in values.iter_columns()}
        return type(values)(taken)
    if isinstance(native, nw.DataFrame | nw.Series):
        return native[rows.tolist()].to_native()
    return np.asarray(values)[rows]


def resolve(names: tuple[str, ...], chosen: Names, option: str) -> frozenset[str]:
    """Names of columns given by name or position; a TableError names one that is not there."""
    resolved = []
    for item in [chosen] if isinstance(chosen, str | int | np.integer) else chosen:
        if isinstance(item, int | np.integer) and -len(names) <= item < len(names):
            resolved.append(names[item])
        elif item in names:
            resolved.append(str(item))
        else:
            raise TableError(
                f"column {item!r} in {option} is not in the table: its columns are "
                f"{quoted(names, 10)}"
            )
    return frozenset(resolved)


def check_rows(X: Any, frame: Frame, values: Any, what: str) -> None:
    """A TableError where something is not given for each row of a table, in their order."""
    length = read_columns(values, "values").n_rows
    if length != frame.n_rows:
        rows = counted(frame.n_rows, "row")
        raise TableError(f"{rows} and {counted(length, what)}: give one per row")
    # Two pandas objects must have one index: joining them silently would mix up rows.
    ours, theirs = getattr(X, "index", None), getattr(values, "index", None)
    if ours is None or theirs is None or callable(ours) or callable(theirs):
        return
    if not ours.equals(theirs):
        raise TableError(
            f"the index of the {what}s differs from that of the table: align them, or give "
            "arrays with .to_numpy()"
        )


def _read_mapping(values: dict[Any, Any]) -> Frame:
    parts = [read_columns(column, str(name)) for name, column in values.items()]
    for name, part in zip(values, parts, strict=True):
        if len(part.columns) != 1 or part.n_rows != parts[0].n_rows:
            raise TableError(
                f"column {name!r} has {part.n_rows} rows and {len(part.columns)} columns, "
                f"the first has {parts[0].n_rows} rows: give vectors of one length"
            )
    if not parts:
        raise TableError("the table has no columns: give at least one")
    names = tuple(str(name) for name in values)
    return Frame(names, tuple(p.columns[0] for p in parts), parts[0].n_rows, from_array=False)


def _read_array(values: Any) -> Frame:
    array = _as_array(values)
    if array.dtype.names is not None:
        raise TableError("the table is a structured array: give a frame or a plain array")
    if array.ndim != 2:
        raise TableError(
            f"the table has {array.ndim} dimension(s), not rows × columns. Reshape your data, "
            "array.reshape(-1, 1) if it is one column"
        )
    _check_shape(*array.shape)
    names = tuple(f"x{j}" for j in range(array.shape[1]))
    return Frame(names, tuple(array.T), array.shape[0], from_array=True)


def _as_array(values: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """An array whose elements are as they were given: no number becomes text."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, str | bytes):
        raise TableError(f"the table is the text {reprlib.repr(values)}: give a frame or an array")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "USO" and not hasattr(values, "__array__"):
            array = np.array(values, dtype=object)
    except ValueError as error:
        raise TableError(
            f"the table cannot be read as rows × columns ({error}): give rows of one length"
        ) from error
    return array


def _check_names(frame: Any) -> None:
    """Before narwhals sees the names, because it refuses doubles in its own words."""
    names = getattr(frame, "column_names", None)
    if names is None:
        names = getattr(frame, "columns", None)
    refuse(TableError, doubled(() if names is None or callable(names) else map(str, names)))


def doubled(names: Iterable[str], table: str = "") -> Iterator[tuple[bool, str]]:
    """Whether names of columns of a table appear several times, and a sentence that says so."""
    rule = "column names must differ, rename or drop the copies"
    for name, count in Counter(names).items():
        yield count > 1, f"{table}column {name!r} appears {count} times: {rule}"


def _check_shape(n_rows: int, n_columns: int) -> None:
    if not n_columns:
        # The middle of this sentence is the one scikit-learn's tools look for.
        raise TableError(
            f"the table has no columns: 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 "
            "is required."
        )
    if not n_rows:
        raise TableError("the table is empty: it has no rows, give at least one")
    if n_columns > MAX_COLUMNS:
        raise TableError(
            f"{n_columns:,} columns: at most {MAX_COLUMNS:,} can be learned from, "
            "drop those that say nothing about the decision"
        )
