"""Estimates from reviews: unbiased over all draws of a tiny table, and right on larger ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import hypergeom

import oracle_reviews
from fairpc.core import MetricError
from fairpc.evidence import (
    ReviewEstimates,
    recalibrate_posterior,
    review_design,
    review_estimates,
)
from fairpc.evidence._intervals import wilson
from fairpc.evidence._review_rates import _Draw, difference_totals
from fairpc.evidence._review_rows import shifted, weights_of

Floats = npt.NDArray[np.float64]

# A table of six rows: truth, recorded label, and what a poor model says.
T = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
D = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
M = np.array([0.9, 0.4, 0.2, 0.7, 0.6, 0.1])
P = np.array([0.5, 0.3, 0.8, 0.4, 0.6, 0.25])


def subsets(p: Floats) -> Iterator[tuple[float, npt.NDArray[np.bool_]]]:
    """Every independent draw with its chance."""
    for draw in product([False, True], repeat=len(p)):
        drawn = np.array(draw)
        chance = float(np.prod(np.where(drawn, p, 1 - p)))
        if chance > 0:
            yield chance, drawn


@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_totals_are_unbiased_over_all_draws(trust: float) -> None:
    mean, second, variance = np.zeros(2), 0.0, 0.0
    for chance, drawn in subsets(P):
        weight, spread = weights_of(P, drawn, None)
        u, v = (T * D)[drawn], T[drawn]
        hats = (M * D)[drawn], M[drawn]
        totals = float((M * D).sum()), float(M.sum())
        found = np.array(difference_totals((u, v), hats, totals, weight[drawn], trust))
        mean += chance * found
        second += chance * found[1] ** 2
        variance += chance * float(spread[drawn] @ (v - trust * hats[1]) ** 2)
    assert mean == pytest.approx([(T * D).sum(), T.sum()])
    # The variance of the draw, estimated from the drawn rows, is unbiased too.
    assert variance == pytest.approx(second - mean[1] ** 2)


def test_totals_of_two_batches_are_unbiased_where_the_second_depends_on_the_first() -> None:
    """A row each; the second is drawn by the posterior if the first row contradicted its label."""
    first_p = P / P.sum()
    mean = 0.0
    for i in range(6):
        share = np.where(T[i] == D[i], 1.0, 0.1 + M)
        share[i] = 0.0
        second_p = share / share.sum()
        for j in np.flatnonzero(share):
            p, batch = np.full(6, np.nan), np.full(6, np.nan)
            p[i], p[j], batch[i], batch[j] = first_p[i], second_p[j], 0, 1
            drawn = ~np.isnan(p)
            weight, _ = weights_of(p, drawn, batch)
            parts, hats = (T[drawn], T[drawn]), (M[drawn], M[drawn])
            total = difference_totals(parts, hats, (M.sum(), M.sum()), weight[drawn], 0.7)[0]
            mean += first_p[i] * second_p[j] * total
    assert mean == pytest.approx(T.sum())


def test_a_table_that_was_reviewed_whole_leaves_nothing_to_chance() -> None:
    p, batch = np.array([0.5, 1.0, 0.5, 1.0]), np.array([0, 1, 0, 1])
    weight, spread = weights_of(p, np.ones(4, np.bool_), batch)
    assert weight.tolist() == [1, 1, 1, 1]
    assert spread.tolist() == [0, 0, 0, 0]


def table(seed: int = 0, n: int = 4000) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    x = rng.normal(size=n)
    fair = 1 / (1 + np.exp(-1.5 * x))
    t = (rng.random(n) < fair).astype(float)
    b = np.array([[0.05, 0.7], [0.1, 0.9]])
    d = (rng.random(n) < b[s, t.astype(int)]).astype(float)
    on, off = (np.where(d == 1, b[s, k], 1 - b[s, k]) for k in (1, 0))
    m = fair * on / (fair * on + (1 - fair) * off)
    return {"x": x, "s": s, "t": t, "y": d, "m": m, "h": (x > 0).astype(float)}


def reviewed(rows: dict[str, Any], n: int = 300, seed: int = 0, **options: Any) -> ReviewEstimates:
    design = review_design(
        rows["m"], n, sensitive_features=rows["s"], y=rows["y"], random_state=seed
    )
    truth = np.full(len(rows["t"]), np.nan)
    truth[design.rows] = rows["t"][design.rows]
    options = {"posterior": rows["m"], "decisions": rows["h"], **options}
    return review_estimates(truth, rows["y"], rows["s"], probability=design.probability, **options)


def test_all_rows_reviewed_give_the_rates_themselves() -> None:
    rows = table(n=400)
    t, s, y, h = rows["t"], rows["s"], rows["y"], rows["h"]
    found = review_estimates(t, y, s, probability=1.0, posterior=rows["m"], decisions=h)
    for g in (0, 1):
        here = s == g
        expected = {
            "fair_rate": t[here].mean(),
            "tpr": h[here & (t == 1)].mean(),
            "fpr": h[here & (t == 0)].mean(),
            "accuracy": (h == t)[here].mean(),
            "precision": t[here & (h == 1)].mean(),
        }
        for name, value in expected.items():
            rate = getattr(found, name)[g]
            assert (rate.value, rate.low, rate.high) == pytest.approx((value,) * 3)
        for f in (0, 1):
            rate = found.mechanism[g][f]
            assert rate.value == pytest.approx(y[here & (t == f)].mean())
            assert rate.n == (here & (t == f)).sum()
    gap = found.differences["fair_rate"][0]
    assert gap.value == pytest.approx(t[s == 1].mean() - t[s == 0].mean())


def test_reviewed_rows_alone_are_weighted_means() -> None:
    """The slow twin: Σ u / p over Σ v / p."""
    rows = table()
    design = review_design(rows["m"], 200, sensitive_features=rows["s"], random_state=1)
    truth = np.full(4000, np.nan)
    truth[design.rows] = rows["t"][design.rows]
    found = review_estimates(truth, rows["y"], rows["s"], probability=design.probability)
    for g in (0, 1):
        top = bottom = positive = carried = 0.0
        for i in design.rows:
            if rows["s"][i] == g:
                w = 1 / design.probability[i]
                top, bottom = top + w * rows["t"][i], bottom + w
                if rows["t"][i] == 1:
                    positive, carried = positive + w * rows["y"][i], carried + w
        assert found.fair_rate[g].value == pytest.approx(top / bottom)
        assert found.mechanism[g][1].value == pytest.approx(positive / carried)
        assert found.fair_rate[g].reliance == 0
    assert not found.tpr


def test_a_posterior_narrows_and_intervals_cover() -> None:
    rows = table()
    true = [rows["t"][rows["s"] == g].mean() for g in (0, 1)]
    inside, narrower = 0, 0
    for seed in range(60):
        found = reviewed(rows, seed=seed)
        alone = reviewed(rows, seed=seed, posterior=None)
        for g in (0, 1):
            rate, other = found.fair_rate[g], alone.fair_rate[g]
            inside += rate.low <= true[g] <= rate.high
            narrower += rate.high - rate.low < other.high - other.low
    assert inside >= 108  # .95 of 120 is 114; three standard errors below
    assert narrower > 110


@pytest.mark.parametrize("alone", [False, True])
def test_every_rate_is_that_of_the_slow_twin(alone: bool) -> None:
    """Two batches, the second by the first; some rows without an answer; a wrong posterior."""
    rows = table(seed=3, n=400)
    names, wrong = np.array(["a", "b"])[rows["s"]], np.clip(rows["m"] ** 2, 0.01, 0.97)
    truth, chance, batch = np.full(400, np.nan), np.ones(400), np.full(400, -1)
    for k, n in enumerate((50, 30)):
        known = {"sensitive_features": names, "y": rows["y"], "reviewed": batch >= 0}
        design = review_design(wrong, n, **known, random_state=k)
        truth[design.rows], batch[design.rows] = rows["t"][design.rows], k
        chance[design.rows] = design.probability[design.rows]
    truth[np.flatnonzero(batch >= 0)[::9]] = np.nan
    found = review_estimates(
        truth,
        rows["y"],
        names,
        probability=chance,
        batch=batch,
        drawn=batch >= 0,
        posterior=None if alone else wrong,
        decisions=rows["h"],
    )
    y, h = rows["y"].astype(int).tolist(), rows["h"].astype(int).tolist()
    own = truth.tolist(), y, names.tolist(), h, chance.tolist(), batch.tolist(), wrong.tolist()
    twin = oracle_reviews.Review(*own)
    m = None if alone else twin.corrected()
    parts: dict[str, tuple[oracle_reviews.Part, oracle_reviews.Part]] = {
        "fair_rate": (lambda i, t: t, lambda i, t: 1),
        "mechanism_0": (lambda i, t: (1 - t) * y[i], lambda i, t: 1 - t),
        "mechanism_1": (lambda i, t: t * y[i], lambda i, t: t),
        "tpr": (lambda i, t: t * h[i], lambda i, t: t),
        "fpr": (lambda i, t: (1 - t) * h[i], lambda i, t: 1 - t),
        "accuracy": (lambda i, t: t == h[i], lambda i, t: 1),
        "precision": (lambda i, t: t * h[i], lambda i, t: h[i]),
    }
    for group in ("a", "b"):
        for name, (u, v) in parts.items():
            if name.startswith("mechanism"):
                rate = found.mechanism[group][int(name[-1])]
            else:
                rate = getattr(found, name)[group]
            value, trust, low, high = oracle_reviews.rate(twin, m, group, u, v)
            assert (rate.value, rate.reliance) == pytest.approx((value, trust), abs=1e-5), name
            assert (rate.low, rate.high) == pytest.approx((low, high), abs=1.1e-3), name


@pytest.mark.parametrize(("ones", "n"), [(1, 30), (3, 10), (16, 17), (40, 120)])
def test_limits_of_a_share_are_wilsons(ones: int, n: int) -> None:
    """Rows drawn with a small chance, each with its answer."""
    u, each = np.repeat([1.0, 0.0], [ones, n - ones]), np.ones(n)
    found = _Draw(u, each, u, each, each, each, each).limits(float(ones), float(n), n, 1.96)
    assert found == pytest.approx(wilson(ones / n, n, 1.96), abs=1e-6)


@pytest.mark.parametrize(("n_rows", "n", "ones"), [(200, 180, 10), (1000, 900, 30), (400, 40, 20)])
def test_limits_hold_where_most_of_a_table_is_reviewed(n_rows: int, n: int, ones: int) -> None:
    """Over all even draws of n rows: how many of the ones are among them is hypergeometric."""
    held = 0.0
    for seen in range(max(0, n - n_rows + ones), min(n, ones) + 1):
        truth = np.full(n_rows, np.nan)
        truth[:n] = np.arange(n) < seen
        y, group = np.ones(n_rows), np.zeros(n_rows)
        found = review_estimates(truth, y, group, probability=n / n_rows).fair_rate[0]
        if found.low <= ones / n_rows <= found.high:
            held += float(hypergeom.pmf(seen, n_rows, ones, n))
    assert held > 0.92


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_very_few_rows_that_agree_exclude_no_more_than_wilson_does(n: int, answer: float) -> None:
    truth = np.full(400, np.nan)
    truth[:n] = answer
    y, group = np.ones(400), np.zeros(400)
    found = review_estimates(truth, y, group, probability=n / 400).fair_rate[0]
    low, high = wilson(answer, n, 1.96)
    assert found.low <= low
    assert found.high >= high


def test_rates_near_one_are_covered_with_few_rows() -> None:
    """Few deserved positives are missed, and those found have large weights."""
    rows = table()
    true = [rows["y"][(rows["s"] == g) & (rows["t"] == 1)].mean() for g in (0, 1)]
    missed = 0
    for seed in range(100):
        found = reviewed(rows, n=60, seed=seed)
        for g in (0, 1):
            rate = found.mechanism[g][1]
            missed += not rate.low <= true[g] <= rate.high
    assert missed <= 20  # .05 of 200 is 10; three standard errors above


def test_a_useless_posterior_does_no_harm() -> None:
    rows = table()
    noise = np.random.default_rng(5).random(4000)
    found = reviewed(rows, posterior=noise, recalibrate=False)
    alone = reviewed(rows, posterior=None)
    for g in (0, 1):
        a, b = found.fair_rate[g], alone.fair_rate[g]
        assert a.high - a.low < 1.1 * (b.high - b.low)


def test_blanks_are_missing_at_random_with_the_worst_case_beside_it() -> None:
    rows = table()
    design = review_design(rows["m"], 300, sensitive_features=rows["s"], random_state=0)
    truth = np.full(4000, np.nan)
    truth[design.rows] = rows["t"][design.rows]
    drawn = ~np.isnan(truth)
    blank = np.random.default_rng(0).choice(design.rows, 40, replace=False)
    truth[blank] = np.nan
    options: dict[str, Any] = {"probability": design.probability, "posterior": rows["m"]}
    found = review_estimates(truth, rows["y"], rows["s"], drawn=drawn, **options)
    assert (found.n_drawn, found.n_blank) == (300, 40)
    for g in (0, 1):
        for rate in (found.fair_rate[g], *found.mechanism[g].values()):
            assert rate.worst[0] <= rate.low <= rate.value <= rate.high <= rate.worst[1]
        assert found.fair_rate[g].worst[1] > found.fair_rate[g].high + 0.02
    for fill, side in ((0.0, 0), (1.0, 1)):
        filled = truth.copy()
        filled[blank] = fill
        other = review_estimates(filled, rows["y"], rows["s"], **options).fair_rate[0]
        assert found.fair_rate[0].worst[side] == pytest.approx(
            (other.low, other.high)[side], abs=0.02
        )


def test_a_rate_of_few_rows_is_flagged() -> None:
    rows = table()
    found = reviewed(rows, n=12)
    assert any(rate.few for rate in found.fair_rate.values())
    assert any("Fewer than 5" in sentence for sentence in found.warnings())
    assert found.to_dict()["warnings"]


def test_rates_that_differ_are_rejected_and_equal_ones_rarely() -> None:
    rows = table()
    assert sum(reviewed(rows, seed=k).tests["rates"].rejected for k in range(40)) <= 6
    far = dict(rows, t=np.where(rows["s"] == 0, rows["t"], rows["t"] * (rows["x"] > 0.5)))
    assert reviewed(far, n=400).tests["rates"].p_value < 0.01


@pytest.mark.parametrize("k", [2, 5])
def test_limits_of_rates_that_differ_agree_with_their_test(k: int) -> None:
    """In groups of unlike sizes; of two groups either way, of more where nothing is rejected."""
    rejected = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        s = rng.choice(k, 1500, p=np.arange(1, k + 1) / sum(range(1, k + 1)))
        t = (rng.random(1500) < 0.4 + 0.15 * (s == 0)).astype(float)
        truth, drawn = np.full(1500, np.nan), rng.choice(1500, 400, replace=False)
        truth[drawn] = t[drawn]
        found = review_estimates(truth, t, s, probability=np.full(1500, 400 / 1500))
        test = found.tests["rates"]
        rejected += test.rejected
        assert test.rejected or test.low < 0 < test.high
        assert not (test.rejected and k == 2) or not test.low <= 0 <= test.high
        assert f"{abs(100 * test.high):.1f} points" in found.conclusions()[0]
    assert 3 < rejected < 27


def test_equal_rates_are_rarely_rejected_in_small_tables_that_a_posterior_knows() -> None:
    """Rates of a table differ by chance, however well reviews and a posterior show them."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s, t = rng.integers(0, 2, (2, 1500))
        y = np.where(rng.random(1500) < 0.1, 1 - t, t).astype(float)
        m = np.clip(t + rng.normal(0, 0.1, 1500), 0.01, 0.99)
        truth, drawn = np.full(1500, np.nan), rng.choice(1500, 600, replace=False)
        truth[drawn] = t[drawn]
        chance = np.full(1500, 0.4)
        found = review_estimates(truth, y, s, probability=chance, posterior=m)
        rejected += found.tests["rates"].rejected
    assert rejected <= 6  # .05 of 60 is 3; two standard errors above


