"""Do the data contradict Df ⟂ S *given* attributes A?

Df may differ between strata, P(Df = 1 | a) = π_a, but within one not between groups. D is bent
alike in all strata of a group, b_fs = P(D = 1 | Df = f, s). A mechanism that is possible is a pair
(b00, b10) of the reference group and a rising line for each other group, see
``fairpc.evidence._lines``. Both are bounded: b0s is at most the least, b1s at least the largest
P(D = 1 | x, s, a), of which held-out sets of rows tell as in the plain test. Of one stratum it is
the plain set.

If labels are bent differently in each stratum, strata share nothing: the test of each is the plain
one, of its rows alone, and they hold together by Bonferroni. Strata in which a group has too few
rows, or lacks a label, are left out and named.
"""

# ruff: noqa: PT028 - a test of hypotheses, not of code: its arguments may have defaults.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Positions,
    Record,
    check_array,
    check_classes,
    check_clusters,
    check_groups,
    check_level,
    check_positive_weight,
    check_table,
)
from fairpc.evidence._assumptions import (
    SMALLEST_P,
    AssumptionTest,
    assumption_record,
    group_rows,
    positive_code,
    rate_p_value,
    smallest_level,
    test_assumptions,
)
from fairpc.evidence._crossfit import SplitRates, Watch, all_splits
from fairpc.evidence._gaps import SMALL
from fairpc.evidence._intervals import Interval, rate_sample, some_of
from fairpc.evidence._lines import INFORMATIVE, CountedStrata, Region, nothing_possible, region
from fairpc.evidence._strata import (
    ARGUED,
    LeftOut,
    check_strata,
    kept_strata,
    left_out,
    left_out_words,
)
from fairpc.learners import learners


@dataclass(frozen=True)
class StratumRates:
    """One stratum.

    Attributes:
        stratum: its name; a tuple where several attributes are crossed.
        n: rows of each group.
        rates: P(D = positive | s, a) of each group; NaN where it has no rows.
        informs: whether it informs a line: the reference and another group have 20 rows here.
    """

    stratum: Any
    n: tuple[int, ...]
    rates: tuple[float, ...]
    informs: bool


@dataclass(frozen=True)
class GroupMechanism:
    """One group over the whole set.

    Attributes:
        group: its name.
        b0, b1: ranges of P(D = positive | Df = other) and of P(D = positive | Df = positive); None
            where nothing is possible.
        line_p_value: smallest level at which its rates lie on no rising line with those of the
            reference; None for the reference, and where under three strata inform it.
        ends: held-out rates of the positive class in its bottom and in its top set.
    """

    group: Any
    b0: Interval | None
    b1: Interval | None
    line_p_value: float | None
    ends: Interval


@dataclass(frozen=True, eq=False)
class StrataTest(Record):
    """Confidence set of the mechanism under parity within strata, and whether it is empty.

    Attributes:
        rejected: whether no mechanism is left at the level.
        p_value: smallest 1 − level at which none is; never said to be under 1e-12.
        level: of the set.
        groups: the reference first: the largest group.
        strata: in sorted order.
        positive: the class that rates are of.
        area: of the set of the reference's (b0, b1).
        plain_area: the same without strata, all rows in one.
        n_seeds: ways of splitting over which the median was taken.
        region: the set on a grid of the reference's (b0, b1), to be drawn.
        plain_region: the same without strata.
    """

    rejected: bool
    p_value: float
    level: float
    groups: tuple[GroupMechanism, ...]
    strata: tuple[StratumRates, ...]
    positive: Any
    area: float
    plain_area: float
    n_seeds: int
    region: Region
    plain_region: Region

    _computed = ("outlines", "summary")
    _long = ("region", "plain_region")

    def ends(self) -> dict[Any, Interval]:
        """Per group the held-out rates of the positive class in its bottom and in its top set.

        Over all strata, for ``identified_set``.
        """
        return {g.group: g.ends for g in self.groups}

    def outlines(self) -> dict[str, tuple[tuple[float, float], ...]]:
        """Polygons around the possible (b0, b1) of the reference, within strata and without."""
        return {"within": self.region.outline(), "plain": self.plain_region.outline()}

    def summary(self) -> str:
        """The result and what it does not mean, in plain words."""
        p = "below 1e-12" if self.p_value <= SMALLEST_P else f"= {self.p_value:.2g}"
        if self.rejected:
            return (
                f"Rejected at the {1 - self.level:.2g} level (p {p}): within {len(self.strata)} "
                "strata, no mechanism that is the same in all of them fits the labels of every "
                f"group. {ARGUED}"
            )
        parts = "; ".join(
            f"in group {g.group!r} {g.b1[0]:.3f} to {g.b1[1]:.3f} of those whose fair decision is "
            f"{self.positive!r}, and {g.b0[0]:.3f} to {g.b0[1]:.3f} of the others"
            for g in self.groups
            if g.b0 is not None and g.b1 is not None
        )
        return (
            f"Not rejected (p {p}). If fair decisions are independent of the group within strata, "
            f"and labels are bent alike in all of them, then with {self.level:.0%} confidence the "
            f"label {self.positive!r} was given to: {parts}. This does not show that the "
            f"assumptions are true. {ARGUED}"
        )


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
        return f"{text}{left_out_words(self.left_out)} {ARGUED}"


