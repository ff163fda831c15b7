"""Df learned behind bent labels on tables as they are, as ``learned`` has it for labels.

Both learners are those of ``_learners``, under the loss that knows by which mechanism
each label was bent. What they learn is kept as the coefficients and trees of any other classifier:
numbers are put into bins for boosting, and a division of bins is a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Bools, Codes, Floats, Ints
from fairpc.learners import Trees as Divisions
from fairpc.models._learned import LARGEST, Design, Linear, Trees, preorder
from fairpc.models._learners import Boosted, Labelled
from fairpc.models._learners import Linear as LinearOdds

BINS: Final = 64
"""Bins of a column of numbers, about, where it has more values."""


def corrected_linear(matrix: Floats, sizes: Ints, rows: Labelled) -> Linear:
    """Linear log odds of Df in standardised numbers, levels and holes."""
    design = Design.of(matrix, sizes, rows.weights)
    found = LinearOdds.learned(design.columns, rows)
    return design.linear(sizes, float(found.base[0]), found.coefficients[:, 0])


def corrected_boosting(matrix: Floats, sizes: Ints, rows: Labelled, seed: int) -> Trees:
    """Boosted trees of the log odds of Df."""
    bins = [_Bins.of(c, n) for c, n in zip(matrix.T, sizes.tolist(), strict=True)]
    codes = np.column_stack([own.codes(c) for own, c in zip(bins, matrix.T, strict=True)])
    arities = np.array([own.n for own in bins])
    rng = np.random.default_rng(seed)
    boosted = Boosted.learned(codes, rows, arities, sizes > 0, rng)
    return _as_trees(boosted, bins, int(sizes.max(initial=1)))


@dataclass(frozen=True, eq=False)
class _Bins:
    """How the values of a column become codes: bins up to each edge, or levels, without edges."""

    n: int
    edges: Floats | None

    @classmethod
    def of(cls, column: Floats, n_levels: int) -> _Bins:
        if n_levels:
            return cls(n_levels, None)
        known = np.sort(column[~np.isnan(column)])
        values = np.unique(known)
        edges = (values[:-1] + values[1:]) / 2
        if len(values) > BINS:
            edges = np.unique(known[np.arange(1, BINS) * len(known) // BINS])
        return cls(len(edges) + 1, edges)

    def codes(self, column: Floats) -> Codes:
        hidden = np.isnan(column)
        known = np.where(hidden, 0.0, column)
        found = known if self.edges is None else np.searchsorted(self.edges, known)
        return np.where(hidden, -1, found).astype(np.int16)


def _threshold(edges: Floats, stays: Bools) -> float:
    """Up to which number bins stay; beyond all numbers where only holes do not."""
    last = int(stays.sum()) - 1
    return float(edges[last]) if last < len(edges) else 10 * LARGEST


@dataclass
class _Node:
    """A node of a tree: what it asks, or, without a column, what it says."""

    column: int = -1
    right: int = 0
    number: float = 0.0
    hole: bool = False
    left_levels: Bools | None = None


def _as_trees(boosted: Boosted, bins: list[_Bins], most_levels: int) -> Trees:
    """The same trees, nodes in preorder, thresholds in place of bins."""
    (trees,) = boosted.trees
    each = [_nodes(Divisions(*tree), boosted.start, bins) for tree in zip(*trees, strict=True)]
    nodes = [node for tree in each for node in tree]
    named = np.array([node.left_levels is not None for node in nodes])
    goes_left = np.zeros((int(named.sum()), most_levels), np.uint8)
    sets = (node.left_levels for node in nodes if node.left_levels is not None)
    for row, levels in zip(goes_left, sets, strict=True):
        row[: len(levels)] = levels
    own = np.concatenate([np.arange(len(tree)) for tree in each])
    return preorder(
        [len(tree) for tree in each],
        np.array([node.column for node in nodes]),
        own + 1,
        np.array([node.right for node in nodes]),
        number=np.array([node.number for node in nodes]),
        hole=np.array([node.hole for node in nodes]),
        named=named,
        goes_left=goes_left,
        baseline=float(boosted.base[0]),
        boosted=True,
    )


def _nodes(tree: Divisions, start: Ints, bins: list[_Bins]) -> list[_Node]:
    """The nodes of a tree: what stays in a leaf is on the left, the leaf that it makes is right."""
    nodes: list[_Node] = []

    def grow(leaf: int, after: int) -> None:
        node = _Node(number=float(tree.values[leaf]))
        nodes.append(node)
        here = np.flatnonzero(tree.divided[after:, 0] == leaf)
        if not len(here):
            return
        k = after + int(here[0])
        node.column = int(tree.divided[k, 1])
        own = bins[node.column]
        stays = tree.stays[k, start[node.column] : start[node.column + 1]]
        node.hole = bool(stays[-1])
        if own.edges is None:
            node.number, node.left_levels = 0.0, stays[:-1]
        else:
            node.number = _threshold(own.edges, stays[:-1])
        grow(leaf, k + 1)
        node.right = len(nodes)
        grow(k + 1, k + 1)

    grow(0, 0)
    return nodes
