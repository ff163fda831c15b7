"""Parameters from data: Equation 1, Proposition 1, priors, ties, and when EM stops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize

import oracle
from fairpc.circuit import (
    AnyStep,
    Circuit,
    CircuitBuilder,
    Graph,
    Stopping,
    em,
    laplace,
    maximize,
    prepare,
)
from fairpc.circuit._em import fit, maximum_likelihood
from fairpc.data import Table
from fairpc.errors import CircuitError, CodesError, EvidenceError, PropertyError
from strategies import Case, cases, examples


def table_of(case: Case) -> Table:
    return Table.of(case.codes, case.weights, arities=case.circuit.arities)


def steps(case: Case, n: int, **options: Any) -> list[Any]:
    plan = prepare(case.circuit.graph, table_of(case))
    return list(itertools.islice(em(plan, case.circuit.parameters, **options), n))


@settings(max_examples=examples(500))
@given(cases(deterministic=True))
def test_a_step_is_maximum_likelihood_on_the_completed_data(case: Case) -> None:
    """Proposition 1: EF / ∑ EF is Equation 1 on the data completed with weights P(z | e)."""
    start, step = steps(case, 2)
    assert np.array_equal(start.parameters, case.circuit.parameters)
    oracle.agree(step.parameters, oracle.em_step(case.circuit, case.codes, case.weights))


@settings(max_examples=examples(500))
@given(cases(deterministic=True, complete=True))
def test_closed_form_parameters_are_flow_ratios(case: Case) -> None:
    """Equation 1 on complete rows, whatever the parameters before; with and without a prior."""
    g = case.circuit.graph
    counts = oracle.completed_counts(case.circuit, case.codes, case.weights)
    learned = maximum_likelihood(g, table_of(case))
    oracle.agree(learned.parameters, oracle.ratios(g, counts, g.uniform()))
    prior = laplace(g, 2.0)
    learned = maximum_likelihood(g, table_of(case), prior=prior)
    oracle.agree(learned.parameters, oracle.ratios(g, counts + prior, g.uniform()))


def log_likelihood(circuit: Circuit, case: Case) -> float:
    p = oracle.marginals(circuit, case.codes)
    used = case.weights > 0
    with np.errstate(divide="ignore"):
        return float(case.weights[used] @ np.log(p[used]))


def softmax(g: Graph, free: oracle.Array) -> oracle.Array:
    theta = np.exp(free - free.max())
    totals = np.add.reduceat(theta, g.block_ptr[:-1])
    result: oracle.Array = theta / np.repeat(totals, np.diff(g.block_ptr))
    return result


@settings(max_examples=examples(60))
@given(
    cases(deterministic=True, complete=True, max_states=32, max_nodes=15),
    st.sampled_from([0.5, 2.0]),
)
def test_flow_ratios_are_the_numerical_optimum(case: Case, alpha: float) -> None:
    """A general optimiser of the MAP objective, over softmax parameters, finds the same point."""
    g = case.circuit.graph
    if g.n_parameters == 0:
        return
    prior = laplace(g, alpha)

    def loss(free: oracle.Array) -> float:
        circuit = case.circuit.with_parameters(softmax(g, free))
        return -log_likelihood(circuit, case) - float(prior @ np.log(circuit.parameters))

    found = optimize.minimize(loss, np.zeros(g.n_parameters), method="BFGS")
    learned = maximum_likelihood(g, table_of(case), prior=prior)
    np.testing.assert_allclose(learned.parameters, softmax(g, found.x), atol=2e-4)
    assert loss(np.log(learned.parameters)) <= found.fun + 1e-9


@settings(max_examples=examples(1000))
@given(cases(max_rows=10), st.sampled_from([0.0, 0.01, 1.0, 5.0]))
def test_the_map_objective_never_falls(case: Case, alpha: float) -> None:
    prior = laplace(case.circuit.graph, alpha) if alpha else None
    found = steps(case, 15, prior=prior)
    objective = np.array([s.objective for s in found])
    slack = 1e-12 * (1 + np.abs(np.where(np.isfinite(objective), objective, 0.0)))
    assert (objective[1:] >= objective[:-1] - slack[1:]).all()
    assert not np.isnan(objective).any()
    for s in found[:4]:
        circuit = case.circuit.with_parameters(s.parameters)
        expected = log_likelihood(circuit, case)
        assert s.log_likelihood == pytest.approx(expected, rel=1e-10, abs=1e-10)
        if prior is not None:
            with np.errstate(divide="ignore"):
                expected += float(prior @ np.log(s.parameters))
        assert s.objective == pytest.approx(expected, rel=1e-10, abs=1e-10)


@settings(max_examples=examples(100))
@given(cases(max_rows=8), st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_weights_are_replicated_rows(case: Case, counts: list[int]) -> None:
    times = np.array([1 + counts[0], *counts[1:]])[: len(case.codes)]
    g = case.circuit.graph
    weighted = Table.of(case.codes, times, arities=g.arities)
    replicated = Table.of(np.repeat(case.codes, times, axis=0), arities=g.arities)
    one, other = (
        fit(prepare(g, t), case.circuit.parameters, max_iter=5, tol=0.0)
        for t in (weighted, replicated)
    )
    np.testing.assert_allclose(one.parameters, other.parameters, rtol=1e-9, atol=1e-9)


def test_laplace_divides_alpha_among_the_children() -> None:
    b = CircuitBuilder({"A": 2, "B": 4})
    g = b.build(b.product(b.categorical("A"), b.categorical("B"))).graph
    assert laplace(g, 1.0).tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    # (count + α/k) / (total + α): (3 + ½)/(4 + 1), (1 + ½)/(4 + 1); B: (2 + ¼)/5, ...
    theta = maximize(g, np.array([3.0, 1, 2, 1, 1, 0]), laplace(g, 1.0))
    oracle.agree(theta, [0.7, 0.3, 0.45, 0.25, 0.25, 0.05])
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(CircuitError, match="smoothing"):
            laplace(g, bad)


def test_the_m_step_keeps_what_nothing_flows_through() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    g = b.build(b.product(b.categorical("A"), b.categorical("B"))).graph
    flows = np.array([3.0, 1.0, 0.0, 0.0])
    assert maximize(g, flows).tolist() == [0.75, 0.25, 0.5, 0.5]
    kept = maximize(g, flows, None, np.array([0.5, 0.5, 0.1, 0.9]))
    assert kept.tolist() == [0.75, 0.25, 0.1, 0.9]


def latent(p_d: dict[tuple[int, int], list[float]] | None = None) -> Circuit:
    """P(s) P(f) P(d | f, s) P(x | f, s): a sum over s, below each s one over f, tied."""
    b = CircuitBuilder({"S": 2, "F": 2, "D": 2, "X": 3})
    groups = []
    for s in (0, 1):
        cells = [
            b.product(
                b.indicator("F", f),
                b.categorical("D", (p_d or {}).get((s, f)), tie=("D", s, f)),
                b.categorical("X", [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]][f], tie=("X", s, f)),
            )
            for f in (0, 1)
        ]
        groups.append(b.product(b.indicator("S", s), b.sum(cells, [0.5, 0.5], tie="F")))
    return b.build(b.sum(groups, [0.5, 0.5], tie="S"))


def rows_of(counts: oracle.Array) -> tuple[oracle.Array, oracle.Array]:
    rows = np.indices(counts.shape).reshape(counts.ndim, -1).T
    return rows, counts.ravel()


def test_shared_parameters_are_the_constrained_m_step() -> None:
    """With F ⟂ S the M-step is P(s) = N_s/N, P(f) = N_f/N, P(d | f, s) = N_sfd / N_sf."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 20, (2, 2, 2, 3)).astype(float)
    rows, weights = rows_of(counts)
    circuit = latent()
    learned = maximum_likelihood(circuit.graph, Table.of(rows, weights))
    n = counts.sum()
    p_s, p_f = counts.sum((1, 2, 3)) / n, counts.sum((0, 2, 3)) / n
    p_d = counts.sum(3) / counts.sum((2, 3))[..., None]
    p_x = counts.sum(2) / counts.sum((2, 3))[..., None]
    expected = np.einsum("s,f,sfd,sfx->sfdx", p_s, p_f, p_d, p_x)
    oracle.agree(np.exp(learned.log_likelihood(rows)), expected.ravel())