def test_the_column_that_alters_labels_is_named() -> None:
    rows = table()
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 4, 4000)
    y = np.where((kind == 2) & (rows["t"] == 1), 0.0, rows["y"])
    columns = np.column_stack([rows["x"], kind, rng.normal(size=4000)])
    altered = reviewed(dict(rows, y=y), X=columns).tests["features"]
    assert altered[1].corrected < 0.01
    kept = [reviewed(rows, seed=k, X=columns).tests["features"] for k in range(20)]
    assert sum(any(test.rejected for test in found.values()) for found in kept) <= 4


def test_a_level_whose_labels_are_noise_is_named() -> None:
    """Labels of one level are turned over in both directions: its label rate hardly changes."""
    rows = table()
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 4, 4000)
    y = np.where((kind == 2) & (rng.random(4000) < 0.45), 1 - rows["y"], rows["y"])
    found = [reviewed(dict(rows, y=y), seed=k, X=kind[:, None]) for k in range(10)]
    assert sum(one.tests["features"][0].rejected for one in found) >= 8


def test_a_column_with_one_level_is_not_counted() -> None:
    """Nothing can be said of it, so it costs the others nothing."""
    rows = table()
    columns = np.column_stack([rows["x"] > 0.4, rows["x"] > -0.4]).astype(float)
    with_constants = np.column_stack([columns, np.ones((4000, 5))])
    found = [reviewed(rows, X=x) for x in (columns, with_constants)]
    few, many = (one.tests["features"] for one in found)
    assert [many[k] for k in (0, 1)] == [few[k] for k in (0, 1)]
    assert [(many[k].p_value, many[k].corrected, many[k].n) for k in (2, 6)] == [(1.0, 1.0, 0)] * 2
    assert found[0].conclusions() == found[1].conclusions()
    assert "corrected for 2 columns" in found[1].conclusions()[1]


