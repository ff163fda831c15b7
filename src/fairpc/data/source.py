"""Tables that need not fit into memory: files, folders, globs and lazy frames, read in batches."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from fairpc.data.files import TableFiles, find
from fairpc.errors import FairpcError

T = TypeVar("T")

BATCH_ROWS: Final = 1 << 18
"""Rows that are worked on at once."""

READ_ROWS: Final = 1 << 19
"""Rows that are read at once: to read half as many takes a quarter more time for each."""

_HEAD: Final = 1 << 20


@dataclass(frozen=True)
class Progress:
    """How far a pass over a table has come.

    Attributes:
        stage: what is being done.
        done, total: bytes of the files read and to be read; rows, without a total, for a
            lazy frame.
        unit: "bytes" or "rows".
    """

    stage: str
    done: int
    total: int | None
    unit: str


Watcher = Callable[[Progress], object]


@dataclass(frozen=True, eq=False)
class Source:
    """A table to be read in order, any number of times.

    Attributes:
        frame: a polars lazy frame of all rows.
        names: its columns.
        pieces: where rows can be read from the middle, a lazy frame per file and its rows.
        n_bytes: size of its files; None for a lazy frame.
        bytes_per_row: about how many bytes of the files hold one row.
        reading: a block in which what cannot be read is said to be the fault of the files.
        paths: its files.
    """

    frame: Any
    names: tuple[str, ...]
    pieces: tuple[tuple[Any, int], ...] = ()
    n_bytes: int | None = None
    bytes_per_row: float = 0.0
    reading: AbstractContextManager[None] = field(default_factory=nullcontext)
    paths: tuple[Path, ...] = ()

    @property
    def n_rows(self) -> float | None:
        """How many rows there are, of text about; None if that is not known."""
        if self.pieces:
            return sum(n for _, n in self.pieces)
        return self.n_bytes / self.bytes_per_row if self.n_bytes else None

    @property
    def in_partitions(self) -> bool:
        """Whether the table comes in parts of their own, of unknown length."""
        return False

    @property
    def types(self) -> Mapping[str, Any]:
        """Polars' types of the columns."""
        types: Mapping[str, Any] = self.frame.collect_schema()
        return types

    def map(
        self,
        columns: Sequence[str],
        work: Callable[[Any], T],
        *,
        stage: str = "",
        watch: Watcher | None = None,
        n_threads: int | None = None,
    ) -> Iterator[T]:
        """What ``work`` makes of each batch of rows, in order; ``watch`` is told of each reading.

        No more than ``READ_ROWS`` are in memory per thread.
        """

        def task(part: _Part) -> tuple[int, list[T]]:
            rows = part.load()
            batches = rows.iter_slices(BATCH_ROWS) if len(rows) else ()
            return len(rows), [part.done(work, k, batch) for k, batch in enumerate(batches)]

        done = 0
        with self.reading:
            parts = self._parts(list(columns))
            for n, results in _in_order(task, parts, n_threads or default_threads()):
                done += n
                yield from results
                if watch is not None:
                    watch(self._progress(stage, done))
        if watch is not None and self.n_bytes is not None:
            watch(Progress(stage, self.n_bytes, self.n_bytes, "bytes"))

    def _parts(self, columns: list[str]) -> Iterator[_Part]:
        """Rows to be read, each time by whoever calls for them."""
        # Polars reads far ahead of a slow consumer: where rows can be read from the middle,
        # they are asked for part by part, which bounds memory.
        for (frame, n_rows), path in zip(self.pieces, self.paths, strict=False):
            for start in range(0, n_rows, READ_ROWS):
                piece = frame.select(columns).slice(start, READ_ROWS)
                yield _Part(partial(piece.collect, engine="streaming"), str(path), start)
        if not self.pieces:
            for batch in self.frame.select(columns).collect_batches(
                chunk_size=BATCH_ROWS, maintain_order=True, engine="streaming", lazy=True
            ):
                yield _Part(partial(_itself, batch))

    def _progress(self, stage: str, rows: int) -> Progress:
        if self.n_bytes is None:
            return Progress(stage, rows, None, "rows")
        return Progress(
            stage, min(int(rows * self.bytes_per_row), self.n_bytes), self.n_bytes, "bytes"
        )


def default_threads() -> int:
    """Threads that encode batches: one per core, and at most eight, as each holds a batch."""
    return max(1, min(8, os.cpu_count() or 1))


def is_source(table: Any) -> bool:
    """Whether a table is named or lazy, and so is to be streamed."""
    if isinstance(table, str | os.PathLike | Source):
        return True
    return type(table).__name__ == "LazyFrame" and type(table).__module__.startswith("polars")


def open_source(table: Any) -> Source:
    """The table of a file, a folder, a glob or a lazy frame; a FileFormatError if there is none."""
    if isinstance(table, Source):
        return table
    if not isinstance(table, str | os.PathLike):
        return Source(table, tuple(table.collect_schema().names()))
    return source_of(find(table))


def source_of(files: TableFiles, prepare: Callable[[Any], Any] = lambda frame: frame) -> Source:
    """The table of some files; ``prepare`` makes rows ready, from lazy frame to lazy frame."""
    import polars as pl

    with files.reading():
        frame = prepare(files.scan())
        names = tuple(frame.collect_schema().names())
        n_bytes = sum(path.stat().st_size for path in files.paths)
        pieces: tuple[tuple[Any, int], ...] = ()
        if files.format == "text":
            per_row = _line_bytes(files.paths[0])
        else:
            scans = [files.one(k).scan() for k in range(len(files.paths))]
            counts = pl.collect_all([scan.select(pl.len()) for scan in scans])
            rows = [int(count.item()) for count in counts]
            if not sum(rows):
                raise files.no_rows()
            pieces = tuple((prepare(scan), n) for scan, n in zip(scans, rows, strict=True))
            per_row = n_bytes / sum(rows)
        return Source(frame, names, pieces, n_bytes, per_row, files.reading(), files.paths)


def _line_bytes(path: Path) -> float:
    """Bytes of a line, by the first ones."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return len(head) / max(head.count(b"\n"), 1)


@dataclass(frozen=True)
class _Part:
    """Rows to be read.

    Attributes:
        load: reads them.
        file: that they are in, if they can be read from its middle.
        start: number of the first of them there.
    """

    load: Callable[[], Any]
    file: str = ""
    start: int = 0

    def done(self, work: Callable[[Any], T], k: int, batch: Any) -> T:
        """What is made of batch ``k``; whose rows, in an error, count from where it begins."""
        try:
            return work(batch)
        except FairpcError as error:
            if not self.file:
                raise
            start = self.start + k * BATCH_ROWS
            where = f"{self.file}, rows from {start:,} on" if start else self.file
            raise type(error)(f"{where}: ", *error.args) from error


def _in_order(task: Callable[[_Part], T], parts: Iterator[_Part], n_threads: int) -> Iterator[T]:
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


def _itself(batch: Any) -> Any:
    return batch
