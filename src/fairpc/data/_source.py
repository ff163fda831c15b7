"""Where rows come from: frames, files, folders, globs, lazy frames. A source hands out batches."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairpc.core import FairpcError, TableWarning, counted, need_threads, thread_count, warn_caller
from fairpc.data._column_summary import FAN_IN
from fairpc.data._files import TableFiles, find, in_batches, reading
from fairpc.data._frame import Frame, exactly, read_frame
from fairpc.data._table import UNBOUNDED, Distinct, DistinctSum, PartWriter, RowParts
from fairpc.data._values import Sentinel

if TYPE_CHECKING:
    from fairpc.data._coding import RowEncoder

T = TypeVar("T")
BATCH_ROWS: Final = 1 << 18  #: rows that are worked on at once
READ_ROWS: Final = 1 << 19
"""Rows that are read at once: to read half as many takes a quarter more time for each."""


@dataclass(frozen=True)
class ReadingProgress:
    """How far a pass over a table has come."""

    stage: str  #: what is being done
    done: int  #: bytes of the files that were read; rows of a lazy frame
    total: int | None  #: bytes of the files; None for a lazy frame
    unit: str  #: "bytes" or "rows"

    @property
    def line(self) -> str:
        """All of it in words."""
        done = f"{self.done:,} {self.unit}"
        if self.total:
            done = f"{self.done / self.total:.0%} of {self.total / 1e6:,.0f} MB"
        return f"{self.stage}, {done}"


Watcher = Callable[[ReadingProgress], object]
Work = Callable[[Frame], T]  #: what is made of a batch
_APART: Final = "\0"


def apart_name(name: str, role: str) -> str:
    """The name under which a column that is given apart from the table joins its source."""
    return f"{_APART}{role}{_APART}{name}"


def shown_name(name: str) -> str:
    """The name of a column as the user knows it."""
    return name.rpartition(_APART)[2]


@dataclass(frozen=True)
class Roles:
    """Which columns of a source are what."""

    label: str  #: the recorded label
    sensitive: tuple[str, ...]  #: the sensitive columns
    features: tuple[str, ...]  #: all others that may be used
    weight: str | None = None  #: the column of row weights, if any
    missing_values: tuple[Sentinel, ...] = ()  #: values that mean "missing", besides null and NaN
    numeric: frozenset[str] = frozenset()  #: features that are said to hold numbers
    names: tuple[str, ...] = ()  #: all columns of the table, without those given separately
    decimal: str = "."  #: the decimal mark of numbers in text
    positional: bool = False  #: whether they are known by position
    groups_positional: bool = False  #: whether the sensitive columns are known by position

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is summarised, once."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((self.label, *self.sensitive, *weight, *self.features)))


class Source(ABC):
    """A table to be read in order, any number of times, batch by batch.

    Where rows lie, and who adds up what batches give, is all that sources differ in.
    """

    names: tuple[str, ...]  #: its columns
    paths: tuple[Path, ...] = ()  #: its files, if it is made of files
    from_array: bool = False  #: whether columns are known by position
    in_memory: bool = False  #: whether the table is a single batch
    in_partitions: bool = False  #: whether the table comes in partitions of unknown length

    @property
    def n_rows(self) -> float | None:
        """How many rows there are, of text about; None if that is not known."""
        return None

    @property
    def types(self) -> Mapping[str, Any]:
        """Polars' types of the columns, where they are known."""
        return {}

    @abstractmethod
    def map(
        self, columns: Sequence[str], work: Work[T], stage: str = "", watch: Watcher | None = None
    ) -> Iterator[T]:
        """What ``work`` makes of each batch, in order; ``watch`` is called after each reading."""

    def total(
        self,
        columns: Sequence[str],
        work: Work[T],
        add: Callable[[Sequence[T]], T],
        *,
        stage: str = "",
        watch: Watcher | None = None,
    ) -> T | None:
        """The sum of what ``work`` makes of each batch; None of a table without rows."""
        tree = SumTree(add)
        for part in self.map(columns, work, stage, watch):
            tree.push(part)
        total: T | None = tree.total()
        return total

    def distinct(
        self,
        encoder: RowEncoder,
        *,
        most: int = UNBOUNDED,
        folder: Path | None = None,
        watch: Watcher | None = None,
    ) -> Distinct | RowParts | None:
        """The distinct rows of the table, in one pass; None of a table without rows.

        Where more than ``most`` would be in memory they stay in parts, on disk in ``folder``.
        """
        writer = PartWriter(folder or Path(), encoder.packing)
        total = DistinctSum(UNBOUNDED if folder is None else most, writer.write)
        for part in self.map(encoder.columns, encoder, "rows", watch):
            total.push(part)
        rows = total.total()
        return writer.finish() if total.n_spilled else rows


