"""What a sentence recommends: options on the command line, arguments in Python, and only real ones.

The sentences are collected from the source, so that a new one is looked at, too.
"""

from __future__ import annotations

import ast
import html
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
import typer

import fairpc
from cli.calls import answer
from fairpc import FairPC, LatentDecision, load
from fairpc.auditing import audit
from fairpc.cli import app
from fairpc.cli._options import named, with_options
from fairpc.core import EachWay, Phrase
from fairpc.models._guard import RATE_ADVICE

ROOT = Path(fairpc.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ARGUMENT = re.compile(r"\b([a-z][a-z_]*)=(?!=)")
PYTHON_ALONE = ("baselines", "comparison", "refits", "datasets")
"""Parts whose sentences about arguments nobody meets on the command line."""


@dataclass(frozen=True)
class Said:
    """A text in the source, or a piece of one."""

    where: str
    text: str
    each_way: bool = False  #: whether it is worded for one of the two alone


@cache
def modules() -> tuple[str, ...]:
    found = pkgutil.walk_packages([str(ROOT)], "fairpc.")
    return tuple(module.name for module in found if not module.name.endswith("__main__"))


@cache
def said() -> tuple[Said, ...]:
    return tuple(text for path in sorted(ROOT.rglob("*.py")) for text in texts_of(path))


def texts_of(path: Path) -> Iterator[Said]:
    """Every text of a module but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    apart: set[int] = set()
    worded: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("EachWay", "Argument"):
            worded.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield Said(where, node.value, id(node) in worded)


def flags() -> set[str]:
    """Every option of every command."""
    command = typer.main.get_command(app)
    every = [command, *command.commands.values()]  # type: ignore[attr-defined]
    names = (o for c in every for p in c.params for o in (*p.opts, *p.secondary_opts))
    return {*names, "--help", "--debug"}


def arguments() -> set[str]:
    """Arguments that a reader may be told to set."""
    callables = FairPC, FairPC.fit, LatentDecision, LatentDecision.fit, audit
    return {name for call in callables for name in inspect.signature(call).parameters}


def every_way() -> list[EachWay]:
    for module in modules():
        import_module(module)
    pieces = [piece for phrase in Phrase.all for piece in phrase.pieces]
    return [piece for piece in pieces if isinstance(piece, EachWay)]


def test_every_option_that_is_named_exists() -> None:
    known = flags()
    unknown = {
        (text.where, flag)
        for text in said()
        for flag in FLAG.findall(text.text)
        if flag not in known
    }
    assert not unknown


def test_options_are_named_on_the_command_line_alone() -> None:
    elsewhere = [
        text
        for text in said()
        if FLAG.search(text.text) and not text.each_way
        if not text.where.startswith("cli/")
    ]
    assert elsewhere == []


def test_arguments_are_named_in_python_alone() -> None:
    known = arguments()
    found = [
        text
        for text in said()
        if known.intersection(ARGUMENT.findall(text.text))
        and re.search("[a-z] ", text.text)
        and not text.each_way
        and not text.where.startswith(PYTHON_ALONE)
    ]
    assert found == []


def test_each_way_speaks_to_its_own_reader() -> None:
    ways = every_way()
    assert len(ways) > 10
    for way in ways:
        assert not FLAG.search(way.python), way
        assert "Python" in way.shell or not ARGUMENT.search(way.shell), way


def test_no_phrase_is_left_in_what_the_command_line_says() -> None:
    every_way()
    for phrase in Phrase.all:
        shown = named(f"Before. {phrase} After.")
        assert shown.startswith("Before. ")
        assert shown.endswith(" After.")
        assert set(FLAG.findall(shown)) <= flags()
        assert shown == f"Before. {named(*phrase.pieces)} After."
        assert phrase not in shown
        assert named(shown) == shown


def test_no_phrase_is_part_of_another() -> None:
    every_way()
    inside = [(a, b) for a in Phrase.all for b in Phrase.all if a is not b and a in b]
    assert inside == []


def test_a_phrase_is_text_like_any_other() -> None:
    phrase = Phrase("give ", EachWay("b=…", "--by"), "!")
    try:
        assert f"{phrase}" == "give b=…!"
        assert named("so ", phrase) == "so give --by!"
    finally:
        Phrase.all.remove(phrase)


@dataclass(frozen=True)
class Told:
    said: str
    more: tuple[dict[str, str], ...]
    n: int = 3


def test_records_are_worded_in_every_place() -> None:
    phrase = Phrase("name ", EachWay("it=…", "--it"))
    try:
        record = Told(f"{phrase}.", ({"a": f"Do {phrase}", "b": "as it is"},))
        assert with_options(record) == Told("name --it.", ({"a": "Do name --it", "b": "as it is"},))
        same = replace(record, said="as it is", more=())
        assert with_options(same) == same
    finally:
        Phrase.all.remove(phrase)


def texts_in(value: object) -> Iterator[str]:
    """Every text inside plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def test_an_audit_speaks_to_whoever_asked_for_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Advice that the model's file keeps among it, and in the page."""
    model = load("m.fairpc")
    model.warnings_ = (f"Said at fit. {RATE_ADVICE}",)
    model.save("m.fairpc")
    shown = answer(capsys, "audit", "m.fairpc", "t.csv", "-o", "r.html")
    table = pl.read_csv("t.csv")
    found = audit(model, table.drop("hired"), table["hired"], baselines=False)
    assert any("--structure forest" in text for text in shown["verdict"]["drift"])
    assert any("structure='forest'" in text for text in found.verdict.drift)
    page = html.unescape(Path("r.html").read_text("utf-8"))
    assert "--structure forest" in page
    assert "structure='forest'" not in page
    known = arguments()
    for text in texts_in({k: shown[k] for k in shown if k not in ("circuit", "provenance")}):
        assert "Python" in text or not known.intersection(ARGUMENT.findall(text)), text
    for text in texts_in(found.to_dict()):
        assert not FLAG.search(text), text
