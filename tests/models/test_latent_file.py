"""Files of a LatentDecision: the same bits after loading, and nothing else is believed."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from fairpc import Knowledge, LatentDecision, LatNB, load
from fairpc.errors import FileFormatError, LearningError
from fairpc.models import TableClassifier
from fairpc.models._file import checksum
from models.test_sklearn import people

ANSWERS = ("predict_proba", "predict", "predict_observed_proba", "predict_bounds")


def quick(**settings: Any) -> LatentDecision:
    """A model whose classifier is soon learned."""
    return LatentDecision(
        TableClassifier("logistic", random_state=3), **{"cv": 2, "random_state": 0} | settings
    )


def test_apart(tmp_path: Path) -> None:
    table, labels, group = people(1000)
    model = quick(positive="bad", knowledge=Knowledge(fair_rate={"good": (0.3, 0.7)}))
    _check(model, table, labels, {"sensitive_features": group}, tmp_path)


@pytest.mark.parametrize("kind", [None, "forest"])
def test_other_classifiers(kind: Any, tmp_path: Path) -> None:
    table, labels, group = people(400)
    table.loc[::7, ["age", "job"]] = None
    estimator = None if kind is None else TableClassifier(kind, random_state=1)
    model = LatentDecision(estimator, cv=2, random_state=0, missing_values=("?", -1.0))
    _check(model, table, labels, {"sensitive_features": group}, tmp_path)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_inside_a_frame(library: str, tmp_path: Path) -> None:
    table, labels, group = people()
    table = table.assign(sex=group, one=1.0, old=np.arange(len(table)) % 2 == 0)
    frames = {"pandas": table, "polars": pl.from_pandas(table)}
    frame = frames[library] if library in frames else frames["polars"].to_arrow()
    model = quick(sensitive=["sex", "old"])
    _check(model, frame, labels, {}, tmp_path)


def test_an_array(tmp_path: Path) -> None:
    table, labels, group = people()
    array = np.column_stack([table[["age", "years"]], group == "F"])
    _check(quick(sensitive=2), array, labels, {}, tmp_path)
    _check(quick(), array[:, :2], labels, {"sensitive_features": group}, tmp_path)


def test_dates_as_groups(tmp_path: Path) -> None:
    table, labels, group = people()
    born = [date(1950, 1, 1) if g == "F" else date(1990, 5, 5) for g in group]
    frame = pl.from_pandas(table).with_columns(pl.Series("born", born))
    _check(quick(sensitive="born"), frame, labels, {}, tmp_path)


def _check(model: LatentDecision, X: Any, y: Any, given: dict[str, Any], folder: Path) -> None:
    """Fit, save, load, and compare all that is said of rows."""
    model.fit(X, y, **given)
    model.choose_threshold(X, equalise=True, selection_rate=0.3, **given)
    path = folder / "m.fairpc"
    model.save(path)
    again = load(path)
    assert isinstance(again, LatentDecision)
    for name in ANSWERS:
        theirs, ours = (getattr(m, name)(X, **given) for m in (again, model))
        np.testing.assert_array_equal(theirs, ours)
    theirs, ours = (m.posterior(X, y, **given) for m in (again, model))
    np.testing.assert_array_equal(theirs, ours)
    theirs, ours = (m.predict_bounds(X, level=0.95, **given) for m in (again, model))
    np.testing.assert_array_equal(theirs, ours)
    assert again.explain_bias().sentences == model.explain_bias().sentences
    for name in ("warnings_", "fair_rate_set_", "n_features_in_", "data_fingerprint_"):
        assert getattr(again, name) == getattr(model, name)
    assert again.knowledge_ == model.knowledge_
    again.save(folder / "again")
    assert (folder / "again").read_bytes() == path.read_bytes()


def test_streamed_tables_have_every_column_of_the_fit(tmp_path: Path) -> None:
    table, labels, group = people(400)
    # One value says nothing to a circuit, and a classifier may still ask for the column.
    frame = pl.from_pandas(table).with_columns(one=pl.lit(1.0), sex=pl.Series(group))
    model = quick(sensitive="sex").fit(frame, labels)
    model.save(tmp_path / "m")
    expected = model.predict_proba(frame)
    for name in ("t.csv", "t.parquet"):
        write = frame.write_csv if name == "t.csv" else frame.write_parquet
        write(tmp_path / name)
        for one in (model, load(tmp_path / "m")):
            np.testing.assert_array_equal(one.predict_proba(tmp_path / name), expected)


def test_classifiers_of_others_are_refused(tmp_path: Path) -> None:
    table, labels, group = people()
    numbers = table[["age", "years"]].assign(sex=(group == "F").astype(float))
    other = LogisticRegression()
    model = LatentDecision(other, sensitive="sex", cv=2).fit(numbers, labels)
    with pytest.raises(LearningError, match="LogisticRegression") as caught:
        model.save(tmp_path / "m")
    said = str(caught.value)
    assert said.startswith("the estimator is a LogisticRegression, which a file of data alone")
    assert "skops.io.dump(model, path)" in said
    assert "model.score_map_.to_dict()" in said
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not fitted"):
        LatentDecision().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@functools.cache
def _saved(*, twice: bool = False) -> str:
    """The file of a model; of one that learned Df behind bent labels, too, if it is to."""
    table, labels, group = people(1000)
    model = quick(cv=2)
    if twice:
        lowered = (group == "F") & (np.random.default_rng(0).random(1000) < 0.5)
        labels, model = np.where(lowered, "bad", labels), LatentDecision(cv=2, random_state=0)
    model.fit(table, labels, sensitive_features=group)
    assert (model.second_round_ is not None) == twice
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        model.save(path)
        return path.read_text()


def _at(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets a value deep inside a file."""

    def change(content: dict[str, Any]) -> None:
        part: Any = content
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


