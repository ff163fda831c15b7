"""Where EM starts: structure and parameters from the rows with D in place of Df.

Paper, Section "Initial parameters using prior knowledge": Df should be near D.
Exact equality is a fixed point of EM, so the start is P(D = f | Df = f, S) = .9.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from fairpc.circuit import CircuitBuilder
from fairpc.core import check_choice
from fairpc.data import Table
from fairpc.models._distribution import FairDistribution
from fairpc.models._priors import LEAST, agreeing_mechanism, smoothed
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, Model, build
from fairpc.structure import (
    HELD_OUT,
    METHODS,
    MODEL_METHODS,
    CellCircuits,
    ModelMethod,
    Stop,
    Strudel,
    learn_cells,
)


@dataclass(frozen=True)
class Structure:
    """How P(x | f, s) is learned.

    Attributes:
        method: "strudel", as in the paper; "chow-liu", one tree for all cells.
        max_splits, patience: bounds of the search.
    """

    method: ModelMethod = "strudel"
    max_splits: int = 1000
    patience: int = 100

    def __post_init__(self) -> None:
        check_choice("structure", self.method, MODEL_METHODS)

    @property
    def stop(self) -> Stop:
        """When Strudel stops."""
        return Stop(self.max_splits, self.patience)


def cells_of(rows: Rows) -> list[Table]:
    """The rows of each cell (d, s), with d as the slow index; with strata s is the subgroup."""
    own = rows.by_subgroup()
    return [own.cell(d, s) for d in range(own.n_classes) for s in range(own.n_groups)]


def learn_structure(
    rows: Rows,
    validation: Rows | None,
    structure: Structure,
    smoothing: float,
    random_state: int | np.random.Generator | None = None,
) -> CellCircuits:
    """P(x | d, s) for every cell, as in the paper: with D in place of Df.

    Chance enters only where features are missing, which the search fills in by draws.
    """
    watched = validation if structure.method in HELD_OUT else None
    return learn_cells(
        cells_of(rows),
        validation=None if watched is None else cells_of(watched),
        method=(METHODS | {"strudel": Strudel(stop=structure.stop)})[structure.method],
        smoothing=smoothing,
        random_state=random_state,
    )


def initial_model(
    model: Model, rows: Rows, cells: CellCircuits | None, smoothing: float
) -> FairDistribution:
    """The model with parameters from the rows; ``cells`` None means naive Bayes."""
    layout, own = Layout.of(model, rows), rows.by_subgroup()
    # Weight of the rows in each [s, d]; rows that lack either are left out.
    known = (own.s >= 0) & (own.d >= 0)
    counts = np.zeros((own.n_groups, own.n_classes))
    np.add.at(counts, (own.s[known], own.d[known]), own.weights[known])
    group_rate = smoothed(counts.sum(axis=1), smoothing)
    if layout.tied:
        of_strata = counts.reshape(layout.n_groups, layout.strata.n, -1).sum(axis=0)
        decision_rate = np.stack([smoothed(row, smoothing) for row in of_strata])
        decision_rate = np.tile(decision_rate, (layout.n_groups, 1))
    else:
        decision_rate = np.stack([smoothed(row, smoothing) for row in counts])
    mechanism = agreeing_mechanism(layout) if layout.latent else None

    def graft(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        if cells is not None:
            return cells.graft(b, f * own.n_groups + s, columns)
        return _naive(b, own.cell(f, s), columns, smoothing, (f, s))

    circuit = build(layout, graft, group_rate, decision_rate, mechanism)
    return FairDistribution(model, layout, circuit)


def _naive(
    b: CircuitBuilder, table: Table, columns: Sequence[int], smoothing: float, key: Hashable
) -> int:
    """∏ P(x_j | cell)."""
    leaves = []
    for j, (column, arity) in enumerate(zip(columns, table.arities.tolist(), strict=True)):
        codes = table.codes[:, j]
        seen = codes >= 0
        counts = np.bincount(codes[seen], table.weights[seen], arity)
        weights = smoothed(np.asarray(counts, np.float64), max(smoothing, LEAST))
        leaves.append(b.categorical(column, weights.tolist(), tie=("naive", key, j)))
    return b.product(*leaves)
