"""Kills of fit, of predict and of audit, at any moment.

What a command writes is there whole, or not at all; what lay there before is then still there.
SIGTERM leaves nothing else behind, and a killed fit that starts again ends with the same bits.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from battery.attacks import Difference, Suite, Verdict
from battery.on_models import people
from fairpc import load
from killing import forking

_OLD: Final = b"what was there before\n"
_SIGNALS: Final = (signal.SIGKILL, signal.SIGTERM)


def _learned(model: Any) -> list[bytes]:
    arrays = [model.circuit_.parameters, model.circuit_.graph.child, model.label_counts_]
    arrays += [model.history_[name] for name in sorted(model.history_)]
    return [np.asarray(a).tobytes() for a in arrays]


class Kills(Suite):
    name, full = "kills", 200

    def prepare(self) -> None:
        self.temporary, self.out = self.folder / "tmp", self.folder / "out"
        self.temporary.mkdir()
        self.out.mkdir()
        self.open = ExitStack()
        self.parent = self.open.enter_context(forking(TMPDIR=str(self.temporary)))
        table, self.model = self.folder / "t.csv", self.folder / "m.fairpc"
        people(3000).write_csv(table)
        few = self.folder / "few.csv"  # an audit takes its time, and it writes at its end
        people(300).write_csv(few)
        roles = (
            "--label",
            "hired",
            "--positive",
            "yes",
            "--sensitive",
            "sex",
            "--structure",
            "chow-liu",
            "-q",
        )
        self.commands: dict[str, tuple[str, ...]] = {
            "fit": (str(table), *roles, "-o"),
            "predict": (str(self.model), str(table), "-q", "-o"),
            "audit": (str(self.model), str(few), "-q", "-o"),
        }
        self.alone: dict[str, tuple[float, Any]] = {}
        for command, name in (("fit", "m.fairpc"), ("predict", "p.csv"), ("audit", "r.html")):
            begun = time.monotonic()
            if self._run(command, self.folder / name):
                raise RuntimeError(f"{command} does not run")
            self.alone[command] = (time.monotonic() - begun, self._content(self.folder / name))
            shutil.rmtree(self.out)
            self.out.mkdir()

    def _run(self, command: str, output: Path, **kill: Any) -> int:
        return self.parent.run("command", command, *self.commands[command], output, **kill)

    def _content(self, path: Path) -> Any:
        """What a file holds; of a model what was learned, of a page that it is whole."""
        if path.suffix == ".fairpc":
            return _learned(load(path))
        data = path.read_bytes()
        return data.rstrip().endswith(b"</html>") if path.suffix == ".html" else data

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        command, number = rng.choice(list(self.commands)), rng.choice(_SIGNALS)
        after = rng.uniform(0, 1.1 * self.alone[command][0])
        before, goes_on = rng.random() < 0.5, rng.random() < 0.4
        kind = f"{command}, {number.name} after {after:.2f} s"
        return kind, lambda: self._killed(command, number, after, before, goes_on)

    def _killed(
        self, command: str, number: int, after: float, before: bool, goes_on: bool
    ) -> Verdict:
        shutil.rmtree(self.out)
        self.out.mkdir()
        ending = {"fit": ".fairpc", "predict": ".csv", "audit": ".html"}[command]
        target, theirs = self.out / f"result{ending}", self.out / ".theirs.tmp"
        theirs.write_bytes(_OLD)
        if before:
            target.write_bytes(_OLD)
        ended = self._run(command, target, kill_after=after, number=number)
        if ended not in (0, -number, 128 + number):
            raise Difference(f"it ended with {ended}", Verdict.TRACEBACK)
        self._verify(command, target, before, ended)
        left = [p for p in (*self.out.glob(".*.tmp"), *self.temporary.iterdir()) if p != theirs]
        if left and number == signal.SIGTERM and ended != -number:
            raise Difference(f"left behind: {[p.name for p in left]}", Verdict.FOREIGN)
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if goes_on:
            if self._run(command, target):
                raise Difference("it does not run after a kill", Verdict.TRACEBACK)
            self._verify(command, target, before, 0)
        if theirs.read_bytes() != _OLD:
            raise Difference("a file of somebody else was altered", Verdict.FOREIGN)
        return Verdict.SAME

    def _verify(self, command: str, target: Path, before: bool, ended: int) -> None:
        """What is there is what was, nothing, or the whole."""
        if not target.exists():
            if before or not ended:
                raise Difference("the output is gone", Verdict.FOREIGN)
        elif before and ended and target.read_bytes() == _OLD:
            return
        elif self._content(target) != self.alone[command][1]:
            raise Difference(f"the output of {command} is not whole")
