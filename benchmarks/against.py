"""Two versions of the code, side by side in one run: folds of the paper's protocol, a fit of long
files, tables in memory, default fits, import, cold compilation. Prints after ÷ before.

    python benchmarks/against.py OLD NEW            two checkouts
    python benchmarks/against.py OLD NEW --rows 5e7

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

from scale import make_files

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
DEFAULT = """
import time, warnings
warnings.simplefilter("ignore")
import fairpc
import numpy as np
{table}
for _ in range(2):  # the first one compiles
    t = time.process_time()
    fairpc.{model}(random_state=0).fit(X, y, sensitive_features=s)
    seconds = time.process_time() - t
print(seconds)
"""
TABLES = {
    "8,000 rows": """
from fairpc.datasets import load_adult
d = load_adult()
X, y, s = d.X[:8000], d.y[:8000], d.sensitive[:8000]
""",
    "synthetic-30": """
from adult_like import needed
fold = needed("30").folds[0]
rows = needed("30").rows.take(np.concatenate([fold.train, fold.valid]))
X, y, s = rows.x, rows.d, rows.s
""",
    "400 columns": """
from speed_ups import noisy
X, y, s = noisy(1000, 400)
""",
    "400 numbers": """
rng = np.random.default_rng(0)
X, s = rng.normal(size=(1000, 400)), rng.integers(0, 2, 1000)
y = X[:, :5].sum(axis=1) + 0.5 * s + rng.normal(size=1000) > 0
""",
}
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


def defaults(checkout: Path) -> dict[str, float]:
    fits = [*(("FairPC", name) for name in TABLES), ("LatentDecision", "8,000 rows")]
    code = {(m, name): DEFAULT.format(model=m, table=TABLES[name]) for m, name in fits}
    return {f"{m}(), {name}, CPU": float(ran(checkout, "-c", code[m, name])) for m, name in fits}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs=2, type=Path)
    parser.add_argument("--rows", type=float, default=1e7)
    given = parser.parse_args()
    pair = [path.resolve() for path in given.checkouts]
    print(f"{'':34s} {'before':>12s} {'after':>12s}   after ÷ before")
    least(lambda c: {"import": float(ran(c, "-c", IMPORT))}, pair, 5)
    least(lambda c: {"Adult in memory, CPU": float(ran(c, "-c", IN_MEMORY))}, pair, 3)
    least(defaults, pair, 3)
    least(folds, pair, 3)
    least(cold, pair, 1)
    with tempfile.TemporaryDirectory(prefix="fairpc-against-") as folder:
        make_files(Path(folder), int(given.rows))
        time.sleep(1)
        print(f"{given.rows:.0e} rows of Parquet, two passes: seconds of each, CPU seconds, bytes")
        least(lambda c: passes(c, folder), pair, 2)


if __name__ == "__main__":
    main()
