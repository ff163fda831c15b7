"""Jobs over the workers of a client, such as the fits of a cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from fairpc.cluster.table import blamed
from fairpc.cluster.workers import check_workers, finish

J = TypeVar("J")
S = TypeVar("S")
T = TypeVar("T")


def spread(client: Any, work: Callable[[S, J], T], shared: S, jobs: Sequence[J]) -> Iterator[T]:
    """``work(shared, job)`` for each job, in order; what is shared goes to each worker once."""
    check_workers(client)
    sent = client.scatter(shared, broadcast=True, hash=False)
    futures = [client.submit(work, sent, job, pure=False) for job in jobs]
    for job, future in zip(jobs, futures, strict=True):
        finish(client, [future])
        error = future.exception()
        if error is not None:
            raise blamed(error, f"job {job}", "cannot be done")
        yield future.result()
