"""Table files: CSV, TSV, Parquet, Feather (Arrow); scanned lazily, read and written in batches."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from queue import Full, Queue
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from fairpc.data import containers
from fairpc.data.atomic import AnyPath, replacing
from fairpc.data.containers import Scratch
from fairpc.data.delimited import Dialect, read_dialect, refuse_copies
from fairpc.data.forks import need_threads
from fairpc.data.frame import exactly
from fairpc.errors import FileFormatError, TableError

if TYPE_CHECKING:
    import polars as pl

Format = Literal["text", "parquet", "arrow"]
Types = Mapping[str, Any]
"""Polars' type of each column."""
_MAX_FOOTER: Final = 16 * 2**20
"""Most bytes behind the rows of an Arrow file that are read for the names of its columns."""

SUFFIXES: Final[Mapping[str, Format]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".data"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}
KNOWN: Final = "CSV (.csv), TSV (.tsv), Parquet (.parquet) or Feather (.feather, .arrow)"
_ALONE: Final = "give it by itself, not in a folder or a pattern, or export the table as CSV"

_MAGIC: Final[Mapping[bytes, Format]] = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_REFUSED: Final = {
    b"\x1f\x8b": ("compressed with gzip", "unpack it first"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it first"),
    b"PK\x03\x04": ("a zip archive or a workbook", f"unpack it, or {_ALONE}"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "export it as CSV"),
    b"\xff\xff\xff\xff": ("an Arrow stream", "write it as a file, such as Feather or Parquet"),
    b"FEA1": ("Feather of version 1", "write it again as Feather 2 or Parquet"),
    b"SQLite format 3": ("a database", _ALONE),
    b"%PDF": ("a PDF document", "export the table as CSV"),
    b"{": ("JSON, in which models are written, not tables", "give a table, such as CSV or Parquet"),
}


@dataclass(frozen=True)
class TableFiles:
    """One table, in one file or in several of one format.

    Attributes:
        source: the table as the user called it.
        paths: the files, in the order of their names.
        format: text, Parquet or Arrow.
        dialects: of each file, where they are text.
        types: of the columns, where files differ in them.
        folder: where a copy is, if the table was inside another file; it goes with this.
    """

    source: str
    paths: tuple[Path, ...]
    format: Format
    dialects: tuple[Dialect, ...] = ()
    types: Types | None = None
    folder: Scratch | None = None

    @property
    def delimiter(self) -> str:
        """What stands between values; a comma where the files are no text."""
        return self.dialects[0].delimiter if self.dialects else ","

    def scan(self) -> pl.LazyFrame:
        """The rows of all files; the values of text files are text."""
        import polars as pl

        if self.format == "text":
            parts = [d.scan(p) for p, d in zip(self.paths, self.dialects, strict=True)]
            names = exactly(self.dialects[0].names)
            return pl.concat([part.select(names) for part in parts]) if parts[1:] else parts[0]
        if self.types is None:
            return _scan(self.paths, self.format)
        columns = [exactly([name]).cast(dtype) for name, dtype in self.types.items()]
        return pl.concat([_scan((path,), self.format).select(columns) for path in self.paths])

    def one(self, k: int) -> TableFiles:
        """The table of file ``k`` alone."""
        return replace(self, paths=(self.paths[k],), dialects=self.dialects[k : k + 1])

    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        if self.dialects:
            return self.dialects[0].names
        with self.reading():
            return tuple(self.scan().collect_schema().names())

    def read(self) -> pl.DataFrame:
        """All rows at once."""
        with self.reading():
            frame = self.scan().collect(engine="streaming")
        if not frame.height:
            raise self.no_rows()
        return frame

    def batches(self, size: int) -> Iterator[pl.DataFrame]:
        """The rows in order, about ``size`` at a time."""
        some = False
        with self.reading():
            for batch in in_batches(self.scan(), size):
                some = some or batch.height > 0
                yield batch
        if not some:
            raise self.no_rows()

    def no_rows(self) -> TableError:
        what = "a header" if self.format == "text" else "columns"
        return TableError(f"{self.source} has {what} and no rows: give at least one row")

    def reading(self) -> Reading:
        """A block in which what polars cannot read is said to be this table's fault."""
        return Reading(self.source)


@dataclass(frozen=True)
class Reading:
    source: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import polars as pl

        if isinstance(error, pl.exceptions.DuplicateError):
            raise FileFormatError(
                f"{self.source} cannot be read ({reason_of(error)}): column names must differ, "
                "rename or drop the copies"
            ) from error
        # A panic is no Exception: who catches those would let it end the program.
        if isinstance(error, (pl.exceptions.PolarsError, pl.exceptions.PanicException)):
            raise FileFormatError(
                f"{self.source} cannot be read ({reason_of(error)}): it is damaged or of another "
                "kind, write it again"
            ) from error
        if isinstance(error, OSError):
            raise FileFormatError(
                f"{self.source} cannot be read ({reason_of(error)}): it was cut, moved or removed "
                "meanwhile, write it again"
            ) from error


def in_batches(frame: pl.LazyFrame, size: int) -> Iterator[pl.DataFrame]:
    """The rows in order, about ``size`` at a time.

    Polars' ``collect_batches`` ends early, without an error, where a thread panics.
    """
    made: Queue[pl.DataFrame | None] = Queue(1)
    stopped = Event()

    def hand_over(batch: pl.DataFrame | None) -> bool:
        while not stopped.is_set():
            with contextlib.suppress(Full):
                made.put(batch, timeout=0.1)
                return False
        return True  # nobody asks for more

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(frame.sink_batches, hand_over, chunk_size=size, engine="streaming")
        run.add_done_callback(lambda _: hand_over(None))
        try:
            while (batch := made.get()) is not None:
                yield batch
            run.result()
        finally:
            stopped.set()


def reason_of(error: BaseException) -> str:
    """The first line of what another library says; of a panic, what it is about."""
    said = str(error).strip()
    inside = _PANIC.search(said)
    return (inside[1] if inside else said).partition("\n")[0].rstrip(".:")[:200]


_PANIC: Final = re.compile(r'(?:Panic\(Id\(\d+\), |ErrString\()"(.*?)(?:\\n|"|$)')


def find(path: AnyPath, *, delimiter: str | None = None, source: str | None = None) -> TableFiles:
    """The table of a file, of a folder, or of files that match a pattern such as 'data/*.parquet'.

    A sheet of a workbook, or a table of a database, is named after two colons, as in
    'bank.sqlite::loans'.
    The format is told by the first bytes, not by the name. ``source`` is what
    errors call the table, by default its path.
    """
    need_threads("to read a file")
    given = os.fspath(path)
    called = source or given
    file, inside = containers.split(given)
    paths = _paths(file, called)
    kind = containers.kind_of(paths[0]) if len(paths) == 1 and Path(file).is_file() else None
    if kind is not None:
        copy, folder = containers.copied(paths[0], kind, inside, source or file)
        return TableFiles(called, (copy,), "parquet", folder=folder)
    if inside is not None:
        raise FileFormatError(
            f"{file} has no tables inside that could be named ({inside!r}): name a sheet of an "
            "Excel workbook, or a table of an SQLite or DuckDB database"
        )
    formats = [_format(p, called if len(paths) == 1 else str(p)) for p in paths]
    for p, one in zip(paths, formats, strict=True):
        if one != formats[0]:
            raise FileFormatError(
                f"{called}: {p.name} is {one} and {paths[0].name} is {formats[0]}: give files of "
                "one format"
            )
    if formats[0] != "text":
        _refuse_unknown_types(paths, formats[0], called)
        types = _types(paths, formats[0]) if len(paths) > 1 else None
        return TableFiles(called, paths, formats[0], types=types)
    dialects = tuple(
        read_dialect(p, called if len(paths) == 1 else str(p), delimiter) for p in paths
    )
    for p, dialect in zip(paths, dialects, strict=True):
        if sorted(dialect.names) != sorted(dialects[0].names):
            raise FileFormatError(
                f"{p} has other columns than {paths[0]}: give files with one header"
            )
    return TableFiles(called, paths, "text", dialects)


def scan(path: AnyPath, *, delimiter: str | None = None) -> pl.LazyFrame:
    """The rows of a file, folder or pattern, lazily; the values of text files are text."""
    return find(path, delimiter=delimiter).scan()


def _scan(paths: tuple[Path, ...], kind: Format) -> pl.LazyFrame:
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(list(paths), glob=False)
    return pl.scan_ipc([_unmapped(path) for path in paths], glob=False)


def _unmapped(path: Path) -> str:
    """The address under which polars reads an Arrow file, where it would map a path into memory.

    Whoever cuts a file that is mapped ends the process (SIGBUS). An escape in an address is mapped
    again, but means the file that it says.
    """
    plain = path.resolve().as_posix()
    bare = os.name == "posix" and plain.isprintable() and "%" not in plain
    return f"file://{plain}" if bare else path.resolve().as_uri()


def _refuse_unknown_types(paths: tuple[Path, ...], kind: Format, called: str) -> None:
    """A FileFormatError where polars panics at names given twice, unions, intervals, time zones.

    It is asked for a row before all else, because it writes its own account of a panic past Python
    to stderr, and no longer than this may stderr be closed.
    """
    for path in paths:
        source = called if len(paths) == 1 else str(path)
        if kind == "arrow":
            refuse_copies(_arrow_names(path), source)
        with Reading(source), _without_stderr():
            _scan((path,), kind).head(1).collect(engine="streaming")


def _arrow_names(path: Path) -> list[str]:
    """Names of the columns of an Arrow file, from its last bytes; none where they cannot be read.

    Polars counts equal ones once, and then panics. What is behind the rows is a FlatBuffer: places
    count from themselves, and what a table has at which place is in a list that it points to.
    """
    footer = _arrow_footer(path)

    def at(kind: str, place: int) -> int:
        (found,) = struct.unpack_from(kind, footer, place)
        return int(found)

    def below(table: int, field: int) -> int:
        fields = table - at("<i", table)
        here = at("<H", fields + 4 + 2 * field) if 4 + 2 * field < at("<H", fields) else 0
        return table + here + at("<I", table + here) if here else len(footer)

    names: list[str] = []
    try:
        columns = below(below(at("<I", 0), 1), 1)  # the fields of the schema of the footer
        left = len(footer)
        for k in range(at("<I", columns)):
            place = columns + 4 + 4 * k
            text = below(place + at("<I", place), 0)
            left -= at("<I", text) + 4
            if left < 0:  # texts that overlap would be more than there is
                return []
            names.append(footer[text + 4 : text + 4 + at("<I", text)].decode())
    except (struct.error, UnicodeDecodeError):
        return []
    return names


def _arrow_footer(path: Path) -> bytes:
    """What an Arrow file says of its columns and batches; nothing where it is too long."""
    end = len(b"ARROW1") + 4
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - end, 0))
        length = int.from_bytes(file.read(4), "little")
        if not 0 < length <= min(size - end, _MAX_FOOTER):
            return b""
        file.seek(size - end - length)
        return file.read(length)


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """A block in which nothing reaches the stderr of the process."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _types(paths: tuple[Path, ...], kind: Format) -> Types | None:
    """Types of the columns of several files, where they differ; each is asked by itself."""
    found: list[tuple[Path, Types]] = []
    for path in paths:
        with Reading(str(path)):
            found.append((path, _scan((path,), kind).collect_schema()))
    return common_types(found)


def _paths(given: str, called: str) -> tuple[Path, ...]:
    if not given:
        raise FileFormatError("the table has an empty name: give the path of one")
    path = Path(given)
    try:
        inside = sorted(path.iterdir()) if path.is_dir() else None
        exists, regular = path.exists(), path.is_file()
    except PermissionError:
        raise FileFormatError(f"{called} may not be read: ask for permission") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{called!r} is no path ({error}): give that of a table") from None
    if inside is not None:
        return _inside([p for p in inside if not p.name.startswith(("_", "."))], called)
    if regular:
        return (path,)
    if exists:
        raise FileFormatError(f"{called} is not a regular file: give the path of one")
    if has_magic(given):
        matched = sorted(Path(p) for p in glob(given, recursive=True) if Path(p).is_file())  # noqa: PTH207 - absolute patterns
        if matched:
            return tuple(matched)
        raise FileFormatError(f"no file matches {called}: check the pattern and the folder")
    raise FileFormatError(f"there is no file {called}: check the name and the folder")


def _inside(entries: list[Path], called: str) -> tuple[Path, ...]:
    """The tables of a folder; what looks like more of them below it is not left out silently."""
    tables = tuple(p for p in entries if p.suffix.lower() in SUFFIXES and p.is_file())
    alike = {p.suffix.lower() for p in tables} or set(SUFFIXES)
    for folder in filter(Path.is_dir, entries):
        for below in folder.rglob("*"):
            if below.suffix.lower() in alike and below.is_file():
                raise FileFormatError(
                    f"{called} has tables in folders below it, such as {folder.name}: give a "
                    f"pattern, such as '{called}/**/*{below.suffix}'"
                )
    if not tables:
        raise FileFormatError(f"{called} is a folder without tables: put {KNOWN} into it")
    return tables


def is_part(path: AnyPath, table: AnyPath) -> bool:
    """Whether a file is one of a table's, or would be if it were written.

    A table is a file, a folder or a pattern; links are followed.
    """
    given, target = os.fspath(table), Path(os.path.realpath(path))
    try:
        file, _ = containers.split(given)
        files = _paths(file, given)
    except FileFormatError:
        return False  # who reads the table says why it cannot be read
    if target.exists() and any(target.samefile(file) for file in files):
        return True
    source = Path(given)
    if source.is_dir():
        return target.parent == source.resolve() and target.suffix.lower() in SUFFIXES
    if source.exists():
        return False
    pattern = (source.parent.resolve() / source.name).parts
    return len(pattern) == len(target.parts) and all(map(fnmatch, target.parts, pattern))


def _format(path: Path, called: str) -> Format:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except PermissionError:
        raise FileFormatError(f"{called} may not be read: ask for permission") from None
    for magic, known in _MAGIC.items():
        if head.startswith(magic):
            return known
    for magic, (what, repair) in _REFUSED.items():
        if head.startswith(magic):
            raise FileFormatError(f"{called} is {what}: {repair}")
    named = SUFFIXES.get(path.suffix.lower(), "text")
    if named != "text":
        raise FileFormatError(
            f"{called} is {'no' if head else 'empty, which is no'} {named.capitalize()} file, "
            f"whatever its name says: give {KNOWN}"
        )
    return "text"


def format_of(path: AnyPath) -> Format:
    """The format that the name of a file to be written asks for."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        ending = f"the ending {suffix!r}" if suffix else "no ending"
        raise FileFormatError(f"{os.fspath(path) or repr('')} has {ending}: use {KNOWN}")
    return SUFFIXES[suffix]


