"""Numbers in text: which texts are numbers, and what stays text."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Values
from fairpc.data._column_summary import ColumnSummary, Numbers, RowClasses, add_columns
from fairpc.data._values import AS_NUMBERS

READ = [
    (".", ["1234.5", "7"], [1234.5, 7]),
    (".", [" 7.5 ", "-0.25"], [7.5, -0.25]),
    (".", ["1.5E+03", "2"], [1500, 2]),
    (",", ["0,5", "12,75", "3"], [0.5, 12.75, 3]),
    (",", ["1,234", "5"], [1.234, 5]),
    (",", ["1,5E+03", "2,5"], [1500, 2.5]),
]
KEPT = [
    (".", ["1,234.5", "5"]),
    (".", ["12,5", "7"]),
    (",", ["12.5", "7"]),
    (",", ["1.234,5", "7"]),
    (".", ["$5", "7"]),
    (".", ["5 %", "6 %"]),
    (",", ["01,5", "02,5"]),  # leading zeros are codes
    (".", ["9007199254740993", "5"]),  # a float would not hold the digits
    (".", ["12/05/2020", "01/02/2021"]),
]


def parsed(texts: list[str], decimal: str) -> Values:
    return Values("text", pl.Series(texts, dtype=pl.String), decimal=decimal).parsed()


@pytest.mark.parametrize(("decimal", "texts", "numbers"), READ, ids=lambda v: str(v[0]))
def test_numbers_are_read(decimal: str, texts: list[str], numbers: list[float]) -> None:
    values = parsed(texts, decimal)
    assert (values.type, values.remark) == ("number", AS_NUMBERS)
    assert values.data.tolist() == numbers


@pytest.mark.parametrize(("decimal", "texts"), KEPT, ids=lambda v: str(v[0]))
def test_what_is_no_number_stays_text(decimal: str, texts: list[str]) -> None:
    assert parsed(texts, decimal).type == "text"


@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2, allow_nan=False), min_size=1),
    st.sampled_from([".", ","]),
)
def test_what_is_written_is_read_back(numbers: list[Decimal], decimal: str) -> None:
    texts = [f"{n:.2f}".replace(".", decimal) for n in numbers]
    assert parsed(texts, decimal).data.tolist() == [float(n) for n in numbers]


def summary(texts: list[str], most: int | None = None) -> ColumnSummary:
    rows = RowClasses(np.zeros(len(texts), np.int64), 1, None, most)
    values = Values("text", pl.Series(texts, dtype=pl.String), decimal=",")
    return ColumnSummary.of(values, rows)


@pytest.mark.parametrize("most", [None, 4], ids=["listed", "bounded"])
@pytest.mark.parametrize("tail", ["12,5", "a"])
def test_batches_are_read_alike(most: int | None, tail: str) -> None:
    """The last batch says whether the others are numbers."""
    first = [f"{n},{n + 100}" for n in range(1, 9)]
    joined = add_columns([summary(first, most), summary([tail], most)], most).read.content
    assert joined is not None
    if tail == "a":
        assert joined.values.type == "text"
        return
    assert isinstance(joined, Numbers)
    assert joined.decimal == ","
    expected = [*(n + (n + 100) / 1000 for n in range(1, 9)), 12.5]
    assert joined.values.data.tolist() == pytest.approx(expected, abs=1e-12)
