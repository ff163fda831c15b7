"""Checks of arrays and options: what passes, and what an error says."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc.core import (
    check_array,
    check_choice,
    check_classes,
    check_counts,
    check_groups,
    check_labels,
    check_number,
    check_positive_weight,
    check_sample_weight,
    check_table,
    is_missing,
    missing,
    one_of,
)
from fairpc.errors import ComparisonError, LearningError, MetricError

CROSSED = [["f", 1], ["m", 1], ["f", 2], ["f", 1]]


def test_columns_are_crossed_unless_one_is_wanted() -> None:
    table = np.array(CROSSED, object)
    names, ids = check_groups(table, 4)
    assert names == (("f", 1), ("f", 2), ("m", 1))
    assert ids.tolist() == [0, 2, 1, 0]
    with pytest.raises(MetricError, match=r"groups has shape \(4, 2\): give one value per row"):
        check_groups(table, 4, crossed=False)


def test_one_group_is_enough_where_that_is_said() -> None:
    assert check_groups(["a", "a"], 2, least=1)[0] == ("a",)
    with pytest.raises(MetricError, match=r"groups has 1 value \('a'\)"):
        check_groups(["a", "a"], 2)


def test_classes_are_sorted_and_numbered() -> None:
    names, ids = check_classes("y", np.array([[2], [0], [2]]))
    assert names == (0, 2)
    assert ids.tolist() == [1, 0, 1]


@pytest.mark.parametrize("inside", [[0.5], np.ones(2), {"a": 1}, {1}], ids=repr)
def test_a_cell_holds_one_value(inside: Any) -> None:
    cells = np.empty(3, dtype=object)
    for row in range(3):
        cells[row] = inside
    kind = type(inside).__name__
    for check in (check_array, check_table, check_labels, check_classes):
        with pytest.raises(MetricError, match=f"^y has a cell with a {kind} in it: give one value"):
            check("y", cells)
    with pytest.raises(MetricError, match="give one value per cell"):
        check_groups(cells, 3)


def test_what_cannot_be_compared_is_none_of_the_choices() -> None:
    with pytest.raises(MetricError, match="y is shape.*: give one of 0, 1"):
        one_of("y", pl.Series([[0], "x"], dtype=pl.Object), [0, 1])


@pytest.mark.parametrize("check", [check_sample_weight, check_positive_weight])
def test_weights_whose_squares_are_no_numbers(check: Any) -> None:
    assert check([1e90, 2e90], 2).tolist() == [1e90, 2e90]
    for weights in ([1.0, 1e200], [1e-200, 1.0]):
        with pytest.raises(MetricError, match=r"scale weights to 1e-100 to 1e.100"):
            check(weights, 2)


def test_weights_that_count_for_nothing_beside_others() -> None:
    with pytest.raises(MetricError, match="is 0.5 in row 1: the largest is 1e.30; leave out rows"):
        check_positive_weight([1e30, 0.5], 2)


def test_counts_that_are_no_longer_whole() -> None:
    with pytest.raises(MetricError, match="counts is 1e.308 in row 0: give whole numbers"):
        check_counts([1e308, 1], 2)


def test_weights_that_may_be_zero_and_weights_that_may_not() -> None:
    assert check_sample_weight(None, 2).tolist() == [1, 1]
    assert check_sample_weight([0, 3], 2).tolist() == [0, 3]
    assert check_positive_weight(None, 2) is None
    assert check_positive_weight([3, 3], 2) is None
    with pytest.raises(MetricError, match="weights are positive; leave out"):
        check_positive_weight([0, 3], 2)
    with pytest.raises(MetricError, match="all weights are zero"):
        check_sample_weight([0, 0], 2)


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT", "s")]
)
def test_what_stands_for_no_value(value: Any) -> None:
    assert is_missing(value)
    assert missing(np.array([[value, "a"]], object)).tolist() == [[True, False]]
    with pytest.raises(MetricError, match="y is missing in row 1"):
        check_labels("y", np.array(["a", value], object))


def test_rows_of_different_lengths_are_told() -> None:
    with pytest.raises(MetricError, match="y has rows of different lengths"):
        check_labels("y", [[1], [1, 2]])


def test_options() -> None:
    check_choice("how", "a", ("a", "b"))
    with pytest.raises(LearningError, match="how is 'c': use one of a, b"):
        check_choice("how", "c", ("a", "b"))
    with pytest.raises(ComparisonError, match="how is 'c'"):
        check_choice("how", "c", ("a", "b"), ComparisonError)
    check_number("depth", 1, 1)
    for wrong in (0, float("nan")):
        with pytest.raises(LearningError, match="depth is .*: give a number of at least 1"):
            check_number("depth", wrong, 1)
