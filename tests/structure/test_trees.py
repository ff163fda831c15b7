"""Chow–Liu trees against brute force, and their counts against loops."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Table
from fairpc.errors import LearningError
from fairpc.structure import _trees
from fairpc.structure._trees import (
    Tree,
    chow_liu,
    edge_counts,
    information,
    mutual_information,
    offsets,
    pair_counts,
    spanning_tree,
)
from structure import oracle_structure as oracle
from structure.tables import random_table, tables


def edges_of(tree: Tree) -> set[tuple[int, int]]:
    return {(min(v, p), max(v, p)) for v, p in enumerate(tree.parent.tolist()) if p >= 0}


def slow_information(table: Table) -> dict[tuple[int, int], float]:
    k = table.arities.tolist()
    weights = table.weights.tolist()
    return {
        (i, j): oracle.mutual_information(
            oracle.pair_table(table.codes, weights, i, j, k[i], k[j]), prior=4.0
        )
        for i in range(table.n_variables)
        for j in range(i + 1, table.n_variables)
    }


@given(tables(max_columns=6, max_arity=4, missing=True))
def test_pair_counts_are_those_of_a_loop(table: Table) -> None:
    counts = pair_counts(table.codes.T, table.weights, table.arities)
    start, k = offsets(table.arities), table.arities.tolist()
    for i in range(table.n_variables):
        for j in range(table.n_variables):
            slow = oracle.pair_table(table.codes, table.weights.tolist(), i, j, k[i], k[j])
            block = counts[start[i] : start[i + 1], start[j] : start[j + 1]]
            assert block == pytest.approx(np.array(slow), abs=1e-9)


@given(tables(max_columns=6, max_arity=4, missing=True))
def test_mutual_information_is_its_definition(table: Table) -> None:
    counts = pair_counts(table.codes.T, table.weights, table.arities)
    fast = mutual_information(counts, table.arities)
    for (i, j), value in slow_information(table).items():
        assert fast[i, j] == pytest.approx(value, abs=1e-10)
        assert fast[j, i] == fast[i, j]


@given(st.lists(tables(max_columns=6, max_arity=4, missing=True), min_size=1, max_size=3))
def test_columns_counted_at_a_time_give_the_same_bits(some: list[Table]) -> None:
    arities = some[0].arities
    rows = [(t.codes.T, t.weights) for t in some if t.arities.tolist() == arities.tolist()]
    counts = [pair_counts(*own, arities) for own in rows]
    whole = mutual_information(np.sum(counts, axis=0), arities)
    for most in (2, 5, 8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_trees, "MAX_VALUES", most)
            np.testing.assert_array_equal(information(rows, arities), whole)


@given(tables(max_columns=6, max_arity=4, missing=True))
def test_counts_at_edges_are_those_of_all_pairs(table: Table) -> None:
    tree, start = chow_liu(table), offsets(table.arities)
    pairs = pair_counts(table.codes.T, table.weights, table.arities)
    found = edge_counts(tree, (table.codes.T, table.weights), table.arities)
    # Sums of weights that are not whole depend on their order in the last bits.
    rounding = 1e-14 * float(table.weights.sum())
    for x, parent in enumerate(tree.parent.tolist()):
        own = slice(start[x], start[x + 1])
        if parent < 0:
            np.testing.assert_allclose(found[own, 0], np.diag(pairs)[own], atol=rounding)
        else:
            above = slice(start[parent], start[parent + 1])
            counted = found[own, : table.arities[parent]]
            np.testing.assert_allclose(counted, pairs[own, above], atol=rounding)


def test_a_wide_table_takes_memory_for_some_columns_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = random_table(np.random.default_rng(0), 40, [8] * 300)
    monkeypatch.setattr(_trees, "MAX_VALUES", 256)
    chow_liu(table)  # what is imported and compiled late is no memory of the table
    tracemalloc.start()
    try:
        chow_liu(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (8 * 300) ** 2  # bytes: an eighth of the counts of all pairs


@given(tables(max_columns=6, missing=True))
def test_the_tree_is_the_best_of_all_trees(table: Table) -> None:
    weight = slow_information(table)
    best = max(sum(weight[e] for e in tree) for tree in oracle.spanning_trees(table.n_variables))
    found = edges_of(chow_liu(table))
    assert len(found) == table.n_variables - 1
    assert sum(weight[e] for e in found) == pytest.approx(best, abs=1e-10)


@given(tables(max_columns=6))
def test_the_root_has_the_least_eccentricity(table: Table) -> None:
    tree = chow_liu(table)
    edges = sorted(edges_of(tree))
    far = [oracle.eccentricity(edges, table.n_variables, v) for v in range(table.n_variables)]
    assert tree.roots == [int(np.argmin(far))]


def test_ties_go_to_the_first_pair() -> None:
    # All pairs weigh the same: (0,1), (0,2), (0,3) are the first three without a cycle.
    assert spanning_tree(np.ones((4, 4))).tolist() == [[0, 1], [0, 2], [0, 3]]
    # Zero is a weight like any other, and negative ones too.
    assert spanning_tree(np.zeros((3, 3))).tolist() == [[0, 1], [0, 2]]
    weights = np.array([[0.0, -1.0, -1.0], [-1.0, 0.0, 0.5], [-1.0, 0.5, 0.0]])
    assert spanning_tree(weights).tolist() == [[0, 1], [1, 2]]


def test_a_given_root() -> None:
    table = random_table(np.random.default_rng(0), 50, [2, 3, 2, 2])
    tree = chow_liu(table, root=3)
    assert tree.roots == [3]
    assert edges_of(tree) == edges_of(chow_liu(table))
    with pytest.raises(LearningError, match="root is 4: columns are 0 to 3"):
        chow_liu(table, root=4)


def test_weights_are_rows() -> None:
    rng = np.random.default_rng(1)
    table = random_table(rng, 30, [2, 3, 2, 4])
    repeated = np.repeat(table.codes, table.weights.astype(int), axis=0)
    other = chow_liu(Table.of(repeated, arities=table.arities))
    assert other.parent.tolist() == chow_liu(table).parent.tolist()


@given(st.integers(0, 1000))
def test_trees_are_checked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parent = [-1] + [int(rng.integers(0, i)) for i in range(1, 6)]
    tree = Tree.of(parent)
    position = {v: i for i, v in enumerate(tree.order.tolist())}
    assert all(p < 0 or position[p] < position[v] for v, p in enumerate(parent))


def test_bad_trees_are_named() -> None:
    with pytest.raises(LearningError, match=r"variables \[1, 2\] lie on a cycle"):
        Tree.of([-1, 2, 1])
    with pytest.raises(LearningError, match="are not a tree"):
        Tree.of([-1, 5])
