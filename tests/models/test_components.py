"""Components: soft cells, circuits of the cells with parameters from counts, clusters of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fairpc.circuit import log_prior
from fairpc.models import Rows
from fairpc.models._components import (
    SINGLE,
    TREES,
    DistinctRows,
    cell_posterior,
    learn_clusters,
    learn_component,
    soft_cells,
)
from fairpc.models._fit import Options, Structure, fit, label_cells
from fairpc.models._selection import fit_auto
from models.tables import (
    SHORT,
    biased_rows,
    largest_dependence,
    log_likelihood,
    random_rows,
    rows_of_any_kind,
)
from strategies import examples


def test_parameters_forget_the_completions_they_came_from() -> None:
    cells = label_cells(random_rows(6, 300, 2, 2, 0.3))
    learned = learn_component(SINGLE, cells, None, Structure(), 5.0, np.random.default_rng(0))
    refined = learned.with_counts(learned.counts(cells, 5.0), 5.0)
    for i, table in enumerate(cells):
        prior = 5.0 * learned.base.circuits[i].parameters
        before, after = (
            float(table.weights @ c.log_marginal(table.codes)) + log_prior(c.parameters, prior)
            for c in (learned.circuits[i], refined.circuits[i])
        )
        assert after >= before


def test_counts_serve_every_strength() -> None:
    """On complete rows the parameters from counts are those of a search with that strength."""
    cells = label_cells(biased_rows(0, 200))
    rng = np.random.default_rng(0)
    learned = learn_component(SINGLE, cells, None, Structure(), 1.0, rng)
    counts = learned.counts(cells, 1.0)
    for strength in (0.5, 5.0, 20.0):
        again = learn_component(SINGLE, cells, None, Structure(), strength, rng)
        for found in (learned.with_counts(counts, strength), learned.shrunk(strength)):
            for ours, theirs in zip(found.circuits, again.circuits, strict=True):
                np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-12)


def test_without_rows_a_tree_is_the_product_of_the_marginals() -> None:
    """What parameters are shrunk towards: features independent within the cell."""
    cells = label_cells(biased_rows(1, 300))
    trees = learn_component(TREES, cells, None, Structure(), 1.0, np.random.default_rng(0))
    every = np.array(list(np.ndindex((2,) * 5)), np.int16)
    for circuit, table in zip(trees.base.circuits, cells, strict=True):
        ones = (table.weights @ table.codes + 0.5) / (table.total_weight + 1.0)
        expected = np.prod(np.where(every == 1, ones, 1.0 - ones), axis=1)
        np.testing.assert_allclose(np.exp(circuit.log_marginal(every)), expected, atol=1e-12)


@settings(max_examples=examples(30), deadline=None)
@given(rows_of_any_kind())
def test_soft_cells_share_out_every_row(rows: Rows) -> None:
    part = DistinctRows.of(rows)
    assert part.rows.weights.sum() == pytest.approx(rows.weights.sum())
    m = fit("FairPC", rows, options=Options(structure=Structure("chow-liu"), max_iter=3))
    logs, posterior = cell_posterior(m.distribution, part.rows, part.places)
    np.testing.assert_allclose(logs, log_likelihood(m.distribution, part.rows), atol=1e-9)
    cells = soft_cells(part.rows, part.places, posterior)
    assert sum(t.total_weight for t in cells) == pytest.approx(rows.weights.sum())
    known = (rows.s >= 0) & (rows.d >= 0)
    for s in range(rows.n_groups):
        mine = sum(cells[f * rows.n_groups + s].total_weight for f in range(rows.n_classes))
        assert mine >= rows.weights[known & (rows.s == s)].sum() - 1e-9


def test_soft_cells_of_a_certain_model_are_the_cells() -> None:
    rows = biased_rows(15, 200)
    part = DistinctRows.of(rows)
    hard = np.eye(2)[part.places.d]
    for soft, cell in zip(soft_cells(part.rows, part.places, hard), label_cells(rows), strict=True):
        assert soft.total_weight == cell.total_weight
        np.testing.assert_allclose(soft.weights @ soft.codes, cell.weights @ cell.codes)


def test_clusters_share_out_their_cell() -> None:
    cells = label_cells(biased_rows(5, 400))
    components, shares = learn_clusters(cells, 3, Structure(), 5.0, np.random.default_rng(0))
    assert len(components) == 3
    assert shares.shape == (4, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert all(c.kind.clusters for c in components)


def test_clusters_are_taken_where_the_cells_have_them() -> None:
    """Two kinds of rows in each cell, no tree over the features tells them."""
    rng = np.random.default_rng(0)
    n = 4000
    s, d, kind = rng.integers(0, 2, (3, n))
    x = np.where(rng.random((n, 8)) < 0.15, 1 - kind[:, None], kind[:, None])
    fitted = fit_auto(Rows.of(s, d, x), options=SHORT, n_components=2)
    assert fitted.choices is not None
    assert fitted.choices.clusters_gain > 0
    assert "Clusters of rows were taken" in str(fitted.choices)
    assert max(largest_dependence(fitted.distribution)) < 1e-9
    assert sum(fitted.choices.weights) == pytest.approx(1.0)
