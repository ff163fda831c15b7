"""What a model discloses, and what hiding small cells costs.

    python benchmarks/membership.py [attack] [price]

``attack``: half of the rows train a model, the other half do not. Whoever holds the model and a
complete row guesses that the row was among the first where the model finds its label likely, or
the row itself where the model has a density. The threshold is chosen on half of both; of the rest
the table shows the advantage, the share of members found minus the share of others taken for
members, in points: 0 is chance, 100 certainty. ``price``: accuracy, AUC and log-likelihood of the
recorded label, and of the row, on held-out rows with min_cell=5, minus those with min_cell=1, both
fitted to the same rows. A row is meant as it is encoded: where levels are merged, it is likelier.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clock import run_parts
from fairpc import FairPC, LatentDecision
from fairpc.datasets import load_adult, load_compas, load_german
from fairpc.metrics import auc

ROWS = 4000
SEEDS = 4
PRICED = 6
LEAST = 1e-9


def tables() -> Iterator[tuple[str, pl.DataFrame, Any, Any]]:
    """Name, features, labels and groups."""
    for name, load in (("german", load_german), ("adult", load_adult), ("compas", load_compas)):
        data = load()
        X = pl.DataFrame(data.X) if not isinstance(data.X, pl.DataFrame) else data.X
        yield name, X, np.asarray(data.y), np.asarray(data.sensitive)
    folder = os.environ.get("FAIRPC_BIAS_DATA")
    if folder is None:
        print("dutch: FAIRPC_BIAS_DATA does not name its folder")
        return
    dutch = pl.read_csv(Path(folder) / "dutch.csv")
    yield "dutch", dutch.drop("occupation", "sex"), dutch["occupation"].to_numpy(), dutch["sex"]


def halves(n: int, seed: int) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(n)[:ROWS]
    return order[: len(order) // 2], order[len(order) // 2 :]


def boosting(X: pl.DataFrame, y: Any, s: Any) -> Any:
    """Gradient boosting of the label as scikit-learn has it, on codes."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0).fit(numbers(X), y)


def numbers(X: pl.DataFrame) -> Any:
    texts = [c for c, kind in X.schema.items() if not kind.is_numeric()]
    return X.with_columns(pl.col(texts).cast(pl.String).hash(0) % 1009).to_numpy().astype(float)


def label_scores(model: Any, X: pl.DataFrame, y: Any, s: Any) -> Any:
    """log P(D = its label | row)."""
    if hasattr(model, "predict_observed_proba"):
        p = model.predict_observed_proba(X, sensitive_features=s)
        classes = list(model.classes_)
    else:
        p, classes = model.predict_proba(numbers(X)), list(model.classes_)
    place = np.array([classes.index(v) for v in np.asarray(y).tolist()])
    return np.log(np.maximum(p[np.arange(len(p)), place], LEAST))


def densities(model: Any, X: pl.DataFrame, y: Any, s: Any) -> Any:
    """log P(row, label)."""
    return model.score_samples(X, y, sensitive_features=s)


def advantage(members: Any, others: Any) -> float:
    """Points of the best threshold of one half of the scores on the other half."""
    half = len(members) // 2, len(others) // 2
    cuts = np.quantile(np.concatenate([members, others]), np.linspace(0, 1, 201))

    def gain(inside: Any, outside: Any) -> Any:
        return np.array([(inside >= c).mean() - (outside >= c).mean() for c in cuts])

    best = int(np.argmax(gain(members[: half[0]], others[: half[1]])))
    return 100 * float(gain(members[half[0] :], others[half[1] :])[best])


def attack() -> None:
    fits: dict[str, Any] = {
        "boosting": boosting,
        "LatentDecision": lambda X, y, s: LatentDecision(random_state=0).fit(
            X, y, sensitive_features=s
        ),
        "FairPC": lambda X, y, s: FairPC(random_state=0).fit(X, y, sensitive_features=s),
    }
    print("Advantage of a membership attack, points; mean of", SEEDS, "draws (sd)")
    print(f"{'table':8} {'model':16} {'by the label':>14} {'by the row':>14}")
    for name, X, y, s in tables():
        if name not in ("german", "adult"):
            continue
        s = np.asarray(s)
        for kind, fit in fits.items():
            found: dict[str, list[float]] = {"label": [], "row": []}
            for seed in range(SEEDS):
                inside, outside = halves(len(y), seed)
                model = fit(X[inside], y[inside], s[inside])
                for what, score in (("label", label_scores), ("row", densities)):
                    if what == "row" and kind != "FairPC":
                        continue
                    own, rest = (score(model, X[at], y[at], s[at]) for at in (inside, outside))
                    found[what].append(advantage(own, rest))
            shown = [_mean(found[what]) for what in ("label", "row")]
            print(f"{name:8} {kind:16} {shown[0]:>14} {shown[1]:>14}", flush=True)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.1f} ({np.std(values, ddof=1):.1f})" if values else "–"


def price() -> None:
    print("Held-out rows, min_cell=5 minus min_cell=1; mean of", PRICED, "draws (standard error)")
    head = "accuracy, points", "AUC, points", "nats a label", "nats a row"
    print(f"{'table':8} {'model':16}" + "".join(f"{name:>18}" for name in head))
    for name, X, y, s in tables():
        groups = np.asarray(s)
        for kind in (FairPC, LatentDecision):
            found = []
            for seed in range(PRICED):
                inside, outside = halves(len(y), seed)
                each = []
                for least in (5, 1):
                    model = kind(random_state=0, min_cell=least)
                    model.fit(X[inside], y[inside], sensitive_features=groups[inside])
                    each.append(measured(model, X[outside], y[outside], groups[outside]))
                found.append(np.subtract(each[0], each[1]))
            error = np.std(found, axis=0, ddof=1) / np.sqrt(PRICED)
            cells = zip(np.mean(found, axis=0), error, strict=True)
            row = "".join(f"{f'{mean:+.3f} ({se:.3f})':>18}" for mean, se in cells)
            print(f"{name:8} {kind.__name__:16}{row}", flush=True)


def measured(model: Any, X: pl.DataFrame, y: Any, s: Any) -> list[float]:
    """Accuracy and AUC in points, nats of the label given the row, and of the row if there are."""
    p = model.predict_observed_proba(X, sensitive_features=s)[:, 1]
    truth = (y == model.classes_[1]).astype(int)
    values = [100 * float(((p > 0.5) == truth).mean()), 100 * auc(truth, p)]
    values.append(float(np.mean(label_scores(model, X, y, s))))
    if isinstance(model, FairPC):
        values.append(float(np.mean(densities(model, X, y, s))))
    return values


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_parts({"attack": attack, "price": price})
