"""Before ÷ after of what was made faster: two checkouts in turns, least CPU seconds of each.

    python benchmarks/speed_ups.py OLD NEW              folds, marginals, predictions
    python benchmarks/speed_ups.py OLD NEW columns      what takes minutes: columns, groups,
                                                        assumptions, audits, paper

With one checkout there is no before. Seconds are those of the process, on one thread, since a
machine that is busy with other things is slower by the clock. Aims are in the same unit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from adult_like import DF, adult_rows, latent_circuit, paper_data, paper_table, with_holes
from against import ran
from clock import best, timed
from fairpc import FairPC
from fairpc.evidence import test_assumptions
from fairpc.models._fit import Options, fit
from models import median_fold

Figures = dict[str, float]

TURNS = {"folds": 3, "marginals": 2, "predict": 2}
"""How often each measurement is made; what takes minutes, once."""

AIMS = {
    "fold of compas, s": 0.1,
    "fold of adult, s": 0.1,
    "fold of german, s": 0.08,
    "fold of 20, s": 0.3,
    "marginals, 30 % missing, µs/row": 0.5,
    "predictions, half missing, µs/row": 1.0,
    "auto, 400 columns × 1,000 rows, s": 5.0,
    "auto, 3,000 columns × 60 rows, s": 10.0,
    "test, 50 columns × 2,000 rows, s": 15.0,
}


def folds() -> Figures:
    """A fold in the paper's protocol, median of ten; and LatNB, whose EM had the most to do."""
    found = {}
    for name in ("compas", "adult", "german", "20"):
        table = paper_table(name)
        if table is None:
            return {}
        found[f"fold of {name}, s"] = median_fold(table)
        if name == "20":
            found[f"LatNB, fold of {name}, s"] = median_fold(table, "LatNB")
    return found


def marginals() -> Figures:
    rows, _ = adult_rows()
    circuit = latent_circuit(rows)
    rows[:, DF] = np.random.default_rng(0).integers(0, 2, len(rows))
    large = np.tile(rows, (8, 1))
    found = {}
    for share, words in ((0.3, "30 % missing"), (0.5, "half missing")):
        sample = with_holes(large, share)
        seconds = best(partial(circuit.log_marginal, sample, n_threads=1))
        found[f"marginals, {words}, µs/row"] = 1e6 * seconds / len(sample)
    return found


def predict() -> Figures:
    table = paper_table("adult")
    if table is None:
        return {}
    rows = table.rows
    model = fit("FairPC", rows, options=Options(max_iter=50)).distribution
    x, s = np.tile(rows.x, (15, 1)), np.tile(rows.s, 15)
    found = {}
    for words, sample in (("complete", x), ("half missing", with_holes(x, 0.5))):
        seconds = best(partial(model.decision, s, sample))
        found[f"predictions, {words}, µs/row"] = 1e6 * seconds / len(x)
    return found


def noisy(n_rows: int, n_columns: int) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Columns of three values, five of which say something of the label; labels, groups."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (n_rows, n_columns))
    s = rng.choice(["a", "b"], n_rows)
    odds = x[:, :5].sum(axis=1) - 5.0 - 0.5 * (s == "b")
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return pl.DataFrame(x.astype(str), schema=[f"x{j}" for j in range(n_columns)]), y, s


def columns() -> Figures:
    """``FairPC()`` on wide tables, the fit check included."""
    found = {}
    for n_columns, n_rows in ((400, 1000), (3000, 60)):
        seconds = _seconds(*noisy(n_rows, n_columns))
        found[f"auto, {n_columns:,} columns × {n_rows:,} rows, s"] = seconds
    return found


