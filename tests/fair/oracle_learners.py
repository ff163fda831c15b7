"""Slow, obvious twins of the learners: losses as defined, trees by trying every division."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def loss(odds: Array, d: Array, w: Array, kind: Array, mechanism: Array) -> float:
    """−Σ w log Σ_f P(f) P(d | f), of log odds [class, row], or of class 1 against 0."""
    if len(odds) == 1:
        odds = np.concatenate([np.zeros_like(odds), odds])
    total = 0.0
    for r in range(odds.shape[1]):
        q = np.exp(odds[:, r]) / np.exp(odds[:, r]).sum()
        total -= w[r] * np.log(sum(q[f] * mechanism[kind[r], f, d[r]] for f in range(len(q))))
    return float(total)


def divisions(column: Array, named: bool, ratios: dict[int, float]) -> Iterator[Array]:
    """Every way to keep some rows of a leaf by the values of a column; -1 is missing."""
    if named:
        ranked = sorted(set(column.tolist()), key=lambda v: ratios[v])
        for k in range(1, len(ranked)):
            yield np.isin(column, ranked[:k])
        return
    known = sorted(set(column[column >= 0].tolist()))
    missing = column < 0
    for v in known:
        yield (column >= 0) & (column <= v)
        if missing.any():
            yield missing | (column <= v)


def tree_steps(
    codes: Array,
    named: Array,
    derivatives: tuple[Array, Array],
    allowed: Array,
    limits: tuple[float, float, float],
) -> Array:
    """The step of each row by one tree, the leaf that gains most divided first.

    ``allowed`` says which columns each leaf may be divided by, leaves × columns.
    """
    slope, bend = derivatives
    least, shrinking, rate = limits

    def worth(rows: Array) -> float:
        return float(slope[rows].sum() ** 2 / (bend[rows].sum() + shrinking))

    def best(leaf: int, rows: Array) -> tuple[float, Array | None]:
        found: tuple[float, Array | None] = (1e-12, None)
        for j in np.flatnonzero(allowed[leaf]):
            column = codes[rows, j]
            ratios = {
                v: slope[rows][column == v].sum() / (bend[rows][column == v].sum() + shrinking)
                for v in set(column.tolist())
            }
            for keep in divisions(column, bool(named[j]), ratios):
                if min(keep.sum(), (~keep).sum()) < least:
                    continue
                gain = worth(rows[keep]) + worth(rows[~keep]) - worth(rows)
                if gain > found[0]:
                    found = gain, keep
        return found

    leaves = [np.arange(len(codes))]
    offers = [best(0, leaves[0])]
    while len(leaves) < len(allowed):
        leaf = int(np.argmax([gain for gain, _ in offers]))
        keep = offers[leaf][1]
        if keep is None:
            break
        leaves.append(leaves[leaf][~keep])
        leaves[leaf] = leaves[leaf][keep]
        offers[leaf] = best(leaf, leaves[leaf])
        offers.append(best(len(leaves) - 1, leaves[-1]))
    steps = np.zeros(len(codes))
    for rows in leaves:
        steps[rows] = rate * slope[rows].sum() / (bend[rows].sum() + shrinking)
    return steps
