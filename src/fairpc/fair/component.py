"""One structure of P(x | f, s) for all cells, and the ways to learn it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fairpc.data.table import Table
from fairpc.fair.fit import Options
from fairpc.fair.rows import FloatArray
from fairpc.structure import CellCircuits, Gain, Stop, Strudel, bootstrap_weights
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


@dataclass(frozen=True, eq=False)
class Component:
    """The circuits of all cells (f, s), f being the slow index, and how they were learned."""

    kind: Kind
    circuits: CellCircuits

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


def _method(kind: Kind, options: Options, n_splits: int | None) -> Method:
    if kind.splits == "gain":
        return Gain()
    most = options.structure.max_splits if n_splits is None else n_splits
    return Strudel(stop=Stop(most if kind.splits == "strudel" else 0, options.structure.patience))


def _reweighted(table: Table, rng: np.random.Generator) -> FloatArray:
    return bootstrap_weights(table, rng) if table.weights.any() else table.weights
