"""Columns taken as strata: what each says is the test of that column, and how columns are cut."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc.errors import MetricError
from fairpc.evidence import compare_strata, parity, test_assumptions
from fairpc.evidence._candidate_strata import column_strata


def explained(seed: int = 1, n: int = 5000) -> tuple[pl.DataFrame, Any, Any]:
    """Fair decisions depend on the group through one column alone; others say nothing."""
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.5).astype(int)
    a = (rng.random(n) < np.where(s == 1, 0.1, 0.9)).astype(int)
    f = (rng.random(n) < np.where(a == 1, 0.85, 0.1)).astype(int)
    y = (rng.random(n) < np.array([[0.01, 0.99], [0.01, 0.97]])[s, f]).astype(int)
    columns = {
        "shown": rng.normal(size=n) + 3 * f,
        "level": np.array(["low", "high"])[a],
        "noise": rng.integers(0, 3, n),
        "same": np.zeros(n, int),
    }
    return pl.DataFrame(columns), y, s


def test_each_column_is_tested_as_by_itself() -> None:
    x, y, s = explained()
    found = compare_strata(
        x, y, s, columns=["level", "noise", "same"], classifier="logistic", n_seeds=1
    )
    options: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1}
    plain = test_assumptions(x.to_numpy(), y, s, **options)
    assert (found.plain.lower, found.plain.upper) == (plain.lower, plain.upper)
    level, noise, same = found.columns
    assert found.plain.rejected
    assert found.silent == ("level",)
    assert noise.rejected
    assert noise.n_strata == 3
    assert same.rejected is None
    assert same.why == "it has one stratum"
    within = parity(y.astype(float), s, given=x["level"].to_numpy()).largest
    assert level.mix is not None
    assert level.mix == pytest.approx(within.mix / within.raw)
    assert level.mix > 0.8
    assert noise.mix is not None
    assert abs(noise.mix) < 0.05
    cells = [
        ((x["level"] == v).to_numpy() & (s == g)).sum() for v in ("low", "high") for g in (0, 1)
    ]
    assert level.smallest == min(cells)
    # A column that X already has counts twice as a feature there, so only verdicts are compared.
    given = x["level"].to_numpy()
    assert not test_assumptions(x.to_numpy(), y, s, given=given, **options).rejected
    assert "must be argued for" in found.summary()
    json.dumps(found.to_dict(), allow_nan=False)


def test_nothing_is_silenced_where_nothing_is_rejected() -> None:
    rng = np.random.default_rng(2)
    x, s, y = rng.normal(size=(600, 2)), rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    found = compare_strata(x, y, s, classifier="logistic", n_seeds=1)
    assert not found.plain.rejected
    assert found.silent == ()
    assert [c.n_strata for c in found.columns] == [4, 4]
    assert "does not reject" in found.summary()


def test_numbers_are_cut_at_quantiles_and_heavy_values_stand_alone() -> None:
    """Half of the rows are 0; of 1 to 60, each once, three bins are left: 1–20, 21–40, 41–60."""
    values = np.array([0] * 60 + list(range(1, 61)), object)
    groups = np.arange(120) % 2
    found = column_strata(values, groups, 4, 5)
    names, counts = np.unique(found.astype(str), return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "0": 60,
        "under 20.6667": 20,
        "20.6667 to under 40.3333": 20,
        "from 40.3333": 20,
    }


def test_rare_levels_are_merged_and_missing_cells_named() -> None:
    values = np.array(["a"] * 50 + ["b"] * 3 + ["c"] * 3 + [None] * 50, object)
    groups = np.arange(106) % 2
    names = column_strata(values, groups, 4, 20).tolist()
    assert names == ["a"] * 50 + ["other"] * 6 + ["missing"] * 50


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"columns": ["age"]}, "a column is .age.: give one of"),
        ({"columns": []}, "give some of"),
        ({"bins": 1}, "bins is 1: give a whole number from 2"),
        ({"level": 1.5}, "level"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    x, y, s = explained(n=300)
    with pytest.raises(MetricError, match=sentence):
        compare_strata(x, y, s, classifier="logistic", n_seeds=1, **change)
