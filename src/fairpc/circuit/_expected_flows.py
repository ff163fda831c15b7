"""Expected flows: Definitions 2-4 and Algorithm 1 of the paper's appendix, and plans for them.

``prepare(graph, table)`` looks at the rows once and gives a plan;
``plan(theta)`` gives the log-likelihood and the expected flow of each
parameter, which is all that EM needs. Rows come in chunks, and a chunk takes
one of two paths. Where little of the circuit is active (a complete row of a
deterministic circuit activates one tree) only that is kept and passed over.
Where much of it is, the rows go through the circuit itself, merged per scope. The passes are
``upward`` and ``downward`` in ``_kernels``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from typing import Final, Literal, Protocol, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from fairpc.circuit._chunks import (
    CHUNK_VALUES,
    ActiveTerms,
    Projection,
    Scaled,
    Workspace,
    active_terms,
    chunks,
    kernels,
    project,
)
from fairpc.circuit._graph import PRODUCT, Graph, WeightedGraph
from fairpc.circuit._program import paired, program_of
from fairpc.circuit._properties import require
from fairpc.core import (
    Bools,
    Codes,
    CodesError,
    Floats,
    OptionError,
    map_in_order,
    thread_count,
)
from fairpc.data import Table, check_codes, check_weights, readonly

A = TypeVar("A")
Form = ActiveTerms | Projection
Path = Literal["auto", "active", "general"]

KEPT_BYTES: Final = 1 << 30
"""What plans keep of their rows between calls; rows beyond are projected anew at each call."""
ACTIVE_ROWS: Final = 16_384
ACTIVE_VALUES: Final = 2 * CHUNK_VALUES
"""Chunks are larger where little of them is kept: more rows share what they have in common."""
FEW_TERMS: Final = 100_000
"""Handing work to threads costs as much as some ten thousand terms."""
SMALL_EDGES: Final = 16_384
"""Edges of a circuit through which rows are sent faster than what is active in it is found."""
APART_ROWS: Final = 512
APART_VALUES: Final = 1 << 20


class FlowPlan(Protocol):
    """Rows made ready: parameters in, log-likelihood and expected flows out."""

    @property
    def graph(self) -> Graph: ...

    @property
    def total_weight(self) -> float: ...

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Log-likelihood and expected flow per parameter."""
        ...


def prepare(
    graph: Graph, table: Table, *, path: Path = "auto", n_threads: int | None = None
) -> RowPlan:
    """A plan for the rows of ``table``; equal rows are merged first.

    ``path`` is for comparisons: "active" keeps what is active however much it is,
    "general" sends every row through the circuit.
    """
    if path not in get_args(Path):
        raise OptionError(f"path is {path!r}: choose one of {', '.join(get_args(Path))}")
    check_table(graph, table)
    merged = table.merged()
    threads = thread_count(n_threads)
    chunks = tuple(_chunks(graph, merged.codes, path, threads))
    return RowPlan(graph, merged, chunks, threads)


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
class Chunk:
    """Some distinct rows, and what is kept of them: nothing where there was no room."""

    rows: slice
    form: Form | None


def _chunks(graph: Graph, codes: Codes, path: Path, n_threads: int) -> Iterator[Chunk]:
    room = KEPT_BYTES
    for start, stop, form in _forms(graph, codes, path, n_threads):
        room -= form.n_bytes
        yield Chunk(slice(start, stop), form if room >= 0 else None)


