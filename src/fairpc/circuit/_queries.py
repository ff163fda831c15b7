"""Exact queries. Each refuses a circuit that lacks the structural property it needs.

A smooth and decomposable circuit answers marginals in one upward pass (Section
"Properties and inference"). Determinism adds the most probable explanation, entropy and
Kullback–Leibler divergence: a complete assignment z activates one tree, so that
log P(z) = ∑ log θ over the active sum edges (appendix "Parameter Learning using Expected
Flows"), and the expectation of that sum needs nothing but the probability of each edge's
context. All logarithms are natural.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairpc.circuit._flows import check_complete, node_flows
from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, Circuit, variable_index
from fairpc.circuit._program import CHUNK_ROWS, CHUNK_VALUES, Program, Scaled, Workspace, kernels
from fairpc.circuit._properties import Pair, PropertyName, Question, answered, require
from fairpc.circuit._rewritten import pays
from fairpc.core import (
    Array,
    CircuitError,
    Codes,
    CodesError,
    EvidenceError,
    Floats,
    Ints,
    PropertyError,
    Words,
    map_in_order,
    thread_count,
)
from fairpc.data import check_codes, distinct_rows, readonly

MAX_STATES: Final = 1 << 16
"""Joint values over which an expectation may range."""
SAMPLE_ROWS: Final = 2048
WEIGHTED_NUMBERS: Final = 1 << 21
"""Numbers of all nodes that rows of weights take at once."""
POSTERIOR_ROWS: Final = 1 << 17
"""Rows whose values are asked for at once: enough for all threads."""
_ONE_TREE: Final[tuple[PropertyName, ...]] = ("smooth", "decomposable", "deterministic")

Function = Callable[[Ints], npt.ArrayLike] | Array


def log_likelihood(
    circuit: Circuit, codes: npt.ArrayLike, *, n_threads: int | None = None
) -> Floats:
    """log P(x) of complete rows."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    check_complete(rows, circuit.names)
    return _log_values(circuit, rows, n_threads)


def log_marginal(circuit: Circuit, codes: npt.ArrayLike, *, n_threads: int | None = None) -> Floats:
    """log P(e) of rows in which any value may be missing (-1); -inf where it is impossible."""
    return _log_values(circuit, check_codes(codes, circuit.arities, circuit.names), n_threads)


def _log_values(circuit: Circuit, rows: Codes, n_threads: int | None) -> Floats:
    if _many_equal(rows):
        row_of, first = distinct_rows(rows, circuit.arities)
        return _log_values(circuit, np.asfortranarray(rows[first]), n_threads)[row_of]
    program, theta, work = circuit.graph.program, circuit.parameters, Workspace()
    if pays(circuit.graph, rows):
        return _condensed_logs(program, theta, rows, work, thread_count(n_threads))
    result = np.empty(len(rows))

    def task(span: slice) -> None:
        for start, stop, chunk in program.chunks(rows, span.start, span.stop):
            result[start:stop] = chunk.row_logs(theta, work)

    for _ in map_in_order(task, program.spans(len(rows)), thread_count(n_threads)):
        pass
    return result


def _condensed_logs(
    program: Program, theta: Floats, rows: Codes, work: Workspace, n_threads: int
) -> Floats:
    """log P of rows by way of the condensed circuit, whose fewer numbers leave room for more."""
    result, weights, most = np.empty(len(rows)), np.append(theta, 1.0), 2 * CHUNK_ROWS

    def task(span: slice) -> None:
        chunks = program.condensed.chunks(
            rows, span.start, span.stop, rows=most, values=2 * CHUNK_VALUES
        )
        for start, stop, chunk in chunks:
            logs = chunk.plain_logs(weights, work)
            if logs is None:
                logs = program.project(rows, start, stop).row_logs(theta, work)
            result[start:stop] = logs

    for _ in map_in_order(task, program.condensed.spans(len(rows), most), n_threads):
        pass
    return result


