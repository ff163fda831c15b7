"""Numbers in text: what is told of how they are written, and what stays text."""

from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from fairpc.data import Values, Writing
from fairpc.data._column_summary import ColumnSummary, Numbers, RowClasses, add_columns
from fairpc.data._values import AS_NUMBERS
from fairpc.data._writing import CURRENCIES, PERCENT, writings
from fairpc.errors import TableError

READ = [
    (["1.234,56", "7,5", "0,25"], [1234.56, 7.5, 0.25]),
    (["1,234.56", "7.5", "12,345,678"], [1234.56, 7.5, 12345678]),
    (["0,5", "12,75", "3"], [0.5, 12.75, 3]),
    (["1.234.567", "900"], [1234567, 900]),
    (["1 234,5", "7"], [1234.5, 7]),
    (["1\u202f234,5", "7"], [1234.5, 7]),
    (["1'234.50", "CHF 7"], [1234.5, 7]),
    (["$1,200", "-$50", "$ 7.5"], [1200, -50, 7.5]),
    (["1.200 €", "950 €", "7,50 €"], [1200, 950, 7.5]),
    (["€1.200", "€950"], [1200, 950]),
    (["12 %", "7.5%"], [12, 7.5]),
    (["12,5 %", "−7 %"], [12.5, -7]),
    (["1,234", "950", "12,345"], [1234, 950, 12345]),  # thousands, as 950 is not 950,000
    (["1,234", "1500"], [1.234, 1500]),  # no thousands, or 1500 would have them apart
    (["1,5E+03", "2,5"], [1500, 2.5]),
]
KEPT = [
    ["$5", "€5"],  # two currencies
    ["5 %", "5"],  # a share and something else
    ["1,2,3", "4,5"],
    ["12/05/2020", "01/02/2021"],
    ["01,5", "02,5"],  # leading zeros are codes
    ["5 apples", "6 apples"],
    ["1,23.4", "5"],
    ["12-34", "5"],
    ["9.007.199.254.740.993", "5"],  # a float would not hold the digits
    ["1$2", "5"],
]


def parsed(texts: list[str], decimal: str | None = None) -> Values:
    return Values("text", pl.Series(texts, dtype=pl.String), decimal=decimal).parsed()


@pytest.mark.parametrize(("texts", "numbers"), READ, ids=lambda v: str(v[0]))
def test_numbers_are_read_however_they_are_written(texts: list[str], numbers: list[float]) -> None:
    values = parsed(texts)
    assert values.type == "number"
    assert values.data.tolist() == numbers


@pytest.mark.parametrize("texts", KEPT, ids=lambda v: str(v[0]))
def test_what_is_no_number_stays_text(texts: list[str]) -> None:
    assert parsed(texts).type == "text"


def test_a_plain_column_is_read_as_before() -> None:
    values = parsed(["1.234", "5"])
    assert values.data.tolist() == [1.234, 5]
    assert values.written == Writing()


@pytest.mark.parametrize(
    ("decimal", "texts", "numbers"),
    [
        (",", ["1.234", "5"], [1234, 5]),
        (",", ["1,234", "5"], [1.234, 5]),
        (".", ["1,234", "5"], [1234, 5]),
    ],
)
def test_a_decimal_mark_that_is_said_decides(
    decimal: str, texts: list[str], numbers: list[float]
) -> None:
    assert parsed(texts, decimal).data.tolist() == numbers


def test_text_with_another_decimal_mark_than_is_said_stays_text() -> None:
    assert parsed(["12.5", "7"], ",").type == "text"
    assert parsed(["12,5", "7"], ".").type == "text"


def test_whole_numbers_are_no_news() -> None:
    assert parsed(["12", "7"], ",").remark == AS_NUMBERS
    assert parsed(["12,5", "7"], ",").remark == "text such as '12,5' read as 12.5"


@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2, allow_nan=False), min_size=1),
    st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'")]),
    st.sampled_from(["", "€", "$", "CHF", "%"]),
    st.booleans(),
)
def test_what_is_written_is_read_back(
    numbers: list[Decimal], marks: tuple[str, str], unit: str, before: bool
) -> None:
    def written(number: object) -> str:
        text = f"{number:,.2f}".replace(",", "T").replace(".", marks[0]).replace("T", marks[1])
        return f"{unit} {text}".strip() if before and unit != "%" else f"{text} {unit}".strip()

    texts = pl.Series([written(n) for n in numbers], dtype=pl.String)
    expected = [float(n) for n in numbers]
    writing = Writing(*marks, unit)
    assert writing.fits(texts)
    assert writing.numbers(texts).to_list() == expected
    # Two decimals are not a group of three digits: one decimal mark is possible.
    assert {found.decimal for found in writings(texts)} == {marks[0]}
    assert parsed(texts.to_list()).data.tolist() == expected


def summary(texts: list[str], most: int | None = None) -> ColumnSummary:
    rows = RowClasses(np.zeros(len(texts), np.int64), 1, None, most)
    return ColumnSummary.of(Values("text", pl.Series(texts, dtype=pl.String)), rows)


@pytest.mark.parametrize("most", [None, 4], ids=["listed", "bounded"])
@pytest.mark.parametrize("tail", ["12,5", "950"])
def test_batches_are_read_alike(most: int | None, tail: str) -> None:
    """The last batch says whether the comma of the others is a decimal mark."""
    first, last = [f"{n},{n + 100}" for n in range(1, 9)], [tail]
    joined = add_columns([summary(first, most), summary(last, most)], most).read.content
    assert isinstance(joined, Numbers)
    assert joined.written.decimal == ("," if tail == "12,5" else ".")
    numbers = [n + (n + 100) / 1000 if tail == "12,5" else 1001 * n + 100 for n in range(1, 9)]
    expected = sorted([*numbers, 12.5 if tail == "12,5" else 950])
    assert joined.values.data.tolist() == pytest.approx(expected, abs=1e-12)


def test_two_currencies_in_two_batches_are_no_numbers() -> None:
    dollars, euros = [f"${n},000" for n in range(1, 9)], [f"€{n},000" for n in range(1, 9)]
    found = add_columns([summary(dollars, 4), summary(euros, 4)], 4).read.content
    assert found is not None
    assert found.values.type == "text"


def test_a_writing_is_one_that_is_known() -> None:
    with pytest.raises(TableError, match="not written with ';'"):
        Writing(";")
    with pytest.raises(TableError, match="separators differ"):
        Writing(",", ",")
    assert PERCENT not in CURRENCIES
