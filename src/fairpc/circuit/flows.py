"""Expected flows: Definitions 2-4 and Algorithm 1 of the paper's appendix, and plans for them.

``prepare(graph, table)`` looks at the rows once and gives a plan;
``plan(theta)`` gives the log-likelihood and the expected flow of each
parameter, which is all that EM needs. Rows choose between two paths. A row
with few induced trees (a complete row of a deterministic circuit has one, a
hidden variable of k values makes k) keeps the list of parameters on each of
them, and an iteration is a pass over these lists. Other rows go through the
circuit itself, merged per scope.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import PRODUCT, SUM, Circuit, FloatArray, Graph
from fairpc.circuit.program import Program, Projection, Scaled, program_of
from fairpc.circuit.properties import require
from fairpc.circuit.threads import map_in_order, thread_count
from fairpc.circuit.trees import ListPlan, list_trees
from fairpc.data.table import Codes, Table, check_codes, check_weights
from fairpc.errors import CodesError

Path = Literal["auto", "active", "general"]

KEPT_BYTES: Final = 1 << 29
"""Projections kept between calls; what is beyond is projected anew at each call."""
APART_ROWS: Final = 512
APART_VALUES: Final = 1 << 20


class FlowPlan(Protocol):
    """Rows made ready: parameters in, log-likelihood and expected flows out."""

    @property
    def graph(self) -> Graph: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    def __call__(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        """Log-likelihood and expected flow per parameter."""
        ...

    def batch(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The same for several parameter sets (B, P), with one row of weights or one per set."""
        ...


def prepare(
    graph: Graph, table: Table, *, path: Path = "auto", n_threads: int | None = None
) -> RowPlan:
    """A plan for the rows of ``table``; equal rows are merged first.

    ``path`` is for comparisons: "active" lists the trees of every row whatever
    their number, "general" sends every row through the circuit.
    """
    if path not in get_args(Path):
        raise ValueError(f"path is {path!r}: choose one of {', '.join(get_args(Path))}")
    check_table(graph, table)
    merged, row_of = table.merged()
    program = program_of(graph)
    threads = thread_count(n_threads)
    if path == "general" or program.longest == 0:  # without sums there is nothing to list
        listed, rest = ListPlan(graph.n_parameters, (), threads), np.arange(merged.n_rows)
    else:
        listed, rest = list_trees(program, merged.codes, threads, every_row=path == "active")
    through = ProjectionPlan.of(program, np.asfortranarray(merged.codes[rest]), threads)
    return RowPlan(graph, merged, row_of, listed, rest, through)


