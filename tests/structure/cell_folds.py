"""The published folds as cells (d, s), on which structures are learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairpc.data import Table
from fairpc.metrics import Fold as Parts
from fairpc.models import Rows
from fairpc.structure import CellCircuits
from published import paper_table

Ints = npt.NDArray[np.int64]

TARGETS = {
    "compas": (-3.925, 0.004),
    "adult": (-5.990, 0.004),
    "german": (-11.738, 0.03),
    "synthetic-10": (-7.617, 0.01),
    "synthetic-20": (-13.630, 0.01),
}
"""Mean held-out log-likelihood of Strudel over the ten folds, and how close is close."""

N_FOLDS = 10


@dataclass(frozen=True, eq=False)
class Fold:
    """Cells (d, s) of the training, validation and test rows; P(s) P(d) of the training rows."""

    train: list[Table]
    validation: list[Table]
    test: list[Table]
    log_prior: list[float]

    def held_out(self, learned: CellCircuits) -> float:
        """Mean of log P(s) P(d) P(x | d, s) over the test rows."""
        total = 0.0
        for i, (rows, prior) in enumerate(zip(self.test, self.log_prior, strict=True)):
            if rows.n_rows:
                total += float((learned.circuit(i).log_likelihood(rows.codes) + prior).sum())
        return total / sum(t.n_rows for t in self.test)


def folds(name: str) -> Callable[[int], Fold]:
    """The folds of a data set by number, 0 to 9; its tables are read once."""
    table = paper_table(name.removeprefix("synthetic-"))
    return lambda k: _fold(table.rows, table.folds[k])


def _fold(rows: Rows, parts: Parts) -> Fold:
    cells = [(1, 1), (1, 0), (0, 1), (0, 0)]

    def tables(part: Ints) -> list[Table]:
        d, s = rows.d[part], rows.s[part]
        return [
            Table.of(rows.x[part[(d == a) & (s == b)]], arities=rows.arities, names=rows.names)
            for a, b in cells
        ]

    p_d, p_s = rows.d[parts.train].mean(), rows.s[parts.train].mean()
    prior = [float(np.log(p_d if a else 1 - p_d) + np.log(p_s if b else 1 - p_s)) for a, b in cells]
    return Fold(tables(parts.train), tables(parts.valid), tables(parts.test), prior)
