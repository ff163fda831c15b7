"""Exported files say of any row what the model says, whatever is missing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from exporting.scored import Fitted, by_duckdb, by_onnx, by_python, by_sqlite, fitted
from fairpc.errors.arrays import Floats
from fairpc.estimators.base import CircuitClassifier
from strategies import examples

Score = Callable[[CircuitClassifier, pl.DataFrame, Path], Floats]

pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")


def check(case: Fitted, score: Score, tolerance: float) -> None:
    if not case.table.height:
        return
    with tempfile.TemporaryDirectory() as folder:
        found = score(case.model, case.table, Path(folder))
    np.testing.assert_allclose(found, case.expected, rtol=0, atol=tolerance)


@settings(max_examples=examples(400))
@given(fitted())
def test_python(case: Fitted) -> None:
    check(case, by_python, 1e-12)


@settings(max_examples=examples(400))
@given(fitted())
def test_onnx(case: Fitted) -> None:
    check(case, by_onnx, 1e-12)


@settings(max_examples=examples(400))
@given(fitted())
def test_sqlite(case: Fitted) -> None:
    check(case, by_sqlite, 1e-12)


@settings(max_examples=examples(200))
@given(fitted())
def test_duckdb(case: Fitted) -> None:
    check(case, by_duckdb, 1e-12)
