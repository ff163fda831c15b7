"""The fixed upper layers of the models: where the independencies are built in.

Paper, Section "Encoding independence assumptions" and Figure 2. The root sums
over the groups s; below each group a sum over the decision; below that the
product of an indicator, the mechanism P(D | Df, S) and the sub-circuit of X.
The weights of the sums over the decision are *one* parameter block for all
groups: that is Df ⟂ S (D ⟂ S without a latent fair decision), for any parameters.
That D and X hang below one product is D ⟂ X given Df, S.

Where the decision's rates may differ between groups by some δ, each group has a block of its own,
and every update of EM keeps these that near to each other (``Near`` of :mod:`fairpc.circuit`).

With strata (:mod:`fairpc.models._strata`) the root sums over subgroups (s, a), there is one such
block for each stratum, which is Df ⟂ S given A, and each subgroup has a mechanism: D ⟂ X given
Df, S, A.

Their rates can also be learned by themselves: ``_top_em``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.circuit import INDICATOR, SUM, Circuit, CircuitBuilder, Graph
from fairpc.core import CircuitError, Codes, Floats, Ints, LearningError
from fairpc.models._strata import UNDIVIDED, Strata

if TYPE_CHECKING:
    from fairpc.models._rows import Rows
    from fairpc.models._top_em import TopRates

Model = Literal["FairPC", "NLatPC", "LatNB", "TwoNB"]

LATENT: Final = ("FairPC", "LatNB")
"""Models with a latent fair decision Df between S and D."""

NAIVE: Final = ("LatNB", "TwoNB")
"""Models whose features are independent given the decision and the group."""

S: Final = 0
DF: Final = 1

ALIKE: Final = 1e-12
"""By how much weights may differ that are equal but for rounding."""


Graft = Callable[[CircuitBuilder, int, int, Sequence[int]], int]
"""Adds the sub-circuit of X for decision f in subgroup s, given the columns of X; its root."""


@dataclass(frozen=True)
class Layout:
    """Which column of the circuit is what: S, Df if there is one, D, X, a component if any."""

    n_groups: int
    n_classes: int
    names: tuple[str, ...]
    arities: tuple[int, ...]
    model: Model
    #: boxes and clusters of a forest circuit; a last column tells from which a row is
    n_components: int = 1
    strata: Strata = UNDIVIDED  #: within which the decision is independent of S

    def __post_init__(self) -> None:
        if (self.strata or self.strata.delta) and not self.latent:
            raise LearningError(
                f"given or delta was set for {self.model}, which has no latent fair decision: use "
                "FairPC"
            )
        if self.strata.delta and self.n_classes != 2:
            raise LearningError(
                f"delta is over 0 and the label has {self.n_classes} classes: rates that may "
                "differ are those of two; merge classes, or leave delta out"
            )

    @classmethod
    def of(cls, model: Model, rows: Rows) -> Layout:
        sizes = rows.n_groups, rows.n_classes, rows.names, tuple(rows.arities.tolist())
        return cls(*sizes, model, strata=rows.strata)

    @property
    def latent(self) -> bool:
        """Whether there is a latent fair decision Df between S and D."""
        return self.model in LATENT

    @property
    def tied(self) -> bool:
        """Whether the decision is independent of S: but in TwoNB, and where rates may differ."""
        return self.model != "TwoNB" and not self.strata.delta

    @property
    def n_subgroups(self) -> int:
        """Groups times strata."""
        return self.n_groups * self.strata.n

    @property
    def d(self) -> int:
        """Column of the recorded label."""
        return 2 if self.latent else 1

    @property
    def x(self) -> range:
        """Columns of the features."""
        return range(self.d + 1, self.d + 1 + len(self.names))

    @property
    def features(self) -> list[int]:
        """Columns of the features that make no strata."""
        return [self.x[j] for j in self.strata.rest(len(self.names))]

    @property
    def below(self) -> list[int]:
        """Columns of the circuits of X: features, and the component if there is one."""
        return self.features + ([] if self.component is None else [self.component])

    @property
    def decision(self) -> int:
        """Column of what is predicted: Df, or D without a latent fair decision."""
        return DF if self.latent else self.d

    @property
    def component(self) -> int | None:
        """Column of the component variable, if there is one."""
        return self.x.stop if self.n_components > 1 else None

    @property
    def variables(self) -> dict[str, int]:
        """Name and arity of every column; a feature keeps its name, the others give way."""
        sizes = {"S": self.n_groups} | ({"Df": self.n_classes} if self.latent else {})
        sizes |= {"D": self.n_classes}
        top = {self._free(name): size for name, size in sizes.items()}
        below = dict(zip(self.names, self.arities, strict=True))
        last = {self._free("component"): self.n_components} if self.n_components > 1 else {}
        return top | below | last

    def _free(self, name: str) -> str:
        while name in self.names:
            name += "*"
        return name

    def codes(
        self,
        s: npt.ArrayLike | None,
        d: npt.ArrayLike | None,
        x: Codes,
    ) -> Codes:
        """Rows of the circuit, without Df; what is None is missing."""
        result = np.full((len(x), len(self.variables)), -1, np.int16, order="F")
        if s is not None:
            result[:, S] = s
        if d is not None:
            result[:, self.d] = d
        result[:, self.x.start : self.x.stop] = x
        return result


def build(
    layout: Layout,
    graft: Graft,
    group_rate: Floats,
    decision_rate: Floats,
    mechanism: Floats | None,
) -> Circuit:
    """The circuit of a model.

    ``group_rate`` is P(S), with strata P(S, A) of the subgroups. ``decision_rate`` is [s, f], of
    subgroups; the rows of a stratum are equal where the decision is tied. ``mechanism`` is
    P(D = d | Df = f, S = s) as [s, f, d], of subgroups, for latent models.
    """
    b, strata = CircuitBuilder(layout.variables), layout.strata
    groups = []
    for g in range(layout.n_subgroups):
        s, a = divmod(g, strata.n)
        cells = []
        for f in range(layout.n_classes):
            parts = [b.indicator(layout.decision, f)]
            if mechanism is not None:
                parts.append(b.categorical(layout.d, mechanism[g, f].tolist(), tie=("D", g, f)))
            cells.append(b.product(*parts, graft(b, f, g, layout.features)))
        named = zip(strata.columns, strata.values(a), strict=True)
        where = [b.indicator(S, s), *(b.indicator(layout.x[j], value) for j, value in named)]
        tie = ("decision", a) if layout.tied else ("decision", s, a)
        groups.append(b.product(*where, b.sum(cells, decision_rate[g].tolist(), tie=tie)))
    return b.build(b.sum(groups, group_rate.tolist(), tie="S"))


def feature_circuits(circuit: Circuit, layout: Layout, order: Ints | None = None) -> Circuit:
    """P(x | f, s) of all cells of a model, as one circuit: a sum over them, s being slow.

    It is over the features, and the component if there is one; nodes that cells share stay shared.
    ``order`` takes the decisions in another order than their own.
    """
    graph, names = circuit.graph, list(layout.variables)
    b = CircuitBuilder({names[j]: int(circuit.arities[j]) for j in layout.below})
    copy = FeatureCopier(circuit, layout.below, range(len(layout.below)))
    upper = 1 << layout.decision | 1 << layout.d
    roots = []
    decisions = np.arange(layout.n_classes) if order is None else order
    for cell in cells_of(graph, layout)[:, decisions].ravel().tolist():
        own = [n for n in graph.children(cell).tolist() if not graph.scopes[n] & upper]
        roots.append(b.product(*(copy(b, n) for n in own)))
    return b.build(b.sum(roots, [1 / len(roots)] * len(roots), tie="cells"))


def assembled(layout: Layout, rates: TopRates, features: Circuit) -> Circuit:
    """The circuit of a model from its parts: rates, and circuits of :func:`feature_circuits`."""
    rates.check(layout)
    variables = list(layout.variables.items())
    own = list(zip(features.names, features.arities.tolist(), strict=True))
    roots = features.graph.children(features.graph.root).tolist()
    n_cells = layout.n_subgroups * layout.n_classes
    if own != [variables[j] for j in layout.below] or len(roots) != n_cells:
        raise CircuitError("the circuits of X are not over the features, one for each cell")
    if np.ptp(features.weights(features.graph.root)) > ALIKE:
        raise CircuitError("the sum over the circuits of X prefers some cells: it only lists them")
    every = (1 << len(own)) - 1
    if any(features.graph.scopes[root] != every for root in roots):
        raise CircuitError("a circuit of X is not over all features: fit the model again")
    copy = FeatureCopier(features, range(len(own)), layout.below)

    def graft(b: CircuitBuilder, f: int, g: int, columns: Sequence[int]) -> int:
        return copy(b, roots[g * layout.n_classes + f])

    mechanism = rates.mechanism if layout.latent else None
    return build(layout, graft, rates.group_rate, rates.by_subgroup(layout), mechanism)


class FeatureCopier:
    """Adds what is below nodes of a circuit to a builder, in its order and with its ties."""

    def __init__(self, circuit: Circuit, columns: Sequence[int], to: Sequence[int]) -> None:
        self._graph = graph = circuit.graph
        self._place = dict(zip(columns, to, strict=True))
        self._kind, self._theta = graph.kind.tolist(), circuit.parameters.tolist()
        self._ptr, self._child = graph.child_ptr.tolist(), graph.child.tolist()
        self._block, self._block_ptr = graph.block.tolist(), graph.block_ptr.tolist()
        self._copied: dict[int, int] = {}

    def __call__(self, b: CircuitBuilder, root: int) -> int:
        """The new number of a node."""
        todo, new = [root], set()
        while todo:
            n = todo.pop()
            if n not in self._copied and n not in new:
                new.add(n)
                todo += self._child[self._ptr[n] : self._ptr[n + 1]]
        for n in sorted(new):
            below = [self._copied[c] for c in self._child[self._ptr[n] : self._ptr[n + 1]]]
            if self._kind[n] == SUM:
                own = self._block[n]
                theta = self._theta[self._block_ptr[own] : self._block_ptr[own + 1]]
                self._copied[n] = b.sum(below, theta, tie=("below", own))
            else:
                self._copied[n] = b.product(*below) if below else self._indicator(b, n)
        return self._copied[root]

    def _indicator(self, b: CircuitBuilder, n: int) -> int:
        column = int(self._graph.variable[n])
        if column not in self._place:
            raise CircuitError(f"{self._graph.name(n)} is below features, and is none of them", n)
        return b.indicator(self._place[column], int(self._graph.value[n]))


@dataclass(frozen=True, eq=False)
class Top:
    """Where the parameters of the upper layers are; s is a subgroup where there are strata."""

    group: Ints  #: parameters of P(S), with strata of P(S, A)
    decision: Ints  #: parameters of P(decision | s), [s, f]; equal in a stratum where it is tied
    mechanism: Ints  #: parameters of P(D = d | Df = f, S = s), [s, f, d]; empty without Df

    @classmethod
    def of(cls, graph: Graph, layout: Layout) -> Top:
        """Read off a graph made by :func:`build`."""
        decisions, mechanism = {}, {}
        rates = _parameters(graph, graph.root)
        groups = np.empty(layout.n_subgroups, np.int64)
        for k, (g, node, order) in enumerate(_decisions(graph, layout)):
            groups[g] = rates[k]
            # The values of the decision may come in any order: their indicators tell.
            decisions[g] = _parameters(graph, node)[order]
            if layout.latent:
                cells = graph.children(node)[order].tolist()
                leaves = [_leaf(graph, layout.d, cell) for cell in cells]
                mechanism[g] = [_parameters(graph, leaf) for leaf in leaves]
        return cls(groups, _in_order(decisions), _in_order(mechanism))


def cells_of(graph: Graph, layout: Layout) -> Ints:
    """Node of each P(x, d | f, s) with the indicator of f: subgroups × classes."""
    return _in_order({g: graph.children(n)[order] for g, n, order in _decisions(graph, layout)})


def _decisions(graph: Graph, layout: Layout) -> Iterator[tuple[int, int, Ints]]:
    """Of each child of the root its subgroup, its sum over decisions, and the order of these."""
    for group in graph.children(graph.root).tolist():
        node = next(c for c in graph.children(group).tolist() if graph.kind[c] == SUM)
        decided = [_decided(graph, layout.decision, c) for c in graph.children(node).tolist()]
        yield _subgroup(graph, layout, group), node, np.argsort(decided)


def _in_order(by_number: Mapping[int, Any]) -> Ints:
    return np.array([by_number[k] for k in sorted(by_number)], np.int64)


def _subgroup(graph: Graph, layout: Layout, group: int) -> int:
    """Subgroup of a child of the root, by its indicators of S and of the strata."""
    columns = S, *(layout.x[j] for j in layout.strata.columns)
    s, *values = (_decided(graph, column, group) for column in columns)
    return int(np.ravel_multi_index((s, *values), (layout.n_groups, *layout.strata.sizes)))


def _decided(graph: Graph, column: int, cell: int) -> int:
    """Value of a column by its indicator in a product."""
    for c in graph.children(cell).tolist():
        if graph.kind[c] == INDICATOR and graph.variable[c] == column:
            return int(graph.value[c])
    raise CircuitError(f"{graph.name(cell)} decides nothing: build the circuit with build", cell)


def _leaf(graph: Graph, column: int, cell: int) -> int:
    """The sum over one variable alone in the product of a cell."""
    for c in graph.children(cell).tolist():
        if graph.scopes[c] == 1 << column and graph.kind[c] == SUM:
            return int(c)
    raise CircuitError(f"{graph.name(cell)} has no mechanism: build the circuit with build", cell)


def _parameters(graph: Graph, node: int) -> Ints:
    block = graph.block[node]
    return np.arange(graph.block_ptr[block], graph.block_ptr[block + 1])
