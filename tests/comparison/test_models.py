"""Each method against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from fairpc.comparison import LR, FairLR, Rand, Reduction, Reweight, ThresholdOptimizer
from fairpc.comparison._baselines import distinct_rows, group_covariance
from fairpc.errors import LearningError

Array = npt.NDArray[Any]


def biased(n: int = 2000, seed: int = 0, more: int = 0) -> tuple[Array, Array, Array]:
    """Binary features, one of them a proxy of the group; labels against group 1.

    ``more`` features say nothing.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    proxy = np.where(rng.random(n) < 0.8, s, 1 - s)
    X = np.column_stack([proxy, rng.integers(0, 2, (n, 4))]).astype(float)
    logit = X @ [-1.0, 1.5, -0.5, 0.8, 0.0] - 0.8 * s
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return np.column_stack([X, rng.integers(0, 2, (n, more))]), y, s


def loss(model: FairLR, X: Array, y: Array) -> float:
    margin = (2 * y - 1) * (X @ model.coef_ + model.intercept_)
    return float(np.logaddexp(0, -margin).sum() + model.coef_ @ model.coef_ / 2)


def test_lr_is_scikit_learns() -> None:
    X, y, s = biased()
    ours = LR().fit(X, y, sensitive_features=s).predict_proba(X, sensitive_features=s)
    both = np.column_stack([X, s])
    assert np.allclose(ours, LogisticRegression().fit(both, y).predict_proba(both))


def test_fair_lr_has_no_covariance() -> None:
    X, y, s = biased()
    model = FairLR().fit(X, y, sensitive_features=s)
    score = X @ model.coef_
    assert np.cov(score, s)[0, 1] == pytest.approx(0, abs=1e-12)
    assert score.std() > 0.1


@pytest.mark.parametrize(("n", "more"), [(400, 0), (20, 30)])
def test_fair_lr_at_zero_is_the_constrained_optimum(n: int, more: int) -> None:
    """Against a general solver given the equality v·θ = 0."""
    X, y, s = biased(n, more=more)
    model = FairLR(max_iter=10_000).fit(X, y, sensitive_features=s)
    v = ((s - s.mean()) @ X) / len(X)
    sign = 2 * y - 1

    def objective(p: Array) -> float:
        margin = sign * (X @ p[:-1] + p[-1])
        return float(np.logaddexp(0, -margin).sum() + p[:-1] @ p[:-1] / 2)

    slow = minimize(
        objective,
        np.zeros(X.shape[1] + 1),
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda p: v @ p[:-1]},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert np.allclose(slow.x[:-1], model.coef_, atol=2e-3)
    assert loss(model, X, y) <= slow.fun + 1e-4


def test_fair_lr_of_three_groups() -> None:
    X, y, s = biased()
    three = s + (X[:, 4] > 0) * s
    model = FairLR().fit(X, y, sensitive_features=three)
    covariance = group_covariance(X, three, 3)
    assert covariance.shape == (3, 5)
    assert np.abs(covariance @ model.coef_).max() <= 1e-12


def test_fair_lr_with_nothing_left_is_the_base_rate() -> None:
    X, y, s = biased()
    model = FairLR().fit(X[:, :1], y, sensitive_features=s)
    assert np.allclose(model.predict_proba(X[:, :1])[:, 1], y.mean(), atol=1e-3)


@pytest.mark.parametrize(("n", "more"), [(500, 0), (20, 30)])
def test_reweight_on_all_rows(n: int, more: int) -> None:
    """The same rounds, row by row and from a cold start (Jiang & Nachum, Algorithm 1)."""
    X, y, s = biased(n, more=more)
    ours = Reweight(n_rounds=20).fit(X, y, sensitive_features=s)
    both = np.column_stack([X, s])
    multiplier = 0.0
    for _ in range(20):
        tilt = np.exp(multiplier * s)
        up, down = tilt / (tilt + 1 / tilt), 1 / tilt / (tilt + 1 / tilt)
        slow = LogisticRegression(tol=1e-8, max_iter=1000).fit(both, y, np.where(y, up, down))
        predicted = slow.predict(both)
        multiplier += predicted.mean() - predicted[s == 1].mean()
    assert ours.multipliers_[1] == pytest.approx(multiplier)
    scores = ours.predict_proba(X, sensitive_features=s)
    assert np.allclose(scores, slow.predict_proba(both), atol=1e-3)
    assert ours.model_.n_features_in_ <= n


def test_reweight_narrows_the_gap() -> None:
    X, y, s = biased()

    def gap(model: Any) -> float:
        selected = model.fit(X, y, sensitive_features=s).predict(X, sensitive_features=s)
        return float(abs(selected[s == 1].mean() - selected[s == 0].mean()))

    assert gap(Reweight()) < 0.1 < 0.5 * gap(LR())


def test_reweight_needs_a_round() -> None:
    X, y, s = biased(50)
    with pytest.raises(LearningError, match="n_rounds is 0"):
        Reweight(n_rounds=0).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("kind", [Reduction, ThresholdOptimizer])
def test_randomised_decisions_are_in_parity(kind: Any) -> None:
    pytest.importorskip("fairlearn")
    X, y, s = biased()
    model = kind().fit(X, y, sensitive_features=s)
    votes = model.predict_proba(X, sensitive_features=s)[:, 1]
    assert abs(votes[s == 1].mean() - votes[s == 0].mean()) < 0.025
    assert np.array_equal(model.predict(X, sensitive_features=s), (votes > 0.5).astype(int))


def test_rand_is_uniform_and_repeats() -> None:
    X, y, _ = biased()
    scores = Rand(random_state=0).fit(X, y).predict_proba(X)
    assert np.array_equal(scores, Rand(random_state=0).fit(X, y).predict_proba(X))
    deciles = np.histogram(scores[:, 1], np.linspace(0, 1, 11))[0]
    assert deciles.min() > 150  # 200 expected, standard deviation 13
    assert not np.array_equal(scores, Rand(random_state=1).fit(X, y).predict_proba(X))


def test_distinct_rows() -> None:
    a = np.array([[1.5, 0], [2.5, 0], [1.5, 0], [1.5, 1]])
    first, counts = distinct_rows(a, np.array([7, 7, 7, 7]))
    assert sorted(zip(first.tolist(), counts.tolist(), strict=True)) == [(0, 2), (1, 1), (3, 1)]
