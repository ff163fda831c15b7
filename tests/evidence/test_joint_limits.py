"""Limits of mechanism and scores: closed forms against grids, errors as squares, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from evidence.arrays import Floats, revealing
from evidence.test_bounds import bounds_of, groups, shares
from fairpc.errors import MetricError
from fairpc.evidence import StratumBounds, WithinBounds, label_bounds
from fairpc.evidence._joint_limits import GroupLimits, _b0_most, _b1_least, _limit
from oracle import LabelRange
from strategies import examples


def exact(group: LabelRange, lower: float, upper: float) -> GroupLimits:
    """A group whose rates have no error."""
    low, high = min(group.low, group.b0[1]), max(group.high, group.b1[0])
    ends = (low, low), (high, high)
    own = (group.rate, group.rate), *ends, 0.2, 0.2, group.b0[0], group.b1[1]
    return GroupLimits(group.rate, *own, [(lower, lower)], [(upper, upper)])


@settings(max_examples=examples(300))
@given(groups(), shares(1, 39), shares(1, 39), st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_without_error_they_are_those_of_all_mechanisms(
    group: LabelRange, one: float, two: float, scores: list[float]
) -> None:
    lower, upper = sorted((one, two))
    b0, b1 = oracle.label_mechanisms(group, (lower, upper))
    if not len(b0):
        return
    found = exact(group, lower, upper).mechanism()
    for values, ends in zip((b0, b1), found, strict=True):
        assert ends[0] <= values.min() + 1e-6
        assert values.max() - 1e-6 <= ends[1]
        if upper - lower > 0.05 and group.high - group.low > 0.25:
            assert (values.min(), values.max()) == pytest.approx(ends, abs=0.02)
    r = np.clip(np.array([group.low, group.rate, group.high, *scores]), group.low, group.high)
    least, most = exact(group, lower, upper).scores((r, r, r))
    low, high = oracle.label_scores(group, r, (lower, upper))
    assert (least <= low + 1e-5).all()
    assert (high - 1e-5 <= most).all()
    if upper - lower > 0.05 and group.high - group.low > 0.25:
        assert low == pytest.approx(least, abs=0.03)
        assert high == pytest.approx(most, abs=0.03)


@settings(max_examples=examples(200))
@given(st.lists(st.floats(0.05, 0.95), min_size=6, max_size=6), st.floats(0, 1))
def test_errors_are_added_as_squares(values: list[float], co: float) -> None:
    """b1 ≥ m + (ρ − m)/u with ρ lower, m and u higher; b0 ≤ (ρ − lM)/(1 − l) with ρ higher, …"""
    low, low_far, rate_low, rate, pi, pi_far = sorted(values)
    covariance = np.array([[1, co, 0], [co, 1, 0], [0, 0, 1]])
    cases = (
        (_b1_least, -1, [rate, low, pi], [rate_low, low_far, pi_far]),
        (_b0_most, 1, [rate_low, pi_far, low_far], [rate, pi, low]),
    )
    for f, sign, here, far in cases:
        found = _limit(f, list(zip(here, far, strict=True)), sign, co)
        expected = oracle.squared_limit(f, here, far, covariance, sign)
        assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=examples(100))
@given(groups(), groups(), st.floats(0.6, 0.98), st.floats(0, 0.5))
def test_ranges_widen_with_level_and_delta(
    one: LabelRange, two: LabelRange, level: float, delta: float
) -> None:
    found = bounds_of(one, two)
    narrow, wide = found.mechanism_range(level), found.mechanism_range(level + 0.01)
    free = found.with_delta(delta).mechanism_range(level)
    assert np.isnan(narrow).all() == found.rejected(level)
    for outer in (wide, free):
        if (narrow[..., 0] < narrow[..., 1]).all() and not np.isnan(outer).any():
            assert (outer[..., 0] <= narrow[..., 0] + 1e-9).all()
            assert (outer[..., 1] >= narrow[..., 1] - 1e-9).all()


@settings(max_examples=examples(100))
@given(groups(), groups())
def test_the_point_lies_inside(one: LabelRange, two: LabelRange) -> None:
    found = bounds_of(one, two)
    point = found.point()
    if found.rejected() or point.rule == "between":
        return
    ranges, mechanism = found.mechanism_range(), np.array(point.mechanism)
    assert (ranges[..., 0] - 1e-9 <= mechanism).all()
    assert (mechanism <= ranges[..., 1] + 1e-9).all()


def test_bounds_are_none_exactly_where_they_are_rejected() -> None:
    """.45 and .55: the separate intervals overlap in some draws that are rejected all the same."""
    kinds = set()
    for seed in range(12):
        found = crossfit(seed, 1_500, (0.45, 0.55))
        low, high = found.rate_set(0.95)
        r, s = np.full(2, 0.5), np.arange(2)
        for level in (None, 0.95):
            assert np.isnan(found.score_bounds(r, r, s, level)).all() == found.rejected()
        assert np.isnan(found.mechanism_range()).all() == found.rejected()
        kinds.add((found.rejected(), low <= high))
        assert not found.with_delta(0.5).rejected()
        assert (found.differences().least().limit > 0) == found.rejected()
    assert (True, True) in kinds


def test_each_stratum_has_its_own() -> None:
    plain = crossfit(0, 600)
    within = WithinBounds(plain.groups, (plain, None))
    found = within.mechanism_range()
    assert found.shape == (2, 2, 2, 2)
    assert np.array_equal(found[:, 0], plain.mechanism_range(1 - 0.05 / 2))
    assert (found[:, 1] == [0, 1]).all()
    assert within.with_delta(0.1).strata[0] == plain.with_delta(0.1)


def test_strata_that_share_a_mechanism_have_boxes() -> None:
    rng = np.random.default_rng(0)
    x, d, s = revealing(rng, 2_000)
    strata, folds = rng.integers(0, 2, 2_000), rng.integers(0, 5, 2_000)
    scores = 0.5 + 0.2 * (x[:, 0] - x[:, 1])
    found = label_bounds(d, scores, s, folds, (0, 1), strata=strata, n_strata=2)
    boxes = found.boxes(0.95)  # type: ignore[union-attr]
    assert np.array_equal(found.mechanism_range(), np.array(boxes))
    assert not found.rejected()
    assert found.with_delta(0.0) is found
    with pytest.raises(MetricError, match="strata that share a mechanism"):
        found.with_delta(0.1)


def crossfit(seed: int, n: int, pi: float | tuple[float, float] = 0.5) -> StratumBounds:
    """Bounds by scores that know which rows show Df."""
    rng = np.random.default_rng(seed)
    x, d, s = revealing(rng, n, pi=pi)
    scores: Floats = 0.5 + 0.2 * (x[:, 0] - x[:, 1])
    found = label_bounds(d, scores, s, rng.integers(0, 5, n), (0, 1))
    assert isinstance(found, StratumBounds)
    return found


def test_ranges_cover() -> None:
    """100 tables in which one end of each group binds: 0 and .7, .3 and 1."""
    truth = np.array([[0.0, 0.7], [0.3, 1.0]])
    found = np.array([crossfit(seed, 800).mechanism_range() for seed in range(100)])
    inside = (found[..., 0] <= truth) & (truth <= found[..., 1])
    assert (inside.mean(axis=0) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 100)).all()
    assert inside.all(axis=(1, 2)).mean() >= 0.9
