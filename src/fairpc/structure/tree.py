"""Trees over variables; Chow–Liu trees, of greatest likelihood among trees (Chow and Liu 1968).

Every sub-circuit starts from one (paper, Section "Structure Learning").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.data.table import Table
from fairpc.errors import LearningError
from fairpc.errors.arrays import Bools, Floats, Ints, check_choice, check_number
from fairpc.structure.check import check_table
from fairpc.structure.mutual_information import (
    PSEUDOCOUNT,
    mutual_information,
    offsets,
    pair_counts,
)

Prune = Literal["aic", "bic"]
PRUNES: Final = ("aic", "bic")


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree (or forest) over variables.

    Attributes:
        parent: parent of each variable, -1 for a root.
        order: the variables, each after its parent.
    """

    parent: Ints
    order: Ints

    @classmethod
    def of(cls, parent: npt.ArrayLike) -> Tree:
        """A tree from its parents; a LearningError where they close a cycle or name no variable."""
        above = np.array(parent, np.int64)
        n = len(above)
        if above.ndim != 1 or n == 0 or (above < -1).any() or (above >= n).any():
            raise LearningError(
                f"parents {above.tolist()} are no tree: give one parent per variable, -1 for roots"
            )
        children = _children(above)
        order = np.flatnonzero(above < 0).tolist()
        for v in order:
            order.extend(children[v])
        if len(order) != n:
            loose = sorted(set(range(n)) - set(order))
            raise LearningError(f"variables {loose} lie on a cycle of parents: cut it at a root")
        for array in (above, found := np.array(order, np.int64)):
            array.flags.writeable = False
        return cls(above, found)

    @property
    def n_variables(self) -> int:
        return len(self.parent)

    @property
    def roots(self) -> list[int]:
        return [int(v) for v in np.flatnonzero(self.parent < 0)]

    def children(self) -> list[list[int]]:
        """Children of each variable, in increasing order."""
        return _children(self.parent)


def chow_liu(
    table: Table,
    *,
    pseudocount: float = PSEUDOCOUNT,
    prune: Prune | None = None,
    root: int | None = None,
    lenient: bool = False,
) -> Tree:
    """The tree of maximum total mutual information.

    Missing values: each pair is counted over the rows where both are observed.
    Ties: pairs are taken by mutual information to 12 decimals, then by the smaller
    first and the smaller second column. The root is the variable of least eccentricity,
    the first where two are equal, unless ``root`` names one.

    Args:
        table: weighted rows.
        pseudocount: prior rows per cell of a 2×2 table.
        prune: leave out an edge whose likelihood ratio does not pay for its
            parameters, by Akaike's ("aic") or the Bayesian ("bic") criterion; gives a forest.
        root: column to hang the tree from.
        lenient: accept constant columns and a single column.
    """
    check_table(table, lenient=lenient)
    counts = pair_counts(table.codes.T, table.weights, table.arities)
    return tree_of_counts(counts, table.arities, pseudocount, prune, root)


def tree_of_counts(
    counts: Floats,
    arities: Ints,
    pseudocount: float = PSEUDOCOUNT,
    prune: Prune | None = None,
    root: int | None = None,
) -> Tree:
    """:func:`chow_liu` from pairwise counts."""
    m = len(arities)
    if prune is not None:
        check_choice("prune", prune, PRUNES)
    check_number("pseudocount", pseudocount, 0.0)
    if root is not None and not 0 <= root < m:
        raise LearningError(f"root is {root}: columns are 0 to {m - 1}")
    information = mutual_information(counts, arities, pseudocount)
    edges = spanning_tree(information)
    if prune is not None:
        edges = edges[_worthwhile(edges, counts, arities, prune)]
    return _hang(edges, m, root)


def spanning_tree(weights: Floats) -> Ints:
    """Edges (i < j) of the maximum spanning tree, ties to the first pair in order."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    m = len(weights)
    # SciPy before 1.17.1 takes no other indices than these.
    i, j = (k.astype(np.int32) for k in np.triu_indices(m, 1))
    if m < 2:
        return np.zeros((0, 2), np.int64)
    # Ranks instead of weights: no two are equal, so the tree is unique, and no
    # rank is zero, which SciPy would take for "no edge". Rounded, so that what
    # is equal on paper is so on every machine.
    rank = np.empty(len(i))
    rank[np.argsort(-weights[i, j].round(12), kind="stable")] = np.arange(1, len(i) + 1)
    tree = minimum_spanning_tree(coo_array((rank, (i, j)), shape=(m, m)).tocsr()).tocoo()
    found = np.stack([tree.row, tree.col], axis=1).astype(np.int64)
    found.sort(axis=1)
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def _worthwhile(edges: Ints, counts: Floats, sizes: Ints, prune: Prune) -> Bools:
    """Whether each edge raises the likelihood by more than its parameters cost."""
    start = offsets(sizes)
    keep = np.zeros(len(edges), bool)
    for position, (i, j) in enumerate(edges.tolist()):
        block = counts[start[i] : start[i + 1], start[j] : start[j + 1]]
        total = block.sum()
        expected = np.outer(block.sum(1), block.sum(0)) / max(total, 1.0)
        seen = block > 0
        gain = float((block[seen] * np.log(block[seen] / expected[seen])).sum())
        parameters = (np.count_nonzero(block.sum(1)) - 1) * (np.count_nonzero(block.sum(0)) - 1)
        price = 1.0 if prune == "aic" else 0.5 * float(np.log(max(total, 1.0)))
        keep[position] = gain > price * parameters
    return keep


def _hang(edges: Ints, m: int, root: int | None) -> Tree:
    """Root each component at its centre (the component of ``root`` at that)."""
    neighbours: list[list[int]] = [[] for _ in range(m)]
    for i, j in edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    parent = np.full(m, -1, np.int64)
    done = [False] * m
    for first in ([] if root is None else [root]) + list(range(m)):
        if done[first]:
            continue
        top = first if first == root else _centre(_walk(neighbours, first)[0], neighbours)
        nodes, above = _walk(neighbours, top)
        for v in nodes:
            parent[v] = above[v]
            done[v] = True
    return Tree.of(parent)


def _walk(neighbours: list[list[int]], start: int) -> tuple[list[int], dict[int, int]]:
    """Breadth-first order from ``start``, and where each variable was reached from."""
    above = {start: -1}
    order = [start]
    for v in order:
        for u in neighbours[v]:
            if u not in above:
                above[u] = v
                order.append(u)
    return order, above


def _centre(component: list[int], neighbours: list[list[int]]) -> int:
    """The variable of least eccentricity: the middle of a longest path, the first of two."""
    far = _walk(neighbours, component[0])[0][-1]
    order, above = _walk(neighbours, far)
    path = [order[-1]]
    while above[path[-1]] >= 0:
        path.append(above[path[-1]])
    return min(path[(len(path) - 1) // 2], path[len(path) // 2])


def _children(parent: Ints) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in range(len(parent))]
    for v, p in enumerate(parent.tolist()):
        if p >= 0:
            below[p].append(v)
    return below
