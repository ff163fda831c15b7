"""Soft cells: the rows of each (f, s), with weights P(f, s | row) in place of a hard label.

A structure learned on them is that of P(x | f, s) with the latent fair decision filled in by its
posterior (structural EM), where the paper puts D in its place. And the upper layers of a model
learned by themselves, as its P(x | f, s) stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Codes, Floats
from fairpc.data import Table, distinct_rows
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import DF, Top
from fairpc.models._fit import Options
from fairpc.models._priors import top_prior
from fairpc.models._rows import Rows
from fairpc.models._top_em import Places, top_em

NEXT_TO_NONE: Final = 0.002
"""Probability, as a multiple of an equal share, under which a cell is left out."""


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows with summed weights."""

    rows: Rows  #: the distinct rows
    places: Places  #: the groups that each of them may be from

    @classmethod
    def of(cls, rows: Rows) -> DistinctRows:
        merged = _merged(rows)
        return cls(merged, Places.of(merged))


def _merged(rows: Rows) -> Rows:
    arities = np.concatenate([[rows.n_groups, rows.n_classes], rows.arities])
    columns = [rows.s[:, None], rows.d[:, None], rows.x]
    codes: Codes = np.asfortranarray(np.concatenate(columns, axis=1))
    ids, first = distinct_rows(codes, arities)
    weights = np.asarray(np.bincount(ids, rows.weights), np.float64)
    copies = None if rows.copies is None else np.bincount(ids, rows.copies).astype(np.float64)
    return rows.take(first.astype(np.int64)).with_weights(weights, copies)


def cell_posterior(distribution: FairDistribution, rows: Rows, places: Places) -> Floats:
    """P(f, s | row) for each place: places × classes."""
    codes = distribution.layout.codes(places.s, places.d, rows.x[places.row])
    joint = np.empty((len(codes), rows.n_classes))
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint[:, f] = distribution.circuit.log_marginal(codes)
    return places.normalised(joint)[1]


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
    # Less than the likeliest cell has.
    least = NEXT_TO_NONE / (places.n_groups * places.n_classes)
    kept = np.where(posterior < least, 0.0, posterior)
    total = np.bincount(places.row, kept.sum(axis=1), len(places.weights))
    result: Floats = kept / np.where(total > 0, total, 1.0)[places.row, None]
    return result


def without_prior(distribution: FairDistribution, rows: Rows, options: Options) -> Floats:
    """P(D = d | Df = f, S = s) as EM has it without prior rows of the mechanism, [s, f, d].

    P(S), P(Df) and the mechanism are learned again; P(x | f, s) stays as it was fitted.
    """
    part, layout, rates = DistinctRows.of(rows), distribution.layout, distribution.top_rates
    places = part.places
    codes = layout.codes(places.s, None, part.rows.x[places.row])
    densities = np.empty((len(codes), rows.n_classes))
    with np.errstate(divide="ignore"):
        above = np.log(rates.group_rate[:, None] * rates.by_subgroup(layout))[places.s]
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint = distribution.circuit.log_marginal(codes)
        densities[:, f] = np.subtract(joint, above[:, f], out=joint, where=np.isfinite(above[:, f]))
    prior = top_prior(layout, options.smoothing)
    steps = top_em(places, densities, rates, prior, options.limits)
    *_, last = options.stopping.until(steps, places.total_weight)
    top, theta = Top.of(distribution.circuit.graph, layout), distribution.circuit.parameters.copy()
    theta[top.group], theta[top.mechanism] = last.step.rates.group_rate, last.step.rates.mechanism
    theta[top.decision] = last.step.rates.by_subgroup(layout)
    return distribution.with_parameters(theta).mechanism
