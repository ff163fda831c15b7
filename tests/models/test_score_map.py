"""From scores to Df: calibration, the line of each group, its shift, Bayes, and files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fairpc import Knowledge
from fairpc.core import Floats
from fairpc.data import fit_groups
from fairpc.errors import FileFormatError, LearningError
from fairpc.evidence import StratumBounds, label_bounds
from fairpc.learners import Calibration, calibrate
from fairpc.learners._calibration import isotonic_steps
from fairpc.models import Rows
from fairpc.models._score_map import ScoreMap, Subgroups
from fairpc.models._score_map_fit import ScoredRows, fit_score_map, within_limits
from strategies import examples

MECHANISM = np.array([[0.05, 0.9], [0.02, 0.6], [0.1, 0.8]])


def scored(
    n: int = 1500,
    seed: int = 0,
    *,
    n_groups: int = 2,
    positive: int = 1,
    weighted: bool = False,
    noise: float = 0.3,
) -> ScoredRows:
    """Rows whose Df is told by a score, P(Df) = .5, and labels bent by ``MECHANISM``."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, n_groups, n)
    z = rng.normal(0, 2.5, n)
    q = 1 / (1 + np.exp(-z))
    b0, b1 = MECHANISM[s].T
    d = (rng.random(n) < b0 + (b1 - b0) * q).astype(np.int16)
    # Off by a shift and a slope, and with noise: a classifier that is not calibrated.
    score = 1 / (1 + np.exp(-(0.7 * z - 0.5 + noise * rng.normal(size=n))))
    weights = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    rows = Rows(
        s.astype(np.int16),
        d if positive else 1 - d,
        np.zeros((n, 1), np.int16),
        weights,
        n_groups,
        2,
        np.array([1]),
        ("x",),
    )
    return ScoredRows(rows, score, rng.integers(0, 5, n), positive)


def fitted(rows: ScoredRows, **given: Any) -> ScoreMap:
    names = tuple(f"g{k}" for k in range(rows.rows.n_groups))
    return fit_score_map(rows, names, **given)


@st.composite
def labelled_scores(draw: st.DrawFn) -> tuple[Floats, Any, Floats]:
    """Scores with ties, labels of both classes, weights."""
    n = draw(st.integers(2, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.random(n)
    if draw(st.booleans()):
        scores = np.round(scores, draw(st.integers(0, 2)))
    labels = (rng.random(n) < scores ** draw(st.sampled_from([0.3, 1.0, 4.0]))).astype(np.intp)
    labels[:2] = 0, 1
    return scores, labels, rng.uniform(0.1, 3, n) if draw(st.booleans()) else np.ones(n)


@settings(max_examples=examples(300))
@given(labelled_scores(), st.sampled_from([calibrate, isotonic_steps]))
def test_calibrations_keep_the_order_of_scores(
    rows: tuple[Floats, Any, Floats], method: Callable[..., Calibration]
) -> None:
    """Distinct scores get distinct rates in their order, equal ones the same; all are rates.

    A sigmoid of scores that tell labels without error has rates that differ from 1 by rounding.
    """
    found = method(*rows)
    distinct = np.unique(rows[0])
    # Beyond what was seen, and between.
    asked = np.unique(np.concatenate([distinct, np.linspace(0, 1, 21)]))
    asked = asked[np.append(True, np.diff(asked) > 1e-6)]
    rates = found(asked)
    assert (np.diff(rates) >= 0).all()
    assert (np.diff(rates)[(rates[1:] > 1e-9) & (rates[:-1] < 1 - 1e-9)] > 0).all()
    assert (found(np.array([0.5, 0.5])) == found(np.array([0.5]))).all()
    assert rates.min() > -1e-5
    assert rates.max() < 1 + 1e-5
    assert (found.variance(asked) > 0).all()


@settings(max_examples=examples(200))
@given(labelled_scores())
def test_the_steps_are_the_isotonic_ones(rows: tuple[Floats, Any, Floats]) -> None:
    """At the centres of the steps the rates are weighted means of labels, so they keep the rate."""
    scores, labels, weights = rows
    found = isotonic_steps(scores, labels, weights)
    assert (np.diff(found.scores) > 0).all()
    assert (np.diff(found.rates) > 0).all()
    share = found.rows / found.rows.sum()
    assert share @ found.rates == pytest.approx(np.average(labels, weights=weights), abs=1e-9)
    assert share @ found.scores == pytest.approx(np.average(scores, weights=weights), abs=1e-9)


@pytest.mark.parametrize("n", [500, 6000])
def test_a_calibrated_mean_is_the_rate_of_labels(n: int) -> None:
    rows = scored(n)
    for g in range(2):
        own = rows.groups == g
        found = calibrate(rows.scores[own], rows.labels[own], np.ones(own.sum()))
        # Lines between steps are not the steps themselves.
        assert found(rows.scores[own]).mean() == pytest.approx(rows.labels[own].mean(), abs=0.005)


def test_only_the_ratio_of_weights_counts() -> None:
    rows = scored(900, weighted=True)
    given = rows.scores, rows.labels
    one, two = (calibrate(*given, w) for w in (rows.rows.weights, 7 * rows.rows.weights))
    assert one.scores == pytest.approx(two.scores)
    assert one.rates == pytest.approx(two.rates)
    assert one.rows == pytest.approx(two.rows)


def test_a_row_of_weight_two_is_two_rows() -> None:
    """In one step of few rows the rate is (1·0 + 2·1 + 1·0) / 4, and so is that of four rows."""
    heavy = isotonic_steps(
        np.array([0.1, 0.5, 0.9]), np.array([0, 1, 0]), np.array([1.0, 2.0, 1.0])
    )
    twice = isotonic_steps(np.array([0.1, 0.5, 0.5, 0.9]), np.array([0, 1, 1, 0]), np.ones(4))
    assert heavy.rates == twice.rates == pytest.approx(0.5)
    assert heavy.scores == twice.scores == pytest.approx(0.5)


@settings(max_examples=examples(100))
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3]),
    st.sampled_from([400, 1200]),
    st.booleans(),
    st.sampled_from([0, 1]),
)
def test_every_group_has_the_same_mean_and_its_order(
    seed: int, n_groups: int, n: int, weighted: bool, positive: int
) -> None:
    """The mean of q over the training rows is P(Df) in every group; q never falls."""
    given = {"n_groups": n_groups, "weighted": weighted, "positive": positive}
    rows = scored(n, seed, **given)  # type: ignore[arg-type]
    check_parity(fitted(rows), rows)


