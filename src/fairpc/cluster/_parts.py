"""Distinct rows in parts on workers, where they are too many for one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairpc.circuit import Graph
from fairpc.cluster._client import results
from fairpc.cluster._plan import DaskPlan, Preparation
from fairpc.data import CodedRows, Distinct, Packing, RowParts, Table

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DaskParts(RowParts):
    """Parts on workers, each row in one of them.

    A part is a task, done again from the table where the worker that had it dies. Tasks are given
    to ``client``; ``futures`` are those of the parts.
    """

    client: Any = field(repr=False)
    futures: tuple[Any, ...] = field(repr=False)
    packing: Packing
    rows: tuple[int, ...]
    copies: tuple[float, ...]
    weights: tuple[float, ...]
    repeats: bool = False

    @classmethod
    def of(cls, client: Any, futures: Sequence[Any], packing: Packing) -> DaskParts:
        """Of these parts, those that have rows."""
        measured = client.map(_sizes, futures, [packing] * len(futures), pure=False)
        sizes = results(client, measured, "a part of the rows")
        found = [(future, *size) for future, size in zip(futures, sizes, strict=True) if size[0]]
        kept, rows, copies, weights = zip(*found, strict=True)
        return cls(client, kept, packing, rows, copies, weights)

    def read(self, k: int) -> CodedRows:
        return self.packing.rows(results(self.client, [self.futures[k]], "a part of the rows")[0])

    def map(self, work: Callable[[int, CodedRows], T]) -> Iterator[T]:
        from fairpc.cluster._tasks import itself

        shared = self.client.submit(itself, work, pure=False)
        futures = [
            self.client.submit(_worked, shared, k, part, self.packing, pure=False)
            for k, part in enumerate(self.futures)
        ]
        return (results(self.client, [future], "a part of the rows")[0] for future in futures)

    def plan(self, graph: Graph, table_of: Callable[[CodedRows], Table]) -> DaskPlan:
        """The plan of all parts; ``table_of`` makes the circuit's rows of rows of codes."""
        preparation = Preparation(graph, self.packing, table_of)
        return DaskPlan.of(self.client, self.futures, preparation, self.n_rows, self.total_weight)


def _sizes(part: Distinct, packing: Packing) -> tuple[int, float, float]:
    return packing.rows(part).sizes


def _worked(work: Callable[[int, CodedRows], T], k: int, part: Distinct, packing: Packing) -> T:
    return work(k, packing.rows(part))
