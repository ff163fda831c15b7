"""The examples of README.md and of the pages in docs/ run, and print what they say they print."""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from fairpc.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ("_build", "reproduction")
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _own(page: Path) -> bool:
    return not set(page.relative_to(ROOT).parts) & set(GENERATED)


def _blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block that is run."""
    return _BLOCK.findall(page.read_text("utf-8"))


LONG = (
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/filings.md",
    "docs/how-to/own-classifier.md",
    "docs/how-to/reviews.md",
)
"""Pages that fit whole tables and audit them, half a minute each."""
WITH_EXAMPLES = [
    pytest.param(page, id=_name(page), marks=[pytest.mark.slow] if _name(page) in LONG else [])
    for page in PAGES
    if _own(page) and _blocks(page)
]


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One name space and one folder a page: later blocks may use what earlier ones made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "100")
    scope: dict[str, Any] = {}
    for language, text in _blocks(page):
        if language == "console":
            _run_commands(text)
        elif ">>>" in text:
            _run_session(text, scope, page)
        else:
            exec(compile(text, str(page), "exec"), scope)


def test_sessions_of_the_readme_run() -> None:
    scope: dict[str, Any] = {}
    for _, text in _blocks(PAGES[0]):
        if ">>>" in text:
            _run_session(text, scope, PAGES[0])


def _run_session(text: str, scope: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(text, scope, page.name, str(page), 0)
    test.globs = scope  # the parser copies it
    shown: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    failed = runner.run(test, out=shown.append, clear_globs=False).failed
    assert failed == 0, "".join(shown)


def _run_commands(text: str) -> None:
    """Each ``$ command`` ends well; what is printed below it is what it prints, … for anything."""
    for command, expected in _commands(text):
        ours = command.startswith("fairpc ") and not set("|&;$") & set(command)
        code, found = (_called if ours else _run)(command)
        assert code == 0, f"$ {command}\n{found}"
        if expected.strip():
            wanted = expected.replace("…", "...")
            assert doctest.OutputChecker().check_output(wanted, found, _FLAGS), (
                f"$ {command}\nexpected:\n{wanted}\nfound:\n{found}"
            )


def _run(command: str) -> tuple[int, str]:
    """How a command of a shell ended, and what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        shell=True,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _called(command: str) -> tuple[Any, str]:
    """The same of a command of ours, in this process, which has imported everything."""
    words, printed, errors = shlex.split(command), io.StringIO(), io.StringIO()
    into = Path(words[words.index(">") + 1]) if ">" in words else None
    given = words[1 : words.index(">")] if into else words[1:]
    with redirect_stdout(printed), redirect_stderr(errors), warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main(given)
    if into:
        into.write_text(printed.getvalue(), "utf-8")
    return ended.value.code, ("" if into else printed.getvalue()) + errors.getvalue()


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        n = 1
        while lines[n - 1].rstrip("\n").endswith("\\"):
            n += 1
        yield "".join(lines[:n]).replace("\\\n", " ").strip(), "".join(lines[n:])


@pytest.mark.parametrize("page", [page for page in PAGES if _own(page)], ids=_name)
def test_linked_files_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def _sections(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if _own(page)], ids=_name)
def test_linked_sections_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    pages = [(page.parent / link if link else page, section) for link, section in links]
    lost = [f"{at.name}#{section}" for at, section in pages if section not in _sections(at)]
    assert lost == []


def test_readme_teaches_by_example() -> None:
    assert sum(text.count(">>>") for _, text in _blocks(ROOT / "README.md")) >= 10
