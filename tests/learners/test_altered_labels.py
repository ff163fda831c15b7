"""Learners of Df at a known mechanism: derivatives, trees and linear log odds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairpc.core import Array
from fairpc.learners import AlteredLabels, BoostedOdds, LinearOdds, _boosting as boosting
from fairpc.learners._kernels import corrected_gradients, corrected_loss
from fairpc.learners._linear import PENALTY, class_shares
from learners import oracle_learners

BENT = np.array([[[0.9, 0.1], [0.05, 0.95]], [[0.98, 0.02], [0.4, 0.6]]])
STRAIGHT = np.eye(2)[None]


def drawn(seed: int, n: int, n_kinds: int) -> tuple[Array, AlteredLabels]:
    """Log odds of rows, and rows of random mechanisms."""
    rng = np.random.default_rng(seed)
    mechanism = rng.dirichlet(np.ones(2), (n_kinds, 2))
    rows = AlteredLabels.of(
        rng.integers(0, 2, n),
        rng.random(n) + 0.5,
        rng.integers(0, n_kinds, n),
        mechanism,
    )
    return rng.normal(size=n), rows


def test_the_loss_is_that_of_the_definition_and_slopes_are_its_derivatives() -> None:
    odds, rows = drawn(2, 7, 3)
    slope, bend = np.empty((2, 7))
    corrected_gradients(np.exp(odds), *rows.given, slope, bend)
    at = oracle_learners.loss(odds, *rows.given)
    assert corrected_loss(np.exp(odds), *rows.given) == pytest.approx(at, rel=1e-12)
    for place in range(7):
        moved = [odds.copy(), odds.copy()]
        moved[0][place] -= 1e-5
        moved[1][place] += 1e-5
        low, high = (oracle_learners.loss(o, *rows.given) for o in moved)
        assert slope[place] == pytest.approx((low - high) / 2e-5, abs=1e-8)
    assert (bend >= 0).all()


def test_the_curvature_is_what_labels_of_the_model_have_on_average() -> None:
    odds, rows = drawn(0, 6, 2)
    q = 1 / (1 + np.exp(-odds))
    told = np.einsum("rf,rfd->rd", np.column_stack([1 - q, q]), rows.mechanism[rows.kind])
    expected = np.zeros(6)
    bend = np.empty(6)
    for d in (0, 1):
        slope = np.empty(6)
        same = np.full(6, d, np.int64)
        corrected_gradients(np.exp(odds), same, np.ones(6), rows.kind, rows.mechanism, slope, bend)
        expected += told[:, d] * slope**2
    np.testing.assert_allclose(bend, expected, rtol=1e-10)


def bent(seed: int, n: int) -> tuple[Array, Array, Array, Array]:
    """Codes, groups, Df by a curve of three columns, and D bent from it."""
    rng = np.random.default_rng(seed)
    s, x = rng.integers(0, 2, n), rng.integers(0, 8, (n, 5)).astype(np.int16)
    z = np.sin(x[:, 0] * 1.3) * 2 + (x[:, 1] > 3) * 2.0 - x[:, 2] / 3.0
    f = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int16)
    d = (rng.random(n) < BENT[s, f, 1]).astype(np.int16)
    return np.column_stack([x, s]).astype(np.int16), s.astype(np.int16), f, d


def boosted(codes: Array, kind: Array, d: Array, mechanism: Array) -> BoostedOdds:
    arities, named = np.array([8] * 5 + [2]), np.zeros(6, np.bool_)
    rows = AlteredLabels.of(d, np.ones(len(d)), kind, mechanism)
    return BoostedOdds.learned(codes, rows, arities, named, np.random.default_rng(0))


def test_a_learner_that_knows_the_mechanism_finds_more_of_df() -> None:
    codes, s, _, d = bent(0, 4000)
    new_codes, _, new_f, _ = bent(1, 8000)
    plain = boosted(codes, np.zeros_like(s), d, STRAIGHT).decided(new_codes)[:, 1]
    known = boosted(codes, s, d, BENT).decided(new_codes)[:, 1]
    assert roc_auc_score(new_f, known) > roc_auc_score(new_f, plain) + 0.02
    assert abs(known.mean() - new_f.mean()) < 0.03 < abs(plain.mean() - new_f.mean())


def test_rows_that_are_held_out_end_boosting(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, s, _, d = bent(2, 4000)
    made = boosted(codes, s, d, BENT)
    assert 5 < len(made.trees.values) < boosting.ROUNDS[1]
    monkeypatch.setattr(boosting, "EARLY_ROWS", 10**6)
    assert len(boosted(codes, s, d, BENT).trees.values) == boosting.ROUNDS[0]


def test_linear_log_odds_are_those_of_logistic_regression_where_nothing_is_bent() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 4))
    d = (rng.random(500) < 1 / (1 + np.exp(-table[:, 0] + table[:, 1]))).astype(np.int16)
    rows = AlteredLabels.of(d, np.ones(500), np.zeros_like(d), STRAIGHT)
    ours = LinearOdds.learned(table, rows)
    theirs = LogisticRegression(C=1 / PENALTY, tol=1e-8).fit(table, d)
    np.testing.assert_allclose(ours.coefficients, theirs.coef_[0], atol=0.01)
    np.testing.assert_allclose(ours.base, theirs.intercept_, atol=0.01)


def test_linear_log_odds_of_df_are_found_behind_altered_labels() -> None:
    rng = np.random.default_rng(3)
    n = 40_000
    table, s = rng.normal(size=(n, 2)), rng.integers(0, 2, n).astype(np.int16)
    f = (rng.random(n) < 1 / (1 + np.exp(-table @ [1.5, -1.0]))).astype(np.int16)
    d = (rng.random(n) < BENT[s, f, 1]).astype(np.int16)
    found = LinearOdds.learned(table, AlteredLabels.of(d, np.ones(n), s, BENT))
    np.testing.assert_allclose(found.coefficients, [1.5, -1.0], atol=0.1)


def test_the_rate_that_learners_start_from_fits_the_labels() -> None:
    rng = np.random.default_rng(1)
    mechanism = np.array([[0.85, 0.15], [0.15, 0.85]])
    f = rng.random(20_000) < 0.3
    d = (rng.random(20_000) < mechanism[f.astype(int), 1]).astype(np.int16)
    rows = AlteredLabels.of(d, np.ones(len(d)), np.zeros_like(d), mechanism[None])
    np.testing.assert_allclose(class_shares(np.array([rows.start()]))[0], [0.7, 0.3], atol=0.02)
