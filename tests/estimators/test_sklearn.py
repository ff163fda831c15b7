"""scikit-learn's own checks, and its tools around the models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpc import FairPC, LatNB, NLatPC, TwoNB

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


def test_it_shows_itself_in_a_notebook() -> None:
    table, labels, group = people()
    model = LatNB().fit(table, labels, sensitive_features=group)
    assert "LatNB" in model._repr_html_()
    assert list(model.feature_names_in_) == ["age", "job", "years"]
