"""Tables inside other files: sheets of a workbook, tables of an SQLite or DuckDB database.

Such a table is copied to a Parquet file of our own, a few rows at a time, and then read as any
other is. ``book.xlsx::Loans`` and ``bank.sqlite::loans`` name the table; where there is one only,
the file alone is enough. Files come from strangers: sizes are looked at before a library is,
nothing in a file is run (no view, no virtual table, no extension), and names meet SQL only as
quoted identifiers that the catalogue of the file lists.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from fairpc.data.frame import MAX_COLUMNS, exactly
from fairpc.data.values import EXACT
from fairpc.errors import FileFormatError, MissingExtraError

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["workbook", "sqlite", "duckdb"]

INSIDE: Final = "::"
"""What stands between a file and the name of a table in it."""
MOST_BYTES: Final = 1 << 31
"""Bytes of a workbook when it is unpacked, at most: it is read as a whole."""
MOST_CELLS: Final = 100_000_000
"""Cells of a sheet between its first and its last one, at most: empty ones take memory too."""
MOST_PARTS: Final = 10_000

_WORDS: Final[Mapping[Kind, str]] = {"workbook": "sheet", "sqlite": "table", "duckdb": "table"}
_BATCH: Final = 50_000
_PIECE: Final = 1 << 20
_CELL: Final = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"')
_ROW: Final = re.compile(rb'<(?:\w+:)?row\b[^>]*?\br="([0-9]{1,7})"')
_TAG: Final = 4096  # bytes of a tag, at most, that are looked at again with the next piece
_SQLITE_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
)
# polars asks for rows from a thread of its own, while this one waits.
_SQLITE: Final[dict[str, Any]] = {"uri": True, "check_same_thread": False}
_DUCKDB_TABLES: Final = (
    "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND schema_name = current_schema() "
    "ORDER BY table_name"
)
_DUCKDB_COLUMNS: Final = (
    "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND NOT internal "
    "AND schema_name = current_schema() ORDER BY column_index"
)
_DUCKDB_SAFE: Final[dict[str, Any]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Scratch:
    """A folder that goes when nobody knows it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fairpc-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def split(given: str) -> tuple[str, str | None]:
    """The path of a file and the name of a table in it, None where it is not named."""
    path, mark, inside = given.rpartition(INSIDE)
    if not mark or Path(given).exists():
        return given, None
    return path, inside


def kind_of(path: Path) -> Kind | None:
    """What a file is by its first bytes; None where no table is inside."""
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if head[8:12] == b"DUCK":
        return "duckdb"
    if head.startswith(b"PK\x03\x04") and _is_workbook(path):
        return "workbook"
    return None


def copied(path: Path, kind: Kind, inside: str | None, called: str) -> tuple[Path, Scratch]:
    """A table in a file as a Parquet file of our own, in a folder that goes with it."""
    import polars as pl

    opening: Mapping[Kind, Callable[..., Any]] = {
        "workbook": _workbook,
        "sqlite": _sqlite,
        "duckdb": _duckdb,
    }
    with opening[kind](path, called) as (names, read):
        name = _chosen(names, inside, _WORDS[kind], called)
        schema, batches = read(name)
        if len(schema) > MAX_COLUMNS:
            raise FileFormatError(
                f"{called} has {len(schema):,} columns: at most {MAX_COLUMNS:,} can be learned "
                "from, drop those that say nothing about the decision"
            )
        folder = Scratch()
        target = folder.path / "table.parquet"
        try:
            _write(batches, schema, target)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _unreadable(called, error) from error
    return target, folder


def _write(batches: Iterator[pl.DataFrame], schema: Mapping[str, Any], target: Path) -> None:
    from polars.io.plugins import register_io_source

    rows = register_io_source(lambda *_: batches, schema=dict(schema))
    rows.sink_parquet(target)


