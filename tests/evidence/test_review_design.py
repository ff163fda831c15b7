"""Rows are drawn with the chances that a design claims, and widths follow from them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

import oracle_reviews
from fairpc.core import MetricError
from fairpc.evidence import (
    expected_in_words,
    expected_widths,
    review_design,
    review_estimates,
)
from fairpc.evidence._review_rates import ExpectedReview, rates_of_group

Floats = npt.NDArray[np.float64]

M = np.array([0.02, 0.5, 0.9, 0.3, 0.0, 1.0, 0.6, 0.1])
S = np.array(["a", "a", "b", "b", "a", "b", "a", "b"])
Y = np.array([0, 1, 1, 0, 0, 1, 1, 0])


@pytest.mark.parametrize("draw", ["fixed", "independent"])
@pytest.mark.parametrize("n_draws", [1_500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_rows_have_the_chances_that_are_claimed(draw: Any, n_draws: int) -> None:
    rng = np.random.default_rng(3)
    times, sizes = np.zeros(8), set()
    for _ in range(n_draws):
        design = review_design(M, 3, sensitive_features=S, y=Y, draw=draw, random_state=rng)
        times[design.rows] += 1
        sizes.add(len(design.rows))
    p = design.probability
    # Draws of different rows are no more variable than independent ones.
    statistic = float(((times - n_draws * p) ** 2 / (n_draws * p * (1 - p))).sum())
    assert statistic < chi2.ppf(0.999, 8)
    assert sizes == {3} if draw == "fixed" else len(sizes) > 3
    assert p.sum() == pytest.approx(3)


def test_a_fifth_is_spread_evenly_and_no_chance_exceeds_one() -> None:
    m = np.r_[np.full(95, 0.001), np.full(5, 0.5)]
    p = review_design(m, 20, random_state=0).probability
    assert p.min() >= 0.2 * 20 / 100
    assert p.max() <= 1
    assert p.sum() == pytest.approx(20)
    assert p[-1] > 2 * p[0]


def test_chances_follow_the_standard_deviation_left_by_the_posterior() -> None:
    """One group: share of i is .2 / N + .8 σ_i / Σ σ, σ of (10 m + ½) / 11 by hand."""
    m = np.array([0.5, 0.05, 0.2, 0.8])
    unsure = [(10 * v + 0.5) / 11 for v in m]
    sigma = [(v * (1 - v)) ** 0.5 for v in unsure]
    wanted = [0.2 / 4 + 0.8 * v / sum(sigma) for v in sigma]
    assert review_design(m, 1, random_state=0).probability == pytest.approx(wanted)


def test_uniform_is_even_and_earlier_rows_are_left_out() -> None:
    first = review_design(M, 3, method="uniform", random_state=0)
    assert first.probability == pytest.approx(3 / 8)
    after = review_design(M, 2, method="uniform", reviewed=first.rows, random_state=0)
    assert (after.probability[first.rows] == 0).all()
    assert not set(after.rows) & set(first.rows)
    mask = np.isin(np.arange(8), first.rows)
    same = review_design(M, 2, method="uniform", reviewed=mask, random_state=0)
    assert (same.rows == after.rows).all()


def test_every_stratum_is_covered() -> None:
    strata = np.r_[np.zeros(900), np.ones(95), np.full(5, 2)]
    m = np.random.default_rng(0).random(1000)
    for seed in range(20):
        design = review_design(m, 40, strata=strata, random_state=seed)
        assert (np.bincount(strata[design.rows].astype(int)) >= 5).all()
        assert len(design.rows) == 40


def test_everything_can_be_reviewed() -> None:
    design = review_design(M, 8, random_state=0)
    assert (design.probability == 1).all()
    assert (design.rows == np.arange(8)).all()


def test_two_columns_of_a_posterior_count_as_one() -> None:
    both = review_design(np.column_stack([1 - M, M]), 3, random_state=0)
    assert (both.rows == review_design(M, 3, random_state=0).rows).all()


def test_expected_widths_shrink_with_reviews() -> None:
    rng = np.random.default_rng(0)
    m, s = rng.beta(0.3, 0.6, 3000), rng.integers(0, 2, 3000)
    y = (rng.random(3000) < m).astype(int)
    few, many = (expected_widths(m, n, sensitive_features=s, y=y, aim=0.04) for n in (100, 400))
    assert [e.name for e in few] == ["fair_rate", "mechanism_0", "mechanism_1"] * 2
    for a, b in zip(few, many, strict=True):
        assert b.half_width < a.half_width
        assert a.half_width < a.alone
        assert a.n_needed == b.n_needed
        reached = expected_widths(m, a.n_needed, sensitive_features=s, y=y)
        assert min(e.half_width for e in reached if (e.name, e.group) == (a.name, a.group)) <= 0.04
    assert re.search(r"With 100 files .* ±\d+ points; .* review [\d,]+\.", few[0].summary())


def _table(slope: float, seed: int = 0, n: int = 3000) -> dict[str, Floats]:
    """Rows of two groups, and a posterior whose log-odds are so many times the right ones."""
    rng = np.random.default_rng(seed)
    s, x = rng.integers(0, 2, n), rng.normal(size=n)
    t = (rng.random(n) < 1 / (1 + np.exp(1 - 1.5 * x))).astype(np.float64)
    b = np.array([[0.03, 0.7], [0.05, 0.9]])
    y = (rng.random(n) < b[s, t.astype(int)]).astype(np.float64)
    on, off = (np.where(y == 1, b[s, k], 1 - b[s, k]) for k in (1, 0))
    m = 1 / (1 + np.exp(-slope * (1.5 * x - 1 + np.log(on / off))))
    return {"m": m, "s": s.astype(np.float64), "y": y, "t": t, "h": (x > 0.5).astype(np.float64)}


def _got(
    rows: dict[str, Floats], n: int, draws: int, method: Any = "active"
) -> dict[tuple[str, Any], float]:
    """Median half widths of reviews."""
    known: dict[str, Any] = {"sensitive_features": rows["s"], "y": rows["y"]}
    halves = defaultdict(list)
    for seed in range(draws):
        design = review_design(
            rows["m"], n, **known, decisions=rows["h"], method=method, random_state=seed
        )
        truth = np.full(len(rows["t"]), np.nan)
        truth[design.rows] = rows["t"][design.rows]
        how: Any = {"probability": design.probability, "posterior": rows["m"]}
        found = review_estimates(truth, rows["y"], rows["s"], decisions=rows["h"], **how)
        rates = {
            (f"mechanism_{f}", g): one[f] for g, one in found.mechanism.items() for f in (0, 1)
        }
        for name in ("fair_rate", "tpr", "fpr", "accuracy", "precision"):
            rates |= {(name, g): rate for g, rate in getattr(found, name).items()}
        for key, rate in rates.items():
            halves[key].append((rate.high - rate.low) / 2)
    return {key: float(np.median(of)) for key, of in halves.items()}


@pytest.mark.parametrize("n", [60, 300])
def test_a_review_gives_what_was_promised(n: int) -> None:
    """By a posterior that is too sure, as those of real tables are."""
    rows = _table(1.6)
    known: Any = {"sensitive_features": rows["s"], "y": rows["y"], "decisions": rows["h"]}
    widths, got = expected_widths(rows["m"], n, **known), _got(rows, n, draws=15)
    ratios = [got[width.name, width.group] / width.half_width for width in widths]
    assert 0.85 < np.exp(np.log(ratios).mean()) < 1.1


@pytest.mark.parametrize("n", [150, 600])
def test_a_right_posterior_expects_the_limits_of_a_review(n: int) -> None:
    rows = _table(1.0)
    chance = np.full(3000, n / 3000)
    cell, got = (2 * rows["y"] + rows["h"]).astype(int), _got(rows, n, 15, "uniform")
    for g in (0, 1):
        own = rows["s"] == g
        review = ExpectedReview.of(rows["m"][own], cell[own])
        for rate in rates_of_group(g, int(own.sum()), rows["y"][own], rows["h"][own], "all"):
            low, high = review.limits(rate, chance[own], 1.96)
            assert (high - low) / 2 == pytest.approx(got[rate.name, g], rel=0.2), rate.name


def test_expected_limits_are_those_of_the_slow_twin() -> None:
    rows = {name: values[:150] for name, values in _table(1.0).items()}
    m, y, h = np.round(rows["m"], 3), rows["y"], rows["h"]
    cell, chance = (2 * y + h).astype(int), 0.1 + 0.6 * m
    parts: dict[str, tuple[oracle_reviews.Part, oracle_reviews.Part]] = {
        "fair_rate": (lambda i, t: t, lambda i, t: 1),
        "mechanism_0": (lambda i, t: (1 - t) * y[i], lambda i, t: 1 - t),
        "mechanism_1": (lambda i, t: t * y[i], lambda i, t: t),
        "precision": (lambda i, t: t * h[i], lambda i, t: h[i]),
    }
    review, z = ExpectedReview.of(m, cell), 1.959964
    for rate in rates_of_group(0, 150, y, h, "all"):
        if rate.name in parts:
            twin = oracle_reviews.expected_limits(
                m.tolist(), cell.tolist(), chance.tolist(), *parts[rate.name]
            )
            assert review.limits(rate, chance, z) == pytest.approx(twin, abs=1.1e-3), rate.name


def test_a_wrong_model_never_promises_narrower_limits_than_a_right_one() -> None:
    """Rows of "a" are clear: a design that cares for those of "b" draws few of them."""
    rng = np.random.default_rng(0)
    s = rng.choice(["a", "b"], 3000)
    m = np.where(s == "a", rng.choice([0.02, 0.6], 3000, p=[0.97, 0.03]), rng.random(3000))
    widths = expected_widths(m, 300, sensitive_features=s, y=(m > 0.5).astype(int))
    assert all(w.alone >= w.half_width for w in widths)


@pytest.mark.parametrize(
    ("half_width", "said"),
    [(0.0374, "±4"), (0.0051, "±1"), (0.0049, "±0.5"), (0.00001, "±0.1"), (0.0, "±0")],
)
def test_a_rate_is_said_to_be_known_exactly_only_where_it_is(half_width: float, said: str) -> None:
    assert f"would be known to {said} points;" in expected_in_words(
        "it", 300, half_width, 20, ((20, 0.2),), 0.05
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 9}, "n is 9: give a whole number from 1 to 8"),
        ({"n": 2, "floor": 0.1}, "floor is 0.1"),
        ({"n": 2, "quantity": "mechanism"}, "y is None: give y"),
        ({"n": 2, "quantity": "errors"}, "decisions is None: give decisions"),
        ({"n": 2, "method": "clever"}, "use one of active, uniform"),
        ({"n": 2, "strata": np.arange(8)}, "n is 2 and strata has 8 values"),
        ({"n": 2, "reviewed": [8]}, "positions of rows below 8"),
        ({"n": 2, "reviewed": np.arange(8)}, "reviewed has every row"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        review_design(M, **options)
