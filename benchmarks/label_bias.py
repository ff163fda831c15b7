"""Who finds the decision behind bent labels? Real tables, known bias, judged against hidden Df.

    python benchmarks/label_bias.py                            every table, mechanism and method
    python benchmarks/label_bias.py --tables law credit --mechanisms strong --folds 0
    python benchmarks/label_bias.py --methods fairpc --again fairpc    measure a method anew
    python benchmarks/label_bias.py --print --markdown         only the tables of what was measured
    python benchmarks/label_bias.py --hide 0.3                 also with .3 of the test cells hidden
    python benchmarks/label_bias.py --seeds-apart              also decisions that turn by chance
    python benchmarks/label_bias.py --sets                     also confidence sets of P(Df); slow

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

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
    generator,
    hide,
    inject,
)
from fairpc import FairPC, LatentDecision
from fairpc.baselines import Reduction, Reweight
from fairpc.evidence import test_assumptions
from label_bias_summary import summary

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
    """What a method learned: a rule, and its model where that may know the mechanism."""

    decide: Callable[[Rows], Decided]
    model: Any = None


Method = Callable[[Rows, int], Fitted]
"""Training rows and a seed to what was learned; only ``limit`` looks at Df."""


GROUP = "the group"


def with_group(rows: Rows) -> Any:
    return rows.x.with_columns(pl.Series(GROUP, rows.s)).to_pandas()


TEXT = make_column_selector(dtype_exclude="number")
NUMBERS = make_column_selector(dtype_include="number")


def on_indicators(model: Any) -> Any:
    """A model on indicators of levels and on scaled numbers."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), TEXT),
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
    )
    return make_pipeline(columns, model)


def logistic(seed: int) -> Any:
    return on_indicators(LogisticRegression(max_iter=1000))