def _chosen(names: Sequence[str], inside: str | None, word: str, called: str) -> str:
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if not names:
        raise FileFormatError(f"{called} has no {word}s: give a file with one")
    if inside is not None and inside not in names:
        raise FileFormatError(f"{called}: there is no {word} {inside!r}, name one of {shown}")
    if inside is None and len(names) > 1:
        raise FileFormatError(
            f"{called} has {len(names)} {word}s ({shown}): name one, as in "
            f"'{called}{INSIDE}{names[0]}'"
        )
    return names[0] if inside is None else inside


def _is_workbook(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.startswith(("xl/", "xl\\")) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _extra(library: str, extra: str, what: str, instead: str) -> Any:
    """A library that reads a kind of file; an error names the extra that brings it."""
    try:
        return import_module(library)
    except ImportError:
        raise MissingExtraError(
            f"{what}, which needs {library}: pip install 'fairpc[{extra}]', or export {instead}"
        ) from None


@contextmanager
def _workbook(path: Path, called: str) -> Iterator[Any]:
    """The sheets of an Excel workbook, and how one is read."""
    fastexcel = _extra("fastexcel", "excel", f"{called} is an Excel workbook", "the sheet as CSV")
    _check_workbook(path, called)
    try:
        reader = fastexcel.read_excel(path)
    except fastexcel.FastExcelError as error:
        raise _unreadable(called, error) from None

    def read(name: str) -> tuple[Mapping[str, Any], Iterator[pl.DataFrame]]:
        try:
            sheet = reader.load_sheet(name, schema_sample_rows=None, dtype_coercion="coerce")
            frame = _whole(sheet.to_polars())
        except fastexcel.FastExcelError as error:
            raise _unreadable(called, error) from None
        return frame.schema, iter([frame])

    yield reader.sheet_names, read


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Whole numbers as such: a workbook has floats alone."""
    import polars as pl

    def is_whole(series: pl.Series) -> bool:
        known = series.drop_nulls()
        return bool(((known == known.round()) & (known.abs() < EXACT)).all())

    whole = exactly([s.name for s in frame.select(pl.col(pl.Float64)) if is_whole(s)])
    return frame.with_columns(whole.cast(pl.Int64))


def _check_workbook(path: Path, called: str) -> None:
    """Refuse a workbook that is small and would be large in memory: unpacked, or by empty cells."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_BYTES:
                raise FileFormatError(
                    f"{called} has more than {MOST_BYTES >> 30} GB when it is unpacked: export the "
                    "sheet as CSV or Parquet"
                )
            for part in parts:
                rows, columns = _extent(archive, part)
                if rows * columns > MOST_CELLS:
                    raise FileFormatError(
                        f"{called} has a sheet of {rows:,} rows and {columns:,} columns, more than "
                        f"{MOST_CELLS:,} cells: export it as CSV or Parquet"
                    )
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise _unreadable(called, error) from None


def _extent(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> tuple[int, int]:
    """Rows and columns up to the last cell of a sheet; of parts that are no sheet, whatever."""
    rows = columns = 0
    if not part.filename.endswith(".xml"):
        return rows, columns
    with archive.open(part) as file:
        kept = b""
        while piece := file.read(_PIECE):
            text = kept + piece
            for column, row in set(_CELL.findall(text)):
                rows, columns = max(rows, int(row)), max(columns, _place(column))
            rows = max([rows, *map(int, _ROW.findall(text))])
            kept = text[-_TAG:]
    return rows, columns


def _place(letters: bytes) -> int:
    """The number of a column: A is 1, Z 26, AA 27."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _sqlite(path: Path, called: str) -> Any:
    """The tables of an SQLite database, and how one is read; views are left alone."""

    def connect() -> sqlite3.Connection:
        base: sqlite3.Connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", **_SQLITE)
        base.execute("PRAGMA trusted_schema = OFF")
        base.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        return base

    return _database(connect, sqlite3.Error, _SQLITE_TABLES, _sqlite_rows, called)


@contextmanager
def _database(
    connect: Callable[[], Any],
    wrong: type[Exception],
    tables: str,
    rows_of: Callable[[Any, str], Any],
    called: str,
) -> Iterator[Any]:
    """The tables that a query lists, and how one is read; what goes wrong is an error of ours."""
    try:
        with closing(connect()) as base:
            names = [name for (name,) in base.execute(tables).fetchall()]
            yield names, lambda name: rows_of(base, name)
    except wrong as error:
        raise _unreadable(called, error) from None


def _sqlite_rows(
    base: sqlite3.Connection, table: str
) -> tuple[Mapping[str, Any], Iterator[pl.DataFrame]]:
    import polars as pl

    source = _quoted(table)
    names = [row[1] for row in base.execute(f"PRAGMA table_info({source})")]
    schema = {}
    for name in names:
        found = base.execute(f"SELECT DISTINCT typeof({_quoted(name)}) FROM {source}")  # noqa: S608
        types = {kind for (kind,) in found} - {"null"}
        schema[name] = (
            pl.Int64()
            if types <= {"integer"}
            else pl.Float64()
            if types <= {"integer", "real"}
            else pl.Binary()
            if types == {"blob"}
            else pl.String()
        )
    listed = ", ".join(
        f"CAST({_quoted(name)} AS TEXT)" if kind == pl.String else _quoted(name)
        for name, kind in schema.items()
    )
    return schema, _fetched(base.execute(f"SELECT {listed} FROM {source}"), schema)  # noqa: S608


def _duckdb(path: Path, called: str) -> Any:
    """The tables of a DuckDB database, and how one is read; views are left alone."""
    duckdb = _extra("duckdb", "duckdb", f"{called} is a DuckDB database", "the table as Parquet")

    def connect() -> Any:
        return duckdb.connect(str(path), read_only=True, config=_DUCKDB_SAFE)

    return _database(connect, duckdb.Error, _DUCKDB_TABLES, _duckdb_rows, called)


def _duckdb_rows(base: Any, table: str) -> tuple[Mapping[str, Any], Iterator[pl.DataFrame]]:
    columns = base.execute(_DUCKDB_COLUMNS, [table]).fetchall()
    schema, listed = {}, []
    for name, kind in columns:
        schema[name], cast = _duckdb_type(kind)
        # A cast of an instant would give the hour of this machine's time zone; ours are in UTC.
        zoned = kind == "TIMESTAMP WITH TIME ZONE"
        value = f"make_timestamp(epoch_us({_quoted(name)}))" if zoned else _quoted(name)
        listed.append(f"CAST({value} AS {cast})")
    source = f"SELECT {', '.join(listed)} FROM {_quoted(table)}"  # noqa: S608
    return schema, _fetched(base.execute(source), schema)


def _duckdb_type(kind: str) -> tuple[Any, str]:
    """Polars' type of a column, and DuckDB's that it is read as; what is nested is text."""
    import polars as pl

    known = {
        "BOOLEAN": (pl.Boolean(), "BOOLEAN"),
        "DATE": (pl.Date(), "DATE"),
        "BLOB": (pl.Binary(), "BLOB"),
        **dict.fromkeys(
            ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
            (pl.Int64(), "BIGINT"),
        ),
        **dict.fromkeys(("UBIGINT", "HUGEINT", "FLOAT", "DOUBLE"), (pl.Float64(), "DOUBLE")),
    }
    if kind.startswith("DECIMAL"):
        return pl.Float64(), "DOUBLE"
    if kind.startswith("TIMESTAMP"):
        return pl.Datetime("us"), "TIMESTAMP"
    return known.get(kind, (pl.String(), "VARCHAR"))


def _fetched(cursor: Any, schema: Mapping[str, Any]) -> Iterator[pl.DataFrame]:
    """The rows of a query, some at a time."""
    import polars as pl

    while rows := cursor.fetchmany(_BATCH):
        yield pl.DataFrame(rows, schema=dict(schema), orient="row", strict=False)


def _quoted(name: str) -> str:
    """A name as SQL takes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def _unreadable(called: str, error: BaseException) -> FileFormatError:
    reason = str(error).strip().partition("\n")[0].rstrip(".:")[:200]
    return FileFormatError(
        f"{called} cannot be read ({reason}): it is damaged or of another kind, write it again"
    )
