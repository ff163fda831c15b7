"""Clusters of rows inside each cell."""

from __future__ import annotations

import numpy as np
import pytest

from fair.tables import SHORT, biased_rows, largest_dependence
from fairpc.fair.clusters import learn_clusters
from fairpc.fair.recipe import fit_auto
from fairpc.fair.rows import Rows
from fairpc.fair.start import Structure, cells_of


def test_clusters_share_out_their_cell() -> None:
    cells = cells_of(biased_rows(5, 400))
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
    assert fitted.choices.clusters_gain > 0
    assert "Clusters of rows were taken" in str(fitted.choices)
    assert max(largest_dependence(fitted.distribution)) < 1e-9
    assert sum(fitted.choices.weights) == pytest.approx(1.0)
