"""Python threads over kernels that release the interpreter lock."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from fairpc.errors import OptionError
from fairpc.errors.arrays import Floats

T = TypeVar("T")


def thread_count(n_threads: int | None) -> int:
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


def map_in_order(function: Callable[[int], T], n_tasks: int, n_threads: int) -> Iterable[T]:
    """``function(0), function(1), …``, computed side by side, given back in order.

    What a task computes never depends on the number of threads, and callers add
    results up in order: the sums are the same to the bit for any number.
    """
    if n_threads == 1 or n_tasks <= 1:
        return map(function, range(n_tasks))
    return _pool(n_threads).map(function, range(n_tasks))


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Kept for the life of the process: EM asks for it at every iteration."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="fairpc")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes pools of its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


class Workspace(threading.local):
    """Room for numbers, each thread's own: fresh pages would cost more than the arithmetic."""

    _room: Floats = np.empty(0)

    def take(self, *shape: int) -> Floats:
        """An array of this shape with anything in it; what was taken before is given up."""
        size = math.prod(shape)
        if len(self._room) < size:
            self._room = np.empty(size)
        return self._room[:size].reshape(shape)
