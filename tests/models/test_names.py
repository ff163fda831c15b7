"""Values of labels and groups: what people call them, blanks around them, and slips of case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairpc import FairPC, LatentDecision, LatNB, audit, load
from fairpc.errors import FileFormatError, LearningError, TableError
from fairpc.evidence import test_assumptions as check_assumptions
from fairpc.metrics import discrimination
from fairpc.models._file import checksum


def table(n: int = 400) -> pl.DataFrame:
    """People with a label ja or nein, and a sex F or M."""
    rng = np.random.default_rng(0)
    age, job = rng.normal(size=n).round(1), rng.integers(0, 3, n)
    sex, ja = rng.choice(["F", "M"], n), age + rng.normal(size=n) > 0
    labels = np.where(ja, "ja", "nein")
    return pl.DataFrame({"age": age, "job": job, "sex": sex, "label": labels})


def blanked(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with blanks around labels and groups: other ones in each row."""
    blanks = pl.Series(["", " ", "  ", "\t", "\u00a0"] * (frame.height // 5))
    return frame.with_columns(sex=blanks + pl.col("sex"), label=pl.col("label") + blanks)


MODELS = (LatNB("sex", random_state=0), LatentDecision(sensitive="sex", random_state=0))


@pytest.mark.parametrize("model", MODELS, ids=["LatNB", "LatentDecision"])
@pytest.mark.parametrize("kind", ["polars", "pandas", "categorical", "enum", "array", "apart"])
def test_blanks_are_no_part_of_a_label_or_a_group(model: Any, kind: str) -> None:
    plain, odd = table(), blanked(table())

    def given(frame: pl.DataFrame) -> tuple[Any, Any]:
        X, y = frame.drop("label"), frame["label"]
        if kind == "pandas":
            return pd.DataFrame(X.to_dict(as_series=False)), y.to_numpy()
        if kind == "categorical":
            return X.with_columns(pl.col("sex").cast(pl.Categorical)), y.cast(pl.Categorical)
        if kind == "enum":
            levels = pl.Enum(X["sex"].unique().sort().to_list())
            return X.with_columns(pl.col("sex").cast(levels)), y
        return X.to_numpy().astype(object) if kind == "array" else X, y

    def fitted(frame: pl.DataFrame) -> Any:
        X, y = given(frame)
        own = model.__class__(**model.get_params())
        if kind == "apart":
            own.set_params(sensitive=None)
            return own.fit(X.drop("sex"), y, sensitive_features=frame["sex"])
        return own.set_params(sensitive=2 if kind == "array" else "sex").fit(X, y)

    def scores(of: Any, frame: pl.DataFrame) -> Any:
        X, _ = given(frame)
        if kind == "apart":
            return of.predict_proba(X.drop("sex"), sensitive_features=frame["sex"])
        return of.predict_proba(X)

    one, other = fitted(plain), fitted(odd)
    assert other.classes_.tolist() == ["ja", "nein"]
    assert other.data_fingerprint_ == one.data_fingerprint_
    for rows in (plain, odd):
        assert np.array_equal(scores(other, rows), scores(one, plain))


@pytest.mark.parametrize("kind", ["csv", "parquet", "lazy"])
def test_blanks_are_no_part_of_a_value_in_files(kind: str, tmp_path: Path) -> None:
    odd, one = blanked(table()), LatNB("sex", random_state=0)
    one.fit(table().drop("label"), table()["label"])
    if kind == "lazy":
        given: Any = odd.lazy()
    else:
        given = str(tmp_path / f"t.{kind}")
        (odd.write_csv if kind == "csv" else odd.write_parquet)(given)
    other = LatNB("sex", random_state=0).fit(given, "label")
    assert other.classes_.tolist() == ["ja", "nein"]
    assert tuple(other.groups_) == tuple(one.groups_)
    assert other.data_fingerprint_ == one.data_fingerprint_


def test_a_positive_class_may_be_given_with_blanks() -> None:
    X, y = table().drop("label"), blanked(table())["label"]
    assert LatNB("sex", positive="ja ").fit(X, y).positive_class_ == "ja"


def slipped(column: str) -> pl.DataFrame:
    """The table, in which every ninth row has its label or group in the other case."""
    text = pl.col(column)
    other = text.str.to_uppercase() if column == "label" else text.str.to_lowercase()
    every = pl.int_range(pl.len()) % 9 > 0
    return table().with_columns(pl.when(every).then(text).otherwise(other).alias(column))


SLIPS = {"label": ("JA", "ja"), "sex": ("F", "f")}


@pytest.mark.parametrize("column", SLIPS)
@pytest.mark.parametrize("model", MODELS, ids=["LatNB", "LatentDecision"])
def test_values_that_differ_by_case_alone_are_refused(model: Any, column: str) -> None:
    rows = slipped(column)
    with pytest.raises(TableError) as refused:
        model.__class__(**model.get_params()).fit(rows.drop("label"), rows["label"])
    assert all(repr(word) in str(refused.value) for word in (column, *SLIPS[column]))


def test_a_few_slips_are_refused_too() -> None:
    """Fewer than five people are not a group, and would have been of unknown group."""
    rows = table()
    sex = ["f", "m", *rows["sex"].to_list()[2:]]
    with pytest.raises(TableError, match="differ by case alone"):
        LatNB().fit(rows.drop("label", "sex"), rows["label"], sensitive_features=sex)


@pytest.mark.parametrize("column", SLIPS)
def test_names_say_that_values_are_two(column: str) -> None:
    rows = slipped(column)
    called = {value: f"not {value}" for value in rows[column].to_list()[::9]}
    model = LatNB("sex", names={column: called}).fit(rows.drop("label"), rows["label"])
    assert len(model.classes_ if column == "label" else model.groups_) == 4


@pytest.mark.parametrize("column", SLIPS)
def test_names_that_differ_by_case_alone_say_nothing(column: str) -> None:
    first, second = SLIPS[column]
    rows, names = slipped(column), {column: {first: "Some", second: "some"}}
    with pytest.raises(TableError, match="differ by case alone"):
        LatNB("sex", names=names).fit(rows.drop("label"), rows["label"])


def test_evidence_reads_labels_and_groups_alike() -> None:
    rows, odd = table(), blanked(table())
    X = rows["age"].to_numpy()[:, None]
    found = [
        check_assumptions(X, some["label"].to_numpy(), some["sex"].to_numpy(), n_seeds=1)
        for some in (rows, odd)
    ]
    assert (found[0].lower, found[0].upper) == (found[1].lower, found[1].upper)
    for column in SLIPS:
        bad = slipped(column)
        with pytest.raises(ValueError, match="differ by case alone"):
            check_assumptions(X, bad["label"].to_numpy(), bad["sex"].to_numpy(), n_seeds=1)


def test_groups_of_a_metric_have_no_blanks() -> None:
    scores = np.array([0.2, 0.4, 0.6, 0.8])
    assert discrimination(scores, ["f", "f ", "m", " m"]) == pytest.approx(0.4)


def named(**names: Any) -> LatNB:
    rows = table()
    return LatNB("sex", names=names or None, random_state=0).fit(rows.drop("label"), rows["label"])


def test_names_are_kept_in_the_file_and_used_by_audits(tmp_path: Path) -> None:
    rows, path = table(), tmp_path / "m"
    named(label={"ja": "granted"}, sex={"F": "women"}).save(path)
    model = load(path)
    assert model.names_ == {"label": {"ja": "granted"}, "sex": {"F": "women"}}
    for names, groups in ((None, ("women", "M")), ({"sex": {"F": "girls"}}, ("girls", "M"))):
        found = audit(model, rows.drop("label"), rows["label"], names=names, n_seeds=1)
        assert found.mechanism is not None
        assert found.mechanism.groups == groups
        assert found.mechanism.classes == ("granted", "nein")
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def changed(path: Path, **fields: Any) -> None:
    content = {**json.loads(path.read_text()), **fields}
    content = {k: v for k, v in content.items() if k != "checksum" and (k, v) != ("names", None)}
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))


