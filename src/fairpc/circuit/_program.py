"""A graph made ready for the kernels, as it is, or rewritten to have fewer numbers per row.

*Paired*: a product of many factors is one of two halves, and so on down. Rows that differ
share the halves in which they do not, which the features of a naive Bayes model, all below
one product, otherwise never would.

*Condensed*, for marginals. Where cells are missing hardly two rows are equal, and time goes to
the few scopes that hold most of the variables: a sum there has many products, and a product is
often one factor over many variables times another over few, perhaps through products in
between. By the distributive law ∑ θ_k · x_k · y = (∑ θ_k · x_k) · y, so products that share what
is small are added up below it, where rows have fewer distinct projections; and what is small is
multiplied by itself first, for the same reason. What is left at a large scope is one *dot*, a
sum of products of two, which the kernel does without keeping the products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, Graph
from fairpc.circuit._properties import require
from fairpc.core import Array, Bytes, Codes, Int32s, Ints
from fairpc.data import readonly

DOT: Final = 3
"""A kind of node beside those of a graph: a sum of products of two."""
MOST_FACTORS: Final = 3
"""Of products that are left as they are: a term of the active path has as many."""
LEAST_ROWS: Final = 1024
"""Rows from which on condensing pays; and no fewer than the circuit has edges."""


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
        kind: that of a graph, or DOT: a sum of products of two, whose children are
            the factors of the first, those of the second and so on.
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
    across = np.flatnonzero((kind[edge_node] == PRODUCT) | (kind[edge_node] == DOT))
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
    several = ((kind == PRODUCT) | (kind == DOT)) & (np.diff(child_ptr) > 1)
    for n in np.flatnonzero(several).tolist():
        if not parts[scope[n]]:
            last = child_ptr[n] + 2 if kind[n] == DOT else child_ptr[n + 1]
            parts[scope[n]] = scope[child[child_ptr[n] : last]].tolist()
    ptr = np.cumsum([0, *(len(p) for p in parts)])
    return ptr, np.array([s for p in parts for s in p], np.int32)


def pays(graph: Graph, rows: Codes) -> bool:
    """Whether rows should go through the condensed circuit.

    Rows without holes should not: equal ones are merged, and few are left.
    """
    if len(rows) < max(LEAST_ROWS, graph.n_edges):
        return False
    some = rows[:: max(1, len(rows) // LEAST_ROWS)] < 0
    return bool((some.any(axis=0) & ~some.all(axis=0)).any())


def condensed(graph: Graph) -> Program:
    """The condensed circuit; after the parameters of the graph it takes a one."""
    return graph.once(_condensed)


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


def _condensed(graph: Graph) -> Program:
    return _assembled(graph, _Condensing(graph).spelled())


class _Condensing:
    """One walk over a graph, children first, that writes the nodes of the condensed circuit."""

    def __init__(self, g: Graph) -> None:
        self.g, self.one = g, g.n_parameters
        self.kind: list[int] = g.kind.tolist()
        ptr: list[int] = g.child_ptr.tolist()
        child: list[int] = g.child.tolist()
        self.edges = [range(a, b) for a, b in pairwise(ptr)]
        self.child, self.parameter = child, g.edge_parameter.tolist()
        self.parents: list[list[int]] = [[] for _ in self.kind]
        for n, c in zip(g.edge_node.tolist(), child, strict=True):
            self.parents[c].append(n)
        self.new: dict[int, int] = {}
        self.made: dict[tuple[int, ...], int] = {}
        self.out = _Spelled()

    def spelled(self) -> _Spelled:
        for n in range(len(self.kind)):
            if self.kind[n] == INDICATOR:
                mask = self.g.scopes[n]
                leaf = int(self.g.variable[n]), int(self.g.value[n])
                self.new[n] = self.out.add(INDICATOR, mask, leaf=leaf)
            elif self.kind[n] == SUM:
                self.new[n] = self._sum(n)
            elif not self._multiplies(n):
                self.new[n] = self.new[self.child[self.edges[n][0]]]
            elif not self._sole_in(n, SUM) and not self._absorbed(n):
                first, *rest = self._factors(n)
                self.new[n] = self._product(self.new[first], self._small(rest))
        return self.out.with_root(self.new[self.g.root])

    def _multiplies(self, n: int) -> bool:
        return self.kind[n] == PRODUCT and len(self.edges[n]) > 1

    def _sole_in(self, n: int, kind: int) -> bool:
        """Whether a node is part of one other alone, of this kind."""
        return len(self.parents[n]) == 1 and self.kind[self.parents[n][0]] == kind

    def _first(self, n: int) -> int:
        """The factor with the most variables."""
        factors = [self.child[e] for e in self.edges[n]]
        return max(factors, key=lambda c: self.g.scopes[c].bit_count())

    def _absorbed(self, n: int) -> bool:
        """Whether a product is the first factor of another, and part of nothing else."""
        return self._sole_in(n, PRODUCT) and self._first(self.parents[n][0]) == n

    def _factors(self, n: int) -> list[int]:
        """Factors of a product, that with the most variables first; absorbed ones taken apart."""
        first = self._first(n)
        rest = [self.child[e] for e in self.edges[n] if self.child[e] != first]
        if self._multiplies(first) and self._absorbed(first):
            return self._factors(first) + rest
        return [first, *rest]

    def _small(self, factors: list[int]) -> int:
        """The product of some factors, the outermost first: these occur together most often."""
        found = self.new[factors[-1]]
        for n in reversed(factors[:-1]):
            found = self._product(self.new[n], found)
        return found

    def _sum(self, n: int) -> int:
        """A sum: a dot of the products that are in no other, and what else there is."""
        groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        others = []
        for e in self.edges[n]:
            c, p = self.child[e], self.parameter[e]
            if self._multiplies(c) and self._sole_in(c, SUM):
                first, *rest = self._factors(c)
                groups[self.g.scopes[first], self._small(rest)].append((self.new[first], p))
            else:
                others.append((self.new[c], p))
        pairs = [self._pair(small, terms) for (_, small), terms in groups.items()]
        if not pairs:
            return self._weighted(others)
        mask = self.g.scopes[n]
        dot = self._product(*pairs[0])
        if len(pairs) > 1:
            dot = self.out.add(DOT, mask, children=[c for pair in pairs for c in pair])
        return self._weighted([(dot, self.one), *others]) if others else dot

    def _pair(self, small: int, terms: list[tuple[int, int]]) -> tuple[int, int]:
        """(∑ θ · x, y); where there is one x, θ goes to the factor with fewer variables."""
        mask = self.out.mask
        if len(terms) == 1 and mask[small].bit_count() < mask[terms[0][0]].bit_count():
            return terms[0][0], self._weighted([(small, terms[0][1])])
        return self._weighted(terms), small

    def _product(self, a: int, b: int) -> int:
        if (a, b) not in self.made:
            mask = self.out.mask[a] | self.out.mask[b]
            self.made[a, b] = self.out.add(PRODUCT, mask, children=[a, b])
        return self.made[a, b]

    def _weighted(self, terms: list[tuple[int, int]]) -> int:
        children, parameters = [c for c, _ in terms], [p for _, p in terms]
        mask = self.out.mask[children[0]]
        return self.out.add(SUM, mask, children=children, parameters=parameters)
