"""Model files that older code wrote load, and say what they said then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from fairpc.models import _file as model_file

FILES = Path(__file__).parent / "files"
SAVED = sorted(FILES.glob("v*.json"))
ROWS = pl.read_csv(FILES / "applications.csv").drop("approved")[:20]


def _rows(path: Path) -> pl.DataFrame:
    """As they were when the model was saved: of the file "written" the ages are text."""
    comma = pl.col("age").cast(pl.String) + ",5"
    return ROWS.with_columns(age=comma) if "written" in path.stem else ROWS


def _version(path: Path) -> int:
    return int(json.loads(path.read_bytes())["version"])


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_answers_are_those_of_the_code_that_saved_it(path: Path) -> None:
    model, rows = fairpc.load(path), _rows(path)
    said = json.loads(path.with_suffix(".answers").read_text())
    found: dict[str, Callable[[], Any]] = {
        "predict_proba": lambda: model.predict_proba(rows),
        "without_group": lambda: model.predict_proba(rows.drop("sex")),
        "mechanism": lambda: model.bias_mechanism_,
        "predict_bounds": lambda: model.predict_bounds(rows),
    }
    assert list(model.predict(rows)) == said.pop("predict")
    assert {"predict_proba", "without_group"} <= set(said)
    for name, then in said.items():
        np.testing.assert_allclose(found[name](), then, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_file_that_is_saved_again_is_the_same_model(path: Path, tmp_path: Path) -> None:
    model, rows = fairpc.load(path), _rows(path)
    model.save(tmp_path / "again")
    again = fairpc.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.get_params().keys() == model.get_params().keys()


def test_every_version_of_the_format_has_a_file() -> None:
    assert {_version(path) for path in SAVED} == set(range(1, model_file.VERSION + 1))


def test_files_stay_small() -> None:
    assert max(path.stat().st_size for path in FILES.iterdir() if path.is_file()) < 60_000
