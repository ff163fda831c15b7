"""A progress line on a terminal for long fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairpc.circuit.em import Step
from fairpc.data.source import Progress


@contextmanager
def progress(
    name: str, verbose: int, callback: Callable[[Step], object] | None
) -> Iterator[Callable[[Step], object]]:
    """A function to call with each step: the user's callback and, if ``verbose``, a line."""
    if not verbose:
        yield callback or (lambda step: None)
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{name}: structure") as status:

        def show(step: Step) -> None:
            status.update(f"{name}: EM {step.iteration}, log-likelihood {step.log_likelihood:,.2f}")
            if callback is not None:
                callback(step)

        yield show


@contextmanager
def reading(name: str, verbose: int) -> Iterator[Callable[[Progress], object] | None]:
    """A function to call with how far a table is read; None unless ``verbose``."""
    if not verbose:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{name}: reading") as status:

        def show(progress: Progress) -> None:
            done = f"{progress.done:,} {progress.unit}"
            if progress.total:
                done = f"{progress.done / progress.total:.0%} of {progress.total / 1e6:,.0f} MB"
            status.update(f"{name}: {progress.stage}, {done}")

        yield show
