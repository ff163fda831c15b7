"""Refits of a LatentDecision: rows with the scores of its classifiers are drawn, or bent."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import Knowledge, LatentDecision, bootstrap_mechanism, sensitivity, stability
from fairpc.errors import LearningError
from fairpc.evidence import AssumptionTest, test_assumptions
from fairpc.models import ScoredSubject, TableClassifier
from fairpc.models._score_map_fit import ScoredRows

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


@cache
def not_rejected() -> AssumptionTest:
    x, y, s, _ = table()
    found = test_assumptions(x.to_numpy(), y, s, classifier="logistic", n_seeds=1)
    assert not found.rejected
    return found


def found(**options: Any) -> Any:
    x, y, s, _ = table()
    given: dict[str, Any] = {"n_replicates": 30, "random_state": 0, "assumptions": not_rejected()}
    given |= options
    return bootstrap_mechanism(model(), x, y, sensitive_features=s, **given)


def test_intervals_are_around_the_model_and_reach_the_truth() -> None:
    record = found()
    np.testing.assert_array_equal(record.mechanism, model().bias_mechanism_)
    np.testing.assert_array_equal(record.fair_rate, model().fair_rate_)
    assert record.moved == 0
    assert record.n_steps == 0
    assert record.n_replicates == 30
    assert (record.lower <= record.mechanism).all()
    assert (record.mechanism <= record.upper).all()
    assert (np.abs(record.mechanism[:, :, 1] - TRUTH) < 0.2).all()
    assert 0 < record.sd.max() < 0.2
    assert "classifiers and assumptions are taken as given" in record.summary()
    assert "the truth may be elsewhere in the identified set" in record.summary()
    np.testing.assert_array_equal(record.replicates, found().replicates)


def test_a_draw_is_that_of_the_rows_one_by_one() -> None:
    """Two draws by hand: the map of the rows, each as often as it was drawn."""
    x, y, s, _ = table()
    subject = ScoredSubject(model(), model().cross_fitted(x, y, sensitive_features=s))
    scored, rng = subject.scored, np.random.default_rng(0)
    n = scored.rows.n_rows
    for expected in found(n_replicates=2).replicates:
        at = np.sort(rng.integers(n, size=n))
        drawn = ScoredRows(scored.rows.take(at), scored.scores[at], scored.folds[at], 1)
        mechanism = subject.learned(drawn, None).rates(1).mechanism
        np.testing.assert_allclose(mechanism, expected, atol=1e-9)


def test_a_person_drawn_twice_counts_as_two() -> None:
    x, y, s, _ = table()
    scored = model().cross_fitted(x, y, sensitive_features=s)
    persons = np.arange(len(y)) // 2
    some = ScoredRows(scored.rows, scored.scores, scored.folds, 1, persons)
    times = np.zeros(len(y), np.int64)
    times[[0, 1, 4, 5]] = 2, 2, 1, 1
    drawn = some.drawn(times)
    assert drawn.rows.n_rows == 6
    assert drawn.persons is not None
    assert drawn.persons.tolist() == [0, 1, 0, 1, 2, 2]


def test_persons_are_drawn_whole() -> None:
    """The same rows twice, with persons: twice the rows say no more than once."""
    x, y, s, _ = table()
    persons = np.tile(np.arange(len(y)), 2)
    twice, labels, groups = pl.concat([x, x]), np.tile(y, 2), np.tile(s, 2)
    again = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    again.fit(twice, labels, sensitive_features=groups, clusters=persons)
    given: dict[str, Any] = {"sensitive_features": groups, "n_replicates": 40}
    given |= {"random_state": 0, "assumptions": not_rejected()}
    alone = bootstrap_mechanism(again, twice, labels, **given)
    whole = bootstrap_mechanism(again, twice, labels, clusters=persons, **given)
    assert whole.sd.mean() > 1.15 * alone.sd.mean()


def test_a_model_whose_labels_contradict_it_has_no_intervals() -> None:
    x, y, s, _ = table()
    rejected = replace(not_rejected(), rejected=True, lower=0.6, upper=0.4)
    assert found(assumptions=rejected).summary().startswith("No intervals. The data reject the")
    warned = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    warned.fit(x, y, sensitive_features=s)
    warned.warnings_ = ("The labels contradict the assumptions.",)
    options: dict[str, Any] = {"n_replicates": 5, "assumptions": not_rejected()}
    record = bootstrap_mechanism(warned, x, y, sensitive_features=s, **options)
    assert record.refused == "The fit warned: The labels contradict the assumptions."
    assert np.isnan(record.lower).all()
    assert record.n_replicates == 0


def test_where_d_equals_df_was_kept_there_are_no_intervals() -> None:
    x, _, s, f = table()
    straight = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    straight.fit(x, f, sensitive_features=s)
    assert straight.score_map_.straight
    options: dict[str, Any] = {"n_replicates": 5, "assumptions": not_rejected()}
    record = bootstrap_mechanism(straight, x, f, sensitive_features=s, **options)
    assert "do not reject D = Df" in str(record.refused)
    assert record.summary().startswith("No intervals. The labels do not reject D = Df")


def test_other_rows_or_another_order_are_refused() -> None:
    x, y, s, _ = table()
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        bootstrap_mechanism(model(), x[::-1], y[::-1], sensitive_features=s[::-1])
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        bootstrap_mechanism(model(), x[:900], y[:900], sensitive_features=s[:900])


def test_without_folds_it_is_refused() -> None:
    x, y, s, _ = table()
    loaded = copy(model())
    del loaded.folds_
    with pytest.raises(LearningError, match="loaded from a file, which does not say what fold"):
        bootstrap_mechanism(loaded, x, y, sensitive_features=s)


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
    options: dict[str, Any] = {"n_replicates": 5, "assumptions": not_rejected()}
    record = bootstrap_mechanism(turned, x, y, sensitive_features=s, **options)
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
    with pytest.raises(LearningError, match="has no random starts: bootstrap_mechanism"):
        stability(model(), x, y, sensitive_features=s)
