"""What a fit says of columns and groups, and what it keeps of how numbers are written."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from fairpc import FairPC, LatentDecision, load
from fairpc.errors import (
    ClassWarning,
    ColumnWarning,
    DroppedWarning,
    GroupWarning,
    LearningError,
    TableError,
)

FAST: dict[str, Any] = {"structure": "chow-liu", "random_state": 0, "guard": False}


def rows(n: int = 240) -> tuple[pl.DataFrame, pl.Series]:
    rng = np.random.default_rng(0)
    pay = rng.integers(800, 4000, n) / 4
    label = (rng.random(n) < 0.2 + pay / 2000).astype(int)
    job, sex = rng.choice(["a", "b"], n), rng.choice(["F", "M"], n)
    return pl.DataFrame({"pay": pay, "job": job, "sex": sex}), pl.Series("hired", label)


def european(frame: pl.DataFrame) -> pl.DataFrame:
    texts = [f"{v:.2f}".replace(".", ",") for v in frame["pay"]]
    return frame.with_columns(pay=pl.Series(texts))


def test_numbers_in_text_are_learned_from_as_the_numbers_are(tmp_path: Path) -> None:
    frame, y = rows()
    plain = FairPC("sex", **FAST).fit(frame, y)
    model = FairPC("sex", decimal=",", **FAST).fit(european(frame), y)
    expected = plain.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(european(frame)), expected)
    np.testing.assert_array_equal(model.predict_proba(frame), expected)
    model.save(tmp_path / "m.fairpc")
    read = load(tmp_path / "m.fairpc")
    np.testing.assert_array_equal(read.predict_proba(european(frame)), expected)


@pytest.mark.parametrize(
    ("code", "others"), [(99999.375, "from 202 to 997.75"), (-9999, "from 202 to 997.75")]
)
def test_a_number_of_nines_far_from_others_may_be_a_missing_value(code: float, others: str) -> None:
    frame, y = rows()
    pay = frame["pay"].clone()
    pay[3] = code
    coded = frame.with_columns(pay=pay)
    text = rf"column 'pay' has the number {code}.*, and others {others} only: .* missing_values=\("
    with pytest.warns(ColumnWarning, match=text):
        FairPC("sex", **FAST).fit(coded, y)
    told = FairPC("sex", missing_values=(code,), **FAST)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnWarning)
        model = told.fit(coded, y)
    hidden = coded.with_columns(pay=pl.when(pl.col("pay") == code).then(None).otherwise("pay"))
    np.testing.assert_array_equal(model.predict_proba(coded), model.predict_proba(hidden))


def with_codes(frame: pl.DataFrame, pay: str | None, day: str | None) -> pl.DataFrame:
    """The rows as text, with a day; every fourth has these cells in place of its own."""
    n = frame.height
    days = [day if i % 4 == 0 else f"2024-03-{1 + i % 28:02}" for i in range(n)]
    pays = [pay if i % 4 == 0 else str(v) for i, v in enumerate(frame["pay"])]
    return frame.with_columns(pay=pl.Series(pays, dtype=pl.String), day=pl.Series(days))


@pytest.mark.parametrize("kind", [FairPC, LatentDecision])
@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")
def test_sentinels_are_compared_as_the_values_are(kind: Any, tmp_path: Path) -> None:
    frame, y = rows()
    given = FAST if kind is FairPC else {"random_state": 0}
    model = kind(sensitive="sex", missing_values=(999, "1900-01-01"), **given)
    empty = with_codes(frame, None, None)
    expected = model.fit(empty, y).predict_proba(empty)
    for pay, day in (("999.0", "1900-01-01"), ("999", None)):
        coded = with_codes(frame, pay, day)
        np.testing.assert_array_equal(model.predict_proba(coded), expected)
        again = kind(**model.get_params()).fit(coded, y)
        np.testing.assert_array_equal(again.predict_proba(empty), expected)
        coded.with_columns(y).write_csv(tmp_path / "t.csv")
        if kind is FairPC:
            streamed = kind(**model.get_params()).fit(tmp_path / "t.csv", "hired")
            np.testing.assert_array_equal(streamed.predict_proba(empty), expected)
    typed = with_codes(frame, "999.0", "1900-01-01").with_columns(
        pl.col("pay").cast(pl.Float64), pl.col("day").str.to_date()
    )
    np.testing.assert_array_equal(model.predict_proba(typed), expected)


def test_days_may_come_first_in_dates() -> None:
    frame, y = rows()
    iso = with_codes(frame, None, None)
    day_first = iso.with_columns(pl.col("day").str.to_date().dt.strftime("%d.%m.%Y"))
    model = FairPC("sex", **FAST).fit(day_first, y)
    assert model.coding_.features.column("day").kind == "date"
    expected = FairPC("sex", **FAST).fit(iso, y).predict_proba(iso)
    for table in (iso, day_first):
        np.testing.assert_array_equal(model.predict_proba(table), expected)
    # Whether 03/04/2024 is in March or in April no reader can tell.
    slashes = day_first.with_columns(pl.col("day").str.replace_all(".", "/", literal=True))
    with pytest.raises(TableError, match="it held dates at fit"):
        model.predict_proba(slashes)


def test_a_number_that_means_missing_does_so_as_text() -> None:
    frame, y = rows()
    for text, levels in (("999.0", ("a", "b")), ("9.99e2", ("9.99e2", "a", "b"))):
        job = pl.when(pl.int_range(frame.height) % 3 == 0).then(pl.lit(text)).otherwise("job")
        model = FairPC("sex", missing_values=(999,), **FAST).fit(frame.with_columns(job=job), y)
        assert model.coding_.features.column("job").levels == levels


@pytest.mark.parametrize("code", [9999.0, 99, 12345.0])
def test_numbers_that_may_well_be_numbers_are_not_named(code: float) -> None:
    frame, y = rows()
    pay = frame["pay"].clone()
    pay[3] = code
    if code == 9999.0:  # not far from this one
        pay[4] = 1500.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnWarning)
        FairPC("sex", **FAST).fit(frame.with_columns(pay=pay), y)


def test_files_are_read_as_frames_are(tmp_path: Path) -> None:
    frame, y = rows()
    table = european(frame).with_columns(y.cast(pl.String))
    table.write_csv(tmp_path / "t.csv", separator=";")
    model = FairPC("sex", decimal=",", **FAST)
    streamed = clone(model).fit(tmp_path / "t.csv", "hired")
    whole = model.fit(table.drop("hired"), table["hired"])
    assert streamed.coding_.features.columns == whole.coding_.features.columns


@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")
def test_the_default_classifier_is_given_numbers(tmp_path: Path) -> None:
    frame, y = rows()
    plain = LatentDecision(sensitive="sex", random_state=0).fit(frame, y)
    model = LatentDecision(sensitive="sex", random_state=0, decimal=",").fit(european(frame), y)
    expected = plain.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(european(frame)), expected)
    model.save(tmp_path / "m.fairpc")
    read = load(tmp_path / "m.fairpc")
    np.testing.assert_array_equal(read.predict_proba(european(frame)), expected)


def test_the_decimal_mark_is_a_setting() -> None:
    frame, y = rows()
    model = FairPC("sex", decimal=",", **FAST).fit(european(frame), y)
    column = model.coding_.features.column("pay")
    assert (column.kind, column.decimal) == ("number", ",")
    wrong: Any = ";"
    with pytest.raises(LearningError, match="decimal is ';'"):
        FairPC("sex", decimal=wrong, **FAST).fit(frame, y)


def test_a_column_of_another_type_is_refused() -> None:
    frame, y = rows()
    model = FairPC("sex", **FAST).fit(frame, y)
    with pytest.raises(TableError, match="'pay' has 'much' in row 0: it held numbers at fit"):
        model.predict_proba(frame.with_columns(pay=pl.lit("much")))
    with pytest.raises(TableError, match="column 'job' holds numbers such as 7 and held text"):
        model.predict_proba(frame.with_columns(job=pl.lit(7)))


def test_integers_of_128_bits_are_numbers() -> None:
    frame, y = rows()
    cents = frame.with_columns((pl.col("pay") * 100).cast(pl.Int64))
    wide = cents.with_columns(pl.col("pay").cast(pl.Int128))
    expected = FairPC("sex", **FAST).fit(cents, y).predict_proba(cents)
    model = FairPC("sex", **FAST).fit(wide, y.cast(pl.Int128))
    np.testing.assert_array_equal(model.predict_proba(wide), expected)
    assert model.classes_.tolist() == [0, 1]
    far = wide.with_columns(pl.col("pay") * 10**30)
    FairPC("sex", **FAST).fit(far, y).predict_proba(far)


def test_columns_that_are_not_used_are_said() -> None:
    frame, y = rows()
    more = frame.with_columns(one=pl.lit(1), number=pl.Series(range(240)))
    with pytest.warns(DroppedWarning, match=r"2 columns are not used: 'one' .*; 'number' \("):
        FairPC("sex", **FAST).fit(more, y)


@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")
def test_identifiers_are_not_given_to_our_classifiers() -> None:
    """In every fold, by the rule of FairPC; another classifier is given the table as it is."""
    frame, y = rows()
    number, code = pl.Series(range(240)), pl.Series([f"p{i}" for i in range(240)])
    more = frame.with_columns(one=pl.lit(1), number=number, code=code)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LatentDecision(sensitive="sex", cv=2, random_state=0).fit(more, y)
    (dropped,) = [str(w.message) for w in caught if w.category is DroppedWarning]
    assert dropped.startswith("2 columns are not used: 'number' (it has a different value")
    second = model.second_round_
    every = [model.estimators_, *(second.estimators if second else ())]
    for classifier in (classifier for fold in every for classifier in fold):
        assert {d.name for d in classifier.encoding_.dropped} == {"number", "code"}
    with pytest.warns(DroppedWarning, match="2 columns are not used: 'one' .*; 'code'"):
        FairPC("sex", numeric=["number"], **FAST).fit(more, y)
    kept = LatentDecision(sensitive="sex", cv=2, numeric=["number"], random_state=0)
    with pytest.warns(DroppedWarning, match="1 column is not used: 'code'"):
        kept.fit(more, y)
    assert "number" in kept.estimators_[0].encoding_.names
    numbers = more.select("sex", "number", "pay").with_columns(sex=pl.col("sex") == "F")
    with pytest.warns(ColumnWarning, match="column 'number' .* and the classifier is given it"):
        LatentDecision(LogisticRegression(), sensitive="sex", cv=2, random_state=0).fit(numbers, y)


def test_small_groups_and_many_classes_are_said_before_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame, y = rows()
    groups = ["x", "x", *np.resize(["a", "b"], 238).tolist()]

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("fairpc.models._circuit_fit.CircuitFit.run", never)
    told = r"1 group has fewer than 5 labelled rows \(sex=x\): 2 rows count as of unknown group"
    with pytest.warns(GroupWarning, match=told), pytest.raises(AssertionError):
        FairPC("sex", **FAST).fit(frame.with_columns(sex=pl.Series(groups)), y)
    told = "has 30 classes: in each of 2 groups a mechanism of 30 × 30 numbers"
    with pytest.warns(ClassWarning, match=told), pytest.raises(AssertionError):
        FairPC("sex", **FAST).fit(frame, [f"c{i % 30}" for i in range(240)])
