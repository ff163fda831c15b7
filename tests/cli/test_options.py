"""Options are declared once, and what errors call arguments, the command line calls options."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields

import pytest
import typer

from fairpc import FairPC
from fairpc.cli import app
from fairpc.cli._options import ARGUMENTS, Keeping, Learner, Roles, TextFormat, named
from fairpc.cli._tables import about
from fairpc.core import Argument
from fairpc.errors import LearningError, TableError

NUMERIC, CATEGORICAL = Argument("numeric", "…"), Argument("categorical", "…")
OPTIONS = {
    option
    for parameter in typer.main.get_command(app).commands["fit"].params  # type: ignore[attr-defined]
    for option in parameter.opts
}


@pytest.mark.parametrize(
    ("message", "said", "shown"),
    [
        ((Argument("n_bins"), " is 1: mend it"), "n_bins is 1: mend it", "--bins is 1: mend it"),
        (
            ("name it with ", NUMERIC, " or ", CATEGORICAL),
            "name it with numeric=… or categorical=…",
            "name it with --numeric or --categorical",
        ),
        (
            ("made by ", Argument("structure", "'auto'")),
            "made by structure='auto'",
            "made by --structure auto",
        ),
        (
            ("like an identifier; name it with numeric=… or categorical=… to keep it",),
            "like an identifier; name it with numeric=… or categorical=… to keep it",
            "like an identifier; name it with --numeric or --categorical to keep it",
        ),
        (("a sensitive attribute is numeric",), *["a sensitive attribute is numeric"] * 2),
        (("column 'numeric=…' is odd",), *["column 'numeric=…' is odd"] * 2),
        ((Argument("init", "'prior'"), " is no option"), *["init='prior' is no option"] * 2),
    ],
)
def test_arguments_become_options(
    message: tuple[str | Argument, ...], said: str, shown: str
) -> None:
    error = LearningError(*message)
    assert str(error) == said
    assert named(*error.args) == shown
    sent = pickle.loads(pickle.dumps(error))  # as from a worker of Dask
    assert named(*sent.args) == shown


def test_arguments_are_known_when_the_table_is_named() -> None:
    said = "^t.csv: positive is 'x': choose$"
    with pytest.raises(TableError, match=said) as caught, about("t.csv"):
        raise LearningError(Argument("positive"), " is 'x': choose")
    assert named(*caught.value.args) == "t.csv: --positive is 'x': choose"


def test_every_argument_and_option_is_there() -> None:
    assert set(ARGUMENTS.values()) <= OPTIONS
    arguments = {*inspect.signature(FairPC).parameters, *inspect.signature(FairPC.fit).parameters}
    assert set(ARGUMENTS) <= arguments


@pytest.mark.parametrize("record", [Roles, Learner, TextFormat, Keeping])
def test_every_field_of_a_record_is_an_option(record: type) -> None:
    names = {f"--{field.name.replace('_', '-')}" for field in fields(record)}
    assert {name.replace("--labels", "--label") for name in names} <= OPTIONS
