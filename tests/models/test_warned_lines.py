"""Every warning names the line that called fairpc, whatever part of it found the reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairpc import FairPC, LatentDecision, LatNB
from fairpc.core import warn_caller
from fairpc.errors import DroppedWarning, LeakWarning, TableWarning

N = 700
RNG = np.random.default_rng(0)
SEX = np.where(RNG.random(N) < 0.5, "F", "M")
AGE = RNG.integers(20, 60, N)
JOB = RNG.choice(["clerk", "cook", "smith"], N)
Y = np.where(RNG.random(N) < 0.2 + 0.5 * (AGE > 40), "yes", "no")
X = pd.DataFrame(
    {
        "age": AGE,
        "job": JOB,
        "copy": JOB,
        "town": np.char.add(SEX, RNG.integers(0, 9, N).astype(str)),
        "paid": np.where(RNG.random(N) < 0.99, Y, "?"),
    }
)
LABELS = [None, *Y[1:]]
MODELS: dict[str, Callable[[], Any]] = {
    "FairPC": lambda: FairPC(structure="chow-liu"),
    "LatNB": LatNB,
    "LatentDecision": lambda: LatentDecision(cv=2, random_state=0),
}
ASKED: dict[str, Callable[..., Any]] = {
    "predict": lambda m, X, s: m.predict(X, sensitive_features=s),
    "predict_proba": lambda m, X, s: m.predict_proba(X, sensitive_features=s),
    "predict_bounds": lambda m, X, s: m.predict_bounds(X, sensitive_features=s),
    "posterior": lambda m, X, s: m.posterior(X, Y, sensitive_features=s),
    "parity_gap": lambda m, X, s: m.parity_gap(X, sensitive_features=s),
    "choose_threshold": lambda m, X, s: m.choose_threshold(X, sensitive_features=s, equalise=True),
}


def warned(call: Callable[[], object]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return caught


@cache
def fitted(name: str) -> tuple[Any, list[warnings.WarningMessage]]:
    model = MODELS[name]()
    return model, warned(lambda: model.fit(X, LABELS, sensitive_features=SEX))


@pytest.mark.parametrize("name", MODELS)
def test_fit(name: str) -> None:
    _, caught = fitted(name)
    kinds = {LeakWarning, TableWarning if name == "LatentDecision" else DroppedWarning}
    assert {w.category for w in caught} >= kinds
    assert {w.filename for w in caught} == {__file__}
    assert len({w.lineno for w in caught}) == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asked", ASKED)
def test_values_that_were_not_seen(name: str, asked: str) -> None:
    model, _ = fitted(name)
    new, groups = X.assign(job="pilot"), np.where(np.arange(N) == 3, "D", SEX)
    tables: list[tuple[Any, Any]] = [(new, SEX), (X, groups)]
    if (name, asked) == ("LatentDecision", "predict"):
        tables.pop()  # a row whose group is not known has no decision
    for table, s in tables:
        caught = warned(lambda table=table, s=s: ASKED[asked](model, table, s))  # type: ignore[misc]
        assert any("not seen at fit" in str(w.message) for w in caught)
        assert {w.filename for w in caught} == {__file__}


def test_a_warning_from_nowhere_is_given_all_the_same() -> None:
    (one,) = warned(lambda: warn_caller("as it is"))
    assert (one.filename, one.category) == (__file__, UserWarning)
