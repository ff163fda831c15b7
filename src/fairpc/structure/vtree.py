"""Vtrees for learning: how the products of a circuit divide their scope, made from a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from fairpc.circuit.vtree import Vtree
from fairpc.errors.arrays import Ints, check_choice
from fairpc.structure.tree import Tree

Shape = Literal["balanced", "right-linear"]
SHAPES: Final = ("balanced", "right-linear")


def vtree_of_tree(tree: Tree, shape: Shape = "balanced") -> Vtree:
    """A vtree along a tree: a variable with children stands left of all that is below it.

    Siblings (and the roots of a forest) are joined pairwise in halves ("balanced",
    as in the reference), or one after the other ("right-linear"). Nodes are
    numbered children first, left before right.
    """
    check_choice("shape", shape, SHAPES)
    left: list[int] = []
    right: list[int] = []
    variable: list[int] = []

    def add(a: int, b: int, x: int) -> int:
        left.append(a)
        right.append(b)
        variable.append(x)
        return len(variable) - 1

    join = _balanced if shape == "balanced" else _linear
    children = tree.children()
    top: dict[int, int] = {}
    for v in tree.order[::-1].tolist():
        leaf = add(-1, -1, v)
        below = [top[c] for c in children[v]]
        top[v] = add(leaf, join(below, add), -1) if below else leaf
    join([top[r] for r in tree.roots], add)
    columns = _post_order(left, right, variable)
    return Vtree(np.arange(len(variable)), *(np.array(c, np.int64) for c in columns))


def parents_and_depths(vtree: Vtree) -> tuple[Ints, Ints]:
    """Parent of each node, -1 at the root; and distance from the root."""
    parent = np.full(len(vtree.ids), -1, np.int64)
    inner = np.flatnonzero(vtree.left >= 0)
    parent[vtree.left[inner]] = inner
    parent[vtree.right[inner]] = inner
    depth = np.zeros(len(parent), np.int64)
    for v in range(len(parent) - 2, -1, -1):
        depth[v] = depth[parent[v]] + 1
    return parent, depth


def _balanced(nodes: list[int], add: Callable[[int, int, int], int]) -> int:
    if len(nodes) == 1:
        return nodes[0]
    half = len(nodes) // 2
    return add(_balanced(nodes[:half], add), _balanced(nodes[half:], add), -1)


def _linear(nodes: list[int], add: Callable[[int, int, int], int]) -> int:
    top = nodes[-1]
    for node in nodes[-2::-1]:
        top = add(node, top, -1)
    return top


def _post_order(
    left: list[int], right: list[int], variable: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Renumber from the root (the last node): left subtree, right subtree, node."""
    order: list[int] = []
    stack = [len(variable) - 1]
    while stack:
        v = stack.pop()
        order.append(v)
        if left[v] >= 0:
            stack += [left[v], right[v]]
    order.reverse()
    number = {v: i for i, v in enumerate(order)} | {-1: -1}
    return (
        [number[left[v]] for v in order],
        [number[right[v]] for v in order],
        [variable[v] for v in order],
    )
