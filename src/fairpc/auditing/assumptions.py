"""The test of the assumptions on the audited rows: plain, and within the strata of a model.

Classifiers learn once. Strata change only which rates are compared, so the plain test, that within
strata that share a mechanism, and columns tried as strata are of the same splits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.auditing.job import Job
from fairpc.auditing.rows import AuditedRows
from fairpc.comparison.table import typed_columns
from fairpc.data.frame import read_frame
from fairpc.errors import AuditError
from fairpc.errors.arrays import Array, Bools, Positions
from fairpc.evidence import AssumptionTest, StrataTest, TestsByStratum, test_assumptions
from fairpc.evidence.assumptions import MIN_ROWS
from fairpc.evidence.assumptions_within import CrossFit
from fairpc.evidence.crossfit import Watch
from fairpc.evidence.intervals import some_of

MOST_SEEDS: Final = 11
FEWEST_SEEDS: Final = 3
_SEED_ROWS: Final = 60_000


@dataclass(frozen=True, eq=False)
class Tested:
    """The plain test, and what it was made of."""

    rows: AuditedRows  #: a sample of a large table
    kept: Bools  #: those of them that were tested: label, group and stratum are known
    table: Array  #: the features of these as they came
    asked: dict[str, Any]  #: what the test was told besides the rows
    plain: AssumptionTest
    fit: CrossFit | None  #: the splits; None for more than two classes

    @property
    def labels(self) -> Positions:
        return self.rows.d[self.kept].astype(np.intp)

    @property
    def groups(self) -> Positions:
        return self.rows.s[self.kept].astype(np.intp)


def assumption_test(job: Job) -> Tested:
    """Test on rows with label and group, in groups that have every class and 10 rows.

    11 ways of splitting unless told otherwise, down to 3 where many rows differ, on which one way
    hardly differs from another.
    """
    settings, n_seeds = job.settings, job.settings.n_seeds
    rows = job.drawn.sample(settings.max_test_rows, settings.random_state)
    known = (rows.d >= 0) & (job.strata.codes(rows.x) >= 0)
    kept = rows.comparable(known, MIN_ROWS, every_class=True)
    # The features as they came: bins were chosen with labels, which a held-out fold may not see.
    frame, features = read_frame(rows.table), rows.features
    if frame.from_array:  # Columns of an array are known by position.
        frame = replace(frame, names=features.names_in)
    columns = typed_columns(frame, features.missing_values)[list(features.names)]
    table = columns.to_numpy()[kept]
    if n_seeds is None:
        affordable = _SEED_ROWS // max(rows.n_distinct, 1)
        # The median over an odd number is one of them.
        n_seeds = min(MOST_SEEDS, max(FEWEST_SEEDS, affordable - 1 + affordable % 2))
    asked: dict[str, Any] = {
        "positive": rows.positive if len(rows.classes) == 2 else None,
        "classifier": None if settings.classifier == "best" else settings.classifier,
        "seeds": range(n_seeds),
        "clusters": some_of(rows.persons, kept),
        "sample_weight": some_of(rows.weights, kept),
    }
    watch = _splits_of(job, "decidable.test")
    given = table, rows.d[kept].astype(np.intp), rows.s[kept].astype(np.intp)
    if len(rows.classes) > 2:
        plain = test_assumptions(*given, level=settings.level, progress=watch, **asked)
        return Tested(rows, kept, table, asked, plain, None)
    fit = CrossFit.of(*given, progress=watch, **asked)
    return Tested(rows, kept, table, asked, fit.plain(settings.level), fit)


def test_within_strata(job: Job) -> StrataTest | TestsByStratum | None:
    """Parity within the strata of the model, on the rows of the plain test; None without strata."""
    if not job.strata:
        return None
    tested = job.tested
    if tested is None:
        raise AuditError(job.left_out["decidable.test"])
    where, level = job.strata.codes(tested.rows.x)[tested.kept], job.settings.level
    if job.strata.within:
        given = tested.table, tested.labels, tested.groups
        asked = tested.asked | {"given": where, "mechanism": "within"}
        watch = _splits_of(job, "strata.test")
        by_stratum: TestsByStratum = test_assumptions(*given, level=level, progress=watch, **asked)
        return by_stratum
    if tested.fit is None:
        raise AuditError(
            "the label has more than two classes: the test within strata that share a mechanism "
            "needs two"
        )
    codes, places = np.unique(where, return_inverse=True)
    return tested.fit.within(tuple(codes.tolist()), places.astype(np.intp), level)


test_within_strata.__test__ = False  # type: ignore[attr-defined]


def _splits_of(job: Job, step: str) -> Watch:
    return lambda done, total: job.tell(step, f": split {done + 1} of {total}")


def named_test(test: AssumptionTest, rows: AuditedRows) -> AssumptionTest:
    """A test on codes of groups and classes, told by name."""
    groups = []
    for found in test.groups:
        bounds = tuple(replace(c, label=rows.classes[c.label]) for c in found.classes)
        groups.append(replace(found, group=rows.groups[found.group], classes=bounds))
    return replace(
        test,
        groups=tuple(groups),
        classes=tuple(rows.classes[k] for k in test.classes),
        positive=None if test.positive is None else rows.classes[test.positive],
    )
