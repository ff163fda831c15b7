"""Flows: Definitions 2–4 against Algorithm 1, and plans whose paths all agree."""

from __future__ import annotations

import dataclasses
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import oracle
from circuit.test_active import decisions, holes
from fairpc.circuit import (
    PRODUCT,
    SUM,
    Circuit,
    CircuitBuilder,
    PartPlan,
    plan_bytes,
    plan_once,
    prepare,
)
from fairpc.circuit._expected_flows import Path, circuit_flows, contexts, expected_flows, row_flows
from fairpc.data import Table
from fairpc.errors import CodesError, OptionError, PropertyError
from strategies import Case, cases, circuits, deterministic_circuits, examples, many


def table_of(case: Case) -> Table:
    return Table.of(case.codes, case.weights, arities=case.circuit.arities)


PATHS: tuple[Path, ...] = ("auto", "general", "active")


def edge(circuit: Circuit, parent: int, child: int) -> int:
    g = circuit.graph
    found = np.flatnonzero((g.edge_node == parent) & (g.child == child))
    assert len(found) == 1
    return int(found[0])


def test_figure_2_of_the_paper() -> None:
    """Red and green edges given {S=1, d, x} carry P(Df=1 | S=1, d, x) and P(Df=0 | S=1, d, x)."""
    # Four cells (s, f); below each a product of P(d | f, s) and P(x | f, s), x of two features.
    b = CircuitBuilder({"S": 2, "Df": 2, "D": 2, "X1": 2, "X2": 3})
    p_d = {(1, 1): 0.9, (1, 0): 0.2, (0, 1): 0.6, (0, 0): 0.1}
    p_x1 = {(1, 1): 0.7, (1, 0): 0.4, (0, 1): 0.5, (0, 0): 0.3}
    p_x2 = {(1, 1): [0.5, 0.3, 0.2], (1, 0): [0.1, 0.2, 0.7]}
    cell, inner, features = {}, {}, {}
    for (s, f), p in p_d.items():
        features[s, f] = b.product(
            b.categorical("X1", [1 - p_x1[s, f], p_x1[s, f]]),
            b.categorical("X2", p_x2.get((s, f), [0.25, 0.25, 0.5])),
        )
        inner[s, f] = b.product(b.categorical("D", [1 - p, p]), features[s, f])
        cell[s, f] = b.product(b.indicator("S", s), b.indicator("Df", f), inner[s, f])
    order = ((1, 1), (1, 0), (0, 1), (0, 0))
    root = b.sum([cell[key] for key in order], [0.12, 0.18, 0.28, 0.42])
    circuit = b.build(root)
    assert len(b) == circuit.graph.n_nodes  # so that nodes kept their numbers
    # {S=1, D=1, X1=0, X2=2}: .12·.9·.3·.2 = .00648 for Df=1, .18·.2·.6·.7 = .01512 for Df=0,
    # so that P(Df=1 | S=1, d, x) = .00648 / .0216 = .3
    row = np.array([[1, -1, 1, 0, 2]])
    oracle.agree(circuit.conditionals(row)[1], [[0.7, 0.3]])
    flows = row_flows(circuit, row)[0]
    colour = {(1, 1): 0.3, (1, 0): 0.7, (0, 1): 0.0, (0, 0): 0.0}
    for key, expected in colour.items():
        edges = [edge(circuit, root, cell[key])]
        for n in (cell[key], inner[key]):
            edges += [edge(circuit, n, c) for c in circuit.graph.children(n).tolist()]
        assert len(edges) == 6
        oracle.agree(flows[edges], np.full(6, expected))


@settings(max_examples=examples(500))
@given(cases(deterministic=True))
def test_expected_flows_are_the_mean_over_completions(case: Case) -> None:
    """Definition 4 against Algorithm 1; and Equation ef-edge, P(γ_n ∩ γ_c | e)."""
    truth = oracle.expected_flows(case.circuit, case.codes)
    oracle.agree(row_flows(case.circuit, case.codes), truth)
    oracle.agree(expected_flows(case.circuit, case.codes), truth.sum(axis=0))
    oracle.agree(expected_flows(case.circuit, case.codes, case.weights), case.weights @ truth)


@settings(max_examples=examples(500))
@given(cases(max_states=64, max_nodes=30))
def test_expected_flows_are_the_posterior_of_induced_trees(case: Case) -> None:
    assume(oracle.count_trees(case.circuit.graph) <= 5_000)
    truth = oracle.tree_flows(case.circuit, case.codes)
    oracle.agree(row_flows(case.circuit, case.codes), truth)
    oracle.agree(expected_flows(case.circuit, case.codes, case.weights), case.weights @ truth)


