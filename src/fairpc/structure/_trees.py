"""Chow–Liu trees: the tree of greatest likelihood (Chow and Liu 1968), from mutual information.

Every sub-circuit starts from one (paper, Section "Structure Learning").

Pairs of values are counted on planes: every column becomes one plane per value but
the most frequent, whose counts follow from the others. A missing value is counted as
one more value and left out of the result, so each pair is counted over the rows
where both are observed. Of a table with many values some columns are counted at a time: the
counts of all pairs would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Codes,
    Floats,
    Integers,
    Ints,
    LearningError,
)
from fairpc.data import Table, readonly

WeightedCodes: TypeAlias = tuple[Codes, Floats]
"""Codes of some rows, one row per variable (-1 = missing), and their weights."""

MAX_VALUES: Final = 4096
"""Values of columns whose pairs are counted at once: the counts of so many take 128 MiB."""

PSEUDOCOUNT: Final = 1.0
"""Prior rows per cell of a 2×2 table, the reference's choice; see :func:`mutual_information`."""


def check_table(table: Table) -> None:
    """Raise a LearningError for a table that no structure can be learned from."""
    if not table.n_rows:
        raise LearningError("the table has no rows: give at least one row of positive weight")
    if table.n_variables == 0:
        raise LearningError("the table has no columns: give at least two")
    if not table.weights.any():
        raise LearningError("all weights are zero: give at least one row of positive weight")
    if table.n_variables == 1:
        raise LearningError(
            f"the table has one column, {table.names[0]!r}: a structure relates at least two"
        )
    used = table.weights > 0
    for name, column in zip(table.names, table.codes.T, strict=True):
        values = column[used & (column >= 0)]
        if not len(values):
            raise LearningError(f"column {name!r} is missing in every row: leave it out")
        if values.min() == values.max():
            raise LearningError(
                f"column {name!r} has one value ({values[0]}) in all rows: leave it out"
            )


def weighted(table: Table, weights: Floats) -> Table:
    """The rows of positive weight, with these weights."""
    used = weights > 0
    return Table.of(table.codes[used], weights[used], arities=table.arities, names=table.names)


def offsets(sizes: Integers) -> Ints:
    """First stacked row of each variable, and the total at the end."""
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def pair_counts(columns: Codes, weights: Floats, sizes: Integers) -> Floats:
    """Weighted counts of all pairs of values, as one symmetric matrix.

    ``columns`` holds one row per variable (-1 = missing). Values are stacked:
    value v of variable j is row ``offsets(sizes)[j] + v`` of the result, so that a
    diagonal block holds the counts of one variable.
    """
    from fairpc.structure import _kernels

    columns, weights = readonly(np.ascontiguousarray(columns)), readonly(weights)
    # Beside the values of each variable is a place for what is missing.
    start = offsets(np.asarray(sizes) + 1)
    single = np.zeros(int(start[-1]))
    plane = np.empty(len(single), np.int64)
    n_planes = _kernels.number_planes(columns, weights, start, single, plane)
    gram = np.zeros((n_planes, n_planes))
    held = np.empty(len(columns), np.int64)
    _kernels.row_products(columns, weights, start, plane, held, gram)
    n_values = len(single) - len(columns)
    counts = np.zeros((n_values, n_values))
    _kernels.expand(gram, plane, single, start, np.empty(len(single)), counts)
    return counts


def _counts_of(rows: Sequence[WeightedCodes], columns: Ints, sizes: Ints) -> Floats:
    """:func:`pair_counts` of some columns, of all rows together."""
    each = (pair_counts(codes[columns], weights, sizes[columns]) for codes, weights in rows)
    return reduce(np.add, each)


