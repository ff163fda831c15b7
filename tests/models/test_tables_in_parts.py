"""What is asked of rows is answered for tables in files as for the same table in memory."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from decisions import table
from fairpc import LatNB
from fairpc.errors import FileFormatError, TableError, TableWarning
from models.test_streaming import written

PER_ROW = ("predict", "predict_proba", "predict_observed_proba", "score_samples")


@cache
def fitted() -> LatNB:
    frame = table().drop("weight")
    return LatNB("sex", max_iter=30).fit(frame.drop("label"), frame["label"])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 37)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 74)


@pytest.mark.parametrize("kind", ["csv", "folder", "lazy"])
def test_answers_are_those_of_the_table_in_memory(kind: str, tmp_path: Path) -> None:
    model, frame = fitted(), table(300, seed=1)
    source = written(frame, tmp_path, kind)
    if kind == "folder":
        frame = pl.concat([frame[k::3] for k in range(3)])
    for name in PER_ROW:
        ours, theirs = getattr(model, name)(source), getattr(model, name)(frame)
        assert type(ours) is np.ndarray
        assert np.array_equal(ours, theirs), name
    both = model.score_samples(source, "label"), model.score_samples(frame, frame["label"])
    assert np.array_equal(*both)
    assert model.score(source, "label") == model.score(frame, frame["label"])
    assert model.parity_gap(source) == model.parity_gap(frame)
    for how in ({"selection_rate": 0.3}, {"equalise": True}):
        ours = LatNB.choose_threshold(model, source, **how).threshold_
        assert ours == LatNB.choose_threshold(model, frame, **how).threshold_
    model.choose_threshold(value=0.5)


def test_an_absent_group_is_summed_out() -> None:
    frame = table(200, seed=2).drop("sex")
    for name in PER_ROW:
        method = getattr(fitted(), name)
        assert np.array_equal(method(frame.lazy()), method(frame)), name


def test_groups_that_were_given_apart_are_found_by_name() -> None:
    frame = table().drop("weight")
    X, s = frame.drop("label", "sex"), frame.select("sex")
    model = LatNB(max_iter=20).fit(X, frame["label"], sensitive_features=s)
    scores = model.predict_proba(X, sensitive_features=s)
    # More rows than a batch has are summed in another order (docs/decisions/rewritten-circuits.md).
    np.testing.assert_allclose(model.predict_proba(frame.lazy()), scores, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X.lazy()), model.predict_proba(X), rtol=1e-12)


def test_columns_of_an_array_go_by_position(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (300, 4))
    model = LatNB(0, max_iter=10).fit(x, x[:, 1] + rng.integers(0, 2, 300) > 1)
    pl.DataFrame(x, schema=["a", "b", "c", "d"]).write_parquet(tmp_path / "t.parquet")
    frame = pl.read_parquet(tmp_path / "t.parquet")
    found = []
    for given in (frame, tmp_path / "t.parquet"):
        with pytest.warns(TableWarning, match="columns are taken by their position"):
            found.append(model.predict_proba(given))
    assert np.array_equal(found[0], found[1])


def test_what_was_not_seen_at_fit_is_said_once() -> None:
    odd = table(200, seed=3).with_columns(job=pl.lit("pilot"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fitted().predict(odd.lazy())
    (one,) = found
    assert one.category is TableWarning
    assert "column 'job' has 'pilot', not seen at fit" in str(one.message)
    assert "more in 5 later parts" in str(one.message)
    assert one.filename == __file__


@pytest.mark.parametrize(
    ("source", "given", "error", "words"),
    [
        ("nowhere.parquet", {}, FileFormatError, "there is no file nowhere.parquet"),
        (
            table(9).lazy(),
            {"sensitive_features": ["F"] * 9},
            TableError,
            "make them a column",
        ),
        (table(9).drop("age").lazy(), {}, TableError, "column 'age' is absent"),
        (table(9).head(0).lazy(), {}, TableError, "the table is empty"),
        (pl.LazyFrame({"a": [1]}), {}, TableError, "none of the columns that the model was"),
    ],
)
def test_bad_tables_are_a_sentence(source: Any, given: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        fitted().predict(source, **given)


def test_a_column_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(TableError, match="the label of a streamed table is one of its columns"):
        fitted().score_samples(table(9).lazy(), "nothing")


def test_a_model_that_is_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        LatNB().predict(table(9).lazy())
