"""The command ``fairpc``: what goes wrong is one sentence on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Final, NoReturn

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# polars reads ahead, several groups of rows per core: of a file with groups of a million rows
# that is more memory than all the rest. It looks at this when it first opens a file.
POLARS: Final = {
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
    "POLARS_RECORD_BATCH_PREFETCH_SIZE": "1",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit codes: 0 done; 1 the gap of ``audit --fail-over`` was exceeded; 2 bad input;
    130 interrupted; 143 ended by SIGTERM, which a fit with a checkpoint turns into an exit.
    ``--debug`` may stand anywhere and shows the traceback instead.
    """
    from fairpc.cli.app import app

    for name, value in POLARS.items():
        os.environ.setdefault(name, value)
    given = list(sys.argv[1:] if arguments is None else arguments)
    rest = [word for word in given if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            code = app(args=rest, prog_name="fairpc", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()
    except SystemExit as ended:
        # Typer ends with code 1, which is that of a gap, where it meets a broken pipe first.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _stop_writing()
    except Exception as error:
        if len(rest) < len(given):
            raise
        if not rest:
            print(error, file=sys.stderr)  # noqa: T201 - the help, for a call without words
        else:
            _say(sentence(error))
        raise SystemExit(BAD_INPUT) from None
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        _say("interrupted")
    raise SystemExit(code if isinstance(code, int) else 0)


def _stop_writing() -> NoReturn:
    """Whoever reads our output has seen enough; what is buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0) from None


def sentence(error: Exception) -> str:
    """What went wrong, for a reader who writes no Python."""
    import typer

    from fairpc.cli.arguments import as_options
    from fairpc.errors import FairpcError

    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, FairpcError):
        return as_options(str(error))
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).removesuffix(".")
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, MemoryError):
        return "there is not enough memory: give fewer rows or columns, or fewer --bins"
    return (
        f"an error that should not happen ({type(error).__name__}: {error}): please report it "
        "with what --debug shows"
    )


def _usage(error: Exception) -> str:
    import typer

    text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    context = getattr(error, "ctx", None)
    if "\n" in text or context is None:
        return text
    return f"{text.rstrip('.')}: see {context.command_path} --help"


def _note(message: Warning | str, *_: object, **__: object) -> None:
    """A warning of a library, in one line and without its place in the code."""
    _say("note: " + " ".join(str(message).split()))


def _say(text: str) -> None:
    print(f"fairpc: {text}", file=sys.stderr)  # noqa: T201
