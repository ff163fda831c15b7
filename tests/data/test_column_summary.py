"""Counting: the ways taken for few cells, few levels or one column equal the general one."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from fairpc.data import (
    _values as texts_as_values,
    distinct_numbers,
    fit_groups,
    number_texts,
    read_values,
)
from fairpc.data._column_summary import MOST, RUNS, ColumnSummary, QuantileSketch, RowClasses
from fairpc.data._summary import numbered, values_at
from fairpc.data._values import is_integral, look_up_text
from fairpc.errors import TableWarning


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_few_cells_are_counted_as_many_are(n: int, n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n + 1, 50).astype(np.int8)
    classes = rng.integers(0, n_classes, 50)
    counted = RowClasses(classes, n_classes).sums(ids, n)
    expected = np.zeros((n + 1, n_classes))
    np.add.at(expected, (ids, classes), 1.0)
    assert counted.tolist() == expected[:n].tolist()
    assert (
        RowClasses(classes, n_classes, np.ones(50)).sums(ids, n).tolist() == expected[:n].tolist()
    )


@given(st.lists(st.sampled_from(["a", "b", "", "long text of a level", None, "?"]), max_size=40))
def test_texts_found_by_hash_are_those_found_by_name(texts: list[str | None]) -> None:
    series = pl.Series(texts, dtype=pl.String)
    levels = {"b": 1, "long text of a level": 0, "a": 1, "": 7}
    expected = [-1 if t is None else levels.get(t, -1) for t in texts]
    assert look_up_text(levels, series).tolist() == expected
    names = list(levels)
    numbers = [names.index(t) if t in levels else len(names) for t in texts]
    assert number_texts(series, names).tolist() == numbers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_as_values, "_FEW", 0)
        assert look_up_text(levels, series).tolist() == expected
        assert number_texts(series, names).tolist() == numbers


def test_a_column_of_text_is_read_once() -> None:
    """Four places ask for its numbers, and a wide table has thousands of columns."""
    values = read_values("x", pl.Series(["1", "2", None, "2"]))
    column = ColumnSummary.of(values, RowClasses(np.zeros(4, np.int64), 1))
    assert column.read.weights.tolist() == [[1.0], [2.0]]
    assert column.read is column.read


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=30))
def test_distinct_numbers_are_those_of_unique(items: list[int]) -> None:
    data = np.array(items, np.int16)
    values, place = distinct_numbers(data)
    unique, inverse = np.unique(data, return_inverse=True)
    assert values.tolist() == unique.tolist()
    assert place.tolist() == inverse.tolist()


@pytest.mark.parametrize("at", [0, 999, 1000, 1999])
def test_one_fraction_anywhere_is_seen(at: int) -> None:
    numbers = np.arange(2000.0)
    numbers[3] = np.nan
    assert is_integral(numbers)
    numbers[at] += 0.5
    assert not is_integral(numbers)


@pytest.mark.parametrize("ties", [0, 1, 40])
def test_rows_joined_at_once_keep_every_weight_and_bound(ties: int) -> None:
    rng = np.random.default_rng(ties)
    values = rng.random(MOST + 20_000)
    values[: ties * 500] = np.repeat(rng.random(ties), 500)
    points = QuantileSketch.count(values, np.zeros(len(values), np.int64), 1)
    assert len(points.values) <= 2 * RUNS + ties
    assert points.weights.sum() == len(values)
    assert (np.diff(points.values) > 0).all()
    below = np.searchsorted(np.sort(values), points.values, side="left")
    before = np.concatenate([[0.0], np.cumsum(points.weights[:, 0])[:-1]])
    assert np.abs(below - before).max() <= points.error + 1


@given(
    st.lists(st.sampled_from(["x", "y", None]), min_size=1, max_size=12),
    st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=12),
)
def test_values_are_numbered_in_their_order(texts: list[str | None], whole: list[int]) -> None:
    for items, known in (
        (texts, np.array(["y", "x"])),
        (texts, None),
        (whole, None),
        ([*whole, None], None),
    ):
        values = read_values("x", np.array(items, object))
        expected = None if known is None else read_values("x", known)
        ids, found = numbered(values, expected)
        listed = {*items, *([] if known is None else known.tolist())} - {None}
        assert list(found.data) == sorted(listed)
        again = values_at(found, ids)
        assert again.missing().tolist() == [v is None for v in items]
        assert list(again.taken(~again.missing()).data) == [v for v in items if v is not None]


def test_groups_of_two_columns_know_missing_parts_and_cells_never_seen() -> None:
    training = pl.DataFrame({"sex": ["F", "M", "M"], "race": ["a", "a", "b"]})
    groups = fit_groups(training)
    assert groups.transform(training).tolist() == [0, 1, 2]
    holes = pl.DataFrame({"sex": ["F", None, "M"], "race": [None, "b", "b"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert groups.transform(holes).tolist() == [-1, -1, 2]
    with pytest.warns(TableWarning, match="'sex=F, race=b' was not seen"):
        assert groups.transform(pl.DataFrame({"sex": ["F"], "race": ["b"]})).tolist() == [-1]