def information(
    rows: Sequence[WeightedCodes],
    sizes: Ints,
    possible: Bools | None = None,
) -> Floats:
    """:func:`mutual_information` of all rows together, from the counts of some columns at a time.

    The counts of a pair are the same bits whatever they are counted with.
    """
    start = offsets(sizes)
    known = np.ones(int(start[-1]), np.bool_) if possible is None else possible
    result = np.zeros((len(sizes), len(sizes)))
    columns = np.arange(len(sizes))
    # Blocks of half as many values: two are counted together.
    of = start[:-1] if start[-1] > MAX_VALUES else np.zeros(len(sizes), np.int64)
    blocks = np.split(columns, np.flatnonzero(np.diff(of // (MAX_VALUES // 2))) + 1)
    some = combinations(blocks, 2) if len(blocks) > 1 else [(columns, columns)]
    for first, second in some:
        own = np.union1d(first, second)
        inside = np.repeat(np.isin(columns, own), sizes)
        found = mutual_information(_counts_of(rows, own, sizes), sizes[own], known[inside])
        result[np.ix_(own, own)] = found
    return result


def mutual_information(
    counts: Floats,
    sizes: Integers,
    possible: Bools | None = None,
) -> Floats:
    """Mutual information in nats of every pair of variables, from :func:`pair_counts`.

    Each table of a pair is smoothed by ``4 * PSEUDOCOUNT`` prior rows spread evenly
    over its cells: one per cell where both are binary, as in the reference, and
    no more in total where they are not. ``possible`` says which of the stacked values
    there are; all by default.
    """
    from fairpc.structure import _kernels

    start = offsets(sizes)
    known = np.ones(int(start[-1]), bool) if possible is None else possible
    free = np.add.reduceat(known, start[:-1], dtype=np.float64)
    result = np.zeros((len(free), len(free)))
    _kernels.pair_information(counts, start, known, free, PSEUDOCOUNT, result)
    return result


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
                f"parents {above.tolist()} are not a tree: give one parent per variable, "
                "-1 for roots"
            )
        children = cls(above, above).children()
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
        below: list[list[int]] = [[] for _ in self.parent]
        for v in np.flatnonzero(self.parent >= 0).tolist():
            below[self.parent[v]].append(v)
        return below


def chow_liu(table: Table, *, root: int | None = None) -> Tree:
    """The tree of maximum total mutual information.

    Missing values: each pair is counted over the rows where both are observed.
    Ties: pairs are taken by mutual information to 12 decimals, then by the smaller
    first and the smaller second column. The root is the variable of least eccentricity,
    the first where two are equal, unless ``root`` names one.

    Args:
        table: weighted rows.
        root: column to hang the tree from.
    """
    check_table(table)
    return tree_of_rows([(table.codes.T, table.weights)], table.arities, root)


def tree_of_rows(rows: Sequence[WeightedCodes], arities: Ints, root: int | None = None) -> Tree:
    """:func:`chow_liu` of all rows together."""
    m = len(arities)
    if root is not None and not 0 <= root < m:
        raise LearningError(f"root is {root}: columns are 0 to {m - 1}")
    edges = spanning_tree(information(rows, arities))
    return tree_of_edges(edges, m, root)


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
    edges = np.stack([tree.row, tree.col], axis=1).astype(np.int64)
    edges.sort(axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def tree_of_edges(edges: Ints, m: int, root: int | None = None) -> Tree:
    """Root each component at its centre (the component of ``root`` at that)."""
    neighbours: list[list[int]] = [[] for _ in range(m)]
    for i, j in edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    unseen = -2
    parent = np.full(m, unseen, np.int64)
    for first in ([] if root is None else [root]) + list(range(m)):
        if parent[first] == unseen:
            top = first if first == root else _centre(neighbours, first)
            for v, above in _walk(neighbours, top).items():
                parent[v] = above
    return Tree.of(parent)


def _walk(neighbours: list[list[int]], start: int) -> dict[int, int]:
    """Where each variable is reached from, in breadth-first order from ``start``."""
    above = {start: -1}
    order = [start]
    for v in order:
        for u in neighbours[v]:
            if u not in above:
                above[u] = v
                order.append(u)
    return above


def _centre(neighbours: list[list[int]], start: int) -> int:
    """The variable of least eccentricity: the middle of a longest path, the first of two."""
    above = _walk(neighbours, [*_walk(neighbours, start)][-1])
    path = [[*above][-1]]
    while above[path[-1]] >= 0:
        path.append(above[path[-1]])
    return min(path[(len(path) - 1) // 2], path[len(path) // 2])


def edge_counts(tree: Tree, rows: WeightedCodes, arities: Ints) -> Floats:
    """Weighted counts [value, value of the parent] at the edges of a tree, values stacked.

    Of a root the first column has the counts of its own values.
    """
    start, above = offsets(arities), tree.parent
    widest = int(arities[above[above >= 0]].max(initial=1))
    result = np.zeros((int(start[-1]), widest))
    for x, parent in enumerate(above.tolist()):
        own = slice(start[x], start[x + 1])
        if parent < 0:
            result[own, 0] = np.diagonal(_counts_of([rows], np.array([x]), arities))
        else:
            pair = _counts_of([rows], np.array([parent, x]), arities)
            result[own, : arities[parent]] = pair[: arities[parent], arities[parent] :].T
    return result


def completed(
    codes: Codes, tree: Tree, rows: WeightedCodes, arities: Ints, rng: np.random.Generator
) -> Codes:
    """Codes (variables, rows) with holes filled by draws from P(missing | observed) of a tree.

    A row with holes takes no single way through a deterministic circuit, so a search
    sees one completion of it. That decides on structure and first parameters only:
    the circuit marginalises what is missing exactly. The parameters of the tree are those of
    ``rows``; each conditional distribution has one prior row spread evenly, so that every
    value can be drawn.
    """
    holes = np.flatnonzero((codes < 0).any(axis=0))
    if not len(holes):
        return codes
    from fairpc.structure import _kernels

    start = offsets(arities)
    smooth = edge_counts(tree, rows, arities) + np.repeat(1.0 / arities, arities)[:, None]
    filled = np.ascontiguousarray(codes[:, holes])
    uniforms = rng.random(filled.shape)
    _kernels.tree_samples(filled, tree.order, tree.parent, start, smooth, uniforms)
    result = codes.copy()
    result[:, holes] = filled
    return result
