"""Fitted models of every kind, exported, against their own predictions of rows with holes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from exporting.scored import by_onnx, expected
from fairpc import FairPC, LatNB, NLatPC, TwoNB
from fairpc.datasets import load_german
from fairpc.errors import NotAnsweredError
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import CircuitClassifier, ForestDistribution
from models.test_files import FILES, READ

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QUICK: dict[str, Any] = {"max_iter": 5, "min_iter": 1, "guard": False, "random_state": 0}
FEW = ("checking_status", "duration", "credit_amount", "employment", "age", "housing")


def german() -> pl.DataFrame:
    data = load_german()
    frame: pl.DataFrame = data.X.select(FEW).with_columns(sex=data.sensitive, label=data.y)
    return frame.with_columns(
        job=data.X["job"], three=(pl.int_range(pl.len()) * 7 % 3).cast(pl.String)
    )


def with_holes(frame: pl.DataFrame, share: float) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(frame.height) >= share)).then(pl.col(name)).alias(name)
        for name in frame.columns
    )


MODELS: dict[str, CircuitClassifier] = {
    "chow-liu": FairPC(structure="chow-liu", sensitive="sex", **QUICK),
    "strudel": FairPC(structure="strudel", sensitive="sex", max_splits=30, **QUICK),
    "forest": FairPC(structure="forest", sensitive="sex", **QUICK),
    "forest in strata": FairPC(structure="forest", sensitive="sex", given=["housing"], **QUICK),
    "without Df": NLatPC(structure="chow-liu", sensitive="sex", **QUICK),
    "free": TwoNB(sensitive="sex", **QUICK),
    "crossed": LatNB(sensitive=["sex", "job"], **QUICK),
    "bins": LatNB(sensitive="sex", n_bins=5, **QUICK),
}


@contextmanager
def fitted(name: str, label: str) -> Iterator[tuple[CircuitClassifier, pl.DataFrame]]:
    frame, model = german(), MODELS[name]
    labels = {"label", "three"}
    model.fit(frame.drop(labels), frame[label])
    yield model, with_holes(frame.drop(labels), 0.25).head(120)


@pytest.mark.parametrize("name", MODELS)
def test_every_model(name: str, tmp_path: Path) -> None:
    with fitted(name, "label") as (model, rows):
        truth = expected(model, rows)
        assert isinstance(model.distribution_, ForestDistribution) == ("forest" in name)
        np.testing.assert_allclose(by_onnx(model, rows, tmp_path), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["chow-liu", "crossed"])
def test_three_classes_and_no_group_at_all(name: str, tmp_path: Path) -> None:
    with fitted(name, "three") as (model, rows):
        hidden = rows.with_columns(sex=pl.lit(None, pl.String))
        truth = expected(model, hidden)
        assert truth.shape == (120, 3)
        np.testing.assert_allclose(by_onnx(model, hidden, tmp_path), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_models_of_every_version_are_exported(path: Path, tmp_path: Path) -> None:
    model = fairpc.load(path)
    if isinstance(model, fairpc.LatentDecision):
        with pytest.raises(NotAnsweredError, match="scores with classifiers"):
            fairpc.export(model, tmp_path / "m.onnx")
        return
    given = [i.name for i in ScorerProgram.of(model).inputs]
    rows = pl.read_csv(FILES / "applications.csv")
    rows = rows.with_columns(pl.lit(None).alias(n) for n in given if n not in rows.columns)
    table = rows.select(given).head(40)
    np.testing.assert_allclose(by_onnx(model, table, tmp_path), expected(model, table), atol=1e-9)
