"""Two versions of the code, side by side in one run: folds of the paper's protocol, a fit of long
files, tables in memory, default fits, import, cold compilation. Prints after ÷ before.

    python benchmarks/against.py OLD NEW            two checkouts
    python benchmarks/against.py OLD NEW --rows 5e7
    python benchmarks/against.py OLD NEW defaults   a part: import memory defaults folds cold files

Versions take turns, and the least of the times is kept, since a machine is only ever slowed down.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import joblib  # type: ignore[import-untyped]

from phases import ONE_THREAD, WORK, table
from scale import make_files

HERE = Path(__file__).resolve().parent

IMPORT = "import time; t = time.perf_counter(); import fairpc; print(time.perf_counter() - t)"
IN_MEMORY = """
import time, warnings
warnings.simplefilter("ignore")
from fairpc import FairPC
from fairpc.datasets import load_adult
d = load_adult()
for _ in range(2):
    t = time.process_time()
    FairPC(structure="chow-liu", max_iter=50, random_state=0).fit(
        d.X, d.y, sensitive_features=d.sensitive
    )
    seconds = time.process_time() - t
print(seconds)
"""
COLD = """
import time; t = time.process_time()
import numpy as np
from fairpc import FairPC
rng = np.random.default_rng(0)
x = rng.integers(0, 3, (500, 4))
FairPC(0, random_state=0).fit(np.where(rng.random(x.shape) < 0.1, np.nan, x), x[:, 1] > 0)
print(time.process_time() - t)
"""


def ran(checkout: Path, *arguments: str, **more: str) -> str:
    """What a Python process of a checkout prints."""
    path = os.pathsep.join([str(checkout / "src"), str(checkout / "benchmarks")])
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path} | more,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def folds(checkout: Path) -> dict[str, float]:
    printed = ran(checkout, str(checkout / "benchmarks" / "models.py"), "folds")
    return {f"fold of {n}": float(s) for n, s in re.findall(r"(\w+) +([\d.]+) s", printed)}


def passes(checkout: Path, folder: str) -> dict[str, float]:
    scale = str(checkout / "benchmarks" / "scale.py")
    found = json.loads(ran(checkout, scale, "--measure", folder, "none", ""))
    return {name: found[name] for name in ("columns", "rows", "cpu", "peak")}


def defaults(checkout: Path, tables: Path) -> dict[str, float]:
    """Work of ``phases.py`` on tables that this checkout made: another may read them otherwise."""
    script = str(HERE / "phases.py")
    return {
        path.stem: float(ran(checkout, script, "--seconds", path.stem, str(path), **ONE_THREAD))
        for path in sorted(tables.iterdir())
    }


def cold(checkout: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        return {"cold fit, CPU": float(ran(checkout, "-c", COLD, NUMBA_CACHE_DIR=cache))}


def least(measure: Callable[[Path], dict[str, float]], pair: list[Path], turns: int) -> None:
    found: list[dict[str, float]] = [{}, {}]
    for turn in range(turns):
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            for name, value in measure(pair[k]).items():
                found[k][name] = min(value, found[k].get(name, value))
    for name, before in found[0].items():
        after = found[1][name]
        print(f"{name:34s} {before:12.4g} {after:12.4g}   {after / before:.2f}", flush=True)


def in_memory(checkout: Path) -> dict[str, float]:
    return {"Adult in memory, CPU": float(ran(checkout, "-c", IN_MEMORY))}


def default_fits(pair: list[Path]) -> None:
    with tempfile.TemporaryDirectory(prefix="fairpc-against-") as folder:
        for name in WORK:
            joblib.dump(table(name), Path(folder, name))
        least(lambda c: defaults(c, Path(folder)), pair, 2)


def long_files(pair: list[Path], n_rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="fairpc-against-") as folder:
        make_files(Path(folder), n_rows)
        time.sleep(1)
        print(f"{n_rows:.0e} rows of Parquet, two passes: seconds of each, CPU seconds, bytes")
        least(lambda c: passes(c, folder), pair, 2)


PARTS: dict[str, Callable[[list[Path], int], None]] = {
    "import": lambda pair, n: least(lambda c: {"import": float(ran(c, "-c", IMPORT))}, pair, 5),
    "memory": lambda pair, n: least(in_memory, pair, 3),
    "defaults": lambda pair, n: default_fits(pair),
    "folds": lambda pair, n: least(folds, pair, 3),
    "cold": lambda pair, n: least(cold, pair, 1),
    "files": long_files,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs=2, type=Path)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART")
    parser.add_argument("--rows", type=float, default=1e7)
    given = parser.parse_args()
    pair = [path.resolve() for path in given.checkouts]
    print(f"{'':34s} {'before':>12s} {'after':>12s}   after ÷ before")
    for name in given.parts:
        PARTS[name](pair, int(given.rows))


if __name__ == "__main__":
    main()
