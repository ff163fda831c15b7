"""Calls of the command line inside the test's own process, and a small table to call it with."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairpc.cli import main

HEADER = "age,job,sex,hired"


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    code: int | str | None
    out: str
    err: str


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """The exit code and what was printed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    shown = capsys.readouterr()
    return Ended(ended.value.code, shown.out, shown.err)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a call prints as JSON: one value and nothing else."""
    ended = called(capsys, *arguments, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def names(folder: Path) -> list[str]:
    """What lies in a folder, hidden files included."""
    return sorted(path.name for path in folder.iterdir())


def small_table(n_rows: int = 120, seed: int = 0) -> str:
    """A CSV of people who were hired or not."""
    rng = random.Random(seed)
    lines = [HEADER]
    for _ in range(n_rows):
        age, sex = rng.randint(20, 60), rng.choice("FM")
        job = rng.choice(["clerk", "cook", "smith"])
        hired = "yes" if rng.random() < (0.3 + 0.4 * (age > 40)) else "no"
        lines.append(f"{age},{job},{sex},{hired}")
    return "\n".join(lines) + "\n"


FIT = ("--label", "hired", "--positive", "yes", "--sensitive", "sex", "--structure", "chow-liu")
