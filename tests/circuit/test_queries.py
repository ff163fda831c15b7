"""Queries against enumeration, by hand, and at the edges: underflow, impossible evidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import oracle
from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.errors import CircuitError, CodesError, EvidenceError, PropertyError
from strategies import (
    Case,
    any_circuits,
    cases,
    examples,
    many,
)


def logs(p: oracle.Array) -> oracle.Array:
    with np.errstate(divide="ignore"):
        result: oracle.Array = np.log(p)
    return result


def two_groups() -> Circuit:
    """P(S) = (.7, .3); P(X=1 | S=0) = .4, P(X=1 | S=1) = .7."""
    b = CircuitBuilder({"S": 2, "X": 2})
    px = ([0.6, 0.4], [0.3, 0.7])
    cell = [b.product(b.indicator("S", s), b.categorical("X", p)) for s, p in enumerate(px)]
    return b.build(b.sum(cell, [0.7, 0.3]))


def mixture() -> Circuit:
    """½ Bernoulli(.2) × Bernoulli(.4) + ½ Bernoulli(.8) × Bernoulli(.9): not deterministic."""
    b = CircuitBuilder({"A": 2, "B": 2})
    first = b.product(b.categorical("A", [0.8, 0.2]), b.categorical("B", [0.6, 0.4]))
    second = b.product(b.categorical("A", [0.2, 0.8]), b.categorical("B", [0.1, 0.9]))
    return b.build(b.sum([first, second], [0.5, 0.5]))


def test_by_hand() -> None:
    c = two_groups()
    # P(0,0) = .7·.6, P(0,1) = .7·.4, P(1,0) = .3·.3, P(1,1) = .3·.7
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    oracle.agree(np.exp(c.log_likelihood(rows)), [0.42, 0.28, 0.09, 0.21])
    # P(S=1) = .3; P(X=1) = .28 + .21 = .49; of nothing: 1
    e = np.array([[1, -1], [-1, 1], [-1, -1]])
    oracle.agree(np.exp(c.log_marginal(e)), [0.3, 0.49, 1.0])
    # P(S=1 | X=1) = .21 / .49 = 3/7
    s, x = c.conditionals(e)
    oracle.agree(s, [[0, 1], [4 / 7, 3 / 7], [0.7, 0.3]])
    oracle.agree(x, [[0.3, 0.7], [0, 1], [0.51, 0.49]])
    # The largest of .42, .28, .09, .21; with X=1 .28 against .21.
    best, log_p = c.mpe(e)
    assert best.tolist() == [[1, 1], [0, 1], [0, 0]]
    oracle.agree(np.exp(log_p), [0.21, 0.28, 0.42])


def test_a_mixture_by_hand() -> None:
    # P(A=1, B=1) = ½·.2·.4 + ½·.8·.9 = .04 + .36; P(B=1) = ½·.4 + ½·.9 = .65
    c = mixture()
    oracle.agree(np.exp(c.log_marginal(np.array([[1, 1], [-1, 1]]))), [0.4, 0.65])
    oracle.agree(c.conditionals(np.array([[-1, 1]]))[0], [[0.25 / 0.65, 0.4 / 0.65]])


def test_the_motivation_of_the_paper() -> None:
    """Section "Motivation": a classifier that looks fair only under the wrong distribution."""
    f = np.array([[0.4, 0.7], [0.3, 0.8]])  # f[s, x]
    groups = np.array([[0, -1], [1, -1]])
    # .7·.4 + .4·.6 = .52 for S=0, .8·.7 + .3·.3 = .65 for S=1
    data = two_groups()
    oracle.agree((data.posterior("X", groups) * f).sum(axis=1), [0.52, 0.65])
    # Q takes X to be uniform and independent of S: .55 for both.
    b = CircuitBuilder({"S": 2, "X": 2})
    q = b.build(b.product(b.categorical("S", [0.7, 0.3]), b.categorical("X")))
    oracle.agree((q.posterior("X", groups) * f).sum(axis=1), [0.55, 0.55])


@settings(max_examples=examples(500))
@given(cases(positive=False))
def test_likelihood_and_marginals_equal_enumeration(case: Case) -> None:
    oracle.agree(
        case.circuit.log_marginal(case.codes), logs(oracle.marginals(case.circuit, case.codes))
    )
    rows = oracle.all_rows(case.circuit.graph)
    rows = rows[:: max(1, len(rows) // 64)]
    oracle.agree(case.circuit.log_likelihood(rows), logs(oracle.likelihood(case.circuit, rows)))


@settings(max_examples=examples(500))
@given(cases())
def test_conditionals_equal_enumeration(case: Case) -> None:
    tables = case.circuit.conditionals(case.codes)
    expected = oracle.conditionals(case.circuit, case.codes)
    assert len(tables) == case.circuit.graph.n_variables
    for j, (table, truth) in enumerate(zip(tables, expected, strict=True)):
        oracle.agree(table, truth)
        oracle.agree(case.circuit.posterior(j, case.codes), truth)


@settings(max_examples=examples(500))
@given(cases(deterministic=True))
def test_mpe_equals_enumeration(case: Case) -> None:
    best, log_p = case.circuit.mpe(case.codes)
    oracle.agree(log_p, logs(oracle.mpe_values(case.circuit, case.codes)))
    assert (best >= 0).all()
    assert ((best == case.codes) | (case.codes < 0)).all()
    # Ties may be broken either way, so the row is checked by its probability.
    oracle.agree(logs(oracle.likelihood(case.circuit, best)), log_p)


@settings(max_examples=examples(300))
@given(cases(positive=False, max_rows=12))
def test_impossible_evidence_is_minus_infinity_or_an_error(case: Case) -> None:
    c = case.circuit
    impossible = np.flatnonzero(oracle.marginals(c, case.codes) == 0)
    assert np.flatnonzero(np.isneginf(c.log_marginal(case.codes))).tolist() == impossible.tolist()
    asked: list[Callable[[], Any]] = [
        lambda: c.conditionals(case.codes),
        lambda: c.posterior(0, case.codes),
        lambda: c.sample_given(case.codes, 1),
    ]
    if c.properties().deterministic:
        asked.append(lambda: c.mpe(case.codes))
    for query in asked:
        if not len(impossible):
            query()
            continue
        with pytest.raises(EvidenceError, match=f"row {impossible[0]} ") as caught:
            query()
        assert caught.value.row == impossible[0]


def permuted(circuit: Circuit, order: list[int]) -> Circuit:
    """The same circuit with its columns in another order."""
    g = circuit.graph
    place = np.argsort(order)
    variable = np.where(g.variable >= 0, place[g.variable], -1)
    names = tuple(g.names[j] for j in order)
    graph = dataclasses.replace(
        g, names=names, arities=g.arities[order], variable=variable.astype(np.int32)
    )
    return Circuit(graph, circuit.parameters)


@settings(max_examples=examples(200))
@given(cases(positive=False, max_rows=12), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(case: Case, rnd: Random) -> None:
    rows, columns = list(range(len(case.codes))), list(range(case.codes.shape[1]))
    rnd.shuffle(rows)
    rnd.shuffle(columns)
    expected = case.circuit.log_marginal(case.codes)
    assert np.array_equal(case.circuit.log_marginal(case.codes[rows]), expected[rows])
    other = permuted(case.circuit, columns)
    oracle.agree(other.log_marginal(case.codes[:, columns]), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.int32, np.int64])
def test_codes_of_any_integer_type(dtype: type[np.integer[Any]]) -> None:
    rows = np.array([[0, 1], [1, 1]], dtype)
    oracle.agree(np.exp(two_groups().log_marginal(rows)), [0.28, 0.21])
    oracle.agree(np.exp(two_groups().log_marginal(np.asfortranarray(rows))), [0.28, 0.21])
    oracle.agree(np.exp(two_groups().log_marginal(rows.tolist())), [0.28, 0.21])


def test_no_rows_give_no_answers() -> None:
    c, nothing = two_groups(), np.empty((0, 2), int)
    assert c.log_marginal(nothing).shape == (0,)
    assert c.log_likelihood(nothing).shape == (0,)
    assert [t.shape for t in c.conditionals(nothing)] == [(0, 2), (0, 2)]
    assert c.posterior("S", nothing).shape == (0, 2)
    assert c.mpe(nothing)[0].shape == (0, 2)
    assert c.sample(0, 1).shape == (0, 2)
    assert c.sample_given(nothing, 1).shape == (0, 2)


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([[0, 2]], "column 'X' has code 2 in row 0"),
        ([[0, 0], [-2, 0]], "column 'S' has code -2 in row 1"),
        ([[0]], "2 columns"),
        ([0, 1], "2 columns"),
        ([[0.0, 1.0]], "type float64"),
    ],
)
def test_rows_that_are_no_codes_are_refused(codes: Any, words: str) -> None:
    c = two_groups()
    for query in (c.log_marginal, c.log_likelihood, c.conditionals, c.mpe, c.sample_given):
        with pytest.raises(CodesError, match=words):
            query(codes)


def test_likelihood_wants_complete_rows() -> None:
    with pytest.raises(CodesError, match="row 1 has no value in column 'X'"):
        two_groups().log_likelihood([[0, 1], [1, -1]])


def test_queries_refuse_what_they_cannot_do() -> None:
    c = mixture()
    with pytest.raises(PropertyError, match="needs a deterministic circuit: sum node"):
        c.mpe([[0, 0]])
    with pytest.raises(CodesError, match="-1"):
        c.sample(-1)
    with pytest.raises(CircuitError, match="no variable 'C'"):
        c.posterior("C", [[0, 0]])


@pytest.mark.parametrize("broken", ["smooth", "decomposable"])
def test_queries_refuse_circuits_that_are_not_smooth_or_decomposable(broken: str) -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    pair = b.product(b.indicator("A", 0), b.indicator("B", 0))
    if broken == "smooth":
        c = b.build(b.sum([b.indicator("A", 1), pair]))
    else:
        c = b.build(b.product(b.categorical("A"), pair))
    for query in (c.log_marginal, c.log_likelihood, c.conditionals, c.sample_given):
        with pytest.raises(PropertyError, match=f"needs a {broken} circuit"):
            query([[0, 0]])
    with pytest.raises(PropertyError, match=f"needs a {broken} circuit"):
        c.sample(3, 1)


N_LONG = 2_000


def long_product() -> tuple[Circuit, list[float]]:
    """2,000 independent bits, P(X_i = 1) between .3 and .7."""
    p = [0.3 + 0.4 * ((37 * i) % 101) / 100 for i in range(N_LONG)]
    b = CircuitBuilder({f"X{i}": 2 for i in range(N_LONG)})
    return b.build(b.product(*(b.categorical(i, [1 - q, q]) for i, q in enumerate(p)))), p


def test_no_underflow_in_a_product_of_2000_bits() -> None:
    circuit, p = long_product()
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 2, (20, N_LONG))
    rows[:10] = np.abs(rows[:10])
    table = np.log(np.stack([1 - np.array(p), np.array(p)], axis=1))
    expected = [
        math.fsum(table[i, v] for i, v in enumerate(row) if v >= 0) for row in rows.tolist()
    ]
    assert min(expected) < -1400
    np.testing.assert_allclose(circuit.log_marginal(rows), expected, rtol=1e-13)
    np.testing.assert_allclose(circuit.log_likelihood(rows[:10]), expected[:10], rtol=1e-13)
    best, log_p = circuit.mpe(rows)
    free = math.fsum(max(t) for t in table.tolist())
    nothing = np.full((1, N_LONG), -1)
    assert circuit.mpe(nothing)[1][0] == pytest.approx(free, rel=1e-13)
    np.testing.assert_allclose(circuit.log_likelihood(best), log_p, rtol=1e-13)
    for j in (0, 999, 1999):
        oracle.agree(circuit.conditionals(nothing)[j], [[1 - p[j], p[j]]])


def test_no_underflow_in_a_chain_of_2000_bits() -> None:
    """X_0 uniform; X_{t+1} = X_t with probability .6."""
    b = CircuitBuilder({f"X{t}": 2 for t in range(N_LONG)})
    below = [b.indicator(N_LONG - 1, v) for v in (0, 1)]
    for t in range(N_LONG - 2, -1, -1):
        stay = [b.sum(below, [0.6, 0.4]), b.sum(below, [0.4, 0.6])]
        below = [b.product(b.indicator(t, v), stay[v]) for v in (0, 1)]
    circuit = b.build(b.sum(below, [0.5, 0.5]))
    rows = np.random.default_rng(1).integers(0, 2, (10, N_LONG))
    expected = [
        math.fsum([math.log(0.5), *(math.log(0.6 if s else 0.4) for s in (r[1:] == r[:-1]))])
        for r in rows
    ]
    assert min(expected) < -1400
    np.testing.assert_allclose(circuit.log_likelihood(rows), expected, rtol=1e-13)
    # Every second bit missing: two steps stay with .6² + .4² = .52.
    rows[:, 1::2] = -1
    seen = rows[:, ::2]
    expected = [
        math.fsum([math.log(0.5), *(math.log(0.52 if s else 0.48) for s in (r[1:] == r[:-1]))])
        for r in seen
    ]
    np.testing.assert_allclose(circuit.log_marginal(rows), expected, rtol=1e-13)
    # A hole between two known bits: P(X_1 = v | X_0 = 0, X_2 = 0) ∝ .36, .16
    row = np.zeros((1, N_LONG), int)
    row[0, 1] = -1
    oracle.agree(circuit.conditionals(row)[1], [[0.36 / 0.52, 0.16 / 0.52]])


def test_no_underflow_in_a_mixture_whose_parts_are_e_to_the_minus_1400() -> None:
    b = CircuitBuilder({f"X{i}": 2 for i in range(N_LONG)})
    parts = [b.product(*(b.categorical(i, [1 - p, p]) for i in range(N_LONG))) for p in (0.5, 0.51)]
    circuit = b.build(b.sum(parts, [0.25, 0.75]))
    k = np.array([900, 1000, 1100])
    rows = (np.arange(N_LONG) < k[:, None]).astype(int)
    one = np.log(0.25) + N_LONG * np.log(0.5)
    two = np.log(0.75) + k * np.log(0.51) + (N_LONG - k) * np.log(0.49)
    np.testing.assert_allclose(circuit.log_likelihood(rows), np.logaddexp(one, two), rtol=1e-13)


def test_weights_as_small_as_floats_go() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    tiny = 1e-300
    c = b.build(b.product(b.categorical("A", [tiny, 1]), b.categorical("B", [tiny, 1])))
    oracle.agree(c.log_likelihood([[0, 0]]), [2 * math.log(tiny)])
    oracle.agree(c.conditionals([[0, -1]])[1], [[tiny, 1.0]])
    assert c.mpe([[0, -1]])[0].tolist() == [[0, 1]]


@settings(max_examples=examples(50))
@given(any_circuits(max_states=256))
def test_many_rows_in_several_chunks(circuit: Circuit) -> None:
    rng = np.random.default_rng(3)
    rows = np.stack([rng.integers(-1, a, many(20_000)) for a in circuit.arities], axis=1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    few = distinct[:: max(1, len(distinct) // 300)]
    truth = logs(oracle.marginals(circuit, few))
    index = {tuple(z): i for i, z in enumerate(few.tolist())}
    known = [i for i, z in enumerate(rows.tolist()) if tuple(z) in index]
    answer = circuit.log_marginal(rows, n_threads=1)
    oracle.agree(answer[known], truth[[index[tuple(z)] for z in rows[known].tolist()]])
    assert np.array_equal(answer, circuit.log_marginal(rows, n_threads=2))
    first = np.zeros(len(distinct), int)
    first[which.ravel()[::-1]] = np.arange(len(rows))[::-1]
    np.testing.assert_allclose(answer, answer[first[which.ravel()]], rtol=1e-13)


def chi_square(counts: oracle.Array, p: oracle.Array) -> float:
    """p-value of the counts; cells that expect fewer than five are thrown together."""
    n = counts.sum()
    assert not counts[p == 0].any()
    rare = n * p < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(n * p[~rare], n * p[rare].sum())
    if expected[-1] < 5:
        j = int(np.argmax(expected))
        observed[j] += observed[-1]
        expected[j] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    if len(expected) == 1:
        return 1.0
    return float(stats.chisquare(observed, expected * (n / expected.sum())).pvalue)


def counted(circuit: Circuit, drawn: oracle.Array) -> oracle.Array:
    flat = np.ravel_multi_index(tuple(drawn.T.astype(int)), tuple(circuit.arities.tolist()))
    return np.bincount(flat, minlength=math.prod(circuit.arities.tolist()))


@settings(max_examples=examples(100))
@given(any_circuits(max_states=512))
def test_samples_follow_the_distribution(circuit: Circuit) -> None:
    drawn = circuit.sample(many(20_000), np.random.default_rng(7))
    assert drawn.shape == (many(20_000), len(circuit.names))
    assert chi_square(counted(circuit, drawn), oracle.joint(circuit)) > 1e-5


@settings(max_examples=examples(100))
@given(cases(max_states=512, max_rows=1))
def test_completions_follow_the_conditional_distribution(case: Case) -> None:
    rows = np.repeat(case.codes[:1], many(20_000), axis=0)
    drawn = case.circuit.sample_given(rows, np.random.default_rng(8))
    assert ((drawn == rows) | (rows < 0)).all()
    p = oracle.posterior(case.circuit, case.codes[0])
    assert chi_square(counted(case.circuit, drawn), p) > 1e-5


def test_samples_can_be_repeated() -> None:
    c = mixture()
    assert np.array_equal(c.sample(50, 1), c.sample(50, np.random.default_rng(1)))
    assert not np.array_equal(c.sample(50, 1), c.sample(50, 2))
    holes = np.full((50, 2), -1)
    assert np.array_equal(c.sample_given(holes, 3), c.sample_given(holes, 3))


@given(st.data())
def test_soft_evidence_equals_the_sum_over_rows(data: st.DataObject) -> None:
    circuit = data.draw(any_circuits())
    n_rows = data.draw(st.integers(1, 3))
    weight = st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0) | st.just(1e-200)
    known = data.draw(st.sets(st.integers(0, len(circuit.names) - 1)))
    weights = {
        j: np.array([data.draw(st.lists(weight, min_size=a, max_size=a)) for _ in range(n_rows)])
        for j, a in ((j, int(circuit.arities[j])) for j in known)
    }
    found = circuit.log_weighted(weights)
    expected = [
        oracle.weighted(circuit, {j: w[i] for j, w in weights.items()})
        for i in range(n_rows if known else 1)
    ]
    oracle.agree(np.exp(found), np.array(expected))


def test_hard_evidence_is_a_kind_of_soft_evidence() -> None:
    c = two_groups()
    rows = np.array([[1, -1], [-1, 1], [0, 1]])
    weights = {
        "S": np.array([[0, 1], [1, 1], [1, 0]]),
        "X": np.array([[1, 1], [0, 1], [0, 1]]),
    }
    oracle.agree(c.log_weighted(weights), c.log_marginal(rows))
    # Half of X = 1 and a quarter of S = 0: .25·(.42 + .5·.28) + .09 + .5·.21
    oracle.agree(np.exp(c.log_weighted({"S": [0.25, 1.0], "X": [1.0, 0.5]})), [0.335])
    # 1e-400 is not a double, its logarithm is.
    small = c.log_weighted({"S": [1e-200, 1e-200], "X": [1e-200, 1e-200]})
    assert small[0] == pytest.approx(2 * math.log(1e-200), rel=1e-12)
    assert np.isneginf(c.log_weighted({"S": [0.0, 0.0]})[0])


@pytest.mark.parametrize("wrong", [[1.0], [1.0, -1.0], [np.nan, 1.0], [[1.0, 1.0, 1.0]]])
def test_weights_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(CircuitError, match="the weights of 'S' have shape"):
        two_groups().log_weighted({"S": wrong})
