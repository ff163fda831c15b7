"""Learners: of one table and of cells, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Table
from fairpc.errors import CodesError, LearningError
from fairpc.structure import Gain, Strudel, chow_liu, learn, learn_cells
from fairpc.structure._learn import hold_out
from fairpc.structure._trees import completed
from structure import oracle_structure as oracle
from structure.tables import random_table, tables

METHODS = ("strudel", "gain", "chow-liu")


@pytest.fixture(scope="module")
def table() -> Table:
    return random_table(np.random.default_rng(0), 300, [2, 3, 2, 4])


@pytest.mark.parametrize("method", METHODS)
def test_learn_gives_a_circuit_with_its_properties(table: Table, method: str) -> None:
    circuit = learn(table, method=method, random_state=0)  # type: ignore[arg-type]
    assert circuit.names == table.names
    oracle.check_structure(circuit.graph)
    properties = circuit.properties()
    assert properties.smooth
    assert properties.decomposable
    assert properties.deterministic
    total = sum(
        oracle.probability(circuit, row) for row in np.ndindex(*(int(k) for k in table.arities))
    )
    assert total == pytest.approx(1.0)


def test_splits_beat_the_tree_on_data_that_are_no_tree() -> None:
    # X3 = X0 xor X1: no tree sees it.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (4000, 3))
    rows = np.column_stack([x, x[:, 0] ^ x[:, 1] ^ (rng.random(4000) < 0.05)])
    train, test = Table.of(rows[:2000]), rows[2000:]
    score = {m: learn(train, method=m, random_state=0).log_likelihood(test).mean() for m in METHODS}  # type: ignore[arg-type]
    assert score["strudel"] > score["chow-liu"] + 0.3


@pytest.mark.parametrize("method", METHODS)
def test_missing_values_are_allowed(method: str) -> None:
    rng = np.random.default_rng(1)
    whole = random_table(rng, 800, [2, 3, 2, 3])
    holes = np.where(rng.random(whole.codes.shape) < 0.2, -1, whole.codes)
    circuit = learn(
        Table.of(holes, whole.weights, arities=whole.arities),
        method=method,  # type: ignore[arg-type]
        random_state=0,
    )
    oracle.check_structure(circuit.graph)
    full = learn(whole, method="chow-liu")
    gap = full.log_likelihood(whole.codes) - circuit.log_likelihood(whole.codes)
    assert np.average(gap, weights=whole.weights) < 0.1


def test_completions_follow_the_posterior_of_the_tree() -> None:
    # X0 -> X1 -> X2, X1 missing: P(X1 | x0, x2) by Bayes, against 20,000 draws.
    rng = np.random.default_rng(2)
    x0 = rng.integers(0, 2, 5000)
    x1 = np.where(rng.random(5000) < 0.8, x0, rng.integers(0, 3, 5000))
    x2 = np.where(rng.random(5000) < 0.7, x1 % 2, rng.integers(0, 2, 5000))
    table = Table.of(np.stack([x0, x1, x2], axis=1))
    tree = chow_liu(table, root=0)
    assert tree.parent.tolist() == [-1, 0, 1]
    rows = table.codes.T, table.weights
    holes = np.tile(np.array([[1], [-1], [0]], np.int16), 20_000)
    drawn = completed(holes, tree, rows, table.arities, np.random.default_rng(0))
    assert (drawn[[0, 2]] == holes[[0, 2]]).all()
    circuit = learn(table, method="chow-liu", tree=tree)
    joint = np.array([oracle.probability(circuit, [1, v, 0]) for v in range(3)])
    share = np.bincount(drawn[1], minlength=3) / 20_000
    assert share == pytest.approx(joint / joint.sum(), abs=0.015)


@given(tables(), st.floats(0.1, 0.9), st.integers(0, 100))
def test_held_out_rows_are_rows(table: Table, fraction: float, seed: int) -> None:
    try:
        train, held_out = hold_out(table, fraction, np.random.default_rng(seed))
    except LearningError:
        return  # few rows, and none or all of them drawn
    assert train.total_weight + held_out.total_weight == pytest.approx(table.total_weight)
    seen = {tuple(row) for row in table.codes.tolist()}
    assert {tuple(row) for row in held_out.codes.tolist()} <= seen


def test_validation_rows_never_enter_the_parameters(table: Table) -> None:
    other = random_table(np.random.default_rng(3), 50, [2, 3, 2, 4])
    circuit = learn(table, validation=other, method=Strudel())
    again = oracle.maximum_likelihood(circuit, table.codes, table.weights.tolist(), alpha=1.0)
    assert circuit.parameters == pytest.approx(again.parameters, abs=1e-12)


BAD = {
    "no rows": (np.zeros((0, 2), int), None, "the table has no rows"),
    "one column": (np.array([[0], [1]]), None, "one column, 'X0'"),
    "a constant column": (np.array([[0, 1], [1, 1]]), None, r"column 'X1' has one value \(1\)"),
    "constant but for holes": (np.array([[0, 1], [1, -1]]), None, "column 'X1' has one value"),
    "constant where it counts": (np.array([[0, 1], [1, 1], [0, 0]]), [1, 1, 0], "column 'X1'"),
    "all missing": (np.array([[0, -1], [1, -1]]), None, "column 'X1' is missing in every row"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named(case: str) -> None:
    codes, weights, message = BAD[case]
    bad = Table.of(codes, weights, arities=[2] * codes.shape[1])
    for function in (learn, chow_liu):
        with pytest.raises(LearningError, match=message):
            function(bad)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "the weight of row 1 is -1.0"),
        ([0.0, 0.0], "all weights are zero"),
        ([1.0, np.nan], "the weight of row 1 is nan"),
    ],
)
def test_bad_weights_are_named(weights: list[float], message: str) -> None:
    with pytest.raises(CodesError, match=message):
        learn(Table.of([[0, 1], [1, 0]], weights))


def test_arities_above_what_codes_hold_are_named() -> None:
    with pytest.raises(CodesError, match="column 'X1' has arity 40000"):
        learn(Table.of([[0, 1], [1, 0]], arities=[2, 40_000]))


def test_a_fraction_out_of_range_is_named(table: Table) -> None:
    with pytest.raises(LearningError, match="validation_fraction is 1.5"):
        learn(table, validation_fraction=1.5)


def test_cells_must_agree(table: Table) -> None:
    other = random_table(np.random.default_rng(0), 20, [2, 2, 2, 4])
    with pytest.raises(LearningError, match="give the same to all"):
        learn_cells([table, other])
    with pytest.raises(LearningError, match="there are no cells"):
        learn_cells([])
    with pytest.raises(LearningError, match="validation has 2 parts for 1 cells"):
        learn_cells([table], validation=[table, table])
    empty = Table.of(np.zeros((0, 2), int), arities=[2, 2])
    with pytest.raises(LearningError, match="no cell has rows"):
        learn_cells([empty])


def test_a_cell_may_miss_a_column_altogether() -> None:
    rows = np.array([[0, -1, 1], [1, -1, 0], [0, -1, 0], [1, -1, 1]])
    for method in METHODS:
        learned = learn_cells([Table.of(rows, arities=[2, 3, 2])], method=method)
        oracle.check_structure(learned.circuit(0).graph)


def test_cells_may_be_constant_or_single() -> None:
    constant = Table.of([[0, 1, 0], [1, 1, 1], [0, 1, 1]], arities=[2, 2, 2])
    learned = learn_cells([constant], method=Gain(min_flow=0.0))
    oracle.check_structure(learned.circuit(0).graph)
    single = learn_cells([Table.of([[0], [1], [1]])], method="strudel").circuit(0)
    assert oracle.probability(single, [1]) == pytest.approx(2.5 / 4)
    trivial = learn_cells([Table.of([[0, 0], [0, 1]], arities=[1, 2])], method="strudel")
    assert oracle.probability(trivial.circuit(0), [0, 1]) == pytest.approx(0.5)
