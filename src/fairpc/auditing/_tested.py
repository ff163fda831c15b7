"""The test of the assumptions: that of the fit on its own rows, that of the audit on others.

The fit counted labels that its classifiers had not seen. An audit of the same rows quotes these
counts, so that both say one number. On other rows, or if ways of splitting are asked for,
classifiers learn once for the plain test, and once in each stratum of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.comparison import typed_columns
from fairpc.core import Array, AuditError, Bools, MetricError, Positions
from fairpc.data import read_frame
from fairpc.evidence import (
    MIN_ROWS,
    SMALL,
    AssumptionTest,
    LabelBounds,
    StratumBounds,
    StratumTest,
    TestsByStratum,
    TopSets,
    Watch,
    WithinBounds,
    some_of,
    test_assumptions,
)

MOST_SEEDS: Final = 11
_SEED_ROWS: Final = 10_000
_GROUP_ROWS: Final = 250
_FEW_GROUPS: Final = 10
"""Rows that take as long as a group does beyond its own, and groups up to which that is little."""


@dataclass(frozen=True, eq=False)
class Tested:
    """The plain test, and what it was made of."""

    rows: AuditedRows  #: a sample of a large table
    kept: Bools  #: those of them that were tested: label, group and stratum are known
    given: tuple[Array, Positions, Positions]  #: features of these as they came, label and group
    asked: dict[str, Any]  #: what the test was given besides the rows
    unstratified: AssumptionTest
    fit: TopSets  #: the splits
    quoted: bool = False  #: whether they are those of the fit


def assumption_test(job: Job) -> Tested:
    """That of the fit on its own rows; of others, or if asked for, with many ways of splitting."""
    bounds = _bounds_of_fit(job)
    return _of_rows(job) if bounds is None else _of_fit(job, bounds)


def _bounds_of_fit(job: Job) -> LabelBounds | None:
    """What the fit kept of its held-out labels, if these are its rows and no test is asked for."""
    if job.decisions:
        return None
    rows, bounds = job.rows, job.model.label_ends_ if job.model._latent else None
    if bounds is None or not rows.same_rows_as_fit or job.settings.n_seeds is not None:
        return None
    every = tuple(g.group for g in bounds.groups) == job.coding.group_names
    # Of persons who repeat a fit of circuits knows nothing.
    return bounds if every and rows.persons is None else None


def _of_fit(job: Job, bounds: LabelBounds) -> Tested:
    """The held-out rates that the fit counted, on all its rows."""
    rows, level = job.drawn, job.settings.level
    kept = (rows.d >= 0) & (rows.s >= 0) & (job.strata.codes(rows.x) >= 0)
    given = _given(job, rows, kept)
    asked = {"positive": rows.positive, "sample_weight": some_of(rows.weights, kept)}
    fit = TopSets.of_fit(bounds, rows.positive)
    if isinstance(bounds, StratumBounds):
        test = fit.quoted(bounds, level, job.model.subgroup_rate_)
    else:
        test = fit.test(level)
    return Tested(rows, kept, given, asked, test, fit, quoted=True)


def _given(job: Job, rows: AuditedRows, kept: Bools) -> tuple[Array, Positions, Positions]:
    """Features as they came, because bins were chosen with labels, which a held-out fold may not
    see; label and group."""
    frame, features = read_frame(rows.table), rows.features
    if frame.from_array:  # Columns of an array are known by position.
        frame = replace(frame, names=features.names_in)
    decimal = job.decisions.reading["decimal"] if job.decisions else job.model.decimal
    columns = typed_columns(frame, features.missing_values, decimal)
    found = columns[list(features.names)].to_numpy()[kept]
    return found, rows.d[kept].astype(np.intp), rows.s[kept].astype(np.intp)


def _of_rows(job: Job) -> Tested:
    """Test on rows with label and group, in groups that have every class and 10 rows.

    11 ways of splitting unless asked otherwise, down to 1, as a fit takes, where many rows differ,
    on which one way hardly differs from another, or where groups are many.
    """
    if len(job.rows.classes) > 2:
        raise AuditError("the label has more than two classes: the test needs two, merge classes")
    settings, n_seeds = job.settings, job.settings.n_seeds
    rows = job.drawn.sample(settings.max_test_rows, settings.random_state)
    known = (rows.d >= 0) & (job.strata.codes(rows.x) >= 0)
    kept = rows.comparable(known, MIN_ROWS, every_class=True)
    if n_seeds is None:
        many = _GROUP_ROWS * max(len(rows.groups_in(kept)) - _FEW_GROUPS, 0)
        affordable = _SEED_ROWS // max(rows.n_distinct + many, 1)
        # The median over an odd number is one of them.
        n_seeds = min(MOST_SEEDS, max(1, affordable - 1 + affordable % 2))
    asked: dict[str, Any] = {
        "positive": rows.positive,
        "classifier": None if settings.classifier == "best" else settings.classifier,
        # Audits with different seeds have no split in common.
        "seeds": [(settings.random_state * n_seeds + k) % 2**32 for k in range(n_seeds)],
        "clusters": some_of(rows.persons, kept),
        "sample_weight": some_of(rows.weights, kept),
    }
    watch = _splits_of(job, "decidable.test")
    given = _given(job, rows, kept)
    fit = TopSets.of(*given, progress=watch, **asked)
    delta = 0.0 if job.strata else job.strata.delta
    return Tested(rows, kept, given, asked, fit.test(settings.level, delta), fit)


def test_within_strata(job: Job) -> TestsByStratum | None:
    """Parity within the strata of the model, on the rows of the plain test; None without strata."""
    if not job.strata:
        return None
    tested = job.tested
    if tested is None:
        raise AuditError(job.left_out["decidable.test"])
    where, level = job.strata.codes(tested.rows.x)[tested.kept], job.settings.level
    bounds = job.model.label_ends_ if tested.quoted else None
    if isinstance(bounds, WithinBounds):
        return _each_of_fit(bounds, tested, level)
    asked = tested.asked | {"given": where, "delta": job.strata.delta}
    watch = _splits_of(job, "strata.test")
    try:
        each: TestsByStratum = test_assumptions(*tested.given, level=level, progress=watch, **asked)
    except MetricError:  # it names a group by its code, and says how few rows it has
        raise AuditError(
            f"no stratum has {SMALL} rows and every label of each group: merge strata or groups"
        ) from None
    return each


test_within_strata.__test__ = False  # type: ignore[attr-defined]


def _each_of_fit(bounds: WithinBounds, tested: Tested, level: float) -> TestsByStratum:
    """The strata of the fit, each by its own held-out rates."""
    each, found = bounds.level_each(level), []
    for a, groups, own in bounds.parts():
        if len(groups) > 1:
            sets = TopSets.of_fit(own, tested.rows.positive, codes=groups)
            n = sum(g.positive.n for g in own.groups)
            found.append(StratumTest(a, n, sets.quoted(own, each)))
    if not found:
        raise AuditError("no stratum has rows of two groups: parity within them says nothing")
    p_value = min(1.0, min(one.test.p_value for one in found) * len(bounds.strata))
    rejected = bool(bounds.rejected(level))
    return TestsByStratum(rejected, p_value, level, tuple(found), ())


def _splits_of(job: Job, step: str) -> Watch:
    return lambda done, total: job.report_step(step, f": split {done + 1} of {total}")
