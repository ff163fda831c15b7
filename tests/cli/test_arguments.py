"""What errors call arguments, the command line calls options."""

from __future__ import annotations

import inspect

import pytest
import typer

from fairpc import FairPC
from fairpc.cli import app
from fairpc.cli.arguments import OPTIONS, as_options


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("n_bins is 1: give more", "--bins is 1: give more"),
        ("t.csv: positive is 'x': choose", "t.csv: --positive is 'x': choose"),
        ("name it with numeric=… or categorical=…", "name it with --numeric or --categorical"),
        ("made by structure='auto'", "made by --structure auto"),
        ("a sensitive attribute is numeric", "a sensitive attribute is numeric"),
        ("column 'numeric=…' is odd", "column 'numeric=…' is odd"),
        ("init='prior' is no option", "init='prior' is no option"),
    ],
)
def test_arguments_become_options(said: str, shown: str) -> None:
    assert as_options(said) == shown


def test_every_argument_and_option_is_there() -> None:
    fit = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    known = {name for parameter in fit.params for name in parameter.opts}
    assert set(OPTIONS.values()) <= known
    arguments = {*inspect.signature(FairPC).parameters, *inspect.signature(FairPC.fit).parameters}
    assert set(OPTIONS) <= arguments
