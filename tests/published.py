"""The authors' tables and folds, and the raw tables, which are not in the package."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from reproduction.sources import REAL_WORLD, PaperTable, Sources

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
RAW = Path(os.environ.get("FAIRPC_DATA", _SHARED / "raw"))
"""Folder of the raw tables; whether they are there is for the test to ask."""


def find_folder() -> Path | None:
    """FAIRPC_PAPER_DATA, or the folder beside the repository; None where neither is there."""
    found = Path(os.environ.get("FAIRPC_PAPER_DATA", _SHARED / "paper"))
    return found if (found / "processed").is_dir() else None


def paper_folder() -> Path:
    """Folder with processed/, splits/ and synthetic/; the test is skipped without it."""
    found = find_folder()
    if found is None:
        pytest.skip("the authors' files are absent: set FAIRPC_PAPER_DATA to their folder")
    return found


def paper_table(name: str) -> PaperTable:
    """A published table with its ten folds: "adult", or the features of a synthetic one ("10")."""
    return _read(paper_folder(), name)


@cache
def _read(folder: Path, name: str) -> PaperTable:
    sources = Sources(folder, folder / "splits")
    return sources.table(name) if name in REAL_WORLD else sources.synthetic(int(name))


def use_raw_compas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make COMPAS of the raw scores in a folder; the test is skipped without one."""
    if not (RAW / "compas-scores-raw.csv").is_file():
        pytest.skip("the raw COMPAS scores are absent: set FAIRPC_DATA to their folder")
    monkeypatch.setenv("FAIRPC_DATA", str(RAW))
