"""Where tests find the authors' files and the raw COMPAS scores, which are not in the package."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def paper_folder() -> Path:
    """Folder with processed/, splits/ and synthetic/; the test is skipped without it."""
    folder = Path(os.environ.get("FAIRPC_PAPER_DATA", _SHARED / "paper"))
    if not folder.is_dir():
        pytest.skip("the authors' files are absent: set FAIRPC_PAPER_DATA to their folder")
    return folder


def use_raw_compas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let load_compas read the raw scores from a folder; the test is skipped without one."""
    folder = Path(os.environ.get("FAIRPC_DATA", _SHARED / "raw"))
    if not (folder / "compas-scores-raw.csv").is_file():
        pytest.skip("the raw COMPAS scores are absent: set FAIRPC_DATA to their folder")
    monkeypatch.setenv("FAIRPC_DATA", str(folder))


def folds(name: str, part: str) -> list[list[int]]:
    """0-based rows of each of the ten published folds; part is train, valid or test."""
    table = pl.read_csv(paper_folder() / "splits" / name / f"{part}_ids.csv")
    return [(column.drop_nulls() - 1).to_list() for column in table.cast(pl.Int64)]
