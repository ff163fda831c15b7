"""The recipe: exact independencies whatever it chooses, choices on validation rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fairpc.errors import LearningError
from fairpc.models import Rows
from fairpc.models._rows import hold_out, joined
from fairpc.models._selection import Stage, fit_auto
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
    for n_components in (1, 3):
        fitted = fit_auto(rows, options=SHORT, n_components=n_components)
        m = fitted.distribution
        assert m.layout.n_components == n_components
        assert max(largest_dependence(m)) < 1e-9
        assert m.parity_gap().max() < 1e-9
        assert np.isfinite(log_likelihood(m, rows)).all()
        assert m.circuit.properties().deterministic


def test_three_groups_and_three_classes_with_holes_and_weights() -> None:
    rows = random_rows(3, 400, 3, 3, 0.2)
    fitted = fit_auto(rows, options=SHORT)
    m = fitted.distribution
    assert m.mechanism.shape == (3, 3, 3)
    np.testing.assert_allclose(m.mechanism.sum(axis=2), 1.0)
    assert max(largest_dependence(m)) < 1e-9


def test_a_cell_without_rows() -> None:
    rows = biased_rows(0, 300)
    empty = (rows.s == 1) & (rows.d == 1)
    m = fit_auto(rows.take(np.flatnonzero(~empty)), options=SHORT).distribution
    assert max(largest_dependence(m)) < 1e-9


@pytest.mark.parametrize("n_components", [None, 1, 4])
def test_the_same_seed_gives_the_same_model(n_components: int | None) -> None:
    rows = biased_rows(1, 600)
    one, two = (
        fit_auto(rows, options=SHORT, n_components=n_components).distribution.circuit
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.graph.child, two.graph.child)


def test_other_seeds_hold_out_other_rows() -> None:
    rows = biased_rows(1, 600)
    held = [hold_out(rows, 0.1, np.random.default_rng(seed))[1] for seed in (0, 1)]
    assert not np.array_equal(held[0].x, held[1].x)


def test_weights_count_as_copies() -> None:
    rows = biased_rows(2, 400)
    validation = biased_rows(3, 100)
    copies = np.arange(400) % 3
    weighted = Rows.of(rows.s, rows.d, rows.x, weights=copies)
    repeated = rows.take(np.repeat(np.arange(400), copies))
    one, two = (
        fit_auto(r, validation=validation, options=SHORT, n_components=1).distribution
        for r in (weighted, repeated)
    )
    np.testing.assert_allclose(
        log_likelihood(one, rows), log_likelihood(two, rows), rtol=0, atol=1e-9
    )


def test_validation_rows_decide_and_enter_the_refit_alone() -> None:
    rows, validation = biased_rows(7, 800), biased_rows(8, 200)
    others = biased_rows(9, 200)
    single = [
        fit_auto(rows, validation=v, options=SHORT, n_components=1, refit=False)
        for v in (validation, others)
    ]
    choices = [fitted.choices for fitted in single]
    assert choices[0] is not None
    assert choices[1] is not None
    if choices[0].start == choices[1].start:
        np.testing.assert_array_equal(
            single[0].distribution.circuit.parameters, single[1].distribution.circuit.parameters
        )
    assert choices[0].single_score != choices[1].single_score
    refitted = fit_auto(rows, validation=validation, options=SHORT, n_components=1)
    assert refitted.choices is not None
    assert refitted.choices.refitted
    weight = 1000 + SHORT.smoothing
    share = joined(rows, validation).s.mean() * 1000 + 0.5
    assert refitted.distribution.group_rate[1] == pytest.approx(share / weight)


def test_an_impostor_structure_loses_on_validation_rows() -> None:
    """Independent features: nothing is gained by a mixture, the single circuit stays."""
    rng = np.random.default_rng(0)
    s, d = rng.integers(0, 2, (2, 3000))
    fitted = fit_auto(Rows.of(s, d, rng.integers(0, 2, (3000, 4))), options=SHORT)
    choices = fitted.choices
    assert choices is not None
    taken = choices.mixture_gain > min(choices.standard_error, 0.01)
    assert (fitted.distribution.layout.n_components > 1 or bool(choices.dropped)) == taken


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_an_interrupt_keeps_the_best_so_far(after: int) -> None:
    stages: list[Stage] = []

    def interrupt(stage: Stage) -> None:
        stages.append(stage)
        if len(stages) == after:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted: the best model so far is returned"):
        fitted = fit_auto(biased_rows(11, 400), options=SHORT, callback=interrupt)
    best = max(stages, key=lambda stage: stage.score)
    assert fitted.distribution is best.fitted.distribution
    assert fitted.choices is not None
    assert fitted.choices.interrupted
    assert "interrupted" in str(fitted.choices)


def test_an_interrupt_of_em_ends_the_recipe() -> None:
    stages: list[Stage] = []

    def interrupt(step: object) -> None:
        if len(stages) == 2:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="start from"):
        fit_auto(biased_rows(11, 400), options=SHORT, callback=stages.append, on_step=interrupt)
    assert len(stages) == 2


def test_an_interrupt_before_any_model_goes_through() -> None:
    def interrupt(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_auto(biased_rows(11, 400), options=SHORT, on_step=interrupt)


def test_random_start() -> None:
    options = replace(SHORT, init="random")
    m = fit_auto(biased_rows(12, 300), options=options).distribution
    assert max(largest_dependence(m)) < 1e-9


def test_no_smoothing() -> None:
    rows = biased_rows(13, 400)
    m = fit_auto(rows, options=replace(SHORT, smoothing=0.0)).distribution
    assert np.isfinite(m.circuit.parameters).all()


def test_refuses() -> None:
    rows = biased_rows(14, 100)
    with pytest.raises(LearningError, match="n_components is 0"):
        fit_auto(rows, n_components=0)
    with pytest.raises(LearningError, match="validation_fraction is 1"):
        fit_auto(rows, validation_fraction=1.0)
    with pytest.raises(LearningError, match="differ in groups, classes or features"):
        fit_auto(rows, validation=random_rows(0, 50, 3, 2, 0.0))
