"""Circuits written as ``.psdd`` and ``.vtree`` files, so that reading has a round trip."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

import numpy as np

from fairpc.circuit import INDICATOR, PRODUCT, Circuit, Graph
from fairpc.circuit._graph import WeightedGraph
from fairpc.circuit._properties import NestedScopes, require
from fairpc.circuit._psdd import Vtree

_Pair = tuple[int, int]


def write_psdd(circuit: Circuit, psdd_path: Path, vtree_path: Path) -> None:
    """Write a smooth, structured-decomposable circuit over binary variables, and its vtree.

    A product of more than two children becomes a chain of products along the vtree, a sum below
    a sum is merged into it, and nodes may be numbered in another order. The format has no
    names (they are comments) and no shared parameters: each sum has its own copy.
    """
    assert (circuit.arities == 2).all()
    require(circuit.graph, "write_psdd", "smooth", "decomposable", "structured_decomposable")
    vtree = vtree_of(circuit.graph)
    vtree_path.write_text(vtree_text(vtree), encoding="utf-8")
    psdd_path.write_text(_Writer(circuit, vtree).text(), encoding="utf-8")


_NO_SUB: Final = -1


class _Writer:
    """Lines of a psdd file, in the order of the graph.

    Every node is a mixture of pairs: (prime, sub), two lines that are
    multiplied, or (value, -1) where it is over one variable. A product has no
    line of its own; where one is needed, it is a decision with that one pair.
    """

    def __init__(self, circuit: WeightedGraph, vtree: Vtree) -> None:
        self._circuit = circuit
        self._place = {scope: n for n, scope in enumerate(scopes_of(vtree))}
        self._left, self._right = vtree.left.tolist(), vtree.right.tolist()
        self._variable = vtree.variable.tolist()
        self._parent = [-1] * len(self._left)
        for n, (a, b) in enumerate(zip(self._left, self._right, strict=True)):
            if a >= 0:
                self._parent[a] = self._parent[b] = n
        self._lines: list[str] = []
        self._decisions: dict[tuple[int, int, int], int] = {}
        self._literal: dict[tuple[int, int], int] = {}
        self._line: dict[int, int] = {}  # of the nodes that have one so far
        self._mixture: dict[int, dict[_Pair, float]] = {}

    def text(self) -> str:
        graph = self._circuit.graph
        needed = _factors(graph)
        for n, kind in enumerate(graph.kind.tolist()):
            children: list[int] = graph.children(n).tolist()
            if kind == INDICATOR:
                self._indicator(n)
            elif len(children) == 1:
                self._mixture[n] = self._mixture[children[0]]
                if children[0] in self._line:
                    self._line[n] = self._line[children[0]]
            elif kind == PRODUCT:
                self._mixture[n] = {self._pair(self._place_of(n), children): 1.0}
            else:
                self._sum(n, children, needed)
        self._line_of(graph.root)
        names = [f"c variable {i}: {json.dumps(name)}" for i, name in enumerate(graph.names, 1)]
        head = ["c written by fairpc", *names, f"psdd {len(self._lines)}"]
        return "\n".join([*head, *self._lines]) + "\n"

    def _add(self, letter: str, *fields: float) -> int:
        number = len(self._lines)
        self._lines.append(" ".join([letter, str(number), *map(repr, fields)]))
        return number

    def _place_of(self, node: int) -> int:
        return self._place[self._circuit.graph.scopes[node]]

    def _line_of(self, node: int) -> int:
        if node not in self._line:
            (pair,) = self._mixture[node]
            self._line[node] = self._decision(self._place_of(node), *pair)
        return self._line[node]

    def _decision(self, place: int, prime: int, sub: int) -> int:
        key = (place, prime, sub)
        if key not in self._decisions:
            self._decisions[key] = self._add("D", place, 1, prime, sub, 0.0)
        return self._decisions[key]

    def _indicator(self, node: int) -> None:
        graph = self._circuit.graph
        variable, value = int(graph.variable[node]) + 1, int(graph.value[node])
        place = self._place_of(node)
        self._line[node] = self._add("L", place, variable if value else -variable)
        self._literal[place, value] = self._line[node]
        self._mixture[node] = {(value, _NO_SUB): 1.0}

    def _pair(self, top: int, children: list[int]) -> _Pair:
        """Prime and sub at vtree node ``top``: neighbours are joined until only they are left."""
        at = {self._place_of(c): self._line_of(c) for c in children}
        ready = list(at)
        while ready:
            place = self._parent[ready.pop()]
            left, right = self._left[place], self._right[place]
            if place != top and left in at and right in at:
                at[place] = self._decision(place, at[left], at[right])
                ready.append(place)
        return at[self._left[top]], at[self._right[top]]

    def _sum(self, node: int, children: list[int], needed: set[int]) -> None:
        mixture: dict[_Pair, float] = {}
        for child, weight in zip(children, self._circuit.weights(node).tolist(), strict=True):
            for pair, share in self._mixture[child].items():
                mixture[pair] = mixture.get(pair, 0.0) + weight * share
        self._mixture[node] = mixture
        if node not in needed:
            return
        place = self._place_of(node)
        if self._left[place] < 0:
            self._line[node] = self._leaf(place, mixture)
        elif len(mixture) > 1:
            fields = [f for (p, s), w in mixture.items() for f in (p, s, _log(w))]
            self._line[node] = self._add("D", place, len(mixture), *fields)

    def _leaf(self, place: int, mixture: dict[_Pair, float]) -> int:
        """The line of a sum over one variable; if it has one value only, that of an indicator."""
        if len(mixture) == 1:
            return self._literal[place, next(iter(mixture))[0]]
        false, true = mixture[0, _NO_SUB], mixture[1, _NO_SUB]
        # The logarithm of the larger probability keeps the digits of the smaller one.
        log_p = math.log1p(-false) + 0.0 if true > false else _log(true)
        return self._add("T", place, self._variable[place] + 1, log_p)


def _factors(graph: Graph) -> set[int]:
    """Nodes that need a line: the root and the children of products, through single children."""
    needed = {graph.root}
    sizes = np.diff(graph.child_ptr)
    for n in range(graph.root, -1, -1):
        if (graph.kind[n] == PRODUCT and sizes[n] > 1) or (sizes[n] == 1 and n in needed):
            needed.update(graph.children(n).tolist())
    return needed


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0.0 else -math.inf


def scopes_of(vtree: Vtree) -> list[int]:
    """Variables below each node, as bit masks."""
    masks: list[int] = []
    columns = vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist()
    for a, b, v in zip(*columns, strict=True):
        masks.append(1 << v if v >= 0 else masks[a] | masks[b])
    return masks


def vtree_text(vtree: Vtree) -> str:
    """The vtree in the format of its files, its nodes numbered in order."""
    columns = vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist()
    lines = [f"vtree {len(vtree.left)}"]
    for n, (a, b, v) in enumerate(zip(*columns, strict=True)):
        lines.append(f"L {n} {v + 1}" if v >= 0 else f"I {n} {a} {b}")
    return "\n".join(lines) + "\n"


def vtree_of(graph: Graph) -> Vtree:
    """A vtree that a smooth and structured-decomposable graph respects.

    The scopes of its nodes, ordered by inclusion, are a tree. Of the parts of a
    scope, those that only indicators test come first: decisions on them are
    then primes that exclude each other. Next come parts with many nodes, so
    that what is common to many products can be shared; then the first in the
    graph.
    """
    leaf = graph.kind == INDICATOR
    nodes: dict[int, list[int]] = {}
    for n, scope in enumerate(graph.scopes):
        nodes.setdefault(scope, []).append(n)
    factor = np.zeros(graph.n_nodes, bool)
    factor[graph.child[(graph.kind == PRODUCT)[graph.edge_node]]] = True

    def rank(part: int) -> tuple[bool, int, int]:
        factors = [n for n in nodes[part] if factor[n]]
        return not leaf[factors].all(), -len(factors), nodes[part][0]

    tree = [(-1, -1, v) for v in range(graph.n_variables)]
    node_of = {1 << v: v for v in range(graph.n_variables)}
    nested = NestedScopes(graph.n_variables)
    for scope in sorted(nodes, key=int.bit_count):
        if scope.bit_count() > 1:
            *others, last = sorted(nested.parts(scope), key=rank)
            node_of[scope] = node_of[last]
            for part in reversed(others):
                tree.append((node_of[part], node_of[scope], -1))
                node_of[scope] = len(tree) - 1
            nested.join(scope)
    left, right, variable = np.array(tree, np.int64).T
    return Vtree(left, right, variable)
