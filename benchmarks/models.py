"""Benchmarks of the models: seconds per published fold, ten million rows, predictions per second.

python benchmarks/models.py            all of them
python benchmarks/models.py folds      some of them: folds, large, predict

Seconds are of the processor, and `make bench` allows one thread (FAIRPC_THREADS, OMP_NUM_THREADS).
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from adult_like import paper_table, with_holes
from clock import best, run_parts, timed
from fairpc import FairPC
from fairpc.models._fair_layers import Model
from fairpc.models._fit import Options, fit
from reproduction.sources import PaperTable

PROTOTYPE = {"compas": 0.32, "adult": 0.2, "german": 0.13, "20": 0.84}
"""Seconds of the throw-away prototype on two cores; it was not measured on 30 features."""


def folds() -> None:
    print("one fold in the paper's protocol (structure, 500 EM iterations), median of 10")
    for name in (*PROTOTYPE, "30"):
        table = paper_table(name)
        if table is None:
            print("    left out: set FAIRPC_PAPER_DATA")
            return
        seconds = median_fold(table)
        ratio = f", {seconds / PROTOTYPE[name]:.2f} x prototype" if name in PROTOTYPE else ""
        print(f"    {name:8s} {seconds:.3f} s{ratio}")


def median_fold(table: PaperTable, model: Model = "FairPC") -> float:
    """Seconds of a fold, the first of which is run once more to warm up."""
    seconds = []
    for fold in (table.folds[0], *table.folds):
        train, valid = (table.rows.take(part) for part in (fold.train, fold.valid))
        run = partial(fit, model, train, validation=valid, options=Options(tol=0))
        seconds.append(timed(run)[1])
    return float(np.median(seconds[1:]))


def ten_features(n: int, seed: int = 0) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (n, 10), dtype=np.int8)
    x[:, 0] = rng.random(n) < 0.3
    return x, (x[:, 1:].sum(axis=1) + 2 * x[:, 0] + rng.integers(0, 6, n) > 16).astype(np.int8)


def large() -> None:
    print("10 features in an array, S the first of them")
    for power in (5, 6, 7):
        x, y = ten_features(10**power)
        model = FairPC(0, structure="chow-liu", random_state=0)
        seconds = timed(partial(model.fit, x, y))[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"    10^{power} rows: one tree for all cells {seconds:6.2f} s, peak {peak:.2f} GB")


def predict() -> None:
    table = paper_table("adult")
    if table is None:
        print("predictions: set FAIRPC_PAPER_DATA")
        return
    rows = table.rows
    m = fit("FairPC", rows, options=Options(max_iter=50)).distribution
    x, s = np.tile(rows.x, (30, 1)), np.tile(rows.s, 30)
    print(f"predictions of the Adult model ({m.circuit.graph.n_nodes} nodes), {len(x)} rows")
    for name, sample in (("complete", x), ("half missing", with_holes(x, 0.5))):
        seconds = best(partial(m.decision, s, sample), 1)
        print(f"    {name:13s} {len(x) / seconds / 1e6:.2f} M rows/s")


BENCHMARKS: dict[str, Callable[[], None]] = {"folds": folds, "large": large, "predict": predict}

if __name__ == "__main__":
    run_parts(BENCHMARKS)