def check_table(graph: Graph, table: Table) -> None:
    """The columns of ``table`` are the variables of ``graph``, by order and arity."""
    if table.n_variables != graph.n_variables:
        raise CodesError(
            f"the table has {table.n_variables} columns and the circuit {graph.n_variables} "
            "variables: give one column per variable"
        )
    wide = table.arities > graph.arities
    if wide.any():
        j = int(np.argmax(wide))
        raise CodesError(
            f"column {table.names[j]!r} has arity {table.arities[j]} and variable "
            f"{graph.names[j]!r} has {graph.arities[j]}: encode them alike"
        )


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The plan of one table in memory: lists of trees for some rows, projections for the rest."""

    graph: Graph
    table: Table
    row_of: npt.NDArray[np.int32]
    listed: ListPlan
    rest: npt.NDArray[np.int64]
    through: ProjectionPlan

    @property
    def n_rows(self) -> int:
        """Rows as they were given, before equal ones were merged."""
        return len(self.row_of)

    @property
    def n_distinct(self) -> int:
        return self.table.n_rows

    @property
    def n_listed(self) -> int:
        """Distinct rows that take the active path."""
        return self.listed.n_rows

    @property
    def total_weight(self) -> float:
        return self.table.total_weight

    def __call__(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, FloatArray]:
        theta = self._checked(parameters, 1)
        w = self._distinct_weights(weights)
        log_likelihood, flows = self.listed.flows(theta, w)
        if len(self.rest):
            more, through = self.through.flows(theta, w[self.rest])
            log_likelihood, flows = log_likelihood + more, flows + through
        return log_likelihood, flows

    def batch(
        self, parameters: FloatArray, weights: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        theta = self._checked(parameters, 2)
        if weights is None or np.ndim(weights) == 1:
            per_set = np.tile(self._distinct_weights(weights), (len(theta), 1))
        else:
            per_set = np.stack([self._distinct_weights(w) for w in np.asarray(weights)])
        if len(per_set) != len(theta):
            raise CodesError(
                f"{len(theta)} parameter sets and {len(per_set)} weight vectors: give as many"
            )
        log_likelihood, flows = self.listed.flows_of_sets(theta, per_set)
        if len(self.rest):
            for b, w in enumerate(per_set):
                more, through = self.through.flows(theta[b], w[self.rest])
                log_likelihood[b] += more
                flows[b] += through
        return log_likelihood, flows

    def _checked(self, parameters: FloatArray, ndim: int) -> FloatArray:
        theta = np.ascontiguousarray(parameters, np.float64)
        if theta.ndim != ndim or theta.shape[-1] != self.graph.n_parameters:
            shape = ("B, " if ndim == 2 else "") + str(self.graph.n_parameters)
            raise CodesError(f"parameters have shape {theta.shape}: the plan takes ({shape})")
        return theta

    def _distinct_weights(self, weights: FloatArray | None) -> FloatArray:
        if weights is None:
            return self.table.weights
        given = check_weights(weights, self.n_rows)
        return np.asarray(np.bincount(self.row_of, given, minlength=self.n_distinct), np.float64)


@dataclass(frozen=True, eq=False)
class ProjectionPlan:
    """The general path: chunks of rows, merged per scope, up and down the circuit."""

    program: Program
    codes: Codes
    bounds: tuple[tuple[int, int], ...]
    kept: tuple[Projection, ...]
    n_threads: int
    _work: threading.local = field(default_factory=threading.local, repr=False)

    @classmethod
    def of(cls, program: Program, codes: Codes, n_threads: int) -> ProjectionPlan:
        bounds, kept, size = [], [], 0
        for start, stop, chunk in program.chunks(codes):
            bounds.append((start, stop))
            size += chunk.n_bytes
            if size <= KEPT_BYTES:
                kept.append(chunk)
        return cls(program, codes, tuple(bounds), tuple(kept), n_threads)

    def flows(self, theta: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        g = self.program.graph
        log_likelihood, edge_flows = 0.0, np.zeros(g.n_edges)
        tasks = map_in_order(
            lambda k: self._chunk_flows(k, theta, weights), len(self.bounds), self.n_threads
        )
        for part, flow in tasks:
            log_likelihood += part
            edge_flows += flow
        return log_likelihood, parameter_flows(g, edge_flows)

    def _chunk_flows(
        self, k: int, theta: FloatArray, weights: FloatArray
    ) -> tuple[float, FloatArray]:
        start, stop = self.bounds[k]
        if k < len(self.kept):
            chunk = self.kept[k]
        else:
            chunk = self.program.project(self.codes, start, stop)
        return chunk_flows(chunk, theta, weights[start:stop], self._buffers(chunk.n_values))

    def _buffers(self, size: int) -> tuple[FloatArray, FloatArray]:
        """Two buffers of this thread's own: fresh pages would cost more than the arithmetic."""
        buffers = getattr(self._work, "buffers", None)
        if buffers is None or len(buffers[0]) < size:
            buffers = (np.empty(size), np.empty(size))
            self._work.buffers = buffers
        return buffers[0][:size], buffers[1][:size]


