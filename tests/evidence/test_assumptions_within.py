"""Parity within strata: the set of mechanisms against a search, level and power, bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2

import oracle
from fairpc.errors import MetricError
from fairpc.evidence import StrataTest, TopSets, test_assumptions
from fairpc.evidence._lines import LineLimits, lines, looked_at, region

Floats = npt.NDArray[np.float64]
BENT = np.array([[0.10, 0.95], [0.05, 0.60]])


def drawn(
    rng: np.random.Generator, n: int, pi: Any, bent: Floats = BENT
) -> tuple[Floats, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Features, labels, groups and strata; P(Df = 1) by group where ``pi`` has two rows."""
    rates = np.broadcast_to(pi, (2, np.shape(pi)[-1]))
    s = (rng.random(n) < 0.4).astype(int)
    a = rng.integers(0, rates.shape[1], n)
    f = (rng.random(n) < rates[s, a]).astype(int)
    x = rng.normal(size=(n, 2)) + f[:, None] * np.array([1.6, 1.1]) + 0.3 * s[:, None]
    return x, (rng.random(n) < bent[s, f]).astype(int), s, a


def test_a_rate_has_the_p_value_at_which_the_plain_set_ends_with_it() -> None:
    x, d, s, _ = drawn(np.random.default_rng(3), 1500, [0.5])
    asked: Any = {"positive": 1, "classifier": "logistic", "seeds": range(3)}
    fit = TopSets.of(x, d, s, clusters=None, sample_weight=None, **asked)
    test = fit.test(0.95)
    assert isinstance(test.lower, float)
    assert isinstance(test.upper, float)
    for rate in (test.lower - 0.02, test.upper + 0.02):
        p = fit.p_value_of(rate)
        assert p < 0.05
        wider = fit.test(1 - p)
        assert min(abs(rate - wider.lower), abs(rate - wider.upper)) < 1e-4
    assert fit.p_value_of((test.lower + test.upper) / 2) > 0.05


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_the_set_is_that_of_a_search(seed: int, n_strata: int) -> None:
    """The search looks at few lines, so what it finds possible must be possible, and nearly so."""
    rng = np.random.default_rng(seed)
    pi = rng.uniform(0.1, 0.9, n_strata)
    true = np.sort(rng.uniform(0, 1, (2, 2)), axis=1)
    rates = true[:, :1] + (true[:, 1:] - true[:, :1]) * pi + rng.normal(0, 0.02, (2, n_strata))
    variances = rng.uniform(0.0002, 0.001, (2, n_strata))
    b0, b1 = true[:, 0] + 0.1 * (1 - true[:, 0]), 0.9 * true[:, 1]
    first, last, best = oracle.possible_mechanisms(rates, variances, b0, b1, 9.0, 9)
    line = lines(rates, variances)

    def limits(largest: float) -> LineLimits:
        excess = np.full(len(line.slope), largest - line.misfit)
        return LineLimits(b0, b1, (excess,), np.array([np.inf]))

    if not (best <= 1).any():
        return
    assert line.misfit <= 9
    found = looked_at((line,), limits(9.0), first, last)
    assert (found.distance[best <= 1] <= 1.02).all()  # slopes lie on a grid
    whole = region((line,), limits(9.2))
    assert not whole.empty
    i, j = np.nonzero(best <= 1)
    (low, high), (least, most) = whole.ranges[0]
    assert low <= first[i].min() + 1e-9
    assert high >= first[i].max() - 1e-9
    assert least <= last[j].min() + 1e-9
    assert most >= last[j].max() - 1e-9


