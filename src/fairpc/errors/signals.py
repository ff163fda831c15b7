"""Signals that ask a program to end, as exits: what was begun is cleaned up as after Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """A block in which SIGTERM and SIGHUP end the program as an exit does."""
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # nohup has it ignored, and means it.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, end)
    try:
        yield
    except BaseException:
        if came:  # foreign code that was called back may have made another error of it
            raise SystemExit(128 + came[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
