"""Labels that are bent differently in each stratum: each stratum is a problem of its own.

If P(D | Df, S, A) is free in A, strata share nothing. The test and the identified set of each are
the plain ones, of its rows alone; they hold together by Bonferroni. Strata in which a group has too
few rows, or lacks a label, are left out and named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors import Argument, MetricError, arrays
from fairpc.errors.arrays import Bools, Floats
from fairpc.evidence.assumptions import SMALLEST_P, AssumptionTest, test_assumptions
from fairpc.evidence.gaps import SMALL
from fairpc.evidence.identified import IdentifiedSet, identified_set
from fairpc.evidence.intervals import Interval, some_of
from fairpc.evidence.plain import Record
from fairpc.evidence.strata import ARGUED, check_strata


@dataclass(frozen=True)
class LeftOut:
    """A stratum that was not looked at: its name, its rows, and why."""

    stratum: Any
    n: int
    why: str


@dataclass(frozen=True)
class StratumTest:
    """The plain test of one stratum, at the level that all strata together need."""

    stratum: Any
    n: int
    test: AssumptionTest


@dataclass(frozen=True)
class TestsByStratum(Record):
    """Whether parity within strata is contradicted where each stratum has its own mechanism.

    Attributes:
        rejected: whether some stratum has no P(Df) left.
        p_value: the least of the strata, times their number; at most 1.
        level: of all sets together.
        strata: those that were tested, in sorted order.
        left_out: those that were not.
    """

    rejected: bool
    p_value: float
    level: float
    strata: tuple[StratumTest, ...]
    left_out: tuple[LeftOut, ...]

    __test__ = False
    _computed = ("summary",)

    def summary(self) -> str:
        """The result and what it does not mean, in plain words."""
        p = "below 1e-12" if self.p_value <= SMALLEST_P else f"= {self.p_value:.2g}"
        named = [repr(s.stratum) for s in self.strata if s.test.rejected]
        if self.rejected:
            text = (
                f"Rejected at the {1 - self.level:.2g} level (p {p}): in "
                f"{'stratum' if len(named) == 1 else 'strata'} {', '.join(named)} no rate of fair "
                "decisions fits every group, even with a mechanism of its own."
            )
        else:
            text = (
                f"Not rejected (p {p}): each of {len(self.strata)} strata, with a mechanism of its "
                "own, leaves a rate of fair decisions that fits every group. This does not show "
                "that the assumptions are true."
            )
        return f"{text}{_lost(self.left_out)} {ARGUED}"


@dataclass(frozen=True, eq=False)
class IdentifiedByStratum(Record):
    """What is possible in each stratum where each has its own mechanism.

    Attributes:
        strata: the names of those that were looked at.
        sets: what is possible in each.
        left_out: those that were not looked at.
        score_lower, score_upper: bounds of each row's P(Df=1 | x, s); NaN in strata that were left
            out, or whose set is empty.
    """

    strata: tuple[Any, ...]
    sets: tuple[IdentifiedSet, ...]
    left_out: tuple[LeftOut, ...]
    score_lower: Floats
    score_upper: Floats

    _computed = ("empty", "summary")
    _long = ("score_lower", "score_upper")

    @property
    def empty(self) -> bool:
        """Whether some stratum leaves nothing."""
        return any(found.empty for found in self.sets)

    def summary(self) -> str:
        """The set of each stratum, in plain words."""
        pairs = zip(self.strata, self.sets, strict=True)
        each = " ".join(f"Stratum {name!r}: {found.summary()}" for name, found in pairs)
        return f"{each}{_lost(self.left_out)}"


def _lost(left_out: tuple[LeftOut, ...]) -> str:
    if not left_out:
        return ""
    named = "; ".join(f"{s.stratum!r} ({s.n} rows: {s.why})" for s in left_out[:5])
    more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return f" Left out: {named}{more}."


def test_by_stratum(
    X: npt.ArrayLike,  # noqa: N803
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    level: float,
    clusters: npt.ArrayLike | None,
    sample_weight: npt.ArrayLike | None,
    **options: Any,
) -> TestsByStratum:
    """The plain test in each stratum, with options of ``test_assumptions``."""
    table = arrays.check_array("X", X)
    classes, labels = arrays.check_classes("y", y, len(table))
    names, ids = arrays.check_groups(sensitive_features, len(table), "sensitive_features")
    strata, where = check_strata(given, len(table))
    persons = arrays.check_clusters(clusters, len(table))
    weights = arrays.check_positive_weight(sample_weight, len(table))
    cells = np.zeros((len(strata), len(names), len(classes)), np.int64)
    np.add.at(cells, (where, ids, labels), 1)
    lost = {a: why for a in range(len(strata)) if (why := _unfit(cells[a], names, classes))}
    kept = _kept(strata, lost)
    own = 1 - (1 - level) / len(kept)
    y_kept, s_kept = (arrays.check_array(*pair) for pair in (("y", y), ("s", sensitive_features)))
    found = []
    for a in kept:
        here = where == a
        asked: dict[str, Any] = options | {"level": own, "clusters": some_of(persons, here)}
        asked["sample_weight"] = some_of(weights, here)
        test = test_assumptions(table[here], y_kept[here], s_kept[here], **asked)
        found.append(StratumTest(strata[a], int(here.sum()), test))
    least = min(s.test.p_value for s in found)
    return TestsByStratum(
        rejected=any(s.test.rejected for s in found),
        p_value=min(1.0, len(found) * least) if least > SMALLEST_P else SMALLEST_P,
        level=level,
        strata=tuple(found),
        left_out=_left_out(strata, lost, where),
    )


test_by_stratum.__test__ = False  # type: ignore[attr-defined]


def identified_by_stratum(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    ends: Mapping[Any, Mapping[Any, Interval]] | None,
    counts: npt.ArrayLike | None,
    **options: Any,
) -> IdentifiedByStratum:
    """The plain set of each stratum; ``ends`` are by stratum, then by group."""
    values = arrays.check_scores(scores)
    names, ids = arrays.check_groups(groups, len(values))
    strata, where = check_strata(given, len(values))
    times = arrays.check_counts(counts, len(values))
    cells = np.zeros((len(strata), len(names)))
    np.add.at(cells, (where, ids), 1.0 if times is None else times)
    lost = {
        a: f"under 2 rows of group {names[int(np.argmin(cells[a]))]!r}"
        for a in np.flatnonzero(cells.min(axis=1) < 2).tolist()
    }
    kept = _kept(strata, lost)
    if ends is not None and (unknown := [strata[a] for a in kept if strata[a] not in ends]):
        raise MetricError(
            f"ends has no stratum {unknown[0]!r}: where each stratum has its own mechanism, give "
            "pairs by stratum, then by group"
        )
    sets, found = [], np.full((2, len(values)), math.nan)
    raw = arrays.check_array("groups", groups)
    for a in kept:
        here: Bools = where == a
        inside = None if ends is None else ends[strata[a]]
        rows = values[here], raw[here]
        own = identified_set(*rows, ends=inside, counts=some_of(times, here), **options)
        found[:, here] = own.score_lower, own.score_upper
        sets.append(own)
    named = tuple(strata[a] for a in kept)
    return IdentifiedByStratum(named, tuple(sets), _left_out(strata, lost, where), *found)


def _unfit(cells: npt.NDArray[np.int64], names: tuple[Any, ...], classes: tuple[Any, ...]) -> str:
    """Why a stratum cannot be tested, of its rows by group and class; empty if it can."""
    rows = cells.sum(axis=1)
    g = int(np.argmin(rows))
    if rows[g] < SMALL:
        return f"group {names[g]!r} has {rows[g]} of the {SMALL} that a test needs"
    if not cells.all():
        g, c = divmod(int(np.argmin(cells)), len(classes))
        return f"class {classes[c]!r} does not occur in group {names[g]!r}"
    return ""


def _kept(strata: tuple[Any, ...], lost: Mapping[int, str]) -> list[int]:
    kept = [a for a in range(len(strata)) if a not in lost]
    if not kept:
        a, why = next(iter(lost.items()))
        raise MetricError(
            f"no stratum can be looked at by itself; of {strata[a]!r}: {why}. Merge strata or "
            "groups, or use ",
            Argument("mechanism", "'shared'"),
        )
    return kept


def _left_out(
    strata: tuple[Any, ...], lost: Mapping[int, str], where: npt.NDArray[np.intp]
) -> tuple[LeftOut, ...]:
    rows = np.bincount(where, minlength=len(strata))
    return tuple(LeftOut(strata[a], int(rows[a]), why) for a, why in lost.items())
