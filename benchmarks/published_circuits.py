"""The authors' circuits of German beside our fits: `python benchmarks/published_circuits.py`.

Prints the accuracy of P(Df | x, s) for the observed label on the test rows of each fold, for the
circuits that the authors published and for FairPC in the paper's protocol. Tables, folds and
circuits are read from FAIRPC_PAPER_DATA, or from ../shared/data/paper beside the repository.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adult_like import paper_data, paper_table
from fairpc.circuit import Circuit
from fairpc.circuit.psdd import read_psdd
from fairpc.metrics import accuracy
from fairpc.paper.runs import Task
from fairpc.paper.sources import ROLES, PaperTable

NAME = "german"
DF = "Df"
HIDDEN = -1
SAME = 1e-6
Codes = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]


def circuits(folder: Path) -> list[Circuit]:
    """The published circuits; their variables are the columns of the processed table, then Df."""
    table = folder / "processed" / f"{NAME}_binerized.csv"
    names = [*table.read_text("utf-8").splitlines()[0].split(","), DF]
    paths = [folder / "circuits" / f"{NAME}-{k}" for k in range(1, 11)]
    return [read_psdd(p.with_suffix(".psdd"), p.with_suffix(".vtree"), names=names) for p in paths]


def codes(circuit: Circuit, table: PaperTable) -> Codes:
    """Rows for the circuit, Df hidden."""
    label, sensitive = ROLES[NAME]
    columns = dict(zip(table.rows.names, table.rows.x.T, strict=True))
    columns |= {label: table.rows.d, sensitive: table.rows.s}
    columns[DF] = np.full(table.rows.n_rows, HIDDEN)
    return np.column_stack([columns[name] for name in circuit.names]).astype(np.int16)


def own_fold(circuit: Circuit, table: PaperTable) -> int:
    """The fold whose training rows the circuit was learned from, which is not always its number.

    P(S) is known in closed form from the training rows, with Laplace smoothing 1. Of folds that
    agree in it, training rows of the right one are most ahead of its test rows.
    """
    alone = np.full((1, len(circuit.names)), HIDDEN, np.int16)
    alone[0, circuit.names.index(ROLES[NAME][1])] = 1
    rate = float(np.exp(circuit.log_marginal(alone)[0]))
    fits = circuit.log_marginal(codes(circuit, table))
    ahead = {
        k: float(fits[fold.train].mean() - fits[fold.test].mean())
        for k, fold in enumerate(table.folds)
        if abs((table.rows.s[fold.train].sum() + 0.5) / (len(fold.train) + 1) - rate) < SAME
    }
    return max(ahead, key=lambda k: ahead[k])


def published_accuracy(circuit: Circuit, table: PaperTable, fold: int) -> float:
    test = table.folds[fold].test
    unlabelled = codes(circuit, table)[test]
    unlabelled[:, circuit.names.index(ROLES[NAME][0])] = HIDDEN
    decided = unlabelled.copy()
    decided[:, circuit.names.index(DF)] = 1
    scores = np.exp(circuit.log_marginal(decided) - circuit.log_marginal(unlabelled))
    return accuracy(table.rows.d[test], (scores >= 0.5).astype(np.int64))


def fitted_accuracy(table: PaperTable, fold: int) -> float:
    return accuracy(
        table.rows.d[table.folds[fold].test], Task(table, fold, "FairPC").run().predicted
    )


def mean_and_error(values: Floats) -> str:
    return f"{values.mean():.3f}, standard error {values.std(ddof=1) / math.sqrt(len(values)):.3f}"


def main() -> None:
    folder, table = paper_data(), paper_table(NAME)
    if folder is None or table is None or not (folder / "circuits").is_dir():
        sys.exit("the authors' files are not here: set FAIRPC_PAPER_DATA to their folder")
    found = {own_fold(c, table): c for c in circuits(folder)}
    if len(found) != len(table.folds):
        sys.exit(f"the circuits belong to {len(found)} of {len(table.folds)} folds: give all ten")
    theirs = np.array([published_accuracy(found[k], table, k) for k in sorted(found)])
    ours = np.array([fitted_accuracy(table, k) for k in sorted(found)])
    print("German, accuracy for the observed label, by fold")
    print("    published circuits  ", *(f"{v:.2f}" for v in theirs))
    print("    our fits            ", *(f"{v:.2f}" for v in ours))
    print(f"    published circuits: {mean_and_error(theirs)}")
    print(f"    our fits:           {mean_and_error(ours)}")
    print(f"    ours less theirs:   {mean_and_error(ours - theirs)}")


if __name__ == "__main__":
    main()