def _forms(
    graph: Graph, codes: Codes, path: Path, n_threads: int
) -> Iterator[tuple[int, int, Form]]:
    """Row ranges, which depend on the data alone and not on the threads, and their forms."""
    if path == "general":
        yield from chunks(program_of(graph), codes)
        return
    find = partial(active_terms, at_any_cost=path == "active")
    projections = chunks(paired(graph), codes, rows=ACTIVE_ROWS, values=ACTIVE_VALUES, planned=True)
    while some := list(islice(projections, n_threads)):
        found = map_in_order(find, [chunk for _, _, chunk in some], n_threads)
        for (start, stop, _), form in zip(some, found, strict=True):
            if form is None:
                yield from chunks(program_of(graph), codes, start, stop)
            else:
                yield start, stop, form


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The plan of one table in memory."""

    graph: Graph
    table: Table
    chunks: tuple[Chunk, ...]
    n_threads: int
    _work: Workspace = field(default_factory=Workspace, repr=False)

    @property
    def n_distinct(self) -> int:
        return self.table.n_rows

    @property
    def n_active(self) -> int:
        """Distinct rows that take the active path."""
        return sum(len(form.root) for form in self._active)

    @property
    def total_weight(self) -> float:
        return self.table.total_weight

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        theta, w = self._checked(parameters), self.table.weights
        found = self._each(lambda form, rows: form.flows(theta, w[rows], self._work))
        return _added(found, len(theta))

    def log_likelihood(self, parameters: Floats) -> float:
        """The same without the flows, to the bit: half the work."""
        theta, w = self._checked(parameters), self.table.weights
        found = self._each(lambda form, rows: form.log_likelihood(theta, w[rows], self._work))
        return sum(found, 0.0)

    def row_logs(self, parameters: Floats) -> Floats:
        """log P of each distinct row."""
        theta = self._checked(parameters)
        found = self._each(lambda form, _: form.row_logs(theta, self._work))
        return np.concatenate([*found, np.empty(0)])

    def _each(self, ask: Callable[[Form, slice], A | None]) -> Iterable[A]:
        """The answers of the chunks, in order."""
        found = map_in_order(lambda chunk: self._asked(chunk, ask), self.chunks, self._threads)
        return chain.from_iterable(found)

    def _asked(self, chunk: Chunk, ask: Callable[[Form, slice], A | None]) -> list[A]:
        """The answer of a chunk; where likelihoods are too small for it, of the circuit itself."""
        found = ask(self._form(chunk), chunk.rows)
        if found is not None:
            return [found]
        rows = chunk.rows
        parts = chunks(program_of(self.graph), self.table.codes, rows.start, rows.stop)
        answers = (ask(part, slice(start, stop)) for start, stop, part in parts)
        return [answer for answer in answers if answer is not None]

    @cached_property
    def _active(self) -> tuple[ActiveTerms, ...]:
        return tuple(c.form for c in self.chunks if isinstance(c.form, ActiveTerms))

    @property
    def _threads(self) -> int:
        return 1 if self._n_terms < FEW_TERMS else self.n_threads

    @cached_property
    def _n_terms(self) -> float:
        """Terms of all rows; without end where some do not take the active path."""
        if len(self._active) < len(self.chunks):
            return math.inf
        return sum(len(form.terms) for form in self._active)

    def _form(self, chunk: Chunk) -> Form:
        if chunk.form is not None:
            return chunk.form
        rows = chunk.rows
        return project(program_of(self.graph), self.table.codes, rows.start, rows.stop)

    def _checked(self, parameters: Floats) -> Floats:
        theta = np.ascontiguousarray(parameters, np.float64)
        if theta.shape != (self.graph.n_parameters,):
            raise CodesError(
                f"parameters have shape {theta.shape}: the plan takes ({self.graph.n_parameters})"
            )
        return readonly(theta)


def _added(parts: Iterable[tuple[float, Floats]], n_parameters: int) -> tuple[float, Floats]:
    """Log-likelihoods and flows added up in order."""
    log_likelihood, flows = 0.0, np.zeros(n_parameters)
    for more, flow in parts:
        log_likelihood += more
        flows += flow
    return log_likelihood, flows


@dataclass(eq=False)
class PartPlan:
    """A plan over parts: their log-likelihoods and flows, added in the order of the parts.

    While one part is evaluated the next is read and made ready. Parts stay in memory
    once they are ready until one does not fit into ``kept_bytes``; each iteration reads
    that one and those after it.

    Attributes:
        graph: the circuit's structure.
        total_weight: of all parts.
        n_parts: number of parts.
        load: gives the table of a part by its number.
        kept_bytes: what may stay in memory between calls.
    """

    graph: Graph
    total_weight: float
    n_parts: int
    load: Callable[[int], Table]
    kept_bytes: int = 0
    _kept: dict[int, FlowPlan] = field(default_factory=dict, repr=False)
    _size: int = field(default=0, repr=False)
    _full: bool = field(default=False, repr=False)

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        found = (plan(parameters) for plan in self._plans())
        return _added(found, self.graph.n_parameters)

    def _plans(self) -> Iterator[FlowPlan]:
        """The plan of each part in turn; a thread makes the next one ready."""
        with ThreadPoolExecutor(1) as loader:
            coming = loader.submit(self._plan, 0)
            for k in range(self.n_parts):
                plan = coming.result()
                if k + 1 < self.n_parts:
                    coming = loader.submit(self._plan, k + 1)
                yield plan

    def _plan(self, k: int) -> FlowPlan:
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
        return plan_once(self.graph, table)


def plan_once(graph: Graph, table: Table, n_threads: int | None = None) -> RowPlan:
    """A plan that is used once.

    Finding what is active pays in many evaluations, or where it is little of a large
    circuit; other rows go through the circuit itself.
    """
    small = graph.n_edges <= SMALL_EDGES
    return prepare(graph, table, path="general" if small else "auto", n_threads=n_threads)


def plan_bytes(plan: RowPlan) -> int:
    """What a plan keeps in memory."""
    table = plan.table
    kept = sum(chunk.form.n_bytes for chunk in plan.chunks if chunk.form is not None)
    return kept + table.codes.nbytes + table.weights.nbytes


def expected_flows(
    circuit: WeightedGraph, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Floats:
    """EF(n, c) of every edge, summed over weighted rows (Definition 4, Algorithm 1)."""
    g = circuit.graph
    rows = check_codes(codes, circuit.arities, circuit.names)
    w = check_weights(weights, len(rows))
    total = np.zeros(g.n_edges)
    work = Workspace()
    node_flow = np.zeros(g.n_nodes)
    for start, stop, chunk in chunks(program_of(g), rows):
        total += chunk.edge_flows(circuit.parameters, w[start:stop], work)[1]
        possible = np.isfinite(chunk.row_logs(circuit.parameters, work))
        node_flow[g.root] += w[start:stop][possible].sum()
    ptr = g.child_ptr.tolist()
    for n in range(g.root, -1, -1):
        edges = slice(ptr[n], ptr[n + 1])
        if g.kind[n] == PRODUCT:  # each edge carries the whole flow of its node
            total[edges] = node_flow[n]
        np.add.at(node_flow, g.child[edges], total[edges])
    return total


def circuit_flows(
    circuit: WeightedGraph, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Floats:
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


def row_flows(circuit: WeightedGraph, codes: npt.ArrayLike) -> Floats:
    """EF(n, c) of every edge for each row by itself: rows × edges, so for few rows at a time."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    flows = [expected_flows(circuit, row) for row in rows[:, None]]
    return np.stack(flows) if flows else np.zeros((0, circuit.graph.n_edges))


