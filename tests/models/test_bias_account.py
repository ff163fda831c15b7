"""What is said about altered labels: ranges first, then the point, and nothing where labels clash.

The range of a number of labels is compared with all mechanisms of a grid.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from fairpc import FairPC, LatentDecision, LatNB, load
from fairpc.core import Floats
from fairpc.datasets import load_adult
from fairpc.errors import ContradictionWarning
from fairpc.models import BiasAccount, TableClassifier, _forest_fit as forest_fit
from fairpc.models._bias_account import ASSUMED, NO_DIFFERENCE, mechanism_ranges
from strategies import examples

ALTERED = np.array([[0.10, 0.95], [0.02, 0.60]])
"""P(D = 1 | Df, S), [s, f]: labels altered against the second group."""
MODELS = ("forest", "latent")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick fits: trees of a few leaves, grown on few rows."""
    monkeypatch.setattr(forest_fit, "GROWING_ROWS", 300)
    monkeypatch.setattr(forest_fit, "MAX_LEAVES", 30)


def model_of(kind: str, **given: Any) -> Any:
    if kind == "forest":
        return FairPC("sex", structure="forest", random_state=0, **given)
    return LatentDecision(
        TableClassifier("logistic"), sensitive="sex", cv=3, random_state=0, **given
    )


def people(n: int, mechanism: Floats = ALTERED, seed: int = 0) -> tuple[pl.DataFrame, Any]:
    """Five features, of which three tell the fair decision, and its altered label."""
    rng = np.random.default_rng(seed)
    s, x = rng.integers(0, 2, n), rng.integers(0, 4, (n, 5))
    z = (x - 1.5) @ np.array([2.4, -1.6, 1.2, 0.0, 0.0])
    f = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    d = (rng.random(n) < mechanism[s, f]).astype(int)
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(5)})
    return frame.with_columns(sex=pl.Series(np.where(s == 0, "m", "w"))), d


def recorded_rates(frame: pl.DataFrame, d: Any) -> Floats:
    return np.array([d[(frame["sex"] == sex).to_numpy()].mean() for sex in ("m", "w")])


# --- numbers of labels ------------------------------------------------------------------------


@st.composite
def accounts(draw: st.DrawFn) -> BiasAccount:
    """One group with a mechanism inside its ranges, b0 below the recorded rate and b1 above."""
    share = st.floats(0.0, 1.0)
    n, rate = draw(st.integers(10, 10_000)), draw(st.floats(0.02, 0.98))
    b0, b1 = (np.sort([draw(share), draw(share)]) for _ in range(2))
    b0, b1 = rate * b0, rate + (1 - rate) * b1
    positive = np.array([b0, b1])  # [f, end] of D = 1
    ranges = np.stack([1 - positive[:, ::-1], positive], axis=1)[None]
    at = float(b0.mean()), float(b1.mean())
    pi = (rate - at[0]) / max(at[1] - at[0], 1e-300)
    mechanism = np.array([[1 - at[0], at[0]], [1 - at[1], at[1]]])
    counts = n * np.array([1 - pi, pi])[:, None] * mechanism
    return BiasAccount(("a",), ("no", "yes"), mechanism[None], counts[None], ranges)


@settings(max_examples=examples(200), deadline=None)
@given(accounts())
def test_ranges_of_labels_are_those_of_all_mechanisms(account: BiasAccount) -> None:
    """Every b0 and b1 of a grid; its corners are among them, and extremes are at corners."""
    assert account.ranges is not None
    found = account.count_ranges
    assert found is not None
    recorded = account.counts[0].sum(axis=0)
    n = recorded.sum()
    rate = recorded[1] / n
    low, high = account.ranges[0, :, 1].T
    grid = (np.linspace(low[f], high[f], 9) for f in range(2))
    b0, b1 = (each.ravel() for each in np.meshgrid(*grid))
    apart = b1 - b0 > 1e-9  # where labels do not depend on the decision, nothing is known of it
    if not apart.any():
        return
    b0, b1 = b0[apart], b1[apart]
    pi = (rate - b0) / (b1 - b0)
    joint = n * np.array([[(1 - pi) * (1 - b0), (1 - pi) * b0], [pi * (1 - b1), pi * b1]])
    if apart.all():
        np.testing.assert_allclose(found[0, ..., 0], joint.min(axis=2), atol=1e-6 * n)
        np.testing.assert_allclose(found[0, ..., 1], joint.max(axis=2), atol=1e-6 * n)
    assert (found[0, ..., 0] <= joint.min(axis=2) + 1e-6 * n).all()
    assert (found[0, ..., 1] >= joint.max(axis=2) - 1e-6 * n).all()


