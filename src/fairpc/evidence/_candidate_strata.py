"""Which columns, taken as strata, would remove a rejection of the plain test?

A help to see what a rejection hangs on, not a way to choose strata: of many columns some make the
test fall silent by chance, because they leave few rows, or because they are themselves results of
unequal treatment. Classifiers learn from all columns once; strata change only which rates are
compared, so that ten columns cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Floats,
    MetricError,
    Positions,
    Record,
    as_numbers,
    check_level,
    check_table,
    map_in_order,
    missing,
    one_of,
    whole_number,
)
from fairpc.evidence._assumptions import MOST_SEEDS
from fairpc.evidence._chosen_sets import TopSets
from fairpc.evidence._gaps import parity
from fairpc.evidence._lines import INFORMATIVE
from fairpc.evidence._strata import ARGUED, check_strata
from fairpc.evidence._test_records import AssumptionTest

BINS: Final = 4


@dataclass(frozen=True)
class CandidateStrata:
    """One column taken as strata."""

    column: Any  #: its name, or its number
    n_strata: int  #: levels, or bins of numbers
    smallest: int  #: rows that a group has in a stratum, at least
    rejected: bool | None  #: whether parity within it is rejected; None where it cannot be tested
    p_value: float | None  #: of that
    line_p_value: float | None  #: the least of all groups; None for under three strata
    area: float | None  #: of the possible mechanisms of the largest group
    #: part of the largest gap of labels between groups that the mix of strata explains, as a share
    #: of it; None where groups hardly differ
    mix: float | None
    why: str = ""  #: it cannot be tested; empty where it was


@dataclass(frozen=True)
class StrataComparison(Record):
    """The plain test, and each column taken as strata."""

    plain: AssumptionTest  #: the test without strata
    columns: tuple[CandidateStrata, ...]  #: in the order of the table
    level: float  #: of each set

    _computed = ("silent", "summary")

    @property
    def silent(self) -> tuple[Any, ...]:
        """Columns within which nothing is rejected although it is without them."""
        if not self.plain.rejected:
            return ()
        return tuple(c.column for c in self.columns if c.rejected is False)

    def summary(self) -> str:
        """What removes the rejection, and why that is not an argument, in plain words."""
        tested = sum(c.rejected is not None for c in self.columns)
        if not self.plain.rejected:
            return (
                f"The plain test does not reject at the {1 - self.level:.2g} level, so no column "
                f"is needed to remove a rejection; {tested} were tested."
            )
        named = ", ".join(repr(c) for c in self.silent) or "none"
        return (
            f"The plain test rejects. Of {tested} columns, taken as strata one by one, these "
            f"remove the rejection: {named}. {ARGUED} Of many columns some do so by chance, "
            "because few rows are left in each stratum, or because they are themselves results of "
            "unequal treatment."
        )


def compare_strata(
    X: Any,  # noqa: N803
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    columns: Iterable[Any] | None = None,
    bins: int = BINS,
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    n_seeds: int = 3,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> StrataComparison:
    """Test parity within each of several columns, beside the plain test.

    All columns of X are features of every test, also the one that is taken as strata.

    Args:
        X: features, a frame or an array.
        columns: names, or numbers, of those to take as strata; all if None.
        bins: into which numbers are cut.
        y, sensitive_features, positive, classifier, level, n_seeds, clusters, sample_weight: as
            for ``test_assumptions``; two classes.
    """
    check_level(level)
    bins = whole_number("bins", bins, 2, 1000)
    n_seeds = whole_number("n_seeds", n_seeds, 1, MOST_SEEDS)
    table = check_table("X", X).astype(object)
    names = list(getattr(X, "columns", range(table.shape[1])))
    wanted = names
    if columns is not None:
        try:
            wanted = [names[one_of("a column", name, names)] for name in columns]
        except TypeError as error:
            raise MetricError(f"columns is not a list: give some of {names[:5]}") from error
        if not wanted:
            raise MetricError(f"columns is empty: give some of {names[:5]}")
    weighing: dict[str, Any] = {"clusters": clusters, "sample_weight": sample_weight}
    asked: dict[str, Any] = {"positive": positive, "classifier": classifier}
    asked |= {"seeds": range(n_seeds), "for_strata": True}
    fit = TopSets.of(table, y, sensitive_features, **asked, **weighing)
    return compared(fit, {name: table[:, names.index(name)] for name in wanted}, level, bins=bins)


def compared(
    fit: TopSets,
    columns: Mapping[Any, Array],
    level: float,
    *,
    bins: int = BINS,
    watch: Callable[[Any], None] | None = None,
) -> StrataComparison:
    """Columns taken as strata, one by one, on splits of the same rows that were made before.

    ``watch`` is called with the name of each column when it has been tried.
    """
    undivided = fit.undivided(level)

    def candidate(name: Any) -> CandidateStrata:
        strata = column_strata(columns[name], fit.groups, bins, INFORMATIVE)
        known, where = check_strata(strata, len(strata))
        rows = np.zeros((len(known), len(fit.names)), np.intp)
        np.add.at(rows, (where, fit.groups), 1)
        size = len(known), int(rows.min())
        try:
            if len(known) < 2:
                raise MetricError("it has one stratum")
            test = fit.within(known, where, level, undivided)
            weighing: dict[str, Any] = {"clusters": fit.persons, "sample_weight": fit.weights}
            gaps = parity(fit.hits, fit.groups, given=strata, **weighing)
        except MetricError as error:
            return CandidateStrata(name, *size, None, None, None, None, None, str(error))
        pair = max(gaps.pairs, key=lambda p: abs(p.raw))
        mix = pair.mix / pair.raw if abs(pair.raw) > 1e-3 else None
        lines = [g.line_p_value for g in test.groups if g.line_p_value is not None]
        least = min(lines, default=None)
        return CandidateStrata(name, *size, test.rejected, test.p_value, least, test.area, mix)

    found = []
    for each in map_in_order(candidate, list(columns)):
        if watch is not None:
            watch(each.column)
        found.append(each)
    return StrataComparison(fit.test(level), tuple(found), level)


def column_strata(values: Array, groups: Positions, bins: int, least: int) -> Array:
    """Names of strata, one per row, from a column of any type; labels are not looked at.

    Numbers with more than twice as many values as bins are cut at quantiles; a value that holds
    the share of a bin or more is a stratum of its own, and not in the bin around it. Levels of
    which a group has under ``least`` rows become "other", and missing cells "missing".
    """
    hidden = missing(values)
    named = np.full(len(values), "missing", object)
    numbers = None if values.dtype.kind == "b" else as_numbers(values[~hidden])
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
