"""The test of the assumptions on audited rows: groups that are too small are left out of it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.auditing.rows import AuditedRows
from fairpc.comparison.table import typed_columns
from fairpc.errors import AuditError
from fairpc.evidence import AssumptionTest, test_assumptions
from fairpc.evidence.assumptions import MIN_ROWS

MOST_SEEDS: Final = 11
FEWEST_SEEDS: Final = 3
_SEED_ROWS: Final = 60_000


def tested(rows: AuditedRows, level: float, n_seeds: int | None, classifier: Any) -> AssumptionTest:
    """Test on the rows with label and group, in groups that have every class and 10 rows.

    ``n_seeds`` None: 11 ways of splitting, down to 3 where many rows differ, on which one way
    hardly differs from another.
    """
    rows.check_grouped()
    kept = (rows.d >= 0) & (rows.s >= 0)
    for g in range(len(rows.groups)):
        here = kept & (rows.s == g)
        count = int(here.sum()) if rows.persons is None else len(np.unique(rows.persons[here]))
        if count < MIN_ROWS or len(np.unique(rows.d[here])) < len(rows.classes):
            kept &= rows.s != g
    if len(rows.groups_in(kept)) < 2:
        raise AuditError(
            f"fewer than two groups have {MIN_ROWS} labelled rows and a row of every class"
        )
    # The features as they came: bins were chosen with labels, which a held-out fold may not see.
    columns = typed_columns(rows.columns(), rows.missing_values).select(rows.names)
    binary = len(rows.classes) == 2
    if n_seeds is None:
        affordable = _SEED_ROWS // max(rows.n_distinct, 1)
        # The median over an odd number is one of them.
        n_seeds = min(MOST_SEEDS, max(FEWEST_SEEDS, affordable - 1 + affordable % 2))
    return test_assumptions(
        columns.to_numpy()[kept], rows.d[kept].astype(np.intp), rows.s[kept].astype(np.intp),
        positive=rows.positive if binary else None, level=level, n_seeds=n_seeds,
        classifier=classifier,
        clusters=None if rows.persons is None else rows.persons[kept],
        sample_weight=None if rows.weights is None else rows.weights[kept],
    )  # fmt: skip
