"""Splits: what they keep, what they gain, and that nothing drifts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Table
from fairpc.structure import Stop, Strudel
from fairpc.structure._search import Search
from fairpc.structure._split import SplitState
from structure import oracle_structure as oracle
from structure.tables import circuit_of, random_search, random_table, state_of, tables


def start(search: Search) -> Search:
    next(search)
    return search


@given(tables(max_columns=4), st.integers(0, 100))
def test_splits_keep_the_structure(table: Table, seed: int) -> None:
    state = state_of([table])
    for _ in start(random_search(state, seed, 8)):
        circuit = circuit_of(state.learned(0), table.arities)
        oracle.check_structure(circuit.graph)
        assert circuit.graph.n_parameters == state.n_parameters


@given(tables(max_columns=4), st.integers(0, 100))
def test_splits_never_lower_the_likelihood(table: Table, seed: int) -> None:
    state = state_of([table])
    before = state.log_likelihood
    for _ in start(random_search(state, seed)):
        assert state.log_likelihood >= before - 1e-9
        before = state.log_likelihood


@given(tables(max_columns=5), st.sampled_from([0.0, 1.0, 3.5]), st.integers(0, 100))
def test_the_running_likelihood_is_a_full_evaluation(table: Table, alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    held_out = random_table(rng, 10, table.arities.tolist())
    state = state_of([table], [held_out], smoothing=alpha)
    for _ in start(random_search(state, seed, 8)):
        circuit = circuit_of(state.learned(0), table.arities)
        again = oracle.maximum_likelihood(circuit, table.codes, table.weights.tolist(), alpha)
        assert circuit.parameters == pytest.approx(again.parameters, abs=1e-12)
        for rows, value in (
            (table, state.log_likelihood),
            (held_out, state.held_out_log_likelihood),
        ):
            full = oracle.log_likelihood(again, rows.codes, rows.weights.tolist())
            assert value == pytest.approx(full, rel=1e-9, abs=1e-9)


@given(tables(max_columns=5, max_arity=4), st.integers(0, 100))
def test_a_gain_is_the_difference_of_two_evaluations(table: Table, seed: int) -> None:
    state = state_of([table])
    rng = np.random.default_rng(seed)
    for _ in range(6):
        edges = [e for e in state.candidates(0, 0.0).tolist() if len(state.rows(e))]
        if not edges:
            return
        edge = int(rng.choice(edges))
        rows = state.rows(edge)
        free = np.flatnonzero(state.free_values(edge) > 1)
        x = int(rng.choice(free))
        _, sides, gain, _ = state.best_split(edge, rows, np.array([x], np.int32), 0.0)
        before = circuit_of(state.learned(0), table.arities)
        state.split(edge, rows, x, sides)
        after = circuit_of(state.learned(0), table.arities)
        weights = table.weights.tolist()
        full = [
            oracle.log_likelihood(
                oracle.maximum_likelihood(c, table.codes, weights), table.codes, weights
            )
            for c in (before, after)
        ]
        assert gain == pytest.approx(full[1] - full[0], abs=1e-9 * max(1.0, abs(full[0])))


@given(tables(max_columns=4, max_rows=400), st.integers(0, 100))
def test_new_parameters_are_counted_as_rows_reach_them(table: Table, seed: int) -> None:
    # Where every node has rows, the count is exact: free parameters after less those before.
    state = state_of([table])
    rng = np.random.default_rng(seed)
    edge = int(rng.choice(state.candidates(0, 0.0)))
    rows = state.rows(edge)
    x = int(rng.choice(np.flatnonzero(state.free_values(edge) > 1)))
    before = free_parameters(state, table)
    _, sides, _, new = state.best_split(edge, rows, np.array([x], np.int32), 0.0)
    state.split(edge, rows, x, sides)
    cell = state.learned(0)
    if (cell.counts[np.repeat(cell.skeleton.size > 1, cell.skeleton.size)] > 0).all():
        assert free_parameters(state, table) - before == new


def free_parameters(state: SplitState, table: Table) -> int:
    graph = circuit_of(state.learned(0), table.arities).graph
    return graph.n_parameters - (len(graph.block_ptr) - 1)


@given(tables(max_columns=4, max_arity=4), st.integers(0, 50))
def test_one_against_the_rest_is_the_least_that_is_tried(table: Table, seed: int) -> None:
    state = state_of([table])
    rng = np.random.default_rng(seed)
    edge = int(rng.choice(state.candidates(0, 0.0)))
    rows = state.rows(edge)
    free = state.free_values(edge)
    x = int(rng.choice(np.flatnonzero(free > 1)))
    _, _, gain, _ = state.best_split(edge, rows, np.array([x], np.int32), 0.0)
    for v in range(int(table.arities[x])):
        other = state_of([table])
        sides = np.ones(int(table.arities[x]), np.uint8)
        sides[v] = 0
        base = other.log_likelihood
        other.split(edge, other.rows(edge), x, sides)
        assert gain >= other.log_likelihood - base - 1e-9


@given(tables(max_columns=5), st.integers(0, 100))
def test_cells_do_not_touch_each_other(table: Table, seed: int) -> None:
    rng = np.random.default_rng(seed)
    other = random_table(rng, 25, table.arities.tolist())
    both = state_of([table, other], smoothing=1.0)
    for step in start(Strudel(stop=Stop(max_splits=6)).search(both)):
        full = 0.0
        for i, rows in enumerate((table, other)):
            circuit = circuit_of(both.learned(i), table.arities)
            oracle.check_structure(circuit.graph)
            full += oracle.log_likelihood(circuit, rows.codes, rows.weights.tolist())
        assert both.log_likelihood == pytest.approx(full, rel=1e-9)
        assert step.cell in (0, 1)


@given(tables(max_columns=5), st.integers(0, 100))
def test_undo_gives_back_what_was_kept(table: Table, seed: int) -> None:
    state = state_of([table], smoothing=1.0)
    search = start(random_search(state, seed))
    for _ in zip(range(3), search, strict=False):
        pass
    state.keep()
    kept = state.learned(0)
    before = circuit_of(kept, table.arities)
    edges = state.candidates(0, 0.0).tolist()
    for edge in edges[:4]:
        rows = state.rows(edge)
        if state.flow(edge) > 0 and len(rows):
            x = int(np.flatnonzero(state.free_values(edge) > 1)[0])
            state.split(edge, rows, x, state.halves(edge, x))
    state.undo()
    after = circuit_of(state.learned(0), table.arities)
    assert after.graph.same_as(before.graph)
    assert np.array_equal(after.parameters, before.parameters)
    assert np.array_equal(kept.counts, state.learned(0).counts)
