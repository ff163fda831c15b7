"""Error rates against Df: closed forms against a grid of mechanisms, the truth, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize_scalar

from fairpc.core._records import parse_json
from fairpc.errors import MetricError
from fairpc.evidence import (
    THROUGH_DF,
    ErrorRates,
    PairErrorRates,
    RateRange,
    RecordedRates,
    error_rates,
    review_design,
    review_estimates,
)
from fairpc.evidence._error_sets import RATES, DecisionCells, GroupSet, Rate, StrataSet, coupled
from fairpc.evidence._possible_sets import pair_range

Floats = npt.NDArray[np.float64]


def true_rate(rate: Rate, shares: Floats, b0: float, b1: float) -> float:
    """By Bayes, from the joint of (h, Df) that a mechanism and the joint of (h, D) imply."""
    p00, p01, p10, p11 = shares
    fair = {}
    for h, (no, yes) in enumerate(((p00, p01), (p10, p11))):
        fair[h, 1] = (yes - b0 * (no + yes)) / (b1 - b0)
        fair[h, 0] = no + yes - fair[h, 1]
    found = {
        "tpr": fair[1, 1] / (fair[1, 1] + fair[0, 1]),
        "fpr": fair[1, 0] / (fair[1, 0] + fair[0, 0]),
        "accuracy": fair[1, 1] + fair[0, 0],
        "precision": fair[1, 1] / (p10 + p11),
        "selection": p10 + p11,
    }
    return float(found[rate])


@st.composite
def populations(draw: st.DrawFn) -> GroupSet:
    """A group with a joint of (h, D) that a mechanism made, and ends that it allows."""

    def number(low: float, high: float) -> float:
        return draw(st.floats(low, high))

    pi, tpr, fpr = number(0.25, 0.75), number(0.1, 0.95), number(0.05, 0.9)
    b0, b1 = number(0.02, 0.3), number(0.6, 0.98)
    fair = np.array([[(1 - pi) * (1 - fpr), pi * (1 - tpr)], [(1 - pi) * fpr, pi * tpr]])
    rates = np.array([[1 - b0, b0], [1 - b1, b1]])
    shares = (fair @ rates).ravel()
    cells = DecisionCells(shares, np.zeros((4, 4)), 1e9, math.inf)
    # Rows with h = 0 and with h = 1 are sets, too, so that ends are beyond their rates.
    low = min(shares[1] / (shares[0] + shares[1]), shares[3] / (shares[2] + shares[3]))
    high = max(shares[1] / (shares[0] + shares[1]), shares[3] / (shares[2] + shares[3]))
    m = b0 + number(0.0, 0.9) * (low - b0)
    top = b1 - number(0.0, 0.9) * (b1 - high)
    rho = float(shares[1] + shares[3])
    return GroupSet(cells, (0.0, m), (top, 1.0), (rho, rho))


def at(group: GroupSet, pi: float, part: float) -> tuple[float, float] | None:
    """A mechanism of the box with this P(Df=1), from one end of those that have it to the other."""
    rho = group.rho[0]
    low = max(group.b1[0], (rho - (1 - pi) * group.b0[1]) / pi)
    high = min(group.b1[1], (rho - (1 - pi) * group.b0[0]) / pi)
    if low > high + 1e-12:
        return None
    b1 = low + part * (high - low)
    return (rho - pi * b1) / (1 - pi), b1


@given(populations())
def test_a_rate_is_extreme_at_corners(group: GroupSet) -> None:
    for rate in RATES:
        low, high = group.range(rate)
        seen = [
            true_rate(rate, group.cells.shares, b0, b1)
            for b0 in np.linspace(*group.b0, 13)
            for b1 in np.linspace(*group.b1, 13)
        ]
        assert low == pytest.approx(min(seen), abs=1e-9)
        assert high == pytest.approx(max(seen), abs=1e-9)


def turns(group: GroupSet) -> list[float]:
    """Where the mechanisms of a P(Df=1) go from one side of the box to another, and its ends."""
    rho = group.rho[0]
    corners = [(group.b0[i], group.b1[1 - i]) for i in (0, 1)]
    return [*group.pi, *((rho - b0) / (b1 - b0) for b0, b1 in corners)]


def brute_gap(
    rate: Rate, first: GroupSet, last: GroupSet, delta: float, *, ratio: bool, sign: int
) -> float:
    """The largest sign × gap over a grid of mechanisms, refined around the best of the grid."""

    def gap(pis: tuple[float, float], parts: tuple[float, float]) -> float:
        mechanisms = [at(g, pi, t) for g, pi, t in zip((first, last), pis, parts, strict=True)]
        if mechanisms[0] is None or mechanisms[1] is None:
            return -math.inf
        x, y = (
            true_rate(rate, g.cells.shares, *m)
            for g, m in zip((first, last), mechanisms, strict=True)
            if m is not None
        )
        return sign * (y / x if ratio else y - x)

    best = -math.inf
    start, stop = first.pi
    mine, theirs = turns(first), turns(last)
    shifts = {-delta, 0.0, delta, *(b - a for a in mine for b in theirs if abs(b - a) <= delta)}
    for shift in sorted(shifts):
        for parts in [(a, b) for a in (0.0, 0.5, 1.0) for b in (0.0, 0.5, 1.0)]:
            low = max(start, last.pi[0] - shift)
            high = min(stop, last.pi[1] - shift)
            if low > high:
                continue

            def along(pi: float, shift: float = shift, parts: Any = parts) -> float:
                return gap((pi, pi + shift), parts)

            inside = [t for t in (*mine, *(b - shift for b in theirs)) if low < t < high]
            grid = np.unique([*np.linspace(low, high, 21), *inside])
            values = [along(pi) for pi in grid]
            i = int(np.argmax(values))
            best = max(best, values[i])
            around = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
            if around[0] < around[1]:
                polished = minimize_scalar(
                    lambda pi: -along(pi), bounds=around, method="bounded", options={"xatol": 1e-12}
                )
                best = max(best, -polished.fun)
    return best


@given(populations(), populations(), st.sampled_from([0.0, 0.03, 0.1]), st.sampled_from(RATES[:4]))
def test_gaps_of_groups_that_depend_on_each_other(
    first: GroupSet, last: GroupSet, delta: float, rate: Rate
) -> None:
    ranges = [(g.possible.lower, g.possible.upper) for g in (first, last)]
    sets, left = coupled([first, last], ranges, delta)
    if not left:
        return
    for ratio in (False, True):
        low, high = pair_range(sets[0], sets[1], rate, delta, ratio=ratio)
        most = brute_gap(rate, sets[0], sets[1], delta, ratio=ratio, sign=1)
        least = -brute_gap(rate, sets[0], sets[1], delta, ratio=ratio, sign=-1)
        assert high == pytest.approx(most, abs=1e-9, rel=1e-9)
        assert low == pytest.approx(least, abs=1e-9, rel=1e-9)


def drawn(
    n: int, seed: int = 0, pi: tuple[float, float] = (0.45, 0.45)
) -> tuple[Floats, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Label scores, decisions, labels, groups and fair decisions; a feature nearly shows Df."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    f = rng.random(n) < np.array(pi)[s]
    x = rng.normal(np.where(f, 1.5, -1.5), 1.0)
    mechanism = np.array([[0.05, 0.9], [0.15, 0.7]])
    d = rng.random(n) < mechanism[s, f.astype(int)]
    odds = 3 * x + np.log(np.array(pi) / (1 - np.array(pi)))[s]
    q = 1 / (1 + np.exp(-odds))
    r = mechanism[s, 0] + (mechanism[s, 1] - mechanism[s, 0]) * q
    h = x > np.where(s == 1, 0.4, -0.1)
    return r, h.astype(int), d.astype(int), np.array(["m", "w"])[s], f


def truth(rate: Rate, h: npt.NDArray[Any], f: npt.NDArray[Any]) -> float:
    found = {
        "tpr": h[f].mean(),
        "fpr": h[~f].mean(),
        "accuracy": (h == f).mean(),
        "precision": f[h == 1].mean(),
        "selection": h.mean(),
    }
    return float(found[rate])


@pytest.mark.slow
def test_at_the_true_mechanism_rates_are_those_of_the_truth() -> None:
    r, h, d, s, f = drawn(1_500_000, 1)
    known = {"m": {"b0": 0.05, "b1": 0.9}, "w": {"b0": 0.15, "b1": 0.7}}
    found = error_rates(h, d, s, label_scores=r, knowledge=known, n_seeds=1)
    for name, group in found.groups.items():
        for rate in RATES:
            own = getattr(group, rate)
            assert own.identified[0] == pytest.approx(own.identified[1], abs=1e-9)
            assert own.identified[0] == pytest.approx(
                truth(rate, h[s == name], f[s == name]), abs=0.002
            )


@pytest.mark.parametrize("delta", [1.0, 0.2, 0.0])
def test_ranges_hold_the_truth_and_nest(delta: float) -> None:
    r, h, d, s, f = drawn(8_000, 1)
    found = error_rates(h, d, s, label_scores=r, delta=delta, scores=r, simultaneous=True)
    each = error_rates(h, d, s, label_scores=r, delta=delta)
    for rate in RATES:
        value = {}
        for name, group in found.groups.items():
            low, high = getattr(group, rate)
            value[name] = truth(rate, h[s == name], f[s == name])
            assert low <= value[name] <= high
            single = getattr(each.groups[name], rate)
            assert low <= single.low <= single.identified[0]
            assert single.identified[1] <= single.high <= high
            assert min(single.sampling) >= 0
        gap, ratio = getattr(found.differences[0], rate), getattr(found.ratios[0], rate)
        assert value["w"] - value["m"] in gap
        assert value["w"] / value["m"] in ratio
    for one in found.calibration:
        here = (s == one.group) & (r >= one.low) & ((r < one.high) | (one.high == 1))
        assert one.n == here.sum()
        assert f[here].mean() in one.fair
        assert one.recorded == pytest.approx(d[here].mean())


def test_parity_and_knowledge_narrow() -> None:
    r, h, d, s, _ = drawn(8_000, 2)
    free = error_rates(h, d, s, label_scores=r)
    equal = error_rates(h, d, s, label_scores=r, delta=0.0)
    known = error_rates(h, d, s, label_scores=r, knowledge={"w": {"b1": (0.0, 0.75)}})
    ends = (own.groups["w"].fpr.identified for own in (equal, free))
    assert np.diff(next(ends)) < np.diff(next(ends))
    assert known.groups["w"].fpr.width < free.groups["w"].fpr.width
    assert known.groups["m"].fpr == free.groups["m"].fpr
    # Fair rates are equal at once, so that not every pair of ends is possible.
    inside = equal.differences[0].fpr.identified
    outside = (
        equal.groups["w"].fpr.identified[0] - equal.groups["m"].fpr.identified[1],
        equal.groups["w"].fpr.identified[1] - equal.groups["m"].fpr.identified[0],
    )
    assert outside[0] - 1e-9 <= inside[0] <= inside[1] <= outside[1] + 1e-9


def test_features_in_place_of_scores_and_what_is_recorded() -> None:
    r, h, d, s, f = drawn(3_000, 3)
    found = error_rates(h, d, s, X=r[:, None], classifier="logistic", n_seeds=2)
    for name, group in found.groups.items():
        here = s == name
        assert truth("tpr", h[here], f[here]) in group.tpr
        assert group.recorded.tpr == pytest.approx(h[here & (d == 1)].mean())
        assert group.recorded.precision == pytest.approx(d[here & (h == 1)].mean())
    assert found.differences[0].recorded.fpr == pytest.approx(
        found.groups["w"].recorded.fpr - found.groups["m"].recorded.fpr
    )


def test_equal_rates_that_labels_exclude() -> None:
    r, h, d, s, _ = drawn(8_000, 4, pi=(0.7, 0.3))
    found = error_rates(h, d, s, label_scores=r, delta=0.0)
    assert found.rejected
    assert math.isnan(found.groups["w"].tpr.low)
    assert not math.isnan(found.groups["w"].selection.low)
    assert "contradict" in found.summary()
    assert not error_rates(h, d, s, label_scores=r, delta=0.6).rejected


def test_repeated_persons_and_weights_widen() -> None:
    r, h, d, s, _ = drawn(2_000, 5)
    once = error_rates(h, d, s, label_scores=r)
    twice = np.tile(np.arange(2_000), 2)
    rows = [np.tile(v, 2) for v in (h, d, s, r)]
    by_row = error_rates(*rows[:3], label_scores=rows[3])
    by_person = error_rates(*rows[:3], label_scores=rows[3], clusters=twice)
    assert by_person.groups["m"].effective_n == pytest.approx(once.groups["m"].effective_n)
    assert sum(by_row.groups["m"].tpr.sampling) < sum(by_person.groups["m"].tpr.sampling)
    weights = np.random.default_rng(0).uniform(0.5, 5, 2_000)
    weighted = error_rates(h, d, s, label_scores=r, sample_weight=weights)
    assert weighted.groups["m"].effective_n < once.groups["m"].n


def test_classes_of_the_label_and_groups_that_are_never_selected() -> None:
    r, h, d, s, _ = drawn(2_000, 6)
    words = np.array(["no", "yes"])
    same = error_rates(words[h], words[d], s, label_scores=r)
    assert same.groups["m"].tpr == error_rates(h, d, s, label_scores=r).groups["m"].tpr
    turned = error_rates(words[1 - h], words[1 - d], s, label_scores=r, positive="no")
    assert turned.groups["m"].tpr == same.groups["m"].tpr
    found = error_rates(np.where(s == "w", 0, h), d, s, label_scores=r)
    assert math.isnan(found.groups["w"].precision.low)
    assert found.groups["w"].tpr.identified[1] == pytest.approx(0, abs=1e-9)
    assert math.isnan(found.differences[0].precision.low)


def test_as_plain_data() -> None:
    r, h, d, s, _ = drawn(2_000, 7)
    found = error_rates(h, d, s, label_scores=r, scores=r)
    text = json.dumps(found.to_dict(), allow_nan=False)
    data: Any = parse_json(text.encode(), "the record", 1 << 20)
    assert set(data["groups"]["w"]["tpr"]) == {"low", "high", "identified", "sampling"}
    assert data["summary"] == found.summary()
    low, high = found.groups["w"].tpr
    assert (low, high) == tuple(found.groups["w"].tpr)
    assert found.groups["w"].tpr[1] == high
    assert np.asarray(found.groups["w"].tpr).shape == (2,)


def test_words() -> None:
    r, h, d, s, _ = drawn(20_000, 8)
    high = (r > np.where(s == "w", 0.66, 0.1)).astype(int)
    found = error_rates(high, d, s, label_scores=r)
    assert found.differences[0].sign("tpr") == "lower"
    said = f"If {THROUGH_DF}, the true positive rate of 'w' is lower than that of 'm' by "
    assert said in found.summary()
    narrow = error_rates(h, d, s, label_scores=r)
    assert narrow.differences[0].sign("tpr") == "undecided"
    assert "not decidable from these labels" in narrow.summary()


def test_a_difference_that_is_small_for_sure() -> None:
    small = RateRange(-0.004, 0.011, (0.0, 0.005))
    rates = RecordedRates(0.5, 0.5, 0.5, 0.5, 0.5)
    pair = PairErrorRates("m", "w", small, small, small, small, small, recorded=rates)
    assert not pair.is_open("tpr")
    level: Any = {"level": 0.95, "simultaneous": False, "delta": 1.0, "rejected": False}
    found = ErrorRates({}, (pair,), (), (), **level, positive=1)
    assert found.sentences[0] == (
        f"If {THROUGH_DF}, the true positive rate of 'w' differs from that of 'm' by at most "
        "1 point."
    )


def test_decisions_that_saw_the_labels_are_refused() -> None:
    r, h, d, s, _ = drawn(4_000, 9)
    few = np.random.default_rng(0).random(4_000) < 0.005
    for copied in (d, np.where(few, 1 - d, d)):
        with pytest.raises(MetricError, match="decisions repeat the label"):
            error_rates(copied, d, s, label_scores=r)
    half = np.random.default_rng(0).random(4_000) < 0.9
    with pytest.raises(MetricError, match="trained the model"):
        error_rates(np.where(half, d, h), d, s, label_scores=r)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_scores": None}, "neither was given"),
        ({"X": np.zeros((400, 1))}, "both were given"),
        ({"label_scores": np.full(399, 0.5)}, "label_scores has 399 rows"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"level": 2}, "level is 2"),
        ({"scores": np.full(3, 0.5)}, "scores has 3 rows"),
        ({"knowledge": {"x": {}}}, "a group of knowledge is 'x'"),
        ({"knowledge": {"w": {"b2": 1}}}, "give ranges of b0 and b1"),
        ({"knowledge": {"w": {"b0": (0.4, 0.2)}}}, "the lower end first"),
        ({"knowledge": {"w": {"b0": (0.9, 1)}}}, "contradicts its labels"),
        ({"knowledge": [1]}, "knowledge is not a mapping"),
    ],
)
def test_bad_options(change: dict[str, Any], message: str) -> None:
    r, h, d, s, _ = drawn(400, 10)
    with pytest.raises(MetricError, match=message):
        error_rates(h, d, s, **({"label_scores": r} | change))


def test_bad_rows() -> None:
    r, h, d, s, _ = drawn(400, 11)
    with pytest.raises(MetricError, match="y has 3 classes"):
        error_rates(h, np.arange(400) % 3, s, label_scores=r)
    with pytest.raises(MetricError, match=r"decisions has the value 0\.5"):
        error_rates(np.full(400, 0.5), d, s, label_scores=r)
    with pytest.raises(MetricError, match="has the same label"):
        error_rates(h, np.where(s == "w", 1, d), s, label_scores=r)


def drawn_in_strata(
    n: int, seed: int
) -> tuple[Floats, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], Any]:
    """Fair rates differ by stratum and groups have other mixes of them; mechanisms differ, too."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    a = (rng.random(n) < np.array([0.3, 0.7])[s]).astype(int)
    pi = np.array([0.3, 0.6])
    f = rng.random(n) < pi[a]
    x = rng.normal(np.where(f, 1.5, -1.5), 1.0)
    mechanism = np.array([[[0.05, 0.9], [0.02, 0.75]], [[0.15, 0.7], [0.05, 0.95]]])
    own = mechanism[s, a]
    d = rng.random(n) < own[np.arange(n), f.astype(int)]
    q = 1 / (1 + np.exp(-(3 * x + np.log(pi / (1 - pi))[a])))
    r = own[:, 0] + (own[:, 1] - own[:, 0]) * q
    h = x > np.where(s == 1, 0.6, -0.4)
    return r, h.astype(int), d.astype(int), np.array(["m", "w"])[s], f, np.array(["a", "b"])[a]


