"""Exact queries. Each refuses a circuit that lacks the structural property it needs.

A smooth and decomposable circuit answers marginals in one upward pass (Section
"Properties and inference"); determinism adds the most probable explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.flows import check_complete, node_flows
from fairpc.circuit.graph import INDICATOR, Circuit, variable_index, variable_indices
from fairpc.circuit.program import Projection, Scaled, program_of
from fairpc.circuit.properties import require
from fairpc.circuit.threads import map_in_order, thread_count
from fairpc.data.table import check_codes, distinct_rows
from fairpc.errors import CircuitError, CodesError, EvidenceError
from fairpc.errors.arrays import Array, Codes, Floats, Ints, Words

MAX_STATES: Final = 1 << 16
"""Joint values over which an expectation may range."""
SAMPLE_ROWS: Final = 2048

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
    program = program_of(circuit.graph)
    result = np.empty(len(rows))
    step = program.chunk_rows()

    def part(k: int) -> None:
        for start, stop, chunk in program.chunks(rows, k * step, min((k + 1) * step, len(rows))):
            result[start:stop] = _root_logs(circuit, chunk)[chunk.root_ids]

    n_tasks = -(-len(rows) // step)
    for _ in map_in_order(part, n_tasks, thread_count(n_threads)):
        pass
    return result


def _many_equal(rows: Codes) -> bool:
    """Whether merging equal rows pays: a look at evenly spaced rows tells."""
    if len(rows) <= 4 * SAMPLE_ROWS:
        return False
    some = np.asfortranarray(rows[:: len(rows) // SAMPLE_ROWS])
    highest = some.max(axis=0).astype(np.int64) + 1
    return len(distinct_rows(some, highest)[1]) < len(some) / 2


def _root_logs(circuit: Circuit, chunk: Projection) -> Floats:
    """log P of each distinct row of a chunk; with extended range where it is very small."""
    from fairpc.circuit import _kernels

    val = np.empty(chunk.n_values)
    chunk.upward(circuit.parameters, val)
    values = val[chunk.root]
    if values.min() > _kernels.TINY:
        return np.log(values)
    return chunk.upward_scaled(Scaled.of(circuit.parameters)).log(chunk.root)


def posterior(
    circuit: Circuit,
    variable: int | str,
    codes: npt.ArrayLike,
    *,
    n_threads: int | None = None,
) -> Floats:
    """P(variable = v | e) for each row: rows × values. Much faster than all conditionals."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    column = variable_index(circuit.graph, variable)
    logs = np.empty((len(rows), int(circuit.arities[column])))
    given = rows[:, column]
    for v in range(logs.shape[1]):
        clamped = rows.copy(order="F")
        clamped[:, column] = v
        logs[:, v] = _log_values(circuit, clamped, n_threads)
        logs[(given >= 0) & (given != v), v] = -np.inf
    top = logs.max(axis=1, keepdims=True)
    _refuse_impossible(top[:, 0])
    shares = np.exp(logs - top)
    result: Floats = shares / shares.sum(axis=1, keepdims=True)
    return result


def conditionals(circuit: Circuit, codes: npt.ArrayLike) -> tuple[Floats, ...]:
    """P(X_j = v | e) of every variable at once, by one upward and one downward pass.

    The expected flow of the indicator [X_j = v] is this probability (Equation
    "ef-node" of the appendix). Gives one array (rows, arity) per variable.
    """
    rows = check_codes(codes, circuit.arities, circuit.names)
    g = circuit.graph
    result = tuple(np.zeros((len(rows), int(a))) for a in g.arities)
    leaves = np.flatnonzero(g.kind == INDICATOR).tolist()
    for start, stop, flow in node_flows(circuit, rows):
        for n in leaves:
            result[g.variable[n]][start:stop, g.value[n]] += flow[n]
    if result:
        _refuse_impossible(np.where(result[0].sum(axis=1) > 0, 0.0, -np.inf))
    return result


def _refuse_impossible(log_evidence: Floats) -> None:
    impossible = np.isneginf(log_evidence)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise EvidenceError(
            f"the evidence in row {row} has probability zero: nothing is conditional on it; "
            "leave out a value that cannot occur with the others",
            row,
        )


