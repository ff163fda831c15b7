"""How much of a long work is done, in words or as a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fairpc.core import (
    showing_progress,
    terminal,
)

STAGE: Final = "stage"
"""A unit of work that people wait for, whose number stands behind its words."""


@dataclass(frozen=True)
class Progress:
    """How much is done.

    Attributes:
        what: what is being done, in words.
        done, total: steps; a total of 0 is not known.
        unit: what one of them is called, where ``what`` says what the next one does.
    """

    what: str
    done: int
    total: int
    unit: str = ""

    @property
    def line(self) -> str:
        """All of it in words."""
        if not self.total:
            return f"{self.done:,} {self.what} so far"
        if self.unit == STAGE:
            return f"{self.what} {self.done + 1}/{self.total}"
        if self.unit:
            return f"{self.unit} {self.done + 1:,} of {self.total:,}, {self.what}"
        return f"{self.what}, {self.done:,} of {self.total:,}"


Report = Callable[[Progress], object]


@contextmanager
def progress(shown: bool) -> Iterator[Report]:
    """A function to call with what is done, which a bar shows if ``shown``.

    Where there is no terminal to draw it on, a line now and then says the same.
    """
    console = terminal() if shown else None
    if console is None:
        with showing_progress("fairpc", shown=shown) as say:
            yield lambda now: say(now.line)
        return
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(now: Progress) -> None:
            words = now.line if now.unit == STAGE else now.what
            bar.update(task, description=words, completed=now.done, total=now.total or None)

        yield show
