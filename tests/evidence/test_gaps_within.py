"""Gaps within strata: the decomposition, its intervals, what cannot be compared."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.errors import MetricError
from fairpc.evidence import ParityWithin, parity

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHARES = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
MEANS = np.array([[0.2, 0.4, 0.6, 0.8], [0.15, 0.35, 0.5, 0.75]])
WITHIN = float(SHARES.mean(axis=0) @ (MEANS[1] - MEANS[0]))
MIX = float(MEANS.mean(axis=0) @ (SHARES[1] - SHARES[0]))


def drawn(rng: np.random.Generator, n: tuple[int, int]) -> tuple[Floats, Ints, Ints]:
    s = np.repeat([0, 1], n)
    a = np.concatenate([rng.choice(4, n[g], p=SHARES[g]) for g in (0, 1)])
    return (rng.random(len(s)) < MEANS[s, a]).astype(float), s, a


def test_the_parts_add_up_to_the_raw_gap() -> None:
    y, s, a = drawn(np.random.default_rng(0), (300, 200))
    (pair,) = parity(y, s, given=a).pairs
    assert pair.within + pair.mix == pytest.approx(pair.raw, abs=1e-12)
    assert pair.raw == pytest.approx(parity(y, s).difference, abs=1e-12)


def test_the_parts_are_those_of_the_definition() -> None:
    y, s, a = drawn(np.random.default_rng(1), (300, 200))
    (pair,) = parity(y, s, given=a).pairs
    share = np.array([[np.mean(a[s == g] == k) for k in range(4)] for g in (0, 1)])
    mean = np.array([[y[(s == g) & (a == k)].mean() for k in range(4)] for g in (0, 1)])
    assert pair.within == pytest.approx(share.mean(axis=0) @ (mean[1] - mean[0]))
    assert [g.difference for g in pair.strata] == pytest.approx((mean[1] - mean[0]).tolist())


def test_where_only_the_mix_differs_the_gap_within_strata_is_small() -> None:
    rng = np.random.default_rng(2)
    s = np.repeat([0, 1], 4000)
    a = np.where(rng.random(8000) < np.where(s == 1, 0.8, 0.3), "long", "short")
    y = (rng.random(8000) < np.where(a == "long", 0.7, 0.2)).astype(float)
    found = parity(y, s, given=a)
    (pair,) = found.pairs
    assert found.raw.difference > 0.2
    assert pair.within_interval[0] < 0 < pair.within_interval[1]
    assert pair.mix_interval[0] > 0.2
    assert "not ruled out" in found.summary()
    assert "must be argued for" in found.summary()


def test_weights_are_those_of_repeated_rows_in_the_estimate() -> None:
    rng = np.random.default_rng(3)
    y, s, a = drawn(rng, (200, 200))
    w = rng.integers(1, 4, len(y))
    (one,) = parity(y, s, given=a, sample_weight=w).pairs
    (two,) = parity(*(np.repeat(v, w) for v in (y, s)), given=np.repeat(a, w)).pairs
    assert (one.within, one.mix) == pytest.approx((two.within, two.mix))
    assert np.ptp(one.within_interval) > np.ptp(two.within_interval)


def test_persons_who_repeat_themselves_widen_the_interval() -> None:
    y, s, a = drawn(np.random.default_rng(4), (200, 200))
    who = np.tile(np.arange(400), 3)
    thrice = [np.tile(v, 3) for v in (y, s, a)]
    (alone,) = parity(y, s, given=a).pairs
    (known,) = parity(thrice[0], thrice[1], given=thrice[2], clusters=who).pairs
    (unknown,) = parity(thrice[0], thrice[1], given=thrice[2]).pairs
    assert np.ptp(known.within_interval) == pytest.approx(np.ptp(alone.within_interval), rel=0.03)
    assert np.ptp(unknown.within_interval) < 0.7 * np.ptp(known.within_interval)


def test_strata_of_one_group_are_left_out_and_named() -> None:
    y, s, a = drawn(np.random.default_rng(5), (200, 200))
    lonely = np.where((s == 0) & (a == 0), 9, a)
    found = parity(y, s, given=np.where(lonely == 0, 1, lonely))
    (pair,) = found.pairs
    assert pair.left_out == ((9, int((lonely == 9).sum())),)
    assert "left out" in found.summary()


def test_several_columns_are_crossed_and_three_groups_compared() -> None:
    rng = np.random.default_rng(6)
    s, a, b = rng.integers(0, 3, 900), rng.integers(0, 2, 900), rng.choice(["x", "y"], 900)
    found = parity(rng.random(900), s, given=np.column_stack([a.astype(object), b]))
    assert isinstance(found, ParityWithin)
    assert len(found.pairs) == 3
    assert found.n_strata == 4
    json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (np.repeat([0, 1], 100), "no stratum in common"),
        (np.arange(200), "at most 200 strata|no stratum in common"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: Ints, sentence: str) -> None:
    y, s = np.tile([0.0, 1.0], 100), np.repeat([0, 1], 100)
    with pytest.raises(MetricError, match=sentence):
        parity(y, s, given=given)


def test_too_many_strata_are_refused() -> None:
    n = 600
    with pytest.raises(MetricError, match="cut numbers into bins"):
        parity(np.zeros(n), np.tile([0, 1], n // 2), given=np.arange(n))


@pytest.mark.slow
def test_the_intervals_cover() -> None:
    rng = np.random.default_rng(7)
    n, hits = 1000, np.zeros(2)
    for _ in range(n):
        y, s, a = drawn(rng, (400, 250))
        (pair,) = parity(y, s, given=a).pairs
        ends = (pair.within_interval, WITHIN), (pair.mix_interval, MIX)
        hits += [low <= truth <= high for (low, high), truth in ends]
    # Two standard errors of the simulation below .95.
    assert (hits / n >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / n)).all(), hits / n
