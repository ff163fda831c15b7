"""Strata of a fitted model: which columns make them, what they are called, which are small."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.core import Floats, LearningError, counted
from fairpc.data import TableCoding, resolve
from fairpc.models._knowledge import Knowledge
from fairpc.models._rows import Rows, TrainingRows
from fairpc.models._strata import Bending, Strata
from fairpc.models._tables import listed

SMALL: Final = 30
"""Rows of a group in a stratum under which the stratum is named."""
NAMED: Final = 5
"""Small strata that are named at most."""


def strata_of(given: Any, bending: Bending, coding: TableCoding) -> Strata:
    """The strata that the columns of ``given`` make under a coding."""
    features = coding.features
    columns = []
    for item in listed(given):
        (name,) = resolve(features.names_in, item, "given")
        if name in coding.sensitive:
            raise LearningError(
                f"column {name!r} is sensitive and in given: decisions cannot be independent of "
                "it within its own values; leave it out of one of the two"
            )
        if name not in features.names:
            reason = next(d.reason for d in features.dropped if d.name == name)
            raise LearningError(f"column {name!r} is in given and was dropped: {reason}")
        columns.append(features.names.index(name))
    return Strata.of(tuple(dict.fromkeys(columns)), features.arities, bending)


def refuse_rate(knowledge: Knowledge | None, given: Any) -> None:
    """A LearningError where one rate of fair decisions is stated for several strata."""
    if knowledge and listed(given) and knowledge.fair_rate is not None:
        raise LearningError(
            "fair_rate and given cannot be combined: every stratum has a rate of its own, and EM "
            "would hold each to it; state bounds of the mechanism, or leave one out"
        )


def stratum_names(strata: Strata, coding: TableCoding) -> tuple[str, ...]:
    """What each stratum is called: "hours=40 to 50, job=clerk"."""
    columns = [coding.features.columns[j] for j in strata.columns]
    return tuple(
        ", ".join(
            f"{column.name}={column.labels[v]}"
            for column, v in zip(columns, strata.values(a), strict=True)
        )
        for a in range(strata.n)
    )


def subgroup_rows(rows: TrainingRows, strata: Strata) -> Floats:
    """How many rows of the table each subgroup has, [s, a]."""

    def counts(some: Rows) -> Floats:
        own = some.subgroups
        known = own >= 0
        return np.asarray(np.bincount(own[known], some.each[known], some.n_subgroups), np.float64)

    total: Floats = sum(rows.map(counts), np.zeros(()))
    return total.reshape(-1, strata.n)


def small_strata(rows: TrainingRows, strata: Strata, coding: TableCoding) -> str:
    """A sentence that names strata in which a group has few rows; empty where none has."""
    if not strata:
        return ""
    n = subgroup_rows(rows, strata).min(axis=0)
    small = np.flatnonzero(n < SMALL)
    if not len(small):
        return ""
    names = stratum_names(strata, coding)
    shown = "; ".join(names[a] for a in small[:NAMED]) + ("; …" if len(small) > NAMED else "")
    return (
        f"{counted(len(small), 'stratum has', 'strata have')} under {SMALL} rows of some group "
        f"({shown}): what is learned there leans on the other strata; merge values, or give fewer "
        "columns"
    )
