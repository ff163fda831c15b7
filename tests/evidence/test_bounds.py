"""Bounds of one stratum: closed forms against grids of mechanisms, no label decides its cut."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from fairpc.core import Floats, Positions
from fairpc.errors import FileFormatError
from fairpc.evidence import (
    Known,
    Sample,
    StratumBounds,
    _top_sets as module,
    label_bounds,
    read_bounds,
)
from fairpc.evidence._group_range import GroupRange
from fairpc.evidence._held_out_bounds import HeldOutRates
from fairpc.evidence._top_sets import ClassRates, best_cut, held_out_rates
from oracle import LabelRange
from strategies import examples

STEPS = 40


def shares(low: int, high: int) -> st.SearchStrategy[float]:
    """A share on a coarse grid, so that extreme mechanisms lie on the oracle's grid."""
    return st.integers(low, high).map(lambda k: k / STEPS)


@st.composite
def groups(draw: st.DrawFn) -> LabelRange:
    """Random ρ, m ≤ ρ ≤ M, and ranges of b0 and b1 that leave something."""
    rate = draw(st.integers(1, STEPS - 1))
    low, high = draw(st.integers(0, rate)), draw(st.integers(rate, STEPS))
    floor, ceiling = draw(st.integers(0, low)), draw(st.integers(high, STEPS))
    b0 = floor / STEPS, draw(shares(floor, STEPS))
    b1 = draw(shares(0, ceiling)), ceiling / STEPS
    return LabelRange(rate / STEPS, low / STEPS, high / STEPS, b0, b1)


def sample(mean: float, size: float = 500.0) -> Sample:
    return Sample(mean, size, mean * (1 - mean) / size, math.inf)


def bounds_of(*ranges: LabelRange, pi: tuple[float, float] = (0.0, 1.0)) -> StratumBounds:
    """Held-out rates that are just these numbers."""
    found = tuple(
        HeldOutRates(
            f"g{k}",
            ClassRates(500, sample(g.rate), 100, sample(g.high, 100), 0.2),
            ClassRates(500, sample(1 - g.rate), 100, sample(1 - g.low, 100), 0.2),
        )
        for k, g in enumerate(ranges)
    )
    return StratumBounds(found, pi, tuple(Known(g.b0, g.b1) for g in ranges))


@settings(max_examples=examples(400))
@given(groups(), groups())
def test_the_set_is_the_projection_of_all_mechanisms(one: LabelRange, two: LabelRange) -> None:
    each = [oracle.label_rates(g) for g in (one, two)]
    if not all(len(pi) for pi in each):
        return  # b0 = b1 = ρ is the only mechanism: it turns no labels.
    lower, upper = bounds_of(one, two).point_set()
    assert lower == pytest.approx(max(pi.min() for pi in each), abs=1e-8)
    assert upper == pytest.approx(min(pi.max() for pi in each), abs=1e-8)


