"""Sums over partitions as a tree of tasks, in the order of the partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairpc.data.points import FAN_IN


def tree_sum(
    client: Any, parts: Sequence[Any], add: Callable[[Sequence[Any]], Any], fan_in: int = FAN_IN
) -> Any:
    """A future of the sum of futures, ``fan_in`` of them at a time.

    The shape of the tree depends on the number of parts alone, and is that of
    ``SummaryTree``: the same batches give the same bits on a cluster and here.
    """
    from fairpc.cluster.tasks import add_known

    level: list[Any] = list(parts)
    rest: list[Any] = []
    while len(level) >= fan_in:
        full = len(level) - len(level) % fan_in
        rest = level[full:] + rest
        level = [
            client.submit(add_known, add, level[k : k + fan_in], pure=False)
            for k in range(0, full, fan_in)
        ]
    return client.submit(add_known, add, level + rest, pure=False)
