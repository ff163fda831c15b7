"""Stability: refits by themselves give the same, flips are found, persons stay together."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fairpc import LatNB, stability
from fairpc.circuit import laplace, prepare
from fairpc.circuit._em import fit as fit_em
from fairpc.data import Table
from fairpc.datasets import make_synthetic
from fairpc.errors import FairpcError
from fairpc.metrics import stratified_folds
from fairpc.models._refits import Estimates, aligned_to
from models.refits_tables import drawn, naive, selected


def found(model: Any, **options: Any) -> Any:
    x, y, s, _ = drawn()
    usual = {"n_starts": 3, "n_folds": 3, "n_steps": 15, "random_state": 0}
    return stability(model, x, y, sensitive_features=s, **(usual | options))


@pytest.mark.parametrize("make", [naive, selected])
def test_starts_end_where_they_end_alone(make: Any) -> None:
    model, (x, y, s, _) = make(), drawn()
    record = found(model)
    distribution = model.distribution_
    circuit, layout = distribution.circuit, distribution.layout
    rng = np.random.default_rng(0)
    seed = int(rng.integers(2**31))
    fold = stratified_folds(s * 3 + y, 3, validation=0, seed=seed)[0]
    prior = laplace(circuit.graph, 1.0)
    if make is selected:
        prior[distribution.top.mechanism] = 30 * np.array([[0.9, 0.1], [0.1, 0.9]])
    codes = layout.codes(s, y, model.coding_.features.transform(x))
    whole = codes.copy()
    if layout.component is not None:  # all rows are from the heaviest component
        nothing = np.full((layout.n_components, codes.shape[1]), -1)
        nothing[:, -1] = np.arange(layout.n_components)
        codes[:, -1] = np.argmax(circuit.log_marginal(nothing))
    plan = prepare(circuit.graph, Table.of(codes[fold.fit], arities=circuit.arities))
    points = [circuit.parameters] + [circuit.graph.random(rng) for _ in range(3)]
    for start, run in zip(points, (record.model, *record.starts), strict=True):
        alone = fit_em(plan, start, prior=prior, max_iter=15, tol=0)
        assert run.objective == pytest.approx(alone.objective / len(fold.fit), abs=1e-9)
        assert run.log_likelihood == pytest.approx(alone.log_likelihood / len(fold.fit), abs=1e-9)
        held_out = circuit.with_parameters(alone.parameters).log_marginal(whole[fold.test])
        assert run.held_out == pytest.approx(held_out.mean(), abs=1e-9)
        theirs = np.sort(alone.parameters[distribution.top.mechanism].ravel())
        np.testing.assert_allclose(np.sort(run.mechanism.ravel()), theirs, atol=1e-9)


def test_a_fold_is_the_whole_fit_without_it() -> None:
    x, y, s, _ = drawn()
    model = LatNB(n_bins=3, max_iter=20).fit(x, y, sensitive_features=s)
    record = found(model)
    seed = int(np.random.default_rng(0).integers(2**31))
    for fold, run in zip(
        stratified_folds(s * 3 + y, 3, validation=0, seed=seed), record.folds, strict=True
    ):
        alone = LatNB(n_bins=3, max_iter=20).fit(
            x[fold.fit], y[fold.fit], sensitive_features=s[fold.fit]
        )
        np.testing.assert_allclose(run.mechanism, alone.bias_mechanism_, atol=1e-9)
        scores = alone.score_samples(x[fold.test], y[fold.test], sensitive_features=s[fold.test])
        assert run.held_out == pytest.approx(scores.mean(), abs=1e-9)


def test_starts_without_folds_hold_a_fifth_out() -> None:
    record = found(naive(), n_folds=0)
    assert record.folds == ()
    assert np.isnan(record.fold_spread).all()
    assert "folds" not in record.summary()
    same = found(naive(), n_folds=5)
    for alone, beside in zip(record.starts, same.starts, strict=True):
        assert alone.held_out == beside.held_out
        np.testing.assert_array_equal(alone.mechanism, beside.mechanism)
    assert json.loads(json.dumps(record.to_dict()))["folds"] == []


def test_words_have_points_and_a_true_minus() -> None:
    words = found(naive()).summary()
    assert f"by up to {100 * found(naive()).start_spread.max():.1f} percentage points" in words
    assert "held-out log-likelihood from −" in words
    assert "-0" not in words


def test_a_switched_group_is_found() -> None:
    """A table on which some random starts end with Df swapped in group 1, at higher likelihood."""
    data = make_synthetic(8, 4000, random_state=3)
    x, y, s = (np.asarray(v).astype(int) for v in (data.X, data.y, data.sensitive))
    model = LatNB(guard=False).fit(x, y, sensitive_features=s)
    record = stability(
        model, x, y, sensitive_features=s, n_starts=12, n_folds=2, n_steps=200, random_state=0
    )
    flipped = [run for run in record.starts if run.switched]
    assert flipped
    assert record.switched_starts == len(flipped)
    assert {run.switched for run in flipped} == {("1",)}
    assert any(run.objective > record.model.objective for run in flipped)
    words = record.summary()
    assert "likelihood does not show" in words
    assert "Prior knowledge or fair labels do" in words
    kept = [run.mechanism for run in record.starts if not run.switched]
    assert np.ptp(kept, axis=0).max() < record.start_spread.max()


def test_names_of_df_follow_the_reference() -> None:
    rng = np.random.default_rng(0)
    mechanism = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]])
    rate, group = np.array([0.6, 0.4]), np.array([0.5, 0.5])
    reference = Estimates(group[None], rate[None], mechanism[None])
    inside = mechanism.copy()
    inside[1] = inside[1, ::-1]
    moved = np.stack([mechanism, mechanism[:, ::-1], inside]) + 0.01 * rng.random((3, 2, 2, 2))
    some = Estimates(np.tile(group, (3, 1)), np.stack([rate, rate[::-1], rate]), moved)
    result = aligned_to(reference, some, named=False)
    assert result.permuted.tolist() == [False, True, False]
    assert result.switched.tolist() == [[False, False], [False, False], [False, True]]
    np.testing.assert_array_equal(result.fair_rate[1], rate)
    np.testing.assert_allclose(result.mechanism[1], mechanism, atol=0.02)
    named = aligned_to(reference, some, named=True)
    assert not named.permuted.any()
    np.testing.assert_array_equal(named.mechanism, some.mechanism)


def test_the_record_is_plain_data() -> None:
    record = found(naive())
    data = json.loads(json.dumps(record.to_dict()))
    assert len(data["starts"]) == len(data["folds"]) == 3
    assert data["folds"][0]["objective"] is None
    assert data["summary"] == record.summary()
    again = found(naive())
    np.testing.assert_array_equal(again.starts[2].mechanism, record.starts[2].mechanism)


def test_bad_input_is_told_so() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"n_starts": 1}, "n_starts is 1: give a whole number from 2 on"),
        ({"n_folds": True}, "n_folds is True"),
        ({"n_folds": False}, "n_folds is False"),
        ({"n_folds": 1}, "n_folds is 1: .* 0 leaves them out"),
        ({"clusters": np.arange(3)}, "1500 rows and 3 clusters"),
        ({"clusters": np.arange(1500) % 2}, "2 persons for 3 folds"),
    ]
    for options, message in bad:
        with pytest.raises(FairpcError, match=message):
            found(naive(), **options)
