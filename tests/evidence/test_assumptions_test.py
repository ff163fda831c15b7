"""The test of the assumptions: published figures, level and power, options, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from evidence.arrays import drawn, published, revealing
from fairpc.errors import MetricError
from fairpc.evidence import Sample, identified_set, test_assumptions
from fairpc.evidence._top_sets import (
    ClassRates,
    GroupRows,
    best_cut,
    cross_fitted,
    joint_bound,
    separate_bound,
)
from fairpc.learners import Features, deal, design, distinct, learners

FIGURES = {
    "adult": (0.294, 0.129, 0.02),
    "compas": (0.830, 0.866, 0.02),
    "german": (0.27, 0.87, 0.1),
}


@pytest.mark.parametrize("name", FIGURES)
def test_published_figures(name: str) -> None:
    found = test_assumptions(*published(name), classifier="logistic")
    lower, upper, tolerance = FIGURES[name]
    assert found.lower == pytest.approx(lower, abs=tolerance)
    assert found.upper == pytest.approx(upper, abs=tolerance)
    assert found.rejected == (name == "adult")
    assert (found.p_value < 0.05) == found.rejected


@pytest.mark.slow
@pytest.mark.parametrize("name", [str(k) for k in range(10, 21)])
def test_synthetic_sets_contain_the_truth(name: str) -> None:
    found = test_assumptions(*published(name), classifier="logistic")
    assert isinstance(found.lower, float)
    assert isinstance(found.upper, float)
    assert found.lower <= 0.5 <= found.upper


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000, 10_000])
@pytest.mark.parametrize("mechanism", [((0.0, 0.7), (0.3, 1.0)), ((0.0, 1.0), (0.0, 1.0))])
def test_level(n: int, mechanism: tuple[tuple[float, float], ...]) -> None:
    """200 tables on which the assumptions hold and both ends bind."""
    covered = rejected = 0
    for seed in range(200):
        x, y, s = revealing(np.random.default_rng(seed), n, mechanism)
        found = test_assumptions(x, y, s, classifier="logistic")
        assert isinstance(found.lower, float)
        assert isinstance(found.upper, float)
        covered += found.lower <= 0.5 <= found.upper
        rejected += found.rejected
    assert binomtest(covered, 200, 0.95, "less").pvalue > 0.01
    assert binomtest(rejected, 200, 0.05, "greater").pvalue > 0.01


@pytest.mark.slow
def test_exact_option_keeps_its_level() -> None:
    covered = 0
    for seed in range(200):
        x, y, s = revealing(np.random.default_rng(seed), 1_000)
        found = test_assumptions(x, y, s, classifier="logistic", method="single-split")
        assert isinstance(found.lower, float)
        assert isinstance(found.upper, float)
        covered += found.lower <= 0.5 <= found.upper
    assert binomtest(covered, 200, 0.95, "less").pvalue > 0.01


def test_power_where_rates_of_fair_decisions_differ() -> None:
    x, y, s = revealing(np.random.default_rng(0), 4_000, pi=(0.3, 0.6))
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    assert found.rejected
    assert found.lower > found.upper
    assert found.what_to_do
    text = found.summary()
    assert text.startswith("Rejected at the 0.05 level")
    assert "looked at again" in text
    assert "Do not go on" in text


def test_not_rejected_promises_nothing() -> None:
    x, y, s = drawn(np.random.default_rng(1), 2_000)
    found = test_assumptions(x, y, s, n_seeds=1)
    assert not found.rejected
    assert found.p_value > 0.05
    assert found.what_to_do == ()
    text = found.summary()
    assert text.startswith("Not rejected")
    assert "hold" not in text
    assert "does not show" in text
    assert [g.n for g in found.groups] == np.bincount(s).tolist()
    assert sum(count for _, count in found.classifiers) == 10


def test_p_value_is_where_the_set_becomes_empty() -> None:
    x, y, s = revealing(np.random.default_rng(2), 1_500, pi=(0.45, 0.55))
    first = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    assert 1e-10 < first.p_value < 0.5
    for shift, rejected in ((0.98, False), (1.02, True)):
        level = 1 - first.p_value * shift
        again = test_assumptions(x, y, s, classifier="logistic", n_seeds=3, level=level)
        assert again.rejected == rejected


def test_single_split_is_wider() -> None:
    x, y, s = drawn(np.random.default_rng(3), 4_000)
    wide = test_assumptions(x, y, s, classifier="logistic", method="single-split")
    usual = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    assert wide.n_seeds == 1
    assert wide.lower < usual.lower < usual.upper < wide.upper


def test_ends_are_rates_of_the_sets() -> None:
    x, y, s = revealing(np.random.default_rng(14), 4_000)
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    ends = found.ends()
    # The mechanism itself: 0 and .7 in group 0, .3 and 1 in group 1.
    assert ends[0] == pytest.approx((0.0, 0.7), abs=0.05)
    assert ends[1] == pytest.approx((0.3, 1.0), abs=0.05)


def test_ends_are_in_order_where_features_say_nothing() -> None:
    rng = np.random.default_rng(7)
    x, y, s = rng.normal(size=(300, 3)), rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    tops = [{c.label: c for c in group.classes} for group in found.groups]
    # The case is there: a bottom set with a larger rate than its group, or a top set with a lower.
    assert any(1 - t[0].set_rate > t[1].rate or t[1].set_rate < t[1].rate for t in tops)
    for (low, high), top in zip(found.ends().values(), tops, strict=True):
        assert low <= top[1].rate <= high
    assert not identified_set(y.astype(float), s, ends=found.ends()).empty


def test_positive_turns_the_set_round() -> None:
    x, y, s = drawn(np.random.default_rng(4), 1_000)
    one = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
    zero = test_assumptions(x, y, s, classifier="logistic", n_seeds=1, positive=0)
    assert (zero.lower, zero.upper) == pytest.approx((1 - one.upper, 1 - one.lower))


def test_persons_stay_in_one_fold_and_count_once() -> None:
    x, y, s = revealing(np.random.default_rng(6), 900)
    persons = np.tile(np.arange(900), 3)
    thrice = np.tile(x, (3, 1)), np.tile(y, 3), np.tile(s, 3)
    alone = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    found = test_assumptions(*thrice, classifier="logistic", n_seeds=3, clusters=persons)
    assert found.lower == pytest.approx(alone.lower, abs=0.03)
    assert found.upper == pytest.approx(alone.upper, abs=0.03)
    assert sum(g.effective_n for g in found.groups) == pytest.approx(900, rel=0.01)
    folds = deal(thrice[1], persons, 5, np.random.default_rng(0))
    assert (folds.reshape(3, 900) == folds[:900]).all()


def test_weights_widen() -> None:
    rng = np.random.default_rng(7)
    x, y, s = revealing(rng, 2_000)
    plain = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    weights = np.where(rng.random(2_000) < 0.1, 20.0, 1.0)
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=3, sample_weight=weights)
    assert found.lower < plain.lower
    assert found.upper > plain.upper
    assert all(g.effective_n < 0.6 * g.n for g in found.groups)
    alike = test_assumptions(x, y, s, classifier="logistic", n_seeds=3, sample_weight=[3.0] * 2_000)
    assert (alike.lower, alike.upper) == (plain.lower, plain.upper)


def test_missing_cells_and_names_are_features() -> None:
    rng = np.random.default_rng(8)
    x, y, s = revealing(rng, 1_000)
    table = x.astype(object)
    table[:, 0] = np.where(x[:, 0] == 1, "shown", "hidden")
    table[rng.random(x.shape) < 0.2] = None
    found = test_assumptions(table, y, s, classifier="logistic", n_seeds=1)
    assert not found.rejected


def test_boosting_is_chosen_where_it_predicts_better() -> None:
    rng = np.random.default_rng(9)
    n = 1_500
    x = (rng.random((n, 3)) < 0.5).astype(float)
    s = rng.integers(0, 2, n)
    y = np.where(rng.random(n) < 0.9, x[:, 0] != x[:, 1], rng.integers(0, 2, n)).astype(int)
    found = test_assumptions(x, y, s, n_seeds=1)
    assert dict(found.classifiers) == {"gradient boosting": 10}


@pytest.mark.parametrize("classifier", [DecisionTreeClassifier(), KNeighborsClassifier(15)])
def test_any_classifier_serves(classifier: Any) -> None:
    x, y, s = revealing(np.random.default_rng(10), 600)
    found = test_assumptions(x, y, s, classifier=classifier, n_seeds=1)
    assert not found.rejected


def test_a_class_that_hardly_occurs() -> None:
    x, y, s = revealing(np.random.default_rng(11), 400)
    y = np.zeros_like(y)
    y[[np.argmin(s), np.argmax(s)]] = 1
    assert not test_assumptions(x, y, s, classifier="logistic", n_seeds=1).rejected


def test_merged_rows_give_the_counts_of_all_rows() -> None:
    x, y, _ = drawn(np.random.default_rng(12), 2_000)
    rows = np.arange(2_000)
    options = learners("logistic", weighted=False)
    few, index = distinct(x)
    merged = GroupRows(Features(few), index, y, None, None)
    apart = GroupRows(Features(x), rows, y, None, None)
    assert len(merged.distinct) <= 2**6
    assert (merged.distinct.matrix[merged.index] == x).all()
    a, b = (cross_fitted(group, options, 0) for group in (merged, apart))
    assert [t.n_top for t in a.classes] == [t.n_top for t in b.classes]
    assert a.cuts == pytest.approx(b.cuts, abs=1e-6)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, s = revealing(np.random.default_rng(13), 600)
    found = []
    for n_threads in ("1", "3"):
        monkeypatch.setenv("FAIRPC_THREADS", n_threads)
        found.append(test_assumptions(x, y, s, n_seeds=3).to_dict())
    assert found[0] == found[1]


def test_best_cut_by_hand() -> None:
    """40 rows at .9 with 38 hits beat 10 at .95 with 10 (too few) and all 90 with 60."""
    scores = np.array([0.95, 0.9, 0.2])
    hits, totals = np.array([10.0, 38.0, 12.0]), np.array([10.0, 40.0, 40.0])
    assert best_cut(scores, hits, totals, 30) == 0.9
    assert best_cut(scores, hits, totals, 91) == -math.inf


def test_joint_bound_solves_its_equation() -> None:
    whole, top = Sample(0.4, 1000, 0.4 * 0.6 / 1000, math.inf), Sample(0.8, 100, 0.0016, math.inf)
    co = math.sqrt(100 / 1000 * 0.8 * 0.2 / (0.4 * 0.6))
    counts = ClassRates(1000, whole, 100, top, co)
    bound = joint_bound(counts, 0.0125)
    assert 0.4 / 0.8 < bound < separate_bound(counts, 0.0125)
    from scipy.stats import beta

    a, b = beta.isf(0.0125, 401, 600) - 0.4, 0.8 - beta.ppf(0.0125, 80, 21)
    terms = bound**2 * (0.64 - b * b) - 2 * bound * (0.32 - co * a * b) + 0.16 - a * a
    assert terms == pytest.approx(0.0, abs=1e-12)
    assert joint_bound(ClassRates(1000, whole, 0, None, 0.0), 0.01) == 1.0


def test_design_of_mixed_columns() -> None:
    table = np.array([["a", 1, 5.0, 7], ["b", 0, None, 7], ["a", None, 9.0, 7]], object)
    found = design(table)
    # a, b; the 0/1 column and its holes; the standardised column and its holes; no constant.
    assert found.tolist() == [
        [1.0, 0.0, 1.0, 0.0, -1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.5, 1.0, 1.0, 0.0],
    ]
    assert design(np.array([str(k) for k in range(100)])).shape == (100, 32)
    with pytest.raises(MetricError, match="column 0 of X holds an infinite value"):
        design([[math.inf], [1.0]])


def bad(**changes: Any) -> dict[str, Any]:
    x, y, s = drawn(np.random.default_rng(13), 60)
    return {"X": x, "y": y, "sensitive_features": s, "n_seeds": 1} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(60)}, "y has 1 class"),
        ({"y": [math.nan] * 60}, "y is missing in row 0"),
        ({"sensitive_features": [0] * 60}, "sensitive_features has 1 value"),
        ({"sensitive_features": ["a"] * 59 + ["b"]}, "group 'b' has 1 row: folds within folds"),
        (
            {"y": [0] * 30 + [0, 1] * 15, "sensitive_features": np.repeat(["a", "b"], 30)},
            "class 1 does not occur in group 'a'",
        ),
        ({"X": np.ones((60, 2))}, "every feature of X has one value"),
        ({"X": np.ones((60, 0))}, "X has shape"),
        ({"y": [0, 1]}, "y has 2 rows and the first argument 60"),
        ({"classifier": "forest"}, "classifier is 'forest'"),
        ({"classifier": 3}, "without fit and predict_proba"),
        (
            {"classifier": KNeighborsClassifier(), "sample_weight": np.arange(1, 61)},
            "KNeighborsClassifier.fit takes none",
        ),
        ({"method": "exact"}, "method is 'exact'"),
        ({"method": "single-split", "clusters": np.arange(60) // 2}, "one row per person"),
        ({"positive": 7}, "positive is 7"),
        ({"y": np.arange(60) // 2 % 3}, "y has 3 classes.*merge classes into two.*'strudel'"),
        ({"X": [[1.0], [1.0, 2.0]] * 30}, "X has rows of different lengths"),
        ({"n_seeds": 0}, "give a whole number from 1"),
        ({"n_seeds": 1.5}, "give a whole number from 1"),
        ({"seeds": "ab"}, "a seed is .a.: give a whole number"),
        ({"level": 1.0}, "level is 1.0"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        test_assumptions(**bad(**changes))


def test_progress_is_told_before_each_split() -> None:
    x, y, s = revealing(np.random.default_rng(13), 400)
    told: list[tuple[int, int]] = []
    test_assumptions(
        x, y, s, classifier="logistic", n_seeds=2, progress=lambda *now: told.append(now)
    )
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4)]


@pytest.mark.parametrize("method", [np.array(["cross-fit"] * 2), ["cross-fit"], None, "x"])
def test_methods_that_are_none(method: Any) -> None:
    with pytest.raises(MetricError, match="method is .*use one of cross-fit, single-split"):
        test_assumptions([[0.0], [1.0]], [0, 1], ["a", "b"], method=method)


@pytest.mark.filterwarnings("ignore")
def test_weights_of_which_few_count() -> None:
    """The lower end of a rate is then lost in rounding, and all rows that count may be certain."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        weights = np.where(rng.random(40) < 0.1, 1.0, 10.0 ** rng.uniform(-11.9, -8, 40))
        groups = np.array(["a", "b"])[np.arange(40) % 2]
        asked: dict[str, Any] = {"n_seeds": 1, "sample_weight": weights}
        found = test_assumptions(rng.normal(size=(40, 2)), rng.integers(0, 2, 40), groups, **asked)
        assert 0 <= found.lower <= 1
        assert 0 <= found.upper <= 1
