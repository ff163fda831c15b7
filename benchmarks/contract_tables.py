"""Tables, models, and ways to bring one to the other: what ``contract.py`` records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

LABEL, GROUP, WEIGHT = "the_label", "the_group", "the_weight"
GIVEN = {"loans": "owns_home", "german": "housing", "adult": "marital-status", "compas": "sex"}
FAIR_RATE = {"loans": (0.3, 0.5), "german": (0.6, 0.8), "compas": (0.35, 0.55)}

PLAN = {
    "same": {
        "forest": "loans.plain.memory compas.holes.parquet german.weighted.memory german.text.lazy "
        "german.numbers.apart adult.plain.dask synthetic.plain.arrays compas.plain.memory",
        "forest+delta": "loans.plain.pandas",
        "forest+known": "german.plain.memory",
        "forest+reviewed": "loans.plain.memory",
        "strudel": "loans.plain.memory german.holes.memory synthetic.plain.arrays "
        "loans.weighted.csv compas.unlabelled.memory",
        "strudel+known": "german.plain.memory",
        "strudel+reviewed": "loans.plain.apart",
        "chow-liu": "german.plain.pandas adult.plain.lazy compas.plain.memory "
        "loans.weighted.parquet loans.plain.crossed",
        "nlatpc-strudel": "german.plain.memory adult.holes.dask",
        "latnb": "loans.plain.memory german.holes.pandas adult.weighted.parquet "
        "synthetic.plain.dask",
        "latnb+known": "compas.plain.memory",
        "twonb": "loans.plain.memory adult.holes.csv compas.unlabelled.memory",
        "latent": "loans.plain.memory compas.holes.memory german.weighted.memory "
        "adult.plain.pandas compas.plain.crossed loans.unlabelled.apart",
        "latent+delta": "loans.plain.memory",
        "latent+known": "german.plain.memory",
        "latent+reviewed": "loans.plain.memory",
        "latent-logistic": "german.plain.memory synthetic.plain.arrays",
        "latent-trees": "loans.holes.pandas",
    },
    "auto": {
        "auto": "loans.plain.memory german.holes.memory adult.plain.csv german.text.dask "
        "synthetic.plain.arrays german.weighted.parquet compas.plain.crossed "
        "loans.unlabelled.pandas",
        "auto+delta": "loans.plain.memory",
        "auto+known": "german.plain.lazy",
        "auto+reviewed": "loans.plain.memory",
        "nlatpc": "loans.plain.memory adult.weighted.memory",
    },
    "strata": {
        "forest+strata": "adult.plain.memory loans.weighted.parquet",
        "latent+strata": "compas.plain.memory german.holes.memory",
        "auto+strata": "compas.plain.memory",
    },
    "classes": {
        "strudel": "german.third.memory",
        "chow-liu": "compas.third.memory",
        "latnb": "loans.third.memory",
        "auto": "german.third.memory",
    },
}
"""By kind and model, with one setting after a +: table, change of it, and way to the model."""


@cache
def table(name: str) -> pl.DataFrame:
    from fairpc import datasets

    load = {"synthetic": partial(datasets.make_synthetic, 6, 2000, 0)}
    data: Any = load[name]() if name in load else getattr(datasets, f"load_{name}")()
    group = pl.Series(GROUP, np.asarray(data.sensitive).astype(str).tolist())
    label = pl.Series(LABEL, np.asarray(data.y).astype(str).tolist())
    frame: pl.DataFrame = data.X.with_columns(group, label)[:2500]
    return frame.filter(pl.len().over(GROUP) > 100)


def features(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop(LABEL, WEIGHT, GROUP, strict=False)


def holes(frame: pl.DataFrame) -> pl.DataFrame:
    """A fifth of the cells of the features removed."""
    rng = np.random.default_rng(7)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(len(frame)) > 0.2)).then(pl.col(name)).alias(name)
        for name in features(frame).columns
    )


def relabelled(frame: pl.DataFrame, label: str | None) -> pl.DataFrame:
    """A fifth of the labels replaced."""
    some = pl.Series(np.random.default_rng(3).random(len(frame)) < 0.2)
    other = pl.when(some).then(pl.lit(label, pl.String)).otherwise(pl.col(LABEL))
    return frame.with_columns(other.alias(LABEL))


def weighted(frame: pl.DataFrame) -> pl.DataFrame:
    drawn = np.random.default_rng(5).uniform(0.2, 3.0, len(frame)).round(2)
    return frame.with_columns(pl.Series(WEIGHT, drawn))


CHANGES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "plain": lambda frame: frame,
    "holes": holes,
    "weighted": weighted,
    "text": lambda frame: frame.select(pl.col(pl.String)),
    "numbers": lambda frame: frame.select(pl.selectors.numeric(), GROUP, LABEL),
    "unlabelled": partial(relabelled, label=None),
    "third": partial(relabelled, label="third"),
}


def to_file(frame: pl.DataFrame, folder: Path, ending: str) -> str:
    path = folder / f"table.{ending}"
    getattr(frame, f"write_{ending}")(path)
    return str(path)


def to_dask(frame: pl.DataFrame, _: Path) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(frame.to_pandas(), npartitions=3)


SOURCES: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "csv": partial(to_file, ending="csv"),
    "parquet": partial(to_file, ending="parquet"),
    "lazy": lambda frame, _: frame.lazy(),
    "dask": to_dask,
}


def in_memory(frame: pl.DataFrame, way: str) -> tuple[Any, dict[str, Any]]:
    """Features as a user holds them, and the groups where they are given apart."""
    X = frame.drop(LABEL, WEIGHT, strict=False)
    if way in ("apart", "arrays"):
        alone = X.drop(GROUP)
        groups = {"sensitive_features": X[GROUP].to_numpy()}
        return (alone if way == "apart" else alone.to_numpy()), groups
    return (X.to_pandas() if way == "pandas" else X), {}


def within(call: Callable[..., Any], given: Any) -> dict[str, Any]:
    """Strata that have a mechanism each, also where that is a choice."""
    return {"given": given} | (
        {"mechanism": "within"} if "mechanism" in signature(call).parameters else {}
    )


def new_model(name: str, table: str, sensitive: Any) -> Any:
    """A model that is not fitted yet, by its name and, after a +, one setting."""
    import fairpc

    circuits: Any = fairpc.FairPC
    base, _, setting = name.partition("+")
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    linear = make_pipeline(words, LogisticRegression(max_iter=500))
    trees = make_pipeline(words, RandomForestClassifier(50, min_samples_leaf=10, random_state=0))
    named: dict[str, Callable[..., Any]] = {
        "nlatpc": fairpc.NLatPC,
        "nlatpc-strudel": partial(fairpc.NLatPC, structure="strudel"),
        "latnb": fairpc.LatNB,
        "twonb": fairpc.TwoNB,
        "latent": fairpc.LatentDecision,
        "latent-logistic": partial(fairpc.LatentDecision, linear),
        "latent-trees": partial(fairpc.LatentDecision, trees),
    }
    make = named.get(base) or partial(circuits, structure=base)
    settings: dict[str, Any] = {
        "delta": {"delta": 0.05},
        "known": {"knowledge": fairpc.Knowledge(fair_rate=FAIR_RATE.get(table))},
        "strata": within(make, [GIVEN[table]]) if table in GIVEN else {},
    }
    return make(sensitive=sensitive, random_state=0, **settings.get(setting, {}))


def positive(frame: pl.DataFrame) -> Any:
    return np.asarray(frame[LABEL] == frame[LABEL].max(), float)


def answers(frame: pl.DataFrame) -> tuple[Any, Any, Any]:
    """A draw of 300 rows with one chance for all, and the labels of them, some corrected."""
    rng = np.random.default_rng(11)
    rows = np.sort(rng.choice(len(frame), 300, replace=False))
    said = np.where(rng.random(300) < 0.08, 1 - positive(frame)[rows], positive(frame)[rows])
    return rows, np.full(300, 300 / len(frame)), said
