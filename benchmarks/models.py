"""Benchmarks of the models: seconds per published fold, ten million rows, predictions per second.

python benchmarks/models.py            all of them
python benchmarks/models.py folds      some of them: folds, large, predict
"""

from __future__ import annotations

import csv
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adult_like import paper_data, with_holes
from fairpc import FairPC
from fairpc.fair.fit import Options, fit
from fairpc.fair.rows import Rows

ROLES = {
    "compas": ("ScoreText_", "Ethnic_Code_Text_"),
    "adult": ("target", "sex"),
    "german": ("loan_status", "sex"),
}


def published(folder: Path, name: str) -> Rows:
    label, group = ROLES.get(name, ("D", "S"))
    file = f"processed/{name}_binerized.csv" if name in ROLES else f"synthetic/{name}.csv"
    header = (folder / file).read_text().split("\n", 1)[0].strip().split(",")
    table = np.loadtxt(folder / file, delimiter=",", skiprows=1, dtype=np.int16)
    features = [j for j, c in enumerate(header) if c not in (label, group, "Df")]
    return Rows.of(table[:, header.index(group)], table[:, header.index(label)], table[:, features])


def fold(folder: Path, name: str, part: str, k: int) -> npt.NDArray[np.int64]:
    splits = folder / "splits" / (name if name in ROLES else f"synthetic/{name}")
    with (splits / f"{part}_ids.csv").open() as file:
        return np.array(
            [int(line[k]) - 1 for line in list(csv.reader(file))[1:] if line[k].strip()]
        )


def folds() -> None:
    folder = paper_data()
    if folder is None:
        print("published folds: set FAIRPC_PAPER_DATA")
        return
    print("one fold in the paper's protocol (structure, 500 EM iterations), median of 10")
    for name in ("compas", "adult", "german", "20"):
        rows = published(folder, name)
        seconds = []
        for k in [0, *range(10)]:
            train, valid = (rows.take(fold(folder, name, part, k)) for part in ("train", "valid"))
            start = time.perf_counter()
            fit("FairPC", train, validation=valid, options=Options(tol=0))
            seconds.append(time.perf_counter() - start)
        print(f"    {name:8s} {np.median(seconds[1:]):.3f} s")


def ten_features(n: int, seed: int = 0) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (n, 10), dtype=np.int8)
    x[:, 0] = rng.random(n) < 0.3
    return x, (x[:, 1:].sum(axis=1) + 2 * x[:, 0] + rng.integers(0, 6, n) > 16).astype(np.int8)


def large() -> None:
    print("10 features in an array, S the first of them")
    for power in (5, 6, 7):
        x, y = ten_features(10**power)
        start = time.perf_counter()
        FairPC(0, structure="chow-liu", random_state=0).fit(x, y)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"    10^{power} rows: one tree for all cells {seconds:6.2f} s, peak {peak:.2f} GB")


def predict() -> None:
    folder = paper_data()
    if folder is None:
        print("predictions: set FAIRPC_PAPER_DATA")
        return
    rows = published(folder, "adult")
    m = fit("FairPC", rows, options=Options(max_iter=50)).distribution
    x, s = np.tile(rows.x, (30, 1)), np.tile(rows.s, 30)
    print(f"predictions of the Adult model ({m.circuit.graph.n_nodes} nodes), {len(x)} rows")
    for name, sample in (("complete", x), ("half missing", with_holes(x, 0.5))):
        m.decision(s, sample)
        start = time.perf_counter()
        m.decision(s, sample)
        seconds = time.perf_counter() - start
        print(f"    {name:13s} {len(x) / seconds / 1e6:.2f} M rows/s")


BENCHMARKS: dict[str, Callable[[], None]] = {"folds": folds, "large": large, "predict": predict}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[chosen]()
