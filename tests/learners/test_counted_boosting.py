"""Gradient boosting of counted rows is that of scikit-learn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from fairpc.core import one_thread
from fairpc.learners import _boosting as boosting
from fairpc.learners._boosting import bin_cells, binned, boosted_probabilities

Floats = npt.NDArray[np.float64]


def by_sklearn(codes: boosting.Bins, counts: Floats) -> Floats:
    """Each row once per class that it has, with its count as weight."""
    y, picked = np.nonzero(counts.T)
    model = HistGradientBoostingClassifier(
        max_iter=boosting.COUNT_ROUNDS,
        learning_rate=boosting.COUNT_RATE,
        max_leaf_nodes=boosting.COUNT_LEAVES,
        min_samples_leaf=1,
        l2_regularization=boosting.SHRINKING,
        early_stopping=False,
    )
    rows = codes.T.astype(np.float64)
    with one_thread():
        model.fit(rows[picked], y, sample_weight=counts[picked, y])
        return np.asarray(model.predict_proba(rows), np.float64)


def labelled(seed: int, n: int) -> tuple[Floats, Floats]:
    """Numbers of few values, 0/1 columns, and classes that depend on two of them together."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.round(rng.normal(size=(n, 3)) * 2), rng.random((n, 2)) < 0.3])
    told = rows[:, 0] * rows[:, 1] / 2 + rows[:, 4] + rng.normal(size=n)
    classes = (told >= np.median(told)).astype(int)
    return rows, np.eye(2)[classes] * rng.uniform(0.5, 1.5, (n, 1))


def test_fits_are_those_of_scikit_learn() -> None:
    """Its gradients have 32 bits, so that ties of two cuts may end otherwise in some places."""
    rows, counts = labelled(0, 900)
    codes = binned(rows)
    fold = np.arange(len(rows)) % 3
    parts = [counts * (fold != k)[:, None] for k in range(3)] + [counts]
    for part in parts:
        found, expected = boosted_probabilities(bin_cells(codes), part), by_sklearn(codes, part)
        assert found.sum(axis=1) == pytest.approx(1.0)
        assert np.median(np.abs(found - expected)) < 1e-6
        assert np.quantile(np.abs(found - expected), 0.95) < 1e-4


def test_rows_that_do_not_count_are_scored_and_not_learned_from() -> None:
    rows, counts = labelled(1, 500)
    codes = binned(rows)
    some = counts.copy()
    some[200:] = 0.0
    found = boosted_probabilities(bin_cells(codes), some)
    fewer = boosted_probabilities(bin_cells(codes[:, :200]), counts[:200])
    assert found[:200] == pytest.approx(fewer, abs=1e-12)
    assert np.ptp(found[200:, 1]) > 0.1


def test_labels_that_no_column_tells_leave_the_rate() -> None:
    codes = np.zeros((1, 40), np.uint8)
    found = boosted_probabilities(bin_cells(codes), np.eye(2)[np.arange(40) % 4 // 3])
    assert found == pytest.approx(np.tile([0.75, 0.25], (40, 1)))


def test_bins_keep_the_order_and_tell_few_values_apart() -> None:
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.normal(size=3_000), rng.integers(0, 20, 3_000) * 0.1])
    many, few = binned(rows)
    assert (np.diff(many[np.argsort(rows[:, 0])].astype(int)) >= 0).all()
    assert boosting.BINS <= len(np.unique(many)) <= boosting.BINS + 2
    assert few.tolist() == np.unique(rows[:, 1], return_inverse=True)[1].tolist()
