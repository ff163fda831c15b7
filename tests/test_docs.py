"""The examples of README.md, docs/ and the notebooks run, and print what they say they print."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import pytest

from fairpc import FairPC, LatentDecision

ROOT = Path(__file__).resolve().parents[1]


def _script(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


printed = _script(ROOT / "docs" / "printed.py")
PAGES: list[Path] = printed.PAGES
LONG = (
    "docs/tutorial.md",
    "docs/how-to/own-classifier.md",
    "docs/how-to/reviews.md",
)
"""Pages that fit whole tables and audit them, half a minute each."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_EXAMPLES = [
    pytest.param(page, id=_name(page), marks=[pytest.mark.slow] if _name(page) in LONG else [])
    for page in PAGES
    if printed.examples(page)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_print_what_the_page_shows(page: Path) -> None:
    """Whole outputs are compared; numbers within ``printed.RELATIVE`` and ``printed.UNITS``."""
    for shown in printed.run(page):
        assert shown.agrees(), f"{shown.code}\nexpected:\n{shown.expected}\nfound:\n{shown.found}"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("notebook", printed.NOTEBOOKS, ids=_name)
def test_notebooks_print_what_they_show(notebook: Path) -> None:
    for code, found, expected in printed.run_notebook(notebook):
        assert printed.same(expected, found), f"{code}\nexpected:\n{expected}\nfound:\n{found}"


@pytest.mark.parametrize(
    ("expected", "found", "agree"),
    [
        ("F: 13% to 37%", "F: 13% to 38%", True),
        ("F: 13% to 37%", "F: 13% to 41%", False),
        ("F: 13% to 37%", "M: 13% to 37%", False),
        ("rate 0.436", "rate 0.450", True),
        ("rate 0.436", "rate 0.470", False),
        ("5,000 rows in 1.6 s", "5,000 rows in 9.2 s", True),
        ("5,000 rows", "6,000 rows", False),
        ("two lines\nhere", "two lines", False),
    ],
)
def test_how_far_printed_numbers_may_be_off(expected: str, found: str, agree: bool) -> None:
    assert printed.same(expected, found) is agree


def test_what_differs_is_rewritten_and_the_rest_is_kept(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("# A\n\n```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n\nB\n", "utf-8")
    (shown,) = printed.run(page)
    assert printed.rewritten(page.read_text("utf-8"), [shown]).endswith("```text\n42\n```\n\nB\n")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_linked_files_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def _sections(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_linked_sections_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    pages = [(page.parent / link if link else page, section) for link, section in links]
    lost = [f"{at.name}#{section}" for at, section in pages if section not in _sections(at)]
    assert lost == []


RETIRED = re.compile(r"\b(bent|bending|telling|told|workbench|hidden decision)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    """One vocabulary; ``docs/glossary.md`` has it."""
    text = re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))  # names of scripts
    assert RETIRED.findall(text) == []


@pytest.mark.parametrize("model", [FairPC, LatentDecision])
def test_each_parameter_has_a_line_of_its_own(model: type) -> None:
    page = (ROOT / "docs" / "api" / "models.md").read_text("utf-8")
    part = page.split(f"## Parameters of `{model.__name__}`")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", part, flags=re.MULTILINE)
    assert sorted(listed) == sorted(signature(model).parameters)


PUBLIC = (
    *("fairpc", "fairpc.evidence", "fairpc.metrics", "fairpc.datasets"),
    *("fairpc.circuit", "fairpc.exporting"),
)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_is_in_an_example(name: str) -> None:
    module = import_module(name)
    code = "\n".join(block["text"] or "" for page in PAGES for block in printed.examples(page))
    names = getattr(module, "__all__", dir(module))
    functions = [f for f in names if isfunction(getattr(module, f))]
    assert [f for f in functions if not re.search(rf"\b{f}\b", code)] == []


def test_the_readme_is_short_and_the_pages_are_too() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150
    assert sum(len(page.read_text("utf-8").split()) for page in PAGES[1:]) <= 38_000
