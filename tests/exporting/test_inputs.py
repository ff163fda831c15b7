"""What files take for a value: text, numbers, dates, their spellings, and what is missing."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from exporting.scored import by_duckdb, by_onnx, by_python, by_sqlite, expected, imported, naive
from fairpc.core import Floats
from fairpc.data import Column, Writing
from fairpc.errors import NotAnsweredError, TableError
from fairpc.models import CircuitClassifier

pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")

NUMBER = Column("number", "number", edges=(0.1 + 0.2, 7.0))
DAY = Column("day", "date", edges=(86_400_000_000.0, 86_400_000_000.0 * 2 + 0.5))
JOB = Column("job", "category", levels=("clerk", "cook"))
FLAG = Column("flag", "boolean", levels=(False, True))
ALL = (by_python, by_onnx, by_sqlite, by_duckdb)


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    made: CircuitClassifier = naive(Random(0), NUMBER, DAY, JOB, FLAG)
    return made


@pytest.fixture(scope="module")
def scorer(model: CircuitClassifier, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("file") / "made.py"
    fairpc.export(model, path)
    return imported(path)


def rows(**known: list[Any]) -> pl.DataFrame:
    """Rows of which all that is not given is missing."""
    types: dict[str, Any] = {"number": pl.Float64, "day": pl.Datetime("us"), "job": pl.String}
    types |= {"flag": pl.Boolean, "group": pl.String}
    n = max((len(values) for values in known.values()), default=1)
    return pl.DataFrame({name: known.get(name, [None] * n) for name in types}, types)


def said(model: CircuitClassifier, **known: Any) -> Floats:
    """By the model, of one row."""
    found = expected(model, rows(**{name: [value] for name, value in known.items()}))
    return np.asarray(found[0])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"number": "7.0"}, {"number": 7.0}),
        ({"number": " 8 "}, {"number": 8.0}),
        ({"number": "≥ 7"}, {"number": 9.0}),
        ({"number": ""}, {}),
        ({"number": "?"}, {}),
        ({"number": -999}, {}),
        ({"number": math.nan, "job": "cook"}, {"job": "cook"}),
        ({"number": np.float32(7.0)}, {"number": 7.0}),
        ({"job": "plumber", "flag": True}, {"flag": True}),
        ({"flag": "true"}, {"flag": True}),
        ({"flag": 0}, {"flag": False}),
        ({"flag": "maybe"}, {}),
        ({"day": date(1970, 1, 2)}, {"day": datetime(1970, 1, 2)}),
        ({"day": "1970-01-02T00:00"}, {"day": datetime(1970, 1, 2)}),
        ({"day": "1970-01-01 23:59:59.9"}, {"day": datetime(1970, 1, 1, 23, 59)}),
        ({"day": datetime(1970, 1, 2, tzinfo=UTC)}, {"day": datetime(1970, 1, 2)}),
        (
            {"day": datetime(1970, 1, 2, 0, 59, tzinfo=timezone(timedelta(hours=1)))},
            {"day": datetime(1970, 1, 1, 23, 59)},
        ),
        ({"group": "m", "unused": 3}, {"group": "m"}),
        ({"group": "x"}, {}),
    ],
)
def test_rows_of_python_take_what_a_table_has(
    model: CircuitClassifier, scorer: ModuleType, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    np.testing.assert_allclose(scorer.predict_proba(given), said(model, **meant), atol=1e-12)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"number": "seven"}, "give a number"),
        ({"number": math.inf}, "finite"),
        ({"number": [7]}, "text, a number, a date"),
        ({"number": date(1970, 1, 1)}, "no dates"),
        ({"day": 3}, "give a date"),
        ({"day": "yesterday"}, "give a date"),
        ({"day": "1970-02-30"}, "day"),
        ({"job": " cook"}, "take the blanks around it away"),
    ],
)
def test_rows_of_python_refuse_the_rest(
    scorer: ModuleType, given: dict[str, Any], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        scorer.predict_proba(given)


def test_what_is_said_is_what_the_file_lists(scorer: ModuleType) -> None:
    assert scorer.CLASSES == ["class 0", "class 1"]
    assert set(scorer.INPUTS) == {"number", "day", "job", "flag", "group"}
    assert scorer.predict_proba_rows([{}, {"job": "cook"}])[0] == scorer.predict_proba({})


def test_an_infinite_number_is_missing_in_onnx(model: CircuitClassifier, tmp_path: Path) -> None:
    found = by_onnx(model, rows(number=[math.inf, -math.inf]), tmp_path)
    np.testing.assert_allclose(found, np.tile(said(model), (2, 1)), atol=1e-12)


@pytest.mark.parametrize("score", ALL)
def test_whole_numbers_that_no_float_holds_are_text(score: Any, tmp_path: Path) -> None:
    big = 2**60
    model = naive(Random(1), Column("id", "category", levels=(big, big + 1, 5)))
    # No cell is empty: polars hands such a column on as floats.
    table = pl.DataFrame({"id": [big, big + 1, 5, 6], "group": ["f", "m", None, "f"]})
    given = table if score in (by_python, by_onnx) else table.cast({"id": pl.String})
    found = score(model, given, tmp_path)
    np.testing.assert_allclose(found, expected(model, table), atol=1e-12)
    assert abs(found[0, 0] - found[1, 0]) > 1e-3


def test_numbers_are_names_whatever_the_others_of_their_column_are(tmp_path: Path) -> None:
    model = naive(Random(1), Column("rooms", "category", levels=("2.5", "3", "n.a.")))
    table = pl.DataFrame({"rooms": [3.0, 2.5, 4.0, None], "group": [*"fmfm"]})
    text = table.with_columns(rooms=pl.Series(["3", "2.5", "4", None]))
    np.testing.assert_allclose(expected(model, table), expected(model, text), atol=1e-12)
    np.testing.assert_allclose(by_python(model, table, tmp_path), expected(model, text), atol=1e-12)


@pytest.mark.parametrize("score", ALL)
def test_one_column_may_be_a_feature_and_the_group(score: Any, tmp_path: Path) -> None:
    age = Column("age", "number", edges=(30.0, 40.0))
    model = naive(Random(2), age, JOB, group=Column("age", "number", edges=(35.0,)))
    table = pl.DataFrame({"age": [20.0, 33.0, 36.0, None], "job": ["cook", None, "x", "clerk"]})
    np.testing.assert_allclose(score(model, table, tmp_path), expected(model, table), atol=1e-12)


def test_one_column_of_two_kinds_is_refused(tmp_path: Path) -> None:
    age = Column("age", "number", edges=(30.0,))
    model = naive(Random(2), age, group=Column("age", "category", levels=("old", "young")))
    with pytest.raises(TableError, match="'age' is a feature of kind number and a sensitive"):
        fairpc.export(model, tmp_path / "m.py")


@pytest.mark.parametrize(
    ("suffix", "name"), [("sql", "a\x00b"), ("sql", ""), ("sql", "True"), ("onnx", "")]
)
def test_names_that_a_language_cannot_write_are_refused(
    suffix: str, name: str, tmp_path: Path
) -> None:
    model = naive(Random(3), Column(name, "number", edges=(30.0,)))
    with pytest.raises(NotAnsweredError, match="rename it"):
        fairpc.export(model, tmp_path / f"m.{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["text", "real"])
def test_sqlite_reads_numbers_that_are_stored_as_text(kind: str, tmp_path: Path) -> None:
    whole = Column("kids", "category", levels=(0, 1, 10))
    model = naive(Random(4), NUMBER, whole)
    fairpc.export(model, tmp_path / "m.sql", table="main.people")
    stored: list[tuple[Any, ...]] = [
        ("9", "10", "m"),
        ("", "", "f"),
        ("0.3", "0", ""),
        ("?", "1", "f"),
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE people (number {kind}, kids {kind}, 'group' text)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", stored)
        found = database.execute((tmp_path / "m.sql").read_text("utf-8")).fetchall()
    table = pl.DataFrame(
        {"number": [9.0, None, 0.3, None], "kids": [10, None, 0, 1], "group": ["m", "f", None, "f"]}
    )
    shares = np.array([row[-2:] for row in found], np.float64)
    np.testing.assert_allclose(shares, expected(model, table), atol=1e-12)
    assert [row[3] for row in found] == ["m", "f", "", "f"]


WRITTEN = (
    (Writing(",", ".", "€"), ["1.234,50 €", "\u221219,5 €", "€ 7", "900", "-€\u00a01.000", None]),
    (Writing(".", ",", "$"), ["$1,234.50", "-$19.5", "$ 7", "900", "-1,000$", ""]),
    (Writing(",", " "), ["1 234,50", "-19,5", "7", "900", "-1\u202f000", None]),
    (Writing(".", "'", "CHF"), ["CHF 1'234.50", "-19.5", "7", "900", "-1’000", None]),
    (Writing(".", "", "%"), ["1234.50%", "-19.5 %", "7%", "900", "-1000 %", ""]),
)


@pytest.mark.parametrize(("written", "texts"), WRITTEN, ids=[w.example for w, _ in WRITTEN])
def test_python_reads_numbers_as_they_are_written(
    written: Writing, texts: list[str | None], tmp_path: Path
) -> None:
    amount = Column("amount", "number", edges=(-20.0, -19.0, 6.5, 7.5, 1234.5), written=written)
    kids = Column("kids", "category", levels=(1234.5, -19.5, 7.0, 900.0, -1e3), written=written)
    numbers = [1234.5, -19.5, 7.0, 900.0, -1000.0, None]
    for column in (amount, kids):
        model = naive(Random(7), column)
        given = pl.DataFrame({column.name: texts, "group": [*"fmfmfm"]})
        found = by_python(model, given, tmp_path)
        table = pl.DataFrame({column.name: numbers, "group": [*"fmfmfm"]})
        np.testing.assert_allclose(found, expected(model, table), atol=1e-12)
        # Where text is not read, the column holds the numbers.
        for score in ALL:
            np.testing.assert_allclose(score(model, table, tmp_path), found, atol=1e-12)


def test_python_says_how_numbers_are_written(tmp_path: Path) -> None:
    amount = Column("amount", "number", edges=(10.0,), written=Writing(",", ".", "€"))
    fairpc.export(naive(Random(7), amount), tmp_path / "m.py")
    scorer = imported(tmp_path / "m.py")
    for text in ("1,234.50 €", "1_000", "12 $", "seven"):
        with pytest.raises(ValueError, match="give a number like 1.234,5 €, or None"):
            scorer.predict_proba({"amount": text})


@pytest.mark.parametrize("score", [by_sqlite, by_duckdb])
@pytest.mark.parametrize(
    ("column", "cell", "sentence"),
    [
        ("number", "seven", "has seven of type .*: it held numbers at fit, give a number"),
        ("number", math.inf, "has inf of type .*: numbers must be finite"),
        ("job", " cook", "has  cook of type .*: it held this text without the blanks at fit"),
        ("job", 3, "has 3 of type .*: it held text at fit, load it as text"),
        ("day", 3, "has 3 of type .*: it held dates at fit, give a date without a zone"),
        ("day", "12/31/2023", "has 12/31/2023 of type .*: it held dates at fit"),
    ],
)
def test_a_query_ends_with_a_sentence(
    score: Any, column: str, cell: Any, sentence: str, model: CircuitClassifier, tmp_path: Path
) -> None:
    import duckdb

    table = rows().with_columns(pl.lit(cell).alias(column))
    with pytest.raises((sqlite3.OperationalError, duckdb.Error)) as refused:
        score(model, table, tmp_path)
    said = str(refused.value).replace("''", "'").replace("Inf", "inf")
    assert re.search(f"column '{column}' {sentence}", said)


@pytest.mark.parametrize("score", [expected, by_python, by_onnx, by_sqlite, by_duckdb])
def test_marks_are_compared_as_the_column_is(score: Any, tmp_path: Path) -> None:
    kids = Column("kids", "category", levels=(0, 1, 10))
    model = naive(Random(8), NUMBER, kids, DAY)
    features = replace(model.coding_.features, missing_values=(-999.0, "1970-01-03"))
    model.coding_ = replace(model.coding_, features=features)
    instants = [datetime(1970, 1, 3), datetime(1970, 1, 3, 0, 0, 1), datetime(1970, 1, 2)]
    typed = {"number": [-999.0, 8.0, 8.0], "kids": [1, -999, 1], "day": instants}
    known = {"number": [None, 8.0, 8.0], "kids": [1, None, 1], "day": [None, *instants[1:]]}
    groups = {"group": [*"fmf"]}
    given = () if score is expected else (tmp_path,)
    meant = expected(model, pl.DataFrame(known | groups))
    np.testing.assert_allclose(
        score(model, pl.DataFrame(typed | groups), *given), meant, atol=1e-12
    )
    if score is by_onnx:  # which is given no text in place of numbers
        return
    for number, day in (("-999.0", "1970-01-03"), (" -999", "1970-01-03 00:00"), ("-9.99e2", "")):
        days = [day, "1970-01-03T00:00:01", "1970-01-02"]
        texts = {"number": [number, "8", "8.0"], "kids": ["1", "-999.00", "1"], "day": days}
        table = pl.DataFrame(texts | groups).with_columns(pl.col("day").replace("", None))
        np.testing.assert_allclose(score(model, table, *given), meant, atol=1e-12)


@pytest.mark.parametrize("score", [expected, by_python])
def test_dates_may_have_the_day_first(score: Any, tmp_path: Path) -> None:
    days = [datetime(1970, 1, 1, 23, 59), datetime(1970, 1, 2), datetime(1970, 1, 31), None]
    texts = ["01.01.1970 23:59", "02.01.1970", "31.01.1970 00:00:00", None]
    model, groups = naive(Random(9), DAY), {"group": [*"fmfm"]}
    given = () if score is expected else (tmp_path,)
    found = score(model, pl.DataFrame({"day": texts} | groups), *given)
    np.testing.assert_allclose(found, expected(model, pl.DataFrame({"day": days} | groups)))
