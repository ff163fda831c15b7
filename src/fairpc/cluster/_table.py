"""Tables whose partitions are read where they lie: Dask frames, and files that workers see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fairpc.cluster._client import (
    answered,
    blamed,
    check_workers,
    current_client,
    finish,
    itself,
    results,
)
from fairpc.cluster._plan import DaskParts
from fairpc.core import Array, TableError, row_hash
from fairpc.data import (
    BATCH_ROWS,
    FAN_IN,
    UNBOUNDED,
    Distinct,
    Frame,
    LazySource,
    ReadingProgress,
    RowEncoder,
    RowParts,
    TableFiles,
    Watcher,
    Work,
    add_distinct,
    exactly,
    made_of,
    reading,
    source_of,
)

J = TypeVar("J")
S = TypeVar("S")
PART_ROWS: Final = 1 << 17  #: rows of a part, about
MOST_BUCKETS: Final = 256
"""Buckets that rows go into before they are cut into parts; tasks grow with its square."""
MOST_PARTS: Final = 1 << 14  #: parts of all rows; Dask keeps some kilobytes of each


@dataclass(frozen=True, eq=False)
class DaskTable(LazySource):
    """A table in partitions, which workers read any number of times."""

    client: Any = None  #: to whom tasks are given
    schema: Mapping[str, Any] = field(default_factory=dict)  #: types that a Dask frame declares
    lazy: tuple[Any, ...] = ()  #: polars lazy frames of batches of files; none for a Dask frame
    places: tuple[str, ...] = ()  #: what errors call each partition
    in_partitions: bool = False  #: whether the table is a Dask frame

    @property
    def types(self) -> Mapping[str, Any]:
        """Polars' types of the columns."""
        return super().types if self.lazy else self.schema

    def submit(self, columns: Sequence[str], work: Work[T]) -> list[Any]:
        """Futures of what ``work`` makes of each partition, None of empty ones."""
        names, client = list(columns), self.client
        shared = client.submit(itself, work, pure=False)
        if self.lazy:
            return [
                client.submit(of_lazy_frame, shared, rows.select(exactly(names)), where, pure=False)
                for rows, where in zip(self.lazy, self.places, strict=True)
            ]
        from dask import delayed

        schema = {name: self.schema[name] for name in names if name in self.schema}
        task = delayed(of_partition, pure=False)
        parts = self.frame[names].to_delayed()
        made = [task(shared, p, schema, w) for p, w in zip(parts, self.places, strict=True)]
        futures: list[Any] = client.compute(made)
        return futures

    def map(
        self, columns: Sequence[str], work: Work[T], stage: str = "", watch: Watcher | None = None
    ) -> Iterator[T]:
        """What ``work`` makes of each partition, in order; empty ones are left out."""
        futures = self.submit(columns, work)
        found = (
            results(self.client, [future], where)[0]
            for future, where in zip(self.finished(futures, stage, watch), self.places, strict=True)
        )
        return (result for result in found if result is not None)

    def total(
        self,
        columns: Sequence[str],
        work: Work[T],
        add: Callable[[Sequence[T]], T],
        *,
        stage: str = "",
        watch: Watcher | None = None,
    ) -> T | None:
        """The sum over the partitions, taken by the workers."""
        futures = self.submit(columns, work)
        total = tree_sum(self.client, futures, add)
        deque(self.finished(futures, stage, watch), maxlen=0)
        found: T | None = results(self.client, [total], f"the sum of the partitions' {stage}")[0]
        return found

    def distinct(
        self,
        encoder: RowEncoder,
        *,
        most: int = UNBOUNDED,
        folder: Path | None = None,
        watch: Watcher | None = None,
    ) -> Distinct | RowParts | None:
        """The distinct rows: here, or on the workers where there are more than ``most``."""
        client = self.client
        futures = self.submit(encoder.columns, encoder)
        sizes = client.map(_size, futures, pure=False)
        deque(self.finished(futures, "rows", watch), maxlen=0)
        n_rows = sum(results(client, sizes, "the rows of a partition"))
        if not n_rows:
            return None
        if n_rows <= min(most, PART_ROWS):
            total = tree_sum(client, futures, add_distinct)
            rows: Distinct = results(client, [total], "the sum of the rows")[0]
            return rows
        parts = exchanged(client, futures, n_rows)
        del futures, sizes
        found = DaskParts.of(client, parts, encoder.packing)
        if found.n_rows > most:
            return found
        return add_distinct(results(client, parts, "a part of the rows"))

    def finished(self, futures: Sequence[Any], stage: str, watch: Watcher | None) -> Iterator[Any]:
        """The futures of the partitions in order, once they are done; a FairpcError says where."""
        for k, (future, where) in enumerate(zip(futures, self.places, strict=True)):
            _ended(self.client, future, where)
            if watch is not None:
                watch(ReadingProgress(stage, k + 1, None, f"of {len(futures)} partitions"))
            yield future


