"""CONTRIBUTING.md and docs/architecture.md tell the truth: layout, directions, names."""

from __future__ import annotations

import re

import pytest

from test_import_directions import ALLOWED, MODELS, PACKAGE, ROOT
from test_paper_map import function_exists, quoted

REPOSITORY = PACKAGE.parents[1]
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
SHARED = "what refits may import"


def listed(first: str) -> list[str]:
    """The lines of an indented listing that begins with a line that has this in it."""
    lines = CONTRIBUTING.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"    {first}"))
    block = []
    for line in lines[start:]:
        if not line.startswith("    "):
            break
        block.append(line[4:])
    return block


def parts() -> set[str]:
    """Packages and modules of the package, as the listing writes them."""
    here = [p for p in PACKAGE.iterdir() if not p.name.startswith(("__pycache__", "py.typed"))]
    return {f"{p.name}/" if p.is_dir() else p.name for p in here}


def test_the_layout_is_that_of_the_tree() -> None:
    lines = listed("src/fairpc/")
    inside = {line.split()[0] for line in lines if line.startswith("  ")}
    assert inside == parts()
    for folder in (line.split()[0] for line in lines if not line.startswith(" ")):
        assert (REPOSITORY / folder).is_dir()


def test_the_directions_are_those_of_the_test() -> None:
    printed: dict[str, set[str]] = {}
    for line in listed("data:"):
        part, _, names = line.partition(":")
        found = {name.strip() for name in names.split(",")} - {"nothing else"}
        if SHARED in found:
            found = found - {SHARED} | MODELS
        if found == {"every other part"}:
            found = set(ALLOWED) - {"cli", "errors", ROOT}
        printed[part] = found
    expected = {part: names for part, names in ALLOWED.items() if part not in ("errors", ROOT)}
    assert printed == expected


def test_every_room_is_described() -> None:
    rooms = {
        name for row in re.findall(r"^\| (`.*?) \|", ARCHITECTURE, re.M) for name in quoted(row)
    }
    assert {part.removesuffix("/").removesuffix(".py") for part in parts()} - {"__init__"} <= rooms


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(fairpc\.[\w.]+)`", ARCHITECTURE))))
def test_names_of_the_path_exist(name: str) -> None:
    assert function_exists(name)


def test_files_to_touch_exist() -> None:
    files = re.findall(r"`([\w/]+/[\w.]+\.(?:py|toml))`", ARCHITECTURE)
    assert len(files) > 15
    assert [f for f in files if not any((top / f).exists() for top in (PACKAGE, REPOSITORY))] == []
