"""What a user may give: columns in every form, and rows beside the training rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from fairpc.errors import CodesError, LearningError, TableError, TableWarning
from fairpc.models import FairPC, LatentDecision, LatNB, TableClassifier

N = 300
QUICK: dict[str, Any] = {"random_state": 0, "max_iter": 5, "guard": False}


def given() -> tuple[pl.DataFrame, Any]:
    """A table whose first column is sensitive, and labels."""
    rng = np.random.default_rng(0)
    s = rng.choice(["F", "M"], N)
    X = pl.DataFrame(
        {
            "s": s,
            "zip": rng.integers(0, 30, N),
            "age": rng.integers(20, 60, N),
            "job": rng.choice(["a", "b"], N),
        }
    )
    y = (X["age"].to_numpy() + 10 * (s == "M") + rng.normal(0, 9, N) > 45).astype(int)
    return X, y


@pytest.mark.parametrize("position", [1, -3, np.int64(1), [1], np.array([1])])
def test_positions_count_all_columns_of_the_table(position: Any) -> None:
    X, y = given()
    model = LatNB("s", categorical=position, **QUICK).fit(X, y)
    kinds = {c.name: c.kind for c in model.coding_.features.columns}
    assert kinds == {"zip": "category", "age": "number", "job": "category"}
    with pytest.raises(TableError, match="its columns are 's', 'zip', 'age', 'job'"):
        LatNB("s", categorical="none", **QUICK).fit(X, y)


@pytest.mark.parametrize(
    "sensitive", ["s", 0, np.int64(0), ["s"], ("s",), np.array(["s"]), np.array([0])]
)
def test_sensitive_columns_are_named_in_any_form(sensitive: Any) -> None:
    X, y = given()
    assert LatNB(sensitive, **QUICK).fit(X, y).coding_.sensitive == ("s",)


def test_rows_beside_may_lack_their_groups() -> None:
    """S is then marginalised, as in ``score_samples``."""
    X, y = given()
    some, labels, groups = X[:50].drop("s"), y[:50], X["s"].to_numpy()
    beside: dict[str, Any] = {"validation_data": (some, labels, None)}
    how: dict[str, Any] = {"structure": "chow-liu", **QUICK}
    named = FairPC("s", **how).fit(X, y, **beside)
    apart = FairPC(**how).fit(X.drop("s"), y, sensitive_features=groups, **beside)
    for model in (named, apart):
        coding = model.coding_.features
        inside = coding.log_density(coding.transform(some))
        mean = (model.score_samples(some, labels) - inside).mean()
        assert model.history_["validation_log_likelihood"][-1] == pytest.approx(mean, abs=1e-12)


def test_rows_beside_an_array_go_by_position() -> None:
    X, y = given()
    features, groups = X.drop("s"), X["s"].to_numpy()
    array = features.to_numpy()
    histories = [
        FairPC(structure="chow-liu", **QUICK)
        .fit(array, y, sensitive_features=groups, validation_data=(some, y[:50], groups[:50]))
        .history_["validation_log_likelihood"]
        for some in (features[:50], array[:50])
    ]
    assert histories[0].tolist() == histories[1].tolist()
    first = FairPC(structure="chow-liu", **QUICK).fit(array, y, sensitive_features=groups)
    kept = FairPC(structure=first, **QUICK).fit(features, y, sensitive_features=groups)
    assert kept.coding_ is first.coding_


def test_names_that_no_table_should_have_are_kept() -> None:
    X, y = given()
    model = LatNB("s", **QUICK).fit(X.rename({"age": "\0age"}), y)
    assert model.coding_.features.names == ("zip", "\0age", "job")


def test_rows_of_huge_weights_have_a_name() -> None:
    """More of them than a 64-bit number counts: no warning, and another name than that of one."""
    X, y = given()
    one, many = (LatNB("s", **QUICK).fit(X, y, sample_weight=np.full(N, w)) for w in (1, 1e20))
    assert one.data_fingerprint_ != many.data_fingerprint_


def numbers(n: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(n, 2)), rng.choice(["f", "m"], n)
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, "yes", "no"), s


@pytest.mark.parametrize(
    "model",
    [
        LatNB(**QUICK),
        LatentDecision(TableClassifier("logistic")),
        LatentDecision(LogisticRegression()),
    ],
    ids=["circuit", "ours", "theirs"],
)
def test_names_that_an_array_did_not_have_are_warned_of(model: Any) -> None:
    X, y, s = numbers()
    model.fit(X, y, sensitive_features=s)
    with pytest.warns(TableWarning, match="by their position"):
        found = model.predict_proba(pl.DataFrame(X, ["b", "a"]), sensitive_features=s)
    np.testing.assert_allclose(found, model.predict_proba(X, sensitive_features=s), rtol=1e-12)


@pytest.mark.parametrize("weight", [1e308, 1e160, 1e-200, 1e-320])
@pytest.mark.parametrize(
    "model",
    [LatNB(**QUICK), LatentDecision(TableClassifier("logistic"))],
    ids=["circuit", "scores"],
)
def test_weights_beyond_what_can_be_added_are_refused(model: Any, weight: float) -> None:
    X, y, s = numbers()
    with pytest.raises(CodesError, match=re.escape(f"a weight is {weight:g}")):
        model.fit(X, y, sensitive_features=s, sample_weight=np.full(len(y), weight))


def test_whole_weights_that_count_more_rows_than_can_be_dealt_are_refused() -> None:
    X, y, s = numbers()
    with pytest.raises(LearningError, match="whole and count 2e\\+14 rows"):
        FairPC(structure="forest").fit(
            X > 0, y, sensitive_features=s, sample_weight=np.full(len(y), 1e12)
        )
