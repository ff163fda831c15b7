"""Rates by attribute against plain loops over the rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import LatNB, audit
from fairpc.auditing import ParityFacts

QUICK: dict[str, Any] = {"n_seeds": 1}


def people(n: int = 500) -> tuple[pl.DataFrame, Any]:
    """Sex, race and age group, some of them unknown; a label that follows x."""
    rng = np.random.default_rng(3)
    f = rng.integers(0, 2, n)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.39, 0.01])
    columns = {
        "sex": [None if hidden else v for v, hidden in zip(sex, rng.random(n) < 0.05, strict=True)],
        "race": race.tolist(),
        "old": rng.choice(["no", "yes"], n).tolist(),
        "x": np.where(rng.random(n) < 0.7, f, 1 - f).tolist(),
        "z": rng.integers(0, 4, n).tolist(),
    }
    return pl.DataFrame(columns), np.where(rng.random(n) < 0.9, f, 0)


@cache
def fitted_people() -> tuple[LatNB, pl.DataFrame, Any]:
    X, y = people()
    return LatNB(["sex", "race", "old"], max_iter=20, min_cell=1).fit(X, y), X, y


def parity_of(**more: Any) -> ParityFacts:
    model, X, y = fitted_people()
    found = audit(model, X, y, **QUICK, **more).parity
    assert found is not None
    return found


def test_each_attribute_alone() -> None:
    assert [part.attribute for part in parity_of().categories] == ["sex", "race", "old"]


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_those_of_the_rows(weighted: bool) -> None:
    model, X, _ = fitted_people()
    weights = np.arange(len(X)) % 3 + 1.0 if weighted else np.ones(len(X))
    found = parity_of(sample_weight=weights) if weighted else parity_of()
    decided, known = model.predict(X) == 1, X["sex"].is_not_null().to_numpy()
    for part in found.categories:
        for category in part.categories:
            here = known & (X[part.attribute] == category.level).fill_null(False).to_numpy()
            assert category.n == here.sum()
            assert category.n_selected == (here & decided).sum()
            rate = weights[here & decided].sum() / weights[here].sum()
            assert category.selection_rate == pytest.approx(rate)


def test_rows_of_an_attribute_add_up_to_those_whose_group_is_known() -> None:
    X = fitted_people()[1]
    known = len(X) - X["sex"].null_count()
    assert {sum(c.n for c in part.categories) for part in parity_of().categories} == {known}
