"""Soft cells: the rows of each (f, s), with weights P(f, s | row) in place of a hard label.

Structural EM: a structure learned on soft cells is that of P(x | f, s) with the
hidden decision filled in by its posterior, where the paper puts D in its place.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairpc.data.table import Table
from fairpc.errors.arrays import Floats
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.rows import Rows
from fairpc.fair.top import DF
from fairpc.fair.upper import Places

NEXT_TO_NONE: Final = 0.002
"""Probability, as a multiple of an equal share, under which a cell is left out."""


def cell_posterior(
    distribution: FairDistribution, rows: Rows, places: Places
) -> tuple[Floats, Floats]:
    """log P(row), and P(f, s | row) for each place: places × classes."""
    codes = distribution.layout.codes(places.s, places.d, rows.x[places.row])
    joint = np.empty((len(codes), rows.n_classes))
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint[:, f] = distribution.circuit.log_marginal(codes)
    return places.normalised(joint)


def soft_cells(rows: Rows, places: Places, posterior: Floats) -> list[Table]:
    """The rows of each cell (f, s), with f as the slow index, weighted by their posterior.

    A row does not enter cells that are next to impossible for it, and its weight is
    shared out among the others: cells are then smaller, and searches over them faster.
    """
    tables = []
    weighted = _likely(places, posterior) * rows.weights[places.row, None]
    of_group = [np.flatnonzero(places.s == s) for s in range(rows.n_groups)]
    for f in range(rows.n_classes):
        for group in of_group:
            here = group[weighted[group, f] > 0]
            x = np.asfortranarray(rows.x[places.row[here]])
            tables.append(Table(x, weighted[here, f], rows.arities, rows.names))
    return tables


def _likely(places: Places, posterior: Floats) -> Floats:
    """The posterior without cells of next to no probability; each row still sums to one."""
    least = NEXT_TO_NONE / (places.n_groups * places.n_classes)  # less than the likeliest cell has
    kept = np.where(posterior < least, 0.0, posterior)
    total = np.bincount(places.row, kept.sum(axis=1), len(places.weights))
    result: Floats = kept / np.where(total > 0, total, 1.0)[places.row, None]
    return result
