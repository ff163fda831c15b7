"""Circuits as ``.psdd`` and ``.vtree`` text files, the format of Juice.jl.

A psdd file holds comment lines that start with ``c``, a header ``psdd COUNT``,
and nodes, children first and the root last::

    L id vtree literal                           [X = 1], or [X = 0] for a negative literal
    T id vtree variable log(p)                   X = 1 with probability p
    D id vtree k  {prime sub log(theta)} × k     sum of k products prime × sub

A vtree file holds ``vtree COUNT``, leaves ``L id variable`` and inner nodes
``I id left right``, the root last. Variables are numbered from 1.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from typing import Final

import numpy as np

from fairpc.circuit.graph import INDICATOR, PRODUCT, SUM, Circuit, Graph
from fairpc.circuit.properties import require
from fairpc.circuit.psdd_reader import circuit_of
from fairpc.circuit.vtree import NodeLines, Vtree, read_vtree, vtree_of
from fairpc.data.atomic import AnyPath, write_atomically
from fairpc.errors import CircuitError

MAX_BYTES: Final = 32 * 2**20
"""Largest file that is read unless the caller says otherwise."""


def read_psdd(
    psdd_path: AnyPath,
    vtree_path: AnyPath | None = None,
    *,
    names: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Circuit:
    """The circuit of a psdd file; variable i of the file is column i - 1.

    A T is a sum over both indicators, a D a sum of products, or the product
    itself if it has one element. Nodes that several lines name stay shared, and
    each T and D has parameters of its own. Products have no line, so equal ones
    are one node. Nodes that the root (the last line) does not need are left out.

    Args:
        psdd_path: the nodes.
        vtree_path: the vtree. With it, every node is checked to sit where the file says; without
            it, only that the decisions agree with each other on some vtree.
        names: names of the variables, ``X1`` … ``Xn`` if None.
        max_bytes: files larger than this are refused.

    Raises:
        FileFormatError: a file is truncated, altered or no such file; names file and line.
    """
    # A vtree has a line per variable, where a psdd has dozens.
    vtree = None if vtree_path is None else read_vtree(vtree_path, max_bytes // 8)
    return circuit_of(NodeLines(psdd_path, "psdd", max_bytes), vtree, names)


def write_psdd(circuit: Circuit, psdd_path: AnyPath, vtree_path: AnyPath) -> None:
    """Write a circuit as a psdd file, and the vtree that it follows; each file whole or not at all.

    What is read back is the same distribution, with weights exact to the last
    digit of log θ. It is also the same graph, node by node, if the circuit is
    one that ``read_psdd`` gave. In others, a product of more than two children
    becomes a chain of products along the vtree, a sum below a sum is merged
    into it, and products may be numbered in another order.

    The format holds binary variables of smooth and structured-decomposable
    circuits, anything else is refused. It has no names (they are written as
    comments; give them to ``read_psdd``) and no shared parameters: each sum is
    written with its own copy, and a warning says so. ``save_circuit`` keeps both.
    """
    graph = circuit.graph
    _check_binary(graph)
    require(graph, "write_psdd", "smooth", "decomposable", "structured_decomposable")
    shared = int((np.bincount(graph.block[graph.kind == SUM]) > 1).sum())
    if shared:
        warnings.warn(
            f"{shared} parameter block(s) are shared by several sum nodes: a psdd file cannot say "
            "so, and each node is written with its own copy",
            stacklevel=2,
        )
    vtree = vtree_of(graph)
    text = _Writer(circuit, vtree).text()
    write_atomically(vtree_path, vtree.text().encode())
    write_atomically(psdd_path, text.encode())


def _check_binary(graph: Graph) -> None:
    for name, arity in zip(graph.names, graph.arities.tolist(), strict=True):
        if arity != 2:
            raise CircuitError(
                f"variable {name!r} has {arity} values and a psdd file holds binary variables: "
                "use save_circuit, or encode the variable as binary ones"
            )


_Pair = tuple[int, int]
_NO_SUB: Final = -1


class _Writer:
    """Lines of a psdd file, in the order of the graph.

    Every node is a mixture of pairs: (prime, sub), two lines that are
    multiplied, or (value, -1) where it is over one variable. A product has no
    line of its own; where one is needed, it is a decision with that one pair.
    """

    def __init__(self, circuit: Circuit, vtree: Vtree) -> None:
        self._circuit = circuit
        self._place = {scope: n for n, scope in enumerate(vtree.scopes())}
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
        early = needed - _numbered_by_sums(graph)
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
                if n in early:
                    self._line_of(n)
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


def _numbered_by_sums(graph: Graph) -> set[int]:
    """Products that stand just before a sum, in the order in which it has them.

    When the file is read, the sum's line gives them their numbers. A line of
    their own must come later, or they would overtake those that have none.
    """
    found = set()
    for n in np.flatnonzero(graph.kind == SUM).tolist():
        children: list[int] = graph.children(n).tolist()
        place = {c: i for i, c in reversed(list(enumerate(children)))}
        before, bound = n - 1, len(children)
        while graph.kind[before] == PRODUCT and place.get(before, bound) < bound:
            found.add(before)
            bound = place[before]
            before -= 1
    return found


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0.0 else -math.inf
