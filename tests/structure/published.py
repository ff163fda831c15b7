"""The published tables and folds of the paper, where they are at hand."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairpc.data.table import Table
from fairpc.structure import CellCircuits

Ints = npt.NDArray[np.int64]

COLUMNS = {
    "compas": ("ScoreText_", "Ethnic_Code_Text_"),
    "adult": ("target", "sex"),
    "german": ("loan_status", "sex"),
}
"""Label and sensitive column; those of the synthetic sets are D and S."""

TARGETS = {
    "compas": (-3.925, 0.004),
    "adult": (-5.990, 0.004),
    "german": (-11.738, 0.03),
    "synthetic-10": (-7.617, 0.01),
    "synthetic-20": (-13.630, 0.01),
}
"""Mean held-out log-likelihood of Strudel over the ten folds, and how close is close."""

N_FOLDS = 10


def folder() -> Path | None:
    """Where the data are: FAIRPC_PAPER_DATA, or beside the repository; None where they are not."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "paper"
    found = Path(os.environ.get("FAIRPC_PAPER_DATA", beside))
    return found if (found / "processed").is_dir() else None


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
    data = folder()
    if data is None:
        raise FileNotFoundError("set FAIRPC_PAPER_DATA to the folder of the published data")
    kind, _, number = name.partition("-")
    split = data / "splits" / kind / number
    table = data / "processed" / f"{name}_binerized.csv"
    if number:
        table = data / kind / f"{number}.csv"
    with table.open(newline="") as file:
        header, *lines = csv.reader(file)
    rows = np.array(lines, np.int64)
    ids = {part: _ids(split / f"{part}_ids.csv") for part in ("train", "valid", "test")}

    def fold(k: int) -> Fold:
        return _fold(header, rows, name, [ids[part][k] for part in ("train", "valid", "test")])

    return fold


def _ids(path: Path) -> list[Ints]:
    """Row numbers from 0 of each fold; the file's are from 1, padded with blanks."""
    with path.open(newline="") as file:
        _, *lines = csv.reader(file)
    columns = zip(*lines, strict=True)
    return [np.array([int(float(c)) - 1 for c in column if c.strip()]) for column in columns]


def _fold(header: list[str], rows: Ints, name: str, ids: list[Ints]) -> Fold:
    label, sensitive = COLUMNS.get(name, ("D", "S"))
    features = [j for j, n in enumerate(header) if n not in (label, sensitive, "Df")]
    d, s = rows[:, header.index(label)], rows[:, header.index(sensitive)]
    cells = [(1, 1), (1, 0), (0, 1), (0, 0)]

    def tables(part: Ints) -> list[Table]:
        return [
            Table.of(
                rows[np.ix_(part[(d[part] == a) & (s[part] == b)], features)],
                arities=[2] * len(features),
                names=tuple(header[j] for j in features),
            )
            for a, b in cells
        ]

    p_d, p_s = d[ids[0]].mean(), s[ids[0]].mean()
    prior = [float(np.log(p_d if a else 1 - p_d) + np.log(p_s if b else 1 - p_s)) for a, b in cells]
    return Fold(tables(ids[0]), tables(ids[1]), tables(ids[2]), prior)
