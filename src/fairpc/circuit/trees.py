"""The active path: each row as the lists of parameters on its induced trees.

A complete row of a deterministic circuit activates one tree, whatever the
parameters (Section "Parameter Learning", the coloured edges of Figure 2); a
hidden variable of k values makes k of them. The lists are made once, and an
iteration of EM is then one pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import FloatArray
from fairpc.circuit.program import Program, Projection, Scaled
from fairpc.circuit.threads import map_in_order
from fairpc.data.table import Codes, readonly

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

MAX_TREES: Final = 64
"""A row with more induced trees than this goes through the circuit."""
MAX_LISTED: Final = 1 << 28
"""Entries that all lists together may hold (1 GiB)."""
LIST_ROWS: Final = 4096
BATCH: Final = 16
"""Parameter sets handled in one pass over the lists."""


@dataclass(frozen=True, eq=False)
class TreeLists:
    """The active path for some rows: the parameters on each induced tree of each row.

    Row r (``rows[r]`` of the distinct rows) has the trees ``row_ptr[r]:row_ptr[r + 1]``.
    Tree t has the entries on the way from node ``leaf[t]`` of the prefix tree
    (``parent``, ``entry``) to its root. An entry is a parameter or, from the number
    of parameters on, a piece: entries that many trees have in common.
    """

    rows: Longs
    row_ptr: Longs
    leaf: Ints
    parent: Ints
    entry: Ints
    piece_ptr: Longs
    piece_entry: Ints

    @property
    def n_pieces(self) -> int:
        return len(self.piece_ptr) - 1

    @property
    def n_entries(self) -> int:
        """Look-ups of one pass."""
        return len(self.entry) + len(self.piece_entry)

    @property
    def _lists(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        return (
            self.row_ptr, self.leaf, self.parent, self.entry, self.piece_ptr, self.piece_entry,
        )  # fmt: skip

    def flows(self, theta: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood and flows; with extended range where some likelihood is very small."""
        from fairpc.circuit import _kernels, _tree_kernels

        ours = weights[self.rows]
        known, flow = np.empty((2, len(theta) + self.n_pieces))
        value, passed = np.empty((2, len(self.parent)))
        log_likelihood, least = _tree_kernels.active_flows(
            readonly(theta), ours, *self._lists, known, flow, value, passed
        )
        if least <= _kernels.TINY:
            log_likelihood = self._scaled_flows(theta, ours, flow)
        return log_likelihood, flow[: len(theta)]

    def _scaled_flows(self, theta: FloatArray, ours: FloatArray, flow: FloatArray) -> float:
        from fairpc.circuit import _tree_kernels

        scaled = Scaled.of(theta)
        log_likelihood: float = _tree_kernels.active_flows_scaled(
            np.append(scaled.mantissa, np.empty(self.n_pieces)),
            np.append(scaled.exponent, np.empty(self.n_pieces, np.int64)),
            ours, *self._lists, flow,
        )  # fmt: skip
        return log_likelihood

    def flows_of_sets(
        self, theta: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The same for several parameter sets (B, P) in one pass, with weights (B, rows)."""
        from fairpc.circuit import _kernels, _tree_kernels

        n_sets, n_parameters = theta.shape
        known, flow = np.empty((2, n_parameters + self.n_pieces, n_sets))
        known[:n_parameters] = theta.T
        log_likelihood, least = np.zeros(n_sets), np.full(n_sets, np.inf)
        _tree_kernels.active_flows_batch(
            np.ascontiguousarray(weights[:, self.rows].T), *self._lists,
            known, flow, log_likelihood, least,
        )  # fmt: skip
        flows = flow[:n_parameters].T
        for b in np.flatnonzero(least <= _kernels.TINY).tolist():
            log_likelihood[b], flows[b] = self.flows(theta[b], weights[b])
        return log_likelihood, flows


@dataclass(frozen=True, eq=False)
class ListPlan:
    """The active path: lists for chunks of rows, which depend on the data alone, not on threads."""

    n_parameters: int
    chunks: tuple[TreeLists, ...]
    n_threads: int

    @property
    def n_rows(self) -> int:
        return sum(len(chunk.rows) for chunk in self.chunks)

    @property
    def n_entries(self) -> int:
        return sum(chunk.n_entries for chunk in self.chunks)

    def _threads(self, n_sets: int = 1) -> int:
        """Handing work to threads costs as much as some 100,000 look-ups."""
        return self.n_threads if self.n_entries * n_sets > 400_000 else 1

    def flows(self, theta: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        log_likelihood, flows = 0.0, np.zeros(self.n_parameters)
        for part, flow in map_in_order(
            lambda k: self.chunks[k].flows(theta, weights), len(self.chunks), self._threads()
        ):
            log_likelihood += part
            flows += flow
        return log_likelihood, flows

    def flows_of_sets(
        self, theta: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The same for parameter sets (B, P) with weights (B, rows), some sets in each pass."""
        log_likelihood, flows = np.zeros(len(theta)), np.zeros(theta.shape)
        n_chunks = len(self.chunks)
        slices = [slice(low, low + BATCH) for low in range(0, len(theta), BATCH)]

        def task(k: int) -> tuple[FloatArray, FloatArray]:
            sets = slices[k // n_chunks]
            return self.chunks[k % n_chunks].flows_of_sets(theta[sets], weights[sets])

        tasks = map_in_order(task, n_chunks * len(slices), self._threads(len(theta)))
        for k, (part, flow) in enumerate(tasks):
            log_likelihood[slices[k // n_chunks]] += part
            flows[slices[k // n_chunks]] += flow
        return log_likelihood, flows


def list_trees(
    program: Program, codes: Codes, n_threads: int, *, every_row: bool = False
) -> tuple[ListPlan, Longs]:
    """Lists for the rows that take the active path, and the numbers of the other rows."""
    most = MAX_LISTED / max(program.longest, 1) if every_row else _worthwhile_trees(program)
    lists, rest, room = [], [], MAX_LISTED
    for start, _, chunk in program.chunks(codes, rows=LIST_ROWS):
        trees, some = _list_chunk(chunk, start, most, room)
        room -= some.n_entries
        rest.append(start + np.flatnonzero(~trees))
        if len(some.rows):
            lists.append(some)
    others = np.concatenate(rest) if rest else np.empty(0, np.int64)
    return ListPlan(program.graph.n_parameters, tuple(lists), n_threads), others


def _list_chunk(
    chunk: Projection, start: int, most: float, room: int
) -> tuple[npt.NDArray[np.bool_], TreeLists]:
    """Which rows of a chunk are listed, and their lists."""
    from fairpc.circuit import _tree_kernels

    program, g = chunk.program, chunk.program.graph
    count = np.empty(chunk.n_values)
    chunk.upward(np.ones(g.n_parameters), count)
    trees = count[chunk.root][chunk.root_ids]
    listed = trees <= most
    listed &= np.cumsum(np.where(listed, trees, 0)) * program.longest <= room
    chosen = np.flatnonzero(listed)
    n_trees = trees[chosen].astype(np.int64)
    entries, ends, piece_node = _tree_kernels.list_trees(
        g.kind, g.child_ptr, g.child, g.edge_parameter, program.edge_link, chunk.map_ptr,
        chunk.maps, chunk.off, count, chunk.root_ids, chosen, program.longest,
        g.n_parameters,
        np.full(len(count), -1, np.int32), np.zeros(len(count), np.int32),
    )  # fmt: skip
    piece_ptr, piece_entry, list_ptr, entries = _pieces_apart(
        entries, ends, piece_node, g.n_parameters
    )
    row_ptr = np.append(0, np.cumsum(n_trees))
    leaf, parent, entry = _prefix_tree(list_ptr, entries)
    lists = TreeLists(start + chosen, row_ptr, leaf, parent, entry, piece_ptr, piece_entry)
    return listed, lists


def _pieces_apart(
    entries: Ints,
    ends: Longs,
    piece_node: Ints,
    n_parameters: int,
) -> tuple[Longs, Ints, Longs, Ints]:
    """The lists of pieces, parts before wholes and numbered so; and the lists of trees."""
    n_trees = len(ends) - len(piece_node)
    # A part of a piece sits below it: the order of nodes is an order of pieces.
    order = np.argsort(piece_node, kind="stable")
    number = np.argsort(order)
    is_piece = entries >= n_parameters
    entries[is_piece] = n_parameters + number[entries[is_piece] - n_parameters]
    starts = np.append(0, ends)
    lengths = np.diff(starts)[n_trees + order]
    piece_ptr = np.append(0, np.cumsum(lengths))
    positions = np.arange(piece_ptr[-1]) + np.repeat(
        starts[n_trees + order] - piece_ptr[:-1], lengths
    )
    list_ptr = starts[: n_trees + 1]
    return piece_ptr, entries[positions], list_ptr, entries[: list_ptr[-1]]


def _prefix_tree(list_ptr: Longs, entries: Ints) -> tuple[Ints, Ints, Ints]:
    """Lists as paths of a tree, the commonest entries next to its root: leaf, parent, entry."""
    from fairpc.data._kernels import pair_ids

    n_lists = len(list_ptr) - 1
    lengths = np.diff(list_ptr)
    n_symbols = int(entries.max(initial=-1)) + 1
    rank = np.argsort(np.argsort(-np.bincount(entries, minlength=n_symbols), kind="stable"))
    of_list = np.repeat(np.arange(n_lists), lengths)
    entries = entries[np.argsort(of_list * n_symbols + rank[entries], kind="stable")]
    leaf = np.full(n_lists, -1, np.int32)
    parents, own, n_nodes = [], [], 0
    for depth in range(int(lengths.max(initial=0))):
        lists = np.flatnonzero(lengths > depth)
        above, symbol = leaf[lists], entries[list_ptr[lists] + depth]
        ids, first = np.empty((2, len(lists)), np.int32)
        count = pair_ids(above + np.int32(1), symbol, n_nodes + 1, n_symbols, ids, first)
        parents.append(above[first[:count]])
        own.append(symbol[first[:count]])
        leaf[lists] = n_nodes + ids
        n_nodes += count
    nothing = np.empty(0, np.int32)
    return leaf, np.concatenate([nothing, *parents]), np.concatenate([nothing, *own])


def _worthwhile_trees(program: Program) -> float:
    """Trees up to which a row's lists are cheaper than the circuit."""
    edges = int((program.graph.edge_parameter >= 0).sum())
    return min(MAX_TREES, max(2.0, edges / (4 * max(program.longest, 1))))
