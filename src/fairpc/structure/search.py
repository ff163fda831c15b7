"""Greedy search over splits, as an iterator of steps."""

from __future__ import annotations

import heapq
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import numpy as np

from fairpc.errors import InterruptedWarning
from fairpc.errors.arrays import Bytes, Int32s, check_number
from fairpc.structure.split import LearnedCell, SplitState


@dataclass(frozen=True)
class Step:
    """One point of a search; the first, with ``split`` 0, is the circuit before any split.

    Attributes:
        split: number of splits made.
        cell, variable, values: where the last one was, and the values it set against the rest.
        flow: weight of the rows of the edge that was split.
        log_likelihood: mean over the training rows, with the parameters as smoothed.
        validation_log_likelihood: mean over the held-out rows, nan where there are none.
        n_parameters: size of the circuits of all cells.
    """

    split: int
    cell: int
    variable: int
    values: tuple[int, ...]
    flow: float
    log_likelihood: float
    validation_log_likelihood: float
    n_parameters: int


@dataclass(frozen=True, eq=False)
class Split:
    """A split that was chosen: edge, its rows, and the side (0 or 1) of each value."""

    edge: int
    rows: Int32s
    variable: int
    sides: Bytes


@dataclass(frozen=True)
class Stop:
    """When a search ends (paper, Section "Structure Learning" and its published code).

    Attributes:
        max_splits: most splits made.
        patience: splits without a new best validation likelihood.
        tolerance, window: ends when the validation likelihood of a row has moved less than
            ``tolerance`` over the last ``window`` splits.
    """

    max_splits: int = 1000
    patience: int = 100
    tolerance: float = 1e-4
    window: int = 100

    def __post_init__(self) -> None:
        check_number("max_splits", self.max_splits, 0)
        check_number("patience", self.patience, 1)
        check_number("tolerance", self.tolerance, 0.0)
        check_number("window", self.window, 1)


class EdgeQueue(Protocol):
    """Candidate edges of all cells."""

    def push(self, edges: Int32s) -> None: ...

    def pop(self) -> int | None: ...


class FlowQueue:
    """Edges by flow, largest first; equal flows by vtree node (ancestors first), then by age.

    Lazy: a flow only ever falls, so an edge whose flow has changed since it was
    put in goes back with the present one when it comes up.
    """

    def __init__(self, state: SplitState, min_flow: float) -> None:
        self._state = state
        self._min_flow = min_flow
        self._heap: list[tuple[float, int, int]] = []

    def push(self, edges: Int32s) -> None:
        flows, vnodes = self._state.keys(edges)
        for flow, vnode, e in zip(flows.tolist(), vnodes.tolist(), edges.tolist(), strict=True):
            heapq.heappush(self._heap, (-flow, -vnode, e))

    def pop(self) -> int | None:
        while self._heap:
            key, vnode, e = heapq.heappop(self._heap)
            flow = self._state.flow(e)
            if flow == -key:
                return e
            if flow > 0 and flow >= self._min_flow:
                heapq.heappush(self._heap, (-flow, vnode, e))
        return None


class RandomQueue:
    """Edges in random order, each as likely as any other."""

    def __init__(self, state: SplitState, min_flow: float, rng: np.random.Generator) -> None:
        self._state = state
        self._min_flow = min_flow
        self._rng = rng
        self._edges: list[int] = []

    def push(self, edges: Int32s) -> None:
        self._edges += edges.tolist()

    def pop(self) -> int | None:
        while self._edges:
            i = int(self._rng.integers(len(self._edges)))
            self._edges[i], self._edges[-1] = self._edges[-1], self._edges[i]
            flow = self._state.flow(e := self._edges.pop())
            if flow > 0 and flow >= self._min_flow:
                return e
        return None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let an interrupt wait for the end: half a split would be no circuit.

    Python hands signals to the main thread alone; and a handler that was not set
    from Python cannot be put back, so it is left in place.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[0])


class Search(Iterator[Step]):
    """Splits edges one by one; each step is a split made, :meth:`best` the circuits so far.

    With held-out rows the best iterate is the one with the greatest likelihood
    of these; without, the last.
    """

    def __init__(
        self,
        state: SplitState,
        queue: EdgeQueue,
        choose: Callable[[int], Split | None],
        stop: Stop,
        *,
        min_flow: float,
        split_depth: int = 1,
    ) -> None:
        self._state = state
        self._queue = queue
        self._choose = choose
        self._stop = stop
        self._min_flow = min_flow
        self._depth = split_depth
        self._history: list[Step] = []
        self._best = 0
        self._done = False
        self._held_out = state.totals[2] > 0
        queue.push(state.candidates(0, min_flow))

    @property
    def history(self) -> tuple[Step, ...]:
        return tuple(self._history)

    @property
    def best_split(self) -> int:
        """Number of splits of the best iterate."""
        return self._best

    def __next__(self) -> Step:
        if self._done:
            raise StopIteration
        if not self._history:
            return self._record(None)
        split = None if self._exhausted() else self._next_split()
        if split is None:
            self._done = True
            raise StopIteration
        since = self._state.n_edges
        flow = self._state.flow(split.edge)
        with _uninterrupted():
            self._state.split(split.edge, split.rows, split.variable, split.sides, self._depth)
            step = self._record(split, flow)
        self._queue.push(self._state.candidates(since, self._min_flow))
        return step

    def run(self, callback: Callable[[Step], None] | None = None) -> Search:
        """Make all steps; an interrupt ends the search with a warning and keeps the best so far."""
        try:
            for step in self:
                if callback is not None:
                    callback(step)
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted after {len(self._history) - 1} splits: "
                f"the best so far, with {self._best}, is given back",
                InterruptedWarning,
                stacklevel=2,
            )
        return self

    def best(self) -> list[LearnedCell]:
        """The circuits of the best iterate, one per cell. Ends the search."""
        self._done = True
        if not self._history:
            self._record(None)
        self._state.undo()
        return [self._state.learned(i) for i in range(self._state.n_cells)]

    def _next_split(self) -> Split | None:
        while (edge := self._queue.pop()) is not None:
            split = self._choose(edge)
            if split is not None:
                return split
        return None

    def _exhausted(self) -> bool:
        last = self._history[-1]
        if last.split >= self._stop.max_splits:
            return True
        if not self._held_out:
            return False
        if last.split - self._best >= self._stop.patience:
            return True
        if last.split < self._stop.window:
            return False
        before = self._history[last.split - self._stop.window].validation_log_likelihood
        return abs(last.validation_log_likelihood - before) < self._stop.tolerance

    def _record(self, split: Split | None, flow: float = np.nan) -> Step:
        state = self._state
        score = np.nan
        if self._held_out:
            score = state.held_out_log_likelihood / state.totals[2]
        step = Step(
            split=len(self._history),
            cell=-1 if split is None else state.cell(split.edge),
            variable=-1 if split is None else split.variable,
            values=() if split is None else tuple(np.flatnonzero(split.sides == 0).tolist()),
            flow=flow,
            log_likelihood=state.log_likelihood / max(state.totals[1], np.finfo(float).tiny),
            validation_log_likelihood=score,
            n_parameters=state.n_parameters,
        )
        self._history.append(step)
        best = self._history[self._best].validation_log_likelihood
        if not self._held_out or step.split == 0 or score > best:
            self._best = step.split
            state.keep()
        return step
