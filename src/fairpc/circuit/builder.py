"""A builder of circuits: nodes by number, equal nodes shared, parents after children."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fairpc.circuit.graph import INDICATOR, PRODUCT, SUM, Circuit, Graph
from fairpc.errors import CircuitError

_Node = tuple[int, int, int, tuple[int, ...], int]  # kind, variable, value, children, block


class CircuitBuilder:
    """Builds a circuit from the leaves up.

        b = CircuitBuilder({"S": 2, "X": 3})
        cell = [b.product(b.indicator("S", s), b.categorical("X", p)) for s, p in enumerate(px)]
        circuit = b.build(b.sum(cell, [0.7, 0.3]))

    Nodes that are equal become one node: indicators, products of the same
    children, and sums of the same children with the same *given* weights. A sum
    without weights is there to be learned: it starts uniform and keeps
    parameters of its own. ``tie`` names a parameter block: all sums with one
    tie share their parameters, whatever their children.
    """

    def __init__(self, variables: Mapping[str, int]) -> None:
        self._names = tuple(variables)
        self._arities = tuple(int(a) for a in variables.values())
        self._column = {name: i for i, name in enumerate(self._names)}
        self._nodes: list[_Node] = []
        self._ids: dict[Hashable, int] = {}
        self._weights: list[tuple[float, ...]] = []
        self._ties: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def indicator(self, variable: int | str, value: int) -> int:
        """The leaf [variable = value]."""
        column = self._variable(variable)
        if not 0 <= value < self._arities[column]:
            raise CircuitError(
                f"{self._names[column]!r} has no value {value}: its values are 0 to "
                f"{self._arities[column] - 1}"
            )
        return self._add((INDICATOR, column, int(value), (), -1))

    def product(self, *children: int) -> int:
        """The product of nodes; of a single node, that node itself."""
        self._known(children)
        if not children:
            raise CircuitError("a product has no children: give it at least one")
        if len(children) == 1:
            return children[0]
        # A product commutes: sorting lets equal products meet.
        return self._add((PRODUCT, -1, -1, tuple(sorted(map(int, children))), -1))

    def sum(
        self,
        children: Sequence[int],
        weights: Sequence[float] | None = None,
        *,
        tie: Hashable | None = None,
    ) -> int:
        """The mixture of ``children``; parameters are shared with every sum of the same ``tie``."""
        self._known(children)
        if not children:
            raise CircuitError("a sum has no children: give it at least one")
        below = tuple(int(c) for c in children)
        return self._add((SUM, -1, -1, below, self._block(below, weights, tie)))

    def categorical(
        self,
        variable: int | str,
        weights: Sequence[float] | None = None,
        *,
        tie: Hashable | None = None,
    ) -> int:
        """A discrete distribution of one variable: the sum of all its indicators."""
        column = self._variable(variable)
        leaves = [self.indicator(column, v) for v in range(self._arities[column])]
        return self.sum(leaves, weights, tie=tie)

    def build(self, root: int) -> Circuit:
        """The circuit below ``root``; what is not below it is left out."""
        self._known((root,))
        keep = self._below(root)
        number = {old: new for new, old in enumerate(keep)}
        nodes = [self._nodes[n] for n in keep]
        children = [number[c] for node in nodes for c in node[3]]
        # Blocks are numbered by the first sum that uses them, so that the same
        # nodes give the same graph however they were built.
        used = list(dict.fromkeys(node[4] for node in nodes if node[0] == SUM))
        renumbered = {old: new for new, old in enumerate(used)} | {-1: -1}
        weights = [self._weights[b] for b in used]
        graph = Graph(
            names=self._names,
            arities=np.array(self._arities, np.int64),
            kind=np.array([node[0] for node in nodes], np.uint8),
            variable=np.array([node[1] for node in nodes], np.int32),
            value=np.array([node[2] for node in nodes], np.int32),
            child_ptr=np.cumsum([0, *(len(node[3]) for node in nodes)]),
            child=np.array(children, np.int32),
            block=np.array([renumbered[node[4]] for node in nodes], np.int32),
            block_ptr=np.cumsum([0, *(len(w) for w in weights)]),
        )
        return Circuit(graph, np.array([w for ws in weights for w in ws], np.float64))

    def _variable(self, variable: int | str) -> int:
        if isinstance(variable, str):
            if variable not in self._column:
                raise CircuitError(
                    f"there is no variable {variable!r}: the builder has {', '.join(self._names)}"
                )
            return self._column[variable]
        if not 0 <= variable < len(self._names):
            raise CircuitError(f"there is no variable {variable}: there are {len(self._names)}")
        return int(variable)

    def _known(self, children: Sequence[int]) -> None:
        n = len(self._nodes)
        for c in children:
            if not 0 <= c < n:
                raise CircuitError(f"node {n} has the unknown child {c}: build children first")

    def _block(
        self, children: tuple[int, ...], weights: Sequence[float] | None, tie: Hashable | None
    ) -> int:
        size = len(children)
        given = None if weights is None else tuple(float(w) for w in weights)
        if given is not None and len(given) != size:
            raise CircuitError(
                f"node {len(self._nodes)} has {size} children and {len(given)} weights: "
                "give one weight per child"
            )
        if tie is not None:
            key: Hashable = ("tie", tie)
        elif given is not None:
            key = ("weights", children, given)
        else:
            key = ("free", len(self._weights))
        if key not in self._ties:
            self._ties[key] = len(self._weights)
            self._weights.append(given or (1.0 / size,) * size)
        block = self._ties[key]
        if len(self._weights[block]) != size:
            raise CircuitError(
                f"node {len(self._nodes)} has {size} children and tie {tie!r} has "
                f"{len(self._weights[block])} parameters: tied sums need equally many children"
            )
        if given is not None and self._weights[block] != given:
            raise CircuitError(
                f"node {len(self._nodes)} gives tie {tie!r} the weights {given}: it has "
                f"{self._weights[block]} already; give them once"
            )
        return block

    def _add(self, node: _Node) -> int:
        if node not in self._ids:
            self._ids[node] = len(self._nodes)
            self._nodes.append(node)
        return self._ids[node]

    def _below(self, root: int) -> list[int]:
        keep = {root}
        for n in range(root, -1, -1):
            if n in keep:
                keep.update(self._nodes[n][3])
        return sorted(keep)