def _twice(*keys: Any) -> Callable[[dict[str, Any]], None]:
    """Repeats the first item of a list deep inside a file."""

    def change(content: dict[str, Any]) -> None:
        part: Any = content
        for key in keys:
            part = part[key]
        part.append(part[0])

    return change


STEP = ("score_map", "calibrations", 0)
HOSTILE = {
    "a list for a map": _at("score_map", value=[]),
    "no map": _at("score_map", value=None),
    "a rate above one": _at("score_map", "decision_rate", value=1.5),
    "a rate that is text": _at("score_map", "decision_rate", value="much"),
    "a mechanism that turns labels": _at("score_map", "mechanism", 0, value=[0.9, 0.1]),
    "a mechanism of another shape": _at("score_map", "mechanism", value=[0.9, 0.1]),
    "a third group": _twice("score_map", "calibrations"),
    "shifts that are not finite": _at("score_map", "shifts", 0, value=None),
    "scores that fall": _at(*STEP, "scores", 0, value=1e9),
    "a step without a rate": _at(*STEP, "rates", 0, value=None),
    "a step of no rows": _at(*STEP, "rows", 0, value=0.0),
    "other groups": _at("score_map", "ends", "groups", 0, "group", value="<script>"),
    "an infinite number of rows": _at(
        "score_map", "ends", "groups", 0, "positive", "whole", "size", value=1e999
    ),
    "a view of another column": _at("group_view", "names", value=["age"]),
    "a view inside": _at("group_view", "inside", value=True),
    "levels that are objects": _at("group_view", "levels", 0, value=[{"exec": "1"}]),
    "a level too many": _twice("group_view", "levels"),
    "a library that is none": _at("group_view", "library", value=3),
    "no folds": _at("classifiers", value=[]),
    "an empty fold": _at("classifiers", 0, value=[]),
    "a classifier of something else": _at("classifiers", 0, "classes", value=["a", "b"]),
    "an unknown kind": _at("classifiers", 0, "kind", value="pickle"),
    "trees that are coefficients": _at("classifiers", 0, "kind", value="forest"),
    "a number that is none": _at("classifiers", 0, "learned", "intercept", value=1e999),
    "a column of nobody": _at(
        "classifiers", 0, "encoding", "columns", 0, "name", value="__class__"
    ),
    "a setting of nobody": _at("settings", "exec", value="1"),
    "a setting too few": lambda content: content["settings"].pop("min_cell"),
    "knowledge that is none": _at("settings", "knowledge", value=[1]),
    "thresholds of other groups": _at("threshold", "values", value=[0.1, 0.2, 0.3]),
    "counts of text": _at("counts", value="many"),
    "counts of another shape": _at("counts", value=[1.0]),
    "warnings that are text": _at("warnings", value="abc"),
    "a column twice": _twice("feature_names_in"),
    "a column too few": lambda content: content["feature_names_in"].pop(),
    "another version": _at("version", value=5),
    "another model": _at("model", value="FairPC"),
    "no model": _at("model", value=["LatentDecision"]),
}


