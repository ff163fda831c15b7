"""Saved models, predictions and audits of real tables, recorded and compared.

A change that is meant to change no number is checked against the code before it:

    PYTHONPATH=old/src python benchmarks/unchanged.py record before
    PYTHONPATH=new/src python benchmarks/unchanged.py record after
    python benchmarks/unchanged.py compare before after

Each table is fitted with the paper's structure and with ``auto``: in memory, from two Parquet
files, on Dask with three partitions, with holes, with whole and with fractional weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ROWS = 6000
"""Rows of each table: enough for every branch of the recipe."""

TIMES = ("seconds", "started", "finished", "created", "date", "time")


def tables() -> Iterator[tuple[str, pl.DataFrame, str, str]]:
    """Name, rows, label and sensitive column."""
    from fairpc.datasets import load_adult, load_compas, load_german

    for name, load in (("adult", load_adult), ("german", load_german), ("compas", load_compas)):
        data: Any = load()
        columns = {str(n): np.asarray(data.X[n]) for n in data.X.columns}
        frame = pl.DataFrame({n: v.tolist() for n, v in columns.items()}, strict=False)
        groups = pl.Series("the_group", np.asarray(data.sensitive).astype(str).ravel().tolist())
        label = pl.Series("the_label", np.asarray(data.y).astype(str).tolist())
        yield name, frame.with_columns(groups, label)[:ROWS], "the_label", "the_group"


def with_holes(frame: pl.DataFrame, keep: tuple[str, ...]) -> pl.DataFrame:
    """A fifth of the cells of the features removed."""
    rng = np.random.default_rng(7)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(len(frame)) > 0.2)).then(pl.col(n)).alias(n)
        for n in frame.columns
        if n not in keep
    )


def in_memory(model: Any, frame: pl.DataFrame, label: str, weights: Any = None) -> Any:
    return model.fit(frame.drop(label), frame[label], sample_weight=weights)


def from_files(model: Any, frame: pl.DataFrame, label: str, weights: Any = None) -> Any:
    if weights is not None:
        frame = frame.with_columns(pl.Series("the_weight", weights))
    with tempfile.TemporaryDirectory() as folder:
        half = len(frame) // 2
        frame[:half].write_parquet(Path(folder) / "a.parquet")
        frame[half:].write_parquet(Path(folder) / "b.parquet")
        weight = None if weights is None else "the_weight"
        return model.fit(folder, label, sample_weight=weight)


def on_dask(model: Any, frame: pl.DataFrame, label: str, weights: Any = None) -> Any:
    import dask.dataframe as dd

    return model.fit(dd.from_pandas(frame.to_pandas(), npartitions=3), label)


def cases(
    frame: pl.DataFrame, label: str, group: str
) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    rng = np.random.default_rng(5)
    whole = rng.integers(0, 4, len(frame)).astype(float)
    broken = rng.uniform(0.2, 3.0, len(frame))
    holes = with_holes(frame, (label, group))
    yield "memory", lambda m: in_memory(m, frame, label)
    yield "files", lambda m: from_files(m, frame, label)
    yield "dask", lambda m: on_dask(m, frame, label)
    yield "holes", lambda m: in_memory(m, holes, label)
    yield "whole-weights", lambda m: in_memory(m, frame, label, whole)
    yield "whole-weights-files", lambda m: from_files(m, frame, label, whole)
    yield "broken-weights", lambda m: in_memory(m, frame, label, broken)
    yield "broken-weights-files", lambda m: from_files(m, frame, label, broken)


def record(folder: Path, only: str) -> None:
    from fairpc import FairPC, audit

    folder.mkdir(parents=True, exist_ok=True)
    for name, frame, label, group in tables():
        for structure in ("strudel", "auto"):
            for way, fit in cases(frame, label, group):
                case = f"{name}-{structure}-{way}"
                if only not in case or (folder / f"{case}.npz").exists():
                    continue
                print(case, file=sys.stderr, flush=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = fit(FairPC(group, structure=structure, random_state=0))
                    model.save(folder / f"{case}.fairpc")
                    scores = model.predict_proba(frame.drop(label))
                    if way in ("memory", "files"):
                        found = audit(model, frame.drop(label), frame[label]).to_dict()
                        (folder / f"{case}.json").write_text(json.dumps(found, default=str))
                np.savez(
                    folder / f"{case}.npz",
                    scores=scores,
                    mechanism=model.bias_mechanism_,
                    fingerprint=np.array(model.data_fingerprint_),
                )


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def compare(one: Path, two: Path) -> None:
    """A line per case: what is equal, what is not, and by how much scores differ."""
    for path in sorted(one.glob("*.npz")):
        other = two / path.name
        if not other.exists():
            print(f"{path.stem:40} not in {two}")
            continue
        a, b = np.load(path), np.load(other)
        hashes = [
            hashlib.sha256((f / f"{path.stem}.fairpc").read_bytes()).digest() for f in (one, two)
        ]
        words = [
            "bytes equal" if hashes[0] == hashes[1] else "BYTES DIFFER",
            f"scores differ by at most {np.abs(a['scores'] - b['scores']).max():.1e}",
            f"mechanism {np.abs(a['mechanism'] - b['mechanism']).max():.1e}",
            "one fingerprint" if a["fingerprint"] == b["fingerprint"] else "TWO FINGERPRINTS",
        ]
        facts = [f / f"{path.stem}.json" for f in (one, two)]
        if all(f.exists() for f in facts):
            same = without_times(json.loads(facts[0].read_text())) == without_times(
                json.loads(facts[1].read_text())
            )
            words.append("facts equal" if same else "FACTS DIFFER")
        print(f"{path.stem:40} {', '.join(words)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    if given.what == "record":
        record(given.folders[0], given.only)
    else:
        compare(*given.folders)


if __name__ == "__main__":
    main()
