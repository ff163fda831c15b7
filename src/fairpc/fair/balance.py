"""Equal mass of Df in the training rows of every group: an option, not in the paper.

EM balances the pooled posterior of Df only. With a rich P(x | f, s) the mean
of P(Df | x, s, d) over the rows of a group may drift from P(Df), which is the same
for all groups. Here each E-step shifts the log-odds of Df in each group so that its
mass in the group's rows is P(Df) times their number. The MAP objective may
then fall from one iteration to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fairpc.circuit.flows import RowPlan, prepare
from fairpc.circuit.graph import Graph
from fairpc.errors.arrays import Floats, Ints
from fairpc.fair.top import Layout, Top

CLOSE: Final = 1e-10
MAX_ROUNDS: Final = 50
FARTHEST: Final = 10.0
"""Multiple of a plain step that is taken at most."""


@dataclass(eq=False)
class BalancedPlan:
    """A plan whose flows have equal mass of Df in all groups.

    The log-odds are shifted by giving each group weights of its own in the sum over
    Df, in a copy of the graph where these are not shared. The shifts of one call are
    where the next one starts.
    """

    graph: Graph
    plan: RowPlan
    apart: RowPlan
    source: Ints
    decision: Ints
    shared: Ints
    odds: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, plan: RowPlan, layout: Layout, n_threads: int | None = None) -> BalancedPlan:
        """The plan of the same rows with balanced flows."""
        graph = plan.graph
        top = Top.of(graph, layout)
        untied, source = untie(graph, top)
        apart = prepare(untied, plan.table, n_threads=n_threads)
        return cls(graph, plan, apart, source, Top.of(untied, layout).decision, top.decision[0])

    @property
    def n_rows(self) -> int:
        return self.plan.n_rows

    @property
    def total_weight(self) -> float:
        return self.plan.total_weight

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        """Log-likelihood of the model itself, and balanced flows."""
        log_likelihood = self.plan.log_likelihood(parameters, weights)
        rate = parameters[self.shared]
        theta = parameters[self.source]
        odds = np.ones(self.decision.shape) if self.odds is None else self.odds
        before = moved = np.zeros(odds.shape)
        for _ in range(MAX_ROUNDS):
            shifted = rate * odds
            theta[self.decision] = shifted / shifted.sum(axis=1, keepdims=True)
            _, flows = self.apart(theta, weights)
            mass = flows[self.decision]
            wanted = rate * mass.sum(axis=1, keepdims=True)
            if np.abs(mass - wanted).max() <= CLOSE * max(self.total_weight, 1.0):
                break
            known = (mass > 0) & (wanted > 0)
            step = np.log(np.where(known, wanted, 1.0) / np.where(known, mass, 1.0))
            moved = step * _stretch(moved, before - step)
            before, odds = step, odds * np.exp(moved)
        self.odds = odds
        summed = np.bincount(self.source, flows, self.graph.n_parameters)
        return log_likelihood, np.asarray(summed, np.float64)

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """One parameter set after the other."""
        sets = len(parameters)
        rows = [None] * sets if weights is None else np.broadcast_to(weights, (sets, self.n_rows))
        results = [self(theta, w) for theta, w in zip(parameters, rows, strict=True)]
        return np.array([r[0] for r in results]), np.stack([r[1] for r in results])


def _stretch(moved: Floats, saved: Floats) -> Floats:
    """How far to go along the next step, by secants: steps alone only ever fall short."""
    sure = np.abs(saved) > 1e-300
    stretch: Floats = np.where(sure, moved / np.where(sure, saved, 1.0), 1.0)
    return np.clip(stretch, 1.0, FARTHEST)


def untie(graph: Graph, top: Top) -> tuple[Graph, Ints]:
    """The graph with weights of its own for each group's sum over Df; and whose copy each is."""
    first = int(graph.parameter_block[top.decision[0, 0]])
    sums = np.flatnonzero(graph.block == first)
    block, block_ptr = graph.block.copy(), graph.block_ptr
    source = np.arange(graph.n_parameters)
    own = np.arange(block_ptr[first], block_ptr[first + 1])
    for node in sums[1:]:
        block[node] = len(block_ptr) - 1
        block_ptr = np.append(block_ptr, block_ptr[-1] + len(own))
        source = np.concatenate([source, own])
    return replace(graph, block=block, block_ptr=block_ptr), source
