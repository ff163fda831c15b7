"""A builder of circuits: nodes by number, equal nodes shared, parents after children."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

import numpy as np

from fairpc.circuit._circuit import Circuit
from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, Graph, variable_index
from fairpc.core import CircuitError

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
        self._ids: dict[_Node, int] = {}  # the nodes, in the order of their numbers
        self._weights: list[tuple[float, ...]] = []
        self._ties: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def indicator(self, variable: int | str, value: int) -> int:
        """The leaf [variable = value]."""
        column = variable_index(self._names, variable)
        if not 0 <= value < self._arities[column]:
            raise CircuitError(
                f"{self._names[column]!r} has no value {value}: its values are 0 to "
                f"{self._arities[column] - 1}"
            )
        return self._ids.setdefault((INDICATOR, column, int(value), (), -1), len(self._ids))

    def product(self, *children: int) -> int:
        """The product of nodes; of a single node, that node itself."""
        # A product commutes: sorting lets equal products meet.
        below = tuple(sorted(map(int, children)))
        if not below:
            raise CircuitError("a product has no children: give it at least one")
        if not 0 <= below[0] <= below[-1] < len(self._ids):
            self._known(children)
        if len(below) == 1:
            return children[0]
        return self._ids.setdefault((PRODUCT, -1, -1, below, -1), len(self._ids))

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
        node = SUM, -1, -1, below, self._block(below, weights, tie)
        return self._ids.setdefault(node, len(self._ids))

    def categorical(
        self,
        variable: int | str,
        weights: Sequence[float] | None = None,
        *,
        tie: Hashable | None = None,
    ) -> int:
        """A discrete distribution of one variable: the sum of all its indicators."""
        column = variable_index(self._names, variable)
        leaves = [self.indicator(column, v) for v in range(self._arities[column])]
        return self.sum(leaves, weights, tie=tie)

    def build(self, root: int) -> Circuit:
        """The circuit below ``root``; what is not below it is left out."""
        self._known((root,))
        kind, variable, value, below, block = zip(*self._ids, strict=True)
        reached = bytearray(root + 1)
        reached[root] = 1
        for n in range(root, -1, -1):
            if reached[n]:
                for c in below[n]:
                    reached[c] = 1
        keep = np.frombuffer(reached, np.bool_)
        kept = [n for n, is_below in enumerate(reached) if is_below]
        # Blocks are numbered by the first sum that uses them, so that the same
        # nodes give the same graph however they were built.
        number = {-1: -1}
        blocks = [number.setdefault(block[n], len(number) - 1) for n in kept]
        weights = [self._weights[b] for b in list(number)[1:]]
        sizes = [len(below[n]) for n in kept]
        child = np.fromiter(chain.from_iterable(below[n] for n in kept), np.int64)
        graph = Graph(
            names=self._names,
            arities=np.array(self._arities),
            kind=np.array(kind[: root + 1])[keep],
            variable=np.array(variable[: root + 1])[keep],
            value=np.array(value[: root + 1])[keep],
            child_ptr=np.append(0, np.cumsum(sizes)),
            child=(np.cumsum(keep) - 1)[child],
            block=np.array(blocks),
            block_ptr=np.append(0, np.cumsum([len(w) for w in weights])),
        )
        return Circuit(graph, np.fromiter(chain.from_iterable(weights), np.float64))

    def _known(self, children: Sequence[int]) -> None:
        n = len(self._ids)
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
                f"node {len(self._ids)} has {size} children and {len(given)} weights: "
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
                f"node {len(self._ids)} has {size} children and tie {tie!r} has "
                f"{len(self._weights[block])} parameters: tied sums need equally many children"
            )
        if given is not None and self._weights[block] != given:
            raise CircuitError(
                f"node {len(self._ids)} gives tie {tie!r} the weights {given}: it has "
                f"{self._weights[block]} already; give them once"
            )
        return block
