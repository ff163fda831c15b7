"""The models on raw tables, 5-fold: accuracy, AUC and largest gap of mean scores between groups.

    python benchmarks/raw_tables.py                 adult german compas
    python benchmarks/raw_tables.py german --folds 2

Beside them logistic regression and gradient boosting, with and without fairlearn's
ThresholdOptimizer, on one-hot columns; and the models with 20 % of the cells missing.
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

COMPAS = ("sex", "age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
          "c_charge_degree")  # fmt: skip


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
        "FairPC auto": circuit(),
        "FairPC one tree": circuit(structure="chow-liu"),
        "FairPC Strudel": circuit(structure="strudel"),
        "FairPC Strudel, mass equalised": circuit(structure="strudel", equal_mass=True),
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
        start = time.perf_counter()
        scores, chosen = method(data, train, test)
        seconds = time.perf_counter() - start
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
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.names:
        data = raw(name)
        print(
            f"{name}: {len(data.y)} rows, {data.x.width} features, {len(np.unique(data.s))} groups"
        )
        print("    accuracy  AUC    gap    seconds")
        for title, method in methods().items():
            found = measure(data, method, given.folds)
            print("    {:.4f}    {:.3f}  {:.3f}  {:6.2f}  ".format(*found) + title, flush=True)
        for title, method in list(methods().items())[:3]:
            found = measure(with_missing(data, 0.2), method, given.folds)
            print(
                "    {:.4f}    {:.3f}  {:.3f}  {:6.2f}  ".format(*found) + title + ", 20 % missing",
                flush=True,
            )


if __name__ == "__main__":
    main()
