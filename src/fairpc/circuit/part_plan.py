"""Expected flows over parts that are not all in memory: one after the other, read ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from fairpc.circuit.flows import FlowPlan, RowPlan, prepare
from fairpc.circuit.graph import FloatArray, Graph
from fairpc.data.table import Table
from fairpc.errors import CodesError


@dataclass(eq=False)
class PartPlan:
    """A plan over parts: their log-likelihoods and flows, added in the order of the parts.

    While one part is evaluated the next is read and made ready. Parts that fit into
    ``kept_bytes`` once they are ready stay in memory, so that each iteration reads
    only the others.

    Attributes:
        graph: the circuit's structure.
        n_rows, total_weight: of all parts.
        n_parts: number of parts.
        load: gives the table of a part by its number.
        kept_bytes: what may stay in memory between calls.
    """

    graph: Graph
    n_rows: int
    total_weight: float
    n_parts: int
    load: Callable[[int], Table]
    kept_bytes: int = 0
    _kept: dict[int, FlowPlan] = field(default_factory=dict, repr=False)
    _size: int = field(default=0, repr=False)

    def __call__(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        if weights is not None:
            raise CodesError("rows on disk have the weights they were written with: give None")
        log_likelihood, flows = 0.0, np.zeros(self.graph.n_parameters)
        for plan in self._plans():
            more, flow = plan(parameters)
            log_likelihood += more
            flows += flow
        return log_likelihood, flows

    def batch(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Several parameter sets in one pass over the parts."""
        if weights is not None:
            raise CodesError("rows on disk have the weights they were written with: give None")
        sets = len(parameters)
        log_likelihood, flows = np.zeros(sets), np.zeros((sets, self.graph.n_parameters))
        for plan in self._plans():
            more, flow = plan.batch(parameters)
            log_likelihood += more
            flows += flow
        return log_likelihood, flows

    def _plans(self) -> Iterator[FlowPlan]:
        """The plan of each part in turn; a thread makes the next one ready."""
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._plan, 0)
            for k in range(self.n_parts):
                plan = coming.result()
                if k + 1 < self.n_parts:
                    coming = ahead.submit(self._plan, k + 1)
                yield plan

    def _plan(self, k: int) -> FlowPlan:
        if k in self._kept:
            return self._kept[k]
        plan = prepare(self.graph, self.load(k))
        size = plan_bytes(plan)
        if self._size + size <= self.kept_bytes:
            self._kept[k] = plan
            self._size += size
        return plan


def plan_bytes(plan: RowPlan) -> int:
    """What a plan keeps in memory."""
    table = plan.table
    kept = sum(chunk.form.n_bytes for chunk in plan.chunks if chunk.form is not None)
    return kept + table.codes.nbytes + table.weights.nbytes + plan.row_of.nbytes
