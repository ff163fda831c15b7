"""Parts of the rows: distinct rows with their weights, what is held out, parts put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpc.data.table import distinct_rows
from fairpc.errors import LearningError
from fairpc.errors.arrays import Codes, Floats
from fairpc.fair.rows import Rows
from fairpc.fair.top import Places


@dataclass(frozen=True, eq=False)
class Part:
    """Distinct rows with summed weights.

    Attributes:
        rows: the distinct rows.
        places: the groups that each of them may be from.
        n_rows: rows as they were given; a row of whole weight n is n rows.
        effective: number of rows of equal weight that say as much: whole weights count
            copies of a row, others give Kish's effective sample size.
    """

    rows: Rows
    places: Places
    n_rows: int
    effective: float

    @classmethod
    def of(cls, rows: Rows) -> Part:
        merged = _merged(rows)
        count = round(float(rows.weights.sum())) if _whole(rows.weights) else rows.n_rows
        return cls(merged, Places.of(merged), count, _effective(rows.weights))

    def mean(self, values: Floats) -> float:
        """Weighted mean of one value per distinct row."""
        used = self.rows.weights > 0
        weights = self.rows.weights[used]
        return float((weights * values[used]).sum() / weights.sum())


def check_alike(rows: Rows, others: Rows) -> Rows:
    """The other rows, if they have the same groups, classes and features."""
    same = (
        rows.n_groups == others.n_groups
        and rows.n_classes == others.n_classes
        and rows.names == others.names
        and np.array_equal(rows.arities, others.arities)
    )
    if not same:
        raise LearningError(
            "training and validation rows differ in groups, classes or features: encode them alike"
        )
    return others


def joined(one: Rows, two: Rows) -> Rows:
    """The rows of both."""
    decisions = [np.full(r.n_rows, -1, np.int16) if r.f is None else r.f for r in (one, two)]
    both = Rows(
        np.concatenate([one.s, two.s]),
        np.concatenate([one.d, two.d]),
        np.asfortranarray(np.concatenate([one.x, two.x])),
        np.concatenate([one.weights, two.weights]),
        one.n_groups, one.n_classes, one.arities, one.names,
    )  # fmt: skip
    return both.with_fair_decisions(np.concatenate(decisions))


def hold_out(rows: Rows, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to fit to and rows held out: the same part of every (d, s), at random.

    A row of whole weight n counts as n rows.
    """
    if not 0 < fraction < 1:
        raise LearningError(f"validation_fraction is {fraction}: give a number between 0 and 1")
    stratum = rows.s.astype(np.int64) * (rows.n_classes + 1) + rows.d
    strata = [np.flatnonzero(stratum == k) for k in np.unique(stratum)]
    whole = _whole(rows.weights)
    weights = rows.weights if whole else (rows.weights > 0).astype(np.float64)
    held = np.zeros(rows.n_rows)
    for here in strata:
        held[here] = _drawn(weights[here], fraction, rng)
    if not held.any():
        largest = max(strata, key=lambda here: float(weights[here].sum()))
        held[rng.choice(largest[weights[largest] > 0])] = 1.0
    if not whole:
        held = held * rows.weights
    kept = rows.weights - held
    if not kept.any():
        raise LearningError(
            f"there is {rows.n_rows} row: none is left to fit to where one is held out; "
            "give validation rows"
        )
    return _weighted(rows, kept), _weighted(rows, held)


def _whole(weights: Floats) -> bool:
    return np.array_equal(weights, np.floor(weights))


def _effective(weights: Floats) -> float:
    total = float(weights.sum())
    return total if _whole(weights) else total**2 / float(np.dot(weights, weights))


def _drawn(weights: Floats, fraction: float, rng: np.random.Generator) -> Floats:
    """How many of each row's copies are drawn, of all copies the nearest number to a fraction."""
    copies = weights.astype(np.int64)
    total = int(copies.sum())
    if not total:
        return np.zeros(len(copies))
    n = round(fraction * total)
    drawn = rng.multivariate_hypergeometric(copies, n, method="marginals")
    return np.asarray(drawn, np.float64)


def _weighted(rows: Rows, weights: Floats) -> Rows:
    """The rows of positive weight, with these weights."""
    used = np.flatnonzero(weights > 0)
    return rows.take(used).with_weights(weights[used])


def _merged(rows: Rows) -> Rows:
    arities = np.concatenate([[rows.n_groups, rows.n_classes], rows.arities])
    columns = [rows.s[:, None], rows.d[:, None], rows.x]
    if rows.f is not None:
        arities, columns = np.append(arities, rows.n_classes), [*columns, rows.f[:, None]]
    codes: Codes = np.asfortranarray(np.concatenate(columns, axis=1))
    ids, first = distinct_rows(codes, arities)
    weights = np.asarray(np.bincount(ids, rows.weights), np.float64)
    return rows.take(first.astype(np.int64)).with_weights(weights)
