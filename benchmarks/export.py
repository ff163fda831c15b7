"""Exported models: rows per second and the largest difference from Python, of ONNX, by holes.

python benchmarks/export.py            German and Adult, as `auto` fits them, and Chow–Liu trees
python benchmarks/export.py german     one table

Times are CPU seconds of one thread, so that other work on the machine does not count. The file
scores the same rows, with the same holes, the group among them.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Before anything reads it.
os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", POLARS_MAX_THREADS="1")

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
ROWS = 10_000
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


FILES = {"model": by_model, "onnx": by_onnx}


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
            written = Path(folder) / "m.onnx"
            size = f"{written.stat().st_size / 1000:,.0f}" if written.exists() else ""
            rates, apart = [], 0.0
            for share in HOLES:
                rows = with_holes(frame, share, ROWS)
                found, spent = timed(partial(run, rows), 3)
                rates.append(rows.height / spent)
                apart = max(apart, float(np.abs(found - model.predict_proba(rows)).max()))
        shown = "".join(f"{rate:>12,.0f}" for rate in rates)
        print(f"    {file:8}{size:>8}{shown}   {apart:.0e}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(f"{platform.machine()}, one thread, CPU seconds; Python {platform.python_version()},")
    print(f"onnxruntime {onnxruntime.__version__}")
    for chosen in sys.argv[1:] or TABLES:
        for learned in STRUCTURES:
            measured(chosen, learned)
