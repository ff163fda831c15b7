"""Wide tables: each fold learns its score from the columns that tell its training labels most.

Of hundreds of columns, learners of a score, and trees that imitate it, would take their time from
columns that say next to nothing of the label. Which ones tell it is part of what is learned: the
labels of the rows that a fold holds out have no say. Chosen by all labels, 60 of 3,000 columns of
noise would tell those of 60 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import xlogy

from fairpc.core import Floats, Ints
from fairpc.models._rows import Rows

WIDE: Final = 100
TELLING: Final = 60
"""Columns above which a table is wide, and those that a fold of a wide one learns from."""


def telling_columns(rows: Rows, weights: Floats) -> Ints:
    """The columns to learn from, in order: all of a narrow table, and always those of strata."""
    n_columns = len(rows.names)
    if n_columns <= WIDE:
        return np.arange(n_columns)
    gains = np.array([_gain(rows, weights, j) for j in range(n_columns)])
    gains[list(rows.strata.columns)] = np.inf
    return np.sort(np.argsort(-gains, kind="stable")[:TELLING])


def narrowed(rows: Rows, columns: Ints) -> Rows:
    """The rows with some of their columns, those of strata among them."""
    if len(columns) == len(rows.names):
        return rows
    place = {int(j): k for k, j in enumerate(columns)}
    return replace(
        rows,
        x=np.asfortranarray(rows.x[:, columns]),
        arities=rows.arities[columns],
        names=tuple(rows.names[j] for j in columns),
        strata=replace(rows.strata, columns=tuple(place[j] for j in rows.strata.columns)),
    )


def _gain(rows: Rows, weights: Floats, j: int) -> float:
    """Nats by which a column raises the likelihood of the labels of each group, less parameters.

    A missing value is one more value; a parameter costs a nat, as by Akaike's criterion.
    """
    known = (rows.s >= 0) & (rows.d >= 0) & (weights > 0)
    shape = int(rows.arities[j]) + 1, rows.n_groups, rows.n_classes
    places = rows.x[known, j] % shape[0], rows.s[known], rows.d[known]
    cells = np.ravel_multi_index(tuple(p.astype(np.int64) for p in places), shape)
    counts = np.bincount(cells, weights[known], int(np.prod(shape))).reshape(shape)
    by_value, by_class = counts.sum(axis=2), counts.sum(axis=0)
    gain = xlogy(counts, counts).sum() - xlogy(by_value, by_value).sum()
    total = by_class.sum(axis=1)
    gain -= xlogy(by_class, by_class).sum() - xlogy(total, total).sum()
    levels = np.count_nonzero(by_value, axis=0), np.count_nonzero(by_class, axis=1)
    return float(gain - (np.maximum(levels[0] - 1, 0) * np.maximum(levels[1] - 1, 0)).sum())
