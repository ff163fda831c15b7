"""Density estimation: a weighted table in, a circuit out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairpc.circuit.graph import Circuit
from fairpc.data.table import Table
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats
from fairpc.structure.cells import Method, MethodName, learn_cells
from fairpc.structure.check import check_table
from fairpc.structure.gain import Gain
from fairpc.structure.parameters import Smoothing
from fairpc.structure.search import Step
from fairpc.structure.tree import Prune, Tree
from fairpc.structure.vtree import Shape


def learn(
    table: Table,
    *,
    method: Method | MethodName = "strudel",
    validation: Table | None = None,
    validation_fraction: float = 0.1,
    tree: Tree | None = None,
    vtree: Shape = "balanced",
    prune: Prune | None = None,
    smoothing: Smoothing | float = 1.0,
    random_state: int | np.random.Generator | None = None,
    callback: Callable[[Step], None] | None = None,
) -> Circuit:
    """Learn a smooth, decomposable and deterministic circuit from weighted rows.

        circuit = learn(Table.of(codes))
        circuit.log_marginal(codes)

    Args:
        table: weighted rows; -1 = missing.
        method: a :class:`Strudel` or :class:`Gain`, or a name: "strudel", "gain", "chow-liu".
        validation: held-out rows that say when Strudel's search stops.
        validation_fraction: where there are none, the part of the rows that is held out for
            Strudel. They do not enter the parameters. Gain needs none and takes none.
        tree: tree to start from; the Chow–Liu tree by default.
        vtree: shape of the vtree.
        prune: criterion by which tree edges are left out.
        smoothing: strength of Laplace smoothing, or a :class:`Smoothing`.
        random_state: seed of what is random: the held-out part, completions of rows
            with missing values, Strudel's random heuristics.
        callback: called with each :class:`Step` of the search.
    """
    check_table(table)
    rng = np.random.default_rng(random_state)
    train = table
    if validation is None and method not in ("gain", "chow-liu") and not isinstance(method, Gain):
        train, validation = hold_out(table, validation_fraction, rng)
    learned = learn_cells(
        [train],
        validation=None if validation is None else [validation],
        method=method,
        trees="pooled" if tree is None else tree,
        vtree=vtree,
        prune=prune,
        smoothing=smoothing,
        random_state=rng,
        callback=callback,
    )
    return learned.circuit(0)


def hold_out(table: Table, fraction: float, rng: np.random.Generator) -> tuple[Table, Table]:
    """Split a table at random; a row of whole weight n counts as n rows.

    A LearningError if a part would be empty.
    """
    if not 0 < fraction < 1:
        raise LearningError(f"validation_fraction is {fraction}: give a number between 0 and 1")
    whole = np.array_equal(table.weights, np.floor(table.weights))
    held: Floats
    if whole:
        held = rng.binomial(table.weights.astype(np.int64), fraction).astype(np.float64)
    else:
        held = np.where(rng.random(table.n_rows) < fraction, table.weights, 0.0)
    if not held.any() or not (table.weights - held).any():
        raise LearningError(
            f"a random part of {fraction:g} of {table.n_rows} rows is none or all of them: "
            "give validation rows, or a method that needs none"
        )
    return _weighted(table, table.weights - held), _weighted(table, held)


def _weighted(table: Table, weights: Floats) -> Table:
    """The rows of positive weight, with these weights."""
    used = weights > 0
    return Table.of(table.codes[used], weights[used], arities=table.arities, names=table.names)
