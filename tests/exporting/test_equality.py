"""Exported files say of any row what the model says, or nothing."""

from __future__ import annotations

import csv
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import fairpc
from exporting.scored import (
    Fitted,
    by_duckdb,
    by_onnx,
    by_python,
    by_sqlite,
    expected,
    fitted,
    imported,
    naive,
)
from fairpc.core import Floats
from fairpc.data import Column, Dropped
from fairpc.errors import NotAnsweredError
from fairpc.models import CircuitClassifier
from strategies import examples

pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")


@settings(max_examples=examples(400))
@given(fitted())
def test_every_file_says_what_the_model_says(case: Fitted) -> None:
    """Whatever is missing, and however columns and levels are called."""
    if not case.table.height:
        return
    for score in (by_python, by_onnx, by_sqlite, by_duckdb):
        with tempfile.TemporaryDirectory() as folder:
            found = score(case.model, case.table, Path(folder))
        np.testing.assert_allclose(found, case.expected, rtol=0, atol=1e-12, err_msg=score.__name__)


def names(*levels: str) -> tuple[Column, list[str]]:
    """A column of names, and cells of a file: the names."""
    return Column("c", "category", levels=levels), list(levels)


DAY = 86_400_000_000.0
CELLS: dict[str, tuple[Column, list[str]]] = {
    "yes": names("no", "yes"),
    "Yes": names("No", "Yes"),
    "t": names("f", "t"),
    "true": names("false", "true"),
    "True": names("False", "True"),
    "one truth": names("true", "unknown"),
    "digits": names("0", "1", "-7"),
    "zeros": names("007", "7", "012"),
    "fractions": names("0.5", "2"),
    "other fractions": names("1.50", "2.25"),
    "numbers and words": names("3", "2.5", "n.a."),
    "hexadecimal": names("0x1F", "0x2A"),
    "exponents": names("1e3", "2e3"),
    "signs": names("+5", "4"),
    "days": names("31.12.2023", "01.02.2024"),
    "times": names("10:30", "11:00"),
    "zones": names("2024-05-31T10:00:00Z", "2024-05-31T11:00:00Z"),
    "capitals": names("a", "A"),
    "whole": (Column("c", "category", levels=(0, 1, 10)), ["0", "1.0", "10", "1e1", "007"]),
    "booleans": (Column("c", "boolean", levels=(False, True)), ["0", "1", "2"]),
    "numbers": (Column("c", "number", edges=(0.1 + 0.2, 7.0)), ["0.3", "7", "-1e3", ".5", " 8 "]),
    "no numbers": (Column("c", "number", edges=(0.3, 7.0)), ["seven", "7 kg", "1-2", "1.2.3"]),
    "other numbers": (Column("c", "number", edges=(9.0,)), ["1_000", "inf", "1e999", "e", "٣"]),
    "dates": (
        Column("c", "date", edges=(DAY * 19_874,)),
        ["2024-05-30", "2024-05-31", "2024-05-31T10:00:00", "2024-05-30 23:59:59.999999"],
    ),
    "no dates": (
        Column("c", "date", edges=(DAY * 19_874,)),
        ["tomorrow", "20240531", "31.05.2024x", "2024-05-31 25"],
    ),
}


def by_sqlite_table(query: str, cell: str, affinity: str) -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f'CREATE TABLE rows ("c" {affinity} COLLATE NOCASE, "group")')
        database.execute("INSERT INTO rows VALUES (?, NULL)", (cell,))
        return database.execute(query).fetchall()


def by_duckdb_file(query: str, path: Path, options: str) -> list[Any]:
    import duckdb

    with duckdb.connect() as database:
        read = f"read_csv('{path}', header = true, delim = ','{options})"
        database.execute(f"CREATE TABLE rows AS SELECT * FROM {read} LIMIT 1")
        return database.execute(query).fetchall()


def predicted(model: CircuitClassifier, cell: str) -> Floats | None:
    """What the model says of a cell of a text file; None where it refuses it."""
    types = {"c": pl.String, "group": pl.String}
    try:
        return np.asarray(expected(model, pl.DataFrame({"c": [cell], "group": [None]}, types))[0])
    except fairpc.FairpcError:
        return None


@pytest.mark.parametrize("case", CELLS)
def test_a_file_in_a_database_is_scored_as_predicted_or_not_at_all(
    case: str, tmp_path: Path
) -> None:
    """Readers of files make booleans, numbers and dates of text; as text, it is scored."""
    import duckdb

    column, cells = CELLS[case]
    model = naive(Random(5), column)
    fairpc.export(model, tmp_path / "m.py")
    fairpc.export(model, tmp_path / "m.sql", table="rows")
    query, scorer = (tmp_path / "m.sql").read_text("utf-8"), imported(tmp_path / "m.py")
    file = tmp_path / "rows.csv"
    readings: dict[str, Callable[[str], list[Any]]] = {
        "python": lambda cell: [scorer.predict_proba({"c": cell})],
        "sqlite": lambda cell: by_sqlite_table(query, cell, "TEXT"),
        "duckdb": lambda _: by_duckdb_file(query, file, ", all_varchar = true"),
        "sqlite, typed": lambda cell: by_sqlite_table(query, cell, "NUMERIC"),
        "duckdb, typed": lambda _: by_duckdb_file(query, file, ""),
    }
    for cell in cells:
        truth = predicted(model, cell)
        with file.open("w", encoding="utf-8", newline="") as rows:
            csv.writer(rows).writerows([("c", "group"), *[(cell, "")] * 30])
        for reading, score in readings.items():
            where = f"{cell!r}, {reading}"
            try:
                found = np.array(score(cell)[0][-2:], np.float64)
            except (ValueError, sqlite3.Error, duckdb.Error):
                assert truth is None or reading.endswith("typed"), where
            else:
                assert truth is not None, where
                np.testing.assert_allclose(found, truth, atol=1e-12, err_msg=where)


@pytest.mark.parametrize("score", [by_python, by_onnx])
def test_columns_that_differ_in_capitals_alone_are_no_query(score: Any, tmp_path: Path) -> None:
    columns = [Column(name, "number", edges=(2.5, 9.0)) for name in ("age", "AGE")]
    model = naive(Random(5), *columns)
    table = pl.DataFrame({"age": [1.0, 3.0], "AGE": [9.0, 8.0], "group": [*"fm"]})
    np.testing.assert_allclose(score(model, table, tmp_path), expected(model, table), atol=1e-12)
    # Of a table that has both, a database may give the one for the other.
    dropped = Dropped("Age", "it has one value (3) wherever it is known")
    alone = naive(Random(5), columns[0])
    features = replace(alone.coding_.features, dropped=(dropped,), names_in=("age", "Age"))
    alone.coding_ = replace(alone.coding_, features=features)
    for made, twin in ((model, "AGE"), (alone, "Age")):
        with pytest.raises(NotAnsweredError, match=f"'age' and '{twin}' differ in capitals alone"):
            fairpc.export(made, tmp_path / "m.sql")
