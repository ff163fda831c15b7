"""Fitted to recorded labels, judged by the truth: real tables in which both are known.

    python benchmarks/known_truth.py [--draws 5] [--rows 8000] [--tables diabetes …]

Tables are read from the folder FAIRPC_DUAL_DATA, or from ../shared/data/dual beside the repository:
features, ``group``, ``recorded``, ``truth``. Each draw takes at most so many training rows and as
many test rows. The first table printed is accuracy / AUC for the truth on test rows, means over
draws; the second, which ranges of P(recorded | truth, group) at 95 % hold the share that is true of
the training rows, and what the fit says.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import accuracy_score, roc_auc_score

from bent_labels import Rows
from checkout import data_folder
from fairpc import FairPC, LatentDecision
from fairpc.comparison._runner import run_method
from label_bias import METHODS as OWN
from rivals import RIVALS

NAMES = ("diabetes", "hypertension", "referees")
METHODS = {
    "boosting of the recorded label": OWN["boost"],
    "reweighing": RIVALS["reweighing-boost"],
    "`FairPC()`": OWN["fairpc"],
    "`LatentDecision()`": OWN["latent"],
    "*boosting of the truth (oracle)*": OWN["limit-boost"],
}


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


def judge(rows: Rows, draws: int, n: int) -> Iterator[tuple[str, float, float]]:
    """Accuracy and AUC for the truth of every method, means over draws."""
    for name, method in METHODS.items():
        found = []
        for seed in range(draws):
            train, test = drawn(rows, n, seed)
            decided = run_method(method, train, test, seed).decided
            auc = roc_auc_score(test.f, decided.scores)
            found.append((accuracy_score(test.f, decided.decisions > 0.5), auc))
        accuracy, auc = np.mean(found, axis=0).tolist()
        yield name, accuracy, auc


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
                yield (
                    f"| {type(model).__name__} | {group} | {f} | {true:.3f} | {low:.3f} | "
                    f"{high:.3f} | {inside} |"
                )
        yield f"{type(model).__name__} says: {model.explain_bias().sentences[0]}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=list(NAMES))
    given = parser.parse_args()
    folder = data_folder("FAIRPC_DUAL_DATA", "dual")
    if folder is None:
        raise SystemExit("no tables with a known truth: set FAIRPC_DUAL_DATA to their folder")
    warnings.simplefilter("ignore")
    print("| table | method | accuracy | AUC |\n|---|---|---|---|")
    every = {name: read(folder, name) for name in given.tables}
    for name, rows in every.items():
        for method, accuracy, auc in judge(rows, given.draws, given.rows):
            print(f"| {name} | {method} | {accuracy:.3f} | {auc:.3f} |", flush=True)
    head = "| model | group | truth | P(recorded) | low | high | inside |\n" + "|---" * 7 + "|"
    for name, rows in every.items():
        print(f"\n{name}\n\n{head}", flush=True)
        for line in ranges(rows, given.rows):
            print(line, flush=True)


if __name__ == "__main__":
    main()
