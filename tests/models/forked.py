"""A program that predicts, forks, and predicts again in the child, as servers do that prefork.

It prints a line per kind of table: what the child said.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from battery.on_models import people
from fairpc import FairPC, LatentDecision, LatNB, load
from fairpc.errors import ForkError
from fairpc.models import TableClassifier

PATIENCE = 60
"""Seconds after which a child is said to hang."""


def in_child(work: Callable[[], str]) -> str:
    """What some work says in a process that is forked now."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        try:
            said = work()
        except BaseException:  # noqa: BLE001 - the parent is told
            said = traceback.format_exc()
        os.write(writer, said.encode()[-4000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return said if status == 0 else f"ended with {status}"


def tables(folder: Path) -> dict[str, Any]:
    """The same rows in each kind of table; text is also where numbers and dates were at fit."""
    frame = people(50).drop("hired")
    text = frame.with_columns(
        frame["age"].cast(str).fill_null(" ? "), frame["since"].cast(str), frame["pay"].cast(str)
    )
    text.write_csv(folder / "t.csv")
    return {
        "polars": frame,
        "text": text,
        "pandas": frame.to_pandas(),
        "pandas text": text.to_pandas(),
        "pyarrow": frame.to_arrow(),
        "categories": frame.cast({"job": pl.Categorical}),
        "without groups": frame.drop("sex"),
    }


def columns(n: int) -> dict[str, pl.Series]:
    """A column of each kind and writing, with holes."""
    rng = np.random.default_rng(1)
    number = (rng.integers(1_000_000, 9_000_000, n) / 100).tolist()
    whole = rng.integers(0, 40, n)
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, n)
    name = pl.Series([f"level {k}" for k in whole])
    german = str.maketrans(",.", ".,")
    found = {
        "whole numbers": pl.Series(whole),
        "small whole numbers": pl.Series(whole, dtype=pl.UInt8),
        "large whole numbers": pl.Series(whole, dtype=pl.UInt64),
        "numbers": pl.Series(number),
        "single precision": pl.Series(number, dtype=pl.Float32),
        "decimals": pl.Series(number).cast(pl.Decimal(12, 2)),
        "booleans": pl.Series(whole % 2 == 0),
        "dates": pl.Series(days),
        "instants": pl.Series(days).cast(pl.Datetime("ms", "Europe/Berlin")),
        "durations": pl.Series(whole).cast(pl.Duration("us")),
        "categories": name.cast(pl.Categorical),
        "levels": name.cast(pl.Enum(name.unique().sort())),
        "few texts": pl.Series([f"text {k % 3}" for k in whole]),
        "many texts": name,
        "written booleans": pl.Series(["true" if k % 2 else "false" for k in whole]),
        "written dates": pl.Series(days).cast(pl.String),
        "written instants": pl.Series(days).dt.strftime("%Y-%m-%d 12:30:00"),
        "plain writing": pl.Series([f" {v} " for v in number]),
        "German euros": pl.Series([f"{v:,.1f} €".translate(german) for v in number]),
        "dollars": pl.Series([f"${v:,.2f}" for v in number]),
        "percent": pl.Series([f"{v / 1000:.1f} %".replace(".", ",") for v in number]),
        "French writing": pl.Series([f"{v:,.1f}".replace(",", " ") for v in number]),
        "Swiss writing": pl.Series([f"CHF {v:,.2f}".replace(",", "'") for v in number]),
    }
    holes = pl.Series(rng.random(n) < 0.1)
    return {kind: column.set(holes, None) for kind, column in found.items()}


def each_column() -> None:
    """What a child says of rows with a column of each kind."""
    table = people(300)
    y = table["hired"]
    for kind, column in columns(300).items():
        X = table.select("sex", "pay", column.alias("column"))
        models: dict[str, Any] = {
            "LatNB": LatNB("sex", max_iter=5, random_state=0),
            "LatentDecision": LatentDecision(
                TableClassifier("logistic"), sensitive=["sex"], cv=2, random_state=0
            ),
        }
        for name, model in models.items():
            model.fit(X, y)
            rows = {"polars": X[:50], "pandas": X[:50].to_pandas()}
            before = {library: model.predict_proba(some) for library, some in rows.items()}

            def again(model: Any = model, rows: Any = rows, before: Any = before) -> str:
                same = [np.array_equal(model.predict_proba(rows[k]), before[k]) for k in rows]
                return "same" if all(same) else "different"

            print(f"{name} of {kind}: {in_child(again)}")


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    each_column()
    train = people(300)
    X, y = train.drop("hired"), train["hired"]
    settings: dict[str, Any] = {"missing_values": ("?",), "random_state": 0}
    circuit = FairPC("sex", structure="chow-liu", max_iter=10, **settings).fit(X, y)
    latent = LatentDecision(sensitive=["sex"], cv=2, **settings).fit(X, y)
    forest = FairPC("sex", structure="forest", **settings).fit(X, y)
    models: dict[str, Any] = {"FairPC": circuit, "forest": forest, "LatentDecision": latent}
    for name, model in models.items():
        model.save(folder / name)
        loaded: Any = load(folder / name)
        for kind, rows in tables(folder).items():
            before = loaded.predict_proba(rows)

            def again(rows: Any = rows, before: Any = before, model: Any = loaded) -> str:
                same = np.array_equal(model.predict_proba(rows), before, equal_nan=True)
                if np.isfinite(before).all():
                    model.predict(rows)
                return "same" if same else "different"

            print(f"{name}, {kind}: {in_child(again)}")

    def refused(work: Callable[[], Any]) -> Callable[[], str]:
        def said() -> str:
            try:
                work()
            except ForkError as error:
                return f"refused: {error}"
            return "done"

        return said

    print("a file:", in_child(refused(lambda: circuit.predict_proba(folder / "t.csv"))))
    other = X.with_columns(job=X["visits"].cast(str))
    print("numbers for text:", in_child(refused(lambda: circuit.predict_proba(other))))
    print("a fit:", in_child(refused(lambda: FairPC("sex").fit(X, y))))
    numbers = np.random.default_rng(0).normal(size=(200, 4)).round()
    label = (numbers[:, 0] > 0).astype(int)
    quick = FairPC(1, structure="chow-liu", max_iter=5)
    print("a fit to numbers:", in_child(refused(lambda: quick.fit(numbers, label))))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        scores = pool.map_async(circuit.predict_proba, [X[:20], X[20:40]]).get(PATIENCE)
    same = np.array_equal(np.concatenate(scores), circuit.predict_proba(X[:40]))
    print("a pool that forks:", "same" if same else "different")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
