"""Distinct rows with their weights: what is held out, and rows put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairpc.core import Codes, Floats, LearningError
from fairpc.data import distinct_rows
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, Places

_MANY: Final = 1e8


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows with summed weights."""

    rows: Rows  #: the distinct rows
    places: Places  #: the groups that each of them may be from
    n_rows: int  #: rows of the table; a row of whole weight n is n rows
    effective: float  #: rows of equal weight that say as much (Kish's effective sample size)

    @classmethod
    def of(cls, rows: Rows) -> DistinctRows:
        merged = _merged(rows)
        total, each = float(rows.weights.sum()), rows.each
        count, effective = float(each.sum()), total
        if rows.copies is not None or not rows.whole:
            effective = effective_size(rows.weights, each)
        if rows.copies is None and not rows.whole:
            count = rows.n_rows
        return cls(merged, Places.of(merged), round(count), effective)

    def mean(self, values: Floats) -> float:
        """Weighted mean of one value per distinct row."""
        used = self.rows.weights > 0
        weights = self.rows.weights[used]
        return float((weights * values[used]).sum() / weights.sum())


def effective_size(weights: Floats, each: Floats) -> float:
    """Rows of equal weight that say as much (Kish), of rows that are ``each`` so many rows."""
    unit = np.divide(weights, each, out=np.zeros(len(each)), where=each > 0)
    squares = float(np.dot(each * unit, unit))
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def check_alike(rows: Rows, others: Rows) -> Rows:
    """The other rows, if they have the same groups, classes and features."""
    if Layout.of("FairPC", rows) != Layout.of("FairPC", others):
        raise LearningError(
            "training and validation rows differ in groups, classes or features: encode them alike"
        )
    return others


def joined(one: Rows, two: Rows) -> Rows:
    """The rows of both."""
    decisions = [np.full(r.n_rows, -1, np.int16) if r.f is None else r.f for r in (one, two)]
    s, d, x, weights = (
        np.concatenate([getattr(one, name), getattr(two, name)])
        for name in ("s", "d", "x", "weights")
    )
    copies = None if one.copies is None else np.concatenate([one.copies, two.each])
    rows = replace(one, s=s, d=d, x=np.asfortranarray(x), weights=weights, f=None, copies=copies)
    return rows.with_fair_decisions(np.concatenate(decisions))


def hold_out(rows: Rows, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to fit to and rows held out: the same share of every (d, s), at random.

    With strata s is the subgroup.
    Rows of the table are drawn, of which one here may be several.
    """
    if not 0 < fraction < 1:
        raise LearningError(f"validation_fraction is {fraction}: give a number between 0 and 1")
    cell = rows.subgroups.astype(np.int64) * (rows.n_classes + 1) + rows.d
    cells = [np.flatnonzero(cell == k) for k in np.unique(cell)]
    each = rows.each
    held = np.zeros(rows.n_rows)
    for here in cells:
        held[here] = _drawn(each[here], fraction, rng)
    if not held.any():
        largest = max(cells, key=lambda here: float(each[here].sum()))
        held[rng.choice(largest[each[largest] > 0])] = 1.0
    kept = each - held
    if not kept.any():
        raise LearningError(
            f"there is {rows.n_rows} row: if one is held out, none is left to fit to; "
            "give validation rows"
        )
    return _copied(rows, kept), _copied(rows, held)


def some_rows(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """All rows, or about so many of the table's rows where there are more."""
    each = rows.each
    total = float(each.sum())
    if total <= most:
        return rows
    if total < _MANY:
        return hold_out(rows, most / total, rng)[1]
    # Weights that stand for people of a population: too many to draw without putting back.
    share = each / each.max()
    return _copied(rows, rng.multinomial(most, share / share.sum()).astype(np.float64))


def _drawn(weights: Floats, fraction: float, rng: np.random.Generator) -> Floats:
    """How many of each row's copies are drawn, of all copies the nearest number to a fraction."""
    copies = weights.astype(np.int64)
    total = int(copies.sum())
    if not total:
        return np.zeros(len(copies))
    n = round(fraction * total)
    drawn = rng.multivariate_hypergeometric(copies, n, method="marginals")
    return np.asarray(drawn, np.float64)


def _copied(rows: Rows, copies: Floats) -> Rows:
    """The rows of which there are some, that many times."""
    used = np.flatnonzero(copies > 0)
    some, copies = rows.take(used), copies[used]
    if some.copies is not None:
        return some.with_weights(some.weights / some.copies * copies, copies)
    return some.with_weights(copies if rows.whole else some.weights)


def _merged(rows: Rows) -> Rows:
    arities = np.concatenate([[rows.n_groups, rows.n_classes], rows.arities])
    columns = [rows.s[:, None], rows.d[:, None], rows.x]
    if rows.f is not None:
        arities, columns = np.append(arities, rows.n_classes), [*columns, rows.f[:, None]]
    codes: Codes = np.asfortranarray(np.concatenate(columns, axis=1))
    ids, first = distinct_rows(codes, arities)
    weights = np.asarray(np.bincount(ids, rows.weights), np.float64)
    copies = None if rows.copies is None else np.bincount(ids, rows.copies).astype(np.float64)
    return rows.take(first.astype(np.int64)).with_weights(weights, copies)
