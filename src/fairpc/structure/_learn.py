"""Learners: a weighted table in, a circuit out; or one circuit for each of several cells.

The sub-circuits P(x | cell) of a larger model are learned together (paper,
Section "Structure Learning"): one queue of edges over all cells, so that splits
go where most rows are, and one validation likelihood that says when to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.core import Codes, Floats, Ints, LearningError, check_choice, check_number
from fairpc.data import Table, distinct_rows
from fairpc.structure._compile import (
    LearnedCell,
    compile_tree,
    tree_counts,
    vtree_of_tree,
)
from fairpc.structure._search import METHODS, Method, MethodName, Step, Strudel
from fairpc.structure._trees import (
    Tree,
    WeightedCodes,
    check_table,
    completed,
    edge_counts,
    tree_of_rows,
    weighted,
)

TreeChoice = Literal["pooled", "cell"]
TREE_CHOICES: Final = ("pooled", "cell")
Seed = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class CellCircuits:
    """What was learned: a circuit per cell, and how the search went.

    Attributes:
        names, arities: the variables.
        cells: skeleton, counts and parameters of each cell.
        history: the steps of the search, the first before any split.
        best_split: number of splits of the iterate that ``cells`` is.
    """

    names: tuple[str, ...]
    arities: Ints
    cells: tuple[LearnedCell, ...]
    history: tuple[Step, ...]
    best_split: int

    @property
    def n_parameters(self) -> int:
        """Parameters of all cells together."""
        return sum(int(c.skeleton.size[c.skeleton.size > 1].sum()) for c in self.cells)

    def circuit(self, cell: int) -> Circuit:
        """The circuit of one cell."""
        builder = CircuitBuilder(dict(zip(self.names, self.arities.tolist(), strict=True)))
        return builder.build(self.graft(builder, cell, range(len(self.names))))

    def graft(self, builder: CircuitBuilder, cell: int, columns: Sequence[int]) -> int:
        """Add the circuit of a cell to a larger one; give back its root.

        ``columns[i]`` is the builder's column of variable i.
        """
        return self.cells[cell].graft(builder, columns, cell)


class CellSearch:
    """A search over circuits of several cells, to be iterated step by step::

        search = CellSearch(tables, method="gain")
        for step in search:
            print(step.split, step.log_likelihood)
        circuits = search.best()

    :func:`learn_cells` does all of it at once.

    Args:
        cells: weighted rows of each cell; a row may be in several, with weights that
            share it out. A cell may be constant in a column, or have no rows at all.
        validation: held-out rows of each cell; the search gives back the iterate
            under which they are likeliest.
        method: a :class:`Strudel` or :class:`Gain`, or a name: "strudel", "gain", or
            "chow-liu" for trees without any split.
        trees: what each cell starts from: the Chow–Liu tree of all cells' rows together
            ("pooled", as in the paper), that of its own rows ("cell"), or given trees.
        smoothing: strength of Laplace smoothing.
        random_state: seed of completions.
    """

    def __init__(
        self,
        cells: Sequence[Table],
        *,
        validation: Sequence[Table] | None = None,
        method: Method | MethodName = "strudel",
        trees: TreeChoice | Tree | Sequence[Tree] = "pooled",
        smoothing: float = 1.0,
        random_state: Seed = None,
    ) -> None:
        from fairpc.structure._split import CellRows, SplitState  # loads the compiler

        _check_cells(cells, validation)
        if isinstance(method, str):
            check_choice("method", method, tuple(METHODS))
            method = METHODS[method]
        rng = np.random.default_rng(random_state)
        self._cells = tuple(cells)
        check_number("smoothing", smoothing, 0.0)
        self._smoothing = float(smoothing)
        each = [(t.codes.T, t.weights) for t in cells]
        self._trees = _trees(trees, each, cells[0].arities)
        rows = []
        for i, tree in enumerate(self._trees):
            held_out = None if validation is None else validation[i]
            codes, weights = _stacked(cells[i], held_out)
            filled = completed(codes, tree, each[i], cells[i].arities, rng)
            shape = vtree_of_tree(tree)
            skeleton = compile_tree(tree, shape, cells[i].arities)
            rows.append(CellRows(*_merged(filled, weights, cells[i].arities), shape, skeleton))
        self._search = method.search(SplitState(rows, cells[0].arities, self._smoothing))

    def __iter__(self) -> Iterator[Step]:
        return self._search

    def run(self, callback: Callable[[Step], None] | None = None) -> CellCircuits:
        """Make all steps; after an interrupt, with a warning, those made."""
        self._search.run(callback)
        return self.best()

    def best(self) -> CellCircuits:
        """The best iterate so far. Ends the search."""
        learned = self._search.best()
        if self._search.best_split == 0:
            learned = [self._tree_parameters(i, cell) for i, cell in enumerate(learned)]
        first = self._cells[0]
        history = tuple(self._search.history)
        cells = tuple(learned)
        return CellCircuits(first.names, first.arities, cells, history, self._search.best_split)

    def _tree_parameters(self, i: int, cell: LearnedCell) -> LearnedCell:
        """A tree needs no completed rows: its parameters come from pairs that were observed."""
        table = self._cells[i]
        if not (table.codes < 0).any():
            return cell
        tree = self._trees[i]
        pairs = edge_counts(tree, (table.codes.T, table.weights), table.arities)
        counts = tree_counts(cell.skeleton, tree, cell.vtree, table.arities, pairs)
        return cell.with_counts(counts, self._smoothing)


def learn_cells(
    cells: Sequence[Table], *, callback: Callable[[Step], None] | None = None, **options: Any
) -> CellCircuits:
    """Learn a circuit over the same variables for each of several cells.

    An interrupt (Ctrl-C) ends the search with a warning and the best so far. ``callback`` is
    called with each :class:`Step`; the other options are those of :class:`CellSearch`.
    """
    return CellSearch(cells, **options).run(callback)


def learn(
    table: Table,
    *,
    method: Method | MethodName = "strudel",
    validation: Table | None = None,
    validation_fraction: float = 0.1,
    tree: Tree | None = None,
    smoothing: float = 1.0,
    random_state: Seed = None,
) -> Circuit:
    """Learn a smooth and decomposable circuit from weighted rows.

        circuit = learn(Table.of(codes))
        circuit.log_marginal(codes)

    The circuit is deterministic, too.

    Args:
        table: weighted rows; -1 = missing.
        method: a :class:`Strudel` or :class:`Gain`, or a name: "strudel", "gain", "chow-liu".
        validation: held-out rows that say when Strudel's search stops.
        validation_fraction: where there are none, the share of the rows that is held out for
            Strudel. They do not enter the parameters. Gain needs none and takes none.
        tree: tree to start from; the Chow–Liu tree by default.
        smoothing: as in :func:`learn_cells`.
        random_state: seed of what is random: the held-out rows, and completions of rows
            with missing values.
    """
    rng = np.random.default_rng(random_state)
    check_table(table)
    if isinstance(method, str):
        check_choice("method", method, tuple(METHODS))
    train = table
    if validation is None and (method == "strudel" or isinstance(method, Strudel)):
        train, validation = hold_out(table, validation_fraction, rng)
    learned = learn_cells(
        [train],
        validation=None if validation is None else [validation],
        method=method,
        trees="pooled" if tree is None else tree,
        smoothing=smoothing,
        random_state=rng,
    )
    return learned.circuit(0)


def hold_out(table: Table, fraction: float, rng: np.random.Generator) -> tuple[Table, Table]:
    """Split a table at random; a row of whole weight n counts as n rows.

    A LearningError if none or all rows would be held out.
    """
    if not 0 < fraction < 1:
        raise LearningError(f"validation_fraction is {fraction}: give a number between 0 and 1")
    held: Floats
    if np.array_equal(table.weights, np.floor(table.weights)):
        held = rng.binomial(table.weights.astype(np.int64), fraction).astype(np.float64)
    else:
        held = np.where(rng.random(table.n_rows) < fraction, table.weights, 0.0)
    if not held.any() or not (table.weights - held).any():
        raise LearningError(
            f"a random part of {fraction:g} of {table.n_rows} rows is none or all of them: "
            "give validation rows, or a method that needs none"
        )
    return weighted(table, table.weights - held), weighted(table, held)


def _check_cells(cells: Sequence[Table], validation: Sequence[Table] | None) -> None:
    if not cells:
        raise LearningError("there are no cells: give at least one table")
    if validation is not None and len(validation) != len(cells):
        raise LearningError(
            f"validation has {len(validation)} parts for {len(cells)} cells: give one each"
        )
    for table in [*cells, *(validation or [])]:
        if table.names != cells[0].names or not np.array_equal(table.arities, cells[0].arities):
            raise LearningError(
                f"cells have the columns {cells[0].names} and {table.names}, arities "
                f"{cells[0].arities.tolist()} and {table.arities.tolist()}: give the same to all"
            )
    if not any(table.weights.any() for table in cells):
        raise LearningError("no cell has rows of positive weight: give at least one row")


def _trees(
    trees: TreeChoice | Tree | Sequence[Tree],
    cells: Sequence[WeightedCodes],
    arities: Ints,
) -> Sequence[Tree]:
    if isinstance(trees, Tree):
        return [trees] * len(cells)
    if not isinstance(trees, str):
        if len(trees) != len(cells):
            raise LearningError(
                f"there are {len(trees)} trees for {len(cells)} cells: give one each"
            )
        return trees
    check_choice("trees", trees, TREE_CHOICES)
    if trees == "pooled":
        return [tree_of_rows(cells, arities)] * len(cells)
    return [tree_of_rows([cell], arities) for cell in cells]


def _stacked(table: Table, held_out: Table | None) -> tuple[Codes, Floats]:
    """Training and held-out rows as columns, with the two weights of :class:`CellRows`."""
    codes = [table.codes.T]
    weights = [np.stack([table.weights, np.zeros(table.n_rows)], axis=1)]
    if held_out is not None:
        codes.append(held_out.codes.T)
        weights.append(np.stack([np.zeros(held_out.n_rows), held_out.weights], axis=1))
    return np.concatenate(codes, axis=1), np.concatenate(weights)


def _merged(codes: Codes, weights: Floats, arities: Ints) -> tuple[Codes, Floats]:
    """Distinct rows of positive weight with their weights summed."""
    used = weights.any(axis=1)
    if not used.all():
        codes, weights = codes[:, used], weights[used]
    ids, first = distinct_rows(codes.T, arities)
    summed = [np.bincount(ids, weights[:, c], len(first)) for c in range(2)]
    return np.ascontiguousarray(codes[:, first]), np.stack(summed, axis=1)
