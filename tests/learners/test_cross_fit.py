"""How rows are ranked: logistic regression, boosting, the choice between them, wide tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression

from fairpc.learners import INFORMATIVE, Features, _linear as linear, chosen, learners
from fairpc.learners._cross_fit import Learner, strongest
from fairpc.learners._linear import coefficients, logistic_probabilities

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
    monkeypatch.setattr(linear, "SHARED", shared)
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
    (found,) = learner.probabilities(Features(rows), [counts])
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found[rare, 1].min() == np.sort(found[:, 1])[-5]


def dealt_counts(labels: npt.NDArray[np.intp], n_folds: int = 3) -> list[Floats]:
    """Counts [row, class] of each fold, every row by itself."""
    one_hot = np.eye(int(labels.max()) + 1)[labels]
    return [one_hot * (np.arange(len(labels)) % n_folds == k)[:, None] for k in range(n_folds)]


def test_levels_that_are_rare_are_told_apart_by_boosting() -> None:
    rows = np.concatenate([[-5.0] * 20, np.random.default_rng(0).normal(size=3_000), [9.0] * 20])
    counts = np.eye(2)[((rows == -5.0) | (rows == 9.0)).astype(int)]
    (learner,) = learners("boosting", weighted=False)
    (found,) = learner.probabilities(Features(rows[:, None]), [counts])
    assert found[[0, -1], 1] == pytest.approx(1.0, abs=0.2)
    assert found[20:-20, 1].max() < 0.5


class Fixed(Learner):
    """Says the same of every row, and counts how often it is fitted."""

    fits = 0

    def probabilities(self, rows: Features, counts: list[Floats]) -> list[Floats]:  # type: ignore[override]
        type(self).fits += len(counts)
        return [np.tile([1 - self.prototype, self.prototype], (len(rows), 1)) for _ in counts]


class Better(Fixed):
    fits = 0


class Worse(Fixed):
    fits = 0


@pytest.mark.parametrize(("says", "n_worse"), [(0.2, 1), (0.58, 3)])
def test_no_more_folds_are_compared_than_it_takes(says: float, n_worse: int) -> None:
    """A classifier that is far behind is fitted to one fold, one that may be ahead to all."""
    labels = (np.arange(600) // 3 % 5 < 3).astype(np.intp)
    Better.fits = Worse.fits = 0
    options = Worse("worse", says), Better("better", 0.6)
    folds = dealt_counts(labels)
    rows, rng = Features(np.zeros((600, 1))), np.random.default_rng(0)
    ((learner, inner, _),) = chosen(options, rows, [folds], rng)
    assert learner.name == "better"
    assert (Better.fits, Worse.fits, len(inner)) == (4, n_worse, 3)


def test_training_parts_together_choose_as_each_by_itself() -> None:
    """One is for logistic regression, one for boosting, of one it takes all folds to be sure."""
    rng = np.random.default_rng(9)
    rows = Features(rng.normal(size=(400, 3)))
    x, noise = rows.matrix, rng.normal(size=400)
    sides = [x[:, 0] + noise > 0, x[:, 0] * x[:, 1] + noise / 3 > 0, x[:, 2] + 2 * noise > 0]
    parts = [dealt_counts(side.astype(np.intp)) for side in sides]
    options = learners(None, weighted=False)
    together = chosen(options, rows, parts, np.random.default_rng(0))
    assert len({learner.name for learner, _, _ in together}) == 2
    for part, (learner, inner, last) in zip(parts, together, strict=True):
        ((alone, each, whole),) = chosen(options, rows, [part], np.random.default_rng(0))
        assert alone.name == learner.name
        for found, expected in zip([*inner, last], [*each, whole], strict=True):
            assert found == pytest.approx(expected, abs=1e-7)


def strongest_by_loops(rows: Floats, counts: Floats, k: int) -> list[int]:
    """Correlation ratios, a column at a time, every row as often as it counts."""
    ratios = []
    for column in rows.T:
        classes = [np.repeat(column, n.astype(int)) for n in counts.T]
        every = np.concatenate(classes)
        between = sum(len(c) * (c.mean() - every.mean()) ** 2 for c in classes if len(c))
        spread = ((every - every.mean()) ** 2).sum()
        ratios.append(between / spread if spread > 0 else 0.0)
    return sorted(np.argsort(-np.array(ratios), kind="stable")[:k].tolist())


def test_columns_of_a_wide_table_are_kept_by_their_class_means() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(80, 150))
    rows[:, 3] = 1.0
    counts = rng.poisson(1.0, (80, 3)).astype(float)
    found = strongest(rows, counts).tolist()
    assert found == strongest_by_loops(rows, counts, INFORMATIVE)


@pytest.mark.parametrize("name", ["logistic", "boosting"])
def test_labels_that_were_held_out_choose_no_column(name: str) -> None:
    """Of 2,000 columns of noise, those chosen by all labels would tell the held-out ones."""
    rng = np.random.default_rng(8)
    rows, labels = rng.normal(size=(120, 2_000)), np.arange(120) % 2
    counts = np.eye(2)[labels]
    counts[60:] = 0.0
    (learner,) = learners(name, weighted=False)
    (found,) = learner.probabilities(Features(rows), [counts])
    right = (found[:, 1] > 0.5) == labels
    assert right[:60].mean() > 0.9
    assert 0.3 < right[60:].mean() < 0.7
