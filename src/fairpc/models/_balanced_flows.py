"""Flows with equal mass of Df in all groups: the option ``equal_mass``, not in the paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fairpc.circuit import Graph, RowPlan, prepare
from fairpc.core import Codes, Floats, Int32s, Ints
from fairpc.data import Table
from fairpc.models._fair_layers import Layout, S, Top
from fairpc.models._fair_rates import Places
from fairpc.models._rows import Rows


@dataclass(eq=False)
class BalancedPlan:
    """A plan whose flows have equal mass of Df in all groups: an option, not in the paper.

    EM balances the pooled posterior of Df only. With a rich P(x | f, s) the mean of
    P(Df | x, s, d) over the rows of a group may drift from P(Df), which is the same for all
    groups. Here each E-step shifts the log-odds of Df in each group so that its mass in the
    group's rows is P(Df) times their number, with strata within each of them. The MAP objective may
    then fall.

    The log-odds are shifted by giving each group weights of its own in the sum over
    Df, in a copy of the graph where these are not shared. They are found from P(f, row | s) of
    every row, which the shifts do not change. The shifts of one call are where the next one
    starts.

    Attributes:
        graph, plan: of the model itself.
        apart: the same rows in the copy of the graph.
        source: for each parameter of the copy, the one that it is a copy of.
        decision, shared: parameters of P(f) in the copy and in the model, [s, f].
        places: every row once for each subgroup that it may be from.
        placed: plan of the rows of the places; ``at`` gives the distinct row of each.
        odds: by which P(f) was last multiplied, [s, f]; 1 before the first call.
    """

    graph: Graph
    plan: RowPlan
    apart: RowPlan
    source: Ints
    decision: Ints
    shared: Ints
    places: Places
    placed: RowPlan
    at: Int32s
    odds: Floats = field(repr=False)

    @classmethod
    def of(cls, plan: RowPlan, layout: Layout) -> BalancedPlan:
        """The plan of the same rows with balanced flows."""
        graph = plan.graph
        top = Top.of(graph, layout)
        untied, source = _untie(graph, top)
        apart, decision = prepare(untied, plan.table), Top.of(untied, layout).decision
        places, codes = _places(plan.table, layout)
        placed, at = plan, np.arange(plan.n_distinct, dtype=np.int32)
        if len(codes) > plan.n_distinct:
            placed = prepare(graph, Table.of(codes, arities=graph.arities))
            at = placed.row_of
        odds = np.ones(top.decision.shape)
        return cls(graph, plan, apart, source, decision, top.decision, places, placed, at, odds)

    @property
    def n_rows(self) -> int:
        return self.plan.n_rows

    @property
    def total_weight(self) -> float:
        return self.plan.total_weight

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        """Log-likelihood of the model itself, and balanced flows."""
        log_likelihood = self.plan.log_likelihood(parameters, weights)
        places = replace(self.places, weights=self.plan.distinct_weights(weights))
        rate = parameters[self.shared]
        joint, rates = self._log_joint(parameters), rate[: places.strata.n]
        _, self.odds = places.equalised(joint, rates, self.odds)
        shifted = rate * self.odds
        theta = parameters[self.source]
        theta[self.decision] = shifted / shifted.sum(axis=1, keepdims=True)
        flows = self.apart(theta, weights)[1]
        summed = np.bincount(self.source, flows, self.graph.n_parameters)
        return log_likelihood, np.asarray(summed, np.float64)

    def _log_joint(self, parameters: Floats) -> Floats:
        """log P(s, f, row), places × classes: P(row) with all the mass of Df on f, times P(f)."""
        certain = parameters.copy()
        joint = np.empty((len(self.places.row), self.shared.shape[1]))
        for f in range(joint.shape[1]):
            certain[self.shared] = 0.0
            certain[self.shared[:, f]] = 1.0
            joint[:, f] = self.placed.row_logs(certain)[self.at]
        with np.errstate(divide="ignore"):
            joint += np.log(parameters[self.shared])[self.places.s]
        return joint

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """One parameter set after the other."""
        sets = len(parameters)
        rows = [None] * sets if weights is None else np.broadcast_to(weights, (sets, self.n_rows))
        results = [self(theta, w) for theta, w in zip(parameters, rows, strict=True)]
        return np.array([r[0] for r in results]), np.stack([r[1] for r in results])


def _places(table: Table, layout: Layout) -> tuple[Places, Codes]:
    """Every row of a table of the circuit in each subgroup that it may be from; and its codes."""
    codes, x = table.codes, slice(layout.x.start, layout.x.stop)
    columns = codes[:, S], codes[:, layout.d], codes[:, x], table.weights
    sizes = layout.n_groups, layout.n_classes, np.array(layout.arities), layout.names
    places = Places.of(Rows(*columns, *sizes, strata=layout.strata))
    placed = np.asfortranarray(codes[places.row])
    placed[:, S] = places.s // layout.strata.n
    placed[:, x] = layout.strata.placed(placed[:, x], places.stratum)
    return places, placed


def _untie(graph: Graph, top: Top) -> tuple[Graph, Ints]:
    """The graph with weights of its own for each group's sum over Df; and whose copy each is."""
    block, block_ptr = graph.block.copy(), graph.block_ptr
    source = np.arange(graph.n_parameters)
    for first in np.unique(graph.parameter_block[top.decision[:, 0]]).tolist():
        own = np.arange(block_ptr[first], block_ptr[first + 1])
        for node in np.flatnonzero(graph.block == first)[1:]:
            block[node] = len(block_ptr) - 1
            block_ptr = np.append(block_ptr, block_ptr[-1] + len(own))
            source = np.concatenate([source, own])
    return replace(graph, block=block, block_ptr=block_ptr), source
