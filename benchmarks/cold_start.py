"""What the first run after an installation waits for: kernels that are compiled, and imports.

    python benchmarks/cold_start.py                  this checkout: `fairpc fit`, `audit` and `demo`
    python benchmarks/cold_start.py --against OLD    and before ÷ after, OLD being a checkout
    python benchmarks/cold_start.py fit              one of them alone

Each run is a process with an empty cache; a second one then finds all in it. `fit` has 3,000
rows of `fairpc data loans`; `audit` is of that model and these rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RUN = """
import atexit, json, sys, time
from numba.core import event

class Watch(event.Listener):
    def __init__(self):
        self.begun, self.seconds = [], {}

    def on_start(self, event):
        self.begun.append([time.process_time(), 0.0])

    def on_end(self, event):
        start, inner = self.begun.pop()
        all_of_it = time.process_time() - start
        d = event.data["dispatcher"]
        name = d.__module__.removeprefix("fairpc.") + "." + d.__name__
        ours = d.__module__.startswith("fairpc.")
        name = name if ours else "of Numba itself"
        self.seconds[name] = self.seconds.get(name, 0.0) + all_of_it - inner
        if self.begun:
            self.begun[-1][1] += all_of_it

watch = Watch()
event.register("numba:compile", watch)

def tell():
    found = {"kernels": watch.seconds, "cpu": time.process_time()}
    open(sys.argv[1], "w").write(json.dumps(found))

atexit.register(tell)
from fairpc.cli import main
main(sys.argv[2:])
"""
ROLES = ("--label", "approved", "--positive", "yes", "--sensitive", "sex")
N_ROWS = 3000
COMMANDS = ("fit", "audit", "demo")


def ran(checkout: Path, cache: Path, *words: str) -> dict[str, Any]:
    """Seconds of each kernel that this run compiled, of the processor, and on the wall."""
    record = cache / "record.json"
    places = {"PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": str(cache / "kernels")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", RUN, str(record), *words],
        env=os.environ | places,
        cwd=cache,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    found: dict[str, Any] = json.loads(record.read_text())
    return found | {"wall": time.perf_counter() - began}


def words_of(command: str, cache: Path) -> tuple[str, ...]:
    if command == "demo":
        return "demo", "-o", str(cache / "report.html")
    table, model = str(cache / "loans.csv"), str(cache / "model.fairpc")
    if command == "audit":
        return "audit", model, table, "-o", str(cache / "report.html")
    return "fit", table, *ROLES, "-o", model


def measured(checkout: Path, command: str) -> dict[str, dict[str, Any]]:
    """A run with an empty cache, and one after it."""
    with tempfile.TemporaryDirectory(prefix="fairpc-cold-") as folder:
        cache = Path(folder)
        if command != "demo":
            table = cache / "loans.csv"
            ran(checkout, cache, "data", "loans", "-o", str(table))
            table.write_text("".join(table.open().readlines()[: N_ROWS + 1]))
        if command == "audit":
            ran(checkout, cache, *words_of("fit", cache))
            shutil.rmtree(cache / "kernels")
        words = words_of(command, cache)
        return {name: ran(checkout, cache, *words) for name in ("cold", "warm")}


def show(command: str, found: dict[str, dict[str, Any]]) -> None:
    print(f"fairpc {command}")
    for name, run in found.items():
        compiled = sum(run["kernels"].values())
        print(
            f"    {name:5s} {len(run['kernels']):3d} kernels in {compiled:5.2f} s; "
            f"{run['cpu']:5.1f} s of the processor, {run['wall']:5.1f} s on the wall"
        )
    for name, seconds in sorted(found["cold"]["kernels"].items(), key=lambda item: -item[1]):
        print(f"        {name:44s} {seconds:5.2f}")


def waited(found: dict[str, dict[str, Any]]) -> float:
    """Seconds that the process of the user spends on compiling."""
    return float(sum(found["cold"]["kernels"].values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", help="fit, audit, demo; all by default")
    parser.add_argument("--against", type=Path, help="another checkout, the code before")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.processor() or platform.machine()}, {cores} cores, {platform.platform()}")
    for command in given.commands or COMMANDS:
        after = measured(HERE, command)
        show(command, after)
        if given.against is not None:
            before = measured(given.against.resolve(), command)
            a, b = waited(after), waited(before)
            print(f"    compiling, before ÷ after: {b:.1f} ÷ {a:.1f} s = {b / a:.1f}")
            a, b = after["cold"]["cpu"], before["cold"]["cpu"]
            print(f"    the whole run, before ÷ after: {b:.1f} ÷ {a:.1f} s = {b / a:.2f}")


if __name__ == "__main__":
    main()