def test_a_shifted_posterior_has_the_mean_asked_for() -> None:
    rng = np.random.default_rng(0)
    m, place, mean = rng.random(500), rng.integers(0, 3, 500), np.array([0.02, 0.5, 0.97])
    found = shifted(m, place, mean)
    for k in range(3):
        here = place == k
        assert found[here].mean() == pytest.approx(mean[k], abs=1e-9)
        gap = np.log(found / (1 - found))[here] - np.log(m / (1 - m))[here]
        assert np.ptp(gap) < 1e-6  # one shift of the log-odds


def test_what_follows_from_the_tests_is_said() -> None:
    rows = table()
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 4, 4000)
    y = np.where((kind == 2) & (rows["t"] == 1), 0.0, rows["y"])
    far = np.where(rows["s"] == 0, rows["t"], rows["t"] * (rows["x"] > 0.5))
    kept = reviewed(rows, X=kind[:, None])
    assert "within these limits stays possible" in kept.conclusions()[0]
    assert "too few to show stays possible" in kept.conclusions()[1]
    assert not kept.contradictions()
    altered = reviewed(dict(rows, y=y, t=far), n=500, X=kind[:, None])
    limits = altered.tests["rates"]
    allowed = re.search(r"delta=(\S+) \(--rates-may-differ\)", altered.conclusions()[0])
    assert allowed is not None
    assert 0 <= float(allowed[1]) - max(abs(limits.low), abs(limits.high)) < 0.01
    assert "given=[0]" in altered.conclusions()[1]
    assert len(altered.contradictions()) == 2
    many = reviewed(dict(rows, y=y), n=500, X=np.column_stack([kind] * 3))
    assert "a model of this kind does not fit" in many.conclusions()[1]


