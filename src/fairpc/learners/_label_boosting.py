"""Gradient boosting for the test of the assumptions: many fits on the same rows.

Fits differ only in how often each row counts. The test needs hundreds of them, for each of which
scikit-learn would bin all columns anew, levels of a category one by one. The trees
(:mod:`fairpc.learners`) are those of its ``HistGradientBoostingClassifier`` with the constants
below.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Floats
from fairpc.learners._trees import Cells, Grower, Limits, stacked

Bins = npt.NDArray[np.uint8]
"""Bin of each value among those of its column, [column, row]."""

BINS: Final = 32
BIN_ROWS: Final = 20_000
"""Values of a column that are told apart, about; rows among which they are looked for."""
ROUNDS: Final = 24
RATE: Final = 0.25
LEAVES: Final = 8
SHRINKING: Final = 5.0
LEAST: Final = 1e-3
"""Trees, the share of each that is taken, leaves of a tree, the curvature that is added to that of
a leaf, and the least that a leaf has. Rows are merged, so leaves are held back by what they weigh
and not by a number of rows."""


def binned(rows: Floats) -> Bins:
    """Columns by the bin of each value, or of the quantile that it is up to if values are many.

    Labels are not looked at. The least and the largest value have bins of their own: a rare
    level is not lost.
    """
    some = rows[:: max(len(rows) // BIN_ROWS, 1)]
    found = np.empty(rows.shape[::-1], np.uint8)
    for j, column in enumerate(np.sort(some, axis=0).T):
        edges = column[np.append(True, column[1:] != column[:-1])]
        if len(edges) > BINS:
            quantiles = column[np.arange(BINS) * (len(column) - 1) // BINS]
            edges = np.unique(np.append(quantiles, edges[-2:]))
        found[j] = np.searchsorted(edges, rows[:, j])
    return found


def cells(codes: Bins) -> Cells:
    """The bins of all columns, which have an order, as trees take them."""
    sizes, ordered = codes.max(axis=1).astype(np.int64) + 1, np.zeros(len(codes), np.bool_)
    return Cells.of(codes, sizes, ordered, sparse=True)


def boosted(rows: Cells, counts: Floats) -> Floats:
    """P(class | row) for every row, from [row, class] of counts, of which every class must have."""
    n_odds = 1 if counts.shape[1] == 2 else counts.shape[1]
    hits, total = np.ascontiguousarray(counts[:, -n_odds:].T), counts.sum(axis=1)
    share = hits.sum(axis=1) / total.sum()
    start = np.log(share / (1 - share) if n_odds == 1 else share)
    odds = np.repeat(start[:, None], len(counts), axis=1)
    limits = Limits(1.0, LEAST, SHRINKING, RATE)
    grower = Grower.of(rows, np.flatnonzero(total), LEAVES, limits)
    every_column = np.zeros(grower.shape)
    for _ in range(ROUNDS):
        p = _shares(odds)
        slopes, bends = hits - total * p, total * p * (1 - p)
        for own, slope, bend in zip(odds, slopes, bends, strict=True):
            stacked([grower.grow(slope, bend, every_column)]).add_to(own, rows.x)
    p = _shares(odds)
    return np.concatenate([1 - p, p]).T if n_odds == 1 else p.T


def _shares(margin: Floats) -> Floats:
    """Probabilities, [class, row]: of the second class of two, or of each."""
    if len(margin) == 1:
        small = np.exp(-np.abs(margin))
        return np.asarray(np.where(margin >= 0, 1.0, small) / (1 + small), np.float64)
    likely = np.exp(margin - margin.max(axis=0, keepdims=True))
    return np.asarray(likely / likely.sum(axis=0, keepdims=True), np.float64)