def chunk_flows(
    chunk: Projection,
    theta: FloatArray,
    weights: FloatArray,
    buffers: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[float, FloatArray]:
    """Log-likelihood and expected flow of every sum edge for one chunk of rows.

    Plain floating point first; where some likelihood is so small that digits may
    have been lost, the chunk is done again with extended range.
    """
    from fairpc.circuit import _kernels

    val, flow = buffers or (np.empty(chunk.n_values), np.empty(chunk.n_values))
    edge_flow = np.zeros(chunk.program.graph.n_edges)
    root = chunk.root
    at_root = np.bincount(chunk.root_ids, weights=weights, minlength=root.stop - root.start)
    chunk.upward(theta, val)
    log_likelihood, least = _kernels.weighted_log(val[root], at_root)
    flow[:] = 0.0
    if least > _kernels.TINY:
        flow[root] = at_root
        chunk.downward(theta, val, flow, edge_flow)
        return log_likelihood, edge_flow
    scaled = Scaled.of(theta)
    values = chunk.upward_scaled(scaled)
    logs = values.log(root)
    # A row of probability zero has no flow: it is told by the log-likelihood alone.
    flow[root] = np.where(np.isfinite(logs), at_root, 0.0)
    chunk.downward_scaled(scaled, values, flow, edge_flow)
    positive = at_root > 0
    return float(np.dot(at_root[positive], logs[positive])), edge_flow


def parameter_flows(graph: Graph, edge_flows: FloatArray) -> FloatArray:
    """Flow per parameter: the flows of all edges that share it are added up."""
    edges = graph.edge_parameter >= 0
    flows = np.bincount(graph.edge_parameter[edges], edge_flows[edges], graph.n_parameters)
    return np.asarray(flows, np.float64)


def expected_flows(
    circuit: Circuit, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> FloatArray:
    """EF(n, c) of every edge, summed over weighted rows (Definition 4, Algorithm 1)."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    w = check_weights(weights, len(rows))
    total = np.zeros(circuit.graph.n_edges)
    for start, stop, chunk in program_of(circuit.graph).chunks(rows):
        total += chunk_flows(chunk, circuit.parameters, w[start:stop])[1]
    return _with_product_edges(circuit.graph, total, float(w[_positive(circuit, rows)].sum()))


def _positive(circuit: Circuit, rows: Codes) -> npt.NDArray[np.bool_]:
    from fairpc.circuit.queries import log_marginal

    return np.isfinite(log_marginal(circuit, rows))


def _with_product_edges(graph: Graph, edge_flows: FloatArray, at_root: float) -> FloatArray:
    """Fill in the product edges: each carries the whole flow of its node."""
    node_flow = np.zeros(graph.n_nodes)
    node_flow[graph.root] = at_root
    ptr = graph.child_ptr.tolist()
    for n in range(graph.n_nodes - 1, -1, -1):
        edges = slice(ptr[n], ptr[n + 1])
        if graph.kind[n] == PRODUCT:
            edge_flows[edges] = node_flow[n]
        np.add.at(node_flow, graph.child[edges], edge_flows[edges])
    return edge_flows


def circuit_flows(
    circuit: Circuit, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> FloatArray:
    """F(n, c) of every edge, summed over weighted complete rows (Definition 3)."""
    require(circuit.graph, "the circuit flow", "deterministic")
    check_complete(check_codes(codes, circuit.arities, circuit.names), circuit.names)
    return expected_flows(circuit, codes, weights)


def check_complete(codes: Codes, names: tuple[str, ...]) -> None:
    """A CodesError where some value is missing."""
    holes = codes < 0
    if holes.any():
        row, column = (int(i) for i in np.argwhere(holes)[0])
        raise CodesError(
            f"row {row} has no value in column {names[column]!r}: this takes complete rows; "
            "use the marginal or the expected flow"
        )


def row_flows(circuit: Circuit, codes: npt.ArrayLike) -> FloatArray:
    """EF(n, c) of every edge for each row by itself: rows × edges, so for few rows at a time."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    g = circuit.graph
    theta = Scaled.of(circuit.parameters)
    result = np.zeros((len(rows), g.n_edges))
    for start, stop, chunk in _rows_apart(circuit, rows):
        values, flow = _scaled_flows(chunk, theta)
        for e in range(g.n_edges):
            n, c = int(g.edge_node[e]), int(g.child[e])
            passed = flow[chunk.node(n)]
            if g.kind[n] == SUM:
                above = np.where(passed > 0, values.log(chunk.node(n)), 0.0)
                share = np.exp(values.log(chunk.node(c)) - above)
                passed = passed * circuit.parameters[g.edge_parameter[e]] * share
            result[start:stop, e] = passed
    return result


def node_flows(circuit: Circuit, rows: Codes) -> Iterator[tuple[int, int, FloatArray]]:
    """EF(n) of every node for each row by itself: bounds of some rows, and nodes × rows."""
    from fairpc.circuit import _kernels

    theta = Scaled.of(circuit.parameters)
    for start, stop, chunk in _rows_apart(circuit, rows):
        val = np.empty(chunk.n_values)
        chunk.upward(circuit.parameters, val)
        if val[chunk.root].min() > _kernels.TINY:
            flow = np.zeros(chunk.n_values)
            flow[chunk.root] = 1.0
            chunk.downward(circuit.parameters, val, flow, np.zeros(circuit.graph.n_edges))
        else:
            flow = _scaled_flows(chunk, theta)[1]
        yield start, stop, flow.reshape(circuit.graph.n_nodes, stop - start)


def _rows_apart(circuit: Circuit, rows: Codes) -> Iterator[tuple[int, int, Projection]]:
    """Chunks in which every row stands alone."""
    program = program_of(circuit.graph)
    step = max(1, min(APART_ROWS, APART_VALUES // circuit.graph.n_nodes))
    for start in range(0, len(rows), step):
        stop = min(start + step, len(rows))
        yield start, stop, program.project(rows, start, stop, merge=False)


def _scaled_flows(chunk: Projection, theta: Scaled) -> tuple[Scaled, FloatArray]:
    """Values and EF(n) with extended range; nothing flows in rows of probability zero."""
    values = chunk.upward_scaled(theta)
    flow = np.zeros(chunk.n_values)
    flow[chunk.root] = np.isfinite(values.log(chunk.root))
    chunk.downward_scaled(theta, values, flow, np.zeros(chunk.program.graph.n_edges))
    return values, flow


def contexts(circuit: Circuit, codes: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether each complete row lies in the context of each node (Definition 2): rows × nodes."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    check_complete(rows, circuit.names)
    result = np.zeros((len(rows), circuit.graph.n_nodes), bool)
    for start, stop, flow in node_flows(circuit, rows):
        result[start:stop] = flow.T > 0
    return result
