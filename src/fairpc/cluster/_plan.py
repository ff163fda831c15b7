"""EM over parts on workers: parameters go out, one sum of flows comes back.

Each thread of a worker holds some parts, made ready. Parts are the leaves of a binary tree that
depends on their number alone. Who has all parts below a node adds them up and sends one sum; what
is left is added where those of several meet. So the sum is the same to the bit for any number of
workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from threading import Lock
from typing import Any, Final, Self, TypeVar
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from fairpc.circuit import Graph, RowPlan, plan_bytes, plan_once, prepare
from fairpc.cluster._client import answered, itself, results
from fairpc.core import Floats
from fairpc.data import CodedRows, Distinct, Packing, RowParts, Table

LOOK: Final = 10.0  #: seconds between two looks at who has which parts
FAN_IN: Final = 16  #: sums that are added at a time before they come here


@dataclass(eq=False)
class DaskPlan:
    """A FlowPlan over parts on workers.

    Each thread of the workers holds some parts, in a task that is done again where its worker
    dies. At each call it gets one task more, which goes where its parts are: nothing waits
    in a queue from which Dask could move it to a worker that lacks them.
    """

    graph: Graph  #: the circuit's structure
    total_weight: float  #: of all parts
    client: Any = field(repr=False)  #: to whom tasks are given
    parts: tuple[Any, ...] = field(repr=False)  #: their futures
    preparation: Any = field(repr=False)  #: a future of how parts are made ready
    _held: tuple[Any, ...] = field(default=(), repr=False)
    _looked: float = field(default=-np.inf, repr=False)

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Log-likelihood and flows, in the order of the parts."""
        self._settle()
        client, n_parts = self.client, len(self.parts)
        theta = np.asarray(parameters, np.float64)
        # A name for the tasks of this call alone: Dask takes one that many tasks share for a
        # name of tasks without data, and gives them to anyone.
        name = f"flows-{uuid4().hex}"
        sums = [
            client.submit(HeldParts.flows, held, theta, key=(name, g))
            for g, held in enumerate(self._held)
        ]
        while len(sums) > FAN_IN:
            some = (sums[k : k + FAN_IN] for k in range(0, len(sums), FAN_IN))
            sums = [client.submit(added, group, n_parts, pure=False) for group in some]
        return added(results(client, sums, "a part of the rows"), n_parts)[ROOT]

    def _settle(self) -> None:
        """See to it, now and again, that threads hold about as many parts: workers come and go."""
        if time.monotonic() - self._looked < LOOK:
            return
        client, n_parts = self.client, len(self.parts)
        threads = answered(client, client.nthreads)
        n = max(1, min(n_parts, sum(threads.values())))
        known = self._held if len(self._held) == n else (None,) * n
        holders = answered(client, client.who_has, [held for held in known if held is not None])
        where = [held and next(iter(holders.get(held.key, ())), None) for held in known]
        self._held = tuple(
            held if held is not None and here == there else self._hold(g, n, there)
            for g, (held, here, there) in enumerate(
                zip(known, where, placed(where, threads), strict=True)
            )
        )
        self._looked = time.monotonic()

    def _hold(self, group: int, n_groups: int, address: str | None) -> Any:
        """A future of a group of parts made ready by a worker; by another if that is gone."""
        n_parts = len(self.parts)
        start, stop = group * n_parts // n_groups, (group + 1) * n_parts // n_groups
        what = self.preparation, start, list(self.parts[start:stop]), n_parts
        there = {"workers": address, "allow_other_workers": address is not None}
        return self.client.submit(HeldParts.of, *what, pure=False, **there)


def placed(where: Sequence[str | None], threads: Mapping[str, int]) -> list[str | None]:
    """Where groups of parts are to be: each stays while its worker has a thread for it."""
    free = Counter(dict(threads))
    stay: list[str | None] = []
    for address in where:
        if address is not None and free[address] > 0:
            free[address] -= 1
            stay.append(address)
        else:
            stay.append(None)
    rest = free.elements()
    return [address or next(rest, None) for address in stay]


