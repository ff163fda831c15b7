"""A graph made ready for the kernels, as it is, or with products of few factors.

*Paired*: a product of many factors is one of two halves, and so on down. Rows that differ
share the halves in which they do not, which the features of a naive Bayes model, all below
one product, otherwise never would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, Graph
from fairpc.circuit._properties import require
from fairpc.core import Array, Bytes, Int32s, Ints
from fairpc.data import readonly

MOST_FACTORS: Final = 3
"""Of products that are left as they are: a term of the active path has as many."""


class GraphArrays(NamedTuple):
    """What kernels take of a graph.

    Attributes:
        scope: number of each node's scope; parts come before wholes.
        edge_link: for a product edge, the pair (scope of parent, scope of child).
    """

    kind: Bytes
    variable: Int32s
    value: Int32s
    child_ptr: Ints
    child: Int32s
    edge_parameter: Int32s
    edge_link: Int32s
    scope: Int32s


class Scopes(NamedTuple):
    """The distinct scopes of a graph.

    Attributes:
        leaf: variable of a one-variable scope, -1 for others.
        arities: number of values of each variable.
        part_ptr, part: scopes that together make up each larger scope.
        link_from, link_to: the pairs of scopes that product edges connect.
    """

    leaf: Int32s
    arities: Ints
    part_ptr: Ints
    part: Int32s
    link_from: Int32s
    link_to: Int32s


@dataclass(frozen=True, eq=False)
class Program:
    """A graph in the form that kernels take."""

    graph: Graph
    arrays: GraphArrays
    scopes: Scopes


def program_of(graph: Graph) -> Program:
    """The program of a smooth and decomposable graph, which remembers it."""
    return graph.once(_as_it_is)


def _as_it_is(g: Graph) -> Program:
    require(g, "evaluation", "smooth", "decomposable")
    nodes = g.kind, g.variable, g.value, g.child_ptr, g.child, g.edge_parameter
    return _program(g, nodes, g.scopes)


@dataclass(eq=False)
class _Spelled:
    """Nodes that are written one after the other, children first.

    Attributes:
        kind: as in a graph.
        mask: the scope of each node, a bit per variable.
    """

    kind: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    leaf: list[tuple[int, int]] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    parameters: list[list[int]] = field(default_factory=list)

    def add(
        self,
        kind: int,
        mask: int,
        *,
        leaf: tuple[int, int] = (-1, -1),
        children: Sequence[int] = (),
        parameters: Sequence[int] | None = None,
    ) -> int:
        """Write a node; its number. ``leaf`` is the variable and value of an indicator."""
        self.kind.append(kind)
        self.mask.append(mask)
        self.leaf.append(leaf)
        self.children.append(list(children))
        self.parameters.append([-1] * len(children) if parameters is None else list(parameters))
        return len(self.kind) - 1

    def with_root(self, root: int) -> _Spelled:
        """The same with this node last, as a root must be."""
        if root != len(self.kind) - 1:
            self.add(PRODUCT, self.mask[root], children=[root])
        return self


def _assembled(g: Graph, nodes: _Spelled) -> Program:
    """The program of nodes that stand for a graph."""
    variable, value = np.array(nodes.leaf, np.int32).T
    ptr = np.cumsum([0, *map(len, nodes.children)])
    child, parameter = (
        np.array(list(chain.from_iterable(lists)), np.int32)
        for lists in (nodes.children, nodes.parameters)
    )
    own = np.array(nodes.kind, np.uint8), variable, value, ptr, child, parameter
    return _program(g, own, nodes.mask)


def _program(g: Graph, own: Sequence[Array], masks: Sequence[int]) -> Program:
    kind, variable, _, child_ptr, child, _ = own
    number: dict[int, int] = {}
    scope = np.array([number.setdefault(mask, len(number)) for mask in masks], np.int32)
    leaf = np.full(len(number), -1, np.int32)
    indicators = np.flatnonzero(kind == INDICATOR)
    leaf[scope[indicators]] = variable[indicators]
    edge_node = np.repeat(np.arange(len(kind)), np.diff(child_ptr))
    across = np.flatnonzero(kind[edge_node] == PRODUCT)
    pairs = np.stack([scope[edge_node[across]], scope[child[across]]], axis=1)
    links, which = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    edge_link = np.full(len(child), -1, np.int32)
    edge_link[across] = which.ravel()
    link_from, link_to = links.T.astype(np.int32)
    part_ptr, part = _parts(own, scope, len(number))
    return Program(
        g,
        GraphArrays(*map(readonly, (*own, edge_link, scope))),
        Scopes(*map(readonly, (leaf, g.arities, part_ptr, part, link_from, link_to))),
    )


def _parts(own: Sequence[Array], scope: Int32s, n_scopes: int) -> tuple[Ints, Int32s]:
    """How each larger scope is put together: as its first product with several children does."""
    kind, _, _, child_ptr, child, _ = own
    parts: list[list[int]] = [[] for _ in range(n_scopes)]
    several = (kind == PRODUCT) & (np.diff(child_ptr) > 1)
    for n in np.flatnonzero(several).tolist():
        if not parts[scope[n]]:
            parts[scope[n]] = scope[child[child_ptr[n] : child_ptr[n + 1]]].tolist()
    ptr = np.cumsum([0, *(len(p) for p in parts)])
    return ptr, np.array([s for p in parts for s in p], np.int32)


def paired(graph: Graph) -> Program:
    """The circuit with products of two or three factors alone; itself if it has no others.

    Sums keep their parameters, so flows per parameter are those of the graph.
    """
    return graph.once(_paired)


def _paired(graph: Graph) -> Program:
    widths = np.diff(graph.child_ptr)[graph.kind == PRODUCT]
    if widths.max(initial=0) <= MOST_FACTORS:
        return program_of(graph)
    out, new = _Spelled(), list[int]()
    made: dict[tuple[int, ...], int] = {}

    def product(factors: list[int]) -> int:
        key = tuple(factors)
        if key not in made:
            if len(factors) > MOST_FACTORS:
                half = len(factors) // 2
                factors = [product(factors[:half]), product(factors[half:])]
            mask = sum(out.mask[c] for c in factors)
            made[key] = out.add(PRODUCT, mask, children=factors)
        return made[key]

    for n in range(graph.n_nodes):
        edges = slice(graph.child_ptr[n], graph.child_ptr[n + 1])
        children = [new[c] for c in graph.child[edges].tolist()]
        if graph.kind[n] == PRODUCT:
            new.append(product(children))
            continue
        leaf, mask = (int(graph.variable[n]), int(graph.value[n])), graph.scopes[n]
        parameters = graph.edge_parameter[edges].tolist()
        kind = int(graph.kind[n])
        new.append(out.add(kind, mask, leaf=leaf, children=children, parameters=parameters))
    return _assembled(graph, out.with_root(new[graph.root]))
