"""Automatic selection of circuits: one round of structural EM, with exact independencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fairpc.circuit import EMStep
from fairpc.datasets import make_synthetic
from fairpc.errors import InterruptedWarning
from fairpc.models import Rows
from fairpc.models._selection import AUTO, fit_auto, fit_trees
from fairpc.models._soft_cells import DistinctRows
from models.tables import (
    SHORT,
    biased_rows,
    largest_dependence,
    log_likelihood,
    random_rows,
    rows_of_any_kind,
)
from strategies import examples


@settings(max_examples=examples(15), deadline=None)
@given(rows_of_any_kind())
def test_independencies_are_exact_for_any_rows(rows: Rows) -> None:
    m = fit_auto(rows, options=SHORT).distribution
    assert max(largest_dependence(m)) < 1e-9
    assert m.parity_gap().max() < 1e-9
    assert np.isfinite(log_likelihood(m, rows)).all()
    assert m.circuit.properties().deterministic


def test_three_groups_and_three_classes_with_holes_and_weights() -> None:
    rows = random_rows(3, 400, 3, 3, 0.2)
    m = fit_auto(rows, options=SHORT).distribution
    assert m.mechanism.shape == (3, 3, 3)
    np.testing.assert_allclose(m.mechanism.sum(axis=2), 1.0)
    assert max(largest_dependence(m)) < 1e-9


def test_a_cell_without_rows() -> None:
    rows = biased_rows(0, 300)
    empty = (rows.s == 1) & (rows.d == 1)
    m = fit_auto(rows.take(np.flatnonzero(~empty)), options=SHORT).distribution
    assert max(largest_dependence(m)) < 1e-9


def test_the_same_seed_gives_the_same_model() -> None:
    rows = random_rows(1, 400, 2, 2, 0.2)
    one, two = (fit_auto(rows, options=SHORT).distribution.circuit for _ in range(2))
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.graph.child, two.graph.child)


def test_complete_rows_leave_nothing_to_chance() -> None:
    rows = biased_rows(1, 400)
    one, two = (
        fit_auto(rows, options=replace(SHORT, random_state=seed)).distribution.circuit
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(one.parameters, two.parameters)


def test_weights_count_as_copies() -> None:
    rows = biased_rows(2, 400)
    copies = np.arange(400) % 3
    weighted = Rows.of(rows.s, rows.d, rows.x, weights=copies)
    repeated = rows.take(np.repeat(np.arange(400), copies))
    one, two = (fit_auto(r, options=SHORT) for r in (weighted, repeated))
    np.testing.assert_allclose(
        log_likelihood(one.distribution, rows),
        log_likelihood(two.distribution, rows),
        rtol=0,
        atol=1e-9,
    )
    assert one.choices == two.choices


def test_steps_are_seen_and_kept() -> None:
    rows, seen = biased_rows(4, 600), list[EMStep]()
    fitted = fit_auto(rows, on_step=seen.append, options=SHORT)
    assert sum(step.iteration == 0 for step in seen) == 2  # EM of the trees, and of the round
    np.testing.assert_allclose(fitted.history["mechanism"][-1], fitted.distribution.mechanism)
    assert (np.diff(fitted.history["objective"]) > -1e-8).all()


def test_the_round_gains_on_trees_of_the_recorded_label() -> None:
    """Of biased labels a tree is that of a mixture; on rows that were not seen, too."""
    data = make_synthetic(10, 6000, random_state=0)
    s, d, x = (np.asarray(v).astype(int) for v in (data.sensitive, data.y, data.X))
    rows = Rows.of(s, d, x)
    train, test = rows.take(np.arange(4000)), rows.take(np.arange(4000, 6000))
    trees = fit_trees(train, AUTO, np.random.default_rng(0)).distribution
    circuits = fit_auto(train).distribution
    gain = log_likelihood(circuits, test).mean() - log_likelihood(trees, test).mean()
    assert gain > 0.005


def test_an_interrupt_of_the_round_gives_back_the_start() -> None:
    rows, starts = biased_rows(11, 400), 0

    def interrupt(step: EMStep) -> None:
        nonlocal starts
        starts += step.iteration == 0
        if starts == 2:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="the trees that structural EM starts from"):
        fitted = fit_auto(rows, options=SHORT, on_step=interrupt)
    merged = DistinctRows.of(rows).rows
    trees = fit_trees(merged, SHORT, np.random.default_rng(0)).distribution
    np.testing.assert_array_equal(fitted.distribution.circuit.parameters, trees.circuit.parameters)
    assert fitted.choices is not None
    assert fitted.choices.interrupted
    assert "interrupted" in str(fitted.choices)


def test_an_interrupt_before_any_model_goes_through() -> None:
    def interrupt(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_auto(biased_rows(11, 400), options=SHORT, on_step=interrupt)


def test_no_smoothing() -> None:
    rows = biased_rows(13, 400)
    m = fit_auto(rows, options=replace(SHORT, smoothing=0.0)).distribution
    assert np.isfinite(m.circuit.parameters).all()