class Boosting(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting that takes categories as such, at most 250 of a column, and holes."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, table: Any, label: Any, sample_weight: Any = None) -> Boosting:
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
        weights = {"histgradientboostingclassifier__sample_weight": sample_weight}
        self.model_ = make_pipeline(columns, model).fit(table, label, **weights)
        return self

    def predict_proba(self, table: Any) -> Any:
        return self.model_.predict_proba(table)


def classifier(make: Callable[[int], Any], *, on_df: bool = False) -> Method:
    """A classifier of D, or of Df itself, with S as a feature."""

    def fit(train: Rows, seed: int) -> Fitted:
        model = make(seed).fit(with_group(train), train.f if on_df else train.d)
        return Fitted(scored(model))

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

        of = method(train, seed).decide
        rule = ThresholdOptimizer(
            estimator=AsGiven(), prefit=True, predict_method="predict_proba"
        ).fit(_column(of(train)), train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            chances = rule._pmf_predict(_column(of(test)), sensitive_features=test.s)
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


def scored(classifier: Any) -> Callable[[Rows], Decided]:
    """Decisions of a fitted classifier that takes the group as a column."""
    return lambda test: Decided.by_half(classifier.predict_proba(with_group(test))[:, 1])


def latent(make: Callable[[int], Any] = lambda seed: None) -> Method:
    """Df from the scores of a classifier of D; by default from that of LatentDecision."""

    def fit(train: Rows, seed: int) -> Fitted:
        model = LatentDecision(make(seed), sensitive=GROUP, random_state=seed)
        model.fit(with_group(train), train.d)
        return Fitted(scored(model), model)

    return fit


def soft(make: Callable[[int], Any]) -> Method:
    """A classifier that learns the soft labels of a LatentDecision."""

    def fit(train: Rows, seed: int) -> Fitted:
        model = latent()(train, seed).model
        rows, labels, weights = model.relabel(with_group(train), train.d)
        learner = make(seed)
        name = "sample_weight"
        if hasattr(learner, "steps"):
            name = f"{learner.steps[-1][0]}__{name}"
        return Fitted(scored(learner.fit(rows, labels, **{name: weights})))

    return fit


def forest(seed: int) -> Any:
    return on_indicators(RandomForestClassifier(200, min_samples_leaf=10, random_state=seed))


def tree(seed: int) -> Any:
    return on_indicators(DecisionTreeClassifier(min_samples_leaf=100, random_state=seed))


def naive_bayes(seed: int) -> Any:
    return on_indicators(BernoulliNB())


def baseline(make: Callable[[], Any], *, votes: bool = False) -> Method:
    """A baseline of ours, which refuses missing cells; votes are chances of a random decision."""

    def fit(train: Rows, seed: int) -> Fitted:
        fitted = make().fit(filled(train, train), train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            scores = fitted.predict_proba(filled(test, train), sensitive_features=test.s)[:, 1]
            return Decided(None, scores) if votes else Decided.by_half(scores)

        return Fitted(decide)

    return fit


def filled(rows: Rows, train: Rows) -> pl.DataFrame:
    """X with missing text as a level of its own and missing numbers at the training mean."""
    return rows.x.with_columns(
        pl.col(pl.String).fill_null("missing"),
        *(
            pl.col(name).cast(pl.Float64).fill_null(train.x[name].mean())
            for name in train.x.select(pl.selectors.numeric()).columns
        ),
    )


METHODS: dict[str, Method] = {
    "lr": classifier(logistic),
    "hgb": classifier(Boosting),
    "lr+to": optimised(classifier(logistic)),
    "hgb+to": optimised(classifier(Boosting)),
    "reweight": baseline(Reweight),
    "reduction": baseline(Reduction, votes=True),
    "limit": classifier(Boosting, on_df=True),
    "fairpc": circuit(),
    "strudel": circuit(structure="strudel"),
    "strudel-held": circuit(structure="strudel", hold_mechanism=True),
    "forest": circuit(structure="forest"),
    "latent": latent(),
    "latent-lr": latent(logistic),
    "latent-hgb": latent(Boosting),
    "soft-lr": soft(logistic),
    "soft-hgb": soft(Boosting),
    "soft-forest": soft(forest),
    "soft-tree": soft(tree),
    "soft-nb": soft(naive_bayes),
}


TAKE_HOLES = ("hgb", "fairpc", "forest", "latent")
REPEATED = ("lr", "hgb", "fairpc", "forest", "latent")
"""Methods that --hide and --seeds-apart look at, as far as they were asked for."""


def measure(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """How well a method finds Df of the test rows, and what its fit takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    fitted = method(train, cell["seed"])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    found = {**judge(fitted.decide(test), test), **learned(fitted.model, cell["mechanism"])}
    found["truth"] = float(train.f.mean())
    return {**found, "cpu": round(cpu, 2), "wall": round(wall, 2)}


def measure_hidden(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """The same fit on test rows with and without hidden cells."""
    decide = method(train, cell["seed"]).decide
    rng = generator(cell["seed"], cell["table"], cell["mechanism"], "hide", str(cell["fold"]))
    whole = judge(decide(test), test)
    holes = judge(decide(hide(test, cell["share"], rng)), test)
    names = ("accuracy", "auc")
    return {n: whole[n] for n in names} | {f"{n}_hidden": holes[n] for n in names}


def measure_apart(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """Share of decisions that turn with another random_state, and with drawn training rows."""
    seed = cell["seed"]
    rng = generator(seed, cell["table"], cell["mechanism"], "bootstrap", str(cell["fold"]))
    drawn = train.take(rng.integers(len(train), size=len(train)))
    first = method(train, seed).decide(test).decisions
    other = method(train, seed + 1000).decide(test).decisions
    again = method(drawn, seed).decide(test).decisions
    return {
        "turned_by_seed": float(np.abs(other - first).mean()),
        "turned_by_bootstrap": float(np.abs(again - first).mean()),
    }


def measure_set(train: Rows) -> Record:
    """The confidence set of P(Df) that training rows give, beside the truth."""
    start = time.perf_counter()
    found = test_assumptions(train.x, train.d, train.s, positive=1, level=0.95)
    return {
        "lower": found.lower,
        "upper": found.upper,
        "rejected": bool(found.rejected),
        "truth": float(train.f.mean()),
        "wall": round(time.perf_counter() - start, 2),
    }


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
    ends = getattr(model, "fair_rate_set_", ())
    return {
        "mechanism_error": float(np.abs(table[:, :, 1] - truth).max()),
        "agreement": float(agreement.min()),
        "fair_rate": float(rate[1]),
        "warnings": len(getattr(model, "warnings_", ())),
        **dict(zip(("lower", "upper"), ends, strict=False)),
    }


Key = tuple[Any, ...]
Job = tuple[Record, Callable[[], Record]]


def key(record: Record) -> Key:
    names = ("kind", "table", "mechanism", "seed", "fold", "method", "rows", "share")
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


def jobs(given: argparse.Namespace, cell: Record, train: Rows, test: Rows) -> Iterator[Job]:
    """Name of each record of a fold, and how it is made."""
    if given.sets and cell["seed"] == 0 and cell["fold"] == min(given.folds):
        yield {"kind": "set", **cell}, partial(measure_set, train)
    for name in given.methods:
        rows, job = (METHODS[name], train, test), {**cell, "method": name}
        whole = {"kind": "fold", **job}
        yield whole, partial(measure, *rows, whole)
        if given.hide and name in TAKE_HOLES:
            holes = {"kind": "hidden", **job, "share": given.hide}
            yield holes, partial(measure_hidden, *rows, holes)
        if given.seeds_apart and name in REPEATED:
            apart = {"kind": "apart", **job}
            yield apart, partial(measure_apart, *rows, apart)


def run(given: argparse.Namespace) -> None:
    """Make the records that the file lacks; a method that fails leaves a sentence there."""
    made = {key(r) for r in read_records(given.out) if r.get("method") not in given.again}
    for cell, train, test in cells(given):
        for name, job in jobs(given, cell, train, test):
            if key(name) in made:
                continue
            try:
                found = job()
            except Exception as error:  # noqa: BLE001 - whatever a method raises is its result
                found = {"error": f"{type(error).__name__}: {error}"}
            append(given.out, {**name, **found})


def append(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in record.items()}
    print(*(v if isinstance(v, str) else f"{k}={v}" for k, v in shown.items()), flush=True)


def print_tables(given: argparse.Namespace) -> None:
    asked = [
        r
        for r in read_records(given.out)
        if r["table"] in given.tables
        and r["mechanism"] in given.mechanisms
        and r["rows"] == given.rows
        and r.get("method") in (None, *given.methods)
    ]
    for text in summary(asked, given.methods, given.markdown):
        print(text)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=1, help="ways of bending: 0, 1, …")
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(N_FOLDS)))
    parser.add_argument("--rows", type=int, default=16_000, help="of a table, at most")
    parser.add_argument("--again", nargs="+", default=[], help="methods to measure anew")
    parser.add_argument("--hide", type=float, help="share of the test cells to hide")
    parser.add_argument("--seeds-apart", action="store_true", help="decisions that turn by chance")
    parser.add_argument("--sets", action="store_true", help="confidence sets of P(Df); slow")
    parser.add_argument("--print", action="store_true", help="the tables only; measure nothing")
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    default = Path(tempfile.gettempdir()) / "fairpc-label-bias.jsonl"
    parser.add_argument("--out", type=Path, default=default, help="file of results, added to")
    return parser.parse_args()


def compile_kernels() -> None:
    """Fit once on few rows, so that no method's seconds hold the compiler's."""
    rows = inject("german", "mild")
    for name in ("fairpc", "strudel"):
        METHODS[name](rows, 0).decide(rows)


def main() -> None:
    given = options()
    warnings.simplefilter("ignore")
    if find_folder() is None:
        print("The bundled tables only: FAIRPC_BIAS_DATA names no folder with the others.")
        given.tables = [name for name in given.tables if name not in READ]
    if not given.print:
        compile_kernels()
        run(given)
    print_tables(given)


if __name__ == "__main__":
    main()
