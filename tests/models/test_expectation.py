"""Expected predictions of outside classifiers, against enumeration of every complete row."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fairpc import FairPC, TwoNB
from fairpc.circuit import CircuitBuilder
from fairpc.errors import EvidenceError, LearningError, TableError
from fairpc.models._outside_classifier import Response, expected_prediction

N = 600


@pytest.fixture(scope="module")
def table() -> tuple[pl.DataFrame, Any, Any]:
    rng = np.random.default_rng(0)
    s, f = rng.integers(0, 2, (2, N))
    d = np.where(rng.random(N) < 0.2, 1 - f, f)
    x = pl.DataFrame(
        {
            "job": np.array(["clerk", "cook", "smith"])[(f + rng.integers(0, 2, N)) % 3],
            "town": np.array(["big", "small"])[(s ^ (rng.random(N) < 0.3)).astype(int)],
            "degree": np.array(["no", "yes"])[(f ^ (rng.random(N) < 0.3)).astype(int)],
        }
    )
    return x, d, np.array(["F", "M"])[s]


@pytest.fixture(scope="module")
def model(table: tuple[pl.DataFrame, Any, Any]) -> FairPC:
    x, d, s = table
    return FairPC(structure="strudel", random_state=0).fit(x, d, sensitive_features=s)


def enumerated(model: Any, f: Any, given: dict[str, Any], with_group: bool) -> list[float]:
    """Σ_x P(x | s, given) f(x) over every complete x, each by a query of its own."""
    names = ("job", "town", "degree")
    levels = {"job": ("clerk", "cook", "smith"), "town": ("big", "small"), "degree": ("no", "yes")}
    found = []
    for k, group in enumerate(("F", "M")):
        total = 0.0
        for values in itertools.product(*(levels[n] for n in names)):
            event = dict(zip(names, values, strict=True))
            if any(event[n] != v for n, v in given.items()):
                continue
            codes = model.encode(pl.DataFrame({n: [v] for n, v in event.items()}))
            row = np.column_stack([[[k]], codes]) if with_group else codes
            total += model.probability(event, given | {"S": group}) * float(f(row)[0])
        found.append(total)
    return found


def codes_of(model: FairPC, table: tuple[pl.DataFrame, Any, Any], with_group: bool) -> Any:
    x, _, s = table
    return model.encode(x, sensitive_features=s, with_group=with_group)


EXACT: dict[str, tuple[Any, Response]] = {
    "tree": (DecisionTreeClassifier(max_depth=4, random_state=0), "probability"),
    "forest": (RandomForestClassifier(7, random_state=0), "probability"),
    "extra trees": (ExtraTreesClassifier(5, random_state=0), "probability"),
    "forest of means": (RandomForestRegressor(5, random_state=0), "probability"),
    "boosting": (GradientBoostingClassifier(n_estimators=9, random_state=0), "score"),
    "boosting of means": (GradientBoostingRegressor(n_estimators=9, random_state=0), "score"),
    "histogram boosting": (HistGradientBoostingClassifier(max_iter=9, random_state=0), "score"),
    "histogram boosting of means": (HistGradientBoostingRegressor(max_iter=9), "probability"),
    "categories": (
        HistGradientBoostingClassifier(max_iter=9, categorical_features=[0], min_samples_leaf=5),
        "score",
    ),
    "logistic": (LogisticRegression(), "score"),
    "linear": (LinearRegression(), "probability"),
    "one-hot": (make_pipeline(OneHotEncoder(), LogisticRegression()), "score"),
    "scaled": (make_pipeline(StandardScaler(), LogisticRegression()), "score"),
}


@pytest.mark.parametrize("given", [{}, {"degree": "yes"}], ids=["anyone", "with a degree"])
@pytest.mark.parametrize("with_group", [False, True], ids=["x", "s and x"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_expectations_equal_enumeration(
    name: str, with_group: bool, given: dict[str, Any], model: FairPC, table: Any
) -> None:
    classifier, response = EXACT[name]
    codes = codes_of(model, table, with_group)
    classifier.fit(codes, table[1])
    found = model.expected_prediction(classifier, given=given, response=response)
    assert found.exact
    assert (found.errors == 0).all()

    def f(row: Any) -> Any:
        if response == "score" and hasattr(classifier, "decision_function"):
            return classifier.decision_function(row)
        if hasattr(classifier, "predict_proba"):
            return classifier.predict_proba(row)[:, 1]
        return classifier.predict(row)

    slow = enumerated(model, f, given, with_group)
    np.testing.assert_allclose(found.means, slow, rtol=1e-6, atol=1e-7)
    assert found.gap == pytest.approx(slow[1] - slow[0], abs=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=9, random_state=0),
        BernoulliNB(),
        make_pipeline(PolynomialFeatures(2), LogisticRegression()),
    ],
)
def test_other_probabilities_are_drawn_with_error_bars(
    classifier: Any, model: FairPC, table: Any
) -> None:
    classifier.fit(codes_of(model, table, False), table[1])
    found = model.expected_prediction(classifier, n_draws=4000, random_state=0)
    assert not found.exact
    slow = enumerated(model, lambda row: classifier.predict_proba(row)[:, 1], {}, False)
    assert (np.abs(found.means - slow) < 4 * found.errors).all()
    assert (found.errors > 0).all()
    again = model.expected_prediction(classifier, n_draws=4000, random_state=0)
    np.testing.assert_array_equal(found.means, again.means)
    assert found.gap_error == pytest.approx(float(np.hypot(*found.errors)))


def test_the_error_bars_are_those_of_the_draws(model: FairPC, table: Any) -> None:
    """Over many seeds, four fifths to all of the intervals of two standard errors hold the mean."""
    classifier = LogisticRegression().fit(codes_of(model, table, False), table[1])
    slow = enumerated(model, lambda row: classifier.predict_proba(row)[:, 1], {}, False)
    held = [
        np.abs(found.means - slow) < 2 * found.errors
        for seed in range(60)
        for found in [model.expected_prediction(classifier, n_draws=200, random_state=seed)]
    ]
    assert 0.88 <= np.mean(held) <= 0.995


def test_the_motivation_of_the_paper() -> None:
    """f of the paper's table: .65 and .52 under the data, .55 for both under a wrong Q."""

    class Motivation:
        n_features_in_ = 2

        def predict(self, rows: Any) -> Any:
            return np.array([[0.4, 0.7], [0.3, 0.8]])[
                rows[:, 0].astype(int), rows[:, 1].astype(int)
            ]

    for ones, means in (((0.4, 0.7), (0.52, 0.65)), ((0.5, 0.5), (0.55, 0.55))):
        b = CircuitBuilder({"S": 2, "X": 2})
        cells = [
            b.product(b.indicator("S", s), b.categorical("X", [1 - p, p]))
            for s, p in enumerate(ones)
        ]
        circuit = b.build(b.sum(cells, [0.5, 0.5]))
        rows = np.array([[0, -1], [1, -1]], np.int16)
        found = expected_prediction(
            circuit, Motivation(), [0, 1], rows, (0, 1), n_draws=40_000, random_state=0
        )
        assert not found.exact
        np.testing.assert_allclose(found.means, means, atol=5e-3)


