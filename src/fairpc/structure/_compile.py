"""From a tree to the first circuit: its vtree, the skeleton along it, and parameters from counts.

A vtree says how the products of a circuit divide their scope. A :class:`Skeleton` is a
circuit as the learners see it: sum nodes that belong to vtree nodes, and edges that
are binary products (or values, at the leaves). Parameters are the mean of a Dirichlet posterior, by
Laplace smoothing: a sum of k children with counts c (Equation 1 of the paper) gets
(c + α/k) / (Σc + α).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairpc.circuit import CircuitBuilder, Vtree
from fairpc.core import Floats, Int32s, Ints, LearningError
from fairpc.structure._trees import Tree, offsets

_Branch = int | tuple["_Branch", "_Branch"]
"""A vtree while it grows: a variable, or what is left and right of a node."""


def vtree_of_tree(tree: Tree) -> Vtree:
    """A vtree along a tree: a variable with children is left of all that is below it.

    Siblings (and the roots of a forest) are joined pairwise in halves, as in the reference. Nodes
    are numbered children first, left before right.
    """
    children = tree.children()
    top: dict[int, _Branch] = {}
    for v in tree.order[::-1].tolist():
        below = [top[c] for c in children[v]]
        top[v] = (v, _join(below)) if below else v
    stack = [_join([top[r] for r in tree.roots])]
    branches: list[_Branch] = []
    while stack:
        branches.append(branch := stack.pop())
        if isinstance(branch, tuple):
            stack += branch
    left, right, variable = np.full((3, len(branches)), -1)
    loose: list[int] = []  # nodes whose parent comes later
    for n, branch in enumerate(reversed(branches)):
        if isinstance(branch, tuple):
            right[n], left[n] = loose.pop(), loose.pop()
        else:
            variable[n] = branch
        loose.append(n)
    return Vtree(left, right, variable)


def _join(branches: list[_Branch]) -> _Branch:
    if len(branches) == 1:
        return branches[0]
    half = len(branches) // 2
    return _join(branches[:half]), _join(branches[half:])


def parents_and_depths(vtree: Vtree) -> tuple[Ints, Ints]:
    """Parent of each node, -1 at the root; and distance from the root."""
    parent = np.full(len(vtree.left), -1, np.int64)
    inner = np.flatnonzero(vtree.left >= 0)
    parent[vtree.left[inner]] = inner
    parent[vtree.right[inner]] = inner
    depth = np.zeros(len(parent), np.int64)
    for v in range(len(parent) - 2, -1, -1):
        depth[v] = depth[parent[v]] + 1
    return parent, depth


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


class _SkeletonNodes(list[tuple[int, Sequence[tuple[int, int, int]]]]):
    """The nodes of a skeleton so far: vtree node, and edges as (left, right, value)."""

    def add(self, vnode: int, edges: Sequence[tuple[int, int, int]]) -> int:
        """Append a node; its number."""
        self.append((vnode, edges))
        return len(self) - 1

    def skeleton(self) -> Skeleton:
        vnode = np.array([v for v, _ in self], np.int32)
        size = np.array([len(edges) for _, edges in self], np.int32)
        first = (np.cumsum(size) - size).astype(np.int32)
        edges = np.array([e for _, edges in self for e in edges], np.int32)
        return Skeleton(vnode, first, size, *(np.ascontiguousarray(c) for c in edges.T))


def compile_tree(tree: Tree, vtree: Vtree, arities: npt.ArrayLike) -> Skeleton:
    """The circuit of a tree-shaped distribution: smooth, decomposable, deterministic.

    Each variable has one sum per value of its parent; it decides on the
    variable's value, and the sums below it are shared between them.
    """
    sizes = np.asarray(arities, np.int64)
    n_leaves = int((vtree.variable >= 0).sum())
    if not n_leaves == tree.n_variables == len(sizes):
        raise LearningError(
            f"the tree has {tree.n_variables} variables, the vtree {n_leaves}, and there are "
            f"{len(sizes)} arities: give the same variables to all"
        )
    nodes = _SkeletonNodes()
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


def _leaves(
    nodes: _SkeletonNodes, vnode: int, start: int, arity: int, copies: int, inner: bool
) -> list[int]:
    """Indicators where the variable decides for others, distributions where it does not."""
    if inner:
        return [int(start) + v for v in range(arity)]
    if arity == 1:
        return [int(start)] * copies
    return [nodes.add(vnode, [(-1, -1, v) for v in range(arity)]) for _ in range(copies)]


@dataclass(frozen=True, eq=False)
class LearnedCell:
    """The circuit of a cell: its skeleton, and per edge the weight of rows and parameter."""

    vtree: Vtree
    skeleton: Skeleton
    counts: Floats
    weights: Floats

    def graft(self, builder: CircuitBuilder, columns: Sequence[int], key: Hashable = None) -> int:
        """Add the circuit to a larger one; give back its root.

        Sums keep parameters of their own even where two happen to be equal, so that they can be
        learned apart afterwards; ``key`` tells the grafts of one builder from another.
        """
        below: list[int] = []
        s, theta = self.skeleton, self.weights.tolist()
        left, right, value = (a.tolist() for a in (s.left, s.right, s.value))
        variable = self.vtree.variable[s.vnode].tolist()
        for n, (start, k) in enumerate(zip(s.first.tolist(), s.size.tolist(), strict=True)):
            span = range(start, start + k)
            if variable[n] >= 0:
                children = [builder.indicator(columns[variable[n]], value[e]) for e in span]
            else:
                children = [builder.product(below[left[e]], below[right[e]]) for e in span]
            if k == 1:
                below.append(children[0])
            else:
                tie = "graft", key, n
                below.append(builder.sum(children, theta[start : start + k], tie=tie))
        return below[-1]

    def with_counts(self, counts: Floats, smoothing: float) -> LearnedCell:
        """The same circuit with parameters from other counts."""
        weights = posterior_mean(counts, self.skeleton.first, smoothing)
        return LearnedCell(self.vtree, self.skeleton, counts, weights)


def posterior_mean(counts: Floats, first: Int32s, smoothing: float) -> Floats:
    """Weights of consecutive edges, from their counts; ``first`` is the first edge of each node.

    A node without counts and without smoothing is uniform.
    """
    if not len(first):
        return np.zeros(0)
    sizes = np.diff(np.append(first, len(counts)))
    uniform = np.repeat(1.0 / sizes, sizes)
    raw = counts + smoothing * uniform
    totals = np.repeat(np.add.reduceat(raw, first), sizes)
    return np.where(totals > 0, raw / np.where(totals > 0, totals, 1.0), uniform)


def tree_counts(
    skeleton: Skeleton, tree: Tree, vtree: Vtree, arities: Ints, counts: Floats
) -> Floats:
    """Counts of the edges of a compiled tree from ``edge_counts``, which may leave out holes.

    Edge v of the j-th sum above variable x counts the rows with x = v whose parent
    has value j: each parameter uses all rows in which its two variables are observed.
    """
    start = offsets(arities)
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
        result[first : first + k] = counts[values, 0 if tree.parent[x] < 0 else j]
    return result
