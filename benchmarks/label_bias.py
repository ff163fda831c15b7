"""Who finds the decision behind bent labels? Real tables, known bias, judged against hidden Df.

    python benchmarks/label_bias.py                            every table, mechanism and method
    python benchmarks/label_bias.py --tables law credit --mechanisms strong --folds 0
    python benchmarks/label_bias.py --methods fairpc --again fairpc    measure a method anew

A table's own label is taken as Df, made independent of S, and bent into D (``bent_labels.py``).
A method sees X, S and D of four folds and is judged on the fifth. Each result is a line of a file
(--out), so a run that was stopped goes on where it was. Seconds are of the fit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from bent_labels import (
    FAVOURED,
    MECHANISMS,
    N_FOLDS,
    OTHER,
    READ,
    TABLES,
    Rows,
    find_folder,
    folds,
    inject,
)
from fairpc import FairPC

Floats = npt.NDArray[np.float64]
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Decided:
    """Per row P(Df = 1), None where a method only decides, and P(the decision is positive)."""

    scores: Floats | None
    decisions: Floats

    @classmethod
    def by_half(cls, scores: Floats) -> Decided:
        return cls(scores, (scores > 0.5).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method learned: a rule, and where it has one the mechanism [s, f, d] and P(Df)."""

    decide: Callable[[Rows], Decided]
    model: Any = None


Method = Callable[[Rows, int], Fitted]
"""Training rows and a seed to what was learned; only ``limit`` looks at Df."""


def with_group(rows: Rows) -> Any:
    return rows.x.with_columns(pl.Series("the group", rows.s)).to_pandas()


TEXT = make_column_selector(dtype_exclude="number")
NUMBERS = make_column_selector(dtype_include="number")


def logistic(seed: int) -> Any:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), TEXT),
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


class Boosting:
    """Gradient boosting that takes categories as such, at most 250 of a column, and holes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, table: Any, label: Any) -> Boosting:
        codes = OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
            max_categories=250,
        )
        model = HistGradientBoostingClassifier(
            categorical_features=range(len(TEXT(table))), random_state=self.seed
        )
        columns = make_column_transformer((codes, TEXT(table)), ("passthrough", NUMBERS(table)))
        self.model = make_pipeline(columns, model).fit(table, label)
        return self

    def predict_proba(self, table: Any) -> Any:
        return self.model.predict_proba(table)


def classifier(make: Callable[[int], Any], *, on_df: bool = False) -> Method:
    """A classifier of D, or of Df itself, with S as a feature."""

    def fit(train: Rows, seed: int) -> Fitted:
        model = make(seed).fit(with_group(train), train.f if on_df else train.d)
        return Fitted(lambda test: Decided.by_half(model.predict_proba(with_group(test))[:, 1]))

    return fit


class AsGiven(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Scores as an estimator that was fitted before, for fairlearn."""

    def fit(self, scores: Any, label: Any) -> AsGiven:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, scores: Any) -> Any:
        return np.column_stack([1 - np.ravel(scores), np.ravel(scores)])


