"""Discrimination patterns by name: what a user is told, against questions to the same model."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from fairpc import FairPC, NLatPC
from fairpc.errors import LearningError
from fairpc.models import Patterns
from fairpc.models._patterns import named_groups


@cache
def crossed() -> FairPC:
    """Two sensitive attributes that are crossed; nobody is both old and of no stated sex."""
    rng = np.random.default_rng(0)
    n = 900
    sex = rng.choice(["F", "M", "X"], n, p=[0.45, 0.45, 0.1])
    old = np.where(sex == "X", "no", rng.choice(["no", "yes"], n))
    f = rng.random(n) < 0.5
    turned = (sex == "F") & (old == "yes") & (rng.random(n) < 0.6)
    d = np.where(turned, False, f)
    job = np.where(rng.random(n) < 0.7, np.where(f, "a", "b"), "c")
    X = pl.DataFrame({"job": job, "pay": np.round(rng.normal(f * 1.0, 1.0), 2)})
    groups = pl.DataFrame({"sex": sex, "old": old})
    return FairPC(structure="chow-liu", random_state=0, max_iter=50).fit(
        X, np.where(d, "yes", "no"), sensitive_features=groups
    )


def of(model: Any, name: str, pattern: Any, *, group: bool) -> float:
    """P(outcome = positive | what a pattern names), by questions to the circuit."""
    features = dict(pattern.features)
    hit = total = 0.0
    for value in model.groups_:
        parts = dict(part.split("=") for part in str(value).split(", "))
        if not group or all(parts[k] == v for k, v in pattern.group.items()):
            share = model.probability({"S": str(value)} | features)
            total += share
            hit += share * model.probability({name: "yes"}, {"S": str(value)} | features)
    return hit / total


@pytest.mark.parametrize(("of_what", "name"), [("decision", "Df"), ("label", "D")])
def test_patterns_are_what_the_circuit_says(of_what: Any, name: str) -> None:
    model = crossed()
    found = model.discrimination_patterns(
        of=of_what, size=2, threshold=0.02, min_share=0.005, top=None
    )
    assert (found.of, found.outcome, found.positive) == (of_what, name, "yes")
    assert len(found.patterns) == found.n_found > 10
    for pattern in found.patterns[::7]:
        rate, of_all = (of(model, name, pattern, group=g) for g in (True, False))
        assert pattern.rate == pytest.approx(rate, abs=1e-10)
        assert pattern.rate_of_all == pytest.approx(of_all, abs=1e-10)
        assert pattern.difference == pytest.approx(rate - of_all, abs=1e-10)
        assert abs(pattern.difference) > 0.02
        assert pattern.share >= 0.005


def test_groups_are_named_by_some_attributes_or_all() -> None:
    names, members = named_groups(crossed().coding_.groups)
    # F and M, each old or not, and X; "sex = X" and "sex = X, old = no" are the same people.
    assert [dict(name) for name in names] == [
        {"sex": "F"},
        {"sex": "M"},
        {"sex": "X"},
        {"old": "no"},
        {"old": "yes"},
        {"sex": "F", "old": "no"},
        {"sex": "F", "old": "yes"},
        {"sex": "M", "old": "no"},
        {"sex": "M", "old": "yes"},
    ]
    assert members.sum(axis=1).tolist() == [2, 2, 1, 3, 2, 1, 1, 1, 1]


def test_every_candidate_is_accounted_for() -> None:
    model = crossed()
    found = model.discrimination_patterns(size=9, min_share=0.05)
    assert found.size == 2
    job, pay = model.coding_.features.arities
    assert found.n_candidates == 9 * (1 + job + pay + job * pay)
    assert found.n_evaluated + found.n_rare + found.n_bounded == found.n_candidates
    assert f"There are {found.n_candidates:,} candidates" in found.account
    assert f"{found.n_evaluated:,} were evaluated exactly" in found.account
    assert found.account in found.summary() == str(found)


def test_records_are_plain_data_and_frames() -> None:
    found = crossed().discrimination_patterns(of="label", top=3)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["patterns"][0]["group"] == dict(found.patterns[0].group)
    assert plain["summary"].count("\n") == 3
    assert "codes" not in plain
    assert found.frame.columns == [
        "group",
        "features",
        "rate",
        "rate_of_all",
        "difference",
        "share",
    ]
    assert found.frame["difference"].to_list() == [p.difference for p in found.patterns]
    assert "yes" in str(found.patterns[0])
    nothing = crossed().discrimination_patterns(threshold=0.9)
    assert nothing.patterns == ()
    assert nothing.frame.height == 0
    assert nothing.account.endswith("above 90 points were found: 0.")


def test_the_pareto_front_starts_with_the_largest() -> None:
    model = crossed()
    every, front = (
        model.discrimination_patterns(threshold=0.02, keep=keep, top=None)
        for keep in ("largest", "pareto")
    )
    assert front.patterns[0] == every.patterns[0]
    assert len(front.patterns) < len(every.patterns)
    assert front.n_found == every.n_found


def test_another_class_and_a_model_without_a_hidden_decision() -> None:
    rng = np.random.default_rng(1)
    d, s = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    X = np.column_stack([(d + rng.integers(0, 2, 400)) % 3, (d * s + rng.integers(0, 2, 400)) % 3])
    model = NLatPC(structure="chow-liu", categorical=(0, 1)).fit(X, d, sensitive_features=s)
    kinds: list[Patterns] = [
        model.discrimination_patterns(of=of_what, positive=positive, size=1, threshold=0, top=1)
        for of_what in ("label", "decision")
        for positive in (0, 1)
    ]
    assert [kind.outcome for kind in kinds] == ["D"] * 4
    assert [kind.positive for kind in kinds] == ["0", "1"] * 2
    assert kinds[0].patterns == kinds[2].patterns
    assert kinds[0].patterns != kinds[1].patterns


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"of": "D"}, "of is 'D': use one of label, decision"),
        ({"keep": "all"}, "keep is 'all': use one of largest, pareto"),
        ({"size": -1}, "size is -1: give how many features a pattern may name, from 0"),
        ({"size": 1.5}, "size is 1.5"),
        ({"top": 0}, "top is 0: give a whole number from 1 on, or None for all"),
        ({"threshold": 1}, "threshold is 1: give a number from 0 to below 1"),
        ({"threshold": float("nan")}, "threshold is nan"),
        ({"min_share": -0.1}, "min_share is -0.1"),
        ({"min_share": True}, "min_share is True"),
        ({"positive": "perhaps"}, "positive is 'perhaps': give a class of the label, no, yes"),
    ],
)
def test_bad_options_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(LearningError, match=words):
        crossed().discrimination_patterns(**{"size": 1} | given)


def test_a_model_must_be_fitted() -> None:
    with pytest.raises(NotFittedError):
        FairPC().discrimination_patterns()
