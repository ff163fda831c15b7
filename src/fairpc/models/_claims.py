"""Whether a circuit is what its model claims: a file may say FairPC and hold something else.

A circuit of ``_top.build`` is all that is accepted. Its independencies follow from
its shape (paper, Section "Encoding independence assumptions"): one parameter block for the
decision in all groups is Df ⟂ S, within each stratum where there are strata; a product of the
mechanism, a sum over D alone, and of circuits of X is D ⟂ X given Df, S. That the circuits of X are
smooth and decomposable is asked by the first query.
"""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from fairpc.circuit import INDICATOR, PRODUCT, SUM, Graph
from fairpc.core import CircuitError, Floats
from fairpc.models._distribution import FairDistribution
from fairpc.models._forest import ForestDistribution
from fairpc.models._top import DF, Layout, S, Top

NAIVE: Final = ("LatNB", "TwoNB")
"""Models whose features are independent given the decision and the group."""
MOST_GAP: Final = 1e-9
"""Largest difference of P(decision | S) between groups that rounding explains."""
_ROUNDED: Final = 1e-13
"""How far weights may sum from 1 if no product of some thousand sums is to move by as much."""


def verify_claims(distribution: FairDistribution) -> None:
    """A CircuitError where a circuit is not that of its model and layout."""
    graph, layout = distribution.circuit.graph, distribution.layout
    decisions = _verify_layers(graph, layout)
    if distribution.model in NAIVE:
        _verify_naive(graph, layout, decisions)
    _verify_tie(Top.of(graph, layout), layout)


def verify_parity(distribution: FairDistribution) -> None:
    """A CircuitError where exact queries find groups with different rates of a tied decision.

    Groups share its parameters, so rates can differ only where weights below do not sum to 1. They
    may be off by what a circuit tolerates; where all of them are exact, no query is needed.
    """
    if not distribution.layout.tied or np.abs(_sums(distribution) - 1.0).max() < _ROUNDED:
        return
    possible = bool((distribution.subgroup_rate > 0).all())
    if not possible or not distribution.parity_gap().max() < MOST_GAP:
        raise CircuitError(
            "P(decision) differs between groups, and the model claims that it does not: fit it "
            "again, or use an intact copy"
        )


def _sums(distribution: FairDistribution) -> Floats:
    """What the weights of each distribution below the decision sum to."""
    if isinstance(distribution, ForestDistribution):
        forest = distribution.forest
        starts = np.flatnonzero(np.diff(forest.tree, prepend=-1))
        return np.add.reduceat(forest.leaf_rate, starts, axis=2).ravel()
    circuit = distribution.circuit
    sums: Floats = np.add.reduceat(circuit.parameters, circuit.graph.block_ptr[:-1])
    return sums


def _verify_layers(graph: Graph, layout: Layout) -> set[int]:
    """Check root, groups and cells; the sums over the decision."""
    columns = {S, *(layout.x[j] for j in layout.strata.columns)}
    groups = graph.children(graph.root).tolist()
    if graph.kind[graph.root] != SUM or len(groups) != layout.n_subgroups:
        _fail(graph, graph.root, f"does not sum over {layout.n_subgroups} groups")
    decisions, found, mechanisms = set(), set(), set()
    for group in groups:
        leaves, others = _split(graph, group)
        if set(leaves) != columns or len(others) != 1 or graph.kind[others[0]] != SUM:
            _fail(graph, group, "is not one group, and stratum, with a sum over the decision")
        if any(graph.scopes[others[0]] >> column & 1 for column in columns):
            _fail(graph, others[0], "depends on the group, or stratum, that it is below")
        subgroup = tuple(leaves[column] for column in sorted(columns))
        found.add(subgroup)
        decisions.add(others[0])
        cells = [_verify_cell(graph, layout, c) for c in graph.children(others[0]).tolist()]
        if sorted(f for f, _ in cells) != list(range(layout.n_classes)):
            _fail(graph, others[0], "does not sum over each decision once")
        own = subgroup if layout.strata.within else leaves[S]
        mechanisms |= {(own, f, block) for f, block in cells}
    if len(found) != layout.n_subgroups:
        _fail(graph, graph.root, "has the same group twice")
    if layout.latent and len(mechanisms) != layout.n_mechanisms * layout.n_classes:
        _fail(graph, graph.root, "has strata that do not share the mechanism of their group")
    return decisions


def _verify_cell(graph: Graph, layout: Layout, cell: int) -> tuple[int, int]:
    """Check the product of a decision, its mechanism and circuits of X.

    The decision, and the parameter block of the mechanism: -1 where there is none.
    """
    leaves, others = _split(graph, cell)
    if layout.decision not in leaves:
        _fail(graph, cell, "decides nothing")
    told = [n for n in others if graph.scopes[n] >> layout.d & 1]
    if layout.latent:
        below = graph.children(told[0]) if len(told) == 1 else np.zeros(0, np.int32)
        # Parameters of the mechanism are read by their place.
        in_order = np.array_equal(graph.value[below], np.arange(layout.n_classes))
        if not in_order or (graph.kind[below] != INDICATOR).any() or graph.kind[told[0]] != SUM:
            _fail(graph, cell, "has no sum over the values of D alone, in their order")
        if graph.scopes[told[0]] != 1 << layout.d:
            _fail(graph, cell, "has a mechanism that depends on more than Df and S")
    upper = 1 << S | 1 << layout.d | (1 << DF if layout.latent else 0)
    rest = [n for n in others if not layout.latent or n not in told]
    foreign = {S, layout.d} - {layout.decision}
    if set(leaves) & foreign or any(graph.scopes[n] & upper for n in rest):
        _fail(graph, cell, "has features that depend on more than the decision and the group")
    return leaves[layout.decision], int(graph.block[told[0]]) if layout.latent else -1


def _verify_naive(graph: Graph, layout: Layout, decisions: set[int]) -> None:
    """Check that no sum below the decision mixes two features."""
    if layout.n_components > 1:
        return
    for node in np.flatnonzero(graph.kind == SUM).tolist():
        if node != graph.root and node not in decisions and graph.scopes[node].bit_count() > 1:
            _fail(graph, node, "ties features together that the model takes as independent")


def _verify_tie(top: Top, layout: Layout) -> None:
    """Check that groups share the decision, in each stratum, where the model says so."""
    by_group = top.decision.reshape(layout.n_groups, layout.strata.n, -1)
    if layout.tied and (by_group != by_group[:1]).any():
        raise CircuitError(
            "the groups do not share the parameters of the decision, and the model claims that "
            "they do: fit it again, or use an intact copy"
        )


def _split(graph: Graph, node: int) -> tuple[dict[int, int], list[int]]:
    """The indicators of a product, value by column, and its other children."""
    if graph.kind[node] != PRODUCT:
        _fail(graph, node, "is no product")
    children = graph.children(node).tolist()
    leaves = [c for c in children if graph.kind[c] == INDICATOR]
    told = {int(graph.variable[c]): int(graph.value[c]) for c in leaves}
    return told, [c for c in children if graph.kind[c] != INDICATOR]


def _fail(graph: Graph, node: int, problem: str) -> NoReturn:
    raise CircuitError(f"{graph.name(node)} {problem}: it is not the circuit of such a model", node)