def rates_on_a_line(
    rng: np.random.Generator, n_strata: int, spread: float
) -> tuple[Floats, Floats, float, float]:
    """Rates of two groups with their variances, and the true intercept and slope."""
    pi = 0.5 + spread * np.linspace(-1, 1, n_strata)
    slope = float((BENT[1, 1] - BENT[1, 0]) / (BENT[0, 1] - BENT[0, 0]))
    variances = rng.uniform(0.0003, 0.0015, (2, n_strata))
    noise = rng.normal(size=(2, n_strata)) * np.sqrt(variances)
    rates = BENT[:, :1] + (BENT[:, 1:] - BENT[:, :1]) * pi + noise
    return rates, variances, float(BENT[1, 0] - slope * BENT[0, 0]), slope


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_no_other_line_fits_better(seed: int, n_strata: int) -> None:
    """Against a general minimiser from several starts."""
    rates, variances, *_ = rates_on_a_line(np.random.default_rng(seed), n_strata, 0.3)

    def statistic(at: Floats) -> float:
        gap = rates[1] - at[0] - np.exp(at[1]) * rates[0]
        return float((gap**2 / (variances[1] + np.exp(2 * at[1]) * variances[0])).sum())

    least = min(
        minimize(statistic, [rates[1].mean() - np.exp(start) * rates[0].mean(), start]).fun
        for start in (-1.0, 0.0, 1.0)
    )
    assert lines(rates, variances).misfit == pytest.approx(least, abs=0.02)


def test_the_limit_lies_between_strata_that_differ_and_strata_that_do_not() -> None:
    rng = np.random.default_rng(7)
    apart = lines(*rates_on_a_line(rng, 6, 0.4)[:2])
    alike = lines(*rates_on_a_line(rng, 6, 0.0)[:2])
    for alpha in (0.1, 0.02, 1e-5):
        least, most = chi2.isf(alpha, 2), chi2.isf(alpha, 6)
        best = [float(line.limit(alpha)[np.argmin(line.least)]) for line in (apart, alike)]
        assert least <= best[0] < best[1] <= most
        # Beyond what draws can tell, the tail of strata that do not differ is taken for all.
        if alpha > 1e-2:
            assert best[0] <= least + 0.25 * (most - least)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.1, 0.3])
def test_the_true_line_is_kept_however_far_strata_differ(spread: float) -> None:
    rng = np.random.default_rng(8)
    n, kept, fits = 400, 0, 0
    for _ in range(n):
        rates, variances, intercept, slope = rates_on_a_line(rng, 5, spread)
        line = lines(rates, variances)
        gap = rates[1] - intercept - slope * rates[0]
        excess = (gap**2 / (variances[1] + slope**2 * variances[0])).sum() - line.misfit
        kept += excess <= np.interp(slope, line.slope, line.limit(0.05))
        assert line.p_value is not None
        fits += line.p_value >= 0.05
    error = 2 * np.sqrt(0.95 * 0.05 / n)
    assert min(kept, fits) / n >= 0.95 - error


def test_the_true_mechanism_is_in_the_set_and_rates_are_told() -> None:
    rng = np.random.default_rng(0)
    x, y, s, a = drawn(rng, 4000, [0.2, 0.5, 0.8])
    found = test_assumptions(x, y, s, given=a, classifier="logistic", n_seeds=3)
    assert isinstance(found, StrataTest)
    assert not found.rejected
    for group in found.groups:
        assert group.b0 is not None
        assert group.b1 is not None
        low, high = BENT[group.group]
        assert group.b0[0] <= low <= group.b0[1]
        assert group.b1[0] <= high <= group.b1[1]
    assert found.groups[0].line_p_value is None
    assert [r.informs for r in found.strata] == [True] * 3
    assert sum(sum(r.n) for r in found.strata) == 4000
    json.dumps(found.to_dict())
    assert "must be argued for" in found.summary()


def test_strata_that_explain_a_difference_undo_a_rejection() -> None:
    """Fair decisions depend on the group through the stratum alone: the plain test rejects."""
    rng = np.random.default_rng(1)
    n = 6000
    s = (rng.random(n) < 0.5).astype(int)
    a = (rng.random(n) < np.where(s == 1, 0.1, 0.9)).astype(int)
    f = (rng.random(n) < np.where(a == 1, 0.85, 0.1)).astype(int)
    x = np.column_stack([rng.normal(size=n) + 3 * f, a])
    y = (rng.random(n) < np.array([[0.01, 0.99], [0.01, 0.97]])[s, f]).astype(int)
    options: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1}
    assert test_assumptions(x, y, s, **options).rejected
    assert not test_assumptions(x, y, s, given=a, **options).rejected


