"""The state of a search: circuits that are split edge by edge, with the rows of every edge.

A split (Strudel; paper, Section "Structure Learning") replaces an edge (n, c) by
two, whose sub-circuits are those of c restricted to "X in A" and to "X not in A".
The circuits are deterministic: a complete row takes one edge at each vtree node,
parameters are ratios of counts (Equation 1), and the likelihood is a sum of terms
of single nodes. So a split costs what it touches: the rows of its edge, times the
vtree nodes between the edge and X, and the nodes that are copied there.

Importing this module imports Numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairpc.circuit import Vtree
from fairpc.core import Array, Bools, Bytes, Codes, Floats, Int32s, Ints
from fairpc.structure import _kernels as kernels
from fairpc.structure._compile import (
    LearnedCell,
    Skeleton,
    parents_and_depths,
    posterior_mean,
)
from fairpc.structure._trees import offsets


@dataclass(frozen=True, eq=False)
class CellRows:
    """The complete rows of a cell, and the circuit it starts from.

    Attributes:
        codes: int16, (variables, rows).
        weights: (rows, 2): weight as training row, and as held-out row.
        vtree, skeleton: a compiled tree.
    """

    codes: Codes
    weights: Floats
    vtree: Vtree
    skeleton: Skeleton


@dataclass(frozen=True, eq=False)
class _Undo:
    """What a split changed in old nodes: enough to take it back."""

    node: int
    edge: int
    pair: int
    edges: Int32s
    counts: Floats
    size: Ints


class SplitState:
    """Circuits of several cells over the same variables, to be split in place."""

    def __init__(self, cells: Sequence[CellRows], arities: Ints, smoothing: float) -> None:
        self.start = offsets(arities)
        self.smoothing = smoothing
        self.n_cells = len(cells)
        self._vtrees = [cell.vtree for cell in cells]
        self._skeletons = [cell.skeleton for cell in cells]
        self._stride = len(cells[0].vtree.left)
        self._n_values = int(self.start[-1])
        self._most_values = int(arities.max())
        self.n_fixed = self.n_cells * self._n_values
        self.codes = np.concatenate([cell.codes for cell in cells], axis=1)
        self.row_weights = np.concatenate([cell.weights for cell in cells])
        stops = np.cumsum([cell.codes.shape[1] for cell in cells])
        self._spans = list(zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True))
        self.totals = self.row_weights.sum(axis=0)
        self._mark = 0
        self._last_asked = -1, np.zeros(0, bool), np.zeros(0, np.int64)
        self._undo: list[_Undo] = []
        self._load(cells)
        self._start_counts()

    @property
    def log_likelihood(self) -> float:
        """Σ weight · log P(row) of the rows that parameters come from."""
        return float(self._likelihood[0])

    @property
    def held_out_log_likelihood(self) -> float:
        """The same of the held-out rows; -inf where one of them is impossible."""
        return float(self._likelihood[1]) if self._likelihood[2] < 0.5 else -np.inf

    @property
    def n_edges(self) -> int:
        """Number of edges so far; an edge keeps its number."""
        return int(self._size[1])

    def flow(self, edge: int) -> float:
        """Weight of the rows that take an edge; 0 once it is split or no edge leads to it."""
        return float(self._C[edge, kernels.FLOW]) if self._E[edge, kernels.ALIVE] else 0.0

    def keys(self, edges: Int32s) -> tuple[Floats, Int32s]:
        """Flows and vtree nodes (within their cells) of several edges that can be split."""
        vnodes = self._N[self._E[edges, kernels.NODE], kernels.VNODE] % np.int32(self._stride)
        return self._C[edges, kernels.FLOW], vnodes

    def vnode(self, edge: int) -> int:
        """Vtree node of an edge, counted within its cell."""
        return int(self._N[self._E[edge, kernels.NODE], kernels.VNODE]) % self._stride

    def cell(self, edge: int) -> int:
        """Cell of an edge."""
        return int(self._N[self._E[edge, kernels.NODE], kernels.VNODE]) // self._stride

    def candidates(self, since: int, min_flow: float) -> Int32s:
        """Edges numbered ``since`` and later that have at least ``min_flow`` and can be split."""
        found = np.empty(self.n_edges - since, np.int32)
        given = self._E, self._C, self._B, self.start, since, self.n_edges, float(min_flow)
        return found[: kernels.candidates(*given, found)]

    def rows(self, edge: int) -> Int32s:
        """The rows that take an edge, in order."""
        near = self._near[edge]
        found: Int32s = near[self._active[self.vnode(edge)][near] == edge]
        self._near[edge] = found
        return found

    def possible(self, edge: int) -> Bools:
        """Which values of the variables, stacked, are possible below an edge: always the same."""
        if edge != self._last_asked[0]:
            words = self._B[self._E[edge, kernels.LEFT]] | self._B[self._E[edge, kernels.RIGHT]]
            bits = np.unpackbits(words.view(np.uint8), bitorder="little")
            known = bits[: self._n_values].view(bool)
            counts = np.add.reduceat(known, self.start[:-1], dtype=np.int64)
            self._last_asked = edge, known, counts
        return self._last_asked[1]

    def free_values(self, edge: int) -> Ints:
        """How many values each variable can take below an edge."""
        self.possible(edge)
        return self._last_asked[2]

    def halves(self, edge: int, variable: int) -> Bytes:
        """Sides that set the first possible value of a variable against all others."""
        own = self.possible(edge)[self.start[variable] : self.start[variable + 1]]
        sides = np.ones(len(own), np.uint8)
        sides[np.argmax(own)] = 0
        return sides

    def best_split(
        self, edge: int, rows: Int32s, variables: Int32s, price: float
    ) -> tuple[int, Bytes, float, int]:
        """The best split of an edge: variable, side of each value, gain, new free parameters.

        The gain is that in maximum log-likelihood, exactly: it equals the difference
        of two full evaluations without smoothing. The split maximises gain − price ×
        max(parameters, 0), with the values of side 0 found greedily where there are more than two.
        """
        cell = self.cell(edge)
        # As many levels as there are vtree nodes: all that is below the edge.
        queue, n_queue, _ = self._reach(edge, int(variables[0]), self._stride)
        arrays = *self._graph(), self._active, self.codes, self.row_weights
        place = self._leaf[cell], cell * self._stride, self.start
        counts = np.empty((n_queue + 1, self._most_values + 2))
        allowed = np.empty(counts.shape, np.int32)
        work = counts, allowed, self._on_path, self._path, self._sides
        variable, gain, new = kernels.best_split(
            *arrays, rows, edge, queue, variables, *place, price, self._edge_maps, work
        )
        n_values = self.start[variable + 1] - self.start[variable]
        return variable, self._sides[1, :n_values].copy(), gain, new

    def split(self, edge: int, rows: Int32s, variable: int, sides: Bytes) -> None:
        """Split an edge: values with side 0 against those with side 1.

        Nodes on the way to the variable are copied, all others stay shared.
        """
        queue, n_queue, vnodes = self._reach(edge, variable, 0)
        self._reserve(2 * len(queue), 2 * n_queue + 2)
        edges = self._edges_of(queue, n_queue)
        touched = np.append(edges, np.int32(edge))
        node, cell = int(self._E[edge, kernels.NODE]), self.cell(edge)
        size, counts = self._size.copy(), self._C[touched]
        target = self._size, cell * self._n_values, self._maps, self._edge_maps
        middle, pair = kernels.copy_nodes(
            *self._graph(), edge, queue, variable, sides, self.start, *target
        )
        self._undo.append(_Undo(node, edge, pair, touched, counts, size))
        side = sides[self.codes[variable, rows]]
        below = vnodes % self._stride
        moved = self._E, self._C, self._active, self.row_weights, rows, side, edge
        kernels.move_rows(
            *moved, self.vnode(edge), pair, below, edges, counts, self.n_fixed, self._edge_maps
        )
        first, second = rows[side == 0], rows[side == 1]
        self._near[edge] = first[:0]
        before = len(self._near)
        self._near += [first] * (middle - before) + [second] * (pair - middle) + [first, second]
        new = int(size[0]), int(self._size[0])
        self._T[slice(*new)] = 0.0
        self._likelihood += self._set_terms(*new, np.append(queue, np.int32(node)))
        self.n_parameters += kernels.settle(self._N, self._E, *new)
        self.n_parameters += 2 if self._N[node, kernels.SIZE] == 2 else 1
        self.n_parameters -= kernels.release(self._N, self._E, edge, self._queue)

    def undo(self) -> None:
        """Go back to the last :meth:`keep`. Rows stay where they were sent: no split can follow."""
        while self._undo:
            last = self._undo.pop()
            kernels.restore_edge(self._N, self._E, last.node, last.edge, last.pair)
            self._C[last.edges] = last.counts
            self._size[:] = last.size

    def keep(self) -> None:
        """Keep the splits made so far: :meth:`undo` will not take them back."""
        self._undo.clear()

    def learned(self, cell: int) -> LearnedCell:
        """The circuit of a cell as it is now."""
        if self.n_edges == self._n_start:
            return self._tree(cell)
        seen, found = np.zeros(int(self._size[0]), bool), self._queue
        root = self._roots[cell]
        found = found[: kernels.below(self._N, self._E, root, self.n_fixed, seen, found)]
        # Children first: they belong to smaller vtree nodes than the node itself.
        order = found[np.lexsort((found, self._N[found, kernels.VNODE]))]
        fixed = np.arange(cell * self._n_values, (cell + 1) * self._n_values, dtype=np.int32)
        nodes = np.concatenate([fixed, order])
        number = np.full(int(self._size[0]), -1, np.int32)
        number[nodes] = np.arange(len(nodes), dtype=np.int32)
        sizes = self._N[nodes, kernels.SIZE]
        edges = self._edges_of(nodes, int(sizes.sum()))
        left, right = self._E[edges, kernels.LEFT], self._E[edges, kernels.RIGHT]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        skeleton = Skeleton(
            vnode=self._N[nodes, kernels.VNODE] % np.int32(self._stride),
            first=first,
            size=sizes.copy(),
            left=np.where(left >= 0, number[left], np.int32(-1)),
            right=np.where(right >= 0, number[right], np.int32(-1)),
            value=self._E[edges, kernels.VALUE].copy(),
        )
        return self._cell(cell, skeleton, edges)

    def _tree(self, cell: int) -> LearnedCell:
        """The circuit of a cell as it was given, with the counts of its rows."""
        skeleton = self._skeletons[cell]
        fixed = np.arange(cell * self._n_values, (cell + 1) * self._n_values)
        edges = np.concatenate([fixed, np.arange(*self._edge_spans[cell])])
        return self._cell(cell, skeleton, edges)

    def _cell(self, cell: int, skeleton: Skeleton, edges: Int32s | Ints) -> LearnedCell:
        """A cell with parameters from the counts of these edges."""
        counts = self._C[edges, kernels.FLOW].copy()
        weights = posterior_mean(counts, skeleton.first, self.smoothing)
        return LearnedCell(self._vtrees[cell], skeleton, counts, weights)

    def _graph(self) -> tuple[Array, ...]:
        """The arrays of nodes and edges that kernels walk along."""
        return self._N, self._E, self._C, self._B, self._V

    def _reach(self, edge: int, variable: int, levels: int) -> tuple[Int32s, int, Int32s]:
        """Nodes below an edge on the way to a variable, or in the first levels of sums.

        With their number of edges, and their vtree nodes.
        """
        self._mark += 1
        leaf = int(self._leaf[self.cell(edge)][variable])
        marks, vnodes = np.zeros((2, len(self._V)), bool), np.empty(len(self._V), np.int32)
        given = self._N, self._E, self._V, edge, leaf, levels, self._mark, marks
        n, n_edges, n_vnodes = kernels.reach(*given, self._queue, vnodes)
        return self._queue[:n].copy(), n_edges, vnodes[:n_vnodes]

    def _edges_of(self, nodes: Int32s, n_edges: int) -> Int32s:
        """The edges of some nodes, of which there are ``n_edges``."""
        found = np.empty(n_edges, np.int32)
        kernels.edges_of(self._N, self._E, nodes, found)
        return found

    def _load(self, cells: Sequence[CellRows]) -> None:
        """Number the nodes of all cells: indicators of each cell first, then the other nodes."""
        k = self._n_values
        n_nodes = self.n_fixed + sum(len(c.skeleton.vnode) - k for c in cells)
        n_edges = self.n_fixed + sum(len(c.skeleton.left) - k for c in cells)
        self._size = np.array([n_nodes, n_edges], np.int64)
        self._n_start = n_edges
        self._N = np.zeros((2 * n_nodes, 5), np.int32)
        self._E = np.zeros((2 * n_edges, 7), np.int32)
        self._C = np.zeros((2 * n_edges, 2))
        self._T = np.zeros((2 * n_nodes, 3))
        self._B = np.zeros((2 * n_nodes, (k + 63) // 64), np.uint64)
        self._queue, self._path = np.empty((2, 2 * n_nodes), np.int32)
        self._on_path = np.empty(self._stride, bool)
        self._sides = np.empty((2, self._most_values), np.uint8)
        self._maps = np.zeros((2, 2 * n_nodes), np.int32)
        self._edge_maps = np.zeros((2, 2 * n_edges), np.int32)
        self._V = np.concatenate([_shifted(c.vtree, i) for i, c in enumerate(cells)])
        n_inner = self._stride // 2
        self._leaf = [  # vtree node of each variable: inner nodes, with -1, sort first
            np.argsort(c.vtree.variable, kind="stable")[n_inner:] + i * self._stride
            for i, c in enumerate(cells)
        ]
        self._roots: list[int] = []
        self._edge_spans: list[tuple[int, int]] = []
        node, edge = self.n_fixed, self.n_fixed
        for i, cell in enumerate(cells):
            s = cell.skeleton
            number = np.concatenate([np.arange(k) + i * k, np.arange(len(s.vnode) - k) + node])
            link = np.concatenate([np.arange(k) + i * k, np.arange(len(s.left) - k) + edge])
            _load_skeleton(self._N, self._E, s, number, link, i * self._stride)
            self._roots.append(int(number[-1]))
            self._edge_spans.append((edge, edge + len(s.left) - k))
            node += len(s.vnode) - k
            edge += len(s.left) - k

    def _start_counts(self) -> None:
        """Send all rows down their trees."""
        n, e, c = self._N, self._E, self._C
        kernels.fill_values(n, e, self._B, self._V, self.start, int(self._size[0]))
        self._active = np.zeros((self._stride, self.codes.shape[1]), np.int32)
        every = np.arange(self.codes.shape[1], dtype=np.int32)
        for i, (lo, hi) in enumerate(self._spans):
            rows = self._active, self.codes, self.row_weights, lo, hi
            kernels.route(n, e, c, self._V, *rows, i * self._stride, self._roots[i])
        cell_of = self._N[self._E[: self.n_edges, kernels.NODE], kernels.VNODE] // self._stride
        spans = [every[lo:hi] for lo, hi in self._spans]
        self._near = [spans[i] for i in cell_of.tolist()]
        nodes = self.n_fixed, int(self._size[0])
        self._likelihood = self._set_terms(*nodes, np.zeros(0, np.int32))
        sizes = n[slice(*nodes), kernels.SIZE]
        self.n_parameters = int(sizes[sizes > 1].sum())

    def _set_terms(self, lo: int, hi: int, others: Int32s) -> Floats:
        """Set the likelihood terms of the nodes ``lo:hi`` and ``others``; how the sums change."""
        change = np.zeros(3)
        kernels.set_terms(*self._graph()[:3], self._T, self.smoothing, lo, hi, others, change)
        return change

    def _reserve(self, nodes: int, edges: int) -> None:
        """Room for more nodes and edges, by doubling."""
        if self._size[0] + nodes > len(self._N):
            room = 2 * (int(self._size[0]) + nodes)
            for name in ("_N", "_T", "_B"):
                array = getattr(self, name)
                setattr(self, name, np.pad(array, ((0, room - len(array)), (0, 0))))
            self._queue, self._path = np.empty((2, room), np.int32)
            self._maps = np.zeros((2, room), np.int32)
        if self._size[1] + edges > len(self._E):
            room = 2 * (int(self._size[1]) + edges)
            for name in ("_E", "_C"):
                array = getattr(self, name)
                setattr(self, name, np.pad(array, ((0, room - len(array)), (0, 0))))
            self._edge_maps = np.zeros((2, room), np.int32)


def _shifted(vtree: Vtree, cell: int) -> Int32s:
    """A vtree as rows of V, numbered after those of the cells before."""
    parent, depth = parents_and_depths(vtree)
    shift = cell * len(vtree.left)
    left, right, above = (
        np.where(a >= 0, a + shift, -1) for a in (vtree.left, vtree.right, parent)
    )
    return np.stack([left, right, vtree.variable, above, depth], axis=1).astype(np.int32)


def _load_skeleton(
    nodes: Int32s, edges: Int32s, s: Skeleton, number: Ints, link: Ints, shift: int
) -> None:
    """Write a skeleton into the arrays of nodes and edges under new numbers."""
    nodes[number, kernels.VNODE] = s.vnode + shift
    nodes[number, kernels.FIRST] = link[s.first]
    nodes[number, kernels.SIZE] = s.size
    owner = np.repeat(np.arange(len(s.vnode)), s.size)
    last = np.append(owner[1:] != owner[:-1], True)
    edges[link, kernels.NODE] = number[owner]
    edges[link, kernels.LEFT] = np.where(s.left >= 0, number[s.left], -1)
    edges[link, kernels.RIGHT] = np.where(s.right >= 0, number[s.right], -1)
    edges[link, kernels.VALUE] = s.value
    edges[link, kernels.NEXT] = np.where(last, -1, np.append(link[1:], -1))
    edges[link, kernels.ALIVE] = 1
