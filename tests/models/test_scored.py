"""Refits of a LatentDecision: under other assumptions, with the scores of its classifiers."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import Knowledge, LatentDecision, bootstrap_mechanism, sensitivity, stability
from fairpc.errors import LearningError
from fairpc.models import ScoredSubject, TableClassifier

TRUTH = np.array([[0.05, 0.95], [0.02, 0.6]])
"""P(D = 1 | Df, S), [s, f]."""


@cache
def table(n: int = 1200, seed: int = 0) -> tuple[pl.DataFrame, Any, Any, Any]:
    """Features, labels, groups and the fair decisions behind them."""
    rng = np.random.default_rng(seed)
    s, f = rng.integers(0, 2, n), (rng.random(n) < 0.4).astype(np.int64)
    d = (rng.random(n) < TRUTH[s, f]).astype(np.int64)
    x = pl.DataFrame({f"x{j}": np.round(rng.normal(1.6 * f, 1.0), 3) for j in range(3)})
    return x, np.array(["no", "yes"])[d], np.array(["g0", "g1"])[s], np.array(["no", "yes"])[f]


@cache
def model() -> LatentDecision:
    x, y, s, _ = table()
    found = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    return found.fit(x, y, sensitive_features=s)


def test_there_is_no_interval_around_a_point_of_a_set() -> None:
    """What holds at 95 % is the range, and it has the truth in it."""
    x, y, s, _ = table()
    with pytest.raises(LearningError, match="use model.mechanism_range_, which holds at 95%"):
        bootstrap_mechanism(model(), x, y, sensitive_features=s)
    ranges = model().mechanism_range_
    assert (ranges[..., 0] <= TRUTH).all()
    assert (ranges[..., 1] >= TRUTH).all()


def test_other_rows_or_another_order_are_refused() -> None:
    x, y, s, _ = table()
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        sensitivity(model(), x[::-1], y[::-1], sensitive_features=s[::-1])
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        sensitivity(model(), x[:900], y[:900], sensitive_features=s[:900])


def test_without_folds_it_is_refused() -> None:
    x, y, s, _ = table()
    loaded = copy(model())
    del loaded.folds_
    with pytest.raises(LearningError, match="loaded from a file, which does not say what fold"):
        sensitivity(loaded, x, y, sensitive_features=s)


def test_cross_fitted_scores_are_those_of_the_fit() -> None:
    x, y, s, _ = table()
    scored = model().cross_fitted(x, y, sensitive_features=s)
    assert model().score_map_.to_dict() == (
        ScoredSubject(model(), scored).learned(scored, None).to_dict()
    )


def test_a_positive_class_that_is_the_first_changes_nothing() -> None:
    x, y, s, _ = table()
    turned = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0, positive="no")
    turned.fit(x, y, sensitive_features=s)
    record = sensitivity(turned, x, y, sensitive_features=s, fair_rates=[0.5])
    np.testing.assert_array_equal(record.mechanism, turned.bias_mechanism_)
    np.testing.assert_allclose(record.mechanism, model().bias_mechanism_, atol=0.1)


def bent(**options: Any) -> Any:
    x, y, s, _ = table()
    return sensitivity(model(), x, y, sensitive_features=s, **options)


def test_nothing_new_changes_nothing() -> None:
    record = bent(knowledge={"what is true anyway": Knowledge(fair_rate=(0.0, 1.0))})
    (one,) = record.bent
    np.testing.assert_array_equal(record.mechanism, model().bias_mechanism_)
    assert one.log_likelihood_lost == pytest.approx(0, abs=1e-6)
    assert one.score_shift_max == pytest.approx(0, abs=1e-4)
    assert "the model's classifiers" in record.summary()


def test_another_rate_moves_scores_and_is_that_of_a_fit_with_it() -> None:
    x, y, s, _ = table()
    record = bent(fair_rates=[0.5, 0.9])
    near, far = record.bent
    alone = LatentDecision(
        TableClassifier("logistic"), cv=3, random_state=0, knowledge=Knowledge(fair_rate=0.5)
    ).fit(x, y, sensitive_features=s)
    np.testing.assert_allclose(near.mechanism, alone.bias_mechanism_, atol=1e-12)
    np.testing.assert_allclose(near.fair_rate, [0.5, 0.5])
    assert near.score_shift_mean > 0.02
    assert 0.8 < near.rank_correlation < 1
    # Far beyond what the labels allow, P(D = 1 | Df = 1) must be small.
    assert far.log_likelihood_lost > max(near.log_likelihood_lost, 0.05)


def test_fair_labels_are_one_more_assumption() -> None:
    _, _, _, f = table()
    known = np.where(np.arange(len(f)) < 60, f, None)
    record = bent(fair_labels=known)
    (one,) = record.bent
    assert one.name == "60 fair labels known"
    np.testing.assert_array_equal(record.mechanism, model().bias_mechanism_)


def test_random_starts_are_refused() -> None:
    x, y, s, _ = table()
    with pytest.raises(LearningError, match="has no random starts: mechanism_range_"):
        stability(model(), x, y, sensitive_features=s)
