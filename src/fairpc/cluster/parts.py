"""Distinct rows in parts on workers, where they are too many for one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairpc.circuit.graph import Graph
from fairpc.cluster.held import Preparation
from fairpc.cluster.plan import DaskPlan
from fairpc.cluster.workers import results
from fairpc.data.distinct import Distinct, Packing
from fairpc.data.table import Table
from fairpc.errors.arrays import Codes, Floats

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DaskParts:
    """Parts on workers, each row in one of them.

    A part is a task, done again from the table where the worker that had it dies.

    Attributes:
        client: to whom tasks are given.
        futures: of the parts.
        packing: how codes are packed.
        rows, weights: number and total weight of the rows of each part.
    """

    client: Any = field(repr=False)
    futures: tuple[Any, ...] = field(repr=False)
    packing: Packing
    rows: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, client: Any, futures: Sequence[Any], packing: Packing) -> DaskParts:
        """Of these parts, those that have rows."""
        sizes = results(client, client.map(_size, futures, pure=False), "a part of the rows")
        found = [(f, n, w) for f, (n, w) in zip(futures, sizes, strict=True) if n]
        return cls(
            client, tuple(f for f, _, _ in found), packing,
            tuple(n for _, n, _ in found), tuple(w for _, _, w in found),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arities(self) -> tuple[int, ...]:
        return self.packing.arities

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    @property
    def total_weight(self) -> float:
        return sum(self.weights)

    @property
    def repeats(self) -> bool:
        """Whether a row may be in several parts."""
        return False

    def map(self, work: Callable[[int, Codes, Floats], T]) -> Iterator[T]:
        """What ``work`` makes of the number, codes and weights of each part, in order."""
        from fairpc.cluster.tasks import itself

        shared = self.client.submit(itself, work, pure=False)
        futures = [
            self.client.submit(_worked, shared, k, part, self.packing, pure=False)
            for k, part in enumerate(self.futures)
        ]
        return (results(self.client, [future], "a part of the rows")[0] for future in futures)

    def plan(self, graph: Graph, table_of: Callable[[Codes, Floats], Table]) -> DaskPlan:
        """The plan of all parts; ``table_of`` makes the circuit's rows of codes and weights."""
        preparation = Preparation(graph, self.packing, table_of)
        return DaskPlan.of(self.client, self.futures, preparation, self.n_rows, self.total_weight)


def _size(part: Distinct) -> tuple[int, float]:
    return part.n_rows, float(part.weights.sum())


def _worked(work: Callable[[int, Codes, Floats], T], k: int, part: Distinct, packing: Packing) -> T:
    return work(k, packing.unpack(part.words), part.weights)