def test_models_without_a_hidden_decision_answer_too(table: Any) -> None:
    x, d, s = table
    model = TwoNB().fit(x, d, sensitive_features=s)
    tree = DecisionTreeClassifier(max_depth=3).fit(model.encode(x), d)
    slow = enumerated(model, lambda row: tree.predict_proba(row)[:, 1], {}, False)
    np.testing.assert_allclose(model.expected_prediction(tree).means, slow, atol=1e-9)


def test_the_other_class_is_the_complement(model: FairPC, table: Any) -> None:
    asked: list[tuple[Any, Response, float]] = [
        (DecisionTreeClassifier(max_depth=3), "probability", 1.0),
        (LogisticRegression(), "score", 0.0),
        (GradientBoostingClassifier(n_estimators=5), "score", 0.0),
    ]
    for classifier, response, total in asked:
        classifier.fit(codes_of(model, table, False), table[1])
        one, other = (
            model.expected_prediction(classifier, response=response, positive=k) for k in (1, 0)
        )
        np.testing.assert_allclose(one.means + other.means, total, atol=1e-9)


def test_it_is_plain_data(model: FairPC, table: Any) -> None:
    tree = DecisionTreeClassifier(max_depth=3).fit(codes_of(model, table, False), table[1])
    record = json.loads(json.dumps(model.expected_prediction(tree).to_dict()))
    assert record["groups"] == ["F", "M"]
    assert record["exact"] is True
    assert record["how"].startswith("exact: a sum over ")


def test_bad_input_is_one_sentence(model: FairPC, table: Any) -> None:
    x, d, _ = table
    codes = model.encode(x)
    tree = DecisionTreeClassifier().fit(codes, d)
    with pytest.raises(LearningError, match="takes 2 columns, the model has 3: train it on"):
        model.expected_prediction(DecisionTreeClassifier().fit(codes[:, :2], d))
    with pytest.raises(LearningError, match="n_features_in_"):
        model.expected_prediction(object())
    with pytest.raises(LearningError, match="response is 'odds'"):
        model.expected_prediction(tree, response="odds")  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="no class 'maybe'"):
        model.expected_prediction(tree, positive="maybe")
    with pytest.raises(LearningError, match="n_draws is 1"):
        model.expected_prediction(tree, n_draws=1)
    with pytest.raises(EvidenceError, match="given names a group"):
        model.expected_prediction(tree, given={"S": "F"})
    with pytest.raises(TableError, match="no groups to encode"):
        model.encode(x, with_group=True)
