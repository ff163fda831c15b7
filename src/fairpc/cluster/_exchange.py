"""Sums over partitions, and rows brought together by their hash, as tasks of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from fairpc.core import row_hash
from fairpc.data import FAN_IN, Distinct, add_distinct

PART_ROWS: Final = 1 << 17
"""Rows of a part, about."""

MOST_BUCKETS: Final = 256
"""Buckets that rows go into before they are cut into parts; tasks grow with its square."""

MOST_PARTS: Final = 1 << 14
"""Parts of all rows; Dask keeps some kilobytes of each."""


def tree_sum(
    client: Any, terms: Sequence[Any], add: Callable[[Sequence[Any]], Any], fan_in: int = FAN_IN
) -> Any:
    """A future of the sum of futures, ``fan_in`` of them at a time.

    The shape of the tree depends on the number of terms alone, and is that of
    ``SumTree``: the same batches give the same bits on a cluster and here.
    """
    from fairpc.cluster._tasks import add_known

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
