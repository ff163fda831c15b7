"""One structure of P(x | f, s) for all cells, and the ways to learn it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final, Literal

import numpy as np

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.em import em, maximize
from fairpc.circuit.flows import prepare
from fairpc.circuit.graph import Circuit
from fairpc.data.table import Table
from fairpc.errors.arrays import Floats
from fairpc.fair.start import Structure
from fairpc.structure import (
    CellCircuits,
    Gain,
    Smoothing,
    Stop,
    Strudel,
    bootstrap_weights,
    graft,
)
from fairpc.structure.cells import CellSearch
from fairpc.structure.search import Method


@dataclass(frozen=True)
class Kind:
    """How the circuits of all cells are learned.

    Attributes:
        trees: what they start from: the Chow–Liu tree of all rows, or of each cell's own.
        splits: how edges are split, if they are.
        clusters: whether the rows are those of one cluster of each cell, not all of it; their
            trees are pruned, as there are fewer rows.
    """

    trees: Literal["pooled", "cell"]
    splits: Literal["gain", "strudel", "none"]
    clusters: bool = False

    @property
    def words(self) -> str:
        tree = {"pooled": "one tree for all cells", "cell": "a tree for each cell"}[self.trees]
        split = {"gain": ", split by gain", "strudel": ", split as in Strudel", "none": ""}
        return tree + split[self.splits] + (", of a cluster of its rows" if self.clusters else "")


PAPER: Final = Kind("pooled", "strudel")
TREES: Final = Kind("cell", "none")
SINGLE: Final = Kind("cell", "gain")
MIXED: Final = (SINGLE, Kind("cell", "strudel"), Kind("pooled", "gain"), PAPER)
"""The components of a mixture of structures, in turn."""
CLUSTER: Final = Kind("cell", "none", clusters=True)
REFINEMENTS: Final = 5
"""Updates of EM by which parameters forget the completions they came from."""


@dataclass(frozen=True, eq=False)
class Component:
    """The circuits of all cells (f, s), f being the slow index, and how they were learned.

    Attributes:
        kind: how they were learned.
        learned: structures, with parameters from complete or completed rows.
        refined: the same circuits with other parameters, if they were given others.
    """

    kind: Kind
    learned: CellCircuits
    refined: tuple[Circuit, ...] = ()

    def graft(self, builder: CircuitBuilder, cell: int, columns: range, key: int) -> int:
        """Add the circuit of a cell to a larger one; give back its root."""
        if self.refined:
            return graft(builder, self.refined[cell], columns, key=(key, cell))
        return self.learned.graft(builder, cell, columns, key=key)

    @cached_property
    def circuits(self) -> tuple[Circuit, ...]:
        """The circuit of each cell."""
        return self.refined or tuple(
            self.learned.circuit(i) for i in range(len(self.learned.cells))
        )

    def shrunk(self, strength: float) -> Component:
        """The same counts of complete or completed rows, shrunk with another strength."""
        cells = tuple(c.with_counts(c.counts, shrinkage(strength)) for c in self.learned.cells)
        return replace(self, learned=replace(self.learned, cells=cells), refined=())

    @cached_property
    def base(self) -> Component:
        """The same structures with the parameters that shrinking goes towards."""
        cells = tuple(
            c.with_counts(np.zeros(len(c.counts)), shrinkage(1.0)) for c in self.learned.cells
        )
        return replace(self, learned=replace(self.learned, cells=cells), refined=())


def shrinkage(strength: float) -> Smoothing:
    """Prior rows for every sum, spread as if the cell's features were independent."""
    return Smoothing(strength, "marginal")


def learn_component(
    kind: Kind,
    cells: Sequence[Table],
    held_out: Sequence[Table] | None,
    structure: Structure,
    strength: float,
    rng: np.random.Generator,
    *,
    bootstrap: bool = False,
) -> Component:
    """Learn the circuits of all cells.

    ``held_out`` says when Strudel stops, within the bounds of ``structure``. With
    ``bootstrap`` the structure is learned on Bayesian-bootstrap weights of the
    rows; parameters always come from the rows as they are.
    """
    search = CellSearch(
        cells,
        validation=held_out if kind.splits == "strudel" else None,
        method=_method(kind, structure),
        trees=kind.trees,
        prune="aic" if kind.clusters else None,
        smoothing=shrinkage(strength),
        structure_weights=[_reweighted(t, rng) for t in cells] if bootstrap else None,
        random_state=rng,
    )
    for _ in search:  # not run(): an interrupt ends the whole recipe, not this search alone
        pass
    return Component(kind, search.best())


@dataclass(frozen=True, eq=False)
class Counted:
    """A component, and the expected counts of its parameters in the rows of each cell.

    Attributes:
        component: the circuits.
        counts: per cell, a count for each parameter of its circuit.
    """

    component: Component
    counts: tuple[Floats, ...]

    @classmethod
    def of(cls, component: Component, cells: Sequence[Table], strength: float) -> Counted:
        """The counts in these cells, holes summed out by a few updates of EM.

        A search sees one completion of each row. That is good enough to find a structure;
        parameters should come from all completions.
        """
        circuits = zip(component.circuits, component.base.circuits, cells, strict=True)
        return cls(component, tuple(_counts(c, t, strength * b.parameters) for c, b, t in circuits))

    def shrunk(self, strength: float) -> Component:
        """The component with parameters from these counts, shrunk with some strength."""
        circuits, base = self.component.circuits, self.component.base.circuits
        refined = [
            c.with_parameters(maximize(c.graph, n, strength * b.parameters, b.parameters))
            for c, n, b in zip(circuits, self.counts, base, strict=True)
        ]
        return replace(self.component, refined=tuple(refined))


def _counts(circuit: Circuit, table: Table, prior: Floats) -> Floats:
    used = np.flatnonzero(table.weights > 0)
    if not len(used):
        return np.zeros(circuit.graph.n_parameters)
    rows = Table(
        np.asfortranarray(table.codes[used]), table.weights[used], table.arities, table.names
    )
    # Without holes a deterministic circuit has the same counts whatever its parameters; but
    # without a prior some of them may be zero where these rows are.
    n_updates = REFINEMENTS if (rows.codes < 0).any() else 0
    positive = 0.999 * circuit.parameters + 0.001 * circuit.graph.uniform()
    steps = em(prepare(circuit.graph, rows), positive, prior=prior)
    return next(islice(steps, n_updates, None)).flows


def _method(kind: Kind, structure: Structure) -> Method:
    if kind.splits == "gain":
        return Gain()
    most = structure.max_splits if kind.splits == "strudel" else 0
    return Strudel(stop=Stop(most, structure.patience))


def _reweighted(table: Table, rng: np.random.Generator) -> Floats:
    return bootstrap_weights(table, rng) if table.weights.any() else table.weights