@pytest.mark.parametrize("delta", [1.0, 0.0])
def test_ranges_within_strata_hold_the_truth(delta: float) -> None:
    r, h, d, s, f, a = drawn_in_strata(12_000, 1)
    found = error_rates(h, d, s, label_scores=r, given=a, delta=delta, scores=r)
    assert not found.rejected
    for rate in RATES:
        value = {}
        for name, group in found.groups.items():
            own = getattr(group, rate)
            value[name] = truth(rate, h[s == name], f[s == name])
            assert value[name] in own
            assert own.low <= own.identified[0] <= own.identified[1] <= own.high
        assert value["w"] - value["m"] in getattr(found.differences[0], rate)
    assert all(
        f[(s == b.group) & (r >= b.low) & (r < b.high)].mean() in b.fair for b in found.calibration
    )
    assert [own.stratum for own in found.strata] == ["a", "b"]
    for own in found.strata:
        here = (a == own.stratum) & (s == "w")
        assert truth("tpr", h[here], f[here]) in own.rates.groups["w"].tpr
    free = error_rates(h, d, s, label_scores=r, given=a)
    if delta == 0:
        assert found.groups["w"].tpr.width < free.groups["w"].tpr.width


def test_strata_with_equal_mechanisms_are_one_table_at_the_estimates() -> None:
    """Two halves of a table, each with the box of the whole, leave what the whole leaves."""
    rng = np.random.default_rng(0)
    h, d = rng.random(600) < 0.4, rng.random(600) < 0.5
    half = (np.arange(600) % 2).astype(np.intp)
    whole = DecisionCells.of(h, d, None, None)
    parts = DecisionCells.of(h, d, None, None, half)
    one = GroupSet(whole, (0.1, 0.1), (0.95, 0.95), (0.5, 0.5))
    two = StrataSet(parts, (one, one))
    z = 2.0
    wide = StrataSet(parts.smoothed(z), (one, one), z), replace(one, cells=whole.smoothed(z), z=z)
    for rate in RATES:
        assert two.range(rate) == pytest.approx(one.range(rate), abs=1e-8)
        assert wide[0].range(rate) == pytest.approx(wide[1].range(rate), abs=1e-3)


