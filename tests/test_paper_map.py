"""docs/paper-map.md names only functions and tests that exist."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "docs" / "paper-map.md"
HEAD = ["Paper", "Function", "Test"]


def rows(text: str) -> list[list[str]]:
    """Cells of every table line, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEAD and not set(row[0]) <= set("-: ")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def function_exists(name: str) -> bool:
    """Whether a dotted name can be imported, as far as it goes, and then looked up."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return cut < len(parts)
    return False


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def has_test(name: str) -> bool:
    """Whether ``path::test`` names a test function in a file."""
    path, _, test = name.partition("::")
    return (ROOT / path).is_file() and test in names_in(ROOT / path)


def faults(row: list[str]) -> list[str]:
    """What is wrong with one line of the map."""
    if len(row) != len(HEAD):
        return [f"{row} has {len(row)} cells: give {', '.join(HEAD)}"]
    item, functions, tests = row[0], quoted(row[1]), quoted(row[2])
    found = [f"{item}: there is no {name}" for name in functions if not function_exists(name)]
    found += [f"{item}: there is no test {name}" for name in tests if not has_test(name)]
    if not functions or not tests:
        found.append(f"{item}: name a function and a test")
    return found


LINES = rows(MAP.read_text("utf-8"))


def test_the_map_has_lines() -> None:
    assert len(LINES) >= 10


@pytest.mark.parametrize("row", LINES, ids=lambda row: row[0])
def test_functions_and_tests_exist(row: list[str]) -> None:
    assert faults(row) == []


@pytest.mark.parametrize(
    "row",
    [
        ["Eq. 1", "`fairpc.errors.Nothing`", "`tests/test_paper_map.py::test_the_map_has_lines`"],
        ["Eq. 1", "`fairpc.nothing.at_all`", "`tests/test_paper_map.py::test_the_map_has_lines`"],
        ["Eq. 1", "`fairpc.errors`", "`tests/test_paper_map.py::test_the_map_has_lines`"],
        ["Eq. 1", "`fairpc.errors.FairpcError`", "`tests/test_paper_map.py::test_nothing`"],
        ["Eq. 1", "`fairpc.errors.FairpcError`", "`tests/test_nothing.py::test_nothing`"],
        ["Eq. 1", "`fairpc.errors.FairpcError`", ""],
        ["Eq. 1", "`fairpc.errors.FairpcError`"],
    ],
)
def test_a_wrong_line_is_found(row: list[str]) -> None:
    assert len(faults(row)) == 1