@settings(max_examples=examples(100), deadline=None)
@given(accounts())
def test_ranges_of_labels_hold_the_point_and_add_up(account: BiasAccount) -> None:
    found = account.count_ranges
    assert found is not None
    slack = 1e-6 * account.counts.sum()
    assert (found[..., 0] <= account.counts + slack).all()
    assert (account.counts <= found[..., 1] + slack).all()
    assert (found >= -slack).all()
    recorded = account.counts.sum(axis=1)
    for f in range(2):  # what is not altered of the labels d is what is left of them
        np.testing.assert_allclose(found[:, f, f, 0] + found[:, 1 - f, f, 1], recorded[:, f])


def test_ranges_of_labels_by_hand() -> None:
    """Of 100 rows 40 are yes; b0 in [0, .1], b1 in [.8, 1].

    P(Df) = (.4 - b0) / (b1 - b0). Missed, P(Df) (1 - b1): none at b1 = 1, most at (0, .8):
    .5 × .2 = .1. Raised, (1 - P(Df)) b0: none at b0 = 0, most at (.1, 1): 2/3 × .1 = .0667.
    """
    ranges = np.array([[[[0.9, 1.0], [0.0, 0.1]], [[0.0, 0.2], [0.8, 1.0]]]])
    counts = np.array([[[60.0, 0.0], [0.0, 40.0]]])
    account = BiasAccount(("a",), ("no", "yes"), np.eye(2)[None], counts, ranges)
    found = account.count_ranges
    assert found is not None
    np.testing.assert_allclose(found[0, 1, 0], [0.0, 10.0], atol=1e-9)
    np.testing.assert_allclose(found[0, 0, 1], [0.0, 100 / 15], atol=1e-9)
    np.testing.assert_allclose(found[0, 0, 0], [50.0, 60.0], atol=1e-9)
    assert account.sentences == (
        "In group a, of the people whose fair decision is no, at most 10.0% were recorded yes "
        "(95% confidence, if the assumptions hold; at most 7 labels). "
        "Point by convention: under 0.1%.",
        "In group a, of the people whose fair decision is yes, at most 20.0% were recorded no "
        "(95% confidence, if the assumptions hold; at most 10 labels). "
        "Point by convention: under 0.1%.",
        ASSUMED,
    )


# --- sentences --------------------------------------------------------------------------------


def test_none_is_said_only_where_the_range_allows_nothing_else() -> None:
    counts = np.array([[[500.0, 0.0], [0.0, 500.0]]])
    point = ("a",), ("no", "yes"), np.eye(2)[None], counts
    nothing = np.array([[[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]]])
    for sentence in BiasAccount(*point, nothing).sentences[:-1]:
        assert "practically none were recorded" in sentence
    little = nothing + np.array([[[[-0.02, 0.0], [0.0, 0.02]], [[0.0, 0.02], [-0.02, 0.0]]]])
    for account in (BiasAccount(*point, little), BiasAccount(*point)):
        assert len(account.sentences) == 2 + (account.ranges is not None)
        assert all("none" not in sentence for sentence in account.sentences)
    assert "a point, whose range is not known" in BiasAccount(*point).sentences[0]


@pytest.mark.parametrize("kind", MODELS)
def test_equal_recorded_rates_leave_no_difference_to_explain(kind: str) -> None:
    """Nine of ten fair decisions are recorded as they are, alike in both groups."""
    X, d = people(1500, np.array([[0.1, 0.9], [0.1, 0.9]]))
    model = model_of(kind).fit(X, d)
    first, *others = model.explain_bias().sentences
    assert first == NO_DIFFERENCE
    assert "cannot be seen" in first
    assert "review" in first
    assert len(others) == 5
    assert all("none" not in sentence for sentence in others)
    ranges = model.mechanism_range_
    assert (ranges[..., 0] <= [0.1, 0.9]).all()
    assert (ranges[..., 1] >= [0.1, 0.9]).all()


def test_adult_contradicts_and_nothing_is_said_about_its_labels() -> None:
    data = load_adult(subset="train")
    frame = data.frame.drop("fnlwgt", "education-num").sample(4000, seed=0)
    model = FairPC("sex", structure="forest", positive=">50K", random_state=0)
    with pytest.warns(ContradictionWarning, match="must differ by at least .*Male above Female"):
        model.fit(frame.drop("target"), frame["target"])
    account = model.explain_bias()
    (sentence,) = account.sentences
    assert sentence == f"Nothing is said about altered labels. {account.contradiction}"
    assert account.contradiction in model.warnings_
    assert "recorded" not in sentence
    assert "estimated" not in sentence
    assert np.isnan(model.mechanism_range_).all()
    assert account.count_ranges is not None
    assert np.isnan(account.count_ranges).all()


