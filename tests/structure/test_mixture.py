"""Mixtures of circuits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpc.data import Table
from fairpc.errors import LearningError
from fairpc.structure import (
    bootstrap_weights,
    component_weights,
    learn,
    learn_mixture,
    soft_clusters,
)
from fairpc.structure._learn import Diversity
from structure import oracle_structure as oracle
from structure.tables import random_table


@pytest.fixture(scope="module")
def table() -> Table:
    return random_table(np.random.default_rng(0), 300, [2, 3, 2, 2])


@pytest.mark.parametrize("diversity", ["bootstrap", "clusters"])
def test_a_mixture_is_the_sum_of_its_components(table: Table, diversity: Diversity) -> None:
    mixture = learn_mixture(
        table, 3, diversity=diversity, methods=("gain", "strudel"), random_state=0
    )
    assert mixture.weights.sum() == pytest.approx(1.0)
    summed, explicit = mixture.circuit(), mixture.circuit("component")
    assert explicit.names == (*table.names, "component")
    for component in mixture.components:
        oracle.check_structure(component.graph)
    oracle.check_structure(explicit.graph)
    for row in table.codes[:10].tolist():
        parts = [oracle.probability(c, row) for c in mixture.components]
        expected = sum(w * p for w, p in zip(mixture.weights, parts, strict=True))
        assert oracle.probability(summed, row) == pytest.approx(expected)
        assert oracle.probability(explicit, [*row, -1]) == pytest.approx(expected)
        for k, p in enumerate(parts):
            joint = oracle.probability(explicit, [*row, k])
            assert joint == pytest.approx(mixture.weights[k] * p)


def test_parameters_of_a_bootstrapped_structure_come_from_all_rows(table: Table) -> None:
    held_out = random_table(np.random.default_rng(1), 60, [2, 3, 2, 2])
    mixture = learn_mixture(table, 2, validation=held_out, random_state=0)
    for component in mixture.components:
        again = oracle.maximum_likelihood(component, table.codes, table.weights.tolist(), 1.0)
        assert component.parameters == pytest.approx(again.parameters, abs=1e-12)


def test_the_same_seed_gives_the_same_mixture(table: Table) -> None:
    first, second = (learn_mixture(table, 2, random_state=5).circuit() for _ in range(2))
    assert first.graph.same_as(second.graph)
    assert np.array_equal(first.parameters, second.parameters)


def test_a_mixture_of_clusters_finds_clusters() -> None:
    # Two products of independent columns, mixed: no tree holds them, two components do.
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 3000)
    rows = (rng.random((3000, 6)) < np.where(z, 0.85, 0.15)[:, None]).astype(int)
    train, test = Table.of(rows[:2000]), rows[2000:]
    mixture = learn_mixture(train, 2, diversity="clusters", methods=("chow-liu",), random_state=0)
    tree = learn(train, method="chow-liu")
    gain = mixture.circuit().log_likelihood(test) - tree.log_likelihood(test)
    assert gain.mean() > 0.05
    posterior = soft_clusters(train, 2, np.random.default_rng(0))
    hits = ((posterior[:, 0] > 0.5) == z[:2000]).mean()
    assert max(hits, 1 - hits) > 0.9


@given(st.integers(0, 1000))
def test_component_weights_are_a_maximum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=(30, 3)), rng.random(30)
    pi = component_weights(scores, weights)
    best = weights @ np.log(np.exp(scores) @ pi)
    for other in rng.dirichlet(np.ones(3), 50):
        mixed = 0.99 * pi + 0.01 * other
        assert weights @ np.log(np.exp(scores) @ mixed) <= best + 1e-5


def test_impossible_rows_do_not_move_the_weights() -> None:
    scores = np.array([[0.0, -1.0], [-np.inf, -np.inf], [-1.0, -np.inf]])
    pi = component_weights(scores, np.ones(3))
    assert np.isfinite(pi).all()
    assert pi[0] > pi[1]
    assert component_weights(np.full((1, 2), -np.inf), np.ones(1)).tolist() == [0.5, 0.5]


def test_bootstrap_weights_keep_the_total_and_leave_out_nothing_else() -> None:
    table = Table.of([[0, 1], [1, 0], [1, 1]], [2.0, 0.0, 5.0])
    draws = bootstrap_weights(table, np.random.default_rng(0))
    assert draws.sum() == pytest.approx(7.0)
    assert draws[1] == 0.0
    assert (draws[[0, 2]] > 0).all()


def test_clusters_ignore_missing_values() -> None:
    rng = np.random.default_rng(0)
    table = random_table(rng, 50, [2, 3, 2], missing=0.3)
    posterior = soft_clusters(table, 3, rng)
    assert posterior.shape == (50, 3)
    assert posterior.sum(axis=1) == pytest.approx(np.ones(50))


def test_bad_options_are_named(table: Table) -> None:
    with pytest.raises(LearningError, match="diversity is 'bag': use one of bootstrap, clusters"):
        learn_mixture(table, 2, diversity="bag")  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="n_components is 0"):
        learn_mixture(table, 0)
    with pytest.raises(LearningError, match="methods is empty"):
        learn_mixture(table, 2, methods=())
    mixture = learn_mixture(table, 1, random_state=0)
    with pytest.raises(LearningError, match="there is a variable 'X0' already"):
        mixture.circuit("X0")


def test_weights_next_to_nothing_are_not_drawn_again() -> None:
    table = Table.of(np.zeros((3, 2), np.int16), np.full(3, 1e-300))
    drawn = bootstrap_weights(table, np.random.default_rng(0))
    assert np.array_equal(drawn, table.weights)
