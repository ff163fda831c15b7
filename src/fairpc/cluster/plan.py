"""EM over parts on workers: parameters go out, one sum of flows comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Self

import numpy as np

from fairpc.circuit.flows import RowPlan, prepare
from fairpc.circuit.graph import FloatArray, Graph
from fairpc.circuit.part_plan import plan_bytes
from fairpc.data.distinct import Distinct, Packing
from fairpc.data.table import Codes, Table
from fairpc.errors import ClusterError, CodesError

Flows = tuple[Any, FloatArray]


@dataclass(eq=False)
class PartFlows:
    """What a worker knows of a plan: the circuit, and parts that it has made ready.

    One is sent to each worker, once. A part that is made ready stays there, as far as
    half of the worker's memory goes; another worker makes it ready for itself.

    Attributes:
        graph: the circuit's structure.
        packing: how codes are packed.
        table_of: makes the circuit's rows of codes and weights.
    """

    graph: Graph
    packing: Packing
    table_of: Callable[[Codes, FloatArray], Table]
    _ready: dict[int, RowPlan] = field(default_factory=dict, repr=False)
    _size: int = field(default=0, repr=False)
    _lock: Any = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.graph, self.packing, self.table_of

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def plan(self, k: int, part: Distinct, room: int) -> RowPlan:
        """Part ``k`` made ready for one thread, for the worker's others have parts of their own."""
        with self._lock:
            known = self._ready.get(k)
        if known is not None:
            return known
        codes = self.packing.unpack(part.words)
        plan = prepare(self.graph, self.table_of(codes, part.weights), n_threads=1)
        size = plan_bytes(plan)
        with self._lock:
            if k not in self._ready and self._size + size <= room:
                self._ready[k] = plan
                self._size += size
        return plan


@dataclass(frozen=True, eq=False)
class DaskPlan:
    """A FlowPlan over parts on workers.

    Attributes:
        graph: the circuit's structure.
        n_rows, total_weight: of all parts.
        client: to whom tasks are given.
        parts: futures of the parts.
        flows: future of the ``PartFlows``.
    """

    graph: Graph
    n_rows: int
    total_weight: float
    client: Any = field(repr=False)
    parts: tuple[Any, ...] = field(repr=False)
    flows: Any = field(repr=False)

    @classmethod
    def of(
        cls,
        client: Any,
        parts: Sequence[Any],
        flows: PartFlows,
        n_rows: int,
        total_weight: float,
    ) -> Self:
        """A plan of parts on workers, which get to know the circuit."""
        from fairpc.cluster.tasks import itself

        sent = client.submit(itself, flows, pure=False)
        return cls(flows.graph, n_rows, total_weight, client, tuple(parts), sent)

    def __call__(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        log_likelihood, flows = self._sum(parameters, weights, _flows)
        return float(log_likelihood), flows

    def batch(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Several parameter sets in one go."""
        return self._sum(parameters, weights, _flows_of_sets)

    def _sum(
        self, parameters: FloatArray, weights: FloatArray | None, evaluate: Callable[..., Flows]
    ) -> Flows:
        """Log-likelihoods and flows, added in the order of the parts."""
        if weights is not None:
            raise CodesError("rows on workers have the weights they came with: give None")
        from distributed import KilledWorker

        from fairpc.cluster.tasks import itself

        client = self.client
        theta = client.submit(itself, np.asarray(parameters, np.float64), pure=False)
        holders = client.who_has(self.parts)
        submit = partial(client.submit, evaluate, self.flows, pure=False, allow_other_workers=True)
        futures = [
            submit(k, part, theta, workers=holders.get(part.key) or None)
            for k, part in enumerate(self.parts)
        ]
        try:
            total: Flows = client.submit(_added, futures, pure=False).result()
        except KilledWorker as error:
            raise ClusterError(
                "a part of the rows ended every worker that it was given to, most often for want "
                "of memory: give workers more, or start more of them"
            ) from error
        return total


def _flows(flows: PartFlows, k: int, part: Distinct, theta: FloatArray) -> Flows:
    return flows.plan(k, part, _room())(theta)


def _flows_of_sets(flows: PartFlows, k: int, part: Distinct, theta: FloatArray) -> Flows:
    return flows.plan(k, part, _room()).batch(theta)


def _added(parts: Sequence[Flows]) -> Flows:
    log_likelihood, flows = parts[0]
    log_likelihood, flows = np.array(log_likelihood), np.array(flows)
    for more, flow in parts[1:]:
        log_likelihood += more
        flows += flow
    return log_likelihood, flows


def _room() -> int:
    """Half of the memory that this worker may use."""
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    return int((get_worker().memory_manager.memory_limit or MEMORY_LIMIT) // 2)
