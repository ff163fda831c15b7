"""Expected flows over parts that are not all in memory: one after the other, read ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fairpc.circuit.flows import FlowPlan, RowPlan, prepare
from fairpc.circuit.graph import Graph
from fairpc.data.table import Table
from fairpc.errors import CodesError
from fairpc.errors.arrays import Floats

SMALL_EDGES: Final = 16_384
"""Edges of a circuit through which rows are sent faster than what is active in it is found."""


@dataclass(eq=False)
class PartPlan:
    """A plan over parts: their log-likelihoods and flows, added in the order of the parts.

    While one part is evaluated the next is read and made ready. Parts stay in memory
    once they are ready until one does not fit into ``kept_bytes``; each iteration reads
    that one and those after it.

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
    _full: bool = field(default=False, repr=False)

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        if weights is not None:
            raise CodesError("rows on disk have the weights they were written with: give None")
        log_likelihood, flows = 0.0, np.zeros(self.graph.n_parameters)
        for plan in self._plans(1):
            more, flow = plan(parameters)
            log_likelihood += more
            flows += flow
        return log_likelihood, flows

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """Several parameter sets in one pass over the parts."""
        if weights is not None:
            raise CodesError("rows on disk have the weights they were written with: give None")
        sets = len(parameters)
        log_likelihood, flows = np.zeros(sets), np.zeros((sets, self.graph.n_parameters))
        for plan in self._plans(sets):
            more, flow = plan.batch(parameters)
            log_likelihood += more
            flows += flow
        return log_likelihood, flows

    def _plans(self, n_sets: int) -> Iterator[FlowPlan]:
        """The plan of each part in turn; a thread makes the next one ready."""
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._plan, 0, n_sets)
            for k in range(self.n_parts):
                plan = coming.result()
                if k + 1 < self.n_parts:
                    coming = ahead.submit(self._plan, k + 1, n_sets)
                yield plan

    def _plan(self, k: int, n_sets: int) -> FlowPlan:
        if k in self._kept:
            return self._kept[k]
        table = self.load(k)
        if self.kept_bytes and not self._full:
            plan = prepare(self.graph, table)
            size = plan_bytes(plan)
            self._full = self._size + size > self.kept_bytes
            if not self._full:
                self._kept[k] = plan
                self._size += size
                return plan
        # At the first call too, for other sums of the same numbers have other last bits.
        return plan_once(self.graph, table, n_sets)


def plan_once(graph: Graph, table: Table, n_sets: int, n_threads: int | None = None) -> RowPlan:
    """A plan that is used once, for some parameter sets.

    Finding what is active pays in many evaluations, or where it is little of a large
    circuit; other rows go through the circuit itself.
    """
    small = n_sets == 1 and graph.n_edges <= SMALL_EDGES
    return prepare(graph, table, path="general" if small else "auto", n_threads=n_threads)


def plan_bytes(plan: RowPlan) -> int:
    """What a plan keeps in memory."""
    table = plan.table
    kept = sum(chunk.form.n_bytes for chunk in plan.chunks if chunk.form is not None)
    return kept + table.codes.nbytes + table.weights.nbytes + plan.row_of.nbytes