@dataclass(frozen=True, eq=False)
class FrameSource(Source):
    """A table in memory: one batch."""

    frame: Frame
    names: tuple[str, ...]
    from_array: bool
    in_memory: bool = True

    @classmethod
    def of(cls, frame: Frame) -> FrameSource:
        return cls(frame, frame.names, frame.from_array)

    @property
    def n_rows(self) -> float | None:
        return self.frame.n_rows

    def map(
        self, columns: Sequence[str], work: Work[T], stage: str = "", watch: Watcher | None = None
    ) -> Iterator[T]:
        yield work(self.frame.select(columns))


@dataclass(frozen=True, eq=False)
class LazySource(Source):
    """A table in files, or a polars lazy frame."""

    frame: Any  #: a polars lazy frame of all rows
    names: tuple[str, ...]
    #: where rows can be read from the middle, a lazy frame per file and its rows
    pieces: tuple[tuple[Any, int], ...] = ()
    n_bytes: int | None = None  #: size of its files; None for a lazy frame
    bytes_per_row: float = 0.0  #: about how many bytes of the files hold one row
    called: str = "the lazy frame"  #: what errors call the table
    paths: tuple[Path, ...] = ()

    @property
    def n_rows(self) -> float | None:
        if self.pieces:
            return sum(n for _, n in self.pieces)
        return self.n_bytes / self.bytes_per_row if self.n_bytes else None

    @property
    def types(self) -> Mapping[str, Any]:
        types: Mapping[str, Any] = self.frame.collect_schema()
        return types

    def map(
        self, columns: Sequence[str], work: Work[T], stage: str = "", watch: Watcher | None = None
    ) -> Iterator[T]:
        """As said; no more than ``READ_ROWS`` are in memory per thread."""

        def task(part: _RowRange) -> tuple[int, list[T]]:
            with reading(self.called):
                rows = part.load()
            batches = rows.iter_slices(BATCH_ROWS) if len(rows) else ()
            return len(rows), [part.done(work, k, batch) for k, batch in enumerate(batches)]

        done = 0
        need_threads("to read a table that is not in memory")
        for n, results in _in_order(task, self._readings(list(columns)), min(8, thread_count())):
            done += n
            yield from results
            if watch is not None:
                watch(self._progress(stage, done))
        if watch is not None and self.n_bytes is not None:
            watch(ReadingProgress(stage, self.n_bytes, self.n_bytes, "bytes"))

    def _readings(self, columns: list[str]) -> Iterator[_RowRange]:
        """Rows to be read, each time by whoever calls for them."""
        # Polars reads far ahead of a slow consumer: where rows can be read from the middle,
        # they are asked for a few at a time, which bounds memory.
        for (frame, n_rows), path in zip(self.pieces, self.paths, strict=False):
            for start in range(0, n_rows, READ_ROWS):
                piece = frame.select(exactly(columns)).slice(start, READ_ROWS)
                yield _RowRange(partial(piece.collect, engine="streaming"), str(path), start)
        if not self.pieces:
            with reading(self.called):
                for batch in in_batches(self.frame.select(exactly(columns)), BATCH_ROWS):
                    yield _RowRange(batch.clone)

    def _progress(self, stage: str, rows: int) -> ReadingProgress:
        if self.n_bytes is None:
            return ReadingProgress(stage, rows, None, "rows")
        done = min(int(rows * self.bytes_per_row), self.n_bytes)
        return ReadingProgress(stage, done, self.n_bytes, "bytes")


def is_source(table: Any) -> bool:
    """Whether a table is named or lazy, and so is to be streamed."""
    if isinstance(table, str | os.PathLike | Source):
        return True
    return type(table).__name__ == "LazyFrame" and type(table).__module__.startswith("polars")


def is_dask(table: Any) -> bool:
    """Whether a table is a Dask frame; Dask is not imported for it."""
    kind = type(table)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("dask.dataframe")


