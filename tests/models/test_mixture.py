"""Components mixed inside each cell, and how strongly their parameters are shrunk."""

from __future__ import annotations

import numpy as np
import pytest

from fairpc.models import Rows
from fairpc.models._components import TREES, DistinctRows, choose_strength, learn_component
from fairpc.models._fit import Structure, label_cells
from fairpc.models._rows import hold_out
from fairpc.models._selection import Stage, fit_auto
from models.tables import SHORT, biased_rows


def test_a_mixture_has_the_weights_it_was_given() -> None:
    rows = biased_rows(17, 300)
    stages: list[Stage] = []
    fitted = fit_auto(rows, options=SHORT, n_components=3, refit=False, callback=stages.append)
    m = fitted.distribution
    assert m.layout.component is not None
    nothing = np.full((1, len(m.layout.variables)), -1)
    shares = m.circuit.posterior(m.layout.component, nothing)[0]
    assert fitted.choices is not None
    np.testing.assert_allclose(shares, fitted.choices.weights, atol=1e-12)
    if not fitted.choices.clusters_gain > 0:
        assert fitted.choices.components[0] == "a tree for each cell, split by gain"


def test_few_rows_are_shrunk_more() -> None:
    rng = np.random.default_rng(0)

    def chosen(n: int) -> float:
        s, d = rng.integers(0, 2, (2, n))
        x = rng.integers(0, 4, (n, 6))
        x[:, 1] = np.where(rng.random(n) < 0.5, x[:, 0], x[:, 1])
        train, held = hold_out(Rows.of(s, d, x), 0.1, rng)
        return choose_strength(DistinctRows.of(train), DistinctRows.of(held), 1.0, rng)[0]

    assert chosen(200) == 20.0
    train, held = (DistinctRows.of(r) for r in hold_out(biased_rows(2, 500), 0.1, rng))
    assert choose_strength(train, held, 0.0, rng) == (0.0, {})
    strength, scores = choose_strength(train, held, 0.5, rng)
    assert list(scores) == [0.5, 2.5, 10.0]
    assert strength == max(scores, key=lambda k: scores[k])


def test_a_search_over_held_out_parts_is_the_definition() -> None:
    """Many rows: the score of a strength is the mean log P(x | d, s) of the validation rows."""
    rng = np.random.default_rng(0)
    train, held = biased_rows(3, 6000), biased_rows(4, 500)
    scores = choose_strength(DistinctRows.of(train), DistinctRows.of(held), 1.0, rng)[1]
    for strength, score in scores.items():
        trees = learn_component(TREES, label_cells(train), None, Structure(), strength, rng)
        total = sum(
            c.log_marginal(t.codes).sum()
            for c, t in zip(trees.circuits, label_cells(held), strict=True)
        )
        assert score == pytest.approx(total / 500, abs=1e-10)
