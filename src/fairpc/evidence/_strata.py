"""Strata: the levels of attributes A that may rightly matter, such as hours of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.core import MetricError, Positions, check_choice, check_groups

Mechanism = Literal["shared", "within"]
"""Whether labels are bent alike in all strata of a group, or in each stratum in its own way."""
ARGUED: Final = "An attribute must be argued for. That the test no longer rejects is no argument."
MAX_STRATA: Final = 200
"""More strata than this leave no rows in any; numbers must be cut into bins before."""


def check_strata(given: npt.ArrayLike, n_rows: int) -> tuple[tuple[Any, ...], Positions]:
    """The strata that occur, and each row's; a MetricError where they are too many."""
    names, where = check_groups(given, n_rows, "given", least=1)
    if len(names) > MAX_STRATA:
        raise MetricError(
            f"given has {len(names)} values: at most {MAX_STRATA} strata can be compared; cut "
            "numbers into bins, or merge levels"
        )
    return names, where


def check_mechanism(mechanism: Mechanism, given: Any) -> None:
    """Refuse a word that is none, and one without strata."""
    check_choice("mechanism", mechanism, ("shared", "within"), MetricError)
    if mechanism == "within" and given is None:
        raise MetricError("mechanism is 'within' and given is None: give the strata")


@dataclass(frozen=True)
class LeftOut:
    """A stratum that was not looked at: its name, its rows, and why."""

    stratum: Any
    n: int
    why: str


def kept_strata(strata: tuple[Any, ...], lost: Mapping[int, str]) -> list[int]:
    """Numbers of the strata that are not lost; a MetricError that says why where all are."""
    kept = [a for a in range(len(strata)) if a not in lost]
    if not kept:
        a, why = next(iter(lost.items()))
        raise MetricError(
            f"no stratum can be looked at by itself; of {strata[a]!r}: {why}. Merge strata or "
            "groups, or use mechanism='shared'"
        )
    return kept


def left_out(
    strata: tuple[Any, ...], lost: Mapping[int, str], where: Positions
) -> tuple[LeftOut, ...]:
    """The lost strata with their rows; ``where`` is the stratum of each row."""
    rows = np.bincount(where, minlength=len(strata))
    return tuple(LeftOut(strata[a], int(rows[a]), why) for a, why in lost.items())


def left_out_words(left_out: tuple[LeftOut, ...]) -> str:
    """The first of them, in plain words after a sentence; empty where there are none."""
    if not left_out:
        return ""
    named = "; ".join(f"{s.stratum!r} ({s.n} rows: {s.why})" for s in left_out[:5])
    more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return f" Left out: {named}{more}."
