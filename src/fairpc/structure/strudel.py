"""Strudel's heuristics (Dang, Vergari, Van den Broeck 2020; paper, Section "Structure Learning").

The edge with most flow is split on the variable that depends most on the
others among the edge's rows, by the sum of pairwise mutual informations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from fairpc.errors.arrays import Int32s, check_choice, check_number
from fairpc.structure._layout import FLOW, ROUNDING
from fairpc.structure.mutual_information import mutual_information, pair_counts
from fairpc.structure.search import EdgeQueue, FlowQueue, RandomQueue, Search, Split, Stop
from fairpc.structure.split import SplitState

EdgeChoice = Literal["eFlow", "eRand"]
VariableChoice = Literal["vMI", "vRand"]
EDGE_CHOICES: Final = ("eFlow", "eRand")
VARIABLE_CHOICES: Final = ("vMI", "vRand")


@dataclass(frozen=True)
class Strudel:
    """Strudel's search.

    Attributes:
        pick_edge: "eFlow", the edge with most flow; "eRand", any edge.
        pick_variable: "vMI", the variable with the largest summed mutual information
            among the rows of the edge; "vRand", any variable.
        split_depth: levels of products and sums of which both halves of a split get
            copies of their own; 1 copies the product only, as in the paper.
        min_flow: least weight of rows of an edge to be split.
        stop: when the search ends.
    """

    pick_edge: EdgeChoice = "eFlow"
    pick_variable: VariableChoice = "vMI"
    split_depth: int = 1
    min_flow: float = 0.0
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        check_choice("pick_edge", self.pick_edge, EDGE_CHOICES)
        check_choice("pick_variable", self.pick_variable, VARIABLE_CHOICES)
        check_number("split_depth", self.split_depth, 1)
        check_number("min_flow", self.min_flow, 0.0)

    def search(self, state: SplitState, rng: np.random.Generator) -> Search:
        """A search over the edges of all cells of ``state``."""
        queue: EdgeQueue = FlowQueue(state, self.min_flow)
        if self.pick_edge == "eRand":
            queue = RandomQueue(state, self.min_flow, rng)
        pick = _Dependence(state) if self.pick_variable == "vMI" else _Uniform(rng)

        def choose(edge: int) -> Split | None:
            rows = state.rows(edge)
            free = state.free_values(edge)
            variables = np.flatnonzero(free > 1).astype(np.int32)
            if not len(rows) or not len(variables):
                return None
            x = pick(edge, rows, variables)
            if free[x] == 2:
                return Split(edge, rows, x, state.halves(edge, x))
            sides = state.best_split(edge, rows, np.array([x], np.int32), 0.0)[1]
            return Split(edge, rows, x, sides)

        return Search(
            state, queue, choose, self.stop, min_flow=self.min_flow, split_depth=self.split_depth
        )


class _Dependence:
    """vMI: the variable with the largest summed mutual information, the first of equals."""

    def __init__(self, state: SplitState) -> None:
        self._state = state
        self._sizes = np.diff(state.start)

    def __call__(self, edge: int, rows: Int32s, variables: Int32s) -> int:
        if len(variables) == 1:
            return int(variables[0])
        state = self._state
        flow = state.row_weights[rows, FLOW]
        seen = flow > 0  # held-out rows have none
        if not seen.all():
            rows, flow = rows[seen], flow[seen]
        sizes = self._sizes[variables]
        counts = pair_counts(state.codes[np.ix_(variables, rows)], flow, sizes)
        chosen = np.zeros(len(self._sizes), bool)
        chosen[variables] = True
        known = state.possible(edge)[np.repeat(chosen, self._sizes)]
        information = mutual_information(counts, sizes, possible=known)
        score = information.sum(axis=0)
        return int(variables[np.argmax(score >= score.max() - ROUNDING)])


class _Uniform:
    """vRand: any free variable."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self, edge: int, rows: Int32s, variables: Int32s) -> int:
        return int(self._rng.choice(variables))
