"""Circuits and their exact queries: each refuses a circuit that lacks the property it needs.

A smooth and decomposable circuit answers marginals in one upward pass (Section "Properties and
inference"): what is missing is marginalised (``upward`` in ``_kernels``). Determinism adds the
most probable explanation. All logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit._chunks import (
    ChunkArrays,
    Scaled,
    Workspace,
    chunks,
    kernels,
    project,
    spans,
)
from fairpc.circuit._expected_flows import check_complete, node_flows
from fairpc.circuit._graph import INDICATOR, WeightedGraph, variable_index
from fairpc.circuit._program import program_of
from fairpc.circuit._properties import Properties, properties_of, require
from fairpc.core import (
    CircuitError,
    Codes,
    CodesError,
    EvidenceError,
    Floats,
    Ints,
    Words,
    map_in_order,
    thread_count,
)
from fairpc.data import check_codes, distinct_rows

SAMPLE_ROWS: Final = 2048
WEIGHTED_NUMBERS: Final = 1 << 21
"""Numbers of all nodes that rows of weights take at once."""
POSTERIOR_ROWS: Final = 1 << 17
"""Rows whose values are asked for at once: enough for all threads."""

Seed = np.random.Generator | int | None


class Circuit(WeightedGraph):
    """A probabilistic circuit C = (G, θ): a graph and one probability vector per parameter block.

    Rows are integer codes, one column per variable, -1 = missing.
    """

    def __repr__(self) -> str:
        g = self.graph
        return (
            f"<Circuit of {g.n_variables:,} variables: {g.n_nodes:,} nodes, {g.n_edges:,} edges, "
            f"{g.n_parameters:,} parameters>"
        )

    def with_parameters(self, parameters: npt.ArrayLike) -> Circuit:
        """The same structure with other parameters."""
        return Circuit(self.graph, np.asarray(parameters, np.float64))

    def properties(self) -> Properties:
        """Smooth, decomposable, deterministic, structured; each with its first violation."""
        return properties_of(self.graph)

    def log_likelihood(self, codes: npt.ArrayLike) -> Floats:
        """log P(x) of complete rows."""
        rows = self._rows(codes)
        check_complete(rows, self.names)
        return self._log_values(rows)

    def log_marginal(self, codes: npt.ArrayLike, *, n_threads: int | None = None) -> Floats:
        """log P(e) of rows in which any value may be missing (-1); -inf where it is impossible."""
        return self._log_values(self._rows(codes), n_threads)

    def _rows(self, codes: npt.ArrayLike | None) -> Codes:
        """Checked rows; without any, one in which nothing is known."""
        given = np.full((1, len(self.names)), -1, np.int16) if codes is None else codes
        return check_codes(given, self.arities, self.names)

    def _log_values(self, rows: Codes, n_threads: int | None = None) -> Floats:
        if _many_equal(rows):
            row_of, first = distinct_rows(rows, self.arities)
            return self._log_values(np.asfortranarray(rows[first]), n_threads)[row_of]
        program, work = program_of(self.graph), Workspace()
        result = np.empty(len(rows))

        def task(span: slice) -> None:
            for start, stop, chunk in chunks(program, rows, span.start, span.stop):
                result[start:stop] = chunk.row_logs(self.parameters, work)

        for _ in map_in_order(task, spans(program, len(rows)), thread_count(n_threads)):
            pass
        return result

    def log_weighted(self, weights: Mapping[Any, npt.ArrayLike]) -> Floats:
        """log E[∏_j w_j(X_j)], one pass for each row of weights: evidence that may be soft.

        ``weights`` gives, for some variables, a row of numbers from 0 up for its values; or several
        rows, as many for each. A set of values is a row of zeros and ones, and an
        interval that holds a share of a value weighs it by that share. All else is marginalised.
        """
        rows = {variable_index(self.names, v): np.atleast_2d(w) for v, w in weights.items()}
        n_rows = max((len(w) for w in rows.values()), default=1)
        for j, w in rows.items():
            sound = w.shape == (n_rows, int(self.arities[j])) and np.isfinite(w).all()
            if not (sound and (w >= 0).all()):
                raise CircuitError(
                    f"the weights of {self.names[j]!r} have shape {w.shape}: give {n_rows} rows of "
                    f"{self.arities[j]} finite numbers, none below 0"
                )
        start = np.append(0, np.cumsum(self.arities))
        table = np.ones((int(start[-1]), n_rows))
        for j, w in rows.items():
            table[start[j] : start[j + 1]] = w.T
        leaf = np.flatnonzero(self.graph.kind == INDICATOR)
        place = start[self.graph.variable[leaf]] + self.graph.value[leaf]
        step = max(1, min(WEIGHTED_NUMBERS // self.graph.n_nodes, np.iinfo(np.uint16).max))
        parts = [
            self._log_weighted(leaf, table[place, i : i + step]) for i in range(0, n_rows, step)
        ]
        return np.concatenate(parts)

    def _log_weighted(self, leaf: Ints, table: Floats) -> Floats:
        """The same for some rows, with the values of all indicators × rows."""
        n_nodes, n_rows = self.graph.n_nodes, table.shape[1]
        values = Scaled(np.empty((n_nodes, n_rows)), np.empty((n_nodes, n_rows), np.int32))
        values.mantissa[leaf], values.exponent[leaf] = Scaled.of(table)
        # Every row stands alone, in each node at the same place.
        program, none = program_of(self.graph).arrays, np.zeros(0, np.int32)
        links = np.zeros(max(program.edge_link.max(initial=0), 0) + 2, np.int64)
        own = np.arange(n_rows, dtype=np.uint16)
        rows = ChunkArrays(links, own, links, none, np.arange(n_nodes + 1) * n_rows)
        flat = Scaled(values.mantissa.ravel(), values.exponent.ravel())
        theta = Scaled.of(self.parameters)
        kernels().upward_scaled(program, rows, theta, flat, False, True)
        return flat.log(slice((n_nodes - 1) * n_rows, n_nodes * n_rows))

    def posterior(self, variable: int | str, codes: npt.ArrayLike) -> Floats:
        """P(variable = v | e) for each row: rows × values. Much faster than all conditionals."""
        rows = self._rows(codes)
        column = variable_index(self.names, variable)
        logs = self._logs_of_values(rows, column)
        given = rows[:, column]
        for v in range(logs.shape[1]):
            logs[(given >= 0) & (given != v), v] = -np.inf
        top = logs.max(axis=1, keepdims=True)
        refuse_impossible(top[:, 0])
        shares = np.exp(logs - top)
        result: Floats = shares / shares.sum(axis=1, keepdims=True)
        return result

    def _logs_of_values(self, rows: Codes, column: int) -> Floats:
        """log P of each row with each value of a column in place of its own: rows × values.

        The values of a row follow one another, so that they are in one chunk and share all
        that the column is not part of.
        """
        if _many_equal(rows):
            row_of, first = distinct_rows(rows, self.arities)
            some = np.asfortranarray(rows[first])
            return np.asfortranarray(self._logs_of_values(some, column)[row_of])
        n_values = int(self.arities[column])
        logs = np.empty((len(rows), n_values), order="F")
        for start in range(0, len(rows), POSTERIOR_ROWS):
            some = rows[start : start + POSTERIOR_ROWS]
            clamped = np.empty((len(some) * n_values, rows.shape[1]), rows.dtype, order="F")
            for v in range(n_values):
                clamped[v::n_values] = some
                clamped[v::n_values, column] = v
            found = self._log_values(clamped).reshape(-1, n_values)
            logs[start : start + POSTERIOR_ROWS] = found
        return logs

    def conditionals(self, codes: npt.ArrayLike) -> tuple[Floats, ...]:
        """P(X_j = v | e) of every variable at once, by one upward and one downward pass.

        The expected flow of the indicator [X_j = v] is this probability (Equation
        "ef-node" of the appendix). Gives one array (rows, arity) per variable.
        """
        g, rows = self.graph, self._rows(codes)
        result = tuple(np.zeros((len(rows), int(a))) for a in g.arities)
        leaves = np.flatnonzero(g.kind == INDICATOR).tolist()
        for start, stop, flow in node_flows(self, rows):
            for n in leaves:
                result[g.variable[n]][start:stop, g.value[n]] += flow[n]
        # Nothing flows in rows of probability zero.
        refuse_impossible(np.where(result[0].sum(axis=1) > 0, 0.0, -np.inf))
        return result

    def mpe(self, codes: npt.ArrayLike) -> tuple[Codes, Floats]:
        """Most probable completion of each row, and its log-probability (deterministic)."""
        require(self.graph, "the most probable explanation", "deterministic")
        return self._traced(self._rows(codes), None)

    def sample(self, n: int, rng: Seed = None) -> Codes:
        """``n`` independent complete rows."""
        asked: Any = n
        if not (isinstance(asked, int | np.integer) and asked >= 0):
            raise CodesError(f"{n!r} rows were asked for: give a whole number, 0 or more")
        theta = Scaled.of(self.parameters)
        chunk = project(program_of(self.graph), self._rows(None), 0, 1)
        drawn = np.empty((n, self.graph.n_variables), np.int16)
        chunk.trace(theta, chunk.upward_scaled(theta), np.zeros(n, np.int32), _seeds(rng, n), drawn)
        return drawn

    def sample_given(self, codes: npt.ArrayLike, rng: Seed = None) -> Codes:
        """Each row completed by a draw from P(missing | known)."""
        rows = self._rows(codes)
        return self._traced(rows, _seeds(rng, len(rows)))[0]

    def _traced(self, rows: Codes, seeds: Words | None) -> tuple[Codes, Floats]:
        """A path of each row, drawn with ``seeds`` or the most probable; and logs at the root."""
        theta = Scaled.of(self.parameters)
        completed = np.empty(rows.shape, np.int16)
        logs = np.empty(len(rows))
        for start, stop, chunk in chunks(program_of(self.graph), rows):
            values = chunk.upward_scaled(theta, use_max=seeds is None)
            logs[start:stop] = values.log(chunk.root)[chunk.root_ids]
            refuse_impossible(logs[:stop])
            own = None if seeds is None else seeds[start:stop]
            chunk.trace(theta, values, chunk.root_ids, own, completed[start:stop])
        return completed, logs


def _many_equal(rows: Codes) -> bool:
    """Whether merging equal rows pays: a look at evenly spaced rows tells."""
    if len(rows) <= 4 * SAMPLE_ROWS:
        return False
    some = np.asfortranarray(rows[:: len(rows) // SAMPLE_ROWS])
    highest = some.max(axis=0).astype(np.int64) + 1
    return len(distinct_rows(some, highest)[1]) < len(some) / 2


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


def _seeds(rng: Seed, n: int) -> Words:
    """One stream per row, so that the draw of a row does not depend on threads or chunks."""
    generator = np.random.default_rng(rng)
    return generator.integers(0, 1 << 64, size=n, dtype=np.uint64)
