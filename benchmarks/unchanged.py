"""Everything that users get from models of real tables, recorded and compared.

A change that is meant to change no number is checked against the code before it:

    PYTHONPATH=old/src python benchmarks/unchanged.py record before
    PYTHONPATH=new/src python benchmarks/unchanged.py record after
    python benchmarks/unchanged.py compare before after --expected differences.txt
    PYTHONPATH=new/src python benchmarks/unchanged.py load before

``record`` keeps, of each case of ``everything.py``, what the fitted model and its saved file
answer; cases that are in the folder are not run again. ``load`` asks the files that another version
saved. ``compare`` and ``load`` print a line per case, and end with code 1 where a number differs by
more than 1e-12 (above 1: relatively), or where anything else differs at all.

A line of the file of expected differences is a pattern of paths, ``*-forest-*/audit/verdict/*``, or
``old => new``, which renames what a regular expression matches in the paths of the first folder.
What follows a # is the reason.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from everything import GIVEN, OTHERS, PLAN, WAYS, Asked, answers, audited, models, said, tables

CLOSE = 1e-12
SHOWN = 4
AUDITED = ("memory", "files", "crossed", "classes")
PASSING = re.compile(r"/((fit_)?seconds(_sd)?|date|(audited|training|model)_hash)(/|$)")
"""What two runs of one code may differ in, and names that go by the bytes of a file."""

Leaves = dict[str, Any]
"""Paths, and the array, number or text at the end of each."""


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Records, mappings and sequences taken apart."""
    if isinstance(value, pl.DataFrame):
        value = value.to_dict()
    if isinstance(value, pl.Series):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        yield path, value if value.dtype.kind in "biuf" else value.astype(str)
    elif isinstance(value, Mapping | list | tuple) and not value:
        yield path, "nothing"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        if all(isinstance(item, float) for item in value):
            yield path, np.array(value)
        else:
            for k, item in enumerate(value):
                yield from leaves(item, f"{path}/{k}")
    elif hasattr(value, "to_dict"):
        yield from leaves(value.to_dict(), path)
    elif is_dataclass(value):
        yield from leaves({f.name: getattr(value, f.name) for f in fields(value)}, path)
    else:
        yield path, value.item() if isinstance(value, np.generic) else value


def keep(path: Path, found: Leaves) -> None:
    arrays = [name for name, value in found.items() if isinstance(value, np.ndarray)]
    facts = {name: value for name, value in found.items() if name not in arrays}
    text = json.dumps({"arrays": arrays, "facts": facts}, default=str)
    # The file appears whole, so that a recording that was ended can be continued.
    new = path.with_suffix(".new.npz")
    np.savez_compressed(new, *(found[name] for name in arrays), facts=np.array(text))
    new.replace(path)


def kept(path: Path) -> Leaves:
    with np.load(path) as file:
        facts = json.loads(str(file["facts"]))
        arrays = {name: file[f"arr_{k}"] for k, name in enumerate(facts["arrays"])}
    found: Leaves = facts["facts"] | arrays
    return found


@dataclass(frozen=True)
class Case:
    """A model, fitted in one way to one table."""

    table: str
    model: str
    way: str

    @property
    def name(self) -> str:
        return f"{self.table}-{self.model}-{self.way}"

    def rows(self) -> pl.DataFrame:
        return WAYS[self.way].rows(tables()[self.table])

    def record(self, file: Path) -> dict[str, Any]:
        """What the model answers once it is fitted, and its file, which stays."""
        model, rows = models(GIVEN[self.table])[self.model], self.rows()
        WAYS[self.way].fit(model, rows)
        model.save(file)
        asked = Asked.of(model, file, rows, WAYS[self.way])
        audit = {"audit": said(partial(audited, asked))} if self.way in AUDITED else {}
        return {"fitted": answers(asked), "loaded": self.loaded(file), **audit}

    def loaded(self, file: Path) -> dict[str, Any]:
        """What the model of a file answers."""
        from fairpc import load

        return answers(Asked.of(load(file), file, self.rows(), WAYS[self.way]))


CASES = [
    Case(table, model, way)
    for table, ways in PLAN.items()
    for way, names in ways.items()
    for model in names
]