@settings(max_examples=examples(200))
@given(cases(deterministic=True))
def test_what_flows_into_a_node_is_the_probability_of_its_context(case: Case) -> None:
    """Equation ef-node: ∑_p EF(p, n) = P(γ_n | e)."""
    g = case.circuit.graph
    into = np.zeros((len(case.codes), g.n_nodes))
    np.add.at(into.T, g.child, row_flows(case.circuit, case.codes).T)
    into[:, g.root] = 1.0
    context = oracle.contexts(case.circuit).astype(float)
    truth = np.array([context @ oracle.posterior(case.circuit, row) for row in case.codes])
    oracle.agree(into, truth)


@settings(max_examples=examples(500))
@given(deterministic_circuits())
def test_contexts_and_circuit_flows_equal_their_definitions(circuit: Circuit) -> None:
    rows = oracle.all_rows(circuit.graph)
    some = slice(0, None, max(1, len(rows) // 50))
    assert np.array_equal(contexts(circuit, rows[some]), oracle.contexts(circuit).T[some])
    truth = oracle.circuit_flows(circuit)[:, some].astype(float)
    oracle.agree(circuit_flows(circuit, rows[some]), truth.sum(axis=1))
    weights = np.arange(truth.shape[1]) + 0.5
    oracle.agree(circuit_flows(circuit, rows[some], weights), truth @ weights)


@settings(max_examples=examples(500))
@given(cases(deterministic=True, complete=True))
def test_the_active_edges_of_a_complete_row_form_a_tree(case: Case) -> None:
    g = case.circuit.graph
    for flows in row_flows(case.circuit, case.codes):
        oracle.agree(flows, np.round(flows))
        active = np.flatnonzero(flows > 0.5)
        reached, parents = {g.root}, {}
        for e in active[::-1].tolist():
            n, c = int(g.edge_node[e]), int(g.child[e])
            assert n in reached
            assert c not in parents
            parents[c] = n
            reached.add(c)
        for n in reached:
            below = [e for e in active if g.edge_node[e] == n]
            if g.kind[n] == SUM:
                assert len(below) == 1
            elif g.kind[n] == PRODUCT:
                assert len(below) == len(g.children(n))
        leaves = {int(g.variable[n]): int(g.value[n]) for n in reached if g.variable[n] >= 0}
        assert len(leaves) == g.n_variables


@settings(max_examples=examples(500))
@given(cases(max_rows=10))
def test_all_paths_of_a_plan_agree_with_rows_one_by_one(case: Case) -> None:
    theta = case.circuit.parameters
    edges = row_flows(case.circuit, case.codes)
    flows = oracle.by_parameter(case.circuit.graph, case.weights @ edges)
    p = oracle.marginals(case.circuit, case.codes)
    log_likelihood = case.weights @ np.log(p)
    for path in PATHS:
        plan = prepare(case.circuit.graph, table_of(case), path=path)
        assert plan.total_weight == pytest.approx(case.weights.sum())
        answer = plan(theta)
        assert float(answer[0]) == pytest.approx(log_likelihood, rel=1e-10, abs=1e-10)
        assert plan.log_likelihood(theta) == answer[0]
        oracle.agree(answer[1], flows)


@settings(max_examples=examples(200))
@given(cases(max_rows=8), st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_weights_are_replicated_rows(case: Case, counts: list[int]) -> None:
    times = np.array([1 + counts[0], *counts[1:]])[: len(case.codes)]
    theta, g = case.circuit.parameters, case.circuit.graph
    weighted = Table.of(case.codes, times, arities=g.arities)
    replicated = Table.of(np.repeat(case.codes, times, axis=0), arities=g.arities)
    for path in PATHS:
        one, other = prepare(g, weighted, path=path), prepare(g, replicated, path=path)
        oracle.agree(one(theta)[0], other(theta)[0])
        oracle.agree(one(theta)[1], other(theta)[1])
    oracle.agree(
        expected_flows(case.circuit, case.codes, times),
        expected_flows(case.circuit, np.repeat(case.codes, times, axis=0)),
    )


@settings(max_examples=examples(200))
@given(cases(max_rows=10), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(case: Case, rnd: Random) -> None:
    g, theta = case.circuit.graph, case.circuit.parameters
    rows, columns = list(range(len(case.codes))), list(range(g.n_variables))
    rnd.shuffle(rows)
    rnd.shuffle(columns)
    place = np.argsort(columns)
    variable = np.where(g.variable >= 0, place[g.variable], -1).astype(np.int32)
    names = tuple(g.names[j] for j in columns)
    other = dataclasses.replace(g, names=names, arities=g.arities[columns], variable=variable)
    shuffled = Table.of(
        case.codes[rows][:, columns], case.weights[rows], arities=other.arities, names=names
    )
    for path in PATHS:
        expected = prepare(g, table_of(case), path=path)(theta)
        answer = prepare(other, shuffled, path=path)(theta)
        oracle.agree(answer[0], expected[0])
        oracle.agree(answer[1], expected[1])


@settings(max_examples=examples(200))
@given(cases(positive=False, max_rows=10))
def test_impossible_rows_have_no_flow_and_never_a_nan(case: Case) -> None:
    p = oracle.marginals(case.circuit, case.codes)
    edges = row_flows(case.circuit, case.codes)
    assert np.isfinite(edges).all()
    assert not edges[p == 0].any()
    truth = oracle.by_parameter(case.circuit.graph, case.weights @ edges)
    for path in PATHS:
        log_likelihood, flows = prepare(case.circuit.graph, table_of(case), path=path)(
            case.circuit.parameters
        )
        assert np.isneginf(log_likelihood) == bool((case.weights[p == 0] > 0).any())
        oracle.agree(flows, truth)


def chow_liu_like(n: int, depth: int) -> Circuit:
    """A deterministic circuit of some size: blocks of bits, each a small decision tree."""
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})

    def tree(i: int, stop: int, left: int) -> int:
        if left == 0 or stop - i == 1:
            leaves = [b.categorical(j, tie=f"leaf {j} {left}") for j in range(i, stop)]
            return b.product(*leaves)
        sides = [b.product(b.indicator(i, v), tree(i + 1, stop, left - 1)) for v in (0, 1)]
        return b.sum(sides)

    return b.build(b.product(*(tree(i, min(i + 6, n), depth) for i in range(0, n, 6))))


@pytest.mark.parametrize(
    ("path", "holes"),
    [
        ("active", 0.0),
        ("active", 0.3),
        ("general", 0.0),
        ("general", 0.3),
        ("auto", 0.0),
        ("auto", 0.3),
    ],
)
def test_one_and_two_threads_give_the_same_bits(path: Path, holes: float) -> None:
    circuit = chow_liu_like(24, 4)
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (many(30_000), 24))
    codes[rng.random(codes.shape) < holes] = -1
    table = Table.of(codes, rng.uniform(0, 2, len(codes)), arities=circuit.arities)
    theta = circuit.graph.random(rng)
    plans = [prepare(circuit.graph, table, path=path, n_threads=k) for k in (1, 2)]
    one, two = (plan(theta) for plan in plans)
    assert float(one[0]) == float(two[0])
    assert np.array_equal(one[1], two[1])


def test_many_rows_agree_between_paths_and_with_chunks_of_one_row() -> None:
    circuit = chow_liu_like(18, 3)
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (many(25_000), 18))
    theta = circuit.graph.random(rng)
    table = Table.of(codes, arities=circuit.arities)
    active, general = (
        prepare(circuit.graph, table, path=path)(theta) for path in ("active", "general")
    )
    assert float(active[0]) == pytest.approx(float(general[0]), rel=1e-12)
    np.testing.assert_allclose(active[1], general[1], rtol=1e-10)
    other = circuit.with_parameters(theta)
    rows = oracle.by_parameter(circuit.graph, row_flows(other, codes).sum(axis=0))
    np.testing.assert_allclose(general[1], rows, rtol=1e-10)
    assert float(general[0]) == pytest.approx(other.log_likelihood(codes).sum(), rel=1e-12)


