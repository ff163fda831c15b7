"""Whether the threads of polars are there: they do not survive a fork of the process.

Polars keeps its threads once it has used them. In a process that was forked afterwards it would
wait for them for ever. What ``predict`` does with rows in memory does without them; what cannot is
refused here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from fairpc.core._errors import ForkError

_THREAD: Final = re.compile(r"polars-\d+")


class _Threads:
    """What is known of this process."""

    begun: bool = False  #: polars had threads when a fork began
    gone: bool = False  #: they are those of another process


def _look() -> None:
    """Linux names the threads of a process; elsewhere they are not known."""
    tasks = Path("/proc/self/task")
    try:
        names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
    except OSError:
        names = []
    _Threads.begun = any(_THREAD.fullmatch(name) for name in names)


def _forked() -> None:
    _Threads.gone = _Threads.gone or _Threads.begun


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_forked)


def need_threads(what: str) -> None:
    """A ForkError where polars would wait for threads that are not there."""
    if _Threads.gone:
        raise ForkError(
            f"{what} needs threads of polars, which a process that was forked after they had been "
            "used does not have: start processes with 'spawn' or 'forkserver', or fork before the "
            "first fit, prediction or reading of a file"
        )
