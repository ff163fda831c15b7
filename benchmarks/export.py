"""Exported models: rows per second and the largest difference from Python, by file and by holes.

python benchmarks/export.py            German and Adult, as `auto` fits them, and Chow–Liu trees
python benchmarks/export.py german     one table

Times are CPU seconds of one thread, so that other work on the machine does not count. Every file
scores the same rows, with the same holes, the group among them.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

# Before anything reads it.
os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", POLARS_MAX_THREADS="1")

import duckdb
import numpy as np
import onnxruntime
import polars as pl

import fairpc
from clock import timed
from fairpc import FairPC
from fairpc.datasets import load_adult, load_german
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import CircuitClassifier

TABLES = {"german": load_german, "adult": load_adult}
STRUCTURES = ("auto", "chow-liu")
HOLES = (0.0, 0.1, 0.3)
ROWS = {"model": 10_000, "onnx": 10_000, "py": 500, "sqlite": 500, "duckdb": 2_000}
BATCH = 4_000

Run = Callable[[pl.DataFrame], Any]


def with_holes(frame: pl.DataFrame, share: float, n_rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    rows = pl.concat([frame] * -(-n_rows // frame.height)).head(n_rows)
    return rows.with_columns(
        pl.when(pl.Series(rng.random(n_rows) >= share)).then(pl.col(name)).alias(name)
        for name in rows.columns
    )


def by_model(model: CircuitClassifier, folder: Path) -> Run:
    return model.predict_proba


def by_onnx(model: CircuitClassifier, folder: Path) -> Run:
    fairpc.export(model, folder / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "m.onnx", options)
    inputs = ScorerProgram.of(model).inputs

    def run(rows: pl.DataFrame) -> Any:
        parts = []
        for first in range(0, rows.height, BATCH):
            some = rows[first : first + BATCH]
            given = {}
            for column in inputs:
                if column.kind == "text":
                    known: Any = some[column.name].fill_null("").to_numpy().astype(object)
                else:
                    known = some[column.name].cast(pl.Float64).fill_null(np.nan).to_numpy()
                given[column.name] = known.reshape(-1, 1)
            parts.append(session.run(None, given)[0])
        return np.concatenate(parts)

    return run


def by_py(model: CircuitClassifier, folder: Path) -> Run:
    fairpc.export(model, folder / "m.py")
    spec = importlib.util.spec_from_file_location("exported", folder / "m.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda rows: np.array(module.predict_proba_rows(rows.to_dicts()))


def by_sqlite(model: CircuitClassifier, folder: Path) -> Run:
    fairpc.export(model, folder / "m.sql", table="t")
    query, n = (folder / "m.sql").read_text("utf-8"), len(model.classes_)

    def run(rows: pl.DataFrame) -> Any:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE t ({', '.join(map(quoted, rows.columns))})")
            places = ", ".join("?" * rows.width)
            database.executemany(f"INSERT INTO t VALUES ({places})", rows.rows())
            return np.array([row[-n:] for row in database.execute(query)])

    return run


def by_duckdb(model: CircuitClassifier, folder: Path) -> Run:
    fairpc.export(model, folder / "m.sql", table="t")
    query, n = (folder / "m.sql").read_text("utf-8"), len(model.classes_)

    def run(rows: pl.DataFrame) -> Any:
        with duckdb.connect(config={"threads": 1}) as database:
            database.register("given", rows.to_arrow())
            database.execute("CREATE TABLE t AS SELECT * FROM given")
            return np.array([row[-n:] for row in database.execute(query).fetchall()])

    return run


def quoted(name: str) -> str:
    return f'"{name}"'


FILES = {
    "model": by_model,
    "onnx": by_onnx,
    "py": by_py,
    "sqlite": by_sqlite,
    "duckdb": by_duckdb,
}
SUFFIX = {"onnx": "m.onnx", "py": "m.py", "sqlite": "m.sql", "duckdb": "m.sql"}


def measured(name: str, structure: Any) -> None:
    data = TABLES[name]()
    frame = data.X.with_columns(data.sensitive.alias("sex"))
    model = FairPC(structure=structure, sensitive="sex", random_state=0)
    model.fit(frame, data.y)
    kind = type(model.distribution_).__name__.removesuffix("Distribution")
    print(f"{name}, {structure} ({'forest' if kind == 'Forest' else 'circuit'})")
    shares = "".join(f"{f'{share:.0%} holes':>12}" for share in HOLES)
    print(f"    {'file':8}{'kB':>8}{shares}   largest difference")
    for file, make in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            run = make(model, Path(folder))
            suffix = SUFFIX.get(file)
            size = f"{(Path(folder) / suffix).stat().st_size / 1000:,.0f}" if suffix else ""
            rates, apart = [], 0.0
            for share in HOLES:
                rows = with_holes(frame, share, ROWS[file])
                found, spent = timed(partial(run, rows), 3 if file in ("model", "onnx") else 1)
                rates.append(rows.height / spent)
                apart = max(apart, float(np.abs(found - model.predict_proba(rows)).max()))
        shown = "".join(f"{rate:>12,.0f}" for rate in rates)
        print(f"    {file:8}{size:>8}{shown}   {apart:.0e}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in (onnxruntime, duckdb))
    print(f"{platform.machine()}, one thread, CPU seconds; Python {platform.python_version()},")
    print(f"{versions}, SQLite {sqlite3.sqlite_version}")
    for chosen in sys.argv[1:] or TABLES:
        for learned in STRUCTURES:
            measured(chosen, learned)
