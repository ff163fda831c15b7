"""Clusters of rows, and weights of components whose likelihoods are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Table
from fairpc.structure import component_weights, soft_clusters
from structure.tables import random_table


def test_clusters_find_the_parts_of_a_mixture() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 2000)
    rows = (rng.random((2000, 6)) < np.where(z, 0.85, 0.15)[:, None]).astype(int)
    posterior = soft_clusters(Table.of(rows), 2, np.random.default_rng(0))
    hits = ((posterior[:, 0] > 0.5) == z).mean()
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


def test_clusters_ignore_missing_values() -> None:
    rng = np.random.default_rng(0)
    table = random_table(rng, 50, [2, 3, 2], missing=0.3)
    posterior = soft_clusters(table, 3, rng)
    assert posterior.shape == (50, 3)
    assert posterior.sum(axis=1) == pytest.approx(np.ones(50))
