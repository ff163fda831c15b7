"""Structure search: split edges one by one, by Strudel's heuristics or by exact gain.

This is the paper's structure learning (Section "Structure Learning"), from Strudel
(Dang, Vergari, Van den Broeck 2020). :class:`Strudel` and :class:`Gain` say which edge
is split on which variable; :class:`Search` makes the splits, as an iterator of steps,
and stops; :mod:`fairpc.structure._split` is what one split does.
"""

from __future__ import annotations

import heapq
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from fairpc.core import Bytes, Int32s, InterruptedWarning, check_choice, check_number, warn_caller
from fairpc.structure._compile import LearnedCell
from fairpc.structure._trees import information

if TYPE_CHECKING:
    from fairpc.structure._split import SplitState

LEAST_GAIN: Final = 1e-6
"""Nats below which a gain is rounding: some splits change the circuit and not its distribution."""

TIE: Final = 1e-12
"""Nats by which two summed mutual informations may differ and still be equal."""


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


Choose = Callable[[int, Int32s, Int32s], tuple[int, Bytes] | None]
"""Variable and side of each value, for an edge, its rows and its free variables; or no split."""


@dataclass(eq=False)
class FlowQueue:
    """Edges of all cells by flow, largest first; equal ones by vtree node, ancestors first.

    Lazy: a flow only ever falls, so an edge whose flow has changed since it was
    put in goes back with the present one when it comes up.
    """

    _state: SplitState
    _min_flow: float
    _heap: list[tuple[float, int, int]] = field(default_factory=list)

    def add(self, since: int) -> None:
        """Put in the edges numbered ``since`` and later that can be split."""
        edges = self._state.candidates(since, self._min_flow)
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


@dataclass(eq=False)
class Search(Iterator[Step]):
    """Splits edges one by one; each step is a split made, :meth:`best` the circuits so far.

    With held-out rows the best iterate is the one with the greatest likelihood
    of these; without, the last.
    """

    _state: SplitState
    _queue: FlowQueue
    _choose: Choose
    _stop: Stop
    best_split: int = 0  #: number of splits of the best iterate
    history: list[Step] = field(default_factory=list)
    _done: bool = False
    _queued: int = 0  #: edges that the queue knew when it was asked last
    _interrupts: _Interrupts | None = None

    def __post_init__(self) -> None:
        self._held_out = self._state.totals[1] > 0

    def __next__(self) -> Step:
        if self._done:
            raise StopIteration
        if not self.history:
            return self._record()
        split = None if self._exhausted() else self._next_split()
        if split is None:
            self._done = True
            raise StopIteration
        edge, _, variable, sides = split
        flow = self._state.flow(edge)
        with _Interrupts() if self._interrupts is None else nullcontext():
            self._state.split(*split)
            values = tuple(np.flatnonzero(sides == 0).tolist())
            return self._record(self._state.cell(edge), variable, values, flow)

    def run(self, callback: Callable[[Step], None] | None = None) -> Search:
        """Make all steps; an interrupt ends the search with a warning and keeps the best so far."""
        try:
            with _Interrupts() as self._interrupts:
                for step in self:
                    if callback is not None:
                        callback(step)
                    self._interrupts.deliver()
        except KeyboardInterrupt:
            warn_caller(
                f"interrupted after {len(self.history) - 1} splits: "
                f"the best so far, with {self.best_split}, is returned",
                InterruptedWarning,
            )
        finally:
            self._interrupts = None
        return self

    def best(self) -> list[LearnedCell]:
        """The circuits of the best iterate, one per cell. Ends the search."""
        self._done = True
        if not self.history:
            self._record()
        self._state.undo()
        return [self._state.learned(i) for i in range(self._state.n_cells)]

    def _next_split(self) -> tuple[int, Int32s, int, Bytes] | None:
        """An edge, its rows, the variable, and the side (0 or 1) of each of its values."""
        self._queue.add(self._queued)
        self._queued = self._state.n_edges
        while (edge := self._queue.pop()) is not None:
            rows = self._state.rows(edge)
            variables = np.flatnonzero(self._state.free_values(edge) > 1).astype(np.int32)
            if len(rows) and len(variables):
                chosen = self._choose(edge, rows, variables)
                if chosen is not None:
                    return edge, rows, *chosen
        return None

    def _exhausted(self) -> bool:
        last = self.history[-1]
        if last.split >= self._stop.max_splits:
            return True
        if not self._held_out:
            return False
        if last.split - self.best_split >= self._stop.patience:
            return True
        if last.split < self._stop.window:
            return False
        before = self.history[last.split - self._stop.window].validation_log_likelihood
        return abs(last.validation_log_likelihood - before) < self._stop.tolerance

    def _record(
        self,
        cell: int = -1,
        variable: int = -1,
        values: tuple[int, ...] = (),
        flow: float = np.nan,
    ) -> Step:
        state = self._state
        score = np.nan
        if self._held_out:
            score = state.held_out_log_likelihood / state.totals[1]
        mean = state.log_likelihood / max(state.totals[0], np.finfo(float).tiny)
        number = len(self.history)
        step = Step(number, cell, variable, values, flow, mean, score, state.n_parameters)
        self.history.append(step)
        best = self.history[self.best_split].validation_log_likelihood
        if not self._held_out or step.split == 0 or score > best:
            self.best_split = step.split
            state.keep()
        return step


