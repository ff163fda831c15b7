"""Circuits of the cells: their parameters from counts, shrunk towards marginals."""

from __future__ import annotations

import numpy as np

from fair.tables import biased_rows, random_rows
from fairpc.circuit.em import objective
from fairpc.fair.component import SINGLE, TREES, Counted, learn_component
from fairpc.fair.start import Structure, cells_of


def test_parameters_forget_the_completions_they_came_from() -> None:
    cells = cells_of(random_rows(6, 300, 2, 2, 0.3))
    learned = learn_component(SINGLE, cells, None, Structure(), 5.0, np.random.default_rng(0))
    refined = Counted.of(learned, cells, 5.0).shrunk(5.0)
    for i, table in enumerate(cells):
        prior = 5.0 * learned.base.circuits[i].parameters
        before, after = (
            objective(float(table.weights @ c.log_marginal(table.codes)), c.parameters, prior)
            for c in (learned.circuits[i], refined.circuits[i])
        )
        assert after >= before


def test_counts_serve_every_strength() -> None:
    """On complete rows the parameters from counts are those of a search with that strength."""
    cells = cells_of(biased_rows(0, 200))
    rng = np.random.default_rng(0)
    counted = Counted.of(learn_component(SINGLE, cells, None, Structure(), 1.0, rng), cells, 1.0)
    for strength in (0.5, 5.0, 20.0):
        again = learn_component(SINGLE, cells, None, Structure(), strength, rng)
        for ours, theirs in zip(counted.shrunk(strength).circuits, again.circuits, strict=True):
            np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-12)
        for ours, theirs in zip(
            counted.component.shrunk(strength).circuits, again.circuits, strict=True
        ):
            np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-12)


def test_without_rows_a_tree_is_the_product_of_the_marginals() -> None:
    """What parameters are shrunk towards: features independent within the cell."""
    cells = cells_of(biased_rows(1, 300))
    trees = learn_component(TREES, cells, None, Structure(), 1.0, np.random.default_rng(0))
    every = np.array(list(np.ndindex((2,) * 5)), np.int16)
    for circuit, table in zip(trees.base.circuits, cells, strict=True):
        ones = (table.weights @ table.codes + 0.5) / (table.total_weight + 1.0)
        expected = np.prod(np.where(every == 1, ones, 1.0 - ones), axis=1)
        np.testing.assert_allclose(np.exp(circuit.log_marginal(every)), expected, atol=1e-12)
