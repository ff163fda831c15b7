"""Strata: the levels of attributes A that may rightly matter, such as hours of work."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy.typing as npt

from fairpc.errors import MetricError, arrays
from fairpc.errors.arrays import Positions

Mechanism = Literal["shared", "within"]
"""Whether labels are bent alike in all strata of a group, or in each stratum in its own way."""
ARGUED: Final = "An attribute must be argued for, not taken because the test then falls silent."
MAX_STRATA: Final = 200
"""More strata than this leave no rows in any; numbers must be cut into bins before."""


def check_strata(given: npt.ArrayLike, n_rows: int) -> tuple[tuple[Any, ...], Positions]:
    """The strata that occur, and each row's; a MetricError where they are too many."""
    names, where = arrays.check_groups(given, n_rows, "given", least=1)
    if len(names) > MAX_STRATA:
        raise MetricError(
            f"given has {len(names)} values: at most {MAX_STRATA} strata can be compared; cut "
            "numbers into bins, or merge levels"
        )
    return names, where


def check_mechanism(mechanism: Mechanism, given: Any) -> None:
    """Refuse a word that is none, and one without strata."""
    if mechanism not in ("shared", "within"):
        raise MetricError(f"mechanism is {mechanism!r}: give 'shared' or 'within'")
    if mechanism == "within" and given is None:
        raise MetricError("mechanism is 'within' and given is None: give the strata")
