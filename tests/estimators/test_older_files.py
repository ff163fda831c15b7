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
from fairpc.estimators import file as model_file

FILES = Path(__file__).parent / "files"
SAVED = sorted(FILES.glob("v*.json"))
ROWS = pl.read_csv(FILES / "applications.csv").drop("approved")[:20]


def _version(path: Path) -> int:
    return int(json.loads(path.read_bytes())["version"])


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_answers_are_those_of_the_code_that_saved_it(path: Path) -> None:
    model = fairpc.load(path)
    said = json.loads(path.with_suffix(".answers").read_text())
    found: dict[str, Callable[[], Any]] = {
        "predict_proba": lambda: model.predict_proba(ROWS),
        "without_group": lambda: model.predict_proba(ROWS.drop("sex")),
        "mechanism": lambda: model.bias_mechanism_,
        "predict_bounds": lambda: model.predict_bounds(ROWS),
    }
    assert list(model.predict(ROWS)) == said.pop("predict")
    assert {"predict_proba", "without_group"} <= set(said)
    for name, then in said.items():
        np.testing.assert_allclose(found[name](), then, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_file_that_is_saved_again_is_the_same_model(path: Path, tmp_path: Path) -> None:
    model = fairpc.load(path)
    model.save(tmp_path / "again")
    again = fairpc.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    assert again.get_params().keys() == model.get_params().keys()


def test_every_version_of_the_format_has_a_file() -> None:
    assert {_version(path) for path in SAVED} == set(range(1, model_file.VERSION + 1))


def test_files_stay_small() -> None:
    assert max(path.stat().st_size for path in FILES.iterdir() if path.is_file()) < 60_000