@pytest.mark.parametrize(
    "names",
    [
        *({"job": {"1": "cook"}}, {"sex": {"X": "others"}}, {"sex": {"F": "M"}}),
        *({"sex": {"F": ""}}, {"sex": {"F ": "women"}}, {"sex": ["F"]}, {"sex": {"F": 1}}),
    ],
)
def test_names_of_a_file_are_checked(names: Any, tmp_path: Path) -> None:
    named().save(tmp_path / "m")
    changed(tmp_path / "m", names=names)
    with pytest.raises(FileFormatError):
        load(tmp_path / "m")


def test_a_file_without_the_field_is_refused(tmp_path: Path) -> None:
    named().save(tmp_path / "m")
    changed(tmp_path / "m", names=None)
    with pytest.raises(FileFormatError):
        load(tmp_path / "m")


def test_a_class_with_blanks_is_none_that_a_file_may_have(tmp_path: Path) -> None:
    named().save(tmp_path / "m")
    text = (tmp_path / "m").read_text()
    for old in ("ja", "F"):
        (tmp_path / "n").write_text(text.replace(f'"{old}"', f'"{old} "'))
        changed(tmp_path / "n")
        with pytest.raises(FileFormatError, match="blank"):
            load(tmp_path / "n")


@pytest.mark.parametrize("names", ["women", {"sex": 3}, {"sex": {1: "a"}}, {1: "a"}])
def test_names_must_be_texts_by_column(names: Any) -> None:
    with pytest.raises(LearningError, match="names is"):
        FairPC("sex", names=names).fit(table().drop("label"), table()["label"])