def groups() -> Figures:
    """``FairPC()`` on 50 groups of very different sizes, 55 columns; the fit check included."""
    rng = np.random.default_rng(0)
    n = 10_000
    numbers = {f"x{j}": np.round(rng.lognormal(size=n) * 1000, 2) for j in range(35)}
    words = {f"c{j}": rng.integers(0, 2 + j // 2, n).astype(str) for j in range(20)}
    s = rng.choice([f"g{k}" for k in range(50)], n, p=rng.dirichlet(np.full(50, 1.5)))
    odds = np.log(numbers["x20"] / 1000) + (words["c5"] == "1")
    y = rng.random(n) < 1 / (1 + np.exp(-odds))
    return {"auto, 50 groups × 10,000 rows, s": _seconds(pl.DataFrame(numbers | words), y, s)}


def _seconds(X: pl.DataFrame, y: object, s: np.ndarray) -> float:
    """CPU seconds of a fit, kernels loaded before."""
    warnings.simplefilter("ignore")
    few, labels, some = noisy(200, 5)
    FairPC(random_state=0).fit(few, labels, sensitive_features=some)
    return timed(lambda: FairPC(random_state=0).fit(X, y, sensitive_features=s))[1]


def assumptions() -> Figures:
    """The test of the assumptions with its own choice of a classifier, real-valued columns."""
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(2000, 50)), rng.integers(0, 2, 2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-x[:, :5].sum(axis=1) + 0.5 * s))).astype(int)
    return {"test, 50 columns × 2,000 rows, s": timed(lambda: test_assumptions(x, y, s))[1]}


def audits() -> Figures:
    """A forest of UCI's training part of raw Adult with its fit check; an audit of the test part.

    Without the comparison with other methods, as in the demo.
    """
    from fairpc.auditing import audit
    from fairpc.datasets import load_adult

    warnings.simplefilter("ignore")
    train, test = (
        load_adult(subset=part).frame.drop(["fnlwgt", "education-num"])
        for part in ("train", "test")
    )
    model = FairPC("sex", positive=">50K", structure="forest", random_state=0)
    _, fitted = timed(lambda: model.fit(train.drop("target"), train["target"]))
    rows = test.drop("target"), test["target"]
    _, audited = timed(lambda: audit(model, *rows))
    return {"forest of raw Adult, s": fitted, "audit of raw Adult, s": audited}


def paper() -> Figures:
    """``python -m reproduction all`` in one process; on two cores it takes half of that, or so."""
    from reproduction.page import EXHIBITS, write_page
    from reproduction.runs import Runner, Study
    from reproduction.sources import Sources

    folder = paper_data()
    if folder is None:
        return {}
    with tempfile.TemporaryDirectory() as kept:
        study = Study(Sources(folder, folder / "splits"), Runner(Path(kept), n_jobs=1))
        found = {}
        start = time.process_time()
        exhibits = []
        for name, make in EXHIBITS.items():
            before = time.process_time()
            exhibits.append(make(study))
            found[f"  of which {name}, s"] = time.process_time() - before
        write_page(exhibits, study, Path(kept) / "page")
        return {"paper all, s": time.process_time() - start} | found


MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    "folds": folds,
    "marginals": marginals,
    "predict": predict,
    "columns": columns,
    "groups": groups,
    "assumptions": assumptions,
    "audits": audits,
    "paper": paper,
}


def measured(checkout: Path, what: str) -> Figures:
    """The figures of a checkout, in a process of its own with this script."""
    found: Figures = json.loads(ran(checkout, __file__, "--measure", what, FAIRPC_THREADS="1"))
    return found


def compare(checkouts: list[Path], what: str) -> None:
    found: list[Figures] = [{} for _ in checkouts]
    for turn in range(TURNS.get(what, 1)):
        for k in range(len(checkouts)) if turn % 2 == 0 else reversed(range(len(checkouts))):
            for name, value in measured(checkouts[k], what).items():
                found[k][name] = min(value, found[k].get(name, value))
    for name, after in found[-1].items():
        before = found[0][name] if len(checkouts) == 2 else float("nan")
        aim = f"{AIMS[name]:8.3g}" if name in AIMS else " " * 8
        print(f"{name:36s} {before:8.3f} {after:8.3f} {before / after:8.2f} {aim}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("given", nargs="*", help="one or two checkouts, then measurements")
    parser.add_argument("--measure", choices=MEASUREMENTS, help="one, here, as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(MEASUREMENTS[arguments.measure]()))
        return
    checkouts = [Path(a).resolve() for a in arguments.given if a not in MEASUREMENTS]
    chosen = [a for a in arguments.given if a in MEASUREMENTS] or list(MEASUREMENTS)[:3]
    if not 1 <= len(checkouts) <= 2:
        parser.error("give one or two checkouts")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    heads = "".join(f" {head:>8s}" for head in ("before", "after", "ratio", "aim"))
    print(f"{'least CPU of some turns':36s}{heads}")
    for what in chosen:
        compare(checkouts, what)


if __name__ == "__main__":
    main()