def test_recalibration_moves_a_wrong_posterior_to_the_truth() -> None:
    rows = table()
    wrong = np.clip(rows["m"], 0, 1) ** 4
    design = review_design(wrong, 600, sensitive_features=rows["s"], random_state=0)
    truth = np.full(4000, np.nan)
    truth[design.rows] = rows["t"][design.rows]
    given = (truth, rows["y"], rows["s"])
    for cross_fit in (False, True):
        found = recalibrate_posterior(
            wrong, *given, probability=design.probability, cross_fit=cross_fit
        )
        error = ((found - rows["t"]) ** 2).mean()
        assert error < ((wrong - rows["t"]) ** 2).mean() - 0.01
        assert error < ((rows["m"] - rows["t"]) ** 2).mean() + 0.01
    own = design.rows[0]
    other = truth.copy()
    other[own] = 1 - other[own]
    again = recalibrate_posterior(
        wrong, other, rows["y"], rows["s"], probability=design.probability, cross_fit=True
    )
    assert again[own] == found[own]  # not by its own truth


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truth": np.full(6, np.nan)}, "truth is NaN in every row"),
        ({"truth": [2, 0, 1, 0, 1, 0]}, "truth is 2.0 in row 0: give 0 or 1"),
        ({"probability": np.zeros(6)}, "probability is 0.0 in row 0"),
        ({"probability": [0.5]}, "probability has shape (1,)"),
        ({"drawn": [False] * 6}, "truth is known in row 0, which was not drawn"),
        ({"posterior": [0.5]}, "posterior has 1 rows and truth 6"),
        ({"X": np.zeros((5, 2))}, "of X has 5 rows: give 6"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"truth": T, "probability": P, **options}
    truth = given.pop("truth")
    with pytest.raises(MetricError, match=re.escape(message)):
        review_estimates(truth, D, np.array(list("aabbab")), **given)
