"""docs/reproduction.md as it was written by the command: whole, and its pictures beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fairpc.paper.methods import ALL_METHODS
from fairpc.paper.reproduction import EXHIBITS
from fairpc.paper.sources import REAL_WORLD

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "reproduction.md"


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text("utf-8")


def test_it_is_no_quick_look(text: str) -> None:
    assert "--quick" not in text
    assert "--data-dir DIR --splits DIR/splits" in text


def test_pictures_are_there(text: str) -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert len(pictures) >= 7
    for picture in pictures:
        assert (DOCS / picture).is_file()


@pytest.mark.parametrize("name", EXHIBITS)
def test_the_numbers_behind_it_are_there(name: str) -> None:
    records = json.loads((DOCS / "reproduction" / f"{name}.json").read_text("utf-8"))
    assert records


def test_the_table_has_all_methods() -> None:
    records = json.loads((DOCS / "reproduction" / "real-world.json").read_text("utf-8"))
    found = {(r["dataset"], r["method"]) for r in records}
    assert found == {(name, method) for name in REAL_WORLD for method in ALL_METHODS}


def test_every_difference_has_a_reason(text: str) -> None:
    for words in ("All-rows likelihood", "F1", "COMPAS rows", "German", "LatNB", "Synthetic data"):
        assert f"**{words}" in text or f"{words}.**" in text