def mpe(circuit: Circuit, codes: npt.ArrayLike) -> tuple[Codes, Floats]:
    """Most probable completion of each row, and its log-probability (deterministic circuits)."""
    require(circuit.graph, "the most probable explanation", "deterministic")
    rows = check_codes(codes, circuit.arities, circuit.names)
    theta = Scaled.of(circuit.parameters)
    completed = np.empty(rows.shape, np.int16)
    logs = np.empty(len(rows))
    for start, stop, chunk in program_of(circuit.graph).chunks(rows):
        values = chunk.upward_scaled(theta, use_max=True)
        logs[start:stop] = values.log(chunk.root)[chunk.root_ids]
        _refuse_impossible(logs[:stop])
        chunk.trace(theta, values, chunk.root_ids, None, completed[start:stop])
    return completed, logs


def sample(circuit: Circuit, n: int, rng: np.random.Generator | int | None = None) -> Codes:
    """``n`` independent complete rows."""
    if not _is_count(n):
        raise CodesError(f"{n!r} rows were asked for: ask for none or more, a whole number")
    nothing = np.full((1, circuit.graph.n_variables), -1, np.int16)
    rows = check_codes(nothing, circuit.arities)
    theta = Scaled.of(circuit.parameters)
    chunk = program_of(circuit.graph).project(rows, 0, 1)
    drawn = np.empty((n, circuit.graph.n_variables), np.int16)
    chunk.trace(theta, chunk.upward_scaled(theta), np.zeros(n, np.int32), _seeds(rng, n), drawn)
    return drawn


def _is_count(n: Any) -> bool:
    return isinstance(n, int | np.integer) and int(n) >= 0


def sample_given(
    circuit: Circuit, codes: npt.ArrayLike, rng: np.random.Generator | int | None = None
) -> Codes:
    """Each row completed by a draw from P(missing | known)."""
    rows = check_codes(codes, circuit.arities, circuit.names)
    theta = Scaled.of(circuit.parameters)
    seeds = _seeds(rng, len(rows))
    drawn = np.empty(rows.shape, np.int16)
    for start, stop, chunk in program_of(circuit.graph).chunks(rows):
        values = chunk.upward_scaled(theta)
        logs = values.log(chunk.root)[chunk.root_ids]
        _refuse_impossible(np.concatenate([np.zeros(start), logs]))
        chunk.trace(theta, values, chunk.root_ids, seeds[start:stop], drawn[start:stop])
    return drawn


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
    columns = variable_indices(circuit.graph, variables)
    states, f = _tabulate(circuit, function, columns)
    if codes is None:
        evidence = np.full((1, circuit.graph.n_variables), -1, np.int16)
    else:
        evidence = check_codes(codes, circuit.arities, circuit.names)
    logs = log_marginal(circuit, evidence)
    _refuse_impossible(logs)
    total = np.zeros(len(evidence))
    for state, value in zip(states, f, strict=True):
        given = evidence[:, columns]
        rows = np.flatnonzero(((given < 0) | (given == state)).all(axis=1))
        clamped = evidence[rows].copy(order="F")
        clamped[:, columns] = state
        total[rows] += value * np.exp(log_marginal(circuit, clamped) - logs[rows])
    return total[0] if codes is None else total


def _tabulate(
    circuit: Circuit, function: Function, columns: tuple[int, ...]
) -> tuple[Ints, Floats]:
    """All joint values of some variables, and the function at each."""
    arities = [int(circuit.arities[j]) for j in columns]
    if prod(arities) > MAX_STATES:
        raise CircuitError(
            f"the {len(columns)} variables have {prod(arities)} joint values: an expectation "
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
    circuit: Circuit,
    tables: Mapping[Any, npt.ArrayLike],
    codes: npt.ArrayLike | None = None,
) -> Floats:
    """E[Σ_j g_j(X_j) | e] for any number of variables; ``tables`` gives g_j as one value each."""
    nothing = np.full((1, circuit.graph.n_variables), -1, np.int16)
    marginals = conditionals(circuit, nothing if codes is None else codes)
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