@given(populations(), populations(), st.floats(0.2, 0.8))
def test_a_rate_over_strata_is_extreme_at_corners_of_each(
    first: GroupSet, last: GroupSet, share: float
) -> None:
    shares = np.concatenate([share * first.cells.shares, (1 - share) * last.cells.shares])
    found = StrataSet(DecisionCells(shares, np.zeros((8, 8)), 1e9, math.inf), (first, last))
    grids = [
        [(b0, b1) for b0 in np.linspace(*g.b0, 5) for b1 in np.linspace(*g.b1, 5)]
        for g in (first, last)
    ]
    for rate in RATES[:4]:
        seen = [pooled(rate, (first, last), (share, 1 - share), m) for m in product(*grids)]
        low, high = found.range(rate)
        assert low == pytest.approx(min(seen), abs=1e-8)
        assert high == pytest.approx(max(seen), abs=1e-8)


def pooled(rate: Rate, groups: Any, weights: Any, mechanisms: Any) -> float:
    """A rate of both strata together: fair positives and negatives of each, added up."""
    cells = np.zeros((2, 2))
    for group, weight, (b0, b1) in zip(groups, weights, mechanisms, strict=True):
        for h, (no, yes) in enumerate(group.cells.shares.reshape(2, 2)):
            fair = (yes - b0 * (no + yes)) / (b1 - b0)
            cells[h] += weight * np.array([no + yes - fair, fair])
    (tn, fn), (fp, tp) = cells
    return float(
        {
            "tpr": tp / (tp + fn),
            "fpr": fp / (fp + tn),
            "accuracy": tp + tn,
            "precision": tp / (tp + fp),
        }[rate]
    )


