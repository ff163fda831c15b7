"""How methods are run: one on a fold, with its seconds; and many jobs, what is kept left out.

A method learns from training rows and decides about others. What rows are is for its maker to say:
numbers of rows of a table here, codes in the reproduction of the paper, frames in the benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, Protocol

import numpy as np

from fairpc.core import Array, Floats, interruptible_waits


@dataclass(frozen=True, eq=False)
class Decided:
    """What a method says of some rows."""

    scores: Floats | None  #: of the positive decision; None where a method only decides
    decisions: Array  #: the decision, or the chance of the positive one
    log_likelihood: Floats | None = None  #: log P(x, s, d), of distributions

    @classmethod
    def by_half(cls, scores: Floats) -> Decided:
        """Decisions for scores above one half."""
        return cls(scores, (scores > 0.5).astype(np.float64))


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """What a method learned: a rule, and its model where somebody may ask it more."""

    decide: Callable[[Any], Decided]
    model: Any = None


Method = Callable[[Any, int], FittedMethod]
"""Training rows and a seed to what was learned."""


@dataclass(frozen=True, eq=False)
class Run:
    """A method on one fold."""

    fitted: FittedMethod
    decided: Decided  #: of the test rows
    seconds: float  #: of the fit, by the clock
    cpu: float  #: of the fit, of the processor


def run_method(method: Method, train: Any, test: Any, seed: int = 0) -> Run:
    """Fit a method to training rows and apply it to test rows."""
    began, cpu = perf_counter(), process_time()
    fitted = method(train, seed)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    return Run(fitted, fitted.decide(test), seconds, cpu)


class Kept(Protocol):
    """Where results of jobs are found again."""

    def get(self, job: Any) -> Any:
        """What was kept of a job; None where nothing was."""

    def put(self, job: Any, result: Any) -> None:
        """Keep a result."""


Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[tuple[int, Any]]]
"""Deals jobs out: gives the number of each, and what came of it, as they end."""


def one_by_one(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    return ((i, work(job)) for i, job in enumerate(jobs))


def in_threads(n_threads: int) -> Spread:
    def spread(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        pool = ThreadPoolExecutor(n_threads)
        interruptible_waits()
        try:
            yield from enumerate(pool.map(work, jobs))
        finally:
            # Whoever interrupts does not wait for the fits that have begun.
            pool.shutdown(wait=False, cancel_futures=True)

    return spread


def run_jobs(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    spread: Spread = one_by_one,
    kept: Kept | None = None,
    done: Callable[[Any], object] = lambda job: None,
) -> list[Any]:
    """What comes of each job, in their order; what was kept is not run again.

    ``done`` is called with each job as soon as there is a result.
    """
    found = [None if kept is None else kept.get(job) for job in jobs]
    for job, result in zip(jobs, found, strict=True):
        if result is not None:
            done(job)
    left = [i for i, result in enumerate(found) if result is None]
    for k, result in spread(work, [jobs[i] for i in left]):
        found[left[k]] = result
        if kept is not None:
            kept.put(jobs[left[k]], result)
        done(jobs[left[k]])
    return found
