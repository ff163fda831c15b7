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

NAMES = ("checksum", "data", "audited_hash", "training_hash", "model_hash")
TIMES = ("seconds", "date", "fit_seconds", "fit_seconds_sd")
"""What two runs of one code may differ in, and the names that go by content."""


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


def differing(one: Any, two: Any, path: str = "") -> Iterator[str]:
    """Where two JSON values differ, but for times and names."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted({*one, *two} - {*NAMES, *TIMES}):
            yield from differing(one.get(key), two.get(key), f"{path}/{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            yield from differing(a, b, f"{path}[{k}]")
    elif one != two:
        yield path


def compare(one: Path, two: Path) -> None:
    """A line per case: by how much scores differ, and where model file and facts do."""
    for path in sorted(one.glob("*.npz")):
        other = two / path.name
        if not other.exists():
            print(f"{path.stem:36} not in {two}")
            continue
        a, b = np.load(path), np.load(other)
        words = [f"scores differ by {np.abs(a['scores'] - b['scores']).max():.1e}"]
        for ending in ("fairpc", "json"):
            files = [folder / f"{path.stem}.{ending}" for folder in (one, two)]
            if all(file.exists() for file in files):
                found = list(differing(*(json.loads(file.read_text()) for file in files)))
                what = "model" if ending == "fairpc" else "facts"
                words.append(f"{what} {'differs in ' + ', '.join(found[:3]) if found else 'equal'}")
        same = a["fingerprint"] == b["fingerprint"]
        words.append("one fingerprint" if same else "another fingerprint")
        print(f"{path.stem:36} {'; '.join(words)}")


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
