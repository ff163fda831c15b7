"""Soft cells: the rows of each (f, s), weighted by their posterior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fairpc.models import Rows
from fairpc.models._fit import Options, Structure, fit, label_cells
from fairpc.models._soft_cells import DistinctRows, cell_posterior, soft_cells
from models.tables import biased_rows, rows_of_any_kind
from strategies import examples


@settings(max_examples=examples(30), deadline=None)
@given(rows_of_any_kind())
def test_soft_cells_share_out_every_row(rows: Rows) -> None:
    part = DistinctRows.of(rows)
    assert part.rows.weights.sum() == pytest.approx(rows.weights.sum())
    m = fit("FairPC", rows, options=Options(structure=Structure("chow-liu"), max_iter=3))
    posterior = cell_posterior(m.distribution, part.rows, part.places)
    np.testing.assert_allclose(np.bincount(part.places.row, posterior.sum(axis=1)), 1.0)
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
