"""Rows made ready for the kernels, in chunks: merged per scope, or as what is active in them.

A :class:`Projection` holds one number per node and distinct projection of the rows onto its
scope. :class:`ActiveTerms` are the circuit written out for the rows of a chunk, without what is
zero: a complete row of a deterministic circuit activates one tree, whatever the parameters
(Section "Parameter Learning", the coloured edges of Figure 2); a latent variable of k values makes
k of them, and missing features make more, but far from all. Which nodes are active at which
projections is found once, and an iteration of EM is then one pass up and one down these terms.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairpc.circuit._program import Program
from fairpc.core import Codes, Floats, Int32s, Ints, Slots, Words
from fairpc.data import readonly

CHUNK_ROWS: Final = 8192
"""Rows per chunk: the more rows, the more of them share a projection (at most 65,535)."""
CHUNK_VALUES: Final = 1 << 21
"""Numbers per chunk (16 MB): what a node holds must stay in the outer cache."""
SCOPE_NUMBERS: Final = 1 << 23
"""Rows × scopes per chunk (two 32 MB tables while projecting)."""
FIRST_NUMBERS: Final = 1 << 15
"""Numbers that a process lists in Python before it compiles or loads what lists them."""

WORTHWHILE: Final = 1 / 3
"""Share of the edges × projections of a chunk up to which its active terms are cheaper."""


@cache
def kernels() -> ModuleType:
    """The compiled kernels, imported when they are first needed: that takes a second."""
    from fairpc.circuit import _kernels

    return _kernels


class Listed:
    """How many numbers may still be listed in Python."""

    left = FIRST_NUMBERS


def listing_kernels(n_numbers: int) -> ModuleType:
    """What makes a plan for rows whose nodes have so many numbers.

    That of a few bins takes Python some milliseconds, and the compiler seconds: the first small
    plans of a process are made in Python, the others are compiled.
    """
    from fairpc.core._compiling import in_python

    compiled = kernels()
    if getattr(compiled.list_terms, "signatures", True) or n_numbers > Listed.left:
        return compiled
    Listed.left -= n_numbers
    return in_python(compiled.__name__)


class ChunkArrays(NamedTuple):
    """What kernels take of a chunk of rows.

    Attributes:
        map_ptr, maps: for each link, the projection of a part that belongs to each of the whole.
        leaf_ptr, leaf_code: the code in each projection onto a one-variable scope.
        off: node n holds its numbers at ``off[n]:off[n + 1]``.
    """

    map_ptr: Ints
    maps: npt.NDArray[np.uint16]
    leaf_ptr: Ints
    leaf_code: Int32s
    off: Ints


@dataclass(frozen=True, eq=False)
class Projection:
    """A chunk of rows, merged per scope.

    A node holds one number per distinct projection of the rows onto its scope;
    ``root_ids`` gives each row's place among the root's.
    """

    program: Program
    arrays: ChunkArrays
    root_ids: Int32s

    @property
    def n_values(self) -> int:
        return int(self.arrays.off[-1])

    @property
    def n_bytes(self) -> int:
        a = self.arrays
        return a.maps.nbytes + a.off.nbytes + self.root_ids.nbytes + a.leaf_code.nbytes

    @property
    def root(self) -> slice:
        return self.node(len(self.program.arrays.kind) - 1)

    def node(self, n: int) -> slice:
        off = self.arrays.off
        return slice(int(off[n]), int(off[n + 1]))

    def log_likelihood(self, theta: Floats, weights: Floats, work: Workspace) -> float:
        """Of the rows together: the way up alone."""
        return self._rise(theta, weights, work.take(self.n_values))[0]

    def row_logs(self, theta: Floats, work: Workspace) -> Floats:
        """log P of each row; with extended range where one is very small."""
        val = work.take(self.n_values)
        self.upward(theta, val)
        values = val[self.root]
        if values.min() <= kernels().TINY:  # digits may have been lost
            return self.upward_scaled(Scaled.of(theta)).log(self.root)[self.root_ids]
        result: Floats = np.log(values)[self.root_ids]
        return result

    def flows(self, theta: Floats, weights: Floats, work: Workspace) -> tuple[float, Floats]:
        """Log-likelihood and expected flow per parameter: edges that share one are added up."""
        log_likelihood, edge_flows = self.edge_flows(theta, weights, work)
        g = self.program.graph
        used = g.edge_parameter >= 0
        flows = np.bincount(g.edge_parameter[used], edge_flows[used], g.n_parameters)
        return log_likelihood, np.asarray(flows, np.float64)

    def edge_flows(self, theta: Floats, weights: Floats, work: Workspace) -> tuple[float, Floats]:
        """Log-likelihood and expected flow of every sum edge.

        Plain floating point first; where some likelihood is so small that digits may
        have been lost, the chunk is done again with extended range.
        """
        val, flow = work.take(2, self.n_values)
        edge_flow = np.zeros(self.program.graph.n_edges)
        log_likelihood, at_root, scaled = self._rise(theta, weights, val)
        flow[:] = 0.0
        flow[self.root] = at_root
        if scaled is None:
            self.downward(theta, val, flow, edge_flow)
        else:
            self.downward_scaled(Scaled.of(theta), scaled, flow, edge_flow)
        return log_likelihood, edge_flow

    def _rise(
        self, theta: Floats, weights: Floats, val: Floats
    ) -> tuple[float, Floats, Scaled | None]:
        """Log-likelihood, flow into each projection at the root, and values with extended range.

        The latter only where ``val`` was not enough. A row of probability zero has no
        flow: only the log-likelihood shows it.
        """
        root = self.root
        summed = np.bincount(self.root_ids, weights, minlength=root.stop - root.start)
        at_root = np.asarray(summed, np.float64)
        self.upward(theta, val)
        log_likelihood, least = kernels().weighted_log(val[root], at_root)
        if least > kernels().TINY:
            return log_likelihood, at_root, None
        values = self.upward_scaled(Scaled.of(theta))
        logs = values.log(root)
        weighed = at_root > 0
        log_likelihood = float((at_root[weighed] * logs[weighed]).sum())
        return log_likelihood, np.where(np.isfinite(logs), at_root, 0.0), values

    def upward(self, theta: Floats, val: Floats) -> None:
        """Value of every node, into ``val``."""
        kernels().upward(self.program.arrays, self.arrays, readonly(theta), val)

    def downward(self, theta: Floats, val: Floats, flow: Floats, edge_flow: Floats) -> None:
        """Expected flow of every node, from the root's; sum edges add to ``edge_flow``."""
        g = self.program.arrays
        kernels().downward(g, self.arrays, readonly(theta), val, flow, edge_flow)

    def upward_scaled(self, theta: Scaled, *, use_max: bool = False) -> Scaled:
        """Value of every node with extended range; maxima instead of sums with ``use_max``."""
        val = Scaled(np.empty(self.n_values), np.empty(self.n_values, np.int32))
        kernels().upward_scaled(self.program.arrays, self.arrays, theta, val, use_max, False)
        return val

    def downward_scaled(self, theta: Scaled, val: Scaled, flow: Floats, edge_flow: Floats) -> None:
        """``downward`` on values with extended range."""
        kernels().downward_scaled(self.program.arrays, self.arrays, theta, val, flow, edge_flow)

    def trace(
        self, theta: Scaled, val: Scaled, root_ids: Int32s, seeds: Words | None, out: Codes
    ) -> None:
        """One path per entry of ``root_ids`` into ``out``: drawn with ``seeds``, or the largest."""
        draw = seeds is not None
        states = seeds if seeds is not None else np.zeros(len(root_ids), np.uint64)
        g = self.program.arrays
        kernels().trace(g, self.arrays, theta, val, root_ids, states, draw, out)