def found_by(run: Callable[[], Any], name: str) -> Leaves:
    """What a call gives, with the sentences of its warnings; its time goes to stderr."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = said(run)
    warned = {str(w.message) for w in caught if w.category.__module__.startswith("fairpc")}
    print(f"{name:32} {time.process_time() - start:6.1f} s", file=sys.stderr, flush=True)
    found = found if isinstance(found, dict) else {"failed": found}
    return dict(leaves(found | {"warned": sorted(warned)}, ""))


def record(folder: Path, only: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Callable[[], Any]] = dict(OTHERS)
    runs |= {case.name: partial(case.record, folder / f"{case.name}.fairpc") for case in CASES}
    for name, run in runs.items():
        if only in name and not (folder / f"{name}.npz").exists():
            keep(folder / f"{name}.npz", found_by(run, name))


@dataclass(frozen=True)
class Expected:
    """Paths that may differ, and paths that have another name than before."""

    patterns: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, path: Path | None) -> Expected:
        lines = [] if path is None else path.read_text(encoding="utf-8").splitlines()
        rules = [rule for rule in (line.partition("#")[0].strip() for line in lines) if rule]
        pairs = [rule.partition("=>") for rule in rules if "=>" in rule]
        patterns = tuple(rule for rule in rules if "=>" not in rule)
        return cls(patterns, tuple((old.strip(), new.strip()) for old, _, new in pairs))

    def has(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.patterns)

    def name(self, path: str) -> str:
        for old, new in self.renamed:
            path = re.sub(old, new, path)
        return path


def difference(one: Any, two: Any) -> float:
    """How far two leaves are apart: relatively above 1, infinitely if they are not numbers."""
    a, b = np.asarray(one), np.asarray(two)
    if a.shape != b.shape or a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
        return 0.0 if np.array_equal(a, b) else math.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    a, b = a[apart], b[apart]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return math.inf
    scale = np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
    return float((np.abs(a - b) / scale).max(initial=0.0))


@dataclass(frozen=True)
class Compared:
    """Two recordings of a case: how many leaves they have, and which differ by how much."""

    name: str
    n: int
    expected: int
    apart: dict[str, float]
    texts: dict[str, str]

    @classmethod
    def of(cls, name: str, one: Leaves, two: Leaves, expected: Expected) -> Compared:
        before = {expected.name(p): v for p, v in one.items() if not PASSING.search(p)}
        after = {p: v for p, v in two.items() if not PASSING.search(p)}
        both, paths = before.keys() & after.keys(), before.keys() | after.keys()
        apart = {p: difference(before[p], after[p]) if p in both else math.inf for p in paths}
        other = {p: d for p, d in sorted(apart.items()) if d > 0}
        known = {p for p, d in other.items() if d > CLOSE and expected.has(name + p)}
        other = {p: d for p, d in other.items() if p not in known}
        texts = {
            p: f"{brief(before.get(p))} -> {brief(after.get(p))}"
            for p, d in other.items()
            if d == math.inf
        }
        return cls(name, len(paths), len(known), other, texts)

    @property
    def close(self) -> bool:
        return all(d <= CLOSE for d in self.apart.values())

    def __str__(self) -> str:
        """One line: what is equal, the largest difference of each quantity, and other facts."""
        largest: dict[str, float] = defaultdict(float)
        for path, d in self.apart.items():
            if path not in self.texts:
                quantity = re.sub(r"/\d+(?=/|$)", "", path)
                largest[quantity] = max(largest[quantity], d)
        words = [f"{q} by {d:.1e}" for q, d in sorted(largest.items(), key=lambda i: -i[1])]
        words += [f"{path}: {text}" for path, text in self.texts.items()]
        more = f"; … {len(words) - SHOWN} more" if len(words) > SHOWN else ""
        as_said = f"{self.expected} differ as expected; " if self.expected else ""
        return f"{self.name:32} {as_said}" + (
            "; ".join(words[:SHOWN]) + more
            if words
            else f"{self.n - self.expected} equal to the bit"
        )


def brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:59] + "…"


def kept_in(folder: Path, name: str) -> Leaves:
    file = folder / f"{name}.npz"
    return kept(file) if file.exists() else {"": f"not in {folder}"}


def compare(one: Path, two: Path, only: str, expected: Expected) -> Iterator[Compared]:
    names = {path.stem for folder in (one, two) for path in folder.glob("*.npz")}
    for name in sorted(names):
        if only in name:
            yield Compared.of(name, kept_in(one, name), kept_in(two, name), expected)


def load_files(folder: Path, only: str, expected: Expected) -> Iterator[Compared]:
    """What the saved models of a recording answer now, against what they answered then."""
    for case in CASES:
        file = folder / f"{case.name}.fairpc"
        if only in case.name and file.exists():
            then = kept(file.with_suffix(".npz"))
            before = {p: v for p, v in then.items() if p.startswith("/loaded")}
            now = found_by(partial(case.loaded, file), case.name)
            after = {f"/loaded{p}": v for p, v in now.items() if not p.startswith("/warned")}
            yield Compared.of(case.name, before, after, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare", "load"))
    parser.add_argument("folders", nargs="+", type=Path, help="two to compare, else one")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--expected", type=Path, help="a file of differences that are known")
    given = parser.parse_args()
    if len(given.folders) != 1 + (given.what == "compare"):
        parser.error("give two folders to compare, and one to record or load")
    first, last = given.folders[0], given.folders[-1]
    if given.what == "record":
        record(first, given.only)
        return
    expected, every = Expected.of(given.expected), True
    both = compare(first, last, given.only, expected)
    for compared in both if given.what == "compare" else load_files(first, given.only, expected):
        print(compared, flush=True)
        every &= compared.close
    sys.exit(not every)


if __name__ == "__main__":
    main()
