"""A graph made ready for the kernels, and chunks of rows projected onto its scopes."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairpc.circuit._graph import INDICATOR, PRODUCT, Graph
from fairpc.circuit._properties import require
from fairpc.core import Bytes, Codes, Floats, Int32s, Ints, Words
from fairpc.data import readonly

DOT: Final = 3
"""A kind of node beside those of a graph: a sum of products of two."""
CHUNK_ROWS: Final = 8192
"""Rows per chunk: the more rows, the more of them share a projection (at most 65,535)."""
CHUNK_VALUES: Final = 1 << 21
"""Numbers per chunk (16 MB): what a node holds must stay in the outer cache."""
SCOPE_NUMBERS: Final = 1 << 23
"""Rows × scopes per chunk (two 32 MB tables while projecting)."""
FIRST_NUMBERS: Final = 1 << 15
"""Numbers that a process lists in Python before it compiles or loads what lists them."""


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


class GraphArrays(NamedTuple):
    """What kernels take of a graph.

    Attributes:
        scope: number of each node's scope; parts come before wholes.
        edge_link: for a product edge, the pair (scope of parent, scope of child).
    """

    kind: Bytes
    variable: Int32s
    value: Int32s
    child_ptr: Ints
    child: Int32s
    edge_parameter: Int32s
    edge_link: Int32s
    scope: Int32s


class Scopes(NamedTuple):
    """The distinct scopes of a graph.

    Attributes:
        leaf: variable of a one-variable scope, -1 for others.
        arities: number of values of each variable.
        part_ptr, part: scopes that together make up each larger scope.
        link_from, link_to: the pairs of scopes that product edges connect.
    """

    leaf: Int32s
    arities: Ints
    part_ptr: Ints
    part: Int32s
    link_from: Int32s
    link_to: Int32s


@dataclass(frozen=True, eq=False)
class Program:
    """A graph in the form that kernels take."""

    graph: Graph
    arrays: GraphArrays
    scopes: Scopes

    @cached_property
    def condensed(self) -> Program:
        """The same values at the root from fewer numbers; it takes a one after the parameters."""
        from fairpc.circuit._rewritten import condensed

        return condensed(self.graph)

    @cached_property
    def paired(self) -> Program:
        """The same with products of few factors; itself where it has no others."""
        from fairpc.circuit._rewritten import paired

        return paired(self.graph) or self

    def chunk_rows(self, most: int = CHUNK_ROWS) -> int:
        """Rows to try at once."""
        return max(64, min(most, SCOPE_NUMBERS // len(self.scopes.leaf)))

    def spans(self, n_rows: int, most: int = CHUNK_ROWS) -> list[slice]:
        """Ranges of rows to give to threads: as many rows as are tried at once."""
        step = self.chunk_rows(most)
        return [slice(low, min(low + step, n_rows)) for low in range(0, n_rows, step)]

    def project(
        self, codes: Codes, start: int, stop: int, *, merge: bool = True, planned: bool = False
    ) -> Projection:
        """Rows ``start:stop`` as distinct projections onto every scope, perhaps for a plan."""
        ids, spare = np.empty((2, len(self.scopes.leaf), stop - start), np.int32)
        own = listing_kernels(ids.size) if planned else kernels()
        size, map_ptr, maps, leaf_ptr, leaf_code = own.project(
            self.scopes, readonly(codes.T), start, stop, merge, ids, spare
        )
        off = np.zeros(len(self.arrays.kind) + 1, np.int64)
        np.cumsum(size[self.arrays.scope], out=off[1:])
        arrays = ChunkArrays(map_ptr, maps, leaf_ptr, leaf_code, off)
        return Projection(self, arrays, ids[self.arrays.scope[-1]].copy())

    def chunks(
        self,
        codes: Codes,
        first: int = 0,
        last: int | None = None,
        *,
        rows: int = CHUNK_ROWS,
        values: int = CHUNK_VALUES,
        planned: bool = False,
    ) -> Iterator[tuple[int, int, Projection]]:
        """Row ranges and their projections: at most so many rows, and numbers of all nodes."""
        rows = self.chunk_rows(rows)
        start, end = first, len(codes) if last is None else last
        while start < end:
            stop = min(start + rows, end)
            chunk = self.project(codes, start, stop, planned=planned)
            if chunk.n_values > values and stop - start > 64:
                rows = (stop - start + 1) // 2
                continue
            yield start, stop, chunk
            start = stop


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
        logs = self.plain_logs(theta, work)
        if logs is None:
            logs = self.upward_scaled(Scaled.of(theta)).log(self.root)[self.root_ids]
        return logs

    def plain_logs(self, theta: Floats, work: Workspace) -> Floats | None:
        """log P of each row; None where one is so small that digits may have been lost."""
        val = work.take(self.n_values)
        self.upward(theta, val)
        values = val[self.root]
        if values.min() <= kernels().TINY:
            return None
        result: Floats = np.log(values)[self.root_ids]
        return result

    def flows(self, theta: Floats, weights: Floats, work: Workspace) -> tuple[float, Floats]:
        """Log-likelihood and expected flow per parameter: edges that share one are added up."""
        log_likelihood, edge_flows = self.edge_flows(theta, weights, work)
        g = self.program.graph
        used = g.edge_parameter >= 0
        flows = np.bincount(g.edge_parameter[used], edge_flows[used], g.n_parameters)
        return log_likelihood, np.asarray(flows, np.float64)

    def flows_of_sets(
        self, theta: Floats, weights: Floats, work: Workspace
    ) -> tuple[Floats, Floats]:
        """The same for several parameter sets (B, P), with weights (B, rows)."""
        found = [self.flows(t, w, work) for t, w in zip(theta, weights, strict=True)]
        return np.array([logs for logs, _ in found]), np.stack([flows for _, flows in found])

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
        flow: it is told by the log-likelihood alone.
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
        kernels().upward_scaled(self.program.arrays, self.arrays, theta, val, use_max)
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


def compiled(g: Graph) -> Program:
    """The program of a smooth and decomposable graph."""
    require(g, "evaluation", "smooth", "decomposable")
    own = Nodes(g.kind, g.variable, g.value, g.child_ptr, g.child, g.edge_parameter)
    return _program(g, own, g.scopes)


class Nodes(NamedTuple):
    """The nodes of a graph, or nodes that stand for it; see :class:`GraphArrays`."""

    kind: Bytes
    variable: Int32s
    value: Int32s
    child_ptr: Ints
    child: Int32s
    edge_parameter: Int32s


@dataclass(eq=False)
class Spelled:
    """Nodes that are written one after the other, children first.

    Attributes:
        kind: that of a graph, or DOT: a sum of products of two, whose children are
            the factors of the first, those of the second and so on.
        mask: the scope of each node, a bit per variable.
    """

    kind: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    leaf: list[tuple[int, int]] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    parameters: list[list[int]] = field(default_factory=list)

    def add(
        self,
        kind: int,
        mask: int,
        *,
        leaf: tuple[int, int] = (-1, -1),
        children: Sequence[int] = (),
        parameters: Sequence[int] | None = None,
    ) -> int:
        """Write a node; its number. ``leaf`` is the variable and value of an indicator."""
        self.kind.append(kind)
        self.mask.append(mask)
        self.leaf.append(leaf)
        self.children.append(list(children))
        self.parameters.append([-1] * len(children) if parameters is None else list(parameters))
        return len(self.kind) - 1

    def with_root(self, root: int) -> Spelled:
        """The same with this node last, as a root must be."""
        if root != len(self.kind) - 1:
            self.add(PRODUCT, self.mask[root], children=[root])
        return self


def assembled(g: Graph, nodes: Spelled) -> Program:
    """The program of nodes that stand for a graph."""
    variable, value = np.array(nodes.leaf, np.int32).T
    ptr = np.cumsum([0, *map(len, nodes.children)])
    child, parameter = (
        np.array(list(chain.from_iterable(lists)), np.int32)
        for lists in (nodes.children, nodes.parameters)
    )
    own = Nodes(np.array(nodes.kind, np.uint8), variable, value, ptr, child, parameter)
    return _program(g, own, nodes.mask)


def _program(g: Graph, own: Nodes, masks: Sequence[int]) -> Program:
    kind, variable, value, child_ptr, child, edge_parameter = own
    number: dict[int, int] = {}
    scope = np.array([number.setdefault(mask, len(number)) for mask in masks], np.int32)
    leaf = np.full(len(number), -1, np.int32)
    indicators = np.flatnonzero(kind == INDICATOR)
    leaf[scope[indicators]] = variable[indicators]
    edge_node = np.repeat(np.arange(len(kind)), np.diff(child_ptr))
    across = np.flatnonzero((kind[edge_node] == PRODUCT) | (kind[edge_node] == DOT))
    pairs = np.stack([scope[edge_node[across]], scope[child[across]]], axis=1)
    links, which = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    edge_link = np.full(len(child), -1, np.int32)
    edge_link[across] = which.ravel()
    link_from, link_to = links.T.astype(np.int32)
    part_ptr, part = _parts(own, scope, len(number))
    return Program(
        g,
        GraphArrays(
            readonly(kind),
            readonly(variable),
            readonly(value),
            readonly(child_ptr),
            readonly(child),
            readonly(edge_parameter),
            readonly(edge_link),
            readonly(scope),
        ),
        Scopes(*map(readonly, (leaf, g.arities, part_ptr, part, link_from, link_to))),
    )


def _parts(own: Nodes, scope: Int32s, n_scopes: int) -> tuple[Ints, Int32s]:
    """How each larger scope is put together: as its first product with several children does."""
    kind, _, _, child_ptr, child, _ = own
    parts: list[list[int]] = [[] for _ in range(n_scopes)]
    several = ((kind == PRODUCT) | (kind == DOT)) & (np.diff(child_ptr) > 1)
    for n in np.flatnonzero(several).tolist():
        if not parts[scope[n]]:
            last = child_ptr[n] + 2 if kind[n] == DOT else child_ptr[n + 1]
            parts[scope[n]] = scope[child[child_ptr[n] : last]].tolist()
    ptr = np.cumsum([0, *(len(p) for p in parts)])
    return ptr, np.array([s for p in parts for s in p], np.int32)


class Workspace(threading.local):
    """Room for numbers, each thread's own: fresh pages would cost more than the arithmetic."""

    _room: Floats = np.empty(0)

    def take(self, *shape: int) -> Floats:
        """An array of this shape with anything in it; what was taken before is given up."""
        size = math.prod(shape)
        if len(self._room) < size:
            self._room = np.empty(size)
        return self._room[:size].reshape(shape)
