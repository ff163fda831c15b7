"""Strata: the levels of attributes A that may rightly matter, such as hours of work."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.errors import MetricError, arrays
from fairpc.errors.arrays import Array, Floats, Positions, as_numbers, missing

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
    arrays.check_choice("mechanism", mechanism, ("shared", "within"), MetricError)
    if mechanism == "within" and given is None:
        raise MetricError("mechanism is 'within' and given is None: give the strata")


def column_strata(values: Array, groups: Positions, bins: int, least: int) -> Array:
    """Names of strata, one per row, from a column of any type; labels are not looked at.

    Numbers with more than twice as many values as bins are cut at quantiles; a value that holds
    the share of a bin or more is a stratum of its own, and not in the bin around it. Levels of
    which a group has under ``least`` rows become "other", and missing cells "missing".
    """
    hidden = missing(values)
    named = np.full(len(values), "missing", object)
    numbers = _numbers(values[~hidden])
    if numbers is None or len(np.unique(numbers)) <= 2 * bins:
        named[~hidden] = values[~hidden].astype(str)
    else:
        named[~hidden] = _binned(numbers, bins)
    levels, where = np.unique(named.astype(str), return_inverse=True)
    rows = np.zeros((len(levels), int(groups.max()) + 1), np.intp)
    np.add.at(rows, (where, groups), 1)
    few = rows.min(axis=1) < least
    if few.sum() > 1:  # one alone stays as it is named
        levels = np.where(few, "other", levels.astype(object))
    return np.asarray(levels, object)[where]


def _numbers(values: Array) -> Floats | None:
    return None if values.dtype.kind == "b" else as_numbers(values)


def _binned(numbers: Floats, bins: int) -> Array:
    found, times = np.unique(numbers, return_counts=True)
    heavy = found[times >= len(numbers) / bins]
    alone = np.isin(numbers, heavy)
    named = np.array([f"{value:g}" for value in numbers], object)
    rest = numbers[~alone]
    n_cuts = max(bins - len(heavy), 1)
    if len(rest):
        cuts = np.unique(np.quantile(rest, np.arange(1, n_cuts) / n_cuts))
        names = [f"under {cuts[0]:g}"] if len(cuts) else ["other values"]
        names += [f"{a:g} to under {b:g}" for a, b in pairwise(cuts)]
        names += [f"from {cuts[-1]:g}"] if len(cuts) else []
        named[~alone] = np.array(names, object)[np.searchsorted(cuts, rest, side="right")]
    return named