def _ended(client: Any, future: Any, where: str, *failed: str) -> None:
    """Return once a task has ended well; raise what went wrong as one of our errors."""
    finish(client, [future])
    error = future.exception()
    if error is not None:
        raise blamed(error, where, *failed)


@contextmanager
def frame_table(frame: Any) -> Iterator[DaskTable]:
    """The table of a Dask frame, with the client that the program has, or threads for a while."""
    import polars as pl

    names = tuple(str(name) for name in frame.columns)
    if names != tuple(frame.columns):
        raise TableError("the columns of a Dask frame are not all named by text: rename them")
    declared = pl.from_pandas(frame._meta_nonempty).schema
    known = {name: dtype for name, dtype in declared.items() if dtype != pl.Null}
    with current_client() as client:
        places = tuple(f"partition {k} of the Dask frame" for k in range(frame.npartitions))
        yield DaskTable(
            frame, names, client=client, schema=known, places=places, in_partitions=True
        )


def file_table(
    files: TableFiles, prepare: Callable[[Any], Any] = lambda frame: frame, *, client: Any
) -> DaskTable:
    """The table of files that every worker can open under the same paths.

    Batches are those of a fit on one machine, so that sums are the same to the bit.
    Text cannot be read from the middle: a file of it is one batch.
    """
    source = source_of(files, prepare)
    lazy, places = [], []
    for k, path in enumerate(files.paths):
        batches = [prepare(files.one(k).scan())]
        if source.pieces:
            frame, n_rows = source.pieces[k]
            batches = [frame.slice(start, BATCH_ROWS) for start in range(0, n_rows, BATCH_ROWS)]
        lazy += batches
        places += [str(path)] * len(batches)
    known = {name: getattr(source, name) for name in LazySource.__dataclass_fields__}
    return DaskTable(**known, client=client, lazy=tuple(lazy), places=tuple(places))


def _size(rows: Distinct | None) -> int:
    return 0 if rows is None else rows.n_rows


def by_partition(
    frame: Any, values_of: Callable[[Any], Array], names: Sequence[str], dtype: npt.DTypeLike
) -> Any:
    """A lazy Dask frame, or series for one name, of what ``values_of`` gives for each partition."""
    import pandas as pd
    from dask import delayed

    meta = pd.DataFrame({name: np.empty(0, dtype) for name in names}, index=frame._meta.index)
    shape = meta if len(names) > 1 else meta[names[0]]
    # Sent as one task of its own: otherwise every partition's task would carry it.
    shared = delayed(values_of, pure=False)
    return frame.map_partitions(_of_part, shared, shape, meta=shape, align_dataframes=False)


def _of_part(part: Any, values_of: Callable[[Any], Array], shape: Any) -> Any:
    """The values of one partition, as pandas has them."""
    import pandas as pd

    if not len(part):
        return shape.set_axis(part.index)
    values = values_of(part)
    if isinstance(shape, pd.Series):
        return pd.Series(values, index=part.index, name=shape.name)
    return pd.DataFrame(values, index=part.index, columns=shape.columns)


def spread(client: Any, work: Callable[[S, J], T], shared: S, jobs: Sequence[J]) -> Iterator[T]:
    """``work(shared, job)`` for each job, in order; what is shared goes to each worker once."""
    check_workers(client)
    sent = answered(client, client.scatter, shared, broadcast=True, hash=False)
    futures = [client.submit(work, sent, job, pure=False) for job in jobs]
    for job, future in zip(jobs, futures, strict=True):
        _ended(client, future, f"job {job}", "cannot be done")
        yield results(client, [future], f"job {job}")[0]


