"""Strata: the levels of legitimate factors A, such as hours of work.

Whoever is given none has one stratum, which holds all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, MetricError, Positions, check_groups

ARGUED: Final = (
    "An attribute must be argued for. That the test no longer rejects is not an argument."
)
MAX_STRATA: Final = 200
"""More strata than this leave no rows in any; numbers must be cut into bins before."""


def check_strata(given: npt.ArrayLike | None, n_rows: int) -> tuple[tuple[Any, ...], Positions]:
    """The strata that occur, and each row's; a MetricError where they are too many."""
    if given is None:
        return (None,), np.zeros(n_rows, np.intp)
    names, where = check_groups(given, n_rows, "given", least=1, by_case=True)
    if len(names) > MAX_STRATA:
        raise MetricError(
            f"given has {len(names)} values: at most {MAX_STRATA} strata can be compared; cut "
            "numbers into bins, or merge levels"
        )
    return names, where


@dataclass(frozen=True)
class LeftOut:
    """A stratum that was not looked at: its name, its rows, and why."""

    stratum: Any
    n: int
    why: str


def apart(
    strata: tuple[Any, ...], where: Positions, unfit: Callable[[int], str]
) -> tuple[list[tuple[Any, Bools]], tuple[LeftOut, ...]]:
    """Strata that are looked at each by itself, with their rows, and those that are left out.

    ``unfit`` says why the stratum of a number cannot be, and nothing where it can.
    """
    why = {a: unfit(a) for a in range(len(strata))}
    kept = [(strata[a], np.asarray(where == a)) for a in why if not why[a]]
    if not kept:
        raise MetricError(
            f"no stratum can be looked at by itself; of {strata[0]!r}: {why[0]}. Merge strata or "
            "groups"
        )
    rows = np.bincount(where, minlength=len(strata)).tolist()
    return kept, tuple(LeftOut(strata[a], rows[a], why[a]) for a in why if why[a])


def level_of_each(level: float, n: int) -> float:
    """The level of each of n sets that hold together at a level (Bonferroni)."""
    return 1 - (1 - level) / n if n > 1 else level


def left_out_words(left_out: tuple[LeftOut, ...]) -> str:
    """The first of them, in plain words after a sentence; empty where there are none."""
    if not left_out:
        return ""
    named = "; ".join(f"{s.stratum!r} ({s.n} rows: {s.why})" for s in left_out[:5])
    more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return f" Left out: {named}{more}."
