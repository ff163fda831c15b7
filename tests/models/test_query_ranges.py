"""Ranges of queries about the fair decision, against mechanisms put into the joint distribution."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC
from fairpc.core import Floats
from fairpc.models import Answer, CircuitClassifier, parse

SEEN = 1e-6


def altered(n: int = 1500) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Half of all people deserve a yes; three in ten deserving women were recorded no."""
    rng = np.random.default_rng(5)
    fair, sex = rng.random(n) < 0.5, rng.choice(["F", "M"], n)
    a, b = (np.where(fair, rng.binomial(3, 0.85, n), rng.binomial(3, 0.15, n)) for _ in "ab")
    refused = rng.random(n) < np.where(sex == "F", 0.3, 0.03)
    label = np.where(fair & ~refused, "yes", "no")
    return pl.DataFrame({"a": a, "b": b}), label.tolist(), sex.tolist()


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    X, y, sex = altered()
    settings: dict[str, Any] = {"structure": "chow-liu", "random_state": 0, "positive": "yes"}
    return FairPC(**settings).fit(X, y, sensitive_features=sex)


def asked(model: CircuitClassifier, text: str) -> Answer:
    return model._words().answer(parse(text))


class Mechanisms:
    """The joint distribution of the model with another mechanism in it: P(s, d, x) is kept."""

    def __init__(self, model: CircuitClassifier) -> None:
        circuit = model.circuit_
        self.names = circuit.names
        kept = [v for v in range(len(self.names)) if self.names[v] != "Df"]
        arities = [circuit.arities[v] for v in kept]
        rows = np.full((int(np.prod(arities)), len(self.names)), -1, np.int16)
        rows[:, kept] = list(product(*map(range, arities)))
        self.p, self.rows = np.exp(circuit.log_marginal(rows)), rows
        self.d = self.names.index("D")

    def probability(self, mechanism: Floats, event: dict[str, int], known: dict[str, int]) -> float:
        """P(event | known) where P(D = 1 | Df = f, s) is mechanism[s, f]."""
        s, total, both = self.rows[:, 0], 0.0, 0.0
        b0, b1 = mechanism[s].T
        rest = np.delete(self.rows, self.d, axis=1)
        _, same = np.unique(rest, axis=0, return_inverse=True)
        whole = np.bincount(same, self.p)[same]
        ones = np.bincount(same, self.p * (self.rows[:, self.d] == 1))[same]
        fair = np.clip((ones - b0 * whole) / (b1 - b0), 0.0, whole)
        for f in (0, 1):
            rate = np.where(self.rows[:, self.d] == 1, (b0, b1)[f], 1 - (b0, b1)[f])
            mass = rate * (fair if f else whole - fair)
            for of, counted in ((known, 0), (known | event, 1)):
                fits = of.get("Df", f) == f
                for name, code in of.items():
                    if name != "Df":
                        fits = fits & (self.rows[:, self.names.index(name)] == code)
                found = float((mass * fits).sum())
                total, both = (total, both + found) if counted else (total + found, both)
        return both / total


@pytest.mark.parametrize(
    ("text", "event", "known"),
    [
        ("D=no | Df=yes, S=F", {"D": 0}, {"Df": 1, "S": 0}),
        ("D=no | Df=yes, a=2, S=F", {"D": 0}, {"Df": 1, "S": 0, "a": 2}),
        ("D=yes | Df=no, S=M", {"D": 1}, {"Df": 0, "S": 1}),
        ("Df=yes | a=2, S=F", {"Df": 1}, {"S": 0, "a": 2}),
        ("Df=no | a=2, b=1, S=M", {"Df": 0}, {"S": 1, "a": 2, "b": 1}),
        ("Df=yes | D=no, a=3, S=F", {"Df": 1}, {"D": 0, "S": 0, "a": 3}),
        ("a=3 | Df=yes, S=F", {"a": 3}, {"Df": 1, "S": 0}),
        ("a=3, D=yes | Df=no, S=F", {"a": 3, "D": 1}, {"Df": 0, "S": 0}),
        ("Df=yes, a=3 | S=M", {"Df": 1, "a": 3}, {"S": 1}),
        ("D=no, Df=yes | S=F", {"D": 0, "Df": 1}, {"S": 0}),
        ("S=F, Df=yes, a=1", {"S": 0, "Df": 1, "a": 1}, {}),
        ("Df=yes | a=2", {"Df": 1}, {"a": 2}),
        ("a=3 | Df=yes", {"a": 3}, {"Df": 1}),
    ],
)
def test_possible_mechanisms_are_within(
    model: CircuitClassifier, text: str, event: dict[str, int], known: dict[str, int]
) -> None:
    (range_,) = asked(model, text).ranges
    assert range_ is not None
    low, high = range_
    assert 0 <= low < high <= 1
    ends, joint = model.mechanism_range_, Mechanisms(model)
    fair_rate = model.explain_bias().rate_range
    assert fair_rate is not None
    found = []
    observed = [asked(model, f"D=yes | S={s}").rows[0][1] for s in "FM"]
    for pi, x, y in product(np.linspace(*fair_rate, 7), np.linspace(0, 1, 5), np.linspace(0, 1, 5)):
        # Of both groups the same fair rate: b0 is free, b1 follows.
        b0 = ends[:, 0, 0] + np.array([x, y]) * (ends[:, 0, 1] - ends[:, 0, 0])
        b1 = b0 + (np.array(observed) - b0) / pi
        if (b1 >= ends[:, 1, 0] - SEEN).all() and (b1 <= ends[:, 1, 1] + SEEN).all():
            found.append(joint.probability(np.column_stack([b0, b1]), event, known))
    assert len(found) > 10
    inside = [low - SEEN <= one <= high + SEEN for one in found]
    assert all(inside), (range_, min(found), max(found))
    assert high - low < 0.9


def test_one_fact_has_one_range(model: CircuitClassifier) -> None:
    """The mechanism and the fair rate have the ranges of the fit, wherever they are asked for."""
    for s, f in product(range(2), range(2)):
        group, decision = model.groups_[s], model.classes_[f]
        (range_,) = asked(model, f"D=yes | Df={decision}, S={group}").ranges
        assert range_ == pytest.approx(tuple(model.mechanism_range_[s, f]))
    rate = model.explain_bias().rate_range
    for text in ("Df=yes", "Df=yes | S=F"):
        assert asked(model, text).ranges[0] == pytest.approx(rate)
    assert asked(model, "a=1 | Df=yes, S=F").given_range == pytest.approx(
        tuple(np.array(rate) * model.group_rate_[0])
    )


@pytest.mark.parametrize("text", ["S=F", "D | a=2", "D=yes | S=F", "a=2, b | D=no"])
def test_what_is_observed_has_no_range(model: CircuitClassifier, text: str) -> None:
    assert set(asked(model, text).ranges) == {None}


def test_a_range_that_is_not_known_is_not_one(model: CircuitClassifier) -> None:
    X, y, sex = altered(200)
    few = FairPC(structure="chow-liu", random_state=0).fit(X, y, sensitive_features=sex)
    for one, text in ((few, "D=no | Df=yes, S=F"), (model, "S=F | Df=yes")):
        (range_,) = asked(one, text).ranges
        assert range_ is not None
        assert np.isnan(range_).all()
