"""What workers run. Each function is sent by name, with where its rows are from.

Imported on every worker, and only where Dask is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from dask.sizeof import sizeof

from fairpc.cluster._plan import HeldParts
from fairpc.core import FairpcError, TableError
from fairpc.data import Distinct, Frame, Reading, read_frame

T = TypeVar("T")


# What moving rows costs: otherwise Dask takes them for small, and moves them about.
for _kind in (Distinct, HeldParts):
    sizeof.register(_kind, attrgetter("n_bytes"))


def itself(value: T) -> T:
    """A value as a task, so that it is made again where the worker that had it dies."""
    return value


def of_partition(
    work: Callable[[Frame], T], part: Any, schema: Mapping[str, Any], where: str
) -> T | None:
    """What ``work`` makes of a partition of a Dask frame; None of an empty one."""
    import polars as pl

    if not len(part):
        return None
    return of_rows(work, _typed(pl.from_pandas(part), schema, where), where)


def of_lazy_frame(work: Callable[[Frame], T], rows: Any, where: str) -> T | None:
    """What ``work`` makes of some rows of a file."""
    with Reading(where):
        frame = rows.collect(engine="streaming")
    return of_rows(work, frame, where) if len(frame) else None


def of_rows(work: Callable[[Frame], T], rows: Any, where: str) -> T:
    """What ``work`` makes of rows; what is wrong with them is said with where they are from."""
    try:
        return work(read_frame(rows))
    except FairpcError as error:
        raise type(error)(f"{where}: ", *error.args) from error


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
