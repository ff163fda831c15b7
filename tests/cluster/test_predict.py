"""Predictions of a Dask frame are lazy, and those of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from decisions import table
from fairpc import LatNB
from fairpc.errors import TableError

dd = pytest.importorskip("dask.dataframe", reason="needs fairpc[cluster]")


@pytest.fixture(scope="module")
def model() -> LatNB:
    frame = table(400).drop("weight")
    return LatNB("sex", random_state=0, max_iter=20).fit(frame.drop("label"), frame["label"])


@pytest.fixture(scope="module")
def new() -> Any:
    frame = table(120, seed=3).drop("weight", "label").to_pandas()
    return frame.set_index(np.arange(1000, 1120))


def test_predictions_of_a_dask_frame_are_lazy(client: Any, model: LatNB, new: Any) -> None:
    lazy = dd.from_pandas(new, npartitions=3)
    decided: Any = model.predict(lazy)
    scores: Any = model.predict_proba(X=lazy)
    observed: Any = model.predict_observed_proba(lazy)
    assert type(scores) is type(lazy)
    assert type(decided) is type(lazy["sex"])
    assert list(scores.columns) == ["p_df_0", "p_df_1"]
    assert list(observed.columns) == ["p_d_0", "p_d_1"]
    assert np.array_equal(decided.compute().to_numpy(), model.predict(new))
    assert np.array_equal(scores.compute().to_numpy(), model.predict_proba(new))
    assert np.array_equal(observed.compute().to_numpy(), model.predict_observed_proba(new))
    assert list(scores.compute().index) == list(new.index)
    assert decided.dtype == decided.compute().dtype


def test_empty_partitions_have_no_predictions(client: Any, model: LatNB, new: Any) -> None:
    lazy = dd.from_pandas(new.assign(row=np.arange(120)), npartitions=3)
    some = lazy[lazy.row >= 100]
    scores: Any = model.predict_proba(some)
    decided: Any = model.predict(some)
    assert np.array_equal(scores.compute().to_numpy(), model.predict_proba(new[100:]))
    assert len(decided.compute()) == 20
    nobody: Any = model.predict_proba(lazy[lazy.row > 500])
    assert nobody.compute().shape == (0, 2)


def test_the_group_may_be_absent_and_not_apart(client: Any, model: LatNB, new: Any) -> None:
    lazy = dd.from_pandas(new, npartitions=2)
    without: Any = model.predict_proba(lazy.drop(columns="sex"))
    expected = model.predict_proba(new.drop(columns="sex"))
    assert np.array_equal(without.compute().to_numpy(), expected)
    with pytest.raises(TableError, match="make them columns of it"):
        model.predict(lazy, sensitive_features=lazy["sex"])


def test_a_model_that_is_not_fitted_says_so_at_once(new: Any) -> None:
    with pytest.raises(NotFittedError):
        LatNB("sex").predict(dd.from_pandas(new, npartitions=2))
