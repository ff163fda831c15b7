"""Limits of mechanism and scores: closed forms against grids, errors as squares, coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from evidence.arrays import Floats, revealing
from evidence.test_bounds import bounds_of, groups, shares
from fairpc.evidence import StratumBounds, WithinBounds, label_bounds
from fairpc.evidence._held_out_bounds import HeldOutRates, Known
from fairpc.evidence._intervals import clopper_pearson, rate_sample
from fairpc.evidence._joint_limits import GroupLimits, _b0_most, _b1_least, _limit
from fairpc.evidence._top_sets import ClassRates
from oracle import LabelRange
from strategies import examples


def exact(group: LabelRange, lower: float, upper: float) -> GroupLimits:
    """A group whose rates have no error."""
    low, high = min(group.low, group.b0[1]), max(group.high, group.b1[0])
    ends = low, (low, low), high, (high, high)
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
        beside = [2 * at - end for at, end in zip(here, far, strict=True)]
        found = _limit(f, list(zip(here, far, beside, strict=True)), sign, co)
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
        if not np.isnan(narrow).any():
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


FEW = 5


@pytest.mark.parametrize("positive", [0, 1])
def test_few_rows_with_one_label_are_no_finding(positive: int) -> None:
    """Five rows of one label, beside two groups of which one has altered labels for certain."""
    rng = np.random.default_rng(0)
    x, d, s = revealing(rng, 4_000, ((0.3, 1.0), (0.0, 0.7)))
    scores = np.append(0.5 + 0.2 * (x[:, 0] - x[:, 1]), np.full(FEW, 0.5))
    d, s = np.append(d, np.full(FEW, positive)), np.append(s, np.full(FEW, 2))
    found = label_bounds(d, scores, s, rng.integers(0, 5, len(d)), (0, 1, 2))
    ranges = found.mechanism_range()
    assert ranges[0, 0, 0] > ranges[1, 0, 1], "what is certain of the large groups stays"
    assert ranges[1, 1, 1] < ranges[0, 1, 0]
    for large in (0, 1):
        assert (ranges[2, :, 0] <= ranges[large, :, 1]).all()
        assert (ranges[large, :, 0] <= ranges[2, :, 1]).all()
    # Of five rows, at least 1 − .05^(1/5) = .45 may be of the other label.
    assert ranges[2, positive, 1 - positive] == positive or np.ptp(ranges[2, positive]) > 0.45


@settings(max_examples=examples(200))
@given(st.integers(1, 40), st.data())
def test_a_set_that_is_the_whole_group_says_what_its_rate_says(n: int, data: st.DataObject) -> None:
    """Then b1 ≥ ρ and b0 ≤ ρ are all there is, at the limits of ρ, whatever P(Df=1) is."""
    hits = data.draw(st.integers(0, n))
    whole = rate_sample((np.arange(n) < hits).astype(np.float64), None, None)
    other = replace(whole, mean=1 - whole.mean)
    varies = float(0 < hits < n)
    rates = HeldOutRates("few", *(ClassRates(n, own, n, own, varies) for own in (whole, other)))
    pi = data.draw(st.floats(0.05, 0.95))
    b0, b1 = rates.limits(Known(), 0.01, [(pi, pi)], [(pi, pi)]).mechanism()
    low, high = clopper_pearson(hits, n, 0.01)
    assert b1[0] == pytest.approx(low, abs=1e-9)
    assert b0[1] == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize(("rate", "f"), [(0.02, 0), (0.98, 1)])
def test_ranges_of_rates_near_an_end_cover(rate: float, f: int) -> None:
    """Features say nothing of 1,000 rows, whose recorded rate is hardly more than b0, or less than
    b1: their ranges are those of the recorded rate."""
    rng, b = np.random.default_rng(1), np.array([0.1, 0.7])
    inside = []
    for _ in range(200):
        fair = rng.random(3_000) < rate
        d = np.where(np.arange(3_000) < 1_000, rng.random(3_000) < b[fair.astype(int)], fair)
        s, folds = np.repeat([0, 1], [1_000, 2_000]), rng.integers(0, 5, 3_000)
        scores = np.where(s == 0, 0.5, d)
        low, high = label_bounds(d, scores, s, folds, (0, 1)).mechanism_range()[0, f]
        inside.append(low <= b[f] <= high)
    assert np.mean(inside) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)


@st.composite
def tables(draw: st.DrawFn) -> StratumBounds:
    """Bounds of a random table of two or three groups, some small; what is known of P(Df)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.sampled_from([3, 20, 60, 400]), min_size=2, max_size=3))
    rates = [draw(st.floats(0.1, 0.9)) for _ in sizes]
    b = np.sort(rng.random((len(sizes), 2)), axis=1)
    s = np.repeat(np.arange(len(sizes)), sizes)
    f = (rng.random(len(s)) < np.array(rates)[s]).astype(np.intp)
    d = (rng.random(len(s)) < b[s, f]).astype(np.int64)
    scores = np.where(rng.random(len(s)) < draw(st.floats(0, 1)), b[s, f], 0.5)
    found = label_bounds(d, scores, s, rng.integers(0, 5, len(s)), tuple(range(len(sizes))))
    assert isinstance(found, StratumBounds)
    # Nobody knows a rate to more than some digits, and the set is found by bisection.
    low = draw(st.floats(0, 0.4))
    return found.with_known(found.known, (low, draw(st.floats(low + 1e-6, 1))))


@settings(max_examples=examples(100))
@given(tables(), st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 0.98), st.floats(0, 0.02))
def test_a_weaker_assumption_or_a_higher_level_never_narrows(
    table: StratumBounds, one: float, two: float, level: float, more: float
) -> None:
    """Mechanism, fair rate and scores; what is rejected leaves nothing, which is the narrowest."""
    less, most = sorted((one, two))
    r = np.linspace(0, 1, 9)
    groups = np.arange(9) % len(table.groups)

    def ranges(bounds: StratumBounds, level: float) -> list[Floats]:
        low, high = bounds.score_bounds(r, r, groups, level)
        rate = np.array(bounds.rate_set(level))
        rate = np.full(2, np.nan) if rate[0] > rate[1] else rate
        return [bounds.mechanism_range(level), np.stack([low, high], axis=-1), rate]

    narrow = ranges(table.with_delta(less), level)
    for wide in ranges(table.with_delta(most), level), ranges(table.with_delta(less), level + more):
        for inner, outer in zip(narrow, wide, strict=True):
            there = ~np.isnan(inner)
            assert not np.isnan(outer[there]).any()
            assert (outer[..., 0] <= inner[..., 0] + 1e-9)[there[..., 0]].all()
            assert (outer[..., 1] >= inner[..., 1] - 1e-9)[there[..., 1]].all()
