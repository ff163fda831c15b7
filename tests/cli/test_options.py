"""Options are declared once, and sentences name only those that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest
import typer

import fairpc
from fairpc import FairPC
from fairpc.cli import app
from fairpc.cli._options import OF_THE_FIT, ColumnOptions, ModelOptions, TextFormat, flag
from fairpc.cli._tables import about
from fairpc.errors import LearningError, OptionError, TableError

ROOT = Path(fairpc.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options(*commands: str) -> set[str]:
    """Every option of some commands, or of all."""
    every = typer.main.get_command(app()).commands  # type: ignore[attr-defined]
    parameters = (p for name in commands or every for p in every[name].params)
    return {o for p in parameters for o in (*p.opts, *p.secondary_opts)}


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the source, and where it is."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def test_every_option_that_is_named_exists() -> None:
    known = {*options(), "--help", "--debug", "--version"}
    unknown = {(where, f) for where, text in texts() for f in FLAG.findall(text) if f not in known}
    assert not unknown


def test_an_error_names_the_table_once() -> None:
    with pytest.raises(TableError, match=r"^t.csv: positive is 'x': choose$"), about("t.csv"):
        raise LearningError("positive is 'x': choose")


@pytest.mark.parametrize("record", [ColumnOptions, ModelOptions, TextFormat])
def test_every_field_of_a_record_is_an_option(record: type) -> None:
    assert {flag(record, field.name) for field in fields(record)} <= options("fit")


def test_a_learner_sets_arguments_of_models() -> None:
    arguments = signature(FairPC).parameters
    assert {field.name for field in fields(ModelOptions)} - set(arguments) == set(OF_THE_FIT)
    assert ModelOptions(n_bins=5).settings(arguments)["n_bins"] == 5
    with pytest.raises(OptionError, match=r"^--bins is not for --model FairPC"):
        ModelOptions(n_bins=5).settings(())
