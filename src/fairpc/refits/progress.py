"""How far refits have come: a record for callbacks, and a bar on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How much is done.

    Attributes:
        what: what is being done, in words.
        done, total: steps.
    """

    what: str
    done: int
    total: int


Report = Callable[[Progress], object]


@contextmanager
def progress(verbose: bool, callback: Report | None) -> Iterator[Report]:
    """A function to call with what is done: the user's callback and, if ``verbose``, a bar."""
    if not verbose:
        yield callback or (lambda progress: None)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("refits")

        def show(now: Progress) -> None:
            bar.update(task, description=now.what, completed=now.done, total=now.total)
            if callback is not None:
                callback(now)

        yield show
