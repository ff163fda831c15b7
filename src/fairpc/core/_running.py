"""How work runs: threads, forks of the process, signals that end it, progress that it reports.

Kernels and linear algebra release the interpreter lock, so Python threads are enough.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

from fairpc.core._errors import ForkError, OptionError

if TYPE_CHECKING:
    from rich.console import Console

S = TypeVar("S")
T = TypeVar("T")


def thread_count(n_threads: int | None = None) -> int:
    """The number asked for, else ``FAIRPC_THREADS``, else the cores this process may use."""
    if n_threads is None:
        given = os.environ.get("FAIRPC_THREADS", "")
        if given.isdecimal() and int(given) > 0:
            return int(given)
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if n_threads < 1:
        raise OptionError(f"n_threads is {n_threads}: give a number of threads from 1 on")
    return n_threads


def map_in_order(
    function: Callable[[S], T], tasks: Sequence[S], n_threads: int | None = None
) -> Iterable[T]:
    """What ``function`` gives for each task, computed side by side, given back in order.

    What a task computes never depends on the number of threads, and callers add
    results up in order: the sums are the same to the bit for any number. A task that has tasks of
    its own works on them one after the other, or threads would wait for each other.
    """
    n_threads = thread_count(n_threads)
    if n_threads == 1 or len(tasks) <= 1 or hasattr(_here, "is_worker"):
        return map(function, tasks)
    return _pool(n_threads).map(function, tasks)


def one_thread(api: str | None = None) -> AbstractContextManager[object]:
    """One thread, of all libraries or some: where others use the cores, threads wait and spin."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api=api)
    return limits


_here = threading.local()  #: it has ``is_worker`` in threads that work on somebody's tasks


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Kept for the life of the process: EM asks for it at every iteration."""
    interruptible_waits()
    begin = partial(setattr, _here, "is_worker", True)
    return ThreadPoolExecutor(n_threads, thread_name_prefix="fairpc", initializer=begin)


class _Threads:
    """Polars waits for ever for threads of before a fork, which are not in the forked process."""

    begun: bool = False  #: polars had threads when a fork began
    gone: bool = False  #: they are those of another process


def _look() -> None:
    """Linux names the threads of a process; elsewhere they are not known."""
    tasks = Path("/proc/self/task")
    try:
        names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
    except OSError:
        names = []
    _Threads.begun = any(re.fullmatch(r"polars-\d+", name) for name in names)


def _forked() -> None:
    _Threads.gone = _Threads.gone or _Threads.begun
    _pool.cache_clear()


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
        # What compilers and other foreign code call back can raise nothing: the exit is lost there,
        # and the signal is sent again.
        if not (came and isinstance(lost.exc_value, SystemExit)):
            hook(lost)
            return
        timer = threading.Timer(0.05, os.kill, (os.getpid(), came[0]))
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
    hook, sys.unraisablehook = sys.unraisablehook, ask_again
    try:
        yield
    except BaseException:
        if came:  # foreign code that was called back may have made another error of it
            raise SystemExit(128 + came[0]) from None
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)


Say = Callable[[str], object]  #: called with what is being done, in words
FIRST: Final = 10.0  # seconds after which work that is not watched says where it is
EVERY: Final = 30.0  # seconds between two such lines


def terminal() -> Console | None:
    """The console on stderr where lines can change; None where they are printed one by one."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None


@contextmanager
def showing_progress(name: str, *, shown: bool = True) -> Iterator[Say]:
    """A block with a function to say what is being done; unless ``shown``, nobody sees it.

    ``name`` says whose work it is. On a terminal a line changes; elsewhere a line comes now and
    then from another thread, or a fit would be silent for as long as it takes.
    """
    if not shown:
        yield lambda text: None
        return
    console = terminal()
    if console is not None:
        with console.status(name) as status:
            yield lambda text: status.update(f"{name}: {text}")
        return
    began, over, now = perf_counter(), Event(), ["begins"]

    def report() -> None:
        pause = FIRST
        while not over.wait(pause):
            seconds = perf_counter() - began
            print(f"{name}, {seconds:,.0f} s: {now[0]}", file=sys.stderr, flush=True)  # noqa: T201
            pause = EVERY

    def say(text: str) -> None:
        now[0] = text

    reporter = Thread(target=report, name="fairpc-progress", daemon=True)
    reporter.start()
    try:
        yield say
    finally:
        over.set()
        reporter.join()