def test_flows_do_not_underflow() -> None:
    """2,000 bits, likelihood about e^-1400, in a mixture of two products."""
    n = 2_000
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})
    parts = [
        b.product(*(b.categorical(i, [1 - p, p], tie=f"bit {p}") for i in range(n)))
        for p in (0.5, 0.51)
    ]
    circuit = b.build(b.sum(parts, [0.25, 0.75], tie="top"))
    k = 1000
    row = (np.arange(n) < k).astype(int)[None]
    one = np.log(0.25) + n * np.log(0.5)
    two = np.log(0.75) + k * np.log(0.51) + (n - k) * np.log(0.49)
    first = 1 / (1 + np.exp(two - one))
    root = circuit.graph.edge_parameter[circuit.graph.edge_node == circuit.graph.root]
    for path in PATHS:
        table = Table.of(row, arities=circuit.arities)
        log_likelihood, flows = prepare(circuit.graph, table, path=path)(circuit.parameters)
        assert float(log_likelihood) == pytest.approx(np.logaddexp(one, two), rel=1e-13)
        assert float(log_likelihood) < -1380
        np.testing.assert_allclose(flows[root], [first, 1 - first], rtol=1e-10)
        # Each bit passes the flow of its part: k ones and n − k zeros.
        assert sorted(flows.tolist()) == pytest.approx(
            sorted([first, 1 - first, *(f * m for f in (first, 1 - first) for m in (k, n - k))]),
            rel=1e-10,
        )


