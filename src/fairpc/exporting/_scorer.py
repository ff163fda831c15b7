"""What scores a row, as plain tables: how values become codes, and P(x | f, s) of these codes.

All that a model knows is in here, and nothing of how it was learned. Each writer of a file turns
the same tables into the language of its file, so the rule is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final, Literal

import numpy as np

from fairpc.circuit import INDICATOR, PRODUCT
from fairpc.core import Floats, Ints, NotAnsweredError, TableError
from fairpc.data import (
    CALENDAR,
    EXACT,
    Column,
    Level,
    Sentinel,
    marks_of,
    sentinel_texts,
)
from fairpc.models import (
    CircuitClassifier,
    FairDistribution,
    Forest,
    ForestDistribution,
    Strata,
    cells_of,
)

InputKind = Literal["text", "number", "boolean", "date"]
TINIEST: Final = -600.0
"""Logarithms of products above this are well within the range of a 64-bit number."""


@dataclass(frozen=True, eq=False)
class Input:
    """One column of a table as its owner has it, and the code of each value."""

    name: str
    arity: int  #: number of codes
    kind: InputKind  #: what is given; booleans are text, as names are, or the numbers 0 and 1
    texts: Mapping[str, int]  #: code of each text, where the levels are text
    numbers: Mapping[float, int]  #: code of each number, where the levels are numbers
    marks: tuple[Sentinel, ...]  #: what means "missing": of text text, else numbers, microseconds
    #: between bins, of dates in microseconds since 1970; None where there are levels
    edges: tuple[float, ...] | None = None
    other: int = -1  #: code of what is not listed; -1, missing, unless the column is open

    @classmethod
    def of(cls, column: Column, marks: tuple[Sentinel, ...]) -> Input:
        """The input of a column of an encoding."""
        known = column.name, column.arity
        if column.binned:
            kind: InputKind = "date" if column.kind == "date" else "number"
            numbers = marks_of(kind, marks)
            if kind == "date":
                numbers = [m for m in numbers if CALENDAR[0] <= m <= CALENDAR[1]]
            same = tuple(numbers)
            return cls(*known, kind, {}, {}, same, column.edges)
        other = column.arity - 1 if column.open else -1
        if column.kind == "boolean":
            return cls(*known, "boolean", {}, {0: 0, 1: 1}, ())
        levels = {} if column.textual else column.number_levels
        # A float does not hold the digits of the largest numbers: they are names.
        named = column.textual or max(map(abs, levels)) >= EXACT
        if named:
            words = tuple(sorted(sentinel_texts(marks)))
            return cls(*known, "text", column.text_levels, {}, words, other=other)
        same = tuple(marks_of("number", marks))
        return cls(*known, "number", {}, levels, same, other=other)

    @property
    def missing_text(self) -> str:
        """The text that means "missing" where a language has no word for it: empty, if it may."""
        text = ""
        while text in self.texts:
            text = f"<{text or 'missing'}>"
        return text


@dataclass(frozen=True, eq=False)
class Leaf:
    """A distribution of one feature: the value of each code, and last that of a missing one.

    Features are counted among those that make no strata.
    """

    feature: int
    table: Floats
    children: ClassVar[tuple[int, ...]] = ()


@dataclass(frozen=True)
class Product:
    """A product of nodes; 1 if there are none."""

    children: tuple[int, ...]


@dataclass(frozen=True)
class Sum:
    """A weighted sum of nodes, each different, by weights above zero."""

    children: tuple[int, ...]
    weights: tuple[float, ...]


Node = Leaf | Product | Sum


@dataclass(frozen=True, eq=False)
class Densities:
    """The circuits P(x | f, s), in which all that has one feature is a leaf."""

    nodes: tuple[Node, ...]  #: children first
    roots: Ints  #: node of each P(x | f, s), subgroups × classes

    @property
    def least(self) -> float:
        """A bound below the logarithms of all values but zero."""
        found: list[float] = []
        for node in self.nodes:
            if isinstance(node, Leaf):
                found.append(float(np.log(node.table[node.table > 0].min(initial=1.0))))
            elif isinstance(node, Product):
                found.append(sum(found[c] for c in node.children))
            else:
                pairs = zip(node.children, node.weights, strict=True)
                found.append(min(found[c] + float(np.log(w)) for c, w in pairs))
        return min(found, default=0.0)


@dataclass(frozen=True, eq=False)
class ScorerProgram:
    """P(Df = f | row), as tables."""

    model: str  #: "FairPC", "NLatPC", "LatNB" or "TwoNB"
    features: tuple[Input, ...]  #: the columns that are used, in order
    sensitive: tuple[Input, ...]
    cells: tuple[tuple[int, ...], ...]  #: of each group its code in each sensitive column
    classes: tuple[Level, ...]  #: of the label, in the order of ``classes_``
    positive: int  #: number of the positive class
    strata: Strata  #: which features make strata; a subgroup is s · (number of strata) + stratum
    rates: Floats  #: P(s, f), subgroups × classes
    densities: Forest | Densities  #: P(x | f, s)

    @classmethod
    def of(cls, model: Any) -> ScorerProgram:
        """The tables of a fitted model."""
        if not isinstance(model, CircuitClassifier):
            raise NotAnsweredError(
                f"{type(model).__name__} scores with classifiers, not with a circuit, and is not "
                "exported: score tables with its predict_proba or `fairpc predict`, or export a "
                "FairPC, NLatPC, LatNB or TwoNB"
            )
        distribution, coding = model._distribution(), model.coding_
        features, groups = coding.features, coding.groups
        joint = distribution.subgroup_rate[:, :, None] * distribution.subgroup_decision_rate
        found = cls(
            type(model).__name__,
            tuple(Input.of(column, features.missing_values) for column in features.columns),
            tuple(Input.of(column, groups.missing_values) for column in groups.columns),
            groups.cells,
            coding.labels.classes,
            coding.labels.positive,
            distribution.layout.strata,
            joint.reshape(-1, joint.shape[2]),
            distribution.forest
            if isinstance(distribution, ForestDistribution)
            else _densities(distribution),
        )
        for given in found.sensitive:
            same = [f for f in found.features if f.name == given.name and f.kind != given.kind]
            if same:
                raise TableError(
                    f"column {given.name!r} is a feature of kind {same[0].kind} and a sensitive "
                    f"attribute of kind {given.kind}: give one of them another name"
                )
        return found

    @property
    def n_groups(self) -> int:
        return len(self.cells)

    @property
    def rest(self) -> list[int]:
        """The features that make no strata, in the order of the forest or of the circuits."""
        return self.strata.rest(len(self.features))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """All columns that are read, each once."""
        return tuple({i.name: i for i in (*self.sensitive, *self.features)}.values())

    @property
    def group_place(self) -> Ints:
        """Group of each crossing of the codes of the sensitive columns; -1 where there is none."""
        arities = [column.arity for column in self.sensitive]
        place = np.full(prod(arities), -1, np.int64)
        place[np.ravel_multi_index(tuple(np.array(self.cells).T), arities)] = range(self.n_groups)
        return place


def _densities(distribution: FairDistribution) -> Densities:
    """The circuits below the cells (f, s); what has no feature is marginalised, that is 1."""
    circuit, layout = distribution.circuit, distribution.layout
    graph = circuit.graph
    cells = cells_of(graph, layout)
    feature_of = {column: j for j, column in enumerate(layout.features)}
    mask = sum(1 << column for column in feature_of)
    needed, below = set(), cells.ravel().tolist()
    while below:
        node = below.pop()
        if node not in needed and graph.scopes[node] & mask:
            needed.add(node)
            below += graph.children(node).tolist()
    building = _Building()
    for n in sorted(needed):
        children = [c for c in graph.children(n).tolist() if c in needed]
        scope = graph.scopes[n] & mask
        if graph.kind[n] == INDICATOR:
            column = int(graph.variable[n])
            table = np.zeros(int(graph.arities[column]) + 1)
            table[[int(graph.value[n]), -1]] = 1.0
        elif scope & (scope - 1):
            building.join(n, children, None if graph.kind[n] == PRODUCT else circuit.weights(n))
            continue
        else:
            tables = np.stack([building.leaves[c].table for c in children])
            column = scope.bit_length() - 1
            product = graph.kind[n] == PRODUCT
            table = tables.prod(axis=0) if product else circuit.weights(n) @ tables
        building.leaves[n] = Leaf(feature_of[column], table)
    roots = [[building.place(cell) for cell in group] for group in cells.tolist()]
    return Densities(tuple(building.nodes), np.array(roots, np.int64))


class _Building:
    """Nodes while they are made; equal leaves are one."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaves: dict[int, Leaf] = {}
        self._place: dict[int, int] = {}
        self._equal: dict[Any, int] = {}

    def join(self, n: int, children: list[int], weights: Floats | None) -> None:
        """Add a product, or a sum; a node of one child is that child."""
        if weights is None:
            places = tuple(map(self.place, children))
            self._place[n] = places[0] if len(places) == 1 else self._add(Product(places))
            return
        merged: dict[int, float] = {}
        for child, weight in zip(children, weights.tolist(), strict=True):
            if weight > 0:
                place = self.place(child)
                merged[place] = merged.get(place, 0.0) + weight
        self._place[n] = self._add(Sum(tuple(merged), tuple(merged.values())))

    def place(self, n: int) -> int:
        """Where a node is; leaves are added when they are asked for."""
        if n not in self._place:
            self._place[n] = self._add(self.leaves.get(n, Product(())))
        return self._place[n]

    def _add(self, node: Node) -> int:
        key = (node.feature, node.table.tobytes()) if isinstance(node, Leaf) else node
        if key not in self._equal:
            self._equal[key] = len(self.nodes)
            self.nodes.append(node)
        return self._equal[key]
