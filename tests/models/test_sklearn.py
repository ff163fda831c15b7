"""scikit-learn's own checks, and its tools around the models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpc import FairPC, LatentDecision, LatNB, NLatPC, TwoNB

MODELS = [
    FairPC(0, structure="chow-liu"),
    NLatPC(0, structure="chow-liu"),
    LatNB(0),
    TwoNB(0),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(MODELS)  # type: ignore[untyped-decorator]
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)


FAILS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows of unequal weight are worth fewer rows than copies are, and folds are a number"
    ),
}


def _of_logistic(_: Any) -> dict[str, str]:
    holes = "the hole is in the sensitive column, where it means that the group is not known"
    return FAILS | {"check_estimators_nan_inf": holes}


def _of_boosting(_: Any) -> dict[str, str]:
    alike = "the sensitive column tells the label of the check, so that nothing else is learned"
    checks = "check_pipeline_consistency", "check_estimators_dtypes", "check_classifiers_classes"
    few = "a value of the sensitive column has too few labels to be a group: no decision is known"
    hole = "a hole in the sensitive column is an unknown group, for which no decision is known"
    of_few = dict.fromkeys(("check_classifiers_train", "check_fit_idempotent"), few)
    return FAILS | dict.fromkeys(checks, alike) | of_few | {"check_estimators_pickle": hole}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LatentDecision(LogisticRegression(), sensitive=0)], expected_failed_checks=_of_logistic
)
def test_common_checks_around_a_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LatentDecision(sensitive=0)], expected_failed_checks=_of_boosting
)
def test_common_checks_of_a_latent_decision(estimator: Any, check: Any) -> None:
    check(estimator)


def people(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table with groups apart, labels bent against one of them, and the decision behind them."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["F", "M"], n)
    fair = rng.random(n) < 0.5
    kept = rng.random(n) < np.where(group == "F", 0.6, 0.95)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n) + 12 * fair,
            "job": rng.choice(["a", "b", "c"], n),
            "years": rng.integers(0, 20, n) + 10 * fair,
        }
    )
    return table, np.where(fair & kept, "good", "bad"), group


def test_clone_and_parameters() -> None:
    model = FairPC("sex", positive="good", smoothing=2.0)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(smoothing=3.0).smoothing == 3.0


def test_sensitive_features_are_routed() -> None:
    table, labels, group = people()
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            LatNB(max_iter=20)
            .set_fit_request(sensitive_features=True)
            .set_predict_request(sensitive_features=True)
            .set_score_request(sensitive_features=True)
        )
        result = cross_validate(
            model, table, labels, cv=3, params={"sensitive_features": group}, error_score="raise"
        )
        assert (result["test_score"] > 0.6).all()
        search = GridSearchCV(model, {"smoothing": [0.5, 2.0]}, cv=2, error_score="raise")
        search.fit(table, labels, sensitive_features=group)
        assert search.best_params_["smoothing"] in (0.5, 2.0)
        pipeline = make_pipeline(FunctionTransformer(), model)
        pipeline.fit(table, labels, sensitive_features=group)
        assert len(pipeline.predict(table, sensitive_features=group)) == len(table)


def test_metadata_and_parameters_reach_what_is_inside() -> None:
    """Groups and weights through a pipeline and a search; a parameter of the classifier itself."""
    table, labels, group = people()
    numbers = table[["age", "years"]]
    given: dict[str, Any] = {
        "sensitive_features": group,
        "sample_weight": np.linspace(0.5, 2, len(group)),
    }
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            LatentDecision(LogisticRegression(), random_state=0)
            .set_fit_request(sensitive_features=True, sample_weight=True)
            .set_predict_request(sensitive_features=True)
            .set_score_request(sensitive_features=True, sample_weight=True)
        )
        result = cross_validate(model, numbers, labels, cv=3, params=given, error_score="raise")
        assert (result["test_score"] > 0.6).all()
        options = {"estimator__C": [1e-4, 1.0]}
        search = GridSearchCV(model, options, cv=2, error_score="raise")
        search.fit(numbers, labels, **given)
        assert search.best_params_["estimator__C"] == search.best_estimator_.estimators_[0].C
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(numbers, labels, **given)
        decided = pipeline.predict(numbers, sensitive_features=group)
    alone = LatentDecision(LogisticRegression(), random_state=0)
    scaled = StandardScaler().fit_transform(numbers)
    alone.fit(scaled, labels, **given)
    assert (decided == alone.predict(scaled, sensitive_features=group)).all()
    unweighted = clone(alone).fit(scaled, labels, sensitive_features=group)
    assert not np.allclose(unweighted.fair_rate_, alone.fair_rate_)


def test_it_shows_itself_in_a_notebook() -> None:
    table, labels, group = people()
    model = LatNB().fit(table, labels, sensitive_features=group)
    assert "LatNB" in model._repr_html_()
    assert list(model.feature_names_in_) == ["age", "job", "years"]
