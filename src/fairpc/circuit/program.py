"""A graph made ready for the kernels, and chunks of rows projected onto its scopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import INDICATOR, PRODUCT, SUM, Graph
from fairpc.circuit.properties import require
from fairpc.data.table import readonly
from fairpc.errors.arrays import Array, Codes, Floats, Int32s, Ints, Words

CHUNK_ROWS: Final = 8192
"""Rows per chunk: the more rows, the more of them share a projection (at most 65,535)."""
CHUNK_VALUES: Final = 1 << 21
"""Numbers per chunk (16 MB): what a node holds must stay in the outer cache."""
SCOPE_NUMBERS: Final = 1 << 23
"""Rows × scopes per chunk (two 32 MB tables while projecting)."""


@dataclass(frozen=True, eq=False)
class Program:
    """The arrays of a graph in the form that kernels take, with its distinct scopes.

    Attributes:
        scope: number of each node's scope; parts come before wholes.
        leaf: variable of a one-variable scope, -1 for others.
        part_ptr, part: scopes that together make up each larger scope.
        edge_link: for a product edge, the pair (scope of parent, scope of child).
        link_from, link_to: those pairs.
        longest: most sum edges on any induced tree.
    """

    graph: Graph
    scope: Int32s
    leaf: Int32s
    part_ptr: Ints
    part: Int32s
    edge_link: Int32s
    link_from: Int32s
    link_to: Int32s
    longest: int

    def chunk_rows(self, most: int = CHUNK_ROWS) -> int:
        """Rows to try at once."""
        return max(64, min(most, SCOPE_NUMBERS // len(self.leaf)))

    def project(self, codes: Codes, start: int, stop: int, *, merge: bool = True) -> Projection:
        """Rows ``start:stop`` as distinct projections onto every scope."""
        from fairpc.circuit import _kernels

        n_scopes, n = len(self.leaf), stop - start
        size = np.empty(n_scopes, np.int64)
        ids = np.empty((n_scopes, n), np.int32)
        map_ptr = np.zeros(len(self.link_from) + 1, np.int64)
        leaf_ptr = np.zeros(n_scopes + 1, np.int64)
        maps, leaf_code = _kernels.project(
            readonly(codes.T), start, stop, self.leaf, self.graph.arities, self.part_ptr,
            self.part, self.link_from, self.link_to, merge,
            size, ids, np.empty_like(ids), map_ptr, leaf_ptr,
        )  # fmt: skip
        off = np.zeros(self.graph.n_nodes + 1, np.int64)
        np.cumsum(size[self.scope], out=off[1:])
        return Projection(self, map_ptr, maps, leaf_ptr, leaf_code, off, ids[self.scope[-1]].copy())

    def chunks(
        self,
        codes: Codes,
        first: int = 0,
        last: int | None = None,
        *,
        rows: int = CHUNK_ROWS,
        values: int = CHUNK_VALUES,
    ) -> Iterator[tuple[int, int, Projection]]:
        """Row ranges and their projections: at most so many rows, and numbers of all nodes."""
        rows = self.chunk_rows(rows)
        start, end = first, len(codes) if last is None else last
        while start < end:
            stop = min(start + rows, end)
            chunk = self.project(codes, start, stop)
            if chunk.n_values > values and stop - start > 64:
                rows = (stop - start + 1) // 2
                continue
            yield start, stop, chunk
            start = stop


@dataclass(frozen=True, eq=False)
class Projection:
    """A chunk of rows, merged per scope.

    Node n holds one number per distinct projection of the rows onto its scope, at
    ``off[n]:off[n + 1]``; ``root_ids`` gives each row's place among the root's.
    """

    program: Program
    map_ptr: Ints
    maps: npt.NDArray[np.uint16]
    leaf_ptr: Ints
    leaf_code: Int32s
    off: Ints
    root_ids: Int32s

    @property
    def n_values(self) -> int:
        return int(self.off[-1])

    @property
    def n_bytes(self) -> int:
        return self.maps.nbytes + self.off.nbytes + self.root_ids.nbytes + self.leaf_code.nbytes

    @property
    def root(self) -> slice:
        return slice(int(self.off[-2]), int(self.off[-1]))

    def node(self, n: int) -> slice:
        return slice(int(self.off[n]), int(self.off[n + 1]))

    def upward(self, theta: Floats, val: Floats) -> None:
        """Value of every node, into ``val``."""
        from fairpc.circuit import _kernels

        p, g = self.program, self.program.graph
        _kernels.upward(
            g.kind, g.value, g.child_ptr, g.child, g.edge_parameter, p.edge_link, p.scope,
            readonly(theta), self.map_ptr, self.maps, self.leaf_ptr, self.leaf_code, self.off, val,
        )  # fmt: skip

    def downward(self, theta: Floats, val: Floats, flow: Floats, edge_flow: Floats) -> None:
        """Expected flow of every node, from the root's; sum edges add to ``edge_flow``."""
        from fairpc.circuit import _kernels

        g = self.program.graph
        _kernels.downward(
            g.kind, g.child_ptr, g.child, g.edge_parameter, self.program.edge_link,
            readonly(theta), self.map_ptr, self.maps, self.off, val, flow, edge_flow,
        )  # fmt: skip

    def upward_scaled(self, theta: Scaled, *, use_max: bool = False) -> Scaled:
        """Value of every node with extended range; maxima instead of sums with ``use_max``."""
        from fairpc.circuit import _kernels

        p, g = self.program, self.program.graph
        val = np.empty(self.n_values)
        exponent = np.empty(self.n_values, np.int32)
        _kernels.upward_scaled(
            g.kind, g.value, g.child_ptr, g.child, g.edge_parameter, p.edge_link, p.scope,
            theta.mantissa, theta.exponent, self.map_ptr, self.maps, self.leaf_ptr,
            self.leaf_code, self.off, val, exponent, use_max,
        )  # fmt: skip
        return Scaled(val, exponent)

    def downward_scaled(self, theta: Scaled, val: Scaled, flow: Floats, edge_flow: Floats) -> None:
        """``downward`` on values with extended range."""
        from fairpc.circuit import _kernels

        g = self.program.graph
        _kernels.downward_scaled(
            g.kind, g.child_ptr, g.child, g.edge_parameter, self.program.edge_link,
            theta.mantissa, theta.exponent, self.map_ptr, self.maps, self.off,
            val.mantissa, val.exponent, flow, edge_flow,
        )  # fmt: skip

    def trace(
        self, theta: Scaled, val: Scaled, root_ids: Int32s,
        seeds: Words | None, out: Codes,
    ) -> None:  # fmt: skip
        """One path per entry of ``root_ids`` into ``out``: drawn with ``seeds``, or the largest."""
        from fairpc.circuit import _kernels

        g = self.program.graph
        draw = seeds is not None
        states = seeds if seeds is not None else np.zeros(len(root_ids), np.uint64)
        _kernels.trace(
            g.kind, g.variable, g.value, g.child_ptr, g.child, g.edge_parameter,
            self.program.edge_link, theta.mantissa, theta.exponent, self.map_ptr, self.maps,
            self.off, val.mantissa, val.exponent, root_ids, states, draw, out,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scaled:
    """Numbers of any size: mantissa · 2^(256 · exponent)."""

    mantissa: Floats
    exponent: Int32s

    @classmethod
    def of(cls, values: Floats) -> Scaled:
        mantissa, binary = np.frexp(values)
        exponent = np.minimum(0, -(-binary // 256))
        return cls(np.ldexp(mantissa, binary - 256 * exponent), exponent.astype(np.int32))

    def log(self, part: slice) -> Floats:
        from fairpc.circuit import _kernels

        result: Floats = _kernels.scaled_log(self.mantissa[part], self.exponent[part])
        return result


def program_of(graph: Graph) -> Program:
    """The program of a smooth and decomposable graph, made once per graph."""
    cached: Program | None = graph.__dict__.get("_program")
    if cached is None:
        require(graph, "evaluation", "smooth", "decomposable")
        cached = _compile(graph)
        graph.__dict__["_program"] = cached
    return cached


def _compile(g: Graph) -> Program:
    number: dict[int, int] = {}
    scope = np.array([number.setdefault(mask, len(number)) for mask in g.scopes], np.int32)
    leaf = np.full(len(number), -1, np.int32)
    indicators = np.flatnonzero(g.kind == INDICATOR)
    leaf[scope[indicators]] = g.variable[indicators]
    product_edges = np.flatnonzero(g.kind[g.edge_node] == PRODUCT)
    pairs = np.stack([scope[g.edge_node[product_edges]], scope[g.child[product_edges]]], axis=1)
    links, which = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    edge_link = np.full(g.n_edges, -1, np.int32)
    edge_link[product_edges] = which.ravel()
    part_ptr, part = _parts(g, scope, len(number))
    return Program(
        graph=g, scope=scope, leaf=_in(leaf), part_ptr=_in(part_ptr), part=_in(part),
        edge_link=_in(edge_link), link_from=_in(links[:, 0].astype(np.int32)),
        link_to=_in(links[:, 1].astype(np.int32)), longest=_longest_tree(g),
    )  # fmt: skip


def _in(array: Array) -> Array:
    return readonly(np.ascontiguousarray(array))


def _parts(g: Graph, scope: Int32s, n_scopes: int) -> tuple[Ints, Int32s]:
    """How each larger scope is put together: as its first product with several children does."""
    parts: list[list[int]] = [[] for _ in range(n_scopes)]
    several = (g.kind == PRODUCT) & (np.diff(g.child_ptr) > 1)
    for n in np.flatnonzero(several).tolist():
        if not parts[scope[n]]:
            parts[scope[n]] = scope[g.children(n)].tolist()
    ptr = np.cumsum([0, *(len(p) for p in parts)])
    return ptr, np.array([s for p in parts for s in p], np.int32)


def _longest_tree(g: Graph) -> int:
    """Most sum edges on an induced tree."""
    kind, ptr, child = g.kind.tolist(), g.child_ptr.tolist(), g.child.tolist()
    length = [0] * g.n_nodes
    for n in range(g.n_nodes):
        below = [length[c] for c in child[ptr[n] : ptr[n + 1]]]
        if kind[n] == SUM:
            length[n] = 1 + max(below)
        elif kind[n] == PRODUCT:
            length[n] = sum(below)
    return length[-1]
