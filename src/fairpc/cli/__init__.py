"""The command ``fairpc``. Each command is a function, whose signature says its options and whose
docstring is its help.

What goes wrong is one sentence on stderr and an exit code.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer

from fairpc.cli._options import NoPositiveError, declared
from fairpc.cli._screen import complain, discard
from fairpc.core import FairpcError, ending_on_signals

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
STOPPED: Final = (INTERRUPTED, 143, 129)
"""Codes of Ctrl-C, SIGTERM and SIGHUP."""

# polars reads ahead, several groups of rows per core: of a file with groups of a million rows
# that is more memory than all the rest. It looks at this when it first opens a file.
POLARS: Final = {"POLARS_ROW_GROUP_PREFETCH_SIZE": "1", "POLARS_RECORD_BATCH_PREFETCH_SIZE": "1"}

COMMANDS: Final = {
    "demo": "_bundled.demo",
    "fit": "_fit.fit",
    "predict": "_predict.predict",
    "audit": "_audit.audit",
    "review": "_review.review",
    "inspect": "_model_file.inspect",
    "query": "_model_file.query",
    "export": "_model_file.export",
    "distil": "_predict.distil",
    "data": "_bundled.data",
}
"""Module and function of each command."""
PANELS: Final = {
    "Start here": ("demo", "fit", "audit"),
    "Use a model": ("predict", "query", "review", "distil", "export", "inspect"),
}


def app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with some of its commands, whose modules are imported."""
    made = typer.Typer(
        name="fairpc",
        help="Learn decisions from biased labels: fit a table, score it, audit it, query it.\n\n"
        "Start with: fairpc demo",
        epilog="Exit codes: 0 done, 1 audit --fail-over failed, 2 bad input, "
        "130 interrupted (Ctrl-C), 143 ended (SIGTERM), 129 (SIGHUP).\n\n"
        "Messages name settings as Python does: structure='forest' is --structure forest.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    made.callback()(_of_every_command)
    for name in names:
        module, function = COMMANDS[name].split(".")
        run = getattr(import_module(f"fairpc.cli.{module}"), function)
        panel = next((panel for panel, some in PANELS.items() if name in some), "More")
        made.command(name, rich_help_panel=panel)(declared(run))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit codes: 0 done; 1 ``audit --fail-over`` failed; 2 bad input;
    130 interrupted; 143 ended by SIGTERM, 129 by SIGHUP, both with the same cleaning up.
    ``--debug`` may stand anywhere and shows the traceback instead of a sentence.
    """
    if sys.stdout is None:  # so says Python where it is closed: the next file would take its place
        complain(
            "stdout is closed and results have nowhere to go: send them to a file, or /dev/null"
        )
        raise SystemExit(BAD_INPUT)
    for name, value in POLARS.items():
        os.environ.setdefault(name, value)
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments), last=arguments is None)
    except SystemExit as ended:
        if arguments is None and ended.code in STOPPED:
            # All is cleaned up, and threads would be waited for until their work is done.
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(ended.code)
        raise


def _run(given: list[str], *, last: bool) -> NoReturn:
    """Run a command, and end with its code; ``last`` if the program then ends."""
    rest = [word for word in given if word != "--debug"]
    try:
        with ending_on_signals(last=last), warnings.catch_warnings():
            asked = [word for word in rest if not word.startswith("-")][:1]
            run = app(asked if asked and asked[0] in COMMANDS else COMMANDS)
            code = run(args=rest, prog_name="fairpc", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()
    except SystemExit as ended:
        # Typer ends with code 1, which is that of a gap, where it meets a broken pipe first.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _stop_writing()
    except BaseException as error:
        # A panic of polars is not an Exception, and code 1 is that of a gap.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if len(rest) < len(given):
            traceback.print_exception(error)
        elif rest:  # without words the help was shown
            complain(_sentence(error, rest))
        raise SystemExit(BAD_INPUT) from None
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        complain("interrupted")
    raise SystemExit(code if isinstance(code, int) else 0)


def _stop_writing() -> NoReturn:
    """Whoever reads our output has seen enough; what is buffered has nowhere to go."""
    discard(sys.stdout)
    raise SystemExit(0) from None


def _sentence(error: BaseException, typed: Sequence[str]) -> str:
    """What went wrong with a command, for a reader who writes no Python."""
    if isinstance(error, typer.TyperException):
        text, context = error.format_message(), getattr(error, "ctx", None)
        if "\n" in text or context is None:
            return " ".join(text.split())
        return f"{text.rstrip('.')}: see {context.command_path} --help"
    if isinstance(error, NoPositiveError):
        return error.again(typed)
    if isinstance(error, FairpcError):
        return str(error)
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).removesuffix(".")
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, MemoryError):
        return "there is not enough memory: give fewer rows or columns, or fewer --bins"
    return (
        f"an error that should not happen ({type(error).__name__}: {error}): please report it "
        "with what --debug shows"
    )


def _show_version(wanted: bool) -> None:
    if wanted:
        from fairpc import __version__

        typer.echo(f"fairpc {__version__}")
        raise typer.Exit


def _of_every_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; with any command.")
    ] = False,
) -> None:
    """Options that hold for every command; ``main`` takes care of ``--debug``."""