class Scaled(NamedTuple):
    """Numbers of any size: mantissa · 2^(256 · exponent)."""

    mantissa: Floats
    exponent: Int32s

    @classmethod
    def of(cls, values: Floats) -> Scaled:
        mantissa, binary = np.frexp(values)
        exponent = np.minimum(0, -(-binary // 256))
        return cls(np.ldexp(mantissa, binary - 256 * exponent), exponent.astype(np.int32))

    def log(self, part: slice) -> Floats:
        result: Floats = kernels().scaled_log(self.mantissa[part], self.exponent[part])
        return result


def spans(program: Program, n_rows: int) -> list[slice]:
    """Ranges of rows to give to threads: as many rows as are tried at once."""
    step = _chunk_rows(program, CHUNK_ROWS)
    return [slice(low, min(low + step, n_rows)) for low in range(0, n_rows, step)]


def _chunk_rows(program: Program, most: int) -> int:
    return max(64, min(most, SCOPE_NUMBERS // len(program.scopes.leaf)))


def project(
    program: Program,
    codes: Codes,
    start: int,
    stop: int,
    *,
    merge: bool = True,
    planned: bool = False,
) -> Projection:
    """Rows ``start:stop`` as distinct projections onto every scope, perhaps for a plan."""
    ids, spare = np.empty((2, len(program.scopes.leaf), stop - start), np.int32)
    own = listing_kernels(ids.size) if planned else kernels()
    size, map_ptr, maps, leaf_ptr, leaf_code = own.project(
        program.scopes, readonly(codes.T), start, stop, merge, ids, spare
    )
    scope = program.arrays.scope
    off = np.zeros(len(scope) + 1, np.int64)
    np.cumsum(size[scope], out=off[1:])
    arrays = ChunkArrays(map_ptr, maps, leaf_ptr, leaf_code, off)
    return Projection(program, arrays, ids[scope[-1]].copy())


def chunks(
    program: Program,
    codes: Codes,
    first: int = 0,
    last: int | None = None,
    *,
    rows: int = CHUNK_ROWS,
    values: int = CHUNK_VALUES,
    planned: bool = False,
) -> Iterator[tuple[int, int, Projection]]:
    """Row ranges and their projections: at most so many rows, and numbers of all nodes."""
    rows = _chunk_rows(program, rows)
    start, end = first, len(codes) if last is None else last
    while start < end:
        stop = min(start + rows, end)
        chunk = project(program, codes, start, stop, planned=planned)
        if chunk.n_values > values and stop - start > 64:
            rows = (stop - start + 1) // 2
            continue
        yield start, stop, chunk
        start = stop


class Workspace(threading.local):
    """Room for numbers, each thread's own: fresh pages would cost more than the arithmetic."""

    _room: Floats = np.empty(0)

    def take(self, *shape: int) -> Floats:
        """An array of this shape with anything in it; what was taken before is given up."""
        size = math.prod(shape)
        if len(self._room) < size:
            self._room = np.empty(size)
        return self._room[:size].reshape(shape)


@dataclass(frozen=True, eq=False)
class ActiveTerms:
    """Some rows as sums of products of parameters, shared by rows and nested.

    The first slots hold ones, zero and the parameters. Each later slot is the sum
    of its terms (``terms[t, 3]`` names the slot) and each term the product of three
    slots before it. The likelihood of row r is the product of the two slots ``root[r]``. Where
    some likelihood is so small that digits may have been lost, answers are None.
    """

    n_parameters: int
    n_slots: int
    terms: Slots
    root: Slots

    @property
    def n_bytes(self) -> int:
        return self.terms.nbytes + self.root.nbytes

    def log_likelihood(self, theta: Floats, weights: Floats, work: Workspace) -> float | None:
        """Of the rows together: the way up alone."""
        likelihood = self._likelihood(theta, weights, work.take(self.n_slots))
        return None if likelihood is None else float((weights * np.log(likelihood)).sum())

    def _likelihood(self, theta: Floats, weights: Floats, value: Floats) -> Floats | None:
        """Likelihood of each row of positive weight; the slots into ``value``."""
        likelihood = np.empty(len(weights))
        kernels().rise(readonly(theta), self.terms, self.root, readonly(weights), value, likelihood)
        return None if likelihood.min(initial=1.0) <= kernels().TINY else likelihood

    def row_logs(self, theta: Floats, work: Workspace) -> Floats | None:
        """log P of each row."""
        likelihood = self._likelihood(theta, np.ones(len(self.root)), work.take(self.n_slots))
        return None if likelihood is None else np.log(likelihood)

    def flows(self, theta: Floats, weights: Floats, work: Workspace) -> tuple[float, Floats] | None:
        """Log-likelihood and flows."""
        value, slope = work.take(2, self.n_slots)
        likelihood, flow = self._likelihood(theta, weights, value), np.empty(len(theta))
        if likelihood is None:
            return None
        rate = weights / likelihood
        kernels().fall(readonly(theta), self.terms, self.root, rate, value, slope, flow)
        return float((weights * np.log(likelihood)).sum()), flow


def active_terms(chunk: Projection, *, at_any_cost: bool = False) -> ActiveTerms | None:
    """The active terms of a chunk; None where they are so many that the circuit is cheaper."""
    n_parameters, arrays = chunk.program.graph.n_parameters, chunk.program.arrays
    on = np.empty(chunk.n_values, np.uint8)
    own = listing_kernels(chunk.n_values)
    own.mark_possible(arrays, chunk.arrays, on)
    pairs = np.empty(np.count_nonzero(on) + 1, np.int32)
    pair_ptr = np.empty(len(arrays.kind) + 1, np.int64)
    own.list_active(arrays, chunk.arrays, on, pairs, pair_ptr)
    degree = np.diff(arrays.child_ptr)
    most = int(np.dot(np.diff(pair_ptr), 2 * degree + 1))
    if not at_any_cost:
        everything = int(np.dot(np.diff(chunk.arrays.off), degree))
        most = min(most, int(WORTHWHILE * everything) + 2 * int(degree.max()) + 1)
    left, right = np.zeros((2, chunk.n_values), np.int32)
    terms = np.empty((most, 4), np.uint32)
    n_terms, n_slots = own.list_terms(
        arrays, chunk.arrays, n_parameters, on, pairs, pair_ptr, left, right, terms
    )
    if n_terms < 0:
        return None
    root = np.stack([left[chunk.root], right[chunk.root]], axis=1).astype(np.uint32)
    # Rows of one factor take the ones in turn, as terms do.
    root[:, 1] = np.where(root[:, 1] == 0, np.arange(len(root)) % kernels().ZERO, root[:, 1])
    root[on[chunk.root] == 0] = kernels().ZERO
    return ActiveTerms(n_parameters, n_slots, terms[:n_terms].copy(), root[chunk.root_ids])
