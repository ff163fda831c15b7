"""Parts of an audit that fit the model again: intervals of the mechanism, random starts."""

from __future__ import annotations

from typing import Final

from fairpc.auditing.mechanism import MechanismFacts, with_intervals
from fairpc.auditing.naming import named
from fairpc.auditing.rows import AuditedRows
from fairpc.errors import AuditError
from fairpc.estimators.base import CircuitClassifier
from fairpc.evidence import AssumptionTest
from fairpc.refits import Stability, bootstrap_mechanism, stability
from fairpc.refits.bootstrap import bootstrap_counted
from fairpc.refits.workbench import Report, Subject

REPLICATES: Final = 200
FEWEST_REPLICATES: Final = 50
STARTS: Final = 10
STEPS: Final = 500
START_STEPS: Final = 200

DRAW_WORK: Final = 1e12
START_WORK: Final = 5e11
"""(Distinct rows + 1000) × edges × updates of EM that a part may cost unasked: about ten seconds
of one core for draws, five for starts. The M-step costs what a thousand rows do."""
_M_STEP: Final = 1000


def mechanism_with_intervals(
    model: CircuitClassifier,
    rows: AuditedRows,
    facts: MechanismFacts,
    test: AssumptionTest | None,
    *,
    level: float,
    n_replicates: int | None,
    random_state: int,
    progress: Report,
) -> MechanismFacts:
    """Bootstrap intervals for the mechanism of a model on its own training rows.

    ``n_replicates`` None: from 50 to 200, as many as are quick; an AuditError says why there are
    none.
    """
    if n_replicates == 0:
        raise AuditError("intervals of the mechanism were not asked for (n_replicates=0)")
    tested = _check_drawable(rows, test)
    if n_replicates is None:
        quick = int(DRAW_WORK / (_work(model, rows) * STEPS))
        n_replicates = min(REPLICATES, max(FEWEST_REPLICATES, quick))
        if n_replicates > 2 * quick:
            raise AuditError(
                "fitting this model again to draws of these rows takes long: ask for it with "
                f"n_replicates={REPLICATES}, or call fairpc.bootstrap_mechanism"
            )
    said = named(tested, rows.groups, rows.classes)
    if rows.counts is None:
        found = bootstrap_mechanism(
            model, rows.table, rows.labels, sensitive_features=rows.sensitive,
            sample_weight=rows.weights, fair_labels=rows.fair_labels, clusters=rows.persons,
            n_replicates=n_replicates, n_steps=STEPS, level=level, random_state=random_state,
            assumptions=said, callback=progress,
        )  # fmt: skip
    else:
        found = bootstrap_counted(
            Subject.of_codes(model, rows.coded(model.coding_)), rows.counts, said,
            n_replicates=n_replicates, n_steps=STEPS, level=level, random_state=random_state,
            report=progress,
        )  # fmt: skip
    if found.refused is not None:
        raise AuditError(found.refused)
    return with_intervals(facts, found)


def _check_drawable(rows: AuditedRows, test: AssumptionTest | None) -> AssumptionTest:
    """The test that allows intervals; an AuditError says what forbids them."""
    if not rows.same_rows_as_fit:
        raise AuditError(
            "intervals of the mechanism come from drawing its training rows again, and other rows "
            "were audited: audit the training rows to have them"
        )
    if rows.n_rows < rows.n_table:
        raise AuditError(
            "intervals of the mechanism come from drawing all training rows again, and more of "
            "them differ than fit into memory: give more with max_memory"
        )
    if test is None:
        raise AuditError(
            "the assumptions behind a mechanism could not be tested on these rows, and an "
            "interval would look surer than that"
        )
    if test.rejected:
        raise AuditError(
            "these rows contradict the assumptions behind a mechanism: there is nothing for an "
            "interval to cover"
        )
    return test


def spread_over_starts(
    model: CircuitClassifier,
    rows: AuditedRows,
    *,
    n_starts: int | None,
    random_state: int,
    progress: Report,
) -> Stability:
    """Where EM ends from random starts, the structure kept, a fifth of the rows held out.

    ``n_starts`` None: up to 10, as many as are quick; an AuditError says why there are none.
    """
    if not model.distribution_.layout.latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision that a start could move")
    if n_starts == 0:
        raise AuditError("random starts were not asked for (n_starts=0)")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: the model cannot be fitted again to these rows")
    if n_starts is None:
        n_starts = min(STARTS, int(START_WORK / (_work(model, rows) * START_STEPS)) - 1)
        if n_starts < 2:
            raise AuditError(
                "fitting this model again to these rows from random starts takes long: ask for it "
                f"with n_starts={STARTS}, or call fairpc.stability"
            )
    return stability(
        model, rows.table, rows.labels, sensitive_features=rows.sensitive,
        sample_weight=rows.weights, fair_labels=rows.fair_labels, clusters=rows.persons,
        n_starts=n_starts, n_folds=0,
        n_steps=START_STEPS, random_state=random_state, callback=progress,
    )  # fmt: skip


def _work(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs, next to others."""
    return float(rows.n_distinct + _M_STEP) * model.circuit_.graph.n_edges
