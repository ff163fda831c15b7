"""Newton's logistic regression against scikit-learn's, on counts and on hard tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fairpc.evidence import classifiers
from fairpc.evidence.classifiers import coefficients, learners, logistic_probabilities

Floats = npt.NDArray[np.float64]


def by_sklearn(rows: Floats, negative: Floats, positive: Floats) -> Floats:
    """The same minimum, each distinct row once per class with its count as weight."""
    x, y = np.vstack([rows, rows]), np.repeat([0, 1], len(rows))
    weights = np.append(negative, positive)
    some = weights > 0
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12, max_iter=500)
    model.fit(x[some], y[some], sample_weight=weights[some])
    return np.append(model.coef_[0], model.intercept_)


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.01, 5))
def test_minimum_is_that_of_scikit_learn(seed: int, n_features: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, n_features)) * scale
    negative, positive = rng.poisson(2.0, (2, 40)).astype(float)
    negative[0] = positive[1] = 1.0
    (found,) = coefficients(rows, negative[None], positive[None])
    assert found == pytest.approx(by_sklearn(rows, negative, positive), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("n", [10, 100_000])
def test_classes_that_are_separated(n: int) -> None:
    """The likelihood alone has no maximum here: the slopes are held by their shrinkage."""
    rows = np.array([[0.0], [1.0]])
    negative, positive = np.array([n, 0.0]), np.array([0.0, n])
    (found,) = coefficients(rows, negative[None], positive[None])
    assert found == pytest.approx(by_sklearn(rows, negative, positive), rel=1e-5)


def test_collinear_columns_and_one_rare_class() -> None:
    rng = np.random.default_rng(1)
    column = rng.random(200)
    rows = np.column_stack([column, column, 1 - column, np.zeros(200)])
    negative = np.full(200, 1000.0)
    positive = np.zeros(200)
    positive[7] = 1.0
    (found,) = coefficients(rows, negative[None], positive[None])
    assert found == pytest.approx(by_sklearn(rows, negative, positive), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shared", [2**21, 0])
def test_several_fits_at_once_are_each_by_itself(
    shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An easy, a separated and an unbalanced one: they need different numbers of steps."""
    monkeypatch.setattr(classifiers, "_SHARED", shared)
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(50, 3)) * [1.0, 5.0, 0.1]
    side = rows[:, 0] > 0
    positive = np.stack([rng.poisson(3.0, 50), np.where(side, 1e5, 0), np.arange(50) == 9])
    negative = np.stack([rng.poisson(3.0, 50), np.where(side, 0, 1e5), np.full(50, 200)])
    negative, positive = negative.astype(float), positive.astype(float)
    found = logistic_probabilities(rows, negative, positive)
    for p, a, b in zip(found, negative, positive, strict=True):
        beta = by_sklearn(rows, a, b)
        expected = 1 / (1 + np.exp(-rows @ beta[:-1] - beta[-1]))
        assert p == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_rows_without_counts_are_predicted_and_not_learned_from() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(30, 2))
    negative, positive = rng.poisson(3.0, (2, 30)).astype(float)
    negative[20:] = positive[20:] = 0.0
    (found,) = logistic_probabilities(rows, negative[None], positive[None])
    (fewer,) = logistic_probabilities(rows[:20], negative[None, :20], positive[None, :20])
    assert found.shape == (30,)
    assert found[:20] == pytest.approx(fewer, abs=1e-12)


def test_a_rare_class_of_a_long_table_is_learned() -> None:
    """5 of 120,000 rows: thinned blindly, the class would most often be gone."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(120_000, 1))
    rare = np.argsort(rows[:, 0])[-5:]
    counts = np.zeros((120_000, 2))
    counts[:, 0] = 1.0
    counts[rare] = [0.0, 1.0]
    (learner,) = learners("logistic", weighted=False)
    (found,) = learner.probabilities(rows, [counts])
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found[rare, 1].min() == np.sort(found[:, 1])[-5]
