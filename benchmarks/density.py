"""Test log-likelihood and CPU time of ensembles on density-estimation sets of the field.

    FAIRPC_DENSITY_DATA=folder python benchmarks/density.py [SET ...]

The folder holds SET/train.csv.gz, valid.csv.gz and test.csv.gz, codes without a header,
as in https://github.com/arranger1044/DEBD. Members are fitted to the training rows;
validation rows make all choices; test rows are read after the circuit is made. Learning
and evaluation are timed, all threads summed; reading the files is not.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from fairpc.core import Codes
from fairpc.data import Table
from fairpc.structure import learn

SETS: Final = ("nltcs", "plants", "baudio", "accidents", "dna")

PUBLISHED: Final[dict[str, dict[str, float]]] = {
    "Strudel, ensemble": {
        "nltcs": -6.06,
        "plants": -12.98,
        "baudio": -41.50,
        "accidents": -28.73,
        "dna": -86.22,
    },
    "LearnPSDD, ensemble": {
        "nltcs": -5.99,
        "plants": -13.02,
        "baudio": -39.94,
        "accidents": -30.16,
        "dna": -88.01,
    },
    "HCLT, regularised": {
        "nltcs": -6.00,
        "plants": -14.26,
        "baudio": -39.77,
        "accidents": -26.74,
        "dna": -79.05,
    },
}
"""Mean test log-likelihoods to two decimals, quoted and not run again: Dang, Vergari and Van den
Broeck (Strudel, 2020); Liang, Bekker and Van den Broeck (LearnPSDD, 2017); Liu and Van den Broeck
(regularised hidden Chow–Liu trees, 2021)."""


def read(folder: Path, part: str) -> Codes:
    return np.loadtxt(folder / f"{part}.csv.gz", delimiter=",", dtype=np.int16, ndmin=2)


def measure(folder: Path) -> tuple[float, float, int]:
    """Mean test log-likelihood, CPU seconds, and edges of the circuit."""
    train, valid = read(folder, "train"), read(folder, "valid")
    arities = np.full(train.shape[1], 2)  # a column may be constant in the training rows
    start = time.process_time()
    circuit = learn(
        Table.of(train, arities=arities),
        method="ensemble",
        validation=Table.of(valid, arities=arities),
        random_state=0,
    )
    learning = time.process_time() - start
    test = read(folder, "test")
    start = time.process_time()
    score = float(circuit.log_marginal(test).mean())
    return score, learning + time.process_time() - start, circuit.graph.n_edges


def main(names: list[str]) -> None:
    given = os.environ.get("FAIRPC_DENSITY_DATA")
    if given is None:
        print("FAIRPC_DENSITY_DATA is not set: give the folder of the density sets")
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    header = "".join(f"{name:>21}" for name in PUBLISHED)
    print(f"{'set':10}{'ours':>9}{'CPU s':>8}{'edges':>11}{header}")
    total = 0.0
    for name in names or SETS:
        score, seconds, n_edges = measure(Path(given) / name)
        total += seconds
        cells = [values.get(name) for values in PUBLISHED.values()]
        others = "".join(f"{'' if c is None else format(c, '.2f'):>21}" for c in cells)
        print(f"{name:10}{score:9.3f}{seconds:8.1f}{n_edges:11,}{others}", flush=True)
    print(f"CPU seconds in all: {total:.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
