"""What files take for a value: text, numbers, dates, their spellings, and what is missing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from exporting.scored import by_onnx, expected, naive
from fairpc.core import Floats
from fairpc.data import Column
from fairpc.errors import TableError
from fairpc.models import CircuitClassifier

pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")

NUMBER = Column("number", "number", edges=(0.1 + 0.2, 7.0))
DAY = Column("day", "date", edges=(86_400_000_000.0, 86_400_000_000.0 * 2 + 0.5))
JOB = Column("job", "category", levels=("clerk", "cook"))
FLAG = Column("flag", "boolean", levels=(False, True))


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    made: CircuitClassifier = naive(Random(0), NUMBER, DAY, JOB, FLAG)
    return made


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


def test_an_infinite_number_is_missing_in_onnx(model: CircuitClassifier, tmp_path: Path) -> None:
    found = by_onnx(model, rows(number=[math.inf, -math.inf]), tmp_path)
    np.testing.assert_allclose(found, np.tile(said(model), (2, 1)), atol=1e-12)


def test_whole_numbers_that_no_float_holds_are_text(tmp_path: Path) -> None:
    big = 2**60
    model = naive(Random(1), Column("id", "category", levels=(big, big + 1, 5)))
    # No cell is empty: polars hands such a column on as floats.
    table = pl.DataFrame({"id": [big, big + 1, 5, 6], "group": ["f", "m", None, "f"]})
    found = by_onnx(model, table, tmp_path)
    np.testing.assert_allclose(found, expected(model, table), atol=1e-12)
    assert abs(found[0, 0] - found[1, 0]) > 1e-3


def test_numbers_are_names_whatever_the_others_of_their_column_are(tmp_path: Path) -> None:
    model = naive(Random(1), Column("rooms", "category", levels=("2.5", "3", "n.a.")))
    table = pl.DataFrame({"rooms": [3.0, 2.5, 4.0, None], "group": [*"fmfm"]})
    text = table.with_columns(rooms=pl.Series(["3", "2.5", "4", None]))
    np.testing.assert_allclose(expected(model, table), expected(model, text), atol=1e-12)
    np.testing.assert_allclose(by_onnx(model, text, tmp_path), expected(model, text), atol=1e-12)


def test_one_column_may_be_a_feature_and_the_group(tmp_path: Path) -> None:
    age = Column("age", "number", edges=(30.0, 40.0))
    model = naive(Random(2), age, JOB, group=Column("age", "number", edges=(35.0,)))
    table = pl.DataFrame({"age": [20.0, 33.0, 36.0, None], "job": ["cook", None, "x", "clerk"]})
    np.testing.assert_allclose(by_onnx(model, table, tmp_path), expected(model, table), atol=1e-12)


def test_one_column_of_two_kinds_is_refused(tmp_path: Path) -> None:
    age = Column("age", "number", edges=(30.0,))
    model = naive(Random(2), age, group=Column("age", "category", levels=("old", "young")))
    with pytest.raises(TableError, match="'age' is a feature of kind number and a sensitive"):
        fairpc.export(model, tmp_path / "m.onnx")


@pytest.mark.parametrize("score", [expected, by_onnx])
def test_marks_are_compared_as_the_column_is(score: Any, tmp_path: Path) -> None:
    kids = Column("kids", "category", levels=(0, 1, 10))
    model = naive(Random(8), NUMBER, kids, DAY)
    features = replace(model.coding_.features, missing_values=(-999.0, "1970-01-03"))
    model.coding_ = replace(model.coding_, features=features)
    instants = [datetime(1970, 1, 3), datetime(1970, 1, 3, 0, 0, 1), datetime(1970, 1, 2)]
    typed = {"number": [-999.0, 8.0, 8.0], "kids": [1, -999, 1], "day": instants}
    known = {"number": [None, 8.0, 8.0], "kids": [1, None, 1], "day": [None, *instants[1:]]}
    groups = {"group": [*"fmf"]}
    meant = expected(model, pl.DataFrame(known | groups))
    found = score(model, pl.DataFrame(typed | groups), *(() if score is expected else (tmp_path,)))
    np.testing.assert_allclose(found, meant, atol=1e-12)
