"""What long work says of itself: a line that changes on a terminal, elsewhere a line now and then.

A fit whose output goes to a file or a pipe would otherwise be silent for as long as it takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], object]
"""Called with what is being done, in words."""

FIRST: Final = 10.0
"""Seconds after which work that is not watched says where it is."""
EVERY: Final = 30.0
"""Seconds between two such lines."""


def terminal() -> Console | None:
    """The console on stderr where lines can change; None where they are printed one by one."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None


@contextmanager
def talking(name: str, *, shown: bool = True) -> Iterator[Say]:
    """A block with a function that is told what is being done; unless ``shown``, nobody hears it.

    ``name`` says whose work it is.
    """
    console = terminal() if shown else None
    if not shown:
        yield lambda text: None
    elif console is not None:
        with console.status(name) as status:
            yield lambda text: status.update(f"{name}: {text}")
    else:
        with _lines(name) as say:
            yield say


@contextmanager
def _lines(name: str) -> Iterator[Say]:
    """Lines on stderr from another thread, so that they come while one step takes long."""
    began, over, now = perf_counter(), Event(), ["begins"]

    def speak() -> None:
        pause = FIRST
        while not over.wait(pause):
            seconds = perf_counter() - began
            print(f"{name}, {seconds:,.0f} s: {now[0]}", file=sys.stderr, flush=True)  # noqa: T201
            pause = EVERY

    def say(text: str) -> None:
        now[0] = text

    speaker = Thread(target=speak, name="fairpc-talk", daemon=True)
    speaker.start()
    try:
        yield say
    finally:
        over.set()
        speaker.join()
