"""The least and the most by which fair rates differ: limits, the direct test, its power."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

import oracle
from evidence.arrays import published, revealing
from fairpc.errors import MetricError
from fairpc.evidence import test_assumptions
from fairpc.evidence._group_range import RateRanges
from strategies import examples


@st.composite
def rate_ranges(draw: st.DrawFn) -> RateRanges:
    """Two to four groups: l ≤ L and U ≤ u."""
    n = draw(st.integers(2, 4))
    cells = [sorted(draw(st.lists(st.floats(0, 1), min_size=4, max_size=4))) for _ in range(n)]
    ends = np.array(cells)
    exact = draw(st.booleans())
    return RateRanges(tuple("abcd"[:n]), ends[:, 1:3], ends[:, [0, 3]], 0.01, exact)


@settings(max_examples=examples(300))
@given(rate_ranges())
def test_limits_are_those_of_all_pairs(ranges: RateRanges) -> None:
    least, most = oracle.rate_differences(ranges.estimates, ranges.limits, ranges.added)
    found = ranges.least()
    assert found.limit == pytest.approx(max(least, 0.0), abs=1e-12)
    assert ranges.most() == pytest.approx(min(max(most, 0.0), 1.0), abs=1e-12)
    assert found.limit <= found.estimate + 1e-12
    assert found.overlap * found.estimate == 0
    assert found.above != found.below


@settings(max_examples=examples(200))
@given(rate_ranges())
def test_squares_reject_where_separate_intervals_lie_apart(ranges: RateRanges) -> None:
    squared = RateRanges(ranges.names, ranges.estimates, ranges.limits, ranges.tail)
    apart = float(ranges.limits[:, 0].max() - ranges.limits[:, 1].min())
    assert squared.least().limit >= apart - 1e-12


def test_by_hand() -> None:
    """L̂ − Û = .5 − .3 with errors .03, .04: .2 − .05; the other −.6 − .1."""
    ends = np.array([[0.5, 0.7], [0.1, 0.3]])
    ranges = RateRanges(("a", "b"), ends, np.array([[0.47, 0.78], [0.04, 0.34]]), 0.025)
    found = ranges.least()
    assert (found.limit, found.estimate) == pytest.approx((0.15, 0.2))
    assert (found.above, found.below, found.overlap) == ("a", "b", 0.0)
    assert found.error == pytest.approx(0.05 / norm.ppf(0.975))
    assert ranges.most() == pytest.approx(0.7)
    # A true difference of the half width is noticed in every second table.
    assert found.noticed(0.05) == pytest.approx(0.5)
    assert found.noticed(0.1, delta=0.05) == pytest.approx(0.5)
    assert "in about 50 of 100 tables at best" in found.power(780, 0.05)


def test_delta_is_what_may_differ() -> None:
    x, y, s = revealing(np.random.default_rng(0), 3_000, pi=(0.3, 0.6))
    asked: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1}
    plain = test_assumptions(x, y, s, **asked)
    least = plain.least_difference
    assert least is not None
    assert 0 < least.limit < least.estimate < plain.most_difference
    assert f"at least {100 * least.limit:.1f} points" in plain.summary()
    below = test_assumptions(x, y, s, delta=least.limit - 1e-9, **asked)
    above = test_assumptions(x, y, s, delta=least.limit + 1e-9, **asked)
    assert below.rejected
    assert not above.rejected
    assert below.p_value == pytest.approx(0.05, rel=1e-3)
    assert above.least_difference == least
    assert (above.lower, above.upper) == (plain.lower, plain.upper)
    assert above.tolerated is None


def test_a_rejection_may_stand_beside_a_set_that_is_not_empty() -> None:
    kinds = set()
    for seed in range(12):
        x, y, s = revealing(np.random.default_rng(seed), 1_500, pi=(0.45, 0.55))
        found = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
        kinds.add((found.rejected, found.lower <= found.upper))
        assert (found.p_value <= 0.05) == found.rejected
    assert (True, True) in kinds
    assert (False, False) not in kinds


def test_the_exact_option_rejects_where_its_intervals_lie_apart() -> None:
    for pi in ((0.5, 0.5), (0.3, 0.7)):
        x, y, s = revealing(np.random.default_rng(1), 2_000, pi=pi)
        found = test_assumptions(x, y, s, classifier="logistic", method="single-split")
        assert found.least_difference is not None
        assert found.rejected == (found.lower > found.upper)
        apart = found.lower - found.upper
        assert found.least_difference.limit == pytest.approx(max(apart, 0.0))


def test_several_groups() -> None:
    mechanism = ((0.0, 0.7), (0.3, 1.0), (0.0, 1.0))
    x, y, s = revealing(np.random.default_rng(2), 6_000, mechanism, pi=(0.3, 0.7, 0.5))
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
    least = found.least_difference
    assert least is not None
    assert (least.above, least.below) == (1, 0)
    assert least.limit <= 0.4 <= found.most_difference


def test_strata() -> None:
    x, y, s = revealing(np.random.default_rng(4), 2_000, pi=(0.3, 0.6))
    strata = np.arange(2_000) % 2
    asked: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1, "given": strata}
    assert test_assumptions(x, y, s, **asked).rejected
    wide = test_assumptions(x, y, s, delta=0.4, **asked)
    assert not wide.rejected
    assert all(own.test.delta == 0.4 for own in wide.strata)


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan, "much"])
def test_differences_that_are_none(delta: Any) -> None:
    with pytest.raises(MetricError, match=r"delta is .*: give"):
        test_assumptions([[0.0], [1.0]], [0, 1], ["a", "b"], delta=delta)


def test_features_that_say_nothing_have_no_power() -> None:
    rng = np.random.default_rng(5)
    x, y, s = rng.normal(size=(200, 1)), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    least = test_assumptions(x, y, s, classifier="logistic", n_seeds=1).least_difference
    assert least is not None
    assert least.noticed(0.5) == 0
    assert "would not notice" in least.power(200)


def test_adult() -> None:
    found = test_assumptions(*published("adult"), classifier="logistic", n_seeds=3)
    least = found.least_difference
    assert least is not None
    assert (least.limit, least.estimate) == pytest.approx((0.172, 0.186), abs=0.005)
    assert found.most_difference == pytest.approx(0.235, abs=0.01)


@pytest.mark.slow
def test_power_is_the_share_of_tables() -> None:
    """Fair rates .45 and .55 with ends that bind, so that δ* = .1."""
    rejected, said = [], []
    for seed in range(100):
        x, y, s = revealing(np.random.default_rng(seed), 1_000, pi=(0.45, 0.55))
        found = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
        assert found.least_difference is not None
        rejected.append(found.rejected)
        said.append(found.least_difference.noticed(0.1))
    assert np.mean(rejected) == pytest.approx(np.median(said), abs=0.15)
