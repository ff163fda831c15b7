"""Splits by their exact gain in likelihood.

The circuit is deterministic, so the likelihood is a sum over nodes of
Σ c log c over the edges less that of their total, and what a split gains follows
from counts of its edge's rows. Unlike Strudel's heuristic this sees when a split is not
worth its parameters, and stops by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from fairpc.errors.arrays import check_choice, check_number
from fairpc.structure.search import FlowQueue, Search, Split, Stop
from fairpc.structure.split import SplitState

Criterion = Literal["aic", "bic"]
CRITERIA: Final = ("aic", "bic")

LEAST_GAIN: Final = 1e-6
"""Nats below which a gain is rounding: some splits change the circuit and not its distribution."""


@dataclass(frozen=True)
class Gain:
    """Greedy search by exact gain: the edge with most flow, split where it gains most.

    An edge is split on the variable (and values) with the largest gain in
    maximum training likelihood less a price per new parameter, and left alone
    for good where that is not positive. Parameters that a split saves are not paid for.

    Attributes:
        price: nats per new free parameter; "aic" is 1, "bic" half the log of the rows' weight.
        min_flow: least weight of rows of an edge to be split.
        stop: when the search ends, if not for want of gain.
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
        if self.price == "aic":
            return 1.0
        if self.price == "bic":
            return 0.5 * float(np.log(max(weight, 1.0)))
        return float(self.price)

    def search(self, state: SplitState, rng: np.random.Generator) -> Search:
        """A search over the edges of all cells of ``state``; nothing in it is random."""
        nats = self.nats(float(state.totals[0]))

        def choose(edge: int) -> Split | None:
            rows = state.rows(edge)
            variables = np.flatnonzero(state.free_values(edge) > 1).astype(np.int32)
            if not len(rows) or not len(variables):
                return None
            x, sides, gain, parameters = state.best_split(edge, rows, variables, nats)
            if gain - nats * max(parameters, 0) <= LEAST_GAIN:
                return None
            return Split(edge, rows, x, sides)

        queue = FlowQueue(state, self.min_flow)
        return Search(state, queue, choose, self.stop, min_flow=self.min_flow)
