"""What an attack is, how it may end, and the table that sums many of them up.

An attack is told by the name of its suite, a seed and a number alone, so that each can be
repeated: ``python -m battery models --seed 0 --only 17``.
"""

from __future__ import annotations

import random
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from fairpc.errors import FairpcError

MOST_WORDS: Final = 2000
"""Characters of the longest message: what was wrong must not be buried in what was given."""


class Verdict(Enum):
    """How an attack ended. ``SECURITY.md`` says what the words mean."""

    REFUSED = "refused"
    SAME = "same"
    OTHER = "other model"
    TRACEBACK = "traceback"
    CRASH = "crash"
    SILENT = "silently different"
    FOREIGN = "foreign file"

    @property
    def failed(self) -> bool:
        """Whether it must not happen."""
        return self not in (Verdict.REFUSED, Verdict.SAME, Verdict.OTHER)


@dataclass(frozen=True)
class Outcome:
    """How one attack ended, what it was, and what was said."""

    suite: str
    number: int
    kind: str
    verdict: Verdict
    note: str = ""


class Difference(Exception):
    """What was read is not what was written."""

    def __init__(self, note: str, verdict: Verdict = Verdict.SILENT) -> None:
        super().__init__(note)
        self.verdict = verdict


class Suite(ABC):
    """Attacks on one kind of thing. ``folder`` is its own, for what it writes."""

    name: ClassVar[str]
    full: ClassVar[int]  #: attacks of `make battery`

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what will be attacked."""

    @abstractmethod
    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        """What is done, in words, and a function that does it and says how it ended.

        It raises an error of ours where the attack is refused, and a Difference.
        """

    def run(self, number: int) -> Outcome:
        """The attack of a number."""
        rng = random.Random(f"{self.name} {self.seed} {number}")
        kind, act = self.attack(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict, note = judged(act)
        return Outcome(self.name, number, kind, verdict, note)


def judged(act: Callable[[], Verdict]) -> tuple[Verdict, str]:
    """How something ends, and what is said."""
    try:
        return act(), ""
    except Difference as found:
        return found.verdict, str(found)
    except (FairpcError, OSError) as error:
        said = str(error)
        if len(said) > MOST_WORDS or not all(c.isprintable() or c == "\n" for c in said):
            return Verdict.TRACEBACK, f"{len(said):,} characters: {said[:200]!a}"
        return Verdict.REFUSED, said
    except (Exception, SystemExit) as error:  # noqa: BLE001 - that is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(where.filename).name}:{where.lineno}"
        own = [f for f in traceback.extract_tb(error.__traceback__) if "fairpc" in f.filename]
        if own:
            at += f" from {Path(own[-1].filename).name}:{own[-1].lineno}"
        return Verdict.TRACEBACK, f"{type(error).__name__}: {str(error)[:200]!a} ({at})"
    except BaseException as error:  # a panic of polars is not an Exception
        if type(error).__name__ != "PanicException":
            raise
        return Verdict.TRACEBACK, f"PanicException: {str(error)[:200]!a}"


def table(outcomes: Iterable[Outcome]) -> str:
    """How many attacks of each suite ended how."""
    counts: dict[str, Counter[Verdict]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.suite, Counter())[outcome.verdict] += 1
    head = ["suite", "attacks", *(v.value for v in Verdict)]
    lines = [[s, f"{c.total():,}", *(f"{c[v]:,}" for v in Verdict)] for s, c in counts.items()]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in (head, *lines)
    )
