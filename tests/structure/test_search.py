"""Searches: which split comes next, when they stop, and what they give back."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.circuit import CircuitBuilder
from fairpc.data import Table
from fairpc.errors import LearningError
from fairpc.structure import (
    CellSearch,
    Gain,
    Step,
    Stop,
    Strudel,
    _kernels,
    chow_liu,
    learn_cells,
)
from fairpc.structure._split import SplitState
from structure import oracle_structure as oracle
from structure.tables import circuit_of, random_table, state_of, tables


def parts(seed: int, n: int = 400, arities: tuple[int, ...] = (2, 3, 2, 2)) -> tuple[Table, Table]:
    rng = np.random.default_rng(seed)
    table = random_table(rng, n, list(arities))
    half = n // 2
    return tuple(
        Table.of(table.codes[s], arities=table.arities) for s in (slice(half), slice(half, n))
    )  # type: ignore[return-value]


@given(tables(max_arity=2, max_columns=5), st.integers(0, 3))
def test_strudel_takes_most_flow_and_most_dependence(table: Table, warm: int) -> None:
    state = state_of([table])
    search = Strudel(stop=Stop(max_splits=warm + 1)).search(state)
    for _ in range(warm + 1):
        next(search, None)
    flows = {e: state.flow(e) for e in state.candidates(0, 0.0).tolist()}
    chosen = {e: state.rows(e).copy() for e in flows}
    free = {e: np.flatnonzero(state.free_values(e) > 1) for e in flows}
    step = next(search, None)
    if step is None:
        assert not flows or warm >= 1
        return
    assert step.flow == max(flows.values())
    scores = []
    for e, f in flows.items():
        if f == step.flow:
            rows, columns = state.codes[:, chosen[e]].T, free[e].tolist()
            weights = state.row_weights[chosen[e], 0].tolist()
            score = [
                sum(
                    oracle.mutual_information(oracle.pair_table(rows, weights, i, j, 2, 2), 4.0)
                    for j in columns
                    if j != i
                )
                for i in columns
            ]
            scores.append((max(score), dict(zip(columns, score, strict=True))))
    assert any(
        step.variable in by and by[step.variable] == pytest.approx(best, abs=1e-12)
        for best, by in scores
    )


@pytest.mark.parametrize("price", [2.0, 0.5, "aic", "bic"])
def test_gain_makes_only_splits_that_pay(price: float) -> None:
    # So many rows that every edge has some: then new parameters can be counted from outside.
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 6000))
    flip = (rng.random((3, 6000)) < 0.2).astype(int)
    c = (a | b) ^ flip[0]
    d = (a & c) ^ flip[1]
    table = Table.of(np.column_stack([a, b, c, d, (b & d) ^ flip[2]]))
    method = Gain(price)
    nats = method.nats(table.total_weight)
    state = state_of([table])
    search = method.search(state)
    before, size = next(search), free_parameters(state, table)
    made = 0
    for step in search:
        gained = (step.log_likelihood - before.log_likelihood) * table.total_weight
        now = free_parameters(state, table)
        assert gained > nats * (now - size) - 1e-9
        before, size, made = step, now, made + 1
    assert made > 0
    cell = state.learned(0)
    assert (cell.counts[np.repeat(cell.skeleton.size > 1, cell.skeleton.size)] > 0).all()


def free_parameters(state: SplitState, table: Table) -> int:
    graph = circuit_of(state.learned(0), table.arities).graph
    return graph.n_parameters - (len(graph.block_ptr) - 1)


def test_prices() -> None:
    assert Gain().nats(100.0) == 2.0
    assert Gain("aic").nats(100.0) == 1.0
    assert Gain("bic").nats(np.exp(8.0)) == pytest.approx(4.0)


def test_the_best_iterate_is_given_back() -> None:
    train, held_out = parts(0)
    search = CellSearch([train], validation=[held_out], method="strudel")
    steps = list(search)
    best = max(steps, key=lambda s: s.validation_log_likelihood)
    assert 0 < best.split < len(steps) - 1
    learned = search.best()
    assert learned.best_split == best.split
    assert learned.history == tuple(steps)
    circuit = learned.circuit(0)
    assert circuit.graph.n_parameters == best.n_parameters == learned.n_parameters
    mean = oracle.log_likelihood(circuit, held_out.codes, held_out.weights.tolist())
    assert mean / held_out.total_weight == pytest.approx(best.validation_log_likelihood, rel=1e-9)
    oracle.check_structure(circuit.graph)


def test_patience_ends_the_search() -> None:
    train, held_out = parts(1)
    method = Strudel(stop=Stop(patience=5, tolerance=0.0))
    learned = learn_cells([train], validation=[held_out], method=method)
    assert learned.history[-1].split - learned.best_split == 5


def test_a_flat_validation_likelihood_ends_the_search() -> None:
    train, held_out = parts(2)
    method = Strudel(stop=Stop(patience=1000, tolerance=10.0, window=7))
    learned = learn_cells([train], validation=[held_out], method=method)
    assert learned.history[-1].split == 7


@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_number_of_splits_is_bounded(n: int) -> None:
    train, _ = parts(3)
    learned = learn_cells([train], method=Strudel(stop=Stop(max_splits=n)))
    assert [s.split for s in learned.history] == list(range(n + 1))
    assert learned.best_split == n


def test_edges_below_the_least_flow_are_left_alone() -> None:
    train, _ = parts(4)
    for method in (Strudel(min_flow=60.0), Gain(0.0, 60.0)):
        learned = learn_cells([train], method=method)
        assert len(learned.history) > 1
        assert all(s.flow >= 60.0 for s in learned.history[1:])


@pytest.mark.parametrize(
    "method",
    [
        Strudel(stop=Stop(max_splits=20)),
        Gain(),
    ],
)
def test_the_same_seed_gives_the_same_structure(method: Strudel | Gain) -> None:
    train, held_out = parts(5)
    first, second = (
        learn_cells([train, held_out], method=method, random_state=7).circuit(0) for _ in range(2)
    )
    assert first.graph.same_as(second.graph)
    assert np.array_equal(first.parameters, second.parameters)


def test_an_interrupt_gives_back_the_best_so_far() -> None:
    train, held_out = parts(7)

    def stop(step: Step) -> None:
        if step.split == 9:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted after 9 splits: the best so far, with"):
        learned = learn_cells([train], validation=[held_out], callback=stop)
    assert len(learned.history) == 10
    best = max(learned.history, key=lambda s: s.validation_log_likelihood)
    assert learned.best_split == best.split
    assert learned.circuit(0).graph.n_parameters == best.n_parameters


def test_an_interrupt_in_the_middle_of_a_split_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, held_out = parts(7)
    made = 0
    copy = _kernels.copy_nodes

    def interrupted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        result = copy(*arguments)
        if made == 5:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(_kernels, "copy_nodes", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.warns(RuntimeWarning, match="interrupted after 5 splits"):
        learned = learn_cells([train], validation=[held_out])
    assert signal.getsignal(signal.SIGINT) is handler
    circuit = learned.circuit(0)
    oracle.check_structure(circuit.graph)
    best = learned.history[learned.best_split]
    mean = oracle.log_likelihood(circuit, held_out.codes, held_out.weights.tolist())
    assert mean / held_out.total_weight == pytest.approx(best.validation_log_likelihood, rel=1e-9)


def test_searches_run_in_other_threads() -> None:
    train, _ = parts(7)
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(learn_cells, [train], method="gain").result()
    here = learn_cells([train], method="gain")
    assert there.circuit(0).graph.same_as(here.circuit(0).graph)


def test_stopping_before_any_step_gives_back_the_trees() -> None:
    train, _ = parts(8)
    learned = CellSearch([train]).best()
    assert [s.split for s in learned.history] == [0]
    assert learned.circuit(0).graph.n_parameters == learned.history[0].n_parameters


def test_an_impossible_held_out_row_is_minus_infinity_until_it_is_not() -> None:
    # Without smoothing the row (1, 1) has no probability under any split.
    train = Table.of([[0, 0], [0, 1], [1, 0]] * 5)
    held_out = Table.of([[1, 1], [0, 0]])
    state = state_of([train], [held_out])
    assert state.held_out_log_likelihood == -np.inf
    smooth = state_of([train], [held_out], smoothing=1.0)
    assert np.isfinite(smooth.held_out_log_likelihood)


def test_cells_without_rows_have_a_circuit() -> None:
    train, held_out = parts(9)
    empty = Table.of(np.zeros((0, 4), int), arities=train.arities)
    learned = learn_cells([train, empty], validation=[held_out, empty], trees="pooled")
    assert np.isfinite(learned.history[-1].validation_log_likelihood)
    oracle.check_structure(learned.circuit(1).graph)
    uniform = oracle.probability(learned.circuit(1), [0, 0, 0, 0])
    assert uniform == pytest.approx(1 / 24)


def test_soft_cells_share_rows_out() -> None:
    train, _ = parts(10)
    rng = np.random.default_rng(0)
    share = rng.random(train.n_rows)
    cells = [Table.of(train.codes, w, arities=train.arities) for w in (share, 1 - share)]
    learned = learn_cells(cells, method="gain", trees="cell")
    total = sum(
        oracle.log_likelihood(learned.circuit(i), c.codes, c.weights.tolist())
        for i, c in enumerate(cells)
    )
    assert learned.history[-1].log_likelihood * train.n_rows == pytest.approx(total, rel=1e-9)


def test_given_trees_are_used() -> None:
    train, held_out = parts(12)
    trees = [chow_liu(train, root=2), chow_liu(held_out, root=1)]
    learned = learn_cells([train, held_out], method="chow-liu", trees=trees)
    alone = learn_cells([held_out], method="chow-liu", trees=trees[1])
    assert learned.circuit(1).graph.same_as(alone.circuit(0).graph)


def test_bad_options_are_named() -> None:
    train, held_out = parts(13)
    with pytest.raises(LearningError, match="min_flow is -1: give a number of at least 0"):
        Strudel(min_flow=-1)
    with pytest.raises(LearningError, match="price is 'mdl': use one of aic, bic"):
        Gain("mdl")  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="price is -1: give a number of at least 0"):
        Gain(-1)
    with pytest.raises(LearningError, match="patience is 0"):
        Stop(patience=0)
    with pytest.raises(LearningError, match="max_splits is nan"):
        Stop(max_splits=float("nan"))  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="smoothing is -2.0"):
        learn_cells([train], smoothing=-2.0)
    with pytest.raises(LearningError, match="method is 'em': use one of strudel, gain, chow-liu"):
        learn_cells([train], method="em")
    with pytest.raises(LearningError, match="trees is 'own': use one of pooled, cell"):
        learn_cells([train], trees="own")
    with pytest.raises(LearningError, match="there are 0 trees for 2 cells"):
        learn_cells([train, held_out], trees=[])


def test_cells_are_grafted_below_a_larger_top() -> None:
    # P(S) P(X | S) with one cell per value of S, its parameters to be learned again or kept.
    train, held_out = parts(14)
    learned = learn_cells([train, held_out], method="gain")
    names = {"S": 2} | dict(zip(learned.names, learned.arities.tolist(), strict=True))
    columns = range(1, len(names))
    builder = CircuitBuilder(names)
    cells = [
        builder.product(builder.indicator("S", s), learned.graft(builder, s, columns))
        for s in range(2)
    ]
    model = builder.build(builder.sum(cells, [0.3, 0.7]))
    oracle.check_structure(model.graph)
    assert model.graph.n_parameters == learned.n_parameters + 2
    row = train.codes[0].tolist()
    expected = 0.7 * oracle.probability(learned.circuit(1), row)
    assert oracle.probability(model, [1, *row]) == pytest.approx(expected)
    rows = np.concatenate([train.codes, held_out.codes])
    s = np.repeat([0, 1], [train.n_rows, held_out.n_rows])
    again = oracle.maximum_likelihood(
        model, np.column_stack([s, rows]), [1.0] * len(rows), alpha=1.0
    )
    for i, cell in enumerate((train, held_out)):
        for x in cell.codes[:3].tolist():
            share = (cell.n_rows + 0.5) / (len(rows) + 1)
            expected = share * oracle.probability(learned.circuit(i), x)
            assert oracle.probability(again, [i, *x]) == pytest.approx(expected)
