"""What the commands print: tables and text for people, one JSON value for programs."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fairpc.data.source import Warned


@dataclass(frozen=True)
class Voice:
    """How a command speaks.

    Attributes:
        json: one JSON value on stdout and nothing else.
        quiet: nothing but results and errors.
    """

    json: bool = False
    quiet: bool = False

    @property
    def talks(self) -> bool:
        """Whether text for people is wanted on stdout."""
        return not (self.json or self.quiet)

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and sys.stderr.isatty()

    def note(self, text: str) -> None:
        """A remark on stderr, so that what is piped stays clean."""
        if not self.quiet:
            print(f"fairpc: note: {text}", file=sys.stderr)  # noqa: T201

    def notes(self, warned: Warned) -> None:
        for text in warned.sentences():
            self.note(text)

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Progress]:
        """A bar on a terminal, nothing elsewhere; its first task is ``what``."""
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        bar = Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not self.shows_progress
        )
        with bar:
            bar.add_task(what, total=total)
            yield bar


class Log(logging.Handler):
    """What fairpc's log says, said as notes."""

    def __init__(self, voice: Voice) -> None:
        super().__init__(logging.INFO)
        self.voice = voice

    def emit(self, record: logging.LogRecord) -> None:
        self.voice.note(record.getMessage())


def hear(voice: Voice) -> None:
    """Have the voice of the command that runs say what is logged."""
    log = logging.getLogger("fairpc")
    log.setLevel(logging.INFO)
    log.handlers = [Log(voice)]


def console() -> Console:
    """Colours and lines on a terminal; elsewhere plain text that is never cut at a width."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=200, no_color=True)


def say(text: str, out: Console, style: str = "") -> None:
    """A line of text, in which brackets mean nothing."""
    out.print(Text(text, style=style), soft_wrap=not out.is_terminal)


def grid(
    out: Console, head: Sequence[str], lines: Iterable[Sequence[str]], *, right: bool = True
) -> None:
    """A table; the columns after the first are flush right, or flush left."""
    plain = not out.is_terminal
    shown = Table(*head, box=None if plain else box.SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns[1:]:
        column.justify = "right" if right else "left"
    if plain:
        for column in shown.columns:
            column.no_wrap = True
    for line in lines:
        shown.add_row(*(Text(cell) for cell in line))
    out.print(shown, soft_wrap=plain)
    out.print()


def print_json(value: Any) -> None:
    """One JSON value on stdout; what JSON has no word for (infinity, NaN) is null."""
    json.dump(_plain(value), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
