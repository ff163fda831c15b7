"""Soft cells: the rows of each (f, s), with weights P(f, s | row) in place of a hard label.

Structural EM: a structure learned on soft cells is that of P(x | f, s) with the
hidden decision filled in by its posterior, where the paper puts D in its place.
"""

from __future__ import annotations

import numpy as np

from fairpc.data.table import Table
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.rows import FloatArray, Rows
from fairpc.fair.top import DF
from fairpc.fair.upper import Places


def cell_posterior(
    distribution: FairDistribution, rows: Rows, places: Places
) -> tuple[FloatArray, FloatArray]:
    """log P(row), and P(f, s | row) for each place: places × classes."""
    codes = distribution.layout.codes(places.s, places.d, rows.x[places.row])
    joint = np.empty((len(codes), rows.n_classes))
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint[:, f] = distribution.circuit.log_marginal(codes)
    return places.normalised(joint)


def soft_cells(rows: Rows, places: Places, posterior: FloatArray) -> list[Table]:
    """The rows of each cell (f, s), with f as the slow index, weighted by their posterior."""
    tables = []
    weighted = posterior * rows.weights[places.row, None]
    of_group = [np.flatnonzero(places.s == s) for s in range(rows.n_groups)]
    features = [np.asfortranarray(rows.x[places.row[here]]) for here in of_group]
    for f in range(rows.n_classes):
        for here, x in zip(of_group, features, strict=True):
            tables.append(Table(x, weighted[here, f], rows.arities, rows.names))
    return tables