def test_the_same_on_many_rows() -> None:
    rows = scored(3000, n_groups=3)
    found = fitted(rows)
    check_parity(found, rows)
    lower, upper = found.rate_set(0.95)
    assert lower <= found.decision_rate <= upper
    # P(Df=1 | z) is symmetric, so that P(Df) is one half.
    assert lower < 0.5 < upper


def check_parity(found: ScoreMap, rows: ScoredRows) -> None:
    q = found.decision(rows.scores[None], Subgroups(rows.groups))
    for g in range(rows.rows.n_groups):
        own = rows.groups == g
        mean = np.average(q[own], weights=rows.rows.weights[own])
        assert mean == pytest.approx(found.decision_rate, abs=1e-9)
        order = np.argsort(rows.scores[own], kind="stable")
        assert (np.diff(q[own][order]) >= 0).all()
        inner = np.diff(q[own][order])[(q[own][order][1:] < 1 - 1e-6) & (q[own][order][:-1] > 1e-6)]
        assert (inner > 0).mean() > 0.99
    assert (found.mechanism[:, 1] > found.mechanism[:, 0]).all()
    bounds = found.bounds(rows.scores[None], Subgroups(rows.groups), None)
    assert (bounds[:, 0] <= q).all()
    assert (q <= bounds[:, 1]).all()


def test_several_classifiers_are_averaged() -> None:
    rows = scored()
    found = fitted(rows)
    both = np.stack([rows.scores, rows.scores[::-1]])
    q = found.decision(both, Subgroups(rows.groups))
    plain = replace(found, shifts=np.zeros(2))
    mean = (
        plain.decision(both[:1], Subgroups(rows.groups))
        + plain.decision(both[1:], Subgroups(rows.groups))
    ) / 2
    odds = np.log(mean / (1 - mean)) + found.shifts[rows.groups]
    assert q == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-12)
    assert found.observed(both, rows.groups).shape == both.shape