class _Interrupts:
    """Lets an interrupt wait for the end of a split: half of one would be no circuit.

    Python hands signals to the main thread alone; and a handler that was not set
    from Python cannot be put back, so it is left in place. A search sets one for all of its
    splits, for setting it takes long beside a small split.
    """

    def __enter__(self) -> _Interrupts:
        self._caught: list[tuple[int, FrameType | None]] = []
        before = signal.getsignal(signal.SIGINT)
        here = threading.current_thread() is threading.main_thread()
        self._before = before if here and callable(before) else None
        if self._before is not None:
            signal.signal(signal.SIGINT, lambda number, frame: self._caught.append((number, frame)))
        return self

    def deliver(self) -> None:
        """Hand over an interrupt that came meanwhile."""
        if self._caught and self._before is not None:
            first = self._caught[0]
            self._caught.clear()
            self._before(*first)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self.deliver()


@dataclass(frozen=True)
class Strudel:
    """Strudel's search: the edge with most flow, on the variable that depends most on others.

    That is eFlow and vMI: of the variables free below the edge, the one with the largest summed
    mutual information among its rows. A split copies the product alone, as in the paper.

    Attributes:
        min_flow: least weight of rows of an edge to be split.
        stop: when the search ends.
    """

    min_flow: float = 0.0
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        check_number("min_flow", self.min_flow, 0.0)

    def search(self, state: SplitState) -> Search:
        """A search over the edges of all cells of ``state``."""

        def choose(edge: int, rows: Int32s, variables: Int32s) -> tuple[int, Bytes]:
            x = _most_dependent(state, edge, rows, variables)
            if state.free_values(edge)[x] == 2:
                return x, state.halves(edge, x)
            return state.best_split(edge, rows, np.array([x], np.int32), 0.0)[:2]

        return Search(state, FlowQueue(state, self.min_flow), choose, self.stop)


def _most_dependent(state: SplitState, edge: int, rows: Int32s, variables: Int32s) -> int:
    """vMI: the variable with the largest summed mutual information, the first of equals."""
    if len(variables) == 1:
        return int(variables[0])
    flow = state.row_weights[rows, 0]
    seen = flow > 0  # held-out rows have none
    if not seen.all():
        rows, flow = rows[seen], flow[seen]
    every = np.diff(state.start)
    sizes = every[variables]
    chosen = np.zeros(len(every), bool)
    chosen[variables] = True
    known = state.possible(edge)[np.repeat(chosen, every)]
    own = state.codes[np.ix_(variables, rows)], flow
    score = information([own], sizes, possible=known).sum(axis=0)
    return int(variables[np.argmax(score >= score.max() - TIE)])


Criterion = Literal["aic", "bic"]
CRITERIA: Final = ("aic", "bic")
"""Akaike's and the Bayesian information criterion: what a parameter must gain."""


@dataclass(frozen=True)
class Gain:
    """Greedy search by exact gain: the edge with most flow, split where it gains most.

    An edge is split on the variable (and values) with the largest gain in
    maximum training likelihood less a price per new parameter, and left alone
    for good where that is not positive. Parameters that a split saves are not paid for.

    The circuit is deterministic, so the likelihood is a sum over nodes of Σ c log c over
    the edges less that of their total, and what a split gains follows from counts of its
    edge's rows. Unlike Strudel's heuristic this sees when a split is not worth its
    parameters, and stops by itself.

    Attributes:
        price: nats per new free parameter; "aic" is 1, "bic" half the log of the rows' weight.
        min_flow: least weight of rows of an edge to be split.
        stop: when the search ends, if it still gains.
    """

    price: float | Criterion = 2.0
    min_flow: float = 10.0
    stop: Stop = field(default_factory=lambda: Stop(max_splits=100_000))

    def __post_init__(self) -> None:
        if isinstance(self.price, str):
            check_choice("price", self.price, CRITERIA)
        else:
            check_number("price", self.price, 0.0)
        check_number("min_flow", self.min_flow, 0.0)

    def nats(self, weight: float) -> float:
        """Price of a parameter where the rows weigh ``weight`` together."""
        if isinstance(self.price, str):
            return 1.0 if self.price == "aic" else 0.5 * float(np.log(max(weight, 1.0)))
        return float(self.price)

    def search(self, state: SplitState) -> Search:
        """A search over the edges of all cells of ``state``."""
        nats = self.nats(float(state.totals[0]))

        def choose(edge: int, rows: Int32s, variables: Int32s) -> tuple[int, Bytes] | None:
            x, sides, gain, parameters = state.best_split(edge, rows, variables, nats)
            return None if gain - nats * max(parameters, 0) <= LEAST_GAIN else (x, sides)

        return Search(state, FlowQueue(state, self.min_flow), choose, self.stop)


Method = Strudel | Gain
MethodName = Literal["strudel", "gain", "chow-liu"]
METHODS: Final[dict[MethodName, Method]] = {
    "strudel": Strudel(),
    "gain": Gain(),
    "chow-liu": Strudel(stop=Stop(max_splits=0)),  # trees without any split
}
"""The methods by name: the one list of them."""

ModelMethod = Literal["strudel", "chow-liu"]
MODEL_METHODS: Final[tuple[ModelMethod, ...]] = ("strudel", "chow-liu")
"""Those by which a model can be asked to learn P(x | f, s)."""

HELD_OUT: Final[frozenset[str]] = frozenset({"strudel"})
"""Those of a model that choose where to stop on held-out rows."""
