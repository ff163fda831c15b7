"""What a circuit must be to be built: each rule, and the error that names the node at fault."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import INDICATOR, SUM, Graph, frozen
from fairpc.data.table import MAX_ARITY
from fairpc.errors import CircuitError
from fairpc.errors.arrays import Bools, Floats

WEIGHT_TOLERANCE: Final = 1e-8


def check_graph(graph: Graph) -> None:
    """Variables, nodes, edges and parameter blocks of a graph; a CircuitError if one is wrong."""
    _check_variables(graph)
    _check_nodes(graph)
    _check_edges(graph)
    _check_blocks(graph)


def _check_variables(g: Graph) -> None:
    if not g.names:
        raise CircuitError("the circuit has no variables: give at least one")
    if len(g.arities) != len(g.names):
        raise CircuitError(
            f"{len(g.names)} variable names and {len(g.arities)} arities were given: "
            "give one arity per name"
        )
    if len(set(g.names)) != len(g.names):
        twice = next(n for n in g.names if g.names.count(n) > 1)
        raise CircuitError(f"variable {twice!r} is named twice: give each variable its own name")
    for name, arity in zip(g.names, g.arities, strict=True):
        if not 1 <= arity <= MAX_ARITY:
            raise CircuitError(
                f"variable {name!r} has arity {arity}: an arity lies between 1 and {MAX_ARITY}"
            )


def _check_nodes(g: Graph) -> None:
    n = g.n_nodes
    if n == 0:
        raise CircuitError("the circuit has no nodes: a circuit needs at least a root")
    shapes = (len(g.variable), len(g.value), len(g.block), len(g.child_ptr) - 1)
    if shapes != (n, n, n, n):
        raise CircuitError("the arrays of nodes differ in length: give one entry per node")
    if (g.kind > SUM).any():
        odd = int(np.argmax(g.kind > SUM))
        raise CircuitError(f"node {odd} has unknown kind {g.kind[odd]}: use 0, 1 or 2", odd)
    leaf = g.kind == INDICATOR
    known = (g.variable >= 0) & (g.variable < g.n_variables)
    node = _first(leaf & ~known)
    if node is not None:
        raise CircuitError(
            f"indicator node {node} tests variable {g.variable[node]}, and there are "
            f"{g.n_variables} variables",
            node,
        )
    arity = g.arities[np.where(known, g.variable, 0)]
    node = _first(leaf & ((g.value < 0) | (g.value >= arity)))
    if node is not None:
        name = g.names[g.variable[node]]
        raise CircuitError(
            f"indicator node {node} tests {name} = {g.value[node]}, and the values of {name!r} "
            f"are 0 to {arity[node] - 1}",
            node,
        )
    node = _first(~leaf & ((g.variable != -1) | (g.value != -1)))
    if node is not None:
        raise CircuitError(f"{g.name(node)} names a variable: only indicators do, use -1", node)


def _check_edges(g: Graph) -> None:
    sizes = np.diff(g.child_ptr)
    if g.child_ptr[0] != 0 or g.child_ptr[-1] != g.n_edges or (sizes < 0).any():
        raise CircuitError("child_ptr does not cut the edges: it must rise from 0 to their number")
    node = _first((sizes == 0) & (g.kind != INDICATOR))
    if node is not None:
        raise CircuitError(f"{g.name(node)} has no children: give it at least one", node)
    node = _first((sizes > 0) & (g.kind == INDICATOR))
    if node is not None:
        raise CircuitError(f"{g.name(node)} has children: an indicator is a leaf", node)
    parent = np.repeat(np.arange(g.n_nodes), sizes)
    edge = _first((g.child < 0) | (g.child >= g.n_nodes))
    if edge is not None:
        node = int(parent[edge])
        raise CircuitError(
            f"{g.name(node)} has the unknown child {g.child[edge]}: nodes are numbered "
            f"0 to {g.n_nodes - 1}",
            node,
        )
    edge = _first(g.child >= parent)
    if edge is not None:
        _raise_order(g, int(parent[edge]), int(g.child[edge]))
    seen = np.zeros(g.n_variables, bool)
    seen[g.variable[g.kind == INDICATOR]] = True
    unseen = _first(~seen)
    if unseen is not None:
        raise CircuitError(
            f"variable {g.names[unseen]!r} is tested by no node: leave it out of the variables"
        )
    reached = np.zeros(g.n_nodes, bool)
    reached[g.child] = True
    reached[g.root] = True
    node = _first(~reached)
    if node is not None:
        raise CircuitError(
            f"{g.name(node)} is no descendant of the root (the last node): leave it out", node
        )


def _raise_order(g: Graph, node: int, child: int) -> None:
    """An edge points forward: say whether that closes a cycle or is only out of order."""
    trail = _path(g, child, node)
    if trail is not None:
        cycle = " -> ".join(str(n) for n in (node, *trail))
        raise CircuitError(f"{g.name(node)} lies on the cycle {cycle}: remove an edge of it", node)
    raise CircuitError(
        f"{g.name(node)} comes before its child {child}: list children before parents", node
    )


def _path(g: Graph, start: int, goal: int) -> list[int] | None:
    """Some path from ``start`` down to ``goal``, by depth-first search."""
    came: dict[int, int] = {start: -1}
    stack = [start]
    while stack:
        node = stack.pop()
        if node == goal:
            trail = []
            while node >= 0:
                trail.append(node)
                node = came[node]
            return trail[::-1]
        for c in g.children(node).tolist():
            if c not in came:
                came[c] = node
                stack.append(c)
    return None


def _check_blocks(g: Graph) -> None:
    is_sum = g.kind == SUM
    n_blocks = len(g.block_ptr) - 1
    if n_blocks < 0 or g.block_ptr[0] != 0 or (np.diff(g.block_ptr) < 1).any():
        raise CircuitError("block_ptr does not cut the parameters: it must rise from 0")
    node = _first(np.where(is_sum, (g.block < 0) | (g.block >= n_blocks), g.block != -1))
    if node is not None:
        raise CircuitError(
            f"{g.name(node)} has parameter block {g.block[node]}: a sum node names one of the "
            f"{n_blocks} blocks, other nodes -1",
            node,
        )
    sizes = np.diff(g.child_ptr)
    block_sizes = np.diff(g.block_ptr)
    node = _first(is_sum & (sizes != np.append(block_sizes, 0)[g.block]))
    if node is not None:
        raise CircuitError(
            f"{g.name(node)} has {sizes[node]} children and {block_sizes[g.block[node]]} "
            "parameters: give one parameter per child",
            node,
        )
    used = np.zeros(n_blocks, bool)
    used[g.block[is_sum]] = True
    block = _first(~used)
    if block is not None:
        raise CircuitError(f"parameter block {block} belongs to no sum node: leave it out")


def _first(mask: Bools) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None


def check_parameters(graph: Graph, parameters: npt.ArrayLike) -> Floats:
    """θ as a frozen float64 array, one probability vector per block; or a CircuitError."""
    theta: Floats = frozen(parameters, np.float64)
    if theta.shape != (graph.n_parameters,):
        raise CircuitError(
            f"parameters have shape {theta.shape}: the graph has {graph.n_parameters} of them"
        )
    if not len(theta):
        return theta
    bad = _first(~(theta >= 0) | ~np.isfinite(theta))
    if bad is not None:
        node = _node_of(graph, int(graph.parameter_block[bad]))
        raise CircuitError(
            f"{graph.name(node)} has weight {theta[bad]}: weights are numbers from 0 to 1", node
        )
    totals = np.add.reduceat(theta, graph.block_ptr[:-1])
    block = _first(np.abs(totals - 1.0) > WEIGHT_TOLERANCE)
    if block is not None:
        node = _node_of(graph, block)
        raise CircuitError(
            f"{graph.name(node)} has weights that sum to {totals[block]:.9g}: "
            "divide them by their sum",
            node,
        )
    return theta


def _node_of(graph: Graph, block: int) -> int:
    return int(np.argmax(graph.block == block))