def test_posterior_is_bayes() -> None:
    """q = .25, b0 = .05, b1 = .9: P(Df=1 | D=1) = .225 / (.225 + .0375), and so on."""
    found = replace(fitted(scored()), mechanism=MECHANISM[:2])
    q, groups = np.full(4, 0.25), np.array([0, 0, 1, 1])
    expected = [
        0.25 * 0.9 / (0.25 * 0.9 + 0.75 * 0.05),
        0.25 * 0.1 / (0.25 * 0.1 + 0.75 * 0.95),
        0.25 * 0.6 / (0.25 * 0.6 + 0.75 * 0.02),
        0.25,
    ]
    assert found.posterior(q, np.array([1, 0, 1, -1]), Subgroups(groups)) == pytest.approx(expected)
    # What cannot be is left as it was.
    certain = replace(found, mechanism=np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert certain.posterior(np.zeros(1), np.array([1]), Subgroups(np.array([0]))).tolist() == [0.0]


def test_classes_may_be_either_way_round() -> None:
    """The same rows with the codes of the classes exchanged give the same map."""
    one, two = (fitted(scored(positive=p)) for p in (1, 0))
    assert one.decision_rate == pytest.approx(two.decision_rate, abs=1e-6)
    assert one.mechanism == pytest.approx(two.mechanism, abs=1e-6)


def test_levels_have_more_in_them() -> None:
    rows = scored()
    found = fitted(rows)
    scores = np.stack([rows.scores] * 5)
    point, narrow, wide = (
        found.bounds(scores, Subgroups(rows.groups), a) for a in (None, 0.8, 0.99)
    )
    for inner, outer in ((point, narrow), (narrow, wide)):
        assert (outer[:, 0] <= inner[:, 0] + 1e-12).all()
        assert (inner[:, 1] <= outer[:, 1] + 1e-12).all()
    assert (wide[:, 1] - wide[:, 0]).mean() > (point[:, 1] - point[:, 0]).mean() + 0.05


def test_a_group_whose_labels_are_alike_gets_the_rate() -> None:
    rows = scored()
    alike = replace(rows, rows=replace(rows.rows, d=np.where(rows.groups == 0, 0, rows.rows.d)))
    found = fitted(alike)
    q = found.decision(alike.scores[None], Subgroups(alike.groups))
    assert q[alike.groups == 0] == pytest.approx(found.decision_rate, abs=0.01)
    assert np.ptp(q[alike.groups == 1]) > 0.5


def test_knowledge_cuts_the_set() -> None:
    rows = scored()
    given = rows.labels, rows.scores, rows.groups, rows.folds, ("g0", "g1")
    ends = label_bounds(*given)
    groups = fit_groups(["g0", "g1"])
    limits = Knowledge(fair_rate=(0.45, 0.5), one_sided={"g1": "lowered"}).limits(groups, [0, 1], 1)
    cut = within_limits(ends, limits, 1)
    assert isinstance(cut, StratumBounds)
    assert cut.pi == pytest.approx((0.45, 0.5))
    assert cut.known[1].b0 == pytest.approx((0.0, 0.0))
    assert cut.known[0].b0 == (0.0, 1.0)
    before, after = ends.rate_set(0.95), cut.rate_set(0.95)
    assert before[0] < after[0] <= after[1] <= 0.5 < before[1]
    found = fitted(rows, limits=limits)
    assert 0.45 <= found.decision_rate <= 0.5
    assert found.mechanism[1, 0] == pytest.approx(0.0, abs=1e-9)


def test_scores_that_are_all_alike_are_refused() -> None:
    rows = scored(300)
    # A score per fold, as classifiers give that learn the rate of the others.
    each: tuple[Floats, ...] = (np.full(300, 0.4), 0.4 + 0.001 * rows.folds.astype(np.float64))
    for scores in each:
        with pytest.raises(LearningError, match="all rows of a group one score"):
            fitted(replace(rows, scores=scores))


def test_a_rate_of_nearly_nothing_is_refused() -> None:
    rows = scored(300)
    limits = Knowledge(fair_rate=0.0001).limits(fit_groups(["g0", "g1"]), [0, 1], 1)
    with pytest.raises(LearningError, match="nearly all fair decisions are alike"):
        fitted(rows, limits=limits)


def test_the_same_bits_after_a_file() -> None:
    for rows in (scored(400, weighted=True), scored(weighted=True)):  # a sigmoid, and steps
        found = fitted(rows)
        again = ScoreMap.from_dict(json.loads(json.dumps(found.to_dict())))
        asked = rows.scores[None], Subgroups(rows.groups)
        assert np.array_equal(found.decision(*asked), again.decision(*asked))
        assert np.array_equal(found.bounds(*asked, 0.9), again.bounds(*asked, 0.9))
        assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("calibrations",), []),
        (("calibrations",), None),
        (("calibrations", 0, "scores"), [0.5, 0.1]),
        (("calibrations", 0, "rates"), "many"),
        (("calibrations", 0), {}),
        (("group_rate",), [1.0]),
        (("group_rate",), [0.5, math.nan]),
        (("decision_rate",), 2),
        (("decision_rate",), None),
        (("mechanism",), [[0.9, 0.1], [0.1, 0.9]]),
        (("mechanism",), [[0.1, 0.9]]),
        (("shifts",), [0.0]),
        (("ends", "groups"), []),
        (("ends",), None),
    ],
)
def test_hostile_maps_are_refused(path: tuple[Any, ...], value: Any) -> None:
    data = json.loads(json.dumps(fitted(scored(1200)).to_dict()))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(FileFormatError) as found:
        ScoreMap.from_dict(data)
    assert "\n" not in str(found.value)


def test_a_map_of_anything_else_is_refused() -> None:
    others: tuple[dict[str, Any], ...] = ({}, {"calibrations": 3})
    for data in others:
        with pytest.raises(FileFormatError):
            ScoreMap.from_dict(data)


def test_calibrations_are_frozen() -> None:
    found = Calibration(np.array([0.0, 1.0]), np.zeros(0), np.ones(1))
    with pytest.raises(AttributeError):
        found.scores = np.zeros(2)  # type: ignore[misc]


def test_scores_of_a_small_group_are_not_made_equal() -> None:
    """Forty rows would be one step of thirty; a sigmoid keeps their order."""
    rng = np.random.default_rng(0)
    scores = rng.random(40)
    labels = (rng.random(40) < scores).astype(int)
    found = calibrate(scores, labels, np.ones(40))
    assert (np.diff(found(np.sort(scores))) > 0).all()
    assert np.ptp(found(scores)) > 0.2