def tree_sum(
    client: Any, terms: Sequence[Any], add: Callable[[Sequence[Any]], Any], fan_in: int = FAN_IN
) -> Any:
    """A future of the sum of futures, ``fan_in`` of them at a time.

    The shape of the tree depends on the number of terms alone, and is that of
    ``SumTree``: the same batches give the same bits on a cluster and here.
    """
    level: list[Any] = list(terms)
    rest: list[Any] = []
    while len(level) >= fan_in:
        full = len(level) - len(level) % fan_in
        rest = level[full:] + rest
        level = [
            client.submit(add_known, add, level[k : k + fan_in], pure=False)
            for k in range(0, full, fan_in)
        ]
    return client.submit(add_known, add, level + rest, pure=False)


def exchanged(client: Any, pieces: list[Any], n_rows: int) -> list[Any]:
    """Futures of parts in which every row is once, of the rows of partitions.

    A row goes to a part by its hash, so that copies of it meet, wherever they lie.
    """
    n_parts = min(-(-n_rows // PART_ROWS), MOST_PARTS)
    n_buckets = min(n_parts, MOST_BUCKETS)
    step = -(-len(pieces) // MOST_BUCKETS)
    if step > 1:
        pieces = [
            tree_sum(client, pieces[k : k + step], add_distinct)
            for k in range(0, len(pieces), step)
        ]
    split = _cut(client, pieces, n_buckets)
    buckets = [
        tree_sum(client, [cut[k] for cut in split], add_distinct, fan_in=len(split) + 1)
        for k in range(n_buckets)
    ]
    if n_buckets == n_parts:
        return buckets
    return list(chain.from_iterable(_cut(client, buckets, -(-n_parts // n_buckets), n_buckets)))


def _cut(client: Any, pieces: list[Any], n: int, done: int = 1) -> list[list[Any]]:
    """Futures of ``n`` cuts of each piece by hash; ``done`` cuts of all rows were made before."""
    split = client.map(partial(_split, n=n, done=done), pieces, pure=False)
    return [[client.submit(itemgetter(k), cuts, pure=False) for k in range(n)] for cuts in split]


def _split(piece: Distinct | None, n: int, done: int) -> list[Distinct | None]:
    """The rows of a piece in each of ``n`` cuts, in their order."""
    if piece is None:
        return [None] * n
    cut = row_hash(piece.words) // np.uint64(done) % np.uint64(n)
    chosen = (cut == k for k in range(n))
    return [Distinct(np.ascontiguousarray(piece.words[:, c]), piece.weights[c]) for c in chosen]


T = TypeVar("T")


def of_partition(
    work: Callable[[Frame], T], part: Any, schema: Mapping[str, Any], where: str
) -> T | None:
    """What ``work`` makes of a partition of a Dask frame; None of an empty one."""
    import polars as pl

    if not len(part):
        return None
    return made_of(work, _typed(pl.from_pandas(part), schema, where), where)


def of_lazy_frame(work: Callable[[Frame], T], rows: Any, where: str) -> T | None:
    """What ``work`` makes of some rows of a file."""
    with reading(where):
        frame = rows.collect(engine="streaming")
    return made_of(work, frame, where) if len(frame) else None


def add_known(add: Callable[[Sequence[T]], T], parts: Sequence[T | None]) -> T | None:
    """The sum of parts, of which empty ones are None."""
    known = [part for part in parts if part is not None]
    return add(known) if known else None


def _typed(frame: Any, schema: Mapping[str, Any], where: str) -> Any:
    """The rows under the types that the Dask frame declares."""
    import polars as pl

    odd = {name: dtype for name, dtype in schema.items() if frame.schema[name] != dtype}
    try:
        return frame.cast(odd) if odd else frame
    except pl.exceptions.PolarsError as error:
        name, dtype = next(iter(odd.items()))
        raise TableError(
            f"{where}: column {name!r} holds {frame.schema[name]} and the Dask frame says "
            f"{dtype}: give its partitions one type"
        ) from error
