"""Rows as distinct rows in one fixed order, whichever way they were read.

A fit depends on the order of its rows where chance draws validation rows and
where floating-point sums are rounded. With equal rows merged and sorted, a table
in memory and the same table in a file give the same bits.
"""

from __future__ import annotations

import numpy as np

from fairpc.data.distinct import Distinct, Packing
from fairpc.data.stream import TableCoding
from fairpc.fair.rows import Rows


def rows_of(distinct: Distinct, packing: Packing, coding: TableCoding) -> Rows:
    """Rows of codes S, D, X as packed by a ``BatchEncoder``."""
    codes = packing.unpack(distinct.words)
    features = coding.features
    return Rows(
        codes[:, 0], codes[:, 1], codes[:, 2:], distinct.weights, len(coding.groups.names),
        len(coding.labels.classes), np.array(features.arities, np.int64), features.names,
    )  # fmt: skip


def merged(rows: Rows) -> Rows:
    """Equal rows as one, in lexicographic order.

    Only where weights count rows: other weights say how rows are to be drawn, and
    rows whose fair decision is known stay as they are.
    """
    if rows.f is not None or not np.array_equal(rows.weights, np.floor(rows.weights)):
        return rows
    packing = Packing((rows.n_groups, rows.n_classes, *rows.arities.tolist()))
    used = np.flatnonzero(rows.weights > 0)
    some = rows if len(used) == rows.n_rows else rows.take(used)
    words = packing.pack([some.s, some.d, *some.x.T])
    distinct = Distinct.of(words, some.weights)
    codes = packing.unpack(distinct.words)
    return Rows(
        codes[:, 0], codes[:, 1], codes[:, 2:], distinct.weights, rows.n_groups, rows.n_classes,
        rows.arities, rows.names,
    )  # fmt: skip