def test_different_rates_within_strata_are_rejected() -> None:
    rng = np.random.default_rng(2)
    pi = np.array([[0.2, 0.5, 0.8, 0.3], [0.8, 0.4, 0.3, 0.6]])
    x, y, s, a = drawn(rng, 6000, pi, np.array([[0.05, 0.95], [0.05, 0.9]]))
    found = test_assumptions(x, y, s, given=a, classifier="logistic", n_seeds=1)
    assert found.rejected
    assert found.p_value < 0.01
    line = found.groups[1].line_p_value
    assert line is not None
    assert line < 0.001
    assert found.area == 0
    assert "Rejected" in found.summary()


def test_many_strata_do_not_hide_a_small_one() -> None:
    rng = np.random.default_rng(3)
    x, y, s, a = drawn(rng, 3000, [0.2, 0.5, 0.8])
    few = np.where(np.arange(3000) < 15, "few", a.astype(str))
    found = test_assumptions(x, y, s, given=few, classifier="logistic", n_seeds=1)
    assert [r.stratum for r in found.strata if not r.informs] == ["few"]


def test_an_outline_goes_around_all_that_is_possible() -> None:
    """The shoelace area of the outline is that of the grid, and points inside are held."""
    rng = np.random.default_rng(9)
    x, y, s, a = drawn(rng, 4000, [0.2, 0.5, 0.8], np.array([[0.2, 0.8], [0.0, 1.0]]))
    found = test_assumptions(x, y, s, given=a, classifier="logistic", n_seeds=1)
    b0, b1 = np.array(found.region.outline()).T
    area = abs(np.dot(b0, np.roll(b1, 1)) - np.dot(b1, np.roll(b0, 1))) / 2
    assert area == pytest.approx(found.area, rel=0.1)
    assert found.region.holds(float(b0.mean()), float(b1.mean()))
    assert not found.region.holds(float(b0.max()) + 0.01, float(b1.mean()))
    assert not found.region.holds(float(b0.mean()), float(b1.min()) - 0.01)
    assert found.outlines()["plain"] == found.plain_region.outline()


def test_three_groups_share_the_reference() -> None:
    rng = np.random.default_rng(4)
    x, y, s, a = drawn(rng, 4000, [0.2, 0.5, 0.8])
    three = np.where((s == 1) & (rng.random(4000) < 0.5), 2, s)
    found = test_assumptions(x, y, three, given=a, classifier="logistic", n_seeds=1)
    assert found.groups[0].group == 0
    assert not found.rejected
    for group in found.groups[1:]:
        assert group.b1 is not None
        assert group.b1[0] <= BENT[1, 1] <= group.b1[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.arange(400) % 3}, "needs two"),
        ({"given": np.arange(400)}, "cut numbers into bins"),
        ({"given": np.repeat([0, 1], 200), "s": np.repeat([0, 1], 200)}, "merge strata or groups"),
        ({"positive": 7}, "give one of 0, 1"),
        ({"method": "single-split"}, "use 'cross-fit'"),
        ({"given": np.zeros(3)}, "3"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    rng = np.random.default_rng(5)
    x, y, s, a = drawn(rng, 400, [0.3, 0.7])
    named = {"y": y, "s": s, "given": a} | change
    y, s = named.pop("y"), named.pop("s")
    with pytest.raises(MetricError, match=sentence):
        test_assumptions(x, y, s, classifier="logistic", n_seeds=1, **named)


@pytest.mark.slow
@pytest.mark.parametrize("pi", [[0.5, 0.5], [0.2, 0.5, 0.8], [0.1, 0.3, 0.5, 0.7, 0.8, 0.9]])
def test_the_set_covers(pi: list[float]) -> None:
    """With strata that differ much, little or not at all; the line is not rejected too often."""
    rng = np.random.default_rng(6)
    n, hits, lines_rejected = 100, 0, 0
    for _ in range(n):
        x, y, s, a = drawn(rng, 1500, pi)
        found = test_assumptions(x, y, s, given=a, classifier="logistic", n_seeds=1)
        pairs = ((g.b0, g.b1, BENT[g.group]) for g in found.groups)
        hits += all(
            b0 is not None and b1 is not None and b0[0] <= t[0] <= b0[1] and b1[0] <= t[1] <= b1[1]
            for b0, b1, t in pairs
        )
        line = found.groups[1].line_p_value
        lines_rejected += line is not None and line < 0.05
    error = 2 * np.sqrt(0.95 * 0.05 / n)
    assert hits / n >= 0.95 - error
    assert lines_rejected / n <= 0.05 + error
