"""Threads: how many there are, and tasks that they work on side by side.

Kernels and linear algebra release the interpreter lock, so Python threads are enough.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from fairpc.core._errors import OptionError
from fairpc.core._signals import interruptible_waits

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
    if n_threads == 1 or len(tasks) <= 1 or _here.is_worker:
        return map(function, tasks)
    return _pool(n_threads).map(function, tasks)


class _Here(threading.local):
    """Whether this thread works on somebody's tasks."""

    is_worker = False


_here = _Here()


def _begin() -> None:
    _here.is_worker = True


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Kept for the life of the process: EM asks for it at every iteration."""
    interruptible_waits()
    return ThreadPoolExecutor(n_threads, thread_name_prefix="fairpc", initializer=_begin)


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes pools of its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)
