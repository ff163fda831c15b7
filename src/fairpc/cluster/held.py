"""Parts that a thread of a worker holds, made ready for EM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Self
from weakref import WeakSet

from fairpc.circuit.flows import RowPlan, plan_bytes, plan_once, prepare
from fairpc.circuit.graph import Graph
from fairpc.cluster.sums import Sums, added, leaf
from fairpc.data.distinct import Distinct, Packing
from fairpc.data.table import Table
from fairpc.errors.arrays import Codes, Floats


@dataclass(frozen=True, eq=False)
class Preparation:
    """How parts are made ready.

    Attributes:
        graph: the circuit's structure.
        packing: how codes are packed.
        table_of: makes the circuit's rows of codes and weights.
    """

    graph: Graph
    packing: Packing
    table_of: Callable[[Codes, Floats], Table]

    def table(self, part: Distinct) -> Table:
        """The circuit's rows of a part."""
        return self.table_of(self.packing.unpack(part.words), part.weights)


@dataclass(eq=False)
class HeldParts:
    """Some of the parts, ready as far as half of the worker's memory goes.

    Dask keeps one copy of what a task gives, and drops or moves copies as it likes. What
    is ready does not travel; it stays as long as this does, which one task alone uses.

    Attributes:
        preparation: how parts are made ready.
        start: number of the first part.
        parts: the parts, one after the other.
        n_parts: number of all parts, here and elsewhere.
    """

    preparation: Preparation
    start: int
    parts: Sequence[Distinct]
    n_parts: int
    _ready: dict[int, RowPlan] = field(default_factory=dict, repr=False)
    _size: int = field(default=0, repr=False)
    _full: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        with _LOCK:
            _HELD.add(self)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.preparation, self.start, self.parts, self.n_parts

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @classmethod
    def of(
        cls, preparation: Preparation, start: int, parts: Sequence[Distinct], n_parts: int
    ) -> Self:
        """Parts made ready at once, so that Dask knows how large they are."""
        held = cls(preparation, start, parts, n_parts)
        for k, part in enumerate(parts):
            if not held._full:
                held._keep(k, part)
        return held

    @property
    def n_bytes(self) -> int:
        """What the parts take in memory."""
        return self._size + sum(part.words.nbytes + part.weights.nbytes for part in self.parts)

    def flows(self, theta: Floats) -> Sums:
        """Log-likelihood and flows of the parts, added up."""
        return self._added(plan(theta) for plan in self._plans(1))

    def flows_of_sets(self, theta: Floats) -> Sums:
        """The same for several parameter sets."""
        return self._added(plan.batch(theta) for plan in self._plans(len(theta)))

    def _added(self, flows: Iterator[tuple[Any, Floats]]) -> Sums:
        by_leaf = {leaf(self.start + k, self.n_parts): flow for k, flow in enumerate(flows)}
        return added([by_leaf], self.n_parts)

    def _plans(self, n_sets: int) -> Iterator[RowPlan]:
        """The plan of each part, for one thread: the worker's others have parts of their own."""
        for k, part in enumerate(self.parts):
            if not (self._full or k in self._ready):
                self._keep(k, part)
            if k in self._ready:
                yield self._ready[k]
            else:
                yield plan_once(self.preparation.graph, self.preparation.table(part), n_sets, 1)

    def _keep(self, k: int, part: Distinct) -> None:
        """Make part ``k`` ready, if there is room."""
        plan = prepare(self.preparation.graph, self.preparation.table(part), n_threads=1)
        size, room = plan_bytes(plan), _room()
        with _LOCK:
            self._full = sum(held._size for held in _HELD) + size > room
            if not self._full:
                self._ready[k] = plan
                self._size += size


_HELD: Final[WeakSet[HeldParts]] = WeakSet()
_LOCK: Final = Lock()


def _room() -> int:
    """Half of the memory that this worker may use."""
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    return int((get_worker().memory_manager.memory_limit or MEMORY_LIMIT) // 2)
