"""CONTRIBUTING.md and docs/architecture.md tell the truth: layout, directions, names."""

from __future__ import annotations

import re

import pytest

from test_import_directions import PACKAGE, REPOSITORY, listed
from test_paper_map import function_exists, quoted

ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")


def parts() -> set[str]:
    """Packages and modules of the package, as the listing writes them."""
    here = [p for p in PACKAGE.iterdir() if not p.name.startswith(("__pycache__", "py.typed"))]
    return {f"{p.name}/" if p.is_dir() else p.name for p in here}


def test_the_layout_is_that_of_the_tree() -> None:
    lines = listed("src/fairpc/")
    names = [re.findall(r"^  ((?:[\w.]+/?,? ?)+)", line) for line in lines]
    inside = {name.strip() for found in names for part in found for name in part.split(",")}
    assert inside == parts()
    for folder in (line.split()[0] for line in lines if not line.startswith(" ")):
        assert (REPOSITORY / folder).is_dir()


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