def node_flows(circuit: WeightedGraph, rows: Codes) -> Iterator[tuple[int, int, Floats]]:
    """EF(n) of every node for each row by itself: bounds of some rows, and nodes × rows."""
    graph, theta, scaled = circuit.graph, circuit.parameters, Scaled.of(circuit.parameters)
    step = max(1, min(APART_ROWS, APART_VALUES // graph.n_nodes))
    for start in range(0, len(rows), step):
        stop = min(start + step, len(rows))
        chunk = project(program_of(graph), rows, start, stop, merge=False)
        val, flow = np.empty(chunk.n_values), np.zeros(chunk.n_values)
        edge_flow = np.zeros(graph.n_edges)
        chunk.upward(theta, val)
        if val[chunk.root].min() > kernels().TINY:
            flow[chunk.root] = 1.0
            chunk.downward(theta, val, flow, edge_flow)
        else:
            # Nothing flows in rows of probability zero.
            values = chunk.upward_scaled(scaled)
            flow[chunk.root] = np.isfinite(values.log(chunk.root))
            chunk.downward_scaled(scaled, values, flow, edge_flow)
        yield start, stop, flow.reshape(graph.n_nodes, stop - start)


def contexts(circuit: WeightedGraph, codes: npt.ArrayLike) -> Bools:
    """Whether each complete row lies in the context of each node (Definition 2): rows × nodes."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    check_complete(rows, circuit.names)
    result = np.zeros((len(rows), circuit.graph.n_nodes), bool)
    for start, stop, flow in node_flows(circuit, rows):
        result[start:stop] = flow.T > 0
    return result
