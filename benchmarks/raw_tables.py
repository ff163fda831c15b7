"""The models on raw tables, 5-fold: accuracy, AUC and largest gap of mean scores between groups.

    python benchmarks/raw_tables.py                 adult german compas
    python benchmarks/raw_tables.py german --folds 2 --only FairPC

FairPC by default, with four components, and with these and the mass of Df equalised; beside it
logistic regression and gradient boosting, with and without fairlearn's ThresholdOptimizer, on
one-hot columns; and FairPC with 20 % of the cells missing. Seconds are of processor time, a fit.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from fairpc.comparison._runner import Method
from fairpc.datasets import load_adult, load_compas, load_german
from fairpc.metrics import largest_gap
from injected_bias import Rows, hide
from label_bias import circuit, classifier, on_indicators, optimised, runs

COMPAS = (
    "sex",
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
)


def raw(name: str) -> Rows:
    data = {"adult": load_adult, "german": load_german, "compas": load_compas}[name]()
    x, groups = data.X, np.asarray(data.sensitive).astype(str)
    if name == "compas":
        x = x.select([c for c in COMPAS if c in x.columns])
        kept = ("African-American", "Caucasian")
        groups = np.where(np.isin(groups, kept), groups, "Other")
    y = (np.asarray(data.y) == data.positive).astype(int)
    return Rows(x, groups, y, y)


def fairpc(**settings: Any) -> Method:
    return circuit(positive=1, missing_values=("?",), **settings)


def usual(estimator: Any) -> Method:
    return classifier(
        lambda seed: on_indicators(estimator, sparse_output=False),
        table=lambda rows: rows.x.to_pandas(),
    )


LOGISTIC = usual(LogisticRegression(max_iter=1000))
BOOSTING = usual(HistGradientBoostingClassifier(random_state=0))
METHODS = {
    "FairPC": fairpc(),
    "FairPC, one tree": fairpc(structure="chow-liu"),
    "FairPC, the paper's structure": fairpc(structure="strudel"),
    "logistic regression": LOGISTIC,
    "  with ThresholdOptimizer": optimised(LOGISTIC, drawn=True),
    "gradient boosting": BOOSTING,
    "  with ThresholdOptimizer ": optimised(BOOSTING, drawn=True),
}


def folds(data: Rows) -> Iterator[tuple[Rows, Rows]]:
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(data.d, data.d):
        yield data.take(train), data.take(test)


def measure(data: Rows, method: Method, n_folds: int) -> npt.NDArray[np.float64]:
    """Accuracy, AUC, largest gap of mean scores, seconds: means over folds."""
    found = []
    for _, run, test in runs({"": method}, islice(folds(data), n_folds)):
        right, scores = run.decided.decisions == test.d, np.asarray(run.decided.scores)
        auc, gap = roc_auc_score(test.d, scores), largest_gap(scores, test.s)
        found.append((right.mean(), auc, gap, run.cpu))
    return np.asarray(np.mean(found, axis=0), np.float64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["adult", "german", "compas"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", action="append", help="a line to print; several may be named")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    METHODS["FairPC"](raw("german").take(np.arange(500)), 0)  # compiles
    for name in given.names:
        data = raw(name)
        n_groups = len(np.unique(data.s))
        print(f"{name}: {len(data)} rows, {data.x.width} features, {n_groups} groups")
        print("    accuracy  AUC    gap    seconds")
        holes = hide(data, 0.2, np.random.default_rng(0))
        lines = {title: (data, method) for title, method in METHODS.items()}
        for title in ("FairPC", "FairPC, one tree"):
            lines[f"{title}, 20 % of the cells missing"] = holes, METHODS[title]
        for title in given.only or lines:
            found = measure(*lines[title], given.folds)
            print("    {:.4f}    {:.3f}  {:.3f}  {:7.2f}  ".format(*found) + title.strip())


if __name__ == "__main__":
    main()