@dataclass(frozen=True, eq=False)
class Preparation:
    """How parts are made ready: ``table_of`` makes the circuit's rows of rows of codes."""

    graph: Graph
    packing: Packing
    table_of: Callable[[CodedRows], Table]

    def table(self, part: Distinct) -> Table:
        """The circuit's rows of a part."""
        return self.table_of(self.packing.rows(part))


@dataclass(eq=False)
class HeldParts:
    """Some of the parts, ready as far as half of the worker's memory goes.

    Dask keeps one copy of what a task gives, and drops or moves copies as it likes. What
    is ready does not travel; it stays as long as this does, which one task alone uses.
    """

    preparation: Preparation  #: how parts are made ready
    start: int  #: number of the first part
    parts: Sequence[Distinct]  #: the parts, one after the other
    n_parts: int  #: number of all parts, here and elsewhere
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

    def __sizeof__(self) -> int:
        """What the parts take in memory: Dask weighs by it whether to move them."""
        return self._size + sum(map(getsizeof, self.parts))

    def flows(self, theta: Floats) -> Sums:
        """Log-likelihood and flows of the parts, added up."""
        flows = {
            leaf(k, self.n_parts): plan(theta) for k, plan in enumerate(self._plans(), self.start)
        }
        return added([flows], self.n_parts)

    def _plans(self) -> Iterator[RowPlan]:
        """The plan of each part, for one thread: the worker's others have parts of their own."""
        for k, part in enumerate(self.parts):
            if not (self._full or k in self._ready):
                self._keep(k, part)
            if k in self._ready:
                yield self._ready[k]
            else:
                yield plan_once(self.preparation.graph, self.preparation.table(part), 1)

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


Flows = tuple[float, Floats]  #: log-likelihood and flows
Sums = Mapping[int, Flows]  #: sums by node of the tree: 1 is the root, 2n and 2n + 1 are below n
ROOT = 1


def leaf(part: int, n_parts: int) -> int:
    """The node of a part."""
    return _width(n_parts) + part


def added(sums: Iterable[Sums], n_parts: int) -> Sums:
    """Sums of several together, as far up the tree as they go."""
    known = dict(chain.from_iterable(some.items() for some in sums))
    end = _width(n_parts) + n_parts
    above = {node // 2 for node in known}
    while above:
        risen = set()
        for node in above - {0}:
            left, right = 2 * node, 2 * node + 1
            if left in known and right in known:
                (one, flows), (two, more) = known.pop(left), known.pop(right)
                known[node] = one + two, flows + more
                risen.add(node // 2)
            elif left in known and _first_leaf(right, n_parts) >= end:
                known[node] = known.pop(left)
                risen.add(node // 2)
        above = risen
    return known


def _width(n_parts: int) -> int:
    """Leaves of the tree, with and without a part: a power of two."""
    return 1 << (n_parts - 1).bit_length()


def _first_leaf(node: int, n_parts: int) -> int:
    """The first leaf below a node."""
    return node << (_width(n_parts).bit_length() - node.bit_length())


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
        shared = self.client.submit(itself, work, pure=False)
        futures = [
            self.client.submit(_worked, shared, k, part, self.packing, pure=False)
            for k, part in enumerate(self.futures)
        ]
        return (results(self.client, [future], "a part of the rows")[0] for future in futures)

    def plan(self, graph: Graph, table_of: Callable[[CodedRows], Table]) -> DaskPlan:
        """The plan of all parts; ``table_of`` makes the circuit's rows of rows of codes."""
        how = self.client.submit(itself, Preparation(graph, self.packing, table_of), pure=False)
        return DaskPlan(graph, self.total_weight, self.client, self.futures, how)


def _sizes(part: Distinct, packing: Packing) -> tuple[int, float, float]:
    return packing.rows(part).sizes


def _worked(work: Callable[[int, CodedRows], T], k: int, part: Distinct, packing: Packing) -> T:
    return work(k, packing.rows(part))
