"""Bounds of parameters: the best point of a box in the simplex, and EM that keeps to it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from circuit.oracle_bounds import Array, best_near_value, best_value, value
from fairpc.circuit import (
    Bounds,
    Graph,
    em,
    filled,
    laplace,
    maximize,
    prepare,
)
from fairpc.circuit._em import fit
from fairpc.circuit._parameter_bounds import near_shares
from fairpc.data import Table
from fairpc.errors import CircuitError
from strategies import Case, cases, examples


def random_box(rng: np.random.Generator, k: int) -> tuple[Array, Array]:
    """A box around some point of the simplex, some of its sides at the ends."""
    inside = rng.dirichlet(np.ones(k))
    lower = inside * rng.random(k) * (rng.random(k) < 0.6)
    upper = np.where(rng.random(k) < 0.4, 1.0, inside + (1 - inside) * rng.random(k))
    return lower, upper


# The oldest SciPy says that its own steps are clipped; the answer is what counts.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@settings(max_examples=examples(300))
@given(st.integers(0, 2**31), st.integers(2, 6))
def test_it_is_the_maximum(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.exponential(10.0, k) * (rng.random(k) < 0.8)
    lower, upper = random_box(rng, k)
    theta = filled(counts, lower, upper)
    assert theta.sum() == pytest.approx(1.0, abs=1e-12)
    assert (theta >= lower - 1e-12).all()
    assert (theta <= upper + 1e-12).all()
    best = best_value(counts, lower, upper)
    assert value(counts, theta) >= best - 1e-7 * (1 + abs(best) if np.isfinite(best) else 1)


def test_by_hand() -> None:
    # Counts 6, 3, 1: without bounds .6, .3, .1. An upper bound of .4 on the first leaves .6
    # for the others, in the ratio 3 : 1.
    counts = np.array([6.0, 3.0, 1.0])
    np.testing.assert_allclose(
        filled(counts, np.zeros(3), np.array([0.4, 1.0, 1.0])), [0.4, 0.45, 0.15]
    )
    # The last must be .3 at least: .7 is left, in the ratio 2 : 1.
    np.testing.assert_allclose(
        filled(counts, np.array([0.0, 0.0, 0.3]), np.ones(3)), [1.4 / 3, 0.7 / 3, 0.3]
    )
    # What the counted ones may not take goes to the others, half of it each.
    np.testing.assert_allclose(
        filled(np.array([5.0, 0.0, 0.0]), np.zeros(3), np.array([0.2, 1.0, 1.0])), [0.2, 0.4, 0.4]
    )
    # A point is a box.
    point = np.array([0.1, 0.2, 0.7])
    np.testing.assert_array_equal(filled(counts, point, point), point)


def random_bounds(graph: Graph, rng: np.random.Generator) -> Bounds:
    """A box for about half of the blocks."""
    lower, upper = np.zeros(graph.n_parameters), np.ones(graph.n_parameters)
    for first, last in itertools.pairwise(graph.block_ptr.tolist()):
        if rng.random() < 0.5:
            lower[first:last], upper[first:last] = random_box(rng, last - first)
    return Bounds.of(graph, lower, upper)


def table_of(case: Case) -> Table:
    return Table.of(case.codes, case.weights, arities=case.circuit.arities)


@settings(max_examples=examples(300))
@given(cases(max_rows=10), st.sampled_from([0.0, 1.0]), st.integers(0, 2**31))
def test_the_map_objective_never_falls_within_bounds(case: Case, alpha: float, seed: int) -> None:
    graph = case.circuit.graph
    assume(graph.n_parameters)
    bounds = random_bounds(graph, np.random.default_rng(seed))
    start = graph.random(np.random.default_rng(seed))
    plan = prepare(graph, table_of(case))
    steps = em(plan, start, prior=laplace(graph, alpha), bounds=bounds)
    found = list(itertools.islice(steps, 12))
    objective = np.array([step.objective for step in found])
    assert (np.diff(objective) >= -1e-10 * (1 + np.abs(objective[:-1]))).all()
    for step in found:
        assert (step.parameters >= bounds.lower - 1e-12).all()
        assert (step.parameters <= bounds.upper + 1e-12).all()
        case.circuit.with_parameters(step.parameters)


@settings(max_examples=examples(100))
@given(cases(max_rows=8, max_nodes=12), st.integers(0, 2**31))
def test_a_step_beats_every_other_point_of_the_box(case: Case, seed: int) -> None:
    """The M-step maximises Σ (flow + prior) log θ, block by block."""
    graph, rng = case.circuit.graph, np.random.default_rng(seed)
    assume(graph.n_parameters)
    bounds = random_bounds(graph, rng)
    prior = laplace(graph, 1.0)
    _, flows = prepare(graph, table_of(case))(graph.uniform())
    theta = maximize(graph, flows, prior, None, bounds)
    best = value(flows + prior, theta)
    for _ in range(20):
        other = bounds.within(graph.random(rng))
        assert value(flows + prior, other) <= best + 1e-9 * (1 + abs(best))


@settings(max_examples=examples(30))
@given(cases(max_rows=6), st.integers(0, 2**31))
def test_bounds_that_say_nothing_change_nothing(case: Case, seed: int) -> None:
    graph = case.circuit.graph
    assume(graph.n_parameters)
    start = graph.random(np.random.default_rng(seed))
    plan = prepare(graph, table_of(case))
    nothing = Bounds.of(graph, np.zeros(graph.n_parameters), np.ones(graph.n_parameters))
    with_it, without = (
        fit(plan, start, prior=laplace(graph), bounds=b, max_iter=3, tol=0) for b in (nothing, None)
    )
    np.testing.assert_array_equal(with_it.parameters, without.parameters)


def test_bounds_that_leave_nothing_are_refused() -> None:
    from fairpc.circuit import CircuitBuilder

    b = CircuitBuilder({"A": 2})
    graph = b.build(b.categorical(0, [0.5, 0.5])).graph
    with pytest.raises(CircuitError, match="leave nothing that sums to 1"):
        Bounds.of(graph, [0.0, 0.0], [0.3, 0.3])
    with pytest.raises(CircuitError, match="leave nothing that sums to 1"):
        Bounds.of(graph, [0.6, 0.6], [1.0, 1.0])
    with pytest.raises(CircuitError, match="order them"):
        Bounds.of(graph, [0.6, 0.0], [0.5, 1.0])
    with pytest.raises(CircuitError, match="for each of the 2 parameters"):
        Bounds.of(graph, [0.0], [1.0])


def test_near_shares_by_hand() -> None:
    # 8 of 10 and 2 of 10: alone .8 and .2. At a distance of .2 they meet round the middle, for the
    # problem is the same from both ends.
    hits, totals = np.array([8.0, 2.0]), np.array([10.0, 10.0])
    np.testing.assert_allclose(near_shares(hits, totals, 0.2), [0.6, 0.4], atol=1e-15)
    np.testing.assert_allclose(near_shares(hits, totals, 0.0), [0.5, 0.5], atol=1e-15)
    np.testing.assert_array_equal(near_shares(hits, totals, 0.7), [0.8, 0.2])
    # A group without counts keeps its share as far as the others let it, and moves none of them.
    three = near_shares(np.append(hits, 0.0), np.append(totals, 0.0), 0.2, silent=0.1)
    np.testing.assert_allclose(three, [0.6, 0.4, 0.4], atol=1e-15)


def test_one_share_for_all_is_the_pooled_one() -> None:
    rng = np.random.default_rng(0)
    totals = rng.exponential(50.0, (4, 5))
    hits = totals * rng.random((4, 5))
    pooled = hits.sum(axis=1) / totals.sum(axis=1)
    np.testing.assert_allclose(
        near_shares(hits, totals, 0.0), np.tile(pooled, (5, 1)).T, atol=1e-12
    )


@settings(max_examples=examples(60))
@given(st.integers(0, 2**31), st.integers(2, 4), st.booleans())
def test_near_shares_are_the_maximum(seed: int, k: int, bound: bool) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.exponential(20.0, k) + 1e-3
    hits = totals * rng.choice([0.0, 1.0, 0.3, rng.random()], k)
    distance = float(rng.choice([0.0, 0.05, 0.3]))
    lower, upper = np.zeros(k), np.ones(k)
    if bound:
        lower, upper = np.full(k, rng.random() / 2), np.full(k, 0.5 + rng.random() / 2)
    share = near_shares(hits, totals, distance, lower=lower, upper=upper)
    assert np.ptp(share) <= distance + 1e-12
    assert (share >= lower - 1e-12).all()
    assert (share <= upper + 1e-12).all()
    counts, theta = np.stack([hits, totals - hits]), np.stack([share, 1 - share])
    best = best_near_value(hits, totals, distance, lower, upper)
    assert value(counts.ravel(), theta.ravel()) >= best - 1e-9 * (1 + abs(best))
