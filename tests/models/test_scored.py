"""Held-out scores of a LatentDecision, and other rows that it refuses."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import LatentDecision
from fairpc.errors import LearningError
from fairpc.models import TableClassifier

TRUTH = np.array([[0.05, 0.95], [0.02, 0.6]])
"""P(D = 1 | Df, S), [s, f]."""


@cache
def table(n: int = 1200, seed: int = 0) -> tuple[pl.DataFrame, Any, Any, Any]:
    """Features, labels, groups and the fair decisions behind them."""
    rng = np.random.default_rng(seed)
    s, f = rng.integers(0, 2, n), (rng.random(n) < 0.4).astype(np.int64)
    d = (rng.random(n) < TRUTH[s, f]).astype(np.int64)
    x = pl.DataFrame({f"x{j}": np.round(rng.normal(1.6 * f, 1.0), 3) for j in range(3)})
    return x, np.array(["no", "yes"])[d], np.array(["g0", "g1"])[s], np.array(["no", "yes"])[f]


@cache
def model() -> LatentDecision:
    x, y, s, _ = table()
    found = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    return found.fit(x, y, sensitive_features=s)


def test_the_range_has_the_truth_in_it() -> None:
    ranges = model().mechanism_range_
    assert (ranges[..., 0] <= TRUTH).all()
    assert (ranges[..., 1] >= TRUTH).all()


def test_other_rows_or_another_order_are_refused() -> None:
    x, y, s, _ = table()
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        model().cross_fitted(x[::-1], y[::-1], sensitive_features=s[::-1])
    with pytest.raises(LearningError, match="not the rows of the fit in their order"):
        model().cross_fitted(x[:900], y[:900], sensitive_features=s[:900])


def test_without_folds_it_is_refused() -> None:
    x, y, s, _ = table()
    loaded = copy(model())
    del loaded.folds_
    with pytest.raises(LearningError, match="loaded from a file, which does not say what fold"):
        loaded.cross_fitted(x, y, sensitive_features=s)