# --- ranges of a fit --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_the_point_is_between_the_recorded_rates_and_ranges_hold_the_truth(kind: str) -> None:
    X, d = people(2500)
    model = model_of(kind).fit(X, d)
    assert model.warnings_ == ()
    low, high = np.sort(recorded_rates(X, d))
    assert low <= model.fair_rate_[1] <= high
    ranges = model.mechanism_range_
    assert ranges.shape == (2, 2, 2)
    assert (ranges[..., 0] <= ranges[..., 1]).all()
    assert (ranges[..., 0] <= ALTERED).all()
    assert (ranges[..., 1] >= ALTERED).all()
    # The groups' rates differ by 30 points: labels of the second must have been lowered.
    assert ranges[1, 1, 1] < 1.0
    np.testing.assert_allclose(model.fair_rates_, np.tile(model.fair_rate_, (2, 1)))


@pytest.mark.parametrize("kind", MODELS)
def test_ranges_go_by_the_class_whichever_is_positive(kind: str) -> None:
    """P(D = positive | Df = f): with the other class for positive, 1 less each end, swapped."""
    X, d = people(1000)
    one, zero = (model_of(kind, positive=p).fit(X, d) for p in (1, 0))
    assert np.ptp(one.mechanism_range_[:, 1], axis=1).max() < 0.9
    swapped = 1 - one.mechanism_range_[..., ::-1]
    # Halves of the rows by score are those of the same scores from the other end.
    np.testing.assert_allclose(zero.mechanism_range_, swapped, atol=0.02)
    for model, positive in ((one, 1), (zero, 0)):
        inside = model.bias_mechanism_[..., positive]
        assert (model.mechanism_range_[..., 0] <= inside + 1e-3).all()
        assert (inside <= model.mechanism_range_[..., 1] + 1e-3).all()
        both = mechanism_ranges(model.label_ends_, positive)
        np.testing.assert_allclose(both.sum(axis=2)[..., ::-1].mean(axis=2), 1.0)


@pytest.mark.parametrize("kind", MODELS)
def test_strata_with_mechanisms_of_their_own_have_ranges_of_their_own(kind: str) -> None:
    X, d = people(2500)
    X = X.with_columns(half=pl.Series(np.arange(len(d)) % 2).cast(pl.String))
    model = model_of(kind, given="half").fit(X, d)
    each = model.stratum_mechanism_range_
    assert each.shape == (2, 2, 2, 2)
    assert (each[..., 0] <= ALTERED[:, None]).all()
    assert (each[..., 1] >= ALTERED[:, None]).all()
    over = model.mechanism_range_
    np.testing.assert_array_equal(over[..., 0], each[..., 0].min(axis=1))
    np.testing.assert_array_equal(over[..., 1], each[..., 1].max(axis=1))
    plain = model_of(kind).fit(X, d)
    np.testing.assert_array_equal(plain.stratum_mechanism_range_, plain.mechanism_range_[:, None])


def test_a_stratum_that_contradicts_leaves_no_range() -> None:
    """In one of two strata a feature is the label, at rates of .8 and .2; NaN there and in all."""
    X, d = people(2000)
    rng, half = np.random.default_rng(1), np.arange(len(d)) % 2
    rate = np.where(half == 0, 0.5, np.where(X["sex"] == "m", 0.8, 0.2))
    certain = (rng.random(len(d)) < rate).astype(int)
    d = np.where(half == 1, certain, d)
    X = X.with_columns(half=pl.Series(half).cast(pl.String))
    X = X.with_columns(x5=pl.Series(np.where(half == 1, 1 + certain, 0)).cast(pl.String))
    model = model_of("latent", given="half")
    with pytest.warns(ContradictionWarning, match=r"in 1 stratum \(half=1\)"):
        model.fit(X, d)
    each = model.stratum_mechanism_range_
    assert np.isfinite(each[:, 0]).all()
    assert np.isnan(each[:, 1]).all()
    assert np.isnan(model.mechanism_range_).all()
    (sentence,) = model.explain_bias().sentences
    assert sentence.startswith("Nothing is said about altered labels. ")


