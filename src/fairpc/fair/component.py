"""One structure of P(x | f, s) for all cells, and the ways to learn it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.em import fit, laplace
from fairpc.circuit.flows import prepare
from fairpc.circuit.graph import Circuit
from fairpc.data.table import Table
from fairpc.fair.fit import Options
from fairpc.fair.rows import FloatArray
from fairpc.structure import CellCircuits, Gain, Stop, Strudel, bootstrap_weights, graft
from fairpc.structure.cells import CellSearch, Method


@dataclass(frozen=True)
class Kind:
    """How the circuits of all cells are learned.

    Attributes:
        trees: what they start from: the Chow–Liu tree of all rows, or of each cell's own.
        splits: how edges are split, if they are.
    """

    trees: Literal["pooled", "cell"]
    splits: Literal["gain", "strudel", "none"]

    @property
    def words(self) -> str:
        tree = {"pooled": "one tree for all cells", "cell": "a tree for each cell"}[self.trees]
        split = {"gain": ", split by gain", "strudel": ", split as in Strudel", "none": ""}
        return tree + split[self.splits]


PAPER: Final = Kind("pooled", "strudel")
TREES: Final = Kind("cell", "none")
SINGLE: Final = Kind("cell", "gain")
MIXED: Final = (SINGLE, Kind("cell", "strudel"), Kind("pooled", "gain"), PAPER)
"""The components of a mixture, in turn."""
REFINEMENTS: Final = 5
"""Updates of EM by which parameters forget the completions they came from."""


@dataclass(frozen=True, eq=False)
class Component:
    """The circuits of all cells (f, s), f being the slow index, and how they were learned.

    Attributes:
        kind: how they were learned.
        circuits: structures, with parameters from complete or completed rows.
        refined: the same circuits with parameters for which holes were summed out, if any were.
    """

    kind: Kind
    circuits: CellCircuits
    refined: tuple[Circuit, ...] = ()

    def graft(self, builder: CircuitBuilder, cell: int, columns: range, key: int) -> int:
        """Add the circuit of a cell to a larger one; give back its root."""
        if self.refined:
            return graft(builder, self.refined[cell], columns, key=(key, cell))
        return self.circuits.graft(builder, cell, columns, key=key)

    @property
    def n_splits(self) -> int | None:
        """Complexity to keep where there are no held-out rows; Gain stops by itself."""
        return self.circuits.best_split if self.kind.splits == "strudel" else None


def learn_component(
    kind: Kind,
    cells: Sequence[Table],
    held_out: Sequence[Table] | None,
    options: Options,
    rng: np.random.Generator,
    *,
    bootstrap: bool = False,
    n_splits: int | None = None,
) -> Component:
    """Learn the circuits of all cells.

    ``held_out`` says when Strudel stops, or else ``n_splits`` does. With
    ``bootstrap`` the structure is learned on Bayesian-bootstrap weights of the
    rows; parameters always come from the rows as they are.
    """
    search = CellSearch(
        cells,
        validation=held_out if kind.splits == "strudel" else None,
        method=_method(kind, options, n_splits),
        trees=kind.trees,
        smoothing=options.smoothing,
        structure_weights=[_reweighted(t, rng) for t in cells] if bootstrap else None,
        random_state=rng,
    )
    for _ in search:  # not run(): an interrupt ends the whole recipe, not this search alone
        pass
    return Component(kind, search.best())


def holes_summed_out(component: Component, cells: Sequence[Table], smoothing: float) -> Component:
    """The same structure with parameters by EM on the cells, if these have holes.

    A search sees one completion of each row. That is good enough to find a structure;
    parameters should come from all completions.
    """
    if not any((table.codes < 0).any() for table in cells):
        return component
    circuits = (component.circuits.circuit(i) for i in range(len(cells)))
    refined = [_refined(c, t, smoothing) for c, t in zip(circuits, cells, strict=True)]
    return replace(component, refined=tuple(refined))


def _refined(circuit: Circuit, table: Table, smoothing: float) -> Circuit:
    used = np.flatnonzero(table.weights > 0)
    if not len(used):
        return circuit
    rows = Table(
        np.asfortranarray(table.codes[used]), table.weights[used], table.arities, table.names
    )
    fitted = fit(
        prepare(circuit.graph, rows), circuit.parameters,
        prior=laplace(circuit.graph, smoothing), max_iter=REFINEMENTS, tol=0,
    )  # fmt: skip
    return circuit.with_parameters(fitted.parameters)


def _method(kind: Kind, options: Options, n_splits: int | None) -> Method:
    if kind.splits == "gain":
        return Gain()
    most = options.structure.max_splits if n_splits is None else n_splits
    return Strudel(stop=Stop(most if kind.splits == "strudel" else 0, options.structure.patience))


def _reweighted(table: Table, rng: np.random.Generator) -> FloatArray:
    return bootstrap_weights(table, rng) if table.weights.any() else table.weights