def test_an_identity_of_exact_zeros_is_a_fixed_point() -> None:
    """D = F as zeros and ones cannot be left without a prior, and is left with one."""
    identity = {(s, f): [float(f == 0), float(f == 1)] for s in (0, 1) for f in (0, 1)}
    circuit = latent(identity)
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (200, 4))
    rows[:, 1] = -1
    plan = prepare(circuit.graph, Table.of(rows, arities=circuit.arities))
    zero = circuit.parameters == 0
    stuck = fit(plan, circuit.parameters, max_iter=30, tol=0.0)
    assert (stuck.parameters[zero] == 0).all()
    assert stuck.log_likelihood >= stuck.history["log_likelihood"][0]
    free = fit(plan, circuit.parameters, prior=laplace(circuit.graph, 1.0), max_iter=30, tol=0.0)
    assert (free.parameters[zero] > 0).all()
    assert (np.diff(free.history["objective"][1:]) >= -1e-10).all()


def hidden_case() -> tuple[Circuit, Any]:
    circuit = latent({(s, f): [0.9 - 0.8 * f, 0.1 + 0.8 * f] for s in (0, 1) for f in (0, 1)})
    rows = circuit.sample(500, 3)
    rows[:, 1] = -1
    rows[::7, 3] = -1
    return circuit, prepare(circuit.graph, Table.of(rows, arities=circuit.arities))


