"""Suites in processes of their own: one that dies, or never ends, is an outcome and no end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from battery.attacks import Outcome, Suite, Verdict

PATIENCE: Final = 120.0
"""Seconds after which an attack is said never to end."""


def suites() -> dict[str, type[Suite]]:
    """By name, in the order of the table."""
    from battery.on_arrays import Arrays
    from battery.on_models import Forgeries, Models
    from battery.on_processes import Kills
    from battery.on_psdd import Psdds
    from battery.on_tables import Tables

    kinds: tuple[type[Suite], ...] = (Models, Forgeries, Psdds, Tables, Arrays, Kills)
    return {kind.name: kind for kind in kinds}


def work(name: str, seed: int, first: int, last: int) -> None:
    """Run attacks here; tell of each on stdout, before and after."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed meanwhile is not a message
    with tempfile.TemporaryDirectory(prefix="battery-") as folder:
        suite = suites()[name](Path(folder), seed)
        for number in range(first, last):
            _tell(out, {"begun": number})
            found = suite.run(number)
            _tell(out, {**vars(found), "verdict": found.verdict.value})


def _tell(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def outcomes(name: str, seed: int, first: int, last: int) -> Iterator[Outcome]:
    """How attacks of a suite end, in a process that is begun anew after each that kills it."""
    while first < last:
        command = [sys.executable, "-m", "battery", name, "--seed", str(seed), "--work"]
        command += ["--first", str(first), "--last", str(last)]
        pipe = subprocess.PIPE
        # Without buffers: what was read ahead would not be waited for.
        pipes: dict[str, Any] = {"stdout": pipe, "stderr": pipe, "bufsize": 0}
        with subprocess.Popen(command, env=_environment(), **pipes) as process:
            try:
                for found in _told(process):
                    yield found
                    first = found.number + 1
            finally:
                process.kill()


def _environment() -> dict[str, str]:
    """That of this process, in which the battery is found."""
    here = str(Path(__file__).resolve().parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _told(process: subprocess.Popen[bytes]) -> Iterator[Outcome]:
    assert process.stdout is not None
    assert process.stderr is not None
    begun, name = -1, str(process.args[3])  # type: ignore[index]
    os.set_blocking(process.stderr.fileno(), False)
    last_words = b""
    while True:
        patience = PATIENCE if begun >= 0 else 10 * PATIENCE  # what is attacked must be made first
        ready = select.select([process.stdout, process.stderr], [], [], patience)[0]
        if process.stderr in ready:
            last_words = (last_words + (process.stderr.read() or b""))[-2000:]
        if not ready and begun < 0:
            raise RuntimeError(f"the suite {name} does not begin")
        if not ready:
            yield Outcome(name, begun, "?", Verdict.CRASH, "it does not end")
            return
        if process.stdout not in ready:
            continue
        line = process.stdout.readline()
        if not line:
            break
        message = json.loads(line)
        if "begun" in message:
            begun = message["begun"]
        else:
            yield Outcome(**{**message, "verdict": Verdict(message["verdict"])})
            begun = -1
    if process.wait() or begun >= 0:
        words = last_words.decode(errors="replace")
        if begun < 0:
            raise RuntimeError(f"the suite {name} cannot begin: {words}")
        yield Outcome(name, begun, "?", Verdict.CRASH, f"code {process.returncode}: {words}")


def run(name: str, seed: int, n: int, workers: int = 1) -> list[Outcome]:
    """How the first ``n`` attacks of a suite end, in some processes side by side."""
    cuts = [n * k // workers for k in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda ends: list(outcomes(name, seed, *ends)), pairwise(cuts))
        return [found for part in parts for found in part]
