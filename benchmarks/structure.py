"""Benchmarks of structure learning: `python benchmarks/structure.py [names]`, all by default.

Figures are of one run, after a warm-up that compiles. Ratios survive a change of
machine; seconds are there to be compared within the run. They are of the processor, and
`make bench` allows one thread (FAIRPC_THREADS, OMP_NUM_THREADS).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adult_like import paper_data
from clock import timed
from fairpc.circuit import prepare
from fairpc.data import Table
from fairpc.structure import (
    CellSearch,
    Gain,
    Stop,
    Strudel,
    chow_liu,
    learn_cells,
)

if TYPE_CHECKING:
    from fairpc.structure._learn import TreeChoice
    from fairpc.structure._search import Method
    from structure import cell_folds
else:
    tests = Path(__file__).resolve().parents[1] / "tests"
    sys.path[:0] = [str(tests), str(tests / "structure")]
    import cell_folds


def random_rows(n: int, m: int, seed: int = 0) -> Table:
    """Binary rows, each column a noisy copy of one of two earlier ones: no tree holds them."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((n, m), np.int8)
    rows[:, 0] = rng.integers(0, 2, n)
    for j in range(1, m):
        a, b = rows[:, rng.integers(0, j)], rows[:, rng.integers(0, j)]
        source = np.where(rng.random(n) < 0.5, a, b)
        rows[:, j] = source ^ (rng.random(n) < rng.uniform(0.05, 0.3))
    return Table.of(rows, arities=[2] * m)


def warm_up() -> None:
    table = random_rows(300, 5)
    learn_cells([table], validation=[table], method=Strudel(stop=Stop(max_splits=3)))
    learn_cells([table], method=Gain()).circuit(0).log_likelihood(table.codes)


def chow_liu_trees() -> None:
    for n, m in ((10_000, 200), (1_000_000, 20)):
        table = random_rows(n, m)
        _, seconds = timed(partial(chow_liu, table), 3)
        print(f"  {m} features × {n:,} rows: {seconds:.3f} s")
    table = random_rows(10_000, 200)
    rng = np.random.default_rng(0)
    weighted = Table.of(table.codes, rng.gamma(1.0, size=table.n_rows), arities=table.arities)
    print(
        f"  the same 200 × 10,000, weights that are not whole numbers: "
        f"{timed(partial(chow_liu, weighted), 3)[1]:.3f} s"
    )
    holes = np.where(rng.random(table.codes.shape) < 0.2, -1, table.codes)
    missing = Table.of(holes, arities=table.arities)
    print(f"  the same, a fifth missing: {timed(partial(chow_liu, missing), 3)[1]:.3f} s")


def split_against_evaluation() -> None:
    table = random_rows(100_000, 20)
    distinct = table.merged()
    search = CellSearch([table], method=Strudel(stop=Stop(max_splits=300)))
    steps = iter(search)
    next(steps)
    start = time.process_time()
    n_splits = sum(1 for _ in steps)
    split = (time.process_time() - start) / n_splits
    circuit = search.best().circuit(0)
    prepare(circuit.graph, distinct)(circuit.parameters)
    _, counting = timed(lambda: prepare(circuit.graph, distinct)(circuit.parameters), 3)
    _, evaluation = timed(lambda: circuit.log_likelihood(distinct.codes), 3)
    print(
        f"  20 features × {table.n_rows:,} rows ({distinct.n_rows:,} distinct), {n_splits} splits,"
    )
    print(
        f"  {circuit.graph.n_parameters} parameters; one split, the choice of it and all: "
        f"{split * 1e3:.2f} ms"
    )
    print(
        f"  counts and likelihood of all distinct rows anew: {counting * 1e3:.1f} ms, "
        f"ratio {counting / split:.0f}"
    )
    print(f"  likelihood alone: {evaluation * 1e3:.1f} ms, ratio {evaluation / split:.0f}")


def folds() -> None:
    for name in ("adult", "compas"):
        part = cell_folds.folds(name)(0)
        runs = {
            "strudel": partial(learn_cells, part.train, validation=part.validation),
            "gain": partial(learn_cells, part.train, method="gain", trees="cell"),
        }
        for label, run in runs.items():
            learned, seconds = timed(run, 3)
            print(f"  {name}, {label}: {seconds:.3f} s, {len(learned.history) - 1} splits")


def wide() -> None:
    table = random_rows(10_000, 200)
    for method in (Strudel(stop=Stop(max_splits=500)), Gain(stop=Stop(max_splits=500))):
        learned, seconds = timed(partial(learn_cells, [table], method=method))
        print(
            f"  200 features × 10,000 rows, {type(method).__name__}, "
            f"{len(learned.history) - 1} splits: {seconds:.2f} s"
        )


def long() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 2, (1_000_000, 20), dtype=np.int8)
    for label, table in (
        ("as drawn", random_rows(1_000_000, 20)),
        ("noise, fractional weights", Table.of(noise, rng.gamma(1.0, size=1_000_000))),
    ):
        run = partial(learn_cells, [table], method=Strudel(stop=Stop(max_splits=300)))
        learned, seconds = timed(run)
        print(
            f"  20 features × 1,000,000 rows, {label} ({table.merged().n_rows:,} distinct), "
            f"{len(learned.history) - 1} splits: {seconds:.2f} s"
        )


