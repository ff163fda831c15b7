"""From a tree and its vtree to the first circuit, and from learned arrays to circuits.

A :class:`Skeleton` is a circuit as the learners see it: sum nodes that belong
to vtree nodes, and edges that are binary products (or values, at the leaves).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.graph import INDICATOR, PRODUCT, Circuit
from fairpc.circuit.vtree import Vtree
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats, Int32s
from fairpc.structure.mutual_information import offsets
from fairpc.structure.tree import Tree


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Sum nodes with their edges, children first, root last; indicators come before all.

    Node ``offsets(arities)[j] + v`` is the indicator [X_j = v]; it has one edge,
    with the same number. The edges of a node are consecutive.

    Attributes:
        vnode: vtree node of each node.
        first, size: first edge and number of edges of each node.
        left, right: children of each edge's product, -1 at the leaves.
        value: value of each edge at the leaves, -1 elsewhere.
    """

    vnode: Int32s
    first: Int32s
    size: Int32s
    left: Int32s
    right: Int32s
    value: Int32s

    @property
    def root(self) -> int:
        return len(self.vnode) - 1

    @property
    def edge_node(self) -> Int32s:
        """Node of each edge."""
        return np.repeat(np.arange(len(self.vnode), dtype=np.int32), self.size)


class _Nodes:
    """Appends nodes and edges."""

    def __init__(self) -> None:
        self.vnode: list[int] = []
        self.first: list[int] = []
        self.size: list[int] = []
        self.edges: list[tuple[int, int, int]] = []

    def add(self, vnode: int, edges: Sequence[tuple[int, int, int]]) -> int:
        self.vnode.append(vnode)
        self.first.append(len(self.edges))
        self.size.append(len(edges))
        self.edges.extend(edges)
        return len(self.vnode) - 1

    def skeleton(self) -> Skeleton:
        edges = np.array(self.edges, np.int32).reshape(-1, 3)
        columns = [np.ascontiguousarray(edges[:, i]) for i in range(3)]
        return Skeleton(
            *(np.array(a, np.int32) for a in (self.vnode, self.first, self.size)), *columns
        )


def compile_tree(tree: Tree, vtree: Vtree, arities: npt.ArrayLike) -> Skeleton:
    """The circuit of a tree-shaped distribution: smooth, decomposable, deterministic.

    Above each variable stands one sum per value of its parent; it decides on
    the variable's value, and the sums below it are shared between them.
    """
    sizes = np.asarray(arities, np.int64)
    n_leaves = int((vtree.variable >= 0).sum())
    if not n_leaves == tree.n_variables == len(sizes):
        raise LearningError(
            f"the tree has {tree.n_variables} variables, the vtree {n_leaves}, and there are "
            f"{len(sizes)} arities: give the same variables to all"
        )
    nodes = _Nodes()
    start = offsets(sizes)
    leaf_of = {int(x): v for v, x in enumerate(vtree.variable) if x >= 0}
    for x, k in enumerate(sizes.tolist()):
        for value in range(k):
            nodes.add(leaf_of[x], [(-1, -1, value)])
    has_children = np.zeros(tree.n_variables, bool)
    has_children[tree.parent[tree.parent >= 0]] = True
    made: list[list[int]] = []
    top: list[int] = []  # the variable of each vtree node that all others there hang from
    for v, x in enumerate(vtree.variable.tolist()):
        if x >= 0:
            top.append(x)
            copies = 1 if tree.parent[x] < 0 else int(sizes[tree.parent[x]])
            made.append(_leaves(nodes, v, start[x], int(sizes[x]), copies, bool(has_children[x])))
            continue
        a, b = int(vtree.left[v]), int(vtree.right[v])
        top.append(top[a])
        copies = 1 if tree.parent[top[a]] < 0 else int(sizes[tree.parent[top[a]]])
        if tree.parent[top[b]] == top[a]:
            edges = [(p, s, -1) for p, s in zip(made[a], made[b], strict=True)]
            made.append([nodes.add(v, edges) for _ in range(copies)])
        elif tree.parent[top[a]] == tree.parent[top[b]]:
            pairs = zip(made[a], made[b], strict=True)
            made.append([nodes.add(v, [(p, s, -1)]) for p, s in pairs])
        else:
            raise LearningError(
                f"vtree node {v} joins variables {top[a]} and {top[b]}, which are neither parent "
                "and child nor siblings in the tree: make the vtree from this tree"
            )
    return nodes.skeleton()


