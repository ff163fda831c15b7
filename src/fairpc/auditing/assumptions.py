"""The test of the assumptions on audited rows: groups that are too small are left out of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpc.auditing.rows import AuditedRows
from fairpc.comparison.table import typed_columns
from fairpc.errors import AuditError
from fairpc.evidence import AssumptionTest, test_assumptions
from fairpc.evidence.assumptions import MIN_ROWS


def tested(rows: AuditedRows, level: float, n_seeds: int, classifier: Any) -> AssumptionTest:
    """Test on the rows with label and group, in groups that have every class and 10 rows."""
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
    return test_assumptions(
        columns.to_numpy()[kept], rows.d[kept].astype(np.intp), rows.s[kept].astype(np.intp),
        positive=rows.positive if binary else None, level=level, n_seeds=n_seeds,
        classifier=classifier,
        clusters=None if rows.persons is None else rows.persons[kept],
        sample_weight=None if rows.weights is None else rows.weights[kept],
    )  # fmt: skip
