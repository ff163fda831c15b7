"""Rates by attribute against plain loops over the rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import LatNB, audit
from fairpc.auditing import ParityFacts
from fairpc.auditing._gaps import median

QUICK: dict[str, Any] = {"n_seeds": 1, "baselines": False}


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


def test_each_attribute_alone_and_each_two_crossed() -> None:
    found = [part.attributes for part in parity_of().categories]
    alone = [("sex",), ("race",), ("old",)]
    assert found == [*alone, ("sex", "race"), ("sex", "old"), ("race", "old")]


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_those_of_the_rows(weighted: bool) -> None:
    model, X, _ = fitted_people()
    weights = np.arange(len(X)) % 3 + 1.0 if weighted else np.ones(len(X))
    found = parity_of(sample_weight=weights) if weighted else parity_of()
    decided, scores = model.predict(X) == 1, model.predict_proba(X)[:, 1]
    known = X["sex"].is_not_null().to_numpy()
    for part in found.categories:
        for category in part.categories:
            here = known.copy()
            for name, level in zip(part.attributes, category.levels, strict=True):
                here &= (X[name] == level).fill_null(False).to_numpy()
            mass = weights[here].sum()
            assert category.n == here.sum()
            assert category.n_selected == (here & decided).sum()
            assert category.share == pytest.approx(mass / weights[known].sum())
            assert category.selection_rate == pytest.approx(weights[here & decided].sum() / mass)
            above = here & (scores > part.median)
            assert category.scoring_rate == pytest.approx(weights[above].sum() / mass)
            assert category.small == (here.sum() < 30)


def test_rows_of_an_attribute_add_up_to_those_whose_group_is_known() -> None:
    X = fitted_people()[1]
    known = len(X) - X["sex"].null_count()
    assert {sum(c.n for c in part.categories) for part in parity_of().categories} == {known}


@pytest.mark.parametrize("scores", [[3.0, 1.0, 2.0], [4.0, 1.0, 2.0, 2.0, 3.0, 9.0], [1.0, 1.0]])
def test_the_same_rows_are_above_the_median_as_above_that_of_numpy(scores: list[float]) -> None:
    values = np.array(scores)
    above = values > median(values, np.ones(len(values)))
    assert above.tolist() == (values > np.median(values)).tolist()


def test_a_weight_is_so_many_rows() -> None:
    values, times = np.array([0.1, 0.4, 0.7]), np.array([1, 1, 5])
    repeated = np.repeat(values, times)
    once = median(repeated, np.ones(len(repeated)))
    assert median(values, times.astype(float)) == once == 0.7