SECOND = ("second_round", "classifiers")
HOSTILE_TWICE = {
    "a round that is a list": _at("second_round", value=[]),
    "no round": lambda content: content.pop("second_round"),
    "an older version": _at("version", value=9),
    "a share below zero": _at("second_round", "shares", value=[-0.5, 1.0, 0.5]),
    "shares above one": _at("second_round", "shares", value=[0.5, 0.5, 0.5]),
    "a share that is none": _at("second_round", "shares", 0, value=1e999),
    "shares of nobody": _at("second_round", "shares", value=[0.5, 0.5]),
    "no shares": lambda content: content["second_round"].pop("shares"),
    "a fold too many": _twice(*SECOND),
    "a fold too few": lambda content: content["second_round"]["classifiers"].pop(),
    "a fold that is a number": _at(*SECOND, 0, value=5),
    "a fold of three": _twice(*SECOND, 0),
    "classifiers in another order": lambda content: content["second_round"]["classifiers"][
        0
    ].reverse(),
    "a classifier of something else": _at(*SECOND, 0, 0, "classes", value=["a", "b"]),
    "a tree without end": _at(*SECOND, 0, 0, "learned", "right", 0, value=0),
    "a column of nobody": _at(*SECOND, 0, 0, "encoding", "columns", 0, "name", value="__class__"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_altered_files_are_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    _check_refused(json.loads(_saved()), change, tmp_path)


@pytest.mark.parametrize("change", HOSTILE_TWICE.values(), ids=HOSTILE_TWICE)
def test_altered_second_rounds_are_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    _check_refused(json.loads(_saved(twice=True)), change, tmp_path)


def _check_refused(content: dict[str, Any], change: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "m"
    altered = copy.deepcopy(content)
    change(altered)
    assert altered != content
    path.write_text(json.dumps(altered))
    with pytest.raises(FileFormatError):
        load(path)
    try:
        altered["checksum"] = checksum(altered)
    except ValueError:
        return  # A number that JSON has no word for has no checksum either.
    path.write_text(json.dumps(altered))
    with pytest.raises(FileFormatError):
        load(path)


def test_every_field_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "m"
    content = json.loads(_saved())
    path.write_text(json.dumps(content))
    load(path)
    for name in content:
        rest = {key: value for key, value in content.items() if key != name}
        path.write_text(
            json.dumps(rest | ({"checksum": checksum(rest)} if name != "checksum" else {}))
        )
        with pytest.raises(FileFormatError):
            load(path)
    path.write_text(_saved()[:-300])
    with pytest.raises(FileFormatError, match="altered"):
        load(path)
    path.write_text(_saved())
    with pytest.raises(FileFormatError, match="the limit is 1,000"):
        load(path, max_bytes=1000)


def test_a_circuit_is_not_read_as_a_map(tmp_path: Path) -> None:
    table, labels, group = people()
    path = tmp_path / "m"
    LatNB(max_iter=3).fit(table, labels, sensitive_features=group).save(path)
    content = json.loads(path.read_text()) | {"model": "LatentDecision"}
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))
    with pytest.raises(FileFormatError, match="unknown field"):
        load(path)