def _many_equal(rows: Codes) -> bool:
    """Whether merging equal rows pays: a look at evenly spaced rows tells."""
    if len(rows) <= 4 * SAMPLE_ROWS:
        return False
    some = np.asfortranarray(rows[:: len(rows) // SAMPLE_ROWS])
    highest = some.max(axis=0).astype(np.int64) + 1
    return len(distinct_rows(some, highest)[1]) < len(some) / 2


def log_weighted(circuit: Circuit, weights: Mapping[Any, npt.ArrayLike]) -> Floats:
    """log E[∏_j w_j(X_j)], one pass for each row of weights: evidence that may be soft.

    ``weights`` gives, for some variables, a row of numbers from 0 up for its values; or several
    rows, as many for each. A set of values is a row of zeros and ones, and an
    interval that holds a share of a value weighs it by that share. All else is summed out.
    """
    rows = {variable_index(circuit.graph, v): np.atleast_2d(w) for v, w in weights.items()}
    n_rows = max((len(w) for w in rows.values()), default=1)
    for j, w in rows.items():
        sound = w.shape == (n_rows, int(circuit.arities[j])) and np.isfinite(w).all()
        if not (sound and (w >= 0).all()):
            raise CircuitError(
                f"the weights of {circuit.names[j]!r} have shape {w.shape}: give {n_rows} rows of "
                f"{circuit.arities[j]} finite numbers, none below 0"
            )
    start = np.append(0, np.cumsum(circuit.arities))
    table = np.ones((int(start[-1]), n_rows))
    for j, w in rows.items():
        table[start[j] : start[j + 1]] = w.T
    step = max(1, min(WEIGHTED_NUMBERS // circuit.graph.n_nodes, np.iinfo(np.uint16).max))
    parts = [
        _log_weighted(circuit, start[:-1], np.ascontiguousarray(table[:, i : i + step]))
        for i in range(0, n_rows, step)
    ]
    return np.concatenate(parts)


def _log_weighted(circuit: Circuit, start: Ints, table: Floats) -> Floats:
    """The same for some rows, with weights (values of all variables) × rows."""
    n_nodes, n_rows = circuit.graph.n_nodes, table.shape[1]
    values = Scaled(np.empty(n_nodes * n_rows), np.empty(n_nodes * n_rows, np.int32))
    kernels().upward_weighted(
        circuit.graph.program.arrays,
        readonly(start),
        Scaled.of(table.ravel()),
        np.arange(n_rows, dtype=np.uint16),
        Scaled.of(circuit.parameters),
        values,
    )
    return values.log(slice((n_nodes - 1) * n_rows, n_nodes * n_rows))


def posterior(
    circuit: Circuit, variable: int | str, codes: npt.ArrayLike, *, n_threads: int | None = None
) -> Floats:
    """P(variable = v | e) for each row: rows × values. Much faster than all conditionals."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    column = variable_index(circuit.graph, variable)
    logs = _logs_of_values(circuit, rows, column, n_threads)
    given = rows[:, column]
    for v in range(logs.shape[1]):
        logs[(given >= 0) & (given != v), v] = -np.inf
    top = logs.max(axis=1, keepdims=True)
    refuse_impossible(top[:, 0])
    shares = np.exp(logs - top)
    result: Floats = shares / shares.sum(axis=1, keepdims=True)
    return result


def _logs_of_values(circuit: Circuit, rows: Codes, column: int, n_threads: int | None) -> Floats:
    """log P of each row with each value of a column in place of its own: rows × values.

    The values of a row follow one another, so that they are in one chunk and share all
    that the column is no part of.
    """
    if _many_equal(rows):
        row_of, first = distinct_rows(rows, circuit.arities)
        some = np.asfortranarray(rows[first])
        return np.asfortranarray(_logs_of_values(circuit, some, column, n_threads)[row_of])
    n_values = int(circuit.arities[column])
    logs = np.empty((len(rows), n_values), order="F")
    for start in range(0, len(rows), POSTERIOR_ROWS):
        some = rows[start : start + POSTERIOR_ROWS]
        clamped = np.empty((len(some) * n_values, rows.shape[1]), rows.dtype, order="F")
        for v in range(n_values):
            clamped[v::n_values] = some
            clamped[v::n_values, column] = v
        found = _log_values(circuit, clamped, n_threads).reshape(-1, n_values)
        logs[start : start + POSTERIOR_ROWS] = found
    return logs


def conditionals(circuit: Circuit, codes: npt.ArrayLike) -> tuple[Floats, ...]:
    """P(X_j = v | e) of every variable at once, by one upward and one downward pass.

    The expected flow of the indicator [X_j = v] is this probability (Equation
    "ef-node" of the appendix). Gives one array (rows, arity) per variable.
    """
    rows = check_codes(codes, circuit.arities, circuit.names)
    result = _value_flows(circuit, rows)
    if result:
        refuse_impossible(np.where(result[0].sum(axis=1) > 0, 0.0, -np.inf))
    return result


def _value_flows(circuit: Circuit, rows: Codes) -> tuple[Floats, ...]:
    """Expected flow of every indicator; zeros in rows of probability zero."""
    g = circuit.graph
    result = tuple(np.zeros((len(rows), int(a))) for a in g.arities)
    leaves = np.flatnonzero(g.kind == INDICATOR).tolist()
    for start, stop, flow in node_flows(circuit, rows):
        for n in leaves:
            result[g.variable[n]][start:stop, g.value[n]] += flow[n]
    return result


def joint_with_values(
    circuit: Circuit, codes: npt.ArrayLike, variables: Sequence[int | str]
) -> Floats:
    """P(e, X_j = v) for every value of some variables: rows × their values, one after the other.

    As :func:`conditionals`, times P(e); zero where the evidence is impossible.
    """
    rows = check_codes(codes, circuit.arities, circuit.names)
    columns = [variable_index(circuit.graph, v) for v in variables]
    flows = _value_flows(circuit, rows)
    evidence = np.exp(log_marginal(circuit, rows))
    return np.concatenate([flows[j] for j in columns], axis=1) * evidence[:, None]


def refuse_impossible(log_evidence: Floats) -> None:
    """An error names the first row that cannot be conditioned on."""
    impossible = np.isneginf(log_evidence)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise EvidenceError(
            f"the evidence in row {row} has probability zero: you cannot condition on it; "
            "leave out a value that cannot occur with the others",
            row,
        )


def mpe(circuit: Circuit, codes: npt.ArrayLike) -> tuple[Codes, Floats]:
    """Most probable completion of each row, and its log-probability (deterministic circuits)."""
    require(circuit.graph, "the most probable explanation", "deterministic")
    rows = check_codes(codes, circuit.arities, circuit.names)
    return _traced(circuit, rows, None)


def _traced(circuit: Circuit, rows: Codes, seeds: Words | None) -> tuple[Codes, Floats]:
    """A path of each row, drawn with ``seeds`` or the most probable; and logs at the root."""
    theta = Scaled.of(circuit.parameters)
    completed = np.empty(rows.shape, np.int16)
    logs = np.empty(len(rows))
    for start, stop, chunk in circuit.graph.program.chunks(rows):
        values = chunk.upward_scaled(theta, use_max=seeds is None)
        logs[start:stop] = values.log(chunk.root)[chunk.root_ids]
        refuse_impossible(logs[:stop])
        own = None if seeds is None else seeds[start:stop]
        chunk.trace(theta, values, chunk.root_ids, own, completed[start:stop])
    return completed, logs


def sample(circuit: Circuit, n: int, rng: np.random.Generator | int | None = None) -> Codes:
    """``n`` independent complete rows."""
    asked: Any = n
    if not (isinstance(asked, int | np.integer) and asked >= 0):
        raise CodesError(f"{n!r} rows were asked for: give a whole number, 0 or more")
    theta = Scaled.of(circuit.parameters)
    chunk = circuit.graph.program.project(_evidence(circuit, None), 0, 1)
    drawn = np.empty((n, circuit.graph.n_variables), np.int16)
    chunk.trace(theta, chunk.upward_scaled(theta), np.zeros(n, np.int32), _seeds(rng, n), drawn)
    return drawn


def sample_given(
    circuit: Circuit, codes: npt.ArrayLike, rng: np.random.Generator | int | None = None
) -> Codes:
    """Each row completed by a draw from P(missing | known)."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    return _traced(circuit, rows, _seeds(rng, len(rows)))[0]


def _seeds(rng: np.random.Generator | int | None, n: int) -> Words:
    """One stream per row, so that the draw of a row does not depend on threads or chunks."""
    generator = np.random.default_rng(rng)
    return generator.integers(0, 1 << 64, size=n, dtype=np.uint64)


def expectation(
    circuit: Circuit,
    function: Function,
    variables: Sequence[int | str],
    codes: npt.ArrayLike | None = None,
) -> Floats:
    """E[f(A) | e] of a function of a few variables A, exactly, over their joint values.

    ``function`` takes an integer array (values, variables) and gives one number
    per joint value, or is an array indexed by the values. Without ``codes`` the
    result is a single number, else one per row of evidence.
    """
    columns = tuple(variable_index(circuit.graph, v) for v in variables)
    states, f = _tabulate(circuit, function, columns)
    evidence = _evidence(circuit, codes)
    logs = log_marginal(circuit, evidence)
    refuse_impossible(logs)
    total = np.zeros(len(evidence))
    for state, value in zip(states, f, strict=True):
        given = evidence[:, columns]
        rows = np.flatnonzero(((given < 0) | (given == state)).all(axis=1))
        clamped = evidence[rows].copy(order="F")
        clamped[:, columns] = state
        total[rows] += value * np.exp(log_marginal(circuit, clamped) - logs[rows])
    return total[0] if codes is None else total


def _evidence(circuit: Circuit, codes: npt.ArrayLike | None) -> Codes:
    """Checked rows; without any, one in which nothing is known."""
    given = np.full((1, len(circuit.names)), -1, np.int16) if codes is None else codes
    return check_codes(given, circuit.arities, circuit.names)


def _tabulate(
    circuit: Circuit, function: Function, columns: tuple[int, ...]
) -> tuple[Ints, Floats]:
    """All joint values of some variables, and the function at each."""
    arities = [int(circuit.arities[j]) for j in columns]
    if math.prod(arities) > MAX_STATES:
        raise CircuitError(
            f"the {len(columns)} variables have {math.prod(arities)} joint values: an expectation "
            f"ranges over {MAX_STATES} at most; use expectation_of_sum, or fewer variables"
        )
    if len(set(columns)) != len(columns):
        raise CircuitError("a variable is named twice: name each variable once")
    states = np.indices(arities).reshape(len(arities), -1).T
    if callable(function):
        values = np.asarray(function(states), np.float64)
    else:
        values = np.asarray(function, np.float64)
        if values.shape != tuple(arities):
            raise CircuitError(
                f"the function has shape {values.shape}: the variables have {tuple(arities)}"
            )
        values = values.ravel()
    if values.shape != (len(states),) or not np.isfinite(values).all():
        raise CircuitError("the function must give one finite number per joint value")
    return states, values


def expectation_of_sum(
    circuit: Circuit, tables: Mapping[Any, npt.ArrayLike], codes: npt.ArrayLike | None = None
) -> Floats:
    """E[Σ_j g_j(X_j) | e] for any number of variables; ``tables`` gives g_j as one value each."""
    marginals = conditionals(circuit, _evidence(circuit, None) if codes is None else codes)
    total = np.zeros(len(marginals[0]))
    for variable, table in tables.items():
        column = variable_index(circuit.graph, variable)
        g = np.asarray(table, np.float64)
        if g.shape != (int(circuit.arities[column]),):
            raise CircuitError(
                f"the table of {circuit.names[column]!r} has shape {g.shape}: give one number "
                f"for each of its {circuit.arities[column]} values"
            )
        total += marginals[column] @ g
    return total[0] if codes is None else total


def entropy(circuit: Circuit) -> float:
    """H(P) = −∑ P(context of edge) · log θ over the sum edges, in nats."""
    require(circuit.graph, "entropy", *_ONE_TREE)
    edge, theta = _sum_edges(circuit)
    used = edge > 0
    return math.fsum(-edge[used] * np.log(theta[used])) + 0.0


def kl(p: Circuit, q: Circuit) -> float:
    """KL(P ‖ Q) in nats: infinite where P is positive and Q is zero.

    Both circuits are smooth, decomposable and deterministic over the same
    variables, and where their supports meet their products split the variables
    alike. The recursion runs over pairs of nodes, so the time is at most the
    product of the sizes; circuits with one graph need a single pass.
    """
    for role, circuit in (("the first", p), ("the second", q)):
        require(circuit.graph, f"KL divergence, of {role} argument,", *_ONE_TREE)
    if p.names != q.names or not np.array_equal(p.arities, q.arities):
        raise CircuitError(
            f"KL divergence compares circuits over ({', '.join(p.names[:8])}) and "
            f"({', '.join(q.names[:8])}): both need the same variables in the same order, with "
            "the same number of values"
        )
    if p.graph is q.graph or p.graph.same_as(q.graph):
        return _kl_of_one_graph(p, q)
    both = _Pairs(p, q).meeting(p.graph.root, q.graph.root)
    if both.states < _support_size(p):
        return math.inf
    # Rounding can leave a divergence of zero a little below it.
    return max(-entropy(p) - both.log_q, 0.0)


def _sum_edges(circuit: Circuit) -> tuple[Floats, Floats]:
    """P(context of the edge) and θ of each sum edge: Algorithm 1 without evidence.

    Without evidence every node has value 1, so the flow of a node only divides among its children.
    """
    g = circuit.graph
    ptr, child, kind = g.child_ptr.tolist(), g.child.tolist(), g.kind.tolist()
    is_sum = g.edge_parameter >= 0
    theta = np.where(is_sum, circuit.parameters[g.edge_parameter] if is_sum.any() else 1.0, 1.0)
    share = theta.tolist()
    node = [0.0] * g.n_nodes
    node[g.root] = 1.0
    edge = [0.0] * g.n_edges
    for n in range(g.root, -1, -1):
        if kind[n] == INDICATOR:
            continue
        for e in range(ptr[n], ptr[n + 1]):
            edge[e] = node[n] * share[e]
            node[child[e]] += edge[e]
    return np.array(edge)[is_sum], theta[is_sum]


def _kl_of_one_graph(p: Circuit, q: Circuit) -> float:
    edge, theta = _sum_edges(p)
    _, other = _sum_edges(q)
    used = edge > 0
    if (other[used] == 0).any():
        return math.inf
    return max(math.fsum(edge[used] * (np.log(theta[used]) - np.log(other[used]))), 0.0)


class _Meeting(NamedTuple):
    """What two nodes n of P and m of Q have in common: the part of n's support inside m's."""

    states: int  #: in both supports: exact, so that "Q covers P" is no matter of rounding
    mass: float  #: P_n of them
    log_q: float  #: their expectation under P_n of log Q_m


_NOTHING = _Meeting(0, 0.0, 0.0)
_Question = Question[_Meeting]


class _Side:
    """One circuit of a pair: its nodes as plain lists, weights beside the children."""

    def __init__(self, circuit: Circuit) -> None:
        g = circuit.graph
        self.kind = g.kind.tolist()
        self.scopes = g.scopes
        self.leaf = list(zip(g.variable.tolist(), g.value.tolist(), strict=True))
        self.children = [g.children(n).tolist() for n in range(g.n_nodes)]
        self.weights = [
            circuit.weights(n).tolist() if self.kind[n] == SUM else [] for n in range(g.n_nodes)
        ]

    def live(self, n: int) -> list[tuple[int, float]]:
        """Children of a sum with their weights, those of weight zero left out."""
        pairs = zip(self.children[n], self.weights[n], strict=True)
        return [(c, w) for c, w in pairs if w > 0]

    def unwrapped(self, n: int) -> int:
        """The node itself, or what a product of a single child stands for."""
        while self.kind[n] == PRODUCT and len(self.children[n]) == 1:
            n = self.children[n][0]
        return n


class _Pairs:
    """The recursion of ``kl`` over pairs of nodes, each pair once.

    P_n = ∑ φ P_c and, by determinism, log Q_m = log θ + log Q_d on the support
    of the one child d that is positive; a product multiplies counts and masses
    of its parts, and adds their logarithms.
    """

    def __init__(self, p: Circuit, q: Circuit) -> None:
        self._p = _Side(p)
        self._q = _Side(q)
        self._memo: dict[Pair, _Meeting] = {}

    def meeting(self, n: int, m: int) -> _Meeting:
        return answered((n, m), self._ask, self._memo.get, self._memo)

    def _ask(self, n: int, m: int) -> _Question:
        """Yields the pairs whose meetings it needs, and returns the meeting of (n, m)."""
        n, m = self._p.unwrapped(n), self._q.unwrapped(m)
        if self._p.kind[n] == SUM:
            pairs = [((c, m), w, 0.0) for c, w in self._p.live(n)]
            return (yield from self._mix(pairs))
        if self._q.kind[m] == SUM:
            pairs = [((n, d), 1.0, math.log(w)) for d, w in self._q.live(m)]
            return (yield from self._mix(pairs))
        if self._p.kind[n] == self._q.kind[m] == INDICATOR:
            return _Meeting(1, 1.0, 0.0) if self._p.leaf[n] == self._q.leaf[m] else _NOTHING
        return (yield from self._multiply(n, m))

    def _mix(self, pairs: list[tuple[Pair, float, float]]) -> _Question:
        """The meeting of a sum: of its parts, with weight φ and log θ."""
        states, mass, log_q = _NOTHING
        for pair, weight, log_theta in pairs:
            part: _Meeting = yield pair
            states += part.states
            mass += weight * part.mass
            log_q += weight * (part.mass * log_theta + part.log_q)
        return _Meeting(states, mass, log_q)

    def _multiply(self, n: int, m: int) -> _Question:
        of_q = {self._q.scopes[d]: d for d in self._q.children[m] or [m]}
        parts = sorted(self._p.children[n] or [n], key=lambda c: self._p.scopes[c].bit_count())
        states, mass, log_q = 1, 1.0, 0.0
        matched = 0
        for c in parts:
            d = of_q.get(self._p.scopes[c])
            if d is None:
                continue
            matched += 1
            part: _Meeting = yield c, d
            # Supports that exclude each other need not split the other variables alike.
            if part.states == 0:
                return _NOTHING
            log_q = log_q * part.mass + mass * part.log_q
            mass *= part.mass
            states *= part.states
        if matched < max(len(parts), len(of_q)):
            raise PropertyError(
                "KL divergence needs circuits that split their variables alike: node "
                f"{n} of the first and node {m} of the second have the same variables and "
                "different parts"
            )
        return _Meeting(states, mass, log_q)


def _support_size(circuit: Circuit) -> int:
    """Number of assignments of positive probability: by determinism a sum at the sums."""
    side = _Side(circuit)
    sizes: list[int] = []
    for n, kind in enumerate(side.kind):
        if kind == SUM:
            sizes.append(sum(sizes[c] for c, _ in side.live(n)))
        else:
            sizes.append(math.prod(sizes[c] for c in side.children[n]))
    return sizes[-1]