def optimised(method: Method) -> Method:
    """The scores of a method with fairlearn's thresholds per group; its random rule is averaged."""

    def fit(train: Rows, seed: int) -> Fitted:
        from fairlearn.postprocessing import ThresholdOptimizer

        scored = method(train, seed).decide
        rule = ThresholdOptimizer(
            estimator=AsGiven(), prefit=True, predict_method="predict_proba"
        ).fit(_column(scored(train)), train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            chances = rule._pmf_predict(_column(scored(test)), sensitive_features=test.s)
            return Decided(None, np.asarray(chances, np.float64)[:, 1])

        return Fitted(decide)

    return fit


def _column(decided: Decided) -> Floats:
    assert decided.scores is not None
    return decided.scores.reshape(-1, 1)


def circuit(**settings: Any) -> Method:
    return model(lambda seed: FairPC(random_state=seed, **settings))


def model(make: Callable[[int], Any]) -> Method:
    """A model with the surface of FairPC, made from a seed."""

    def fit(train: Rows, seed: int) -> Fitted:
        fitted = make(seed).fit(train.x, train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            scores = fitted.predict_proba(test.x, sensitive_features=test.s)
            return Decided.by_half(scores[:, 1])

        return Fitted(decide, fitted)

    return fit


METHODS: dict[str, Method] = {
    "lr": classifier(logistic),
    "hgb": classifier(Boosting),
    "lr+to": optimised(classifier(logistic)),
    "hgb+to": optimised(classifier(Boosting)),
    "limit": classifier(Boosting, on_df=True),
    "fairpc": circuit(),
    "strudel": circuit(structure="strudel"),
    "forest": circuit(structure="forest"),
}


def measure(method: Method, train: Rows, test: Rows, mechanism: str, seed: int) -> Record:
    """One line of the file: a method on one fold, or the sentence of its error."""
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        fitted = method(train, seed)
        seconds = {
            "cpu": round(time.process_time() - cpu, 2),
            "wall": round(time.perf_counter() - wall, 2),
        }
        found = judge(fitted.decide(test), test)
        return {**found, **learned(fitted.model, mechanism), **seconds}
    except Exception as error:  # noqa: BLE001 - a method that fails is a result too
        return {"error": f"{type(error).__name__}: {error}"}


def judge(decided: Decided, test: Rows) -> Record:
    """Agreement with Df on test rows, and the gap of decisions, favoured group − other."""
    p, f = decided.decisions, test.f
    found = {
        "accuracy": float(np.mean(p * f + (1 - p) * (1 - f))),
        "gap": float(p[test.s == FAVOURED].mean() - p[test.s == OTHER].mean()),
        "auc": None,
        "brier": None,
    }
    if decided.scores is not None:
        found["auc"] = float(roc_auc_score(f, decided.scores))
        found["brier"] = float(np.mean((decided.scores - f) ** 2))
    return found


def learned(model: Any, mechanism: str) -> Record:
    """Largest error of P(D=1 | Df, S), and the least P(D = Df | s), of a model that has them."""
    if not hasattr(model, "bias_mechanism_"):
        return {}
    table, rate = np.asarray(model.bias_mechanism_), np.asarray(model.fair_rate_)
    truth = [MECHANISMS[mechanism][str(group)] for group in model.groups_]
    agreement = np.einsum("f,sff->s", rate, table)
    return {
        "mechanism_error": float(np.abs(table[:, :, 1] - truth).max()),
        "agreement": float(agreement.min()),
        "fair_rate": float(rate[1]),
        "warnings": len(getattr(model, "warnings_", ())),
    }


Key = tuple[Any, ...]


def key(record: Record) -> Key:
    names = ("kind", "table", "mechanism", "seed", "fold", "method", "rows")
    return tuple(record.get(name) for name in names)


def read_records(path: Path) -> list[Record]:
    """Lines of the file; of several with one key the last."""
    if not path.exists():
        return []
    lines = (json.loads(line) for line in path.read_text().splitlines() if line)
    return list({key(record): record for record in lines}.values())


def cells(given: argparse.Namespace) -> Iterator[tuple[Record, Rows, Rows]]:
    """Name, training and test rows of each fold that was asked for."""
    for seed in range(given.seeds):
        for table in given.tables:
            for mechanism in given.mechanisms:
                rows = inject(table, mechanism, seed=seed, n_rows=given.rows)
                parts = folds(rows, table, mechanism, seed=seed)
                for fold, (train, test) in enumerate(parts):
                    if fold in given.folds:
                        name = {"table": table, "mechanism": mechanism, "seed": seed, "fold": fold}
                        yield {**name, "rows": given.rows}, train, test


def run(given: argparse.Namespace) -> None:
    made = {key(r) for r in read_records(given.out) if r["method"] not in given.again}
    for cell, train, test in cells(given):
        for method in given.methods:
            name = {"kind": "fold", **cell, "method": method}
            if key(name) not in made:
                found = measure(METHODS[method], train, test, cell["mechanism"], cell["seed"])
                append(given.out, {**name, **found})


def append(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in record.items()}
    print(*(f"{v}" if isinstance(v, str) else f"{k}={v}" for k, v in shown.items()), flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=1, help="ways of bending, 0, 1, …")
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(N_FOLDS)))
    parser.add_argument("--rows", type=int, default=16_000, help="of a table, at most")
    parser.add_argument("--again", nargs="+", default=[], help="methods to measure anew")
    default = Path(tempfile.gettempdir()) / "fairpc-label-bias.jsonl"
    parser.add_argument("--out", type=Path, default=default, help="file of results, added to")
    return parser.parse_args()


def main() -> None:
    given = options()
    warnings.simplefilter("ignore")
    if find_folder() is None:
        print("The bundled tables only: FAIRPC_BIAS_DATA names no folder with the others.")
        given.tables = [name for name in given.tables if name not in READ]
    compile_kernels()
    run(given)


def compile_kernels() -> None:
    """Fit once on few rows, so that no method's seconds hold the compiler's."""
    rows = inject("german", "mild")
    for name in ("fairpc", "strudel"):
        METHODS[name](rows, 0).decide(rows)


if __name__ == "__main__":
    main()
