"""Subgroups of the rows whose groups are decided apart: a planted one, none, and who has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import fairpc
from auditing.tables import QUICK, fitted, settings, table
from fairpc.auditing import given_decisions, render
from fairpc.auditing._given_decisions import decided_rows
from fairpc.auditing._job import Job, ReadTable
from fairpc.auditing._subgroups import SubgroupFacts, subgroup_facts


def planted(seed: int, gap: float, n: int = 4000) -> tuple[pl.DataFrame, Any, Any]:
    """A table, labels, and decisions that are alike but for women of the south under 30."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "region": rng.choice(["north", "south", "west"], n),
            "age": rng.choice(["under 30", "older"], n),
            "noise": rng.normal(size=n),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    likely = 1 / (1 + np.exp(-2 * frame["noise"].to_numpy()))
    label = np.where(rng.random(n) < likely, "yes", "no")
    hit = (frame["region"] == "south") & (frame["age"] == "under 30") & (frame["sex"] == "F")
    return frame, label, (rng.random(n) < 0.7 - gap * hit.to_numpy()).astype(int)


def facts_of(seed: int, gap: float, clusters: npt.NDArray[np.int64] | None = None) -> SubgroupFacts:
    """The section alone, without the rest of an audit."""
    frame, label, decided = planted(seed, gap)
    X, sex = frame.drop("sex"), frame["sex"]
    given = given_decisions(decided, X, label, sex)
    rows = decided_rows(given, X, label, sex, None, clusters)
    return subgroup_facts(Job(given, settings(), results={"scores": ReadTable(rows, rows)}))


def test_a_planted_subgroup_is_found_and_said() -> None:
    frame, label, decided = planted(0, 0.4)
    found = fairpc.audit(
        decided, frame.drop("sex"), label, sensitive_features=frame["sex"], n_seeds=1
    )
    facts = found.subgroups
    assert facts is not None
    assert facts == facts_of(0, 0.4)
    first = facts.subgroups[0]
    assert dict(first.features) == {"region": "south", "age": "under 30"}
    assert (first.less, first.more) == ("F", "M")
    assert facts.n_searched == facts.n_measured == 2000
    rates = f"{100 * first.less_rate:.1f}% of women and {100 * first.more_rate:.1f}% of men"
    assert facts.sentence.startswith(
        f"Among people with region “south” and age “under 30”, {rates} are decided “yes”, "
        f"{100 * first.difference:.1f} points apart"
    )
    assert facts.sentence in render(found)
    # In all rows, searched ones too, it is about as large, and the labels do not show it.
    alike = frame.with_columns(decided=decided).filter(region="south", age="under 30")
    rate = dict(alike.group_by("sex").agg(pl.col("decided").mean()).iter_rows())
    assert rate["M"] - rate["F"] == pytest.approx(first.difference, abs=0.1)
    assert first.recorded == pytest.approx(0, abs=0.15)


@pytest.mark.slow
def test_intervals_cover_although_the_largest_were_looked_for() -> None:
    held, sure = 0, 0
    for seed in range(100):
        first = facts_of(seed, 0.4).subgroups[0]
        assert dict(first.features) == {"region": "south", "age": "under 30"}
        held += first.interval[0] <= 0.4 <= first.interval[1]
        nothing = facts_of(seed, 0.0).subgroups
        sure += any(one.interval[0] > 0 or one.interval[1] < 0 for one in nothing)
    assert held >= 95
    assert sure <= 5


def test_nothing_is_found_where_all_are_decided_alike() -> None:
    X, y, s = table()
    same = fairpc.audit(np.ones(400), X, y, sensitive_features=s, positive="yes", **QUICK)
    assert same.subgroups is not None
    assert same.subgroups.subgroups == ()
    assert same.subgroups.sentence.startswith("No people who are alike")


def test_persons_are_searched_or_measured_whole() -> None:
    facts = facts_of(1, 0.4, np.repeat(np.arange(1000), 4))
    assert facts.n_searched == facts.n_measured == 2000
    assert facts.subgroups[0].interval[0] > 0


def test_circuits_and_classifiers_have_subgroups() -> None:
    X, y, s = table()
    numbers = X.select(pl.col(pl.Int64, pl.Float64))
    other = fairpc.LatentDecision(LogisticRegression(), random_state=0)
    other.fit(numbers, y, sensitive_features=s)
    for model, rows in ((fitted(), X), (other, numbers)):
        found = fairpc.audit(model, rows, y, sensitive_features=s, **QUICK).subgroups
        assert found is not None
        assert found.n_searched > 0