def tree_circuit(tree: Tree, vtree: Vtree, variables: Mapping[str, int]) -> Circuit:
    """The circuit of :func:`compile_tree` with uniform parameters, there to be learned.

    ``variables`` maps names to numbers of values, in the order of the tree's variables.
    """
    skeleton = compile_tree(tree, vtree, list(variables.values()))
    builder = CircuitBuilder(variables)
    return builder.build(graft_skeleton(builder, skeleton, None, vtree, range(len(variables))))


def tree_counts(
    skeleton: Skeleton, tree: Tree, vtree: Vtree, arities: npt.ArrayLike, counts: Floats
) -> Floats:
    """Counts of the edges of a compiled tree from pairwise counts, which may leave out holes.

    Edge v of the j-th sum above variable x counts the rows with x = v whose parent
    has value j: each parameter uses all rows in which its two variables are observed.
    """
    sizes = np.asarray(arities, np.int64)
    start = offsets(sizes)
    top = vtree.variable.copy()
    for v in np.flatnonzero(top < 0).tolist():
        top[v] = top[vtree.left[v]]
    result = np.zeros(len(skeleton.left))
    seen: dict[int, int] = {}
    for n in range(int(start[-1]), len(skeleton.vnode)):
        v = int(skeleton.vnode[n])
        j = seen[v] = seen.get(v, -1) + 1
        x, first, k = int(top[v]), int(skeleton.first[n]), int(skeleton.size[n])
        if k == 1:
            continue
        values = np.arange(start[x], start[x] + k)
        parent = int(tree.parent[x])
        above = values if parent < 0 else np.full(k, start[parent] + j)
        result[first : first + k] = counts[above, values]
    return result


def _leaves(
    nodes: _Nodes, vnode: int, start: int, arity: int, copies: int, inner: bool
) -> list[int]:
    """Indicators where the variable decides for others, distributions where it does not."""
    if inner:
        return [int(start) + v for v in range(arity)]
    if arity == 1:
        return [int(start)] * copies
    return [nodes.add(vnode, [(-1, -1, v) for v in range(arity)]) for _ in range(copies)]


def graft_skeleton(
    builder: CircuitBuilder,
    skeleton: Skeleton,
    weights: Floats | None,
    vtree: Vtree,
    columns: Sequence[int],
    key: Hashable = None,
) -> int:
    """Add a skeleton's circuit to ``builder``; give back its root.

    ``weights`` holds one parameter per edge; without it the sums are free and
    start uniform. Sums keep parameters of their own even where two happen to be
    equal, so that they can be learned apart afterwards; ``key`` tells the grafts
    of one builder from another.
    """
    below: list[int] = []
    first, size = skeleton.first.tolist(), skeleton.size.tolist()
    left, right, value = (a.tolist() for a in (skeleton.left, skeleton.right, skeleton.value))
    theta = None if weights is None else weights.tolist()
    variable = vtree.variable[skeleton.vnode].tolist()
    for n, (start, k) in enumerate(zip(first, size, strict=True)):
        span = range(start, start + k)
        if variable[n] >= 0:
            parts = [builder.indicator(columns[variable[n]], value[e]) for e in span]
        else:
            parts = [builder.product(below[left[e]], below[right[e]]) for e in span]
        if k == 1:
            below.append(parts[0])
            continue
        given = None if theta is None else theta[start : start + k]
        tie = None if given is None else ("graft", key, n)
        below.append(builder.sum(parts, given, tie=tie))
    return below[-1]


def graft(
    builder: CircuitBuilder,
    circuit: Circuit,
    columns: Sequence[int | str],
    *,
    free: bool = False,
    key: Hashable = None,
) -> int:
    """Add a circuit to ``builder`` with its variable i as column ``columns[i]``; the new root.

    With ``free`` the sums get parameters of their own that start uniform, to be
    learned; otherwise they start from the circuit's. Shared parameters stay shared.
    ``key`` tells the grafts of one builder from another.
    """
    g = circuit.graph
    if len(columns) != g.n_variables:
        raise LearningError(
            f"{len(columns)} columns for a circuit of {g.n_variables} variables: give one each"
        )
    below: list[int] = []
    children = [g.children(n).tolist() for n in range(g.n_nodes)]
    for n, kind in enumerate(g.kind.tolist()):
        parts = [below[c] for c in children[n]]
        if kind == INDICATOR:
            below.append(builder.indicator(columns[g.variable[n]], int(g.value[n])))
        elif kind == PRODUCT:
            below.append(builder.product(*parts))
        else:
            weights = None if free else circuit.weights(n).tolist()
            below.append(builder.sum(parts, weights, tie=("graft", key, int(g.block[n]))))
    return below[-1]
