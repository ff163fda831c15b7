"""docs/reproduction.md as it was written by the command: whole, and its pictures beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reproduction.methods import ALL_METHODS
from reproduction.page import EXHIBITS
from reproduction.sources import REAL_WORLD

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


def test_it_is_of_all_folds(text: str) -> None:
    assert "(all ten folds)" in text
    for name, key in (("synthetic", "n_features"), ("init", "n_features"), ("missing", "dataset")):
        records = json.loads((DOCS / "reproduction" / f"{name}.json").read_text("utf-8"))
        for value in {r[key] for r in records}:
            assert {r["fold"] for r in records if r[key] == value} == set(range(10))


def test_every_deviation_is_on_it(text: str) -> None:
    for words in (
        *("All-rows likelihood", "F1", "COMPAS rows", "German, FairPC", "FairPC, start"),
        *("LatNB, start", "Random starts", "Missing values", "Thresholds", "Baselines"),
    ):
        assert f"**{words}.**" in text


def test_links_lead_somewhere(text: str) -> None:
    heads = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(#([^)]+)\)", text):
        assert target in heads, target


def test_counts_are_those_of_the_tables(text: str) -> None:
    found = re.search(r"(\d+) of (\d+) statements are confirmed", text)
    assert found is not None
    table = text.split("## What the paper says")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(lines) == int(found[2])
    assert sum("| confirmed |" in line for line in lines) == int(found[1])
