"""Tables and states for the tests of structure learning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.core import Bytes, Int32s
from fairpc.data import Table
from fairpc.structure import Stop
from fairpc.structure._compile import (
    LearnedCell,
    compile_tree,
    vtree_of_tree,
)
from fairpc.structure._search import FlowQueue, Search
from fairpc.structure._split import CellRows, SplitState
from fairpc.structure._trees import tree_of_rows


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    min_columns: int = 2,
    max_columns: int = 5,
    max_arity: int = 3,
    max_rows: int = 40,
    missing: bool = False,
    whole: bool | None = None,
) -> Table:
    """Weighted rows in which columns depend on each other and none is constant."""
    m = draw(st.integers(min_columns, max_columns))
    arities = draw(st.lists(st.integers(2, max_arity), min_size=m, max_size=m))
    n = draw(st.integers(max_rows // 10, max_rows))
    seed = draw(st.integers(0, 2**32 - 1))
    integers = draw(st.booleans()) if whole is None else whole
    rng = np.random.default_rng(seed)
    return random_table(rng, n, arities, missing=0.2 if missing else 0.0, whole=integers)


def random_table(
    rng: np.random.Generator,
    n: int,
    arities: Sequence[int],
    *,
    missing: float = 0.0,
    whole: bool = True,
) -> Table:
    """Each column copies an earlier one half the time."""
    m = len(arities)
    codes = np.stack([rng.integers(0, k, n) for k in arities], axis=1)
    for j in range(1, m):
        source = codes[:, rng.integers(0, j)] % arities[j]
        codes[:, j] = np.where(rng.random(n) < 0.6, source, codes[:, j])
    codes = np.where(rng.random(codes.shape) < missing, -1, codes)
    for j in range(m):  # no column is constant
        codes[0, j], codes[1, j] = 0, 1
    weights = rng.integers(1, 6, n).astype(float) if whole else rng.gamma(1.0, size=n) + 0.01
    return Table.of(codes, weights, arities=arities)


def state_of(
    cells: Sequence[Table],
    validation: Sequence[Table] | None = None,
    *,
    smoothing: float = 0.0,
) -> SplitState:
    """A state whose cells start from their own Chow–Liu trees."""
    rows = []
    for i, table in enumerate(cells):
        tree = tree_of_rows([(table.codes.T, table.weights)], table.arities)
        vtree = vtree_of_tree(tree)
        parts = [table] if validation is None else [table, validation[i]]
        codes = np.concatenate([p.codes for p in parts]).T
        weights = np.zeros((codes.shape[1], 2))
        weights[: table.n_rows, 0] = table.weights
        if validation is not None:
            weights[table.n_rows :, 1] = validation[i].weights
        skeleton = compile_tree(tree, vtree, table.arities)
        rows.append(CellRows(np.ascontiguousarray(codes), weights, vtree, skeleton))
    return SplitState(rows, cells[0].arities, smoothing)


def circuit_of(cell: LearnedCell, arities: npt.NDArray[np.int64]) -> Circuit:
    """The circuit of a learned cell."""
    builder = CircuitBuilder({f"X{j}": int(k) for j, k in enumerate(arities)})
    root = cell.graft(builder, range(len(arities)))
    return builder.build(root)


def random_search(state: SplitState, seed: int, max_splits: int = 12) -> Search:
    """Splits of random edges on random variables: states that no heuristic would reach."""
    rng = np.random.default_rng(seed)

    def choose(edge: int, rows: Int32s, variables: Int32s) -> tuple[int, Bytes] | None:
        if rng.random() < 0.3:
            return None
        x = int(rng.choice(variables))
        return state.best_split(edge, rows, np.array([x], np.int32), 0.0)[:2]

    return Search(state, FlowQueue(state, 0.0), choose, Stop(max_splits=max_splits, tolerance=0.0))
