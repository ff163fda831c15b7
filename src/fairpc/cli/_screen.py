"""What the commands print: tables and text for people, one JSON value for programs."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TextIO

import typer

from fairpc import data
from fairpc.core import brief, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


Tone = Literal["good", "warn", "bad", "plain"]
_TONES: Final = {"good": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}

_JSON = typer.Option("--json", metavar=" ", help="Print one JSON value and nothing else.")
_QUIET = typer.Option("--quiet", "-q", metavar=" ", help="Print results and errors only.")


@dataclass(frozen=True)
class Screen:
    """How much a command prints, and for whom."""

    json: Annotated[bool, _JSON] = False
    quiet: Annotated[bool, _QUIET] = False

    @property
    def prints_text(self) -> bool:
        """Whether text for people is wanted on stdout."""
        return not (self.json or self.quiet)

    @property
    def shows_progress(self) -> bool:
        """Whether long work says where it is: on a terminal all the time, else now and then."""
        return not self.quiet

    def note(self, text: str) -> None:
        """A remark on stderr, so that what is piped stays clean."""
        if not self.quiet:
            complain(f"note: {text}")

    def notes(self, warned: data.Warned) -> None:
        for text in warned.sentences():
            self.note(text)


def log_to(screen: Screen) -> None:
    """Print what is logged while a command runs, and warnings of libraries, as its notes."""

    def note(message: Warning | str, *_: object, **__: object) -> None:
        screen.note(" ".join(str(message).split()))

    warnings.showwarning = note
    handler, log = logging.Handler(logging.INFO), logging.getLogger("fairpc")
    handler.emit = lambda record: screen.note(record.getMessage())  # type: ignore[method-assign]
    log.setLevel(logging.INFO)
    log.handlers = [handler]


def complain(text: str) -> None:
    """A line on stderr; work goes on, and its files are written, where nobody reads that."""
    try:
        print(f"fairpc: {brief(text)}", file=sys.stderr)  # noqa: T201
    except BrokenPipeError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let a stream that nobody reads end nowhere, with what is buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def console() -> Console:
    """Colours and lines on a terminal; elsewhere plain text that is never cut at a width."""
    from rich.console import Console

    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=200, no_color=True)


def say(text: str = "", style: str = "") -> None:
    """A line of text on stdout, in which brackets mean nothing; empty ones before it or after."""
    from rich.text import Text

    out = console()
    line = text.strip("\n")
    out.print(Text(text.replace(line, shown(line)), style=style), soft_wrap=not out.is_terminal)


def headline(text: str, tone: Tone = "plain") -> None:
    """A finding, in bold; with a mark and a colour on a terminal."""
    if tone == "plain" or not console().is_terminal:
        say(text, "bold")
        return
    mark, colour = _TONES[tone]
    say(f"{mark} {text}", f"bold {colour}")


def grid(head: Sequence[str], lines: Iterable[Sequence[str | Text]], *, right: bool = True) -> None:
    """A table on stdout; the columns after the first are flush right, or flush left."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    piped = not out.is_terminal
    table = Table(box=None if piped else box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(head):
        side: Any = "right" if i and right else "left"
        table.add_column(Text(shown(name)), justify=side, no_wrap=piped)
    for line in lines:
        table.add_row(*(Text(shown(cell)) if isinstance(cell, str) else cell for cell in line))
    out.print(table, soft_wrap=piped)
    out.print()


def print_json(value: Any) -> None:
    """One JSON value on stdout; what JSON has no word for (infinity, NaN) is null."""
    from fairpc.core import serialise

    text = json.dumps(serialise(value), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n".join(map(shown, text.split("\n"))) + "\n")