def write_table(
    batches: Iterable[pl.DataFrame],
    schema: Mapping[str, Any],
    target: AnyPath | BinaryIO,
    *,
    delimiter: str = ",",
) -> None:
    """Write batches to a file, whole or not at all, as its name asks; or to a stream, as text.

    Only a few batches are in memory at a time. Files that end in .tsv or .tab
    have tabs, whatever the ``delimiter``.
    """
    from polars.io.plugins import register_io_source

    if not isinstance(target, str | os.PathLike):
        for i, batch in enumerate(batches):
            target.write(batch.write_csv(separator=delimiter, include_header=not i).encode())
        return
    chosen = format_of(target)
    if chosen == "text":
        batches = map(_with_dates_of_calendar, batches)
    rows = register_io_source(lambda *_: iter(batches), schema=dict(schema))
    if Path(target).suffix.lower() in (".tsv", ".tab"):
        delimiter = "\t"
    with replacing(target) as temporary:
        _sink(rows, temporary, chosen, delimiter, os.fspath(target))


def _with_dates_of_calendar(batch: pl.DataFrame) -> pl.DataFrame:
    """The batch; a TableError where text has no word for a date, at which polars would panic."""
    import polars as pl

    for name, kind in batch.schema.items():
        if isinstance(kind, pl.Date | pl.Datetime):
            days = batch[name].cast(pl.Datetime("ms")).dt.epoch("ms") // 86_400_000
            if (days.abs() > _MOST_DAYS).any():
                raise TableError(
                    f"column {name!r} has a date more than 260,000 years away, which has no text: "
                    "write Parquet, or drop the column"
                )
    return batch