def test_refusals() -> None:
    b = CircuitBuilder({"A": 2})
    circuit = b.build(b.sum([b.categorical("A", [0.5, 0.5]), b.categorical("A", [0.1, 0.9])]))
    with pytest.raises(PropertyError, match="needs a deterministic circuit"):
        circuit_flows(circuit, [[0]])
    one = CircuitBuilder({"A": 2, "B": 2})
    plain = one.build(one.product(one.categorical("A"), one.categorical("B")))
    for query in (circuit_flows, contexts):
        with pytest.raises(CodesError, match="row 0 has no value in column 'B'"):
            query(plain, [[0, -1]])
    with pytest.raises(CodesError, match="one weight per row"):
        expected_flows(plain, [[0, 1]], [1.0, 2.0])
    with pytest.raises(CodesError, match="weight of row 0 is -1"):
        expected_flows(plain, [[0, 1]], [-1.0])
    with pytest.raises(CodesError, match="1 columns and the circuit 2"):
        prepare(plain.graph, Table.of([[0]], arities=[2]))
    with pytest.raises(CodesError, match="arity 3"):
        prepare(plain.graph, Table.of([[0, 2]]))
    plan = prepare(plain.graph, Table.of([[0, 1]], arities=[2, 2]))
    theta = plain.parameters
    with pytest.raises(CodesError, match=r"shape \(3,\): the plan takes \(4\)"):
        plan(theta[:3])
    with pytest.raises(OptionError, match="path is 'fast': choose one of"):
        prepare(plain.graph, Table.of([[0, 1]]), path="fast")  # type: ignore[arg-type]


@given(circuits(), st.integers(1, 5), st.sampled_from([0, 1 << 30]), st.integers(0, 99))
def test_parts_add_up(circuit, n_parts: int, kept: int, seed: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    codes = circuit.sample(30, rng)
    codes[rng.random(codes.shape) < 0.2] = -1
    weights = rng.integers(1, 5, 30).astype(float)
    bounds = np.linspace(0, 30, n_parts + 1).astype(int)
    reads = []

    def load(k: int) -> Table:
        reads.append(k)
        part = slice(bounds[k], bounds[k + 1])
        return Table.of(codes[part], weights[part], arities=circuit.arities)

    plan = PartPlan(circuit.graph, float(weights.sum()), n_parts, load, kept)
    whole = prepare(circuit.graph, Table.of(codes, weights, arities=circuit.arities))
    expected = whole(circuit.parameters)
    for _ in range(2):
        found = plan(circuit.parameters)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        assert np.allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)
    assert reads == list(range(n_parts)) * (1 if kept else 2)


@given(circuits(), st.integers(0, 99))
def test_parts_after_the_memory_is_full_are_evaluated_without_being_kept(  # type: ignore[no-untyped-def]
    circuit, seed: int
) -> None:
    """The same bits at each call: a fit that goes on begins with another first call."""
    rng = np.random.default_rng(seed)
    tables = [Table.of(circuit.sample(20, rng), arities=circuit.arities) for _ in range(3)]
    size = plan_bytes(prepare(circuit.graph, tables[0]))
    reads = []

    def load(k: int) -> Table:
        reads.append(k)
        return tables[k]

    plan = PartPlan(circuit.graph, 60.0, 3, load, size)
    (first, flows), (second, again) = plan(circuit.parameters), plan(circuit.parameters)
    assert reads == [0, 1, 2, 1, 2]
    assert first == second
    assert np.array_equal(flows, again)


def test_a_plan_that_is_used_once_looks_for_what_is_active_only_where_that_pays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    circuit = decisions(10)
    table = Table.of(holes(many(2_000), 10, 0.3), arities=circuit.arities)
    n_active = prepare(circuit.graph, table).n_active
    assert n_active > 0
    assert plan_once(circuit.graph, table).n_active == 0
    monkeypatch.setattr("fairpc.circuit._expected_flows.SMALL_EDGES", circuit.graph.n_edges - 1)
    assert plan_once(circuit.graph, table).n_active == n_active
