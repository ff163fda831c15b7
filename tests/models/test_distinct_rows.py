"""Rows held out to decide."""

from __future__ import annotations

import numpy as np
import pytest

from fairpc.models import Rows
from fairpc.models._rows import hold_out
from models.tables import biased_rows


@pytest.mark.parametrize("whole", [True, False])
def test_a_part_of_every_label_and_group_is_held_out(whole: bool) -> None:
    rows = biased_rows(16, 2000)
    weights = np.arange(2000) % 4 * (1.0 if whole else 0.3)
    rows = Rows.of(rows.s, rows.d, rows.x, weights=weights)
    train, held = hold_out(rows, 0.2, np.random.default_rng(0))
    assert train.weights.sum() + held.weights.sum() == pytest.approx(rows.weights.sum())
    for d in range(2):
        for s in range(2):
            n, m = (r.weights[(r.d == d) & (r.s == s)].sum() for r in (rows, held))
            assert m / n == pytest.approx(0.2, abs=0.5 / n + 1e-9 if whole else 0.03)


def test_one_row_at_least_is_held_out() -> None:
    rows = Rows.of([0, 1, 1], [0, 1, 0], [[0], [1], [0]])
    train, held = hold_out(rows, 0.1, np.random.default_rng(0))
    assert (train.n_rows, held.n_rows) == (2, 1)