METHODS: dict[str, dict[str, Any]] = {
    "tree of all cells": {"method": "chow-liu"},
    "tree of each cell": {"method": "chow-liu", "trees": "cell"},
    "Strudel": {"method": "strudel"},
    "Gain, tree of all cells": {"method": "gain"},
    "Gain, tree of each cell": {"method": "gain", "trees": "cell"},
}


def gain_against_strudel() -> None:
    print("  mean held-out log-likelihood, parameters and seconds over 10 folds")
    for name in cell_folds.TARGETS:
        fold = cell_folds.folds(name)
        parts = [fold(k) for k in range(cell_folds.N_FOLDS)]
        for label, options in METHODS.items():
            rows = []
            for p in parts:
                held_out = p.validation if label == "Strudel" else None
                run = partial(learn_cells, p.train, validation=held_out, **options)
                learned, seconds = timed(run)
                rows.append((p.held_out(learned), learned.n_parameters, seconds))
            score, size, seconds = np.mean(rows, axis=0)
            print(f"  {name:13} {label:24} {score:9.4f} {size:7.0f} {seconds:7.3f} s")


def curve() -> None:
    print("  held-out log-likelihood of X, parameters and seconds along the search; first fold")
    until_the_end = Stop(max_splits=2000, patience=2000, tolerance=0.0)
    for name in ("compas", "adult", "synthetic-10"):
        part = cell_folds.folds(name)(0)
        methods: list[tuple[Method, TreeChoice]] = [
            (Strudel(stop=until_the_end), "pooled"),
            (Gain(stop=until_the_end), "cell"),
        ]
        for method, trees in methods:
            search = CellSearch(part.train, validation=part.test, method=method, trees=trees)
            start = time.process_time()
            points = [(step, time.process_time() - start) for step in search]
            for splits in (0, 10, 20, 40, 80, 160, 320, 640):
                if splits < len(points):
                    step, seconds = points[splits]
                    score = step.validation_log_likelihood
                    print(
                        f"  {name:13} {type(method).__name__:8} {splits:4} splits "
                        f"{score:9.4f} {step.n_parameters:6} {seconds:6.2f} s"
                    )


def prices() -> None:
    print("  Gain, tree of each cell, by price: mean held-out log-likelihood and parameters")
    choices: tuple[float | Literal["aic", "bic"], ...] = (0.5, "aic", 2.0, 3.0, "bic")
    for name in cell_folds.TARGETS:
        fold = cell_folds.folds(name)
        parts = [fold(k) for k in range(cell_folds.N_FOLDS)]
        for price in choices:
            learned = [learn_cells(p.train, method=Gain(price), trees="cell") for p in parts]
            score = np.mean([p.held_out(c) for p, c in zip(parts, learned, strict=True)])
            size = np.mean([c.n_parameters for c in learned])
            print(f"  {name:13} {price!s:4} {score:9.4f} {size:7.0f}")


def cold() -> None:
    program = (
        "import time; start = time.process_time()\n"
        "import numpy as np\n"
        "from fairpc.data import Table\n"
        "from fairpc.structure import learn_cells\n"
        "rows = np.random.default_rng(0).integers(0, 2, (200, 5))\n"
        "learn_cells([Table.of(rows)], method={!r})\n"
        "print(time.process_time() - start)"
    )
    for method in ("chow-liu", "strudel", "gain"):
        seconds = []
        with tempfile.TemporaryDirectory() as cache:
            for _ in range(2):
                done = subprocess.run(
                    [sys.executable, "-c", program.format(method)],
                    env=os.environ | {"NUMBA_CACHE_DIR": cache},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                seconds.append(float(done.stdout))
        print(
            f"  {method}: {seconds[0]:.1f} s of processor time with imports and an empty cache, "
            f"{seconds[1]:.1f} s from the cache"
        )


def published_folds() -> None:
    print("  Strudel on the published folds: mean held-out log-likelihood (and the published one),")
    print("  parameters, splits kept, seconds a fold")
    for name, (target, _) in cell_folds.TARGETS.items():
        fold = cell_folds.folds(name)
        rows = []
        for k in range(cell_folds.N_FOLDS):
            part = fold(k)
            run = partial(learn_cells, part.train, validation=part.validation)
            learned, seconds = timed(run)
            rows.append((part.held_out(learned), learned.n_parameters, learned.best_split, seconds))
        score, size, splits, seconds = np.mean(rows, axis=0)
        print(
            f"  {name:13} {score:9.4f} ({target:8.3f}) {size:6.0f} {splits:6.0f} {seconds:7.3f} s"
        )


BENCHMARKS: dict[str, Callable[[], None]] = {
    "chow-liu": chow_liu_trees,
    "split": split_against_evaluation,
    "wide": wide,
    "long": long,
    "folds": folds,
    "published": published_folds,
    "gain": gain_against_strudel,
    "curve": curve,
    "prices": prices,
    "cold": cold,
}
NEED_DATA = ("folds", "published", "gain", "curve", "prices")


def main(names: list[str]) -> None:
    unknown = [n for n in names if n not in BENCHMARKS]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}: use {', '.join(BENCHMARKS)}")
    warm_up()
    for name in names or BENCHMARKS:
        print(name)
        if name in NEED_DATA and paper_data() is None:
            print("  left out: set FAIRPC_PAPER_DATA to the folder of the published data")
            continue
        BENCHMARKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
