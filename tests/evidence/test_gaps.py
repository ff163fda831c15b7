"""Differences and ratios: published figures, statsmodels as an oracle, coverage, bad input."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from evidence.arrays import published
from fairpc.errors import MetricError
from fairpc.evidence import (
    Sample,
    clopper_pearson,
    equal_rates,
    mean_sample,
    parity,
    rate_sample,
)
from fairpc.evidence._intervals import koopman, newcombe, welch
from fairpc.learners import kish

# difference, its interval, ratio, its interval: last group against first, labels as decisions.
FIGURES = {
    "adult": (-0.1963, (-0.2047, -0.1877), 0.3580, (0.3380, 0.3791)),
    "compas": (-0.0528, (-0.0585, -0.0469), 0.9421, (0.9360, 0.9483)),
    "german": (-0.0748, (-0.1382, -0.0132), 0.8966, (0.8126, 0.9813)),
}


def rate(x: int, n: int) -> Sample:
    return Sample(x / n, n, 0.0, math.inf)


@pytest.mark.parametrize("name", FIGURES)
def test_published_figures(name: str) -> None:
    _, y, s = published(name)
    found = parity(y, s)
    difference, interval, ratio, ratio_interval = FIGURES[name]
    assert round(found.difference, 4) == difference
    assert tuple(round(v, 4) for v in found.difference_interval) == interval
    assert round(found.ratio, 4) == ratio
    assert tuple(round(v, 4) for v in found.ratio_interval) == ratio_interval
    assert found.kind == "rate"


@pytest.mark.parametrize("counts", [(7, 20, 12, 30), (90, 100, 400, 900), (1, 9, 8, 9)])
def test_against_statsmodels(counts: tuple[int, int, int, int]) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    last, first = rate(*counts[:2]), rate(*counts[2:])
    oracle = proportion.confint_proportions_2indep
    assert newcombe(first, last, 0.025) == pytest.approx(
        oracle(*counts, compare="diff", method="newcomb"), abs=1e-12
    )
    assert koopman(first, last, 0.025) == pytest.approx(
        oracle(*counts, compare="ratio", method="score", correction=False), rel=1e-6
    )
    assert clopper_pearson(counts[0], counts[1], 0.025) == pytest.approx(
        proportion.proportion_confint(counts[0], counts[1], 0.05, method="beta"), abs=1e-12
    )


def test_welch_against_scipy() -> None:
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(0)
    a, b = rng.random(40), rng.random(25) ** 2
    padded = [np.append(v, [0.0, 1.0]) for v in (a, b)]
    expected = ttest_ind(padded[1], padded[0], equal_var=False).confidence_interval(0.95)
    found = welch(mean_sample(a, None, None), mean_sample(b, None, None), 0.025)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    "counts", [(0, 10, 3, 12), (10, 10, 12, 12), (5, 10, 12, 12), (0, 5, 5, 5)]
)
def test_ratio_turned_round(counts: tuple[int, int, int, int]) -> None:
    last, first = rate(*counts[:2]), rate(*counts[2:])
    low, high = koopman(first, last, 0.025)
    back_low, back_high = koopman(last, first, 0.025)
    assert low == pytest.approx(1 / back_high if back_high < math.inf else 0.0, rel=1e-6)
    assert high == pytest.approx(1 / back_low if back_low else math.inf, rel=1e-6)


def test_nobody_selected() -> None:
    found = parity([0, 0, 0, 0], ["a", "a", "b", "b"])
    assert math.isnan(found.ratio)
    assert found.ratio_interval == (0.0, math.inf)
    assert found.difference == 0


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5])
def test_coverage_of_rates(p: float) -> None:
    """Exact coverage by enumeration at n = 25 and 40, rates p and 1.5 p."""
    from scipy.stats import binom

    n, m, q = 25, 40, 1.5 * p
    px, py = binom.pmf(range(n + 1), n, p), binom.pmf(range(m + 1), m, q)
    covered = [0.0, 0.0]
    for x in range(n + 1):
        for y in range(m + 1):
            if px[x] * py[y] < 1e-9:
                continue
            first, last = rate(x, n), rate(y, m)
            for i, (make, truth) in enumerate(((newcombe, q - p), (koopman, q / p))):
                low, high = make(first, last, 0.025)
                covered[i] += px[x] * py[y] * (low <= truth <= high)
    assert min(covered) > 0.93


def test_mean_scores_cover() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        scores = np.append(rng.beta(0.3, 3, 30), rng.beta(0.3, 2, 40))
        low, high = parity(scores, np.repeat([0, 1], [30, 40])).difference_interval
        hits += low <= 0.3 / 2.3 - 0.3 / 3.3 <= high
    assert hits / 400 > 0.93


def test_repeated_persons_count_once() -> None:
    """Each row three times: the same interval as each row once."""
    rng = np.random.default_rng(2)
    y, s = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    once, thrice = parity(y, s), parity(np.tile(y, 3), np.tile(s, 3))
    clustered = parity(np.tile(y, 3), np.tile(s, 3), clusters=np.tile(np.arange(300), 3))
    assert clustered.difference_interval == pytest.approx(once.difference_interval, abs=2e-3)
    assert clustered.ratio_interval == pytest.approx(once.ratio_interval, abs=5e-3)
    width = np.ptp(thrice.difference_interval)
    assert width < 0.7 * np.ptp(clustered.difference_interval)
    assert clustered.clustered
    assert not thrice.clustered


def test_persons_in_both_groups_with_opposite_scores_widen() -> None:
    y = np.array([1, 0] * 100)
    s = np.array([0, 1] * 50 + [1, 0] * 50)
    persons = np.repeat(np.arange(100), 2)
    apart = parity(y, s).difference_interval
    assert np.ptp(parity(y, s, clusters=persons).difference_interval) > 1.3 * np.ptp(apart)


def test_mean_scores_with_persons_and_weights() -> None:
    rng = np.random.default_rng(3)
    scores, s = rng.random(200), rng.integers(0, 2, 200)
    persons = np.tile(np.arange(200), 2)
    found = parity(np.tile(scores, 2), np.tile(s, 2), clusters=persons)
    assert found.difference_interval == pytest.approx(
        parity(scores, s).difference_interval, abs=2e-3
    )
    weighted = parity(scores, s, sample_weight=1 + 9 * (rng.random(200) < 0.1))
    assert np.ptp(weighted.difference_interval) > np.ptp(parity(scores, s).difference_interval)
    assert all(g.effective_n < g.n for g in weighted.groups)


def test_equal_weights_change_nothing() -> None:
    y, s = [0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 1, 1]
    assert parity(y, s, sample_weight=[2.0] * 6) == parity(y, s)


def test_weighted_rate_is_worth_fewer_rows() -> None:
    rng = np.random.default_rng(4)
    y = (rng.random(2000) < 0.3).astype(float)
    w = np.where(rng.random(2000) < 0.5, 1.0, 5.0)
    size = w.sum() ** 2 / (w @ w)
    assert rate_sample(y, w, None).size == pytest.approx(size, rel=0.1)
    # Neither does their unit matter, to the last bit, nor do squares overflow or vanish.
    assert kish(w * 2.0**-1000) == kish(w * 2.0**1000) == kish(w) == w.sum() ** 2 / (w * w).sum()


def test_several_groups_are_simultaneous() -> None:
    rng = np.random.default_rng(5)
    y, s = rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    found = parity(y, s)
    assert [(p.first, p.last) for p in found.pairs] == [(0, 1), (0, 2), (1, 2)]
    assert found.difference == max((p.difference for p in found.pairs), key=abs)
    two = parity(y[s < 2], s[s < 2], level=1 - 0.05 / 3)
    assert found.pairs[0].difference_interval == pytest.approx(two.difference_interval)
    assert "largest of 3 gaps" in found.summary()


def test_intersections_are_named_by_tuples() -> None:
    sex = np.tile(["f", "m"], 50)
    age = np.repeat([30, 60], 50)
    table = np.empty((100, 2), object)
    table[:, 0], table[:, 1] = sex, age
    found = parity(np.tile([0.2, 0.4], 50), table)
    assert [g.group for g in found.groups] == [("f", 30), ("f", 60), ("m", 30), ("m", 60)]
    assert len(found.pairs) == 6


def test_four_fifths() -> None:
    def mark(x: int, y: int, n: int) -> str:
        decisions = np.zeros(2 * n)
        decisions[:x] = decisions[n : n + y] = 1
        return parity(decisions, np.repeat([0, 1], n)).four_fifths

    assert mark(500, 300, 1000) == mark(300, 500, 1000) == "below"
    assert mark(500, 490, 1000) == "above"
    assert mark(50, 42, 100) == "undecided"


def test_small_groups_are_flagged_not_dropped() -> None:
    found = parity([0.1, 0.9] * 51, ["a"] * 100 + ["b"] * 2)
    assert [g.small for g in found.groups] == [False, True]
    assert "read with care: 'b'" in found.summary()
    rare = parity([1] + [0] * 99 + [0, 1] * 50, np.repeat(["a", "b"], 100))
    assert [g.small for g in rare.groups] == [True, False]


def test_equal_rates_and_their_price() -> None:
    scores = np.append(np.arange(10) / 10, np.arange(10) / 20)
    s, y = np.repeat([0, 1], 10), np.append(np.arange(10) >= 5, np.zeros(10)).astype(int)
    found = equal_rates(scores, s, y, rate=0.4)
    assert [g.threshold for g in found.groups] == pytest.approx([0.6, 0.3])
    assert found.gap == 0
    assert found.accuracy_before == 1.0
    # One row of group 0 is lost and four of group 1 are selected against their label.
    assert found.price == pytest.approx(5 / 20)
    assert "if the labels are biased" in found.summary()
    assert equal_rates(scores, s).price is None
    assert equal_rates(scores, s, rate=0.0).groups[0].threshold == math.inf


def test_summary_says_what_is_ruled_out() -> None:
    text = parity([1] * 90 + [0] * 10 + [1] * 10 + [0] * 90, np.repeat(["m", "w"], 100)).summary()
    assert "Equal means are ruled out; a ratio is below four fifths." in text
    assert "not ruled out" in parity([0.5, 0.4, 0.5, 0.4], [0, 0, 1, 1]).summary()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.5], [0, 1]), "scores is 1.5 in row 1: give scores from 0 to 1"),
        (([0.5, math.nan], [0, 1]), "scores is nan in row 1: give finite numbers"),
        ((["a", "b"], [0, 1]), "scores holds something other than numbers"),
        (([0.5, 0.5], [0, 0]), "groups has 1 value .0.: a comparison needs at least two"),
        (([0.5, 0.5, 0.1], ["a", "a", "b"]), "group 'b' has 1 row: an interval needs"),
        (([0.5, 0.5], [0.0, math.nan]), "groups is missing in row 1"),
        (([0.5, 0.5], [0, 1, 1]), "groups has 3 rows and the first argument 2"),
        (([], []), "scores is empty"),
        (([[0.5, 0.5]], [0, 1]), "scores has shape"),
        (([0.5, 0.5], [["a"], ["a", "b"]]), "groups has rows of different lengths"),
    ],
)
def test_bad_arrays(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        parity(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.05}, "level is 0.05: give the confidence level"),
        ({"level": "95 %"}, "level is '95 %': give one number"),
        ({"threshold": 2.0}, "threshold is 2.0: give a number from 0 to 1"),
        ({"threshold": [0.2, 0.5]}, "give one number"),
        ({"clusters": ["p", "p", "q", "r"]}, "group 0 has 1 person"),
        ({"sample_weight": [1, 1, 0, 1]}, "sample_weight is 0.0 in row 2: weights are positive"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        parity([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], **options)


def test_bad_thresholds() -> None:
    with pytest.raises(MetricError, match="threshold is nan: give a number from 0 to 1"):
        equal_rates([0.1, 0.2], [0, 1], threshold=math.nan)
    with pytest.raises(MetricError, match="rate is 2"):
        equal_rates([0.1, 0.2], [0, 1], rate=2.0)
    with pytest.raises(MetricError, match="y has the values .1, 2.: give labels 0 and 1"):
        equal_rates([0.1, 0.2], [0, 1], [1, 2])
    with pytest.raises(MetricError, match="y has the values .*: give labels 0 and 1"):
        equal_rates([0.1, 0.2], [0, 1], np.array([1, timedelta(days=1)], object))
