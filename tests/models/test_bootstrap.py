"""Intervals of the mechanism: each replicate against a fit by itself, refusals, coverage."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fairpc import FairPC, Knowledge, LatNB, NLatPC, bootstrap_mechanism
from fairpc.circuit import laplace, prepare
from fairpc.circuit._em import fit as fit_em
from fairpc.data import Table
from fairpc.datasets import make_synthetic
from fairpc.datasets._synthetic import FAIR_RATE, MECHANISM
from fairpc.errors import FairpcError
from fairpc.evidence import test_assumptions
from fairpc.models import Draws
from fairpc.models._bootstrap import farther_limits
from fairpc.refits import Progress
from models.refits_tables import drawn, mixed, naive, not_rejected

Z = 1.959963984540054
"""The .975 quantile of the normal distribution."""


def intervals(model: Any, **options: Any) -> Any:
    x, y, s, _ = drawn()
    usual: dict[str, Any] = {
        "n_replicates": 5,
        "n_steps": 10,
        "assumptions": not_rejected(),
        "random_state": 0,
    }
    return bootstrap_mechanism(model, x, y, sensitive_features=s, **(usual | options))


def test_a_group_that_was_too_small_to_test_keeps_its_scores() -> None:
    """Held-out ends are then taken of no group: those of the scores bound the set."""
    test = not_rejected()
    found = intervals(naive(), assumptions=replace(test, groups=test.groups[:1])).identified
    x, _, s, _ = drawn()
    scores = naive().predict_observed_proba(x, sensitive_features=s)[:, 1]
    for group, name in zip(found.groups, (0, 1), strict=True):
        assert group.low == pytest.approx(scores[s == name].min())
        assert group.high == pytest.approx(scores[s == name].max())


@pytest.mark.parametrize("make", [naive, mixed])
def test_a_replicate_is_a_fit_to_the_drawn_rows(make: Any) -> None:
    """Each is where EM alone ends on a table with every row repeated as often as it was drawn."""
    model = make()
    found = intervals(model)
    x, y, s, _ = drawn()
    distribution = model.distribution_
    graph, top = distribution.circuit.graph, distribution.top
    prior = laplace(graph, 1.0)  # without the recipe's 30 pseudo-rows of the mechanism
    layout = distribution.layout
    codes = layout.codes(s, y, model.coding_.features.transform(x))
    if layout.component is not None:  # all rows are from the heaviest component
        weights = [
            np.exp(distribution.circuit.log_marginal(np.array([[-1] * (codes.shape[1] - 1) + [k]])))
            for k in range(layout.n_components)
        ]
        codes[:, layout.component] = np.argmax(weights)

    def fitted(rows: Any, start: Any) -> Any:
        table = Table.of(codes[rows], np.ones(len(rows)), arities=distribution.circuit.arities)
        return fit_em(prepare(graph, table), start, prior=prior, max_iter=10, tol=0).parameters

    n = len(x)
    own = fitted(np.arange(n), distribution.circuit.parameters)
    np.testing.assert_allclose(found.mechanism, own[top.mechanism], atol=1e-9)
    moved = np.abs(own[top.mechanism] - model.bias_mechanism_).max()
    assert found.moved == pytest.approx(moved, abs=1e-9)
    rng = np.random.default_rng(0)
    for b in range(5):
        theta = fitted(rng.integers(n, size=n), own)
        np.testing.assert_allclose(found.replicates[b], theta[top.mechanism], atol=1e-9)
        np.testing.assert_allclose(found.fair_rate_replicates[b], theta[top.decision[0]], atol=1e-9)
    np.testing.assert_allclose(found.sd, found.replicates.std(axis=0, ddof=1))
    for k in np.ndindex(found.sd.shape):
        rows = n * own[top.group][k[0]] * found.fair_rate[k[1]]
        ends = slow_ends(found.mechanism[k], found.sd[k], rows)
        assert (found.lower[k], found.upper[k]) == pytest.approx(ends, abs=1e-9)
    half = Z * 1.25 * found.fair_rate_replicates.std(axis=0, ddof=1)
    np.testing.assert_allclose(found.fair_rate_upper, np.minimum(found.fair_rate + half, 1))
    np.testing.assert_allclose(found.fair_rate_lower, np.maximum(found.fair_rate - half, 0))


def slow_ends(centre: float, sd: float, rows: float) -> tuple[float, float]:
    """Where |centre - b| is z standard errors at b, found by halving; or z of those at the centre.

    The standard error at b is that of m rows, and m the number for which it is that of the draws
    at the centre; no more than ``rows`` and two of either kind, with which the centre is counted.
    """
    nearer = (rows * centre + 2) / (rows + 4)
    spread = max(sd, math.sqrt(nearer * (1 - nearer) / (rows + 4)))
    m = nearer * (1 - nearer) / spread**2

    def farthest(end: float) -> float:
        near, far = centre, end
        if abs(centre - end) <= Z * math.sqrt(end * (1 - end) / m):
            return end
        for _ in range(200):
            b = (near + far) / 2
            inside = abs(centre - b) <= Z * math.sqrt(b * (1 - b) / m)
            near, far = (b, far) if inside else (near, b)
        return near

    low, high = farthest(0.0), farthest(1.0)
    return max(min(low, centre - Z * spread), 0), min(max(high, centre + Z * spread), 1)


@pytest.mark.parametrize("centre", [0.002, 0.05, 0.4, 0.5, 0.93, 0.9999])
@pytest.mark.parametrize("sd", [0.0, 0.001, 0.03, 0.2])
@pytest.mark.parametrize("rows", [12.0, 300.0, 20_000.0])
def test_ends_are_those_of_the_definition(centre: float, sd: float, rows: float) -> None:
    low, high = farther_limits(np.array(centre), np.array(sd), np.array(rows), 0.95)
    assert (low, high) == pytest.approx(slow_ends(centre, sd, rows), abs=1e-9)


def test_draws_that_never_turn_a_label_leave_it_open_how_many_are() -> None:
    """None of 96 rows, and draws that agree: 100 rows with the four, z² / 100 = .038415.

    The farthest share b has b = z √(b(1 - b) / 100): b = .038415 / 1.038415 = .036993.
    """
    low, high = farther_limits(np.zeros(1), np.zeros(1), np.full(1, 96.0), 0.95)
    assert low[0] == 0
    assert high[0] == pytest.approx(0.036993, abs=1e-6)


def test_a_prior_of_the_mechanism_does_not_move_intervals() -> None:
    """300 rows with D = Df pull the model, not the mechanism that the rows say."""
    x, y, s, _ = drawn()
    pulled = LatNB(max_iter=300, mechanism_prior=300.0, guard=False).fit(x, y, sensitive_features=s)
    free, found = (intervals(m, n_steps=400, n_replicates=2) for m in (naive(), pulled))
    assert np.abs(pulled.bias_mechanism_ - naive().bias_mechanism_).max() > 0.05
    np.testing.assert_allclose(found.mechanism, free.mechanism, atol=0.01)
    assert "prior of the mechanism is left out" in found.summary()


def test_rows_and_persons_that_say_as_much() -> None:
    weights = np.array([1.0, 1.0, 2.0, 2.0])
    assert Draws(2, 1, 0.95).n_effective(weights) == pytest.approx(36 / 10)
    persons = np.array([0, 0, 1, 2])  # of weights 2, 2, 2
    assert Draws(2, 1, 0.95, persons).n_effective(weights) == pytest.approx(3)


def test_persons_are_drawn_whole() -> None:
    weights = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    persons = np.array([0, 0, 0, 1, 2, 2])
    rng = np.random.default_rng(0)
    draws = Draws(2, 1, 0.95, persons)
    for _ in range(20):
        times = draws.weights(weights, rng) / weights
        assert len(set(times[:3])) == len(set(times[4:])) == 1
        assert times[0] + times[3] + times[4] == 3
    assert Draws(2, 1, 0.95).weights(weights, rng).sum() > 0


def test_rejected_assumptions_give_no_interval_and_a_way_on() -> None:
    rejected = replace(not_rejected(), rejected=True, lower=0.6, upper=0.4)
    found = intervals(naive(), assumptions=rejected)
    assert found.n_replicates == 0
    for values in (found.lower, found.upper, found.sd, found.fair_rate_lower, found.fair_rate_sd):
        assert np.isnan(values).all()
    words = found.summary()
    assert words.startswith("No intervals. The data reject the assumptions")
    for way in ("within its levels", "looked at again", "know something beforehand"):
        assert way in words
    assert json.loads(json.dumps(found.to_dict()))["lower"][0][0][0] is None


def test_the_test_is_made_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(test_assumptions, classifier="logistic", n_seeds=1)
    monkeypatch.setattr("fairpc.models._bootstrap.test_assumptions", quick)
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 300)
    fair = (rng.random(300) < np.where(s == 1, 0.1, 0.9)).astype(int)
    label = np.where(rng.random(300) < 0.02, 1 - fair, fair)
    x = np.column_stack([fair, rng.random(300) < 0.5]).astype(int)
    model = LatNB(guard=False).fit(x, label, sensitive_features=s)
    found = bootstrap_mechanism(model, x, label, sensitive_features=s, n_replicates=3, n_steps=5)
    assert found.refused is not None
    assert found.assumptions is not None
    assert found.assumptions.rejected
    assert found.identified is not None
    assert found.identified.empty


def test_rows_too_few_for_the_test_get_no_intervals() -> None:
    x, y, s, _ = drawn()
    few = np.concatenate([np.flatnonzero(s == 0)[:30], np.flatnonzero(s == 1)[:8]])
    model = LatNB().fit(x[few], y[few], sensitive_features=s[few])
    found = bootstrap_mechanism(
        model, x[few], y[few], sensitive_features=s[few], n_replicates=3, n_steps=5
    )
    assert found.refused is not None
    assert "could not be tested" in found.refused
    assert "'1' has 8 rows" in found.refused


def test_knowledge_is_kept_in_every_replicate() -> None:
    x, y, s, _ = drawn()
    model = LatNB(knowledge=Knowledge(fair_rate=0.5), max_iter=50)
    model.fit(x, y, sensitive_features=s)
    found = intervals(model)
    np.testing.assert_allclose(found.fair_rate_replicates, 0.5)
    assert (found.fair_rate_sd == 0).all()
    assert (found.fair_rate_lower == 0.5).all()
    assert (found.fair_rate_upper == 0.5).all()


def test_ends_keep_to_what_is_known() -> None:
    """Labels of group 1 were only ever lowered: none is turned up, however few rows there are."""
    x, y, s, _ = drawn()
    model = LatNB(knowledge=Knowledge(one_sided={1: "lowered"}), max_iter=50)
    found = intervals(model.fit(x, y, sensitive_features=s))
    assert found.upper[1, 0, 1] == 0
    assert found.lower[1, 0, 0] == 1
    assert found.upper[0, 0, 1] > 0


def test_progress_grows_to_its_end() -> None:
    seen: list[Progress] = []
    intervals(naive(), n_replicates=40, n_steps=3, callback=seen.append)
    done = [p.done for p in seen]
    assert done == sorted(done)
    assert seen[-1].done == seen[-1].total == 41 * 3


def test_the_same_seed_gives_the_same_record() -> None:
    one, two, other = (intervals(naive(), random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.replicates, two.replicates)
    assert (one.replicates != other.replicates).any()
    record = one.to_dict()
    assert "replicates" not in record
    assert record["identified"]["lower"] <= record["identified"]["upper"]
    assert json.loads(json.dumps(record)) == record


def test_three_classes_and_three_groups() -> None:
    rng = np.random.default_rng(1)
    s, f = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    y = np.where(rng.random(900) < 0.7, f, rng.integers(0, 3, 900))
    x = np.column_stack([(f + (rng.random(900) < 0.2)) % 3 for _ in range(4)])
    model = LatNB().fit(x, y, sensitive_features=s)
    tested = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
    options: dict[str, Any] = {"n_replicates": 4, "n_steps": 20, "random_state": 0}
    found = bootstrap_mechanism(model, x, y, sensitive_features=s, assumptions=tested, **options)
    assert found.mechanism.shape == found.lower.shape == (3, 3, 3)
    assert found.identified is None
    assert found.refused is None
    assert "P(D = 2 | Df = 1, S = 0)" in found.summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_replicates": 1}, "n_replicates is 1: give a whole number from 2 on"),
        ({"n_steps": 0}, "n_steps is 0"),
        ({"level": 1.0}, "level is 1.0: give a number between 0 and 1"),
        ({"clusters": [0, 1]}, "1500 rows and 2 clusters"),
        ({"clusters": np.zeros(1500)}, "clusters has 1 person"),
        ({"sensitive_features": None}, "the groups of the rows are not known"),
        ({"sensitive_features": [0, 1]}, "1,500 rows and 2 sensitive features"),
    ],
)
def test_bad_input_is_told_so(options: dict[str, Any], message: str) -> None:
    x, y, s, _ = drawn()
    usual: dict[str, Any] = {"assumptions": not_rejected(), "n_steps": 2, "sensitive_features": s}
    with pytest.raises(FairpcError, match=message):
        bootstrap_mechanism(naive(), x, y, **(usual | options))


def test_models_that_have_no_mechanism_are_refused() -> None:
    x, y, s, _ = drawn()
    model = NLatPC(structure="chow-liu").fit(x, y, sensitive_features=s)
    with pytest.raises(FairpcError, match="NLatPC has no latent fair decision"):
        bootstrap_mechanism(model, x, y, sensitive_features=s)
    with pytest.raises(FairpcError, match="a str was given: refits take a fitted FairPC or LatNB"):
        bootstrap_mechanism("model", x, y)
    with pytest.raises(ValueError, match="not fitted"):
        bootstrap_mechanism(FairPC(), x, y)


@pytest.mark.slow
@pytest.mark.parametrize("bent", [None, "drawn"])
def test_intervals_cover_the_truth_as_often_as_they_say(bent: str | None) -> None:
    """100 tables: binomial tests, entry by entry at .01 / 5, do not reject a coverage of .95.

    The mechanism is the paper's, or drawn: P(D=1 | 0, s) under .5, P(D=1 | 1, s) over .5. None of
    these tables had a part in choosing how intervals are made.
    """
    hits = []
    for seed in range(20_000, 20_100):
        data, rng = make_synthetic(6, 1500, random_state=seed), np.random.default_rng(seed)
        s, f = np.asarray(data.sensitive), np.asarray(data.df)
        mechanism = np.array(MECHANISM)
        if bent:
            mechanism = np.stack([rng.uniform(0, 0.4, 2), rng.uniform(0.6, 1, 2)], axis=1)
        y = (rng.random(1500) < mechanism[s, f]).astype(int)
        model = FairPC(n_components=1, guard=False, random_state=seed)
        options: dict[str, Any] = {"n_replicates": 32, "n_steps": 200, "random_state": seed}
        options |= {"sensitive_features": s, "assumptions": not_rejected()}
        found = bootstrap_mechanism(
            model.fit(data.X, y, sensitive_features=s), data.X, y, **options
        )
        low = np.append(found.lower[:, :, 1], found.fair_rate_lower[1])
        high = np.append(found.upper[:, :, 1], found.fair_rate_upper[1])
        truth = np.append(mechanism, FAIR_RATE)
        hits.append((low <= truth) & (truth <= high))
    for covered in np.sum(hits, axis=0):
        assert stats.binomtest(int(covered), 100, 0.95, alternative="less").pvalue > 0.01 / 5