def open_source(table: Any) -> Source:
    """The table of a file, a folder, a glob or a lazy frame; a FileFormatError if there is none."""
    if isinstance(table, Source):
        return table
    if not isinstance(table, str | os.PathLike):
        with reading(LazySource.called):
            return LazySource(table, tuple(table.collect_schema().names()))
    return source_of(find(table))


def source_of(files: TableFiles, prepare: Callable[[Any], Any] = lambda frame: frame) -> LazySource:
    """The table of some files; ``prepare`` makes rows ready, from lazy frame to lazy frame."""
    import polars as pl

    with files.reading():
        frame = prepare(files.scan())
        names = tuple(frame.collect_schema().names())
        n_bytes = sum(path.stat().st_size for path in files.paths)
        pieces: tuple[tuple[Any, int], ...] = ()
        if files.format == "text":
            with files.paths[0].open("rb") as file:
                head = file.read(1 << 20)
            per_row = len(head) / max(head.count(b"\n"), 1)
        else:
            scans = [files.one(k).scan() for k in range(len(files.paths))]
            counts = pl.collect_all([scan.select(pl.len()) for scan in scans])
            rows = [int(count.item()) for count in counts]
            if not sum(rows):
                raise files.no_rows()
            pieces = tuple((prepare(scan), n) for scan, n in zip(scans, rows, strict=True))
            per_row = n_bytes / sum(rows)
        return LazySource(frame, names, pieces, n_bytes, per_row, files.source, files.paths)


def made_of(work: Work[T], rows: Any, where: str) -> T:
    """What ``work`` makes of rows; what is wrong with them is said with where they are from."""
    try:
        return work(read_frame(rows))
    except FairpcError as error:
        if not where:
            raise
        raise type(error)(f"{where}: {error}") from error


@dataclass
class SumTree:
    """A sum taken as terms come, ``FAN_IN`` at a time, so that few are kept."""

    add: Callable[[Sequence[Any]], Any]
    _levels: list[list[Any]] = field(default_factory=list)

    def push(self, term: Any) -> None:
        for level in self._levels:
            level.append(term)
            if len(level) < FAN_IN:
                return
            term = self.add(tuple(level))
            level.clear()
        self._levels.append([term])

    def total(self) -> Any:
        """The sum of all, in the order they came; None of none."""
        terms = [term for level in reversed(self._levels) for term in level]
        return self.add(terms) if terms else None


@dataclass(frozen=True)
class _RowRange:
    """Rows to be read, by ``load``."""

    load: Callable[[], Any]
    file: str = ""  #: that they are in, if they can be read from its middle
    start: int = 0  #: number of the first of them there

    def done(self, work: Work[T], k: int, batch: Any) -> T:
        """What is made of batch ``k``; whose rows, in an error, count from where it begins."""
        start = self.start + k * BATCH_ROWS
        rows = f", rows from {start:,} on" if self.file and start else ""
        return made_of(work, batch, f"{self.file}{rows}")


def _in_order(
    task: Callable[[_RowRange], T], parts: Iterator[_RowRange], n_threads: int
) -> Iterator[T]:
    if n_threads <= 1:
        yield from map(task, parts)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for part in parts:
                waiting.append(pool.submit(task, part))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@dataclass
class Warned:
    """The first warning about each column; a batch after it may say the same with other numbers."""

    first: dict[str, str] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block whose warnings about tables are kept, not printed; others appear at once."""
        with warnings.catch_warnings():
            shown = warnings.showwarning

            def kept(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
                if issubclass(category, TableWarning):
                    self._keep(str(message))
                else:
                    shown(message, category, *where, **more)

            warnings.showwarning = kept
            warnings.simplefilter("always", TableWarning)
            yield

    def _keep(self, text: str) -> None:
        column = text.partition(" has ")[0].partition(" was ")[0]
        self.again[column] += column in self.first
        self.first.setdefault(column, text)

    def sentences(self) -> Iterator[str]:
        for column, text in list(self.first.items())[:10]:
            parts = counted(self.again[column], "later part")
            yield f"{text} (and more in {parts} of the table)" if self.again[column] else text
        if len(self.first) > 10:
            rest = counted(len(self.first) - 10, "more column has", "more columns have")
            yield f"{rest} values that were not seen at fit"

    def warn(self) -> None:
        """Say them, as warnings."""
        for sentence in self.sentences():
            warn_caller(sentence, TableWarning)
