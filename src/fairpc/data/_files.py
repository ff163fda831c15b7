"""Table files: CSV, TSV, Parquet, Feather (Arrow); read and written in batches."""

from __future__ import annotations

import codecs
import contextlib
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from queue import Full, Queue
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from fairpc.core import (
    AnyPath,
    FileFormatError,
    TableError,
    need_threads,
    replacing,
)
from fairpc.data._delimited import Dialect, NotUtf8Error, read_dialect
from fairpc.data._frame import exactly

if TYPE_CHECKING:
    import polars as pl

Format = Literal["text", "parquet", "arrow"]
Types = Mapping[str, Any]  #: Polars' type of each column
SUFFIXES: Final[Mapping[str, Format]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".data"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}
KNOWN: Final = "CSV (.csv), TSV (.tsv), Parquet (.parquet) or Feather (.feather, .arrow)"
_QUERY: Final = "copy a query of it to Parquet"
_MAGIC: Final[Mapping[bytes, Format]] = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_REFUSED: Final = {
    b"\x1f\x8b": ("compressed with gzip", "unpack it first"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it first"),
    b"PK\x03\x04": ("an Excel workbook or a zip archive", "export its table as CSV"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "export its table as CSV"),
    b"\xff\xff\xff\xff": ("an Arrow stream", "write it as a file, such as Feather or Parquet"),
    b"FEA1": ("Feather of version 1", "write it again as Feather 2 or Parquet"),
    b"SQLite format 3": ("a database", _QUERY),
    b"{": ("JSON, in which models are written, not tables", "give a table, such as CSV or Parquet"),
}


@dataclass(frozen=True)
class TableFiles:
    """One table, in one file or in several of one format."""

    source: str  #: the table as the user called it
    paths: tuple[Path, ...]  #: the files, in the order of their names
    format: Format  #: text, Parquet or Arrow
    dialects: tuple[Dialect, ...] = ()  #: of each file, where they are text
    types: Types | None = None  #: of the columns, where files differ in them

    @property
    def delimiter(self) -> str:
        """What stands between values; a comma where the files are not text."""
        return self.dialects[0].delimiter if self.dialects else ","

    def scan(self, columns: Iterable[str] | None = None) -> pl.LazyFrame:
        """The rows of all files, of some columns or of all; the values of text files are text."""
        rows = self._scan()
        return rows if columns is None else rows.select(exactly(columns))

    def _scan(self) -> pl.LazyFrame:
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

    def text_names(self) -> tuple[str, ...]:
        """Names of the columns whose values can be written as text."""
        with self.reading():
            types = self.scan().collect_schema()
        return tuple(name for name, dtype in types.items() if is_textual(dtype))

    def read(self, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """All rows at once, of some columns or of all."""
        with self.reading():
            frame = self.scan(columns).collect(engine="streaming")
        if not frame.height:
            raise self.no_rows()
        return frame

    def batches(self, size: int, columns: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
        """The rows in order, about ``size`` at a time, of some columns or of all."""
        some = False
        with self.reading():
            for batch in in_batches(self.scan(columns), size):
                some = some or batch.height > 0
                yield batch
        if not some:
            raise self.no_rows()

    def no_rows(self) -> TableError:
        what = "a header" if self.format == "text" else "columns"
        return TableError(f"{self.source} has {what} and no rows: give at least one row")

    def reading(self) -> AbstractContextManager[None]:
        """A block in which what polars cannot read is said to be the fault of this table."""
        return reading(self.source)


@contextlib.contextmanager
def reading(source: str) -> Iterator[None]:
    """A block in which what polars cannot read is said to be the fault of this table."""
    try:
        yield
    except BaseException as error:
        why = "it is damaged or of another kind"
        if isinstance(error, OSError):
            why = "it was cut, moved or removed meanwhile"
        elif not _gave_up(error):
            raise
        raise FileFormatError(
            f"{source} cannot be read ({reason_of(error)}): {why}, write it again"
        ) from error


def _gave_up(error: BaseException | None) -> bool:
    """Whether a library gave up; a panic is not an Exception, and would end the program."""
    library = type(error).__module__.partition(".")[0]
    return library in ("polars", "pyo3_runtime")


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

    def read() -> None:
        try:
            frame.sink_batches(hand_over, chunk_size=size, engine="streaming")
        finally:
            hand_over(None)  # in this thread: the other one empties the queue

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            while (batch := made.get()) is not None:
                yield batch
            reading.result()
        finally:
            stopped.set()


def reason_of(error: BaseException | None) -> str:
    """The first line of what another library says."""
    return str(error).strip().partition("\n")[0].rstrip(".:")[:200]


def find(path: AnyPath, *, delimiter: str | None = None, source: str | None = None) -> TableFiles:
    """The table of a file, of a folder, or of files that match a pattern such as 'data/*.parquet'.

    The format follows from the first bytes, not from the name. ``source`` is what errors call the
    table, by default its path.
    """
    need_threads("to read a file")
    given = os.fspath(path)
    called = source or given
    paths = _paths(given, called)
    if odd := [p for p in paths if any("\udc80" <= c <= "\udcff" for c in str(p))]:
        raise FileFormatError(f"{odd[0]} has a name that is not UTF-8: rename it to be read")
    formats = [_format(p, called if len(paths) == 1 else str(p)) for p in paths]
    for p, one in zip(paths, formats, strict=True):
        if one != formats[0]:
            raise FileFormatError(
                f"{called}: {p.name} is {one} and {paths[0].name} is {formats[0]}: give files of "
                "one format"
            )
    if formats[0] != "text":
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


def _scan(paths: tuple[Path, ...], kind: Format) -> pl.LazyFrame:
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(list(paths), glob=False)
    return pl.scan_ipc([_unmapped(path) for path in paths], glob=False)


def _unmapped(path: Path) -> str:
    """The address of an Arrow file: polars would map a path, and the process end if it is cut."""
    address = path.resolve().as_posix()
    # An escape in an address is mapped again, but means the file that it says.
    bare = os.name == "posix" and address.isprintable() and "%" not in address
    return f"file://{address}" if bare else path.resolve().as_uri()


def _types(paths: tuple[Path, ...], kind: Format) -> Types | None:
    """Types that hold the columns of several files; None where all have the same, in one order.

    Numbers of several widths are joined, as are dates with instants and texts with categories.
    """
    import polars as pl

    per_file: list[Types] = []
    for path in paths:
        with reading(str(path)):
            per_file.append(_scan((path,), kind).collect_schema())
    if all(list(each.items()) == list(per_file[0].items()) for each in per_file):
        return None
    for path, types in zip(paths, per_file, strict=True):
        for name in sorted(per_file[0].keys() ^ types.keys()):
            raise FileFormatError(
                f"{path} and {paths[0].name} differ in column {name!r}, which one of them lacks: "
                "give files with the same columns"
            )
    kinds = {name: {_kind(types[name]) for types in per_file} - {"nothing"} for name in per_file[0]}
    odd = next((name for name, each in kinds.items() if len(each) > 1), None)
    texts = dict.fromkeys((name for name, each in kinds.items() if each == {"text"}), pl.String())
    empty = (pl.DataFrame(schema={n: t[n] for n in per_file[0]} | texts) for t in per_file)
    try:
        if odd is None:
            return pl.concat(empty, how="vertical_relaxed").schema
    except pl.exceptions.PolarsError as error:
        raise FileFormatError(f"files of one table differ in types ({error}): use one") from error
    shown = ", ".join(f"{types[odd]} in {p.name}" for p, types in zip(paths, per_file, strict=True))
    raise FileFormatError(f"column {odd!r} holds {shown[:300]}: write it with one type")


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
        raise FileFormatError(f"{called!r} is not a path ({error}): give that of a table") from None
    if inside is not None:
        return _inside([p for p in inside if p.name[0] not in "_."], called)
    if regular:
        return (path,)
    if exists:
        raise FileFormatError(f"{called} is not a regular file: give the path of one")
    matched = sorted(Path(p) for p in glob(given, recursive=True) if Path(p).is_file())  # noqa: PTH207 - absolute patterns
    if not matched:
        what = "no file matches" if has_magic(given) else "there is no file"
        raise FileFormatError(f"{what} {called}: check the name and the folder")
    return tuple(matched)


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
    """Whether a file is one of a table's, or would be if it were written; links are followed."""
    given, target = os.fspath(table), Path(os.path.realpath(path))
    try:
        files = _paths(given, given)
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
    if head[8:12] == b"DUCK" and b"\0" in head:
        raise FileFormatError(f"{called} is a database: {_QUERY}")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise NotUtf8Error(f"{called} is written in UTF-16: save it as UTF-8, or give its encoding")
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
    have tabs, whatever the ``delimiter``. Durations are text in text files.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    chosen = format_of(target) if isinstance(target, str | os.PathLike) else "text"
    rows_made = _texts(batches) if chosen == "text" else (batch for batch in batches)
    schema = dict(as_texts(pl.DataFrame(schema=schema)).schema) if chosen == "text" else schema
    try:
        if not isinstance(target, str | os.PathLike):
            for i, batch in enumerate(rows_made):
                target.write(batch.write_csv(separator=delimiter, include_header=not i).encode())
            return
        if Path(target).suffix.lower() in (".tsv", ".tab"):
            delimiter = "\t"
        with replacing(target) as temporary:
            rows = register_io_source(lambda *_: rows_made, schema=dict(schema))
            if chosen == "text":
                rows.sink_csv(temporary, separator=delimiter)
            elif chosen == "parquet":
                rows.sink_parquet(temporary, row_group_size=1 << 17)
            else:
                rows.sink_ipc(temporary, compat_level=pl.CompatLevel.oldest())
    except BaseException as error:
        if not _gave_up(error):
            raise
        called = os.fspath(target) if isinstance(target, str | os.PathLike) else "the table"
        raise TableError(
            f"{called} cannot be written ({reason_of(error)}): make room, write Parquet "
            "instead of text, or drop the column that is named"
        ) from error
    finally:
        _close(rows_made)


def _close(rows: Generator[Any]) -> None:
    """End what makes rows: a thread of polars that is still at it would abort a program's end."""
    while True:
        try:
            rows.close()
            return
        except ValueError:  # it runs
            time.sleep(0.01)


def is_textual(dtype: Any) -> bool:
    """Whether values of a type can be written as text."""
    import polars as pl

    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Object))


def as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """A table whose durations are text, which text files have no other form for."""
    import polars as pl

    return frame.with_columns(pl.selectors.duration().dt.to_string("iso"))


def _texts(batches: Iterable[pl.DataFrame]) -> Generator[pl.DataFrame]:
    for batch in batches:
        yield as_texts(batch)


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