@settings(max_examples=examples(300))
@given(groups(), groups(), st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_bounds_of_scores_are_those_of_all_mechanisms(
    one: LabelRange, two: LabelRange, scores: list[float]
) -> None:
    """Every mechanism lies within the bounds, and where labels tell enough they are reached."""
    ends = bounds_of(one, two)
    lower, upper = ends.point_set()
    if lower > upper:
        return
    r = np.array([one.low, one.rate, one.high, *scores])
    least, most = ends.score_bounds(r, r, np.zeros(len(r), np.intp))
    low, high = oracle.label_scores(one, r, (lower, upper))
    assert (least <= low + 1e-5).all()
    assert (high - 1e-5 <= most).all()
    if one.high - one.low > 0.25 and upper - lower > 0.05:
        assert low == pytest.approx(least, abs=0.02)
        assert high == pytest.approx(most, abs=0.02)


@settings(max_examples=examples(200))
@given(groups(), groups(), st.floats(0.5, 0.98), st.floats(0, 1))
def test_confidence_widens_what_the_estimates_leave(
    one: LabelRange, two: LabelRange, level: float, score: float
) -> None:
    ends = bounds_of(one, two)
    point, narrow, wide = ends.point_set(), ends.rate_set(level), ends.rate_set(level + 0.01)
    assert wide[0] <= narrow[0] + 1e-12
    assert narrow[1] <= wide[1] + 1e-12
    if point[0] > point[1]:
        return
    assert narrow[0] <= point[0] + 1e-12
    assert point[1] <= narrow[1] + 1e-12
    r, group = np.array([score]), np.zeros(1, np.intp)
    inner, outer = ends.score_bounds(r, r, group), ends.score_bounds(r, r, group, level)
    assert outer[0] <= inner[0] + 1e-12
    assert inner[1] <= outer[1] + 1e-12


def test_by_hand() -> None:
    """ρ = .5, m = .2, M = .8: π from (.5−.2)/(1−.2) = .375 to .5/.8 = .625.

    If b0 = 0 is known, π = .5/b1 with b1 from .8 to 1: .5 to .625. Then q(.8) = .8/b1: .8 to 1.
    """
    free = LabelRange(0.5, 0.2, 0.8)
    assert bounds_of(free).point_set() == pytest.approx((0.375, 0.625))
    known = bounds_of(free._replace(b0=(0.0, 0.0)))
    assert known.point_set() == pytest.approx((0.5, 0.625))
    r = np.array([0.8])
    least, most = known.score_bounds(r, r, np.zeros(1, np.intp))
    assert (least[0], most[0]) == pytest.approx((0.8, 1.0))


def test_a_box_that_leaves_one_point() -> None:
    """b0 = .1 and b1 = .9 are known: π = (.5 − .1)/.8 = .5, q(.3) = .25."""
    one = LabelRange(0.5, 0.2, 0.8, (0.1, 0.1), (0.9, 0.9))
    ends = bounds_of(one)
    assert ends.point_set() == pytest.approx((0.5, 0.5))
    r = np.array([0.3])
    least, most = ends.score_bounds(r, r, np.zeros(1, np.intp))
    assert (least[0], most[0]) == pytest.approx((0.25, 0.25))


@pytest.mark.parametrize("rate", [0.0, 0.4, 1.0])
def test_scores_that_tell_nothing_leave_everything(rate: float) -> None:
    """m = M = ρ: D may be independent of Df, whatever P(Df) is."""
    ends = bounds_of(LabelRange(rate, rate, rate))
    lower, upper = ends.point_set()
    assert (lower, upper) == (0.0, 1.0)
    r = np.array([rate])
    least, most = ends.score_bounds(r, r, np.zeros(1, np.intp))
    assert (least[0], most[0]) == (0.0, 1.0)


def test_groups_that_exclude_each_other() -> None:
    """One needs at least .875, the other at most .125: nothing is left, at any usual level."""
    high, low = LabelRange(0.9, 0.2, 1.0), LabelRange(0.1, 0.0, 0.8)
    ends = bounds_of(high, low)
    assert ends.point_set() == pytest.approx((0.875, 0.125))
    lower, upper = ends.rate_set(0.95)
    assert lower > upper
    r = np.array([0.5, 0.5])
    for level in (None, 0.95):
        assert np.isnan(ends.score_bounds(r, r, np.array([0, 1]), level)).all()


def test_groups_that_exclude_each_other_by_chance() -> None:
    """One needs at least .558/.9, the other at most .348/.6: 500 rows each do not exclude that."""
    ends = bounds_of(LabelRange(0.658, 0.1, 0.7), LabelRange(0.348, 0.1, 0.6))
    assert ends.point_set() == pytest.approx((0.62, 0.58))
    r = np.array([0.5, 0.5])
    least, most = ends.score_bounds(r, r, np.array([0, 1]))
    assert ((least >= 0) & (least <= most) & (most <= 1)).all()


@pytest.mark.parametrize(
    ("b0", "b1"),
    [
        ((0.4, 1.0), (0.0, 1.0)),
        ((0.2, 1.0), (0.0, 1.0)),
        ((0.8, 1.0), (0.0, 1.0)),
        ((0.0, 1.0), (0.0, 0.6)),
        ((0.0, 1.0), (0.0, 0.8)),
        ((0.0, 1.0), (0.0, 0.2)),
    ],
)
def test_knowledge_that_labels_contradict_leaves_nothing(
    b0: tuple[float, float], b1: tuple[float, float]
) -> None:
    """100 rows with a rate of .02 cannot be where b0 is at least .2; nor .98 where b1 is below .8.

    The mean of .5 excludes a b0 of .8, and a b1 of .2.
    """
    low = b0[0] > 0
    one = LabelRange(0.5, 0.02 if low else 0.4, 0.6 if low else 0.98)
    lower, upper = bounds_of(one).rate_set(0.95)
    assert lower <= upper
    lower, upper = bounds_of(one._replace(b0=b0, b1=b1)).rate_set(0.95)
    assert lower > upper


def test_knowledge_just_beyond_an_estimate_counts_for_more() -> None:
    """m is estimated at .1, b0 is known to be .12: chance may do that; π = .38/(b1 − .12)."""
    ends = bounds_of(LabelRange(0.5, 0.1, 0.9, (0.12, 0.12)))
    assert ends.point_set() == pytest.approx((0.38 / 0.88, 0.38 / 0.78))
    lower, upper = ends.rate_set(0.95)
    assert lower < 0.38 / 0.88 < 0.38 / 0.78 < upper


def drawn(
    rng: np.random.Generator, n: int
) -> tuple[Positions, Floats, Positions, Positions, Floats]:
    """Labels, P(D=1 | x, s), groups, folds and P(Df=1 | x, s), with P(Df=1) = .4."""
    groups = rng.integers(0, 2, n)
    q = np.where(rng.random(n) < 0.5, 0.0, rng.random(n) * 1.2 + 0.2).clip(0, 1)
    q = np.where(rng.random(n) < 0.2, 0.5, q)
    b0, b1 = np.array([[0.1, 0.8], [0.02, 0.5]])[groups].T
    r = b0 + (b1 - b0) * q
    return (rng.random(n) < r).astype(np.intp), r, groups, rng.integers(0, 5, n), q


def of_labels(*given: Any) -> StratumBounds:
    found = label_bounds(*given)
    assert isinstance(found, StratumBounds)
    return found


@pytest.mark.slow
def test_sets_and_scores_cover_the_truth() -> None:
    """95 % sets hold P(Df) and each P(Df | x, s) in at least 95 % of 300 tables, but for chance."""
    rng = np.random.default_rng(0)
    truth = float(drawn(rng, 400_000)[4].mean())
    rates, scores = [], []
    for _ in range(300):
        labels, r, groups, folds, q = drawn(rng, 1500)
        found = of_labels(labels, r, groups, folds, ("a", "b"))
        lower, upper = found.rate_set(0.95)
        rates.append(lower <= truth <= upper)
        low, high = found.score_bounds(r, r, groups, 0.95)
        scores.append(bool(((low <= q + 1e-9) & (q - 1e-9 <= high)).all()))
    # Three standard errors of a rate of .95 in 300 tables.
    assert np.mean(rates) > 0.95 - 0.038
    assert np.mean(scores) > 0.95 - 0.038


def test_no_label_of_a_fold_decides_its_own_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[float] = []

    def noted(*given: Any) -> float:
        cuts.append(best_cut(*given))
        return cuts[-1]

    monkeypatch.setattr(module, "best_cut", noted)
    labels, scores, _, folds, _ = drawn(np.random.default_rng(1), 1200)
    hits = labels.astype(np.float64)
    held_out_rates(hits, scores, folds)
    before = cuts.copy()
    for k in range(5):
        cuts.clear()
        held_out_rates(np.where(folds == k, 1 - hits, hits), scores, folds)
        assert cuts[k] == before[k]
        assert any(cuts[j] != before[j] for j in range(5) if j != k)


def test_weights_are_not_copies() -> None:
    """Equal weights say nothing; unequal ones are worth fewer rows."""
    labels, scores, groups, folds, _ = drawn(np.random.default_rng(2), 1200)
    plain = of_labels(labels, scores, groups, folds, ("a", "b"))
    doubled = of_labels(labels, scores, groups, folds, ("a", "b"), np.full(1200, 2.0))
    uneven = np.random.default_rng(3).uniform(0.1, 3, 1200)
    weighted = of_labels(labels, scores, groups, folds, ("a", "b"), uneven)
    assert doubled.point_set() == pytest.approx(plain.point_set())
    assert weighted.groups[0].positive.whole.size < plain.groups[0].positive.whole.size


def test_a_class_that_a_group_lacks() -> None:
    """No label is 1 in group a: nothing is said of it, and the set is that of group b."""
    labels, scores, groups, folds, _ = drawn(np.random.default_rng(4), 1200)
    alike = np.where(groups == 0, 0, labels)
    found = of_labels(alike, np.where(groups == 0, 0.0, scores), groups, folds, ("a", "b"))
    assert found.groups[0].rate == 0.0
    assert found.point_set() == StratumBounds(found.groups[1:], known=found.known[1:]).point_set()


def test_the_same_bits_after_a_file() -> None:
    labels, scores, groups, folds, _ = drawn(np.random.default_rng(5), 1200)
    found = of_labels(labels, scores, groups, folds, ("a", "b"))
    again = read_bounds(json.loads(json.dumps(found.to_dict())), None)
    assert again == found
    one, two = (e.score_bounds(scores, scores, groups, 0.9) for e in (found, again))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("groups",), []),
        (("groups",), None),
        (("known",), []),
        (("pi",), [0, 2]),
        (("pi",), [0.1]),
        (("known", 0, "b0"), ["a", 1]),
        (("groups", 0, "positive"), None),
        (("groups", 0, "positive", "whole", "mean"), -0.1),
        (("groups", 0, "positive", "whole", "size"), 0),
        (("groups", 0, "negative", "top", "mean"), math.nan),
        (("groups", 0, "negative", "correlation"), 3),
        (("groups", 1), 7),
    ],
)
def test_hostile_bounds_are_refused(path: tuple[Any, ...], value: Any) -> None:
    data = json.loads(
        json.dumps(bounds_of(LabelRange(0.5, 0.2, 0.8), LabelRange(0.5, 0.1, 1)).to_dict())
    )
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(FileFormatError):
        read_bounds(data, None)


def test_a_range_counts_an_end_beyond_the_mean_as_the_mean() -> None:
    found = GroupRange.of("a", 10, 0.3, (0.4, 0.2))
    assert (found.low, found.high) == (0.3, 0.3)
