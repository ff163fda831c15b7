"""The active path: each row as the lists of parameters on its induced trees.

A complete row of a deterministic circuit activates one tree, whatever the
parameters (Section "Parameter Learning", the coloured edges of Figure 2); a
hidden variable of k values makes k of them. The lists are made once, and an
iteration of EM is then one pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import FloatArray
from fairpc.circuit.program import Program, Projection, Scaled
from fairpc.circuit.threads import map_in_order
from fairpc.data.table import Codes, readonly

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
    List i holds ``entries[list_ptr[i]:list_ptr[i + 1]]``; the first ``n_pieces`` lists
    are pieces that several trees have in common, then come the trees.
    """

    rows: npt.NDArray[np.int64]
    row_ptr: npt.NDArray[np.int64]
    list_ptr: npt.NDArray[np.int64]
    entries: npt.NDArray[np.int32]
    n_pieces: int

    def flows(self, theta: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood and flows; with extended range where some likelihood is very small."""
        from fairpc.circuit import _kernels, _tree_kernels

        ours = weights[self.rows]
        known, flow = np.empty((2, len(theta) + self.n_pieces))
        log_likelihood, least = _tree_kernels.active_flows(
            readonly(theta), ours, self.row_ptr, self.list_ptr, self.entries, self.n_pieces,
            known, flow,
        )  # fmt: skip
        if least <= _kernels.TINY:
            log_likelihood = self._scaled_flows(theta, ours, flow)
        return log_likelihood, flow[: len(theta)]

    def _scaled_flows(self, theta: FloatArray, ours: FloatArray, flow: FloatArray) -> float:
        from fairpc.circuit import _tree_kernels

        scaled = Scaled.of(theta)
        log_likelihood: float = _tree_kernels.active_flows_scaled(
            np.append(scaled.mantissa, np.empty(self.n_pieces)),
            np.append(scaled.exponent, np.empty(self.n_pieces, np.int64)),
            ours, self.row_ptr, self.list_ptr, self.entries, len(theta), self.n_pieces, flow,
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
            np.ascontiguousarray(weights[:, self.rows].T), self.row_ptr, self.list_ptr,
            self.entries, self.n_pieces, known, flow, log_likelihood, least,
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
        return sum(len(chunk.entries) for chunk in self.chunks)

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
) -> tuple[ListPlan, npt.NDArray[np.int64]]:
    """Lists for the rows that take the active path, and the numbers of the other rows."""
    most = MAX_LISTED / max(program.longest, 1) if every_row else _worthwhile_trees(program)
    lists, rest, room = [], [], MAX_LISTED
    for start, _, chunk in program.chunks(codes, rows=LIST_ROWS):
        trees, some = _list_chunk(chunk, start, most, room)
        room -= len(some.entries)
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
    list_ptr, entries = _pieces_first(entries, ends, piece_node, g.n_parameters)
    row_ptr = np.append(0, np.cumsum(n_trees))
    return listed, TreeLists(start + chosen, row_ptr, list_ptr, entries, len(piece_node))


def _pieces_first(
    entries: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    piece_node: npt.NDArray[np.int32],
    n_parameters: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Move the pieces before the trees, parts before wholes, and number them so."""
    n_trees = len(ends) - len(piece_node)
    # A part of a piece sits below it: the order of nodes is an order of pieces.
    order = np.argsort(piece_node, kind="stable")
    number = np.argsort(order)
    is_piece = entries >= n_parameters
    entries[is_piece] = n_parameters + number[entries[is_piece] - n_parameters]
    lists = np.concatenate([n_trees + order, np.arange(n_trees)])
    starts = np.append(0, ends[:-1])
    lengths = (ends - starts)[lists]
    list_ptr = np.append(0, np.cumsum(lengths))
    positions = np.arange(len(entries)) + np.repeat(starts[lists] - list_ptr[:-1], lengths)
    return list_ptr, entries[positions]


def _worthwhile_trees(program: Program) -> float:
    """Trees up to which a row's lists are cheaper than the circuit."""
    edges = int((program.graph.edge_parameter >= 0).sum())
    return min(MAX_TREES, max(2.0, edges / (4 * max(program.longest, 1))))
