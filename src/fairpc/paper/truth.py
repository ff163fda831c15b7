"""The distribution behind a synthetic table: the drawn one, or an estimate that sees Df."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.datasets.synthetic import FAIR_RATE, GROUP_RATE, MECHANISM
from fairpc.fair.initial import cells_of
from fairpc.fair.top import Layout, build
from fairpc.paper.published import NAN
from fairpc.paper.sources import PaperTable
from fairpc.structure import CellCircuits, learn_cells


def true_log_likelihood(table: PaperTable, fold: int) -> float:
    """Mean log-likelihood of test rows under the distribution they were drawn from.

    Where only rows are known, its trees are estimated: see :func:`estimated_model`.
    """
    if table.truth is None:
        return NAN
    model = estimated_model(table, fold) if table.model is None else table.model
    test = table.rows.take(table.folds[fold].test)
    codes = Layout.of("FairPC", test).codes(test.s, test.d, test.x)
    return float(model.log_marginal(codes).mean())


def estimated_model(table: PaperTable, fold: int) -> Circuit:
    """The paper's process, its trees being Chow–Liu trees of each cell (Df, S).

    P(S), P(Df) and P(D | Df, S) are those of Section "Synthetic Data"; the trees come
    from training and validation rows with the true Df, which no method sees.
    """
    rows = table.rows.take(table.folds[fold].fit)
    shown = replace(rows, d=_truth(table)[table.folds[fold].fit].astype(np.int16))
    cells = learn_cells(cells_of(shown), method="chow-liu", trees="cell")
    mechanism = np.array([[[1.0 - p, p] for p in by_decision] for by_decision in MECHANISM])
    return build(
        Layout.of("FairPC", rows),
        partial(_graft, cells),
        np.array([1.0 - GROUP_RATE, GROUP_RATE]),
        np.tile([1.0 - FAIR_RATE, FAIR_RATE], (2, 1)),
        mechanism,
    )


def _truth(table: PaperTable) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(table.truth, np.int64)


def _graft(cells: CellCircuits, b: CircuitBuilder, f: int, s: int, columns: range) -> int:
    return cells.graft(b, 2 * f + s, columns)