_MOST_DAYS: Final = 95_000_000


def _sink(rows: pl.LazyFrame, path: Path, chosen: Format, delimiter: str, called: str) -> None:
    import polars as pl

    try:
        if chosen == "text":
            rows.sink_csv(path, separator=delimiter)
        elif chosen == "parquet":
            rows.sink_parquet(path, row_group_size=_ROW_GROUP)
        else:
            rows.sink_ipc(path, compat_level=pl.CompatLevel.oldest())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        failed = _OS_ERROR.search(str(error))
        if failed is not None:  # a full disk, say: no format would help
            raise OSError(int(failed[1]), os.strerror(int(failed[1]))) from error
        repair = "write Parquet, which holds any column"
        if chosen == "parquet":
            repair = "drop or convert the column that is named"
        raise TableError(f"{called} cannot be written ({reason_of(error)}): {repair}") from error


_ROW_GROUP: Final = 1 << 17
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")


def common_types(files: Sequence[tuple[Path, Types]]) -> Types | None:
    """The types that hold the columns of all files; None where all have the same, in one order.

    Numbers of several widths are joined, as are dates with instants and texts with categories. A
    FileFormatError names a file that lacks a column, or has numbers where others have text.
    """
    first, types = files[0]
    for path, other in files[1:]:
        for name in sorted(types.keys() ^ other.keys()):
            without, having = (path, first) if name in types else (first, path)
            raise FileFormatError(
                f"{without} has no column {name!r}, and {having.name} has one: give files with the "
                "same columns"
            )
    if all(list(other.items()) == list(types.items()) for _, other in files):
        return None
    return {name: _common(name, [(path, other[name]) for path, other in files]) for name in types}


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
