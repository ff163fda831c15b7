"""Two passes over partitions: one for the encoding, one that merges equal rows where they lie."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from fairpc.cluster.parts import DaskParts
from fairpc.cluster.reduction import tree_sum
from fairpc.cluster.table import DaskTable
from fairpc.cluster.workers import results
from fairpc.data.columns import Options
from fairpc.data.distinct import Distinct, add_distinct
from fairpc.data.hashing import row_hash
from fairpc.data.passes import BatchEncoder, copied, listed
from fairpc.data.source import Watcher
from fairpc.data.stream import Pair, TableCoding, fit_stream
from fairpc.data.summary import Roles, Summary, add_summaries, summarise
from fairpc.errors import TableError

PART_ROWS: Final = 1 << 17
"""Rows of a part, about."""

MOST_HEAPS: Final = 256
"""Heaps that rows are brought into before they are cut into parts; tasks grow with its square."""

MOST_PARTS: Final = 1 << 14
"""Parts of all rows; Dask keeps some kilobytes of each."""


def summarise_partitions(table: DaskTable, roles: Roles, watch: Watcher | None = None) -> Summary:
    """The summary of all rows of a table, in one pass over its partitions."""
    client = table.client
    reading = replace(roles, most=listed(table, roles))
    futures = table.submit(roles.columns, partial(summarise, roles=reading))
    total = tree_sum(client, futures, add_summaries)
    for _ in table.finished(futures, "columns", watch):
        pass
    summary: Summary | None = results(client, [total], "the sum of the partitions' columns")[0]
    if summary is None:
        raise _empty()
    return summary


def fit_partitions(
    table: DaskTable,
    roles: Roles,
    *,
    positive: Any = None,
    options: Options | None = None,
    watch: Watcher | None = None,
) -> TableCoding:
    """How the rows of a table become codes; as ``fit_source``, over partitions."""
    summary = summarise_partitions(table, roles, watch)
    apart = {roles.label, roles.weight}
    names_in = tuple(name for name in table.names if name not in apart)

    def copies(pairs: tuple[Pair, ...]) -> tuple[bool, ...]:
        return copied(table, roles, pairs)

    return fit_stream(summary, roles, names_in, positive=positive, options=options, copies=copies)


def compress_partitions(
    table: DaskTable, encoder: BatchEncoder, most: int, watch: Watcher | None = None
) -> Distinct | DaskParts:
    """The distinct rows of a table: here, or on the workers where there are more than ``most``."""
    client = table.client
    futures = table.submit(encoder.columns, encoder)
    sizes = client.map(_size, futures, pure=False)
    for _ in table.finished(futures, "rows", watch):
        pass
    n_rows = sum(results(client, sizes, "the rows of a partition"))
    if not n_rows:
        raise _empty()
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


def exchanged(client: Any, pieces: list[Any], n_rows: int) -> list[Any]:
    """Futures of parts in which every row is once, of the pieces of partitions.

    A row goes to a part by its hash, so that copies of it meet, wherever they lie.
    """
    n_parts = min(-(-n_rows // PART_ROWS), MOST_PARTS)
    n_heaps = min(n_parts, MOST_HEAPS)
    step = -(-len(pieces) // MOST_HEAPS)
    if step > 1:
        pieces = [
            tree_sum(client, pieces[k : k + step], add_distinct)
            for k in range(0, len(pieces), step)
        ]
    split = _cut(client, pieces, n_heaps)
    heaps = [
        tree_sum(client, [cut[k] for cut in split], add_distinct, fan_in=len(split) + 1)
        for k in range(n_heaps)
    ]
    if n_heaps == n_parts:
        return heaps
    return list(chain.from_iterable(_cut(client, heaps, -(-n_parts // n_heaps), n_heaps)))


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


def _size(piece: Distinct | None) -> int:
    return 0 if piece is None else piece.n_rows


def _empty() -> TableError:
    return TableError("the table is empty: it has no rows, give at least one")
