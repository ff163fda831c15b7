"""Structural properties of circuits: each holds, or is answered with its first violation in words.

Section "Probabilistic Circuits" of the paper: *smooth* sums mix children over
the same variables, *decomposable* products multiply children over different
ones, and a *deterministic* sum has at most one positive child for every
complete assignment. *Structured-decomposable* circuits split their variables
along one tree (a vtree). All of them speak about the graph alone: weights,
and so weights that happen to be zero, are ignored.

Determinism is hard to decide in general. ``Properties.deterministic`` is a sound sufficient check
(see ``_Overlap``): what it affirms is true.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any, Final, Literal, get_args

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, Graph
from fairpc.core import PropertyError

PropertyName = Literal["smooth", "decomposable", "deterministic", "structured_decomposable"]
NAMES: Final[tuple[PropertyName, ...]] = get_args(PropertyName)

MAX_PAIRS: Final = 1_000_000
"""Pairs of nodes that the determinism check compares before it answers "not proven"."""


@dataclass(frozen=True, repr=False)
class Property:
    """Whether a structural property holds; if not, the first violation and its node."""

    name: str
    holds: bool
    violation: str | None = None
    node: int | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        words = self.name.replace("_", "-")
        return words if self.holds else f"not {words}: {self.violation}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False)
class Properties:
    """The structural properties of a graph, each computed when it is first asked for."""

    graph: Graph

    @cached_property
    def smooth(self) -> Property:
        """All children of a sum have the same scope."""
        scope = self.graph.scopes
        for n, children in _inner(self.graph, SUM):
            for c in children:
                if scope[c] != scope[n]:
                    lacks = _variables(self.graph, scope[n] & ~scope[c])
                    violation = f"child {c} of sum node {n} lacks {lacks}, which a sibling has"
                    return Property("smooth", False, violation, n)
        return Property("smooth", True)

    @cached_property
    def decomposable(self) -> Property:
        """The children of a product have disjoint scopes."""
        scope = self.graph.scopes
        for n, children in _inner(self.graph, PRODUCT):
            seen = 0
            for i, c in enumerate(children):
                if seen & scope[c]:
                    b = next(b for b in children[:i] if scope[b] & scope[c])
                    shared = _variables(self.graph, scope[b] & scope[c])
                    violation = f"children {b} and {c} of product node {n} share {shared}"
                    return Property("decomposable", False, violation, n)
                seen |= scope[c]
        return Property("decomposable", True)

    @cached_property
    def deterministic(self) -> Property:
        """At most one child of a sum is positive for a complete assignment (sufficient check)."""
        return _deterministic(self.graph, exact=bool(self.decomposable))

    @cached_property
    def structured_decomposable(self) -> Property:
        """Decomposable, and all products split their variables along one tree."""
        if not self.decomposable:
            return replace(self.decomposable, name="structured_decomposable")
        return _laminar(self.graph)

    def __getitem__(self, name: str) -> Property:
        if name not in NAMES:
            raise PropertyError(f"there is no property {name!r}: ask for {', '.join(NAMES)}")
        found: Property = getattr(self, name)
        return found

    def __iter__(self) -> Iterator[Property]:
        return (self[name] for name in NAMES)

    def __repr__(self) -> str:
        return "\n".join(str(p) for p in self)


def properties_of(graph: Graph) -> Properties:
    """The properties of a graph, which remembers them."""
    return graph.once(Properties)


def require(graph: Graph, query: str, *properties: PropertyName) -> None:
    """Refuse ``query`` with a sentence if the graph lacks one of the properties it needs."""
    for name in properties:
        answer = properties_of(graph)[name]
        if not answer:
            article = "a" if name[0] in "sd" else "an"
            raise PropertyError(
                f"{query} needs {article} {name.replace('_', '-')} circuit: {answer.violation}"
            )


def _variables(graph: Graph, mask: int) -> str:
    """Names of the variables in a scope, the first few of many."""
    columns = [v for v in range(graph.n_variables) if mask >> v & 1]
    words = ", ".join(graph.names[v] for v in columns[:5])
    return words + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")


def _inner(graph: Graph, kind: int) -> Iterator[tuple[int, list[int]]]:
    """Nodes of one kind with their children, in topological order."""
    for n in np.flatnonzero(graph.kind == kind).tolist():
        yield n, graph.children(n).tolist()


def _laminar(graph: Graph) -> Property:
    """Scopes of products and of their children are pairwise nested or disjoint.

    That is what it takes for a vtree to exist: the scopes, ordered by
    inclusion, are then its nodes. Scopes are visited from small to large;
    those seen that no other seen one contains are disjoint, so each may only
    lie inside a new scope, or outside it.
    """
    owner: dict[int, int] = {}
    for n, children in _inner(graph, PRODUCT):
        for m in (*children, n):
            owner.setdefault(graph.scopes[m], m)
    nested = NestedScopes(graph.n_variables)
    for scope in sorted(owner, key=lambda s: (s.bit_count(), owner[s])):
        for seen in nested.parts(scope):
            if seen & ~scope:
                a, b = sorted((owner[seen], owner[scope]))
                of_a, of_b = (_variables(graph, graph.scopes[n]) for n in (a, b))
                violation = (
                    f"the scopes of nodes {a} ({of_a}) and {b} ({of_b}) overlap and neither "
                    "contains the other"
                )
                return Property("structured_decomposable", False, violation, b)
        nested.join(scope)
    return Property("structured_decomposable", True)


class NestedScopes:
    """Scopes that are nested or disjoint, as bit masks, from small to large."""

    def __init__(self, n_variables: int) -> None:
        self._parent = list(range(n_variables))
        self._largest = [1 << v for v in range(n_variables)]  # at the representative

    def parts(self, scope: int) -> list[int]:
        """The largest scopes so far that share variables with ``scope``."""
        found = []
        while scope:
            found.append(self._largest[self._top(scope.bit_length() - 1)])
            scope &= ~found[-1]
        return found

    def join(self, scope: int) -> None:
        """Add a scope that contains its parts."""
        top = self._top(scope.bit_length() - 1)
        for part in self.parts(scope):
            self._parent[self._top(part.bit_length() - 1)] = top
        self._largest[top] = scope

    def _top(self, v: int) -> int:
        """Representative of the set of v (union-find, halving the path)."""
        while self._parent[v] != v:
            self._parent[v] = self._parent[self._parent[v]]
            v = self._parent[v]
        return v


def _deterministic(graph: Graph, exact: bool) -> Property:
    overlap = _Overlap(graph, exact)
    for n, children in _inner(graph, SUM):
        if overlap.separated(children):
            continue
        for a, b in combinations(children, 2):
            try:
                answer = overlap.compare(a, b)
            except _TooManyPairsError:
                violation = (
                    f"not proven: after {MAX_PAIRS:,} pairs of nodes the children {a} and {b} of "
                    f"sum node {n} were still undecided"
                )
                return Property("deterministic", False, violation, n)
            if answer != _DISJOINT:
                meet = "can both be positive", "are not shown to exclude each other"
                how = meet[answer != _MEET]
                violation = f"sum node {n} has children {a} and {b} that {how}"
                return Property("deterministic", False, violation, n)
    return Property("deterministic", True)


_DISJOINT: Final = 1
_UNDECIDED: Final = 0
_MEET: Final = -1

Pair = tuple[int, int]


class _TooManyPairsError(Exception):
    """The bound on pairs is spent."""


class _Overlap:
    """Whether the supports of two nodes are disjoint, by recursion over pairs of nodes.

    - Two *boxes* (per variable, the set of values possible) that are disjoint
      in a shared variable prove disjoint supports.
    - A sum is disjoint from m if all its children are.
    - Two products are disjoint if some child of one is disjoint from some
      child of the other.

    "Disjoint" is always true, so the check is sound. "Meet" is exact as well:
    it is only said of products that split their scope into the same parts, in
    a decomposable circuit. Structured-decomposable circuits with equal
    partitions, PSDDs among them, are therefore decided exactly; elsewhere an
    "undecided" may remain. Pairs are remembered, and there is a bound on how
    many are compared, so the time is at most quadratic in the size.

    A box is one integer: a field of arity + 1 bits per variable, one bit per
    value and a spare bit on top, which marks in ``scope`` that the variable is
    in the node's scope. Adding ``ones`` carries into the spare bit of each
    field that is not empty, so that one addition tests all variables.
    """

    def __init__(self, graph: Graph, exact: bool) -> None:
        self._graph = graph
        self._meet = _MEET if exact else _UNDECIDED
        self._children = [graph.children(n).tolist() for n in range(graph.n_nodes)]
        self._kind = graph.kind.tolist()
        starts: list[int] = np.cumsum([0, *(graph.arities + 1)]).tolist()
        self._fields: list[int] = [
            ((1 << arity) - 1) << start
            for arity, start in zip(graph.arities.tolist(), starts[:-1], strict=True)
        ]
        self._ones: int = sum(self._fields)
        self._memo: dict[Pair, int] = {}
        self._examined = 0
        variable, value = graph.variable.tolist(), graph.value.tolist()
        boxes = self._box = list[int]()
        scopes = self._scope = list[int]()
        for n, children in enumerate(self._children):
            box = scope = 0
            if self._kind[n] == INDICATOR:
                box = 1 << (starts[variable[n]] + value[n])
                scope = 1 << (starts[variable[n] + 1] - 1)
            for c in children:
                box |= boxes[c]
                scope |= scopes[c]
            if self._kind[n] == SUM and any(scopes[c] != scope for c in children):
                box |= self._unrestricted(n)
            boxes.append(box)
            scopes.append(scope)

    def _unrestricted(self, n: int) -> int:
        """Boxes of the variables that some child of a sum that is not smooth leaves free."""
        scopes = self._graph.scopes
        free = 0
        for c in self._children[n]:
            free |= scopes[n] & ~scopes[c]
        return sum(field for v, field in enumerate(self._fields) if free >> v & 1)

    def _some_empty(self, box: int, scope: int) -> bool:
        """Whether the box has no value left for some variable of the scope."""
        return (box + self._ones) & scope != scope

    def separated(self, nodes: list[int]) -> bool:
        """Whether one variable alone tells all the nodes apart: linear, and the usual case."""
        seen = twice = 0
        scope = self._scope[nodes[0]]
        for n in nodes:
            twice |= seen & self._box[n]
            seen |= self._box[n]
            scope &= self._scope[n]
        return self._some_empty(twice, scope)

    def compare(self, a: int, b: int) -> int:
        """The answer for two nodes; an error when the bound on pairs is spent.

        The recursion is a stack of suspended questions, since chains of thousands of nodes are
        deeper than Python calls may be.
        """
        answer = self._known((a, b))
        stack = [((a, b), self._ask(a, b))] if answer is None else []
        while stack:
            pair, question = stack[-1]
            try:
                wanted = question.send(answer)
            except StopIteration as end:
                answer = self._memo[pair] = end.value
                stack.pop()
                continue
            answer = self._known(wanted)
            if answer is None:
                stack.append((wanted, self._ask(*wanted)))
        found: int = answer  # type: ignore[assignment]
        return found

    def _known(self, pair: Pair) -> int | None:
        """What the boxes, or an earlier comparison, say; None if the children must be asked."""
        self._examined += 1
        if self._examined > MAX_PAIRS:
            raise _TooManyPairsError
        a, b = pair
        scope = self._scope[a] & self._scope[b]
        if a == b or not scope:
            return self._meet
        if self._some_empty(self._box[a] & self._box[b], scope):
            return _DISJOINT
        if self._kind[a] == self._kind[b] == INDICATOR:
            return self._meet
        return self._memo.get(pair)

    def _ask(self, a: int, b: int) -> Generator[Pair, Any, int]:
        """Yields the pairs whose answers it needs, and returns the answer for (a, b)."""
        if self._kind[a] != SUM:
            a, b = b, a
        if self._kind[a] == SUM:
            for c in self._children[a]:
                answer: int = yield c, b
                if answer != _DISJOINT:
                    return answer
            return _DISJOINT
        matched = self._matched(a, b)
        verdict = self._meet if matched else _UNDECIDED
        for pair in matched or product(self._children[a] or [a], self._children[b] or [b]):
            answer = yield pair
            if answer == _DISJOINT:
                return _DISJOINT
            verdict = max(verdict, answer)
        return verdict

    def _matched(self, a: int, b: int) -> list[Pair]:
        """Children of two products by equal scope; empty where their partitions differ."""
        of_a = {self._scope[c]: c for c in self._children[a] or [a]}
        of_b = {self._scope[d]: d for d in self._children[b] or [b]}
        if of_a.keys() != of_b.keys():
            return []
        return [(c, of_b[scope]) for scope, c in of_a.items()]
