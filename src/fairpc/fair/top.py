"""The fixed upper layers of the models: where the independencies are built in.

Paper, Section "Encoding independence assumptions" and Figure 2. The root sums
over the groups s; below each group a sum over the decision; below that the
product of an indicator, the mechanism P(D | Df, S) and the sub-circuit of X.
The weights of the sums over the decision are *one* parameter block for all
groups: that is Df ⟂ S (D ⟂ S without a latent decision), for any parameters.
That D and X hang below one product is D ⟂ X given Df, S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.graph import INDICATOR, SUM, Circuit, Graph
from fairpc.errors import CircuitError
from fairpc.errors.arrays import Codes, Floats, Ints
from fairpc.fair.rows import Rows

Model = Literal["FairPC", "NLatPC", "LatNB", "TwoNB"]

S: Final = 0
DF: Final = 1

Graft = Callable[[CircuitBuilder, int, int, range], int]
"""Adds the sub-circuit of X for decision f in group s, given the columns of X; its root."""


@dataclass(frozen=True)
class Layout:
    """Which column of the circuit is what: S, Df if there is one, D, X, a component if any.

    Attributes:
        n_components: circuits mixed inside each P(x | f, s); with more than one, a last
            variable says which of them a row is from.
        latent: whether there is a hidden decision Df between S and D.
        tied: whether the decision is independent of S (all models but TwoNB).
    """

    n_groups: int
    n_classes: int
    names: tuple[str, ...]
    arities: tuple[int, ...]
    latent: bool
    tied: bool
    n_components: int = 1

    @classmethod
    def of(cls, model: Model, rows: Rows, n_components: int = 1) -> Layout:
        return cls(
            rows.n_groups, rows.n_classes, rows.names, tuple(rows.arities.tolist()),
            latent=model in ("FairPC", "LatNB"), tied=model != "TwoNB",
            n_components=n_components,
        )  # fmt: skip

    @property
    def d(self) -> int:
        """Column of the observed label."""
        return 2 if self.latent else 1

    @property
    def x(self) -> range:
        """Columns of the features."""
        return range(self.d + 1, self.d + 1 + len(self.names))

    @property
    def decision(self) -> int:
        """Column of what is predicted: Df, or D without a latent decision."""
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
        f: npt.ArrayLike | None = None,
    ) -> Codes:
        """Rows of the circuit; what is None is missing, as Df nearly always is."""
        result = np.full((len(x), len(self.variables)), -1, np.int16, order="F")
        if s is not None:
            result[:, S] = s
        if f is not None and self.latent:
            result[:, DF] = f
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

    ``decision_rate`` is [s, f]; the rows are equal where the decision is tied.
    ``mechanism`` is P(D = d | Df = f, S = s) as [s, f, d], for latent models.
    """
    b = CircuitBuilder(layout.variables)
    groups = []
    for s in range(layout.n_groups):
        cells = []
        for f in range(layout.n_classes):
            parts = [b.indicator(layout.decision, f)]
            if mechanism is not None:
                parts.append(b.categorical(layout.d, mechanism[s, f].tolist(), tie=("D", s, f)))
            cells.append(b.product(*parts, graft(b, f, s, layout.x)))
        tie = "decision" if layout.tied else ("decision", s)
        groups.append(
            b.product(b.indicator(S, s), b.sum(cells, decision_rate[s].tolist(), tie=tie))
        )
    return b.build(b.sum(groups, group_rate.tolist(), tie="S"))


@dataclass(frozen=True, eq=False)
class Top:
    """Where the parameters of the upper layers are.

    Attributes:
        group: parameters of P(S).
        decision: parameters of P(decision | s), [s, f]; all rows equal where it is tied.
        mechanism: parameters of P(D = d | Df = f, S = s), [s, f, d]; empty without Df.
    """

    group: Ints
    decision: Ints
    mechanism: Ints

    @classmethod
    def of(cls, graph: Graph, layout: Layout) -> Top:
        """Read off a graph made by :func:`build`."""
        decisions, mechanism = [], []
        for group in graph.children(graph.root).tolist():
            node = next(c for c in graph.children(group).tolist() if graph.kind[c] == SUM)
            cells = graph.children(node).tolist()
            # The values of the decision may come in any order: their indicators tell.
            order = np.argsort([_decided(graph, layout.decision, cell) for cell in cells])
            decisions.append(_parameters(graph, node)[order])
            if layout.latent:
                leaves = [_leaf(graph, layout.d, cells[k]) for k in order]
                mechanism.append([_parameters(graph, leaf) for leaf in leaves])
        return cls(
            _parameters(graph, graph.root),
            np.array(decisions, np.int64),
            np.array(mechanism, np.int64),
        )


def _decided(graph: Graph, column: int, cell: int) -> int:
    """Value of the decision in the product of a cell."""
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
