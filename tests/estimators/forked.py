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
from fairpc import FairPC, LatentDecision, load
from fairpc.errors import ForkError

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


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
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
                same = np.array_equal(model.predict_proba(rows), before)
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