def test_within(
    X: npt.ArrayLike,  # noqa: N803
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    seeds: Sequence[int] = range(11),
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> StrataTest:
    """Test Df ⟂ S given A with one mechanism for all strata; see the head of this module.

    Args:
        X, y, sensitive_features, positive, classifier, level, seeds, clusters, sample_weight,
            progress: as for ``test_assumptions``; two classes.
        given: stratum per row; several columns are crossed. It counts as a feature too.
    """
    check_level(level)
    strata, where = check_strata(given, len(_as_columns("X", X)))
    table = np.column_stack([_as_columns("X", X), _as_columns("given", given)])
    weighing: dict[str, Any] = {"clusters": clusters, "sample_weight": sample_weight}
    asked: dict[str, Any] = {"positive": positive, "classifier": classifier, "seeds": seeds}
    fit = CrossFit.of(table, y, sensitive_features, **asked, **weighing, progress=progress)
    return fit.within(strata, where, level)


test_within.__test__ = False  # type: ignore[attr-defined]


def _as_columns(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    return check_table(name, values).astype(object)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Checked rows and the sets that were chosen in each group: what no choice of strata changes.

    Attributes:
        classes: the two.
        wanted: number of the positive one.
        names: of the groups, in sorted order.
        groups: number of each row's group.
        labels: 1.0 where a row has the positive class.
        weights, persons: of the rows, where they are given.
        splits: of each group, per seed.
    """

    classes: tuple[Any, ...]
    wanted: int
    names: tuple[Any, ...]
    groups: Positions
    labels: Floats
    weights: Floats | None
    persons: Positions | None
    splits: dict[Any, list[SplitRates]]

    @classmethod
    def of(
        cls,
        table: npt.ArrayLike,
        y: npt.ArrayLike,
        sensitive_features: npt.ArrayLike,
        *,
        positive: Any,
        classifier: Any,
        seeds: Sequence[int],
        clusters: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
        progress: Watch | None = None,
    ) -> CrossFit:
        classes, rows = group_rows(table, y, sensitive_features, clusters, sample_weight)
        wanted = positive_code(classes, positive)
        if len(classes) != 2 or wanted is None:
            raise MetricError(f"y has {len(classes)} classes: the test within strata needs two")
        names, ids = check_groups(sensitive_features, len(check_array("y", y)))
        options = learners(classifier, weighted=sample_weight is not None)
        splits = all_splits(rows, options, seeds, watch=progress)
        labels = np.asarray(check_classes("y", y, len(ids))[1] == wanted, np.float64)
        weights = check_positive_weight(sample_weight, len(ids))
        persons = check_clusters(clusters, len(ids))
        return cls(classes, wanted, names, ids, labels, weights, persons, splits)

    def plain(self, level: float) -> AssumptionTest:
        """The test without strata."""
        return assumption_record(self.classes, self.splits, level, self.wanted, "cross-fit")

    def p_value_of(self, rate: float) -> float:
        """Smallest 1 − level at which the plain test does not leave this P(Df = positive)."""
        return rate_p_value(self.splits, self.wanted, rate)

    @property
    def order(self) -> Positions:
        """The groups, the largest first."""
        return np.argsort(-np.bincount(self.groups), kind="stable")

    def undivided(self, level: float) -> Region:
        """The mechanisms that are possible in the table as a whole, all rows one stratum."""
        counted = self._counted(np.zeros_like(self.groups), 1, self.order)
        each = tuple(
            line for s in range(1, len(self.names)) if (line := counted.line(s)) is not None
        )
        return region(each, counted.limits(1 - level, each))

    def within(
        self,
        strata: tuple[Any, ...],
        where: Positions,
        level: float,
        undivided: Region | None = None,
    ) -> StrataTest:
        """The test within strata: their names, and each row's.

        ``undivided`` is that of the same level, where it is known already.
        """
        order = self.order
        names = tuple(self.names[g] for g in order.tolist())
        counted = self._counted(where, len(strata), order)
        plain = self.undivided(level) if undivided is None else undivided
        cell = np.argsort(order)[self.groups] * len(strata) + where
        cells = np.bincount(cell, minlength=counted.n.size).reshape(counted.n.shape)
        positive, n_seeds = self.classes[self.wanted], len(self.splits[names[0]])
        return _record(counted, plain, names, strata, cells, positive, level, n_seeds)

    def _counted(self, where: Positions, n_strata: int, order: Positions) -> CountedStrata:
        shape = len(self.names), n_strata
        n, rates = _cells(self.labels, self.groups, where, shape, self.weights, self.persons)
        tops = tuple(
            tuple(
                (split.classes[1 - self.wanted], split.classes[self.wanted])
                for split in self.splits[self.names[g]]
            )
            for g in order.tolist()
        )
        return CountedStrata(n[order], rates[order], tops)


def _cells(
    labels: Floats,
    groups: Positions,
    strata: Positions,
    shape: tuple[int, int],
    weights: Floats | None,
    persons: Positions | None,
) -> tuple[Floats, Floats]:
    """Effective rows and rate of D = positive in each group and stratum."""
    n, rates = np.zeros(shape), np.full(shape, math.nan)
    for s, a in np.ndindex(shape):
        here = (groups == s) & (strata == a)
        if here.any():
            found = rate_sample(labels[here], some_of(weights, here), some_of(persons, here))
            n[s, a], rates[s, a] = found.size, found.mean
    return n, rates


def _record(
    counted: CountedStrata,
    without: Region,
    names: tuple[Any, ...],
    strata: tuple[Any, ...],
    cells: Positions,
    positive: Any,
    level: float,
    n_seeds: int,
) -> StrataTest:
    each = [counted.line(s) for s in range(1, len(names))]
    if any(line is None for line in each):
        raise MetricError(
            f"a group has no stratum with {INFORMATIVE} rows in common with {names[0]!r}, the "
            "largest: merge strata or groups"
        )
    known = tuple(line for line in each if line is not None)
    found = region(known, counted.limits(1 - level, known))

    def empty(alpha: float) -> bool:
        return nothing_possible(known, counted.limits(alpha, known))

    p_value = smallest_level(empty)
    groups = []
    for s, name in enumerate(names):
        b0, b1 = found.ranges[s] if found.ranges else (None, None)
        line_p = known[s - 1].p_value if s else None
        groups.append(GroupMechanism(name, b0, b1, line_p, counted.ends(s)))
    informed = np.logical_or.reduce(counted.informed).tolist()
    rows = tuple(
        StratumRates(
            name,
            tuple(cells[:, a].tolist()),
            tuple(counted.rates[:, a].tolist()),
            informed[a],
        )
        for a, name in enumerate(strata)
    )
    return StrataTest(
        rejected=found.empty,
        p_value=p_value,
        level=level,
        groups=tuple(groups),
        strata=rows,
        positive=positive,
        area=0.0 if found.empty else found.area,
        plain_area=0.0 if without.empty else without.area,
        n_seeds=n_seeds,
        region=found,
        plain_region=without,
    )


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
    table = check_array("X", X)
    classes, labels = check_classes("y", y, len(table))
    names, ids = check_groups(sensitive_features, len(table), "sensitive_features")
    strata, where = check_strata(given, len(table))
    persons = check_clusters(clusters, len(table))
    weights = check_positive_weight(sample_weight, len(table))
    cells = np.zeros((len(strata), len(names), len(classes)), np.int64)
    np.add.at(cells, (where, ids, labels), 1)
    lost = {a: why for a in range(len(strata)) if (why := _unfit(cells[a], names, classes))}
    kept = kept_strata(strata, lost)
    own = 1 - (1 - level) / len(kept)
    y_kept, s_kept = (check_array(*pair) for pair in (("y", y), ("s", sensitive_features)))
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
        left_out=left_out(strata, lost, where),
    )


test_by_stratum.__test__ = False  # type: ignore[attr-defined]


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
