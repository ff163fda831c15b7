"""Files of encodings: what was not saved by us is refused with a sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from data import frames
from fairpc.core import fingerprint
from fairpc.data import Column, Encoding, Groups, Labels, fit_groups, fit_labels
from fairpc.data._binning import bin_codes, bin_labels
from fairpc.errors import FileFormatError, TableError


def saved(**options: Any) -> dict[str, Any]:
    frame = pl.DataFrame({"x": ["a", "b"] * 20, "n": np.linspace(0, 1, 40), "id": range(40)})
    return frames.fit_encoding(frame, **options).to_dict()


def set_in(path: list[Any], value: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


HOSTILE: list[tuple[Callable[[Any], None], str]] = [
    (lambda d: d.pop("columns"), "has no 'columns'"),
    (set_in(["extra"], 1), "the unknown field 'extra'"),
    (set_in(["columns"], {}), "columns is {}, not a list"),
    (set_in(["columns", 0], 3), "not an object"),
    (set_in(["columns", 0, "kind"], "spell"), "kind is"),
    (set_in(["columns", 0, "kind"], 3), "kind is"),
    (set_in(["columns", 0, "levels"], ["a", "a"]), "has a level twice"),
    (set_in(["columns", 0, "levels"], ["a", 1]), "levels of several types"),
    (set_in(["columns", 0, "levels"], []), "has no levels"),
    (set_in(["columns", 0, "levels"], [[1]]), "levels is"),
    (set_in(["columns", 0, "levels"], [float("nan"), 1.0]), "a level that is not finite"),
    (set_in(["columns", 0, "levels"], [2**70, 1]), "levels is"),
    (set_in(["columns", 0, "levels"], [True, False]), "only a boolean has the levels"),
    (set_in(["columns", 0, "levels"], [f"{i}" for i in range(40_000)]), "at most 32766"),
    (set_in(["columns", 0, "edges"], [1.0]), "is a category: it has levels and no edges"),
    (set_in(["columns", 1, "edges"], [2, 1]), "edges must ascend"),
    (set_in(["columns", 1, "edges"], [float("inf")]), "an edge that is not finite"),
    (set_in(["columns", 1, "edges"], [10**400]), "edges is"),
    (set_in(["columns", 1, "ends"], [7.0, 3.0]), "its edges lie between them"),
    (set_in(["columns", 1, "ends"], [-1e9]), "its edges lie between them"),
    (set_in(["columns", 1, "ends"], [-1e9, float("inf")]), "its edges lie between them"),
    (set_in(["columns", 0, "ends"], [0.0, 1.0]), "is a category: it has levels and no edges"),
    (set_in(["columns", 1, "edges"], [True]), "edges is true, not a number"),
    (set_in(["columns", 1, "open"], 1), "open is 1, not true or false"),
    (set_in(["columns", 1, "missing_share"], 1.5), "missing share lies between 0 and 1"),
    (set_in(["columns", 1, "name"], "x"), "the columns of the encoding are not those"),
    (set_in(["names_in"], ["x", "n"]), "the columns of the encoding are not those"),
    (set_in(["names_in"], ["x", "n", "n"]), "the columns of the encoding are not those"),
    (set_in(["dropped"], [["id"]]), "dropped: name is"),
]


@pytest.mark.parametrize(("change", "sentence"), HOSTILE)
def test_a_hostile_file_gets_a_sentence(change: Callable[[Any], None], sentence: str) -> None:
    data = saved()
    change(data)
    with pytest.raises(FileFormatError, match=sentence):
        Encoding.from_dict(data)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.data())
def test_junk_in_any_place_is_refused_or_is_valid(data: st.DataObject) -> None:
    record = saved()
    holder: Any = record
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        deeper = isinstance(holder[key], dict | list) and len(holder[key]) > 0
        if not deeper or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = data.draw(junk)
    try:
        encoding = Encoding.from_dict(record)
    except FileFormatError:
        return
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again.to_dict() == encoding.to_dict()


def test_hostile_labels_and_groups() -> None:
    labels = fit_labels([0, 1, 1, 0]).to_dict()
    for change, sentence in (
        (set_in(["positive"], 2), "positive class of 'y' is none of its classes"),
        (set_in(["positive"], True), "positive is true, not a whole number"),
        (set_in(["column", "levels"], [1]), "needs at least two classes"),
        (set_in(["column", "merged"], [7]), "needs at least two classes, none merged"),
    ):
        data = copy.deepcopy(labels)
        change(data)
        with pytest.raises(FileFormatError, match=sentence):
            Labels.from_dict(data)
    groups = fit_groups({"sex": ["F", "M"], "race": ["A", "B"]}).to_dict()
    for change, sentence in (
        (set_in(["cells"], [[0, 0], [0, 2]]), r"\(0, 2\) is not a cell of \[2, 2\] values"),
        (set_in(["cells"], [[1, 1], [0, 0]]), "cells must differ and ascend"),
        (set_in(["cells"], [[0], [1]]), r"\(0,\) is not a cell"),
        (set_in(["cells"], [["a"], [1]]), "not a whole number"),
        (set_in(["rows"], [1]), "at least one column and two groups"),
        (set_in(["rows"], [-1, 1]), "a number of rows is negative"),
        (set_in(["columns", 1, "name"], "sex"), "a column appears twice"),
    ):
        data = copy.deepcopy(groups)
        change(data)
        with pytest.raises(FileFormatError, match=sentence):
            Groups.from_dict(data)


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6, unique=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=10),
)
def test_bins_are_half_open_and_labels_differ(edges: list[float], numbers: list[float]) -> None:
    order = tuple(sorted(set(np.asarray(edges) + 0.0)))
    labels = bin_labels(order, integral=False, date=False)
    assert len(set(labels)) == len(order) + 1
    for number, code in zip(numbers, bin_codes(order, np.array(numbers, float)), strict=True):
        assert code == 0 or order[code - 1] <= number
        assert code == len(order) or number < order[code]


def test_a_column_checks_itself() -> None:
    with pytest.raises(TableError, match="is binned: it has edges and no levels"):
        Column("x", "number", levels=("a",))
    with pytest.raises(TableError, match="an edge beyond the calendar"):
        Column("x", "date", edges=(1e19,))
    assert Column("x", "number").labels == ("any",)


def test_fingerprint() -> None:
    codes = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert fingerprint(codes) == fingerprint(np.asfortranarray(codes))
    assert fingerprint(codes) == fingerprint(codes.astype(">i2"))
    others: list[Any] = [codes.T, codes.astype(np.int32), codes + 1, codes.reshape(3, 2)]
    assert len({fingerprint(a) for a in [codes, *others]}) == 5
    assert fingerprint(codes, None) != fingerprint(codes)
    assert fingerprint(codes).startswith("sha256:")
    with pytest.raises(TableError, match="a fingerprint of object values"):
        fingerprint(np.array([None]))
