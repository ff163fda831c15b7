"""The circuit and the rows that the engine is measured on: like those learned on Adult.

With the paper's binarised Adult table at hand (FAIRPC_PAPER_DATA, or
../shared/data/paper beside the repository) the rows are its first training
fold; without it they are drawn from a random circuit of the same shape.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checkout import data_folder
from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.data import Table
from fairpc.structure import Stop, Strudel, learn_cells
from reproduction.sources import REAL_WORLD, PaperTable, Sources

Codes = npt.NDArray[np.int16]
N_ROWS, N_FEATURES = 26_374, 12
DF = 1
"""Column of the hidden variable."""


def paper_data() -> Path | None:
    return data_folder("FAIRPC_PAPER_DATA", "paper")


def paper_table(name: str) -> PaperTable | None:
    """A published table with its ten folds: "adult", or the features of a synthetic one ("10")."""
    folder = paper_data()
    if folder is None:
        return None
    sources = Sources(folder, folder / "splits")
    return sources.table(name) if name in REAL_WORLD else sources.synthetic(int(name))


def needed(name: str) -> PaperTable:
    """A published table; the script ends with a sentence without it."""
    table = paper_table(name)
    if table is None:
        sys.exit("the published tables are not here: set FAIRPC_PAPER_DATA to their folder")
    return table


def adult_rows() -> tuple[Codes, str]:
    """Columns S, Df (missing), D, X…; and where they come from."""
    table = paper_table("adult")
    if table is None:
        return _drawn_rows(), "rows drawn from a random circuit"
    rows = table.rows.take(table.folds[0].train)
    hidden = np.full(rows.n_rows, -1, np.int16)
    return np.column_stack([rows.s, hidden, rows.d, rows.x]), "Adult"


def _drawn_rows() -> Codes:
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 3, N_ROWS)
    rates = rng.random((3, N_FEATURES + 3)) ** 2
    rows = (rng.random((N_ROWS, N_FEATURES + 3)) < rates[cluster]).astype(np.int16)
    rows[:, DF] = -1
    return rows


def latent_circuit(rows: Codes, max_splits: int = 400) -> Circuit:
    """P(s) P(f) P(d | f, s) P(x | f, s) with Strudel circuits learned with D in place of Df."""
    n = rows.shape[1] - 3
    cells = [
        Table.of(rows[(rows[:, 2] == f) & (rows[:, 0] == s)][:, 3:], arities=[2] * n)
        for f in range(2)
        for s in range(2)
    ]
    learned = learn_cells(cells, method=Strudel(stop=Stop(max_splits)))
    names = {"S": 2, "Df": 2, "D": 2} | {f"X{i + 1}": 2 for i in range(n)}
    b = CircuitBuilder(names)
    groups = []
    for s in range(2):
        parts = [
            b.product(
                b.indicator("Df", f),
                b.categorical("D", [0.9, 0.1] if f == 0 else [0.1, 0.9], tie=("D", f, s)),
                learned.graft(b, 2 * f + s, range(3, 3 + n)),
            )
            for f in range(2)
        ]
        groups.append(b.product(b.indicator("S", s), b.sum(parts, [0.7, 0.3], tie="Df")))
    return b.build(b.sum(groups, [0.6, 0.4], tie="S"))


def with_holes(rows: Codes, share: float, seed: int = 0) -> Codes:
    """The rows with this share of their cells missing completely at random."""
    holes = np.random.default_rng(seed).random(rows.shape) < share
    return np.where(holes, -1, rows).astype(np.int16)
