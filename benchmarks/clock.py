"""Seconds of a call, and the parts of a script that are named on its command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from time import process_time
from typing import TypeVar

T = TypeVar("T")


def timed(
    call: Callable[[], T], repeats: int = 1, clock: Callable[[], float] = process_time
) -> tuple[T, float]:
    """What a call gives, and the seconds of the fastest of some; of the processor by default."""
    seconds = []
    for _ in range(repeats):
        start = clock()
        found = call()
        seconds.append(clock() - start)
    return found, min(seconds)


def best(
    call: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = process_time
) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    call()
    return timed(call, repeats, clock)[1]


def run_parts(parts: Mapping[str, Callable[[], None]]) -> None:
    """Run the parts that are named, or all."""
    for name in sys.argv[1:] or parts:
        if name not in parts:
            sys.exit(f"{name!r} is not a part: give some of {', '.join(parts)}")
        parts[name]()
