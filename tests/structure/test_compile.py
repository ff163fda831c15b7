"""Vtrees and compiled trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Table
from fairpc.errors import LearningError
from fairpc.structure import learn
from fairpc.structure._compile import (
    compile_tree,
    parents_and_depths,
    tree_counts,
    vtree_of_tree,
)
from fairpc.structure._trees import Tree, chow_liu, edge_counts, offsets
from structure import oracle_structure as oracle
from structure.tables import circuit_of, state_of, tables


def nested(tree: Tree) -> object:
    """A vtree as nested pairs."""
    v = vtree_of_tree(tree)
    made: list[object] = []
    for a, b, x in zip(v.left.tolist(), v.right.tolist(), v.variable.tolist(), strict=True):
        made.append(x if x >= 0 else (made[a], made[b]))
    return made[-1]


def test_vtrees_by_hand() -> None:
    # 0 is the root with children 1, 2, 3; 4 hangs from 2.
    tree = Tree.of([-1, 0, 0, 0, 2])
    assert nested(tree) == (0, (1, ((2, 4), 3)))
    star = Tree.of([-1, 0, 0, 0, 0])
    assert nested(star) == (0, ((1, 2), (3, 4)))
    forest = Tree.of([-1, 0, -1])
    assert nested(forest) == ((0, 1), 2)


def test_a_long_chain_needs_no_recursion() -> None:
    n = 3000
    v = vtree_of_tree(Tree.of([i - 1 for i in range(n)]))
    parent, depth = parents_and_depths(v)
    assert len(v.left) == 2 * n - 1
    assert depth.max() == n - 1
    assert (parent[:-1] > np.arange(2 * n - 2)).all()


@given(tables(max_columns=5), st.booleans())
def test_the_circuit_of_a_tree_is_its_distribution(table: Table, cut: bool) -> None:
    tree = chow_liu(table)
    if cut:  # several roots
        tree = Tree.of(np.where(np.arange(table.n_variables) == tree.order[-1], -1, tree.parent))
    circuit = learn(table, method="chow-liu", tree=tree, smoothing=0.0)
    oracle.check_structure(circuit.graph)
    k, weights = table.arities.tolist(), table.weights.tolist()
    total = sum(weights)
    for row in itertools.product(*map(range, k)):
        p = 1.0
        for x, y in enumerate(tree.parent.tolist()):
            if y < 0:
                own = oracle.pair_table(table.codes, weights, x, x, k[x], k[x])
                p *= own[row[x]][row[x]] / total
            else:
                pair = oracle.pair_table(table.codes, weights, y, x, k[y], k[x])[row[y]]
                p *= pair[row[x]] / sum(pair) if sum(pair) else 1 / k[x]
        assert oracle.probability(circuit, row) == pytest.approx(p, abs=1e-12)


@given(tables(max_columns=5))
def test_counts_from_pairs_are_counts_from_rows(table: Table) -> None:
    tree = chow_liu(table)
    vtree = vtree_of_tree(tree)
    skeleton = compile_tree(tree, vtree, table.arities)
    pairs = edge_counts(tree, (table.codes.T, table.weights), table.arities)
    counts = tree_counts(skeleton, tree, vtree, table.arities, pairs)
    cell = state_of([table]).learned(0)
    free = np.repeat(cell.skeleton.size > 1, cell.skeleton.size)
    assert counts[free] == pytest.approx(cell.counts[free], abs=1e-9)


@given(tables(max_columns=4, missing=True))
def test_missing_values_leave_out_pairs_only(table: Table) -> None:
    circuit = learn(table, method="chow-liu", smoothing=1.0)
    tree = chow_liu(table)
    root = tree.roots[0]
    k, weights = table.arities.tolist(), table.weights.tolist()
    own = oracle.pair_table(table.codes, weights, root, root, k[root], k[root])
    seen = [own[v][v] for v in range(k[root])]
    for v in range(k[root]):
        row = [-1] * table.n_variables
        row[root] = v
        expected = (seen[v] + 1 / k[root]) / (sum(seen) + 1)
        assert oracle.probability(circuit, row) == pytest.approx(expected)


def test_vtree_and_tree_must_belong_together() -> None:
    chain, star = Tree.of([-1, 0, 1]), Tree.of([1, -1, 1])
    with pytest.raises(LearningError, match="make the vtree from this tree"):
        compile_tree(star, vtree_of_tree(chain), [2, 2, 2])
    with pytest.raises(
        LearningError, match="the tree has 3 variables, the vtree 3, and there are 2"
    ):
        compile_tree(star, vtree_of_tree(star), [2, 2])


def test_offsets() -> None:
    assert offsets(np.array([2, 3, 2])).tolist() == [0, 2, 5, 7]


def test_posterior_of_a_skeleton_without_rows_is_uniform() -> None:
    table = Table.of([[0, 0], [1, 1]], [1.0, 1.0])
    cell = state_of([table]).learned(0)
    again = circuit_of(cell, table.arities)
    assert oracle.probability(again, [0, 0]) == pytest.approx(0.5)
