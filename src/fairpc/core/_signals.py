"""Signals that ask a program to end, as exits: what was begun is cleaned up as after Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_LATER: Final = 0.05
"""Seconds after which a signal is sent again that could not end the program."""


def interruptible_waits() -> None:
    """Have Ctrl-C end a wait for threads: polars has waits go on, from its import on."""
    if hasattr(signal, "siginterrupt"):  # Windows has none
        signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def ending_on_signals(*, last: bool = False) -> Iterator[None]:
    """A block in which SIGTERM and SIGHUP end the program as an exit does.

    After the ``last`` block of a program they change nothing: how it ends is decided.
    """
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise SystemExit(128 + number)

    def ask_again(lost: sys.UnraisableHookArgs) -> None:
        # What compilers and other foreign code call back can raise nothing: the exit is lost there.
        if not (came and isinstance(lost.exc_value, SystemExit)):
            told(lost)
            return
        timer = threading.Timer(_LATER, os.kill, (os.getpid(), came[0]))
        timer.daemon = True
        timer.start()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # nohup has it ignored, and means it.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, end)
    told, sys.unraisablehook = sys.unraisablehook, ask_again
    try:
        yield
    except BaseException:
        if came:  # foreign code that was called back may have made another error of it
            raise SystemExit(128 + came[0]) from None
        raise
    finally:
        sys.unraisablehook = told
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)
