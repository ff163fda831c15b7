"""Fitted to recorded labels, judged by the truth: real tables in which both are known, and injected
bias, under one protocol.

    python benchmarks/known_truth.py [--draws 5] [--seeds 2] [--rows 4000] > known_truth.txt

Its output is kept in benchmarks/results, from which docs/printed.py takes the table of README.md.

Tables with a truth are read from the folder FAIRPC_DUAL_DATA, or from ../shared/data/dual beside
the repository (features, ``group``, ``recorded``, ``truth``); those whose labels are altered by a
known mechanism, from where ``injected_bias.py`` finds them. Each draw takes at most so many
training rows and as many test rows. Printed are the table of README.md (means over tables), the
same for each table, and which ranges of P(recorded | truth, group) at 95 % hold the share that is
true of the training rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.metrics import accuracy_score, roc_auc_score

from checkout import data_folder
from fairpc import FairPC, LatentDecision
from fairpc.comparison._runner import run_method
from injected_bias import TABLES, Rows, inject
from label_bias import METHODS as OWN
from rivals import RIVALS

NAMES = ("diabetes", "hypertension", "referees")
MECHANISMS = ("strong", "paper", "mild")
METHODS = {
    "*gradient boosting of the truth (oracle)*": OWN["limit-boost"],
    "**`LatentDecision()`**": OWN["latent"],
    "**`FairPC()`**": OWN["fairpc"],
    "reweighing (Kamiran and Calders 2012)": RIVALS["reweighing-boost"],
    "fairlearn's `ThresholdOptimizer`": OWN["boost+to"],
    "gradient boosting of the recorded labels": OWN["boost"],
    'the paper\'s circuits, `FairPC(structure="strudel")`': OWN["strudel"],
}


class Judged(NamedTuple):
    """Against the truth, on test rows; the gap is that of the groups' selection rates."""

    accuracy: float
    auc: float
    gap: float


def read(folder: Path, name: str) -> Rows:
    table = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None)
    truth, recorded = (table[c].to_numpy().astype(np.int64) for c in ("truth", "recorded"))
    x = table.drop("group", "recorded", "truth")
    return Rows(x, table["group"].cast(pl.String).to_numpy().astype(str), truth, recorded)


def drawn(rows: Rows, n: int, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, at most ``n`` of each."""
    order = np.random.default_rng(seed).permutation(len(rows))
    half = min(n, len(rows) // 2)
    return rows.take(order[:half]), rows.take(order[half : 2 * half])


def judged(method: str, rows: Rows, n: int, seed: int) -> Judged:
    train, test = drawn(rows, n, seed)
    decided = run_method(METHODS[method], train, test, seed).decided
    chance = np.asarray(decided.decisions, np.float64)  # of a method that decides at random, too
    right = np.where(test.f == 1, chance, 1 - chance).mean()
    auc = np.nan if decided.scores is None else roc_auc_score(test.f, decided.scores)
    rates = [chance[test.s == group].mean() for group in np.unique(test.s)]
    if decided.scores is not None:
        right = accuracy_score(test.f, chance > 0.5)
    return Judged(float(right), float(auc), float(max(rates) - min(rates)))


def compared(rows: Iterator[tuple[str, Rows, int]], n: int) -> pl.DataFrame:
    """Each method on each draw, a row each."""
    found = [
        {"table": table, "method": method, **judged(method, given, n, seed)._asdict()}
        for table, given, seed in rows
        for method in METHODS
    ]
    return pl.DataFrame(found)


def injected(seeds: int, n: int) -> Iterator[tuple[str, Rows, int]]:
    for table in TABLES:
        for mechanism in MECHANISMS:
            for seed in range(seeds):
                yield table, inject(table, mechanism, seed=seed, n_rows=2 * n), seed


def percent(value: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f}"


def means(found: pl.DataFrame, method: str) -> list[float]:
    """Over tables, each the mean of its draws."""
    own = found.filter(pl.col("method") == method)
    by_table = own.group_by("table").agg(pl.col(Judged._fields).mean())
    return [by_table[name].mean() for name in Judged._fields]  # type: ignore[misc]


def summary(truth: pl.DataFrame, bias: pl.DataFrame) -> Iterator[str]:
    """The table of README.md."""
    yield (
        "| fitted to the recorded labels, percent | known truth: accuracy | AUC "
        "| injected bias: accuracy | AUC | gap between groups |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    for method in METHODS:
        (accuracy, auc, _), others = means(truth, method), means(bias, method)
        yield f"| {method} | " + " | ".join(map(percent, (accuracy, auc, *others))) + " |"


def details(found: pl.DataFrame) -> Iterator[str]:
    yield "| table | method | accuracy | AUC | gap |\n|---|---|---:|---:|---:|"
    for table in found["table"].unique(maintain_order=True):
        own = found.filter(pl.col("table") == table)
        for method in METHODS:
            yield f"| {table} | {method} | " + " | ".join(map(percent, means(own, method))) + " |"


def ranges(rows: Rows, n: int) -> Iterator[str]:
    """Whether the ranges of a fit hold the truth, a line per group and decision."""
    train = drawn(rows, n, 0)[0]
    for model in (FairPC(positive=1, random_state=0), LatentDecision(positive=1, random_state=0)):
        model.fit(train.x, train.d, sensitive_features=train.s)
        for s, group in enumerate(model.groups_.tolist()):
            for f in range(2):
                true = float(train.d[(train.s == group) & (train.f == f)].mean())
                low, high = model.mechanism_range_[s, f].tolist()
                inside = "contradicted" if np.isnan(low) else "yes" if low <= true <= high else "no"
                cells = (type(model).__name__, group, f, *map(percent, (true, low, high)), inside)
                yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=5, help="of each table with a truth")
    parser.add_argument("--seeds", type=int, default=2, help="of each mechanism")
    parser.add_argument("--rows", type=int, default=4_000)
    given = parser.parse_args()
    folder = data_folder("FAIRPC_DUAL_DATA", "dual")
    if folder is None:
        raise SystemExit("no tables with a known truth: set FAIRPC_DUAL_DATA to their folder")
    warnings.simplefilter("ignore")
    every = {name: read(folder, name) for name in NAMES}
    draws = ((name, rows, seed) for name, rows in every.items() for seed in range(given.draws))
    truth = compared(draws, given.rows)
    bias = compared(injected(given.seeds, given.rows), given.rows)
    print(*summary(truth, bias), sep="\n", flush=True)
    print(f"\nKnown truth, {given.draws} draws of {given.rows:,} training rows at most\n")
    print(*details(truth), sep="\n")
    print(f"\nInjected bias ({', '.join(MECHANISMS)}), {given.seeds} seeds\n")
    print(*details(bias), sep="\n")
    head = "| model | group | truth | recorded yes | low | high | inside |\n" + "|---" * 7 + "|"
    lines = []
    for name, rows in every.items():
        here = list(ranges(rows, given.rows))
        print(f"\nRanges of {name}\n\n{head}", *here, sep="\n", flush=True)
        lines += here
    held = sum(line.endswith("| yes |") for line in lines)
    print(f"\nRanges that hold the truth: {held} of {len(lines)}")


if __name__ == "__main__":
    main()
