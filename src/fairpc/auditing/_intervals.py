"""Bootstrap intervals of a mechanism that EM learned, on the training rows.

They show how much the rows vary by chance, not what the labels leave open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fairpc.auditing._job import Job
from fairpc.auditing._mechanism import MechanismFacts
from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError
from fairpc.evidence import AssumptionTest, StrataTest, TestsByStratum
from fairpc.models import (
    CircuitClassifier,
    Draws,
    FittedDecisions,
    ForestDistribution,
    Subject,
    intervals,
)

REPLICATES: Final = 200
FEWEST_REPLICATES: Final = 50
UPDATES: Final = 500

DRAW_WORK: Final = 1e12
"""``refit_cost`` × updates that draws may take unasked: about ten seconds of one core."""

_M_STEP: Final = 1000
_DRAWN_ANYWAY: Final = f"audit(…, n_replicates={REPLICATES})"
_OF_CIRCUITS: Final = (
    "The intervals leave out the prior, which pulls the learned value towards D = Df, so that "
    "value may lie outside of its interval. They show how much the rows vary by chance, not what "
    "the data leave open; see the next section."
)


def with_intervals(job: Job) -> MechanismFacts:
    """The mechanism with bootstrap intervals, of a model on its own training rows.

    From 50 to 200 draws unless told otherwise, as many as are quick, of all rows: as they are in
    the table, or merged. None of a model whose mechanism is a point of a set: draws move the point
    less than the truth may be away from it.
    """
    model, settings, n_replicates = job.model, job.settings, job.settings.n_replicates
    rows = job.drawn if job.drawn.n_rows == job.rows.n_rows else job.rows
    if n_replicates == 0:
        raise AuditError("intervals of the mechanism were not asked for")
    circuit = _drawable(model)
    _check_drawable(rows, job.own_test)
    if model.warnings_:
        raise AuditError(
            "the fit warned that its mechanism must not be read as what happened: an interval "
            "would look more certain than it is"
        )
    if n_replicates is None:
        n_replicates = _affordable(circuit, rows)
    subject = Subject.of_codes(circuit, rows.coded(), rows.persons)
    draws = Draws(n_replicates, UPDATES, settings.level, subject.persons, rows.counts)
    # The plain test says nothing about a model with strata.
    unstratified = None if job.strata or job.test is None else rows.named(job.test)
    report = job.within("mechanism.intervals")
    bootstrap = intervals(subject, draws, unstratified, None, settings.random_state, report)
    if bootstrap.refused is not None:
        raise AuditError(bootstrap.refused)
    facts: MechanismFacts = job.results["mechanism"]
    cells = tuple(
        replace(cell, interval=(float(bootstrap.lower[place]), float(bootstrap.upper[place])))
        for cell, place in zip(facts.cells, np.ndindex(bootstrap.lower.shape), strict=True)
    )
    ends = zip(bootstrap.fair_rate_lower.tolist(), bootstrap.fair_rate_upper.tolist(), strict=True)
    return replace(
        facts,
        cells=cells,
        decision_rate_intervals=tuple(ends),
        level=bootstrap.level,
        covered=_OF_CIRCUITS,
        n_replicates=bootstrap.n_replicates,
    )


def _drawable(model: FittedDecisions) -> CircuitClassifier:
    """A circuit whose mechanism EM learned; an AuditError for models that choose it in a set."""
    if isinstance(model, CircuitClassifier) and not isinstance(
        model.distribution_, ForestDistribution
    ):
        return model
    raise AuditError(
        f"the mechanism of this {type(model).__name__} is a point of all that the labels leave "
        "possible, and a bootstrap interval around it would look more certain than it is: none "
        "is made, and ranges are shown where the labels leave some"
    )


def _affordable(model: CircuitClassifier, rows: AuditedRows) -> int:
    """Draws that are made unasked; an AuditError says why there are none."""
    quick = int(DRAW_WORK / (refit_cost(model, rows) * UPDATES))
    n_replicates = min(REPLICATES, max(FEWEST_REPLICATES, quick))
    if n_replicates > 2 * quick:
        raise AuditError(
            "fitting this model again to draws of these rows takes long. "
            f"{_DRAWN_ANYWAY} does it anyway"
        )
    return n_replicates


def refit_cost(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs: distinct rows × edges; the M-step is worth a thousand rows."""
    return float(rows.n_distinct + _M_STEP) * model.distribution_.n_edges


def _check_drawable(
    rows: AuditedRows, test: AssumptionTest | StrataTest | TestsByStratum | None
) -> None:
    """An AuditError says what forbids intervals: other rows, or the test."""
    if not rows.same_rows_as_fit:
        other = "other rows were audited: audit the training rows to get them"
        if rows.same_rows_as_fit is None:
            other = "the model's file does not say whether these are its rows: fit it again"
        raise AuditError(
            f"intervals of the mechanism need a bootstrap of the training rows, but {other}"
        )
    if rows.n_rows < rows.n_table:
        raise AuditError(
            "intervals of the mechanism need a bootstrap of all training rows, but their "
            "distinct rows do not fit into memory: allow more memory"
        )
    if test is None:
        raise AuditError(
            "the assumptions behind a mechanism could not be tested on these rows, and an "
            "interval would look more certain than it is"
        )
    if test.rejected:
        raise AuditError(
            "these rows contradict the assumptions behind a mechanism: an interval would "
            "have no meaning"
        )