def test_em_is_an_iterator_that_starts_at_the_start() -> None:
    circuit, plan = hidden_case()
    iterator = em(plan, circuit.parameters)
    first, second, third = (next(iterator) for _ in range(3))
    assert [s.iteration for s in (first, second, third)] == [0, 1, 2]
    assert np.array_equal(first.parameters, circuit.parameters)
    assert float(plan(second.parameters)[0]) == pytest.approx(second.log_likelihood, rel=1e-13)


def test_fit_stops_by_count_and_tolerance_together() -> None:
    circuit, plan = hidden_case()
    loose = fit(plan, circuit.parameters, tol=1e9, min_iter=20)
    assert loose.n_iter == 20
    assert loose.converged
    assert len(loose.history["objective"]) == len(loose.history["log_likelihood"]) == 21
    all_of_them = fit(plan, circuit.parameters, tol=0.0, max_iter=37)
    assert all_of_them.n_iter == 37
    assert not all_of_them.converged
    none = fit(plan, circuit.parameters, max_iter=0)
    assert none.n_iter == 0
    assert np.array_equal(none.parameters, circuit.parameters)
    with pytest.raises(CircuitError, match="max_iter is -1"):
        fit(plan, circuit.parameters, max_iter=-1)


def test_a_stopping_rule_needs_the_last_two_steps_alone() -> None:
    """Objectives 0, 8, 12, 14, 15, … of weight 10: updates gain .8, .4, .2, .1, .05 a unit."""
    steps = [AnyStep(k, -1.0, 16.0 - 16.0 / 2**k) for k in range(12)]
    for rule, last, converged in [
        (Stopping(max_iter=3, tol=0.15, min_iter=0), 3, False),
        (Stopping(max_iter=9, tol=0.15, min_iter=0), 4, True),
        (Stopping(max_iter=9, tol=0.15, min_iter=6), 6, True),
        (Stopping(max_iter=9, tol=0.0, min_iter=0), 9, False),
        (Stopping(max_iter=0, tol=1e9, min_iter=0), 0, False),
    ]:
        found = list(rule.until(steps, 10.0))
        assert [r.step for r in found] == steps[: last + 1]
        assert [r.converged for r in found] == [False] * last + [converged]


def test_fit_tells_each_step_to_the_callback() -> None:
    circuit, plan = hidden_case()
    seen: list[Any] = []
    result = fit(plan, circuit.parameters, max_iter=6, tol=0.0, callback=seen.append)
    assert [s.iteration for s in seen] == list(range(7))
    assert result.log_likelihood == seen[-1].log_likelihood
    assert np.array_equal(result.parameters, seen[-1].parameters)
    assert result.history["objective"].tolist() == [s.objective for s in seen]


def test_em_finds_the_parameters_that_made_complete_data() -> None:
    circuit = latent({(s, f): [0.8, 0.2] if f == 0 else [0.3, 0.7] for s in (0, 1) for f in (0, 1)})
    rows = circuit.sample(20_000, 5)
    start = circuit.with_parameters(circuit.graph.uniform())
    table = Table.of(rows, arities=circuit.arities)
    result = fit(prepare(circuit.graph, table), start.parameters, tol=1e-12)
    closed = maximum_likelihood(circuit.graph, table)
    oracle.agree(result.parameters, closed.parameters)
    np.testing.assert_allclose(result.parameters, circuit.parameters, atol=0.03)


def test_refusals() -> None:
    circuit, plan = hidden_case()
    g = circuit.graph
    with pytest.raises(CodesError, match="complete rows"):
        maximum_likelihood(g, Table.of([[0, -1, 0, 0]], arities=g.arities))
    b = CircuitBuilder({"A": 2})
    mixture = b.build(b.sum([b.categorical("A", [0.5, 0.5]), b.categorical("A", [0.1, 0.9])]))
    with pytest.raises(PropertyError, match="closed-form maximum likelihood needs a determin"):
        maximum_likelihood(mixture.graph, Table.of([[0]], arities=[2]))
    with pytest.raises(CircuitError, match="shape"):
        next(iter(em(plan, circuit.parameters[:-1])))
    with pytest.raises(CircuitError, match="prior"):
        next(iter(em(plan, circuit.parameters, prior=np.ones(3))))
    with pytest.raises(CircuitError, match="prior"):
        next(iter(em(plan, circuit.parameters, prior=-np.ones(g.n_parameters))))
    certain = b.build(b.categorical("A", [1.0, 0.0]))
    impossible = prepare(certain.graph, Table.of([[1]], arities=[2]))
    with pytest.raises(EvidenceError, match="probability zero"):
        next(iter(em(impossible, certain.parameters)))
    alone = b.build(b.indicator("A", 0))
    with pytest.raises(EvidenceError, match="probability zero"):
        maximum_likelihood(alone.graph, Table.of([[1]], arities=[2]))
