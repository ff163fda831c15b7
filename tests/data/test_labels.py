"""Labels and groups: classes in scikit-learn's order, groups crossed, small ones reported."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from data import frames
from fairpc.data import Groups, Labels, fit_groups, fit_labels
from fairpc.errors import TableError, TableWarning


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([1, 0, 1], (0, 1)),
        ([1.0, 0.0, np.nan], (0, 1)),
        (["no", "yes", None], ("no", "yes")),
        ([True, False, True], (False, True)),
        (np.array(["b", "a", "C"]), ("C", "a", "b")),
        (np.array([[2], [10], [-1]]), (-1, 2, 10)),
        (pl.Series("d", ["1", "10", "9"]), ("1", "10", "9")),
        ([0.5, 1.5, 0.5], (0.5, 1.5)),
    ],
)
def test_classes(y: Any, classes: tuple[Any, ...]) -> None:
    labels = fit_labels(y)
    assert labels.classes == classes
    assert labels.positive_class == classes[-1]
    codes = labels.transform(y)
    back = labels.inverse(codes).tolist()
    flat = y.to_list() if isinstance(y, pl.Series) else np.asarray(y, object).ravel().tolist()
    for value, code, again in zip(flat, codes, back, strict=True):
        missing = value is None or value != value
        assert again == (None if missing else value)
        assert (code < 0) == missing
    assert Labels.from_dict(json.loads(json.dumps(labels.to_dict()))) == labels


@given(st.lists(st.sampled_from([0, 1, 5, -7]) | st.none(), min_size=2))
def test_classes_are_those_of_numpy(y: list[int | None]) -> None:
    known = np.unique([v for v in y if v is not None])
    if len(known) < 2:
        return
    labels = fit_labels(np.array(y, object))
    assert labels.classes_array().tolist() == known.tolist()
    assert labels.transform(y).tolist() == [-1 if v is None else known.tolist().index(v) for v in y]


def test_positive() -> None:
    assert fit_labels(["good", "bad"], positive="bad").positive == 0
    assert fit_labels([1, 2, 3], positive=2).positive_class == 2
    with pytest.raises(
        TableError, match=r"positive is 'x': it must be one of .*'y', 'bad', 'good'"
    ):
        fit_labels(["good", "bad"], positive="x")


def test_names_and_unseen_classes() -> None:
    labels = fit_labels(pl.Series("hired", ["no", "yes"]))
    assert labels.name == "hired"
    with pytest.warns(TableWarning, match="column 'hired' has 'maybe', not seen at fit"):
        assert labels.transform(["maybe", "no"]).tolist() == [-1, 0]


def test_labels_of_weight_zero_do_not_count() -> None:
    assert fit_labels([0, 1, 2], sample_weight=[1, 1, 0]).classes == (0, 1)


BAD_LABELS: list[tuple[Any, str]] = [
    (np.linspace(0, 1, 30), "has 30 different numbers or dates, a label of continuous numbers"),
    (np.linspace(0, 1, 30), "Unknown label type: continuous"),
    (np.arange(500), "a label of continuous numbers"),
    ([1, 1, 1], "label 'y' has 1 class .1.: at least two classes are needed in the training rows"),
    ([True, None], "label 'y' has 1 class .True.: at least two"),
    ([None, None], "label 'y' is missing in every row: at least two classes are needed"),
    ([np.nan, np.nan], "label 'y' is missing in every row"),
    ([1.0, np.inf], "column 'y' has inf in row 1"),
    ([f"c{i}" for i in range(101)], "label 'y' has 101 classes: at most 100"),
    (np.array(["a", 1], object), "label 'y' holds values of several types"),
    (np.zeros((3, 2)), "the label has 2 columns: give one"),
    ([], "the table is empty"),
]


@pytest.mark.parametrize(("y", "sentence"), BAD_LABELS)
def test_bad_labels_get_a_sentence(y: Any, sentence: str) -> None:
    with pytest.raises(TableError, match=sentence):
        fit_labels(y)


def test_one_column_of_groups() -> None:
    groups = fit_groups(pl.Series("sex", ["F", "M", None, "F"]))
    assert groups.names == ("F", "M")
    assert groups.column_names == ("sex",)
    assert groups.rows == (2, 1)
    assert groups.transform(["M", None, "F"]).tolist() == [1, -1, 0]
    assert fit_groups(np.array([0, 1, 1])).values == (0, 1)


@pytest.mark.parametrize("library", sorted(frames.LIBRARIES))
def test_crossed_groups(library: str) -> None:
    columns: frames.Columns = {"sex": ["F", "M", "F", None] * 20, "race": ["B", "A", "A", "A"] * 20}
    frame = frames.LIBRARIES[library](columns)
    groups = fit_groups(frame)
    if library != "numpy":
        assert groups.names == ("sex=F, race=A", "sex=F, race=B", "sex=M, race=A")
    assert groups.rows == (20, 20, 20)
    assert groups.transform(frame)[:4].tolist() == [1, 2, 0, -1]
    assert Groups.from_dict(json.loads(json.dumps(groups.to_dict()))) == groups


def test_unseen_groups_are_missing_and_named() -> None:
    groups = fit_groups({"sex": ["F", "M", "F"], "race": ["B", "A", "A"]})
    with pytest.warns(TableWarning, match="the group 'sex=M, race=B' was not seen at fit: 1 row"):
        assert groups.transform({"sex": ["M", "M"], "race": ["B", "A"]}).tolist() == [-1, 2]
    with pytest.warns(TableWarning, match="column 'race' has 'C', not seen at fit"):
        assert groups.transform({"sex": ["F"], "race": ["C"]}).tolist() == [-1]
    with pytest.raises(TableError, match="sensitive column 'race' is absent"):
        groups.transform(pl.DataFrame({"sex": ["F"]}))
    absent = groups.transform(pl.DataFrame({"sex": ["F"]}), allow_absent=True)
    assert absent.tolist() == [-1]


def test_rare_groups_are_never_merged() -> None:
    groups = fit_groups(["a"] * 10_000 + ["b"] * 2 + ["c"])
    assert groups.names == ("a", "b", "c")
    assert groups.rows == (10_000, 2, 1)


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("afam", ["yes", "no"], ("afam=no", "afam=yes")),  # says nothing by itself
        ("white", ["1", "0"], ("white=0", "white=1")),  # a number written as text
        ("white", [1, 0], ("white=0", "white=1")),
        ("race", ["bad", "black"], ("race=bad", "race=black")),  # a class of the label too
        ("race", ["Bad", "black"], ("race=Bad", "race=black")),
        ("sex", ["F", "M"], ("F", "M")),
        ("sensitive", [1, 0], ("0", "1")),  # came without a name
    ],
)
def test_groups_are_told_by_column_where_a_value_does_not_speak(
    column: str, values: list[Any], told: tuple[str, ...]
) -> None:
    assert fit_groups({column: values * 20}).readable_names(("good", "bad")) == told


def test_numbers_cut_into_groups_are_told_by_column() -> None:
    told = fit_groups({"age": list(range(100))}).readable_names(("good", "bad"))
    assert all(name.startswith("age=") for name in told)


def test_numbers_as_groups() -> None:
    ages = np.random.default_rng(0).normal(40, 10, 500)
    groups = fit_groups(ages, name="age")
    assert len(groups.names) == 4
    assert min(groups.rows) > 100
    assert fit_groups(ages[:20]).rows == (10, 10)
    assert fit_groups(np.arange(100) % 5).values == (0, 1, 2, 3, 4)


@given(frames.tables())
def test_any_column_can_be_a_group(columns: frames.Columns) -> None:
    groups = fit_groups(pl.DataFrame({"a": columns["first"], "b": columns["second"]}))
    codes = groups.transform({"a": columns["first"], "b": columns["second"]})
    assert codes.max() == len(groups.names) - 1
    assert ((codes < 0) == [v is None for v in columns["second"]]).all()
    assert np.bincount(codes[codes >= 0]).tolist() == list(groups.rows)


BAD_GROUPS: list[tuple[Any, str]] = [
    (
        {"sex": ["F", "F"]},
        r"column 'sex' has 1 value \('F'\): a sensitive attribute needs at least two groups in the "
        "training rows",
    ),
    ({"sex": [None, None]}, "column 'sex' is missing in every row: a sensitive attribute needs"),
    ({"sex": [1.5, 1.5]}, r"column 'sex' has 1 value \(1.5\)"),
    ({"sex": [True, True]}, r"column 'sex' has 1 value \(True\)"),
    ({"n": [f"p{i}" for i in range(100)]}, "column 'n' has more than 64 values: a sensitive"),
    ({"a": ["x", "y", None], "b": [None, None, "u"]}, "column 'b' has 1 value"),
    ({"a": ["x", "y", None], "b": [None, "v", "u"]}, "'a', 'b' cross to 1 groups in complete"),
    ({"a": ["x", "y"], "b": ["u"]}, "column 'b' has 1 rows and 1 columns, the first has 2 rows"),
    ({"a": [1.0, np.inf]}, "column 'a' has inf in row 1"),
]


@pytest.mark.parametrize(("sensitive", "sentence"), BAD_GROUPS)
def test_bad_groups_get_a_sentence(sensitive: Any, sentence: str) -> None:
    with pytest.raises(TableError, match=sentence):
        fit_groups(sensitive)


def test_classes_that_floats_cannot_hold_are_refused() -> None:
    keys = [2**53 + 3 * (i % 2) for i in range(20)]
    labels, groups = fit_labels(keys), fit_groups(keys)
    assert labels.classes == (2**53, 2**53 + 3)
    for make in (fit_labels, fit_groups, labels.transform, groups.transform):
        with pytest.raises(TableError, match=r"as a float, .* 2\^53"):
            make(pl.Series(keys).cast(pl.Float64))