def test_strata_that_cannot_be() -> None:
    r, h, d, s, _, a = drawn_in_strata(400, 2)
    few = np.where(np.arange(400) < 3, "c", a)
    with pytest.raises(MetricError, match="has . rows in stratum 'c'"):
        error_rates(h, d, s, label_scores=r, given=few)


def test_reviews_that_would_decide() -> None:
    r, h, d, s, f = drawn(8_000, 8)
    found = error_rates(h, d, s, label_scores=r)
    pair = found.differences[0]
    assert (pair.fpr_reviews is None) == (not pair.is_open("fpr"))
    n = pair.tpr_reviews
    assert n is not None
    assert 50 < n < 8_000
    assert f"about {n:,} reviews would decide a difference of" in found.sentences[0]
    # Four of five reviews of so many rows show such a difference, or that there is none.
    decides = 0
    for seed in range(20):
        design = review_design(r, n, sensitive_features=s, y=d, decisions=h, random_state=seed)
        answers = np.full(8_000, np.nan)
        answers[design.rows] = f[design.rows]
        about: Any = {"probability": design.probability, "posterior": r, "decisions": h}
        gap = review_estimates(answers, d, s, **about).differences["tpr"][0]
        apart = pair.detectable("tpr")
        decides += gap.low > 0 or gap.high < 0 or -apart < gap.low <= gap.high < apart
    assert decides >= 16
    # Held-out scores that a classifier learns from the features say about the same.
    learned = error_rates(h, d, s, X=r[:, None], classifier="logistic")
    assert learned.differences[0].tpr_reviews == pytest.approx(n, rel=0.3)


def test_decisions_that_follow_labels_among_rows_that_are_alike() -> None:
    r, h, d, s, _ = drawn(6_000, 12)
    assert error_rates(h, d, s, label_scores=r).doubt == ""
    rng = np.random.default_rng(0)
    # A part of the decisions is the label: as of a tree that has learned some rows by heart.
    for share, refused in ((0.15, False), (0.5, True)):
        seen = np.where(rng.random(6_000) < share, d, h)
        if refused:
            with pytest.raises(MetricError, match="either these rows trained the model, or it"):
                error_rates(seen, d, s, label_scores=r)
        else:
            found = error_rates(seen, d, s, label_scores=r)
            assert found.summary().startswith("Check first: among rows that")
