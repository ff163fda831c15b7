"""The models on raw tables, 5-fold: accuracy, AUC and largest gap of mean scores between groups.

    python benchmarks/raw_tables.py                 adult german compas
    python benchmarks/raw_tables.py german --folds 2 --only FairPC

FairPC by default, with four components, and with these and the mass of Df equalised; beside it
logistic regression and gradient boosting, with and without fairlearn's ThresholdOptimizer, on
one-hot columns; and FairPC with 20 % of the cells missing. Seconds are of processor time, a fold.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairpc import FairPC
from fairpc.datasets import load_adult, load_compas, load_german

COMPAS = (
    "sex",
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
)


@dataclass(frozen=True, eq=False)
class Raw:
    """A raw table: features, whether the label is the positive one, groups."""

    x: pl.DataFrame
    y: npt.NDArray[np.int64]
    s: npt.NDArray[Any]


def raw(name: str) -> Raw:
    data = {"adult": load_adult, "german": load_german, "compas": load_compas}[name]()
    x, groups = data.X, np.asarray(data.sensitive).astype(str)
    if name == "compas":
        x = x.select([c for c in COMPAS if c in x.columns])
        kept = ("African-American", "Caucasian")
        groups = np.where(np.isin(groups, kept), groups, "Other")
    return Raw(x, (np.asarray(data.y) == data.positive).astype(int), groups)


Scores = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]
Method = Callable[[Raw, npt.NDArray[Any], npt.NDArray[Any]], Scores]


def circuit(**settings: Any) -> Method:
    def run(data: Raw, train: npt.NDArray[Any], test: npt.NDArray[Any]) -> Scores:
        model = FairPC(positive=1, missing_values=("?",), random_state=0, **settings)
        model.fit(data.x[train], data.y[train], sensitive_features=data.s[train])
        scores = model.predict_proba(data.x[test], sensitive_features=data.s[test])[:, 1]
        return scores, scores > 0.5

    return run


def usual(estimator: Any, *, optimise: bool = False) -> Method:
    def run(data: Raw, train: npt.NDArray[Any], test: npt.NDArray[Any]) -> Scores:
        table = data.x.to_pandas()
        text = make_column_selector(dtype_exclude="number")
        numbers = make_column_selector(dtype_include="number")
        prepared = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), text),
            (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        )
        pipeline = make_pipeline(prepared, estimator)
        pipeline.fit(table.iloc[train], data.y[train])
        scores = pipeline.predict_proba(table.iloc[test])[:, 1]
        if not optimise:
            return scores, scores > 0.5
        from fairlearn.postprocessing import ThresholdOptimizer

        chosen = ThresholdOptimizer(
            estimator=pipeline, prefit=True, predict_method="predict_proba"
        ).fit(table.iloc[train], data.y[train], sensitive_features=data.s[train])
        decided = chosen.predict(table.iloc[test], sensitive_features=data.s[test], random_state=0)
        return np.asarray(decided, np.float64), np.asarray(decided) > 0.5

    return run


def methods() -> dict[str, Method]:
    boosting = HistGradientBoostingClassifier(random_state=0)
    logistic = LogisticRegression(max_iter=1000)
    return {
        "FairPC": circuit(),
        "FairPC, 4 components": circuit(n_components=4),
        "FairPC, 4 components, mass equalised": circuit(n_components=4, equal_mass=True),
        "FairPC, mass equalised": circuit(equal_mass=True),
        "FairPC, one tree": circuit(structure="chow-liu"),
        "FairPC, the paper's structure": circuit(structure="strudel"),
        "logistic regression": usual(logistic),
        "  with ThresholdOptimizer": usual(logistic, optimise=True),
        "gradient boosting": usual(boosting),
        "  with ThresholdOptimizer ": usual(boosting, optimise=True),
    }


def measure(data: Raw, method: Method, n_folds: int) -> npt.NDArray[np.float64]:
    """Accuracy, AUC, largest gap of mean scores, seconds: means over folds."""
    results = []
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(data.y, data.y)
    for _, (train, test) in zip(range(n_folds), folds, strict=False):
        start = time.process_time()
        scores, chosen = method(data, train, test)
        seconds = time.process_time() - start
        y, s = data.y[test], data.s[test]
        by_group = [scores[s == g].mean() for g in np.unique(data.s)]
        auc = roc_auc_score(y, scores)
        results.append(((chosen == y).mean(), auc, max(by_group) - min(by_group), seconds))
    means: npt.NDArray[np.float64] = np.mean(results, axis=0)
    return means


def with_missing(data: Raw, share: float) -> Raw:
    rng = np.random.default_rng(0)
    holes = rng.random(data.x.shape) < share
    columns = [
        pl.when(pl.Series(holes[:, j])).then(None).otherwise(data.x[c]).alias(c)
        for j, c in enumerate(data.x.columns)
    ]
    return Raw(data.x.select(columns), data.y, data.s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["adult", "german", "compas"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", action="append", help="a line to print; several may be named")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    circuit()(raw("german"), np.arange(500), np.arange(500, 1000))  # compiles
    for name in given.names:
        data = raw(name)
        n_groups = len(np.unique(data.s))
        print(f"{name}: {len(data.y)} rows, {data.x.width} features, {n_groups} groups")
        print("    accuracy  AUC    gap    seconds")
        holes = with_missing(data, 0.2)
        lines = {title: (data, method) for title, method in methods().items()}
        for title in ("FairPC", "FairPC, one tree"):
            lines[f"{title}, 20 % of the cells missing"] = holes, methods()[title]
        for title in given.only or lines:
            report(title, measure(*lines[title], given.folds))


def report(title: str, found: npt.NDArray[np.float64]) -> None:
    print("    {:.4f}    {:.3f}  {:.3f}  {:7.2f}  ".format(*found) + title.strip(), flush=True)


if __name__ == "__main__":
    main()
