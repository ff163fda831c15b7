"""Columns that give the label or the group away are found and named; others are not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairpc import FairPC, LatentDecision, LatNB
from fairpc.data import group_leaks
from fairpc.data._leaks import FEWEST, Leak
from fairpc.errors import LeakWarning, SameAsLabelWarning


def applicants(n: int = 600, seed: int = 0) -> pd.DataFrame:
    """Loans of three groups; nothing in it gives anything away."""
    rng = np.random.default_rng(seed)
    income = rng.normal(40, 12, n).round(1)
    granted = income + rng.normal(0, 8, n) > 38
    return pd.DataFrame(
        {
            "race": rng.choice(["black", "hispan", "white"], n, p=[0.2, 0.2, 0.6]),
            "income": income,
            "job": rng.choice(list("abc"), n),
            "approve": np.where(granted, "yes", "no"),
        }
    )


def told(table: pd.DataFrame, model: Any = None, sensitive: Any = "race") -> list[str]:
    """What is warned of when a model is fitted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = LatNB(max_iter=3, guard=False) if model is None else model
        chosen.set_params(sensitive=sensitive).fit(table.drop(columns="approve"), table["approve"])
    return [str(w.message) for w in caught if w.category in (LeakWarning, SameAsLabelWarning)]


def test_an_honest_table_is_not_suspected() -> None:
    assert told(applicants()) == []


@pytest.mark.parametrize("model", [None, FairPC(max_iter=3, guard=False), LatentDecision(cv=2)])
def test_a_copy_of_the_label_is_named(model: Any) -> None:
    table = applicants().assign(reject=lambda t: (t["approve"] == "no").astype(int))
    (sentence,) = told(table, model)
    assert sentence.startswith("column 'reject' says the same as the label 'approve'")
    assert sentence.endswith("leave it out with X.drop(columns=['reject']) or --drop reject")


@pytest.mark.parametrize("model", [LatNB(max_iter=3, guard=False), LatentDecision(cv=2)])
def test_a_column_that_tells_the_group_is_named_at_the_line_that_fits(model: Any) -> None:
    table = applicants().assign(town=lambda t: "north of " + t["race"])
    with pytest.warns(LeakWarning, match="'town' gives the group 'race' away") as caught:
        model.set_params(sensitive="race").fit(table.drop(columns="approve"), table["approve"])
    assert [w.filename for w in caught if w.category is LeakWarning] == [__file__]


def test_a_finer_version_of_the_label_is_named_although_rare_levels_are_merged() -> None:
    table = applicants(2000)
    rng = np.random.default_rng(1)
    table["decision_code"] = table["approve"].str[0] + rng.integers(0, 40, len(table)).astype(str)
    (sentence,) = told(table)
    assert "column 'decision_code' gives the label 'approve' away" in sentence
    assert "leave it out" in sentence


def test_a_column_that_is_known_for_granted_rows_alone_is_named() -> None:
    table = applicants()
    rng = np.random.default_rng(2)
    rate = rng.normal(4, 1, len(table)).round(3)
    table["rate"] = np.where(table["approve"] == "yes", rate, np.nan)
    (sentence,) = told(table)
    assert sentence.startswith("column 'rate' gives the label 'approve' away, in every row")


def test_a_column_that_tells_nearly_every_label_is_named() -> None:
    """What people spent with a card, among people of whom some have none: few have not used it."""
    rng = np.random.default_rng(7)
    table = applicants(1300)
    used = (table["approve"] == "yes") & (rng.random(len(table)) > 0.02)
    table["spent"] = np.where(used, rng.gamma(2, 90, len(table)), 0).round(2)
    (sentence,) = told(table)
    assert sentence.startswith("column 'spent' gives the label 'approve' away by whether it is at")
    assert ", in 98." in sentence


def test_what_tells_one_of_two_sensitive_columns_is_named() -> None:
    table = applicants()
    table["origin"] = table["race"].str.upper()
    table["sex"] = np.random.default_rng(5).choice(["female", "male"], len(table))
    (sentence,) = told(table, sensitive=["race", "sex"])
    assert "column 'origin' gives the group 'race' away, in every row" in sentence
    assert sentence.endswith("X.drop(columns=['origin']) or --drop origin")


@pytest.mark.parametrize("model", [None, LatentDecision(cv=2)])
def test_first_names_tell_the_group_although_rare_ones_are_merged(model: Any) -> None:
    rng = np.random.default_rng(6)
    table = applicants(2000)
    table["name"] = table["race"] + rng.integers(0, 40, len(table)).astype(str)
    table["town"] = rng.choice([f"town {k}" for k in range(40)], len(table))
    (sentence,) = told(table, model)
    assert sentence.startswith("column 'name' gives the group 'race' away, in nearly every row: a")
    assert sentence.endswith("leave it out with X.drop(columns=['name']) or --drop name")


@pytest.mark.parametrize("swap", [False, True])
def test_a_number_from_which_on_the_label_is_told_is_named(swap: bool) -> None:
    """Weights at birth around 2,500 g, whole numbers of which few occur twice; either class."""
    table = applicants(189)
    weight = np.random.default_rng(4).normal(2945, 729, 189).astype(int)
    low = weight < 2500
    table = table.assign(weight=weight, approve=np.where(low != swap, "yes", "no"))
    (sentence,) = told(table)
    first = weight[~low].min()
    assert (
        f"'weight' gives the label 'approve' away by whether it is at least {first}, in every row"
        in sentence
    )


def test_a_few_rows_at_the_end_of_a_column_may_be_there_by_chance() -> None:
    table = applicants(300)
    table["pay"] = np.random.default_rng(5).permutation(300) / 7
    for n, suspected in ((1, False), (4, False), (5, True)):
        table["approve"] = np.where(table["pay"].rank() > 300 - n, "yes", "no")
        assert any("'pay'" in sentence for sentence in told(table)) == suspected


def test_a_number_that_tells_the_label_is_found_where_not_every_number_is_listed() -> None:
    rng = np.random.default_rng(6)
    pay = rng.normal(size=50_000)
    table = pl.LazyFrame(
        {
            "pay": pay,
            "job": rng.choice(list("abc"), len(pay)),
            "race": rng.choice(list("bw"), len(pay)),
            "approve": pay >= 0.3,
        }
    )
    with pytest.warns(LeakWarning, match="'pay' gives .* away by whether it is at least 0.3"):
        LatNB("race", max_iter=2, guard=False).fit(table, "approve")


def test_a_share_is_told_in_words_where_it_is_all() -> None:
    for told_of, words in ((1.0, "in every row:"), (0.9998, "in nearly every row:")):
        assert words in Leak("a", told_of).sentence("the label 'd'")
    assert "in 99.4% of rows:" in Leak("a", 0.994).sentence("the label 'd'")


def test_identifiers_and_few_rows_are_no_leaks() -> None:
    rng = np.random.default_rng(3)
    target = rng.integers(0, 2, 400).astype(np.int16)
    every = np.arange(400, dtype=np.int16)[:, None]
    assert group_leaks(every, target, np.ones(400), ["id"]) == ()
    few = target[: FEWEST - 1]
    assert group_leaks(few[:, None], few, np.ones(len(few)), ["copy"]) == ()
    assert group_leaks(target[:, None], target, np.ones(400), ["copy"])[0].copy