@pytest.mark.parametrize("kind", [*MODELS, "naive"])
def test_a_file_keeps_the_ranges(kind: str, tmp_path: Path) -> None:
    X, d = people(1000)
    model = (LatNB("sex", random_state=0) if kind == "naive" else model_of(kind)).fit(X, d)
    model.save(tmp_path / "model.fairpc")
    again = load(tmp_path / "model.fairpc")
    np.testing.assert_array_equal(again.mechanism_range_, model.mechanism_range_)
    assert again.explain_bias().sentences == model.explain_bias().sentences
    first, second = (m.explain_bias().count_ranges for m in (again, model))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", MODELS)
def test_a_group_of_one_row_does_not_move_the_point(kind: str) -> None:
    X, d = people(1200)
    lone = X.head(1).with_columns(sex=pl.lit("x"))
    model = model_of(kind).set_params(min_cell=1)
    with pytest.warns(UserWarning, match="x"):
        model.fit(pl.concat([X, lone]), np.append(d, 1))
    low, high = np.sort(recorded_rates(X, d))
    assert low <= model.fair_rate_[1] <= high


def test_prior_rows_are_named_and_a_point_that_they_outweigh_is_none() -> None:
    """The prior has 30 rows, of which 20 rows are outweighed and 40 are not."""
    counts = np.array([[[36.0, 4.0], [10.0, 10.0]]])
    mechanism = np.array([[[0.9, 0.1], [0.26, 0.74]]])
    bare = np.array([[[0.88, 0.12], [0.5, 0.5]]])
    given = ("a",), ("no", "yes"), mechanism, counts
    account = BiasAccount(*given, prior_rows=30.0, without_prior=bare)
    first, second, prior = account.sentences
    assert "10.0% (by these rows' features 4 labels; 12.0% without the prior)" in first
    assert "prior outweighs" in second
    assert "30 prior rows" in prior
    assert "prior" not in str(BiasAccount(*given))
    weaker = replace(account, prior_rows=10.0)
    assert (
        "26.0% (by these rows' features 10 labels; 50.0% without the prior)" in weaker.sentences[1]
    )
    # Other rows have other counts; what the prior was worth is a matter of the fit.
    elsewhere = replace(account, counts=100 * counts, training=counts)
    np.testing.assert_array_equal(elsewhere.mostly_prior, [[False, True]])


def test_a_point_without_its_prior_rows_is_that_of_a_fit_without_them(tmp_path: Path) -> None:
    """Of few rows whose features say little the prior decides, so that an update of EM without it
    hardly moves the point."""
    X, d = people(900, seed=3)
    X = X.drop("x0")
    prior, bare = (model_of("forest", mechanism_prior=rows).fit(X, d) for rows in (30.0, 0.0))
    found = prior.explain_bias().without_prior
    assert found is not None
    np.testing.assert_array_equal(found, bare.bias_mechanism_)
    assert np.abs(found - prior.bias_mechanism_).max() > 0.05
    assert bare.explain_bias().without_prior is None
    prior.save(tmp_path / "prior.fpc")
    np.testing.assert_array_equal(load(tmp_path / "prior.fpc").explain_bias().without_prior, found)


def test_circuits_say_where_em_ends_without_the_prior_rows() -> None:
    """By updates of P(Df) and the mechanism in a loop, P(x | f, s) being that of the fit."""
    X, d = people(900)
    model = FairPC("sex", structure="chow-liu", mechanism_prior=30.0, tol=1e-9, max_iter=3000)
    odds = model.fit(X, d).predict_proba(X) / model.fair_rate_  # P(x | f, s), but for a factor
    s = (X["sex"] == "w").to_numpy().astype(int)
    rate, mechanism = model.fair_rate_, model.bias_mechanism_
    for _ in range(3000):
        joint = odds * rate * mechanism[s, :, d]
        joint /= joint.sum(axis=1, keepdims=True)
        counts = np.full((2, 2, 2), 0.5)
        np.add.at(counts.transpose(0, 2, 1), (s, d), joint)
        mechanism = counts / counts.sum(axis=2, keepdims=True)
        rate = (joint.sum(axis=0) + 0.5) / (len(d) + 1)
    found = model.mechanism_without_prior_
    assert found is not None
    np.testing.assert_allclose(found, mechanism, atol=1e-4)
    assert np.abs(mechanism - model.bias_mechanism_).max() > 0.01


def test_no_prior_is_named_where_none_decides() -> None:
    X, d = people(900)
    for kind in MODELS:
        assert model_of(kind).fit(X, d).explain_bias().prior_rows == 0
