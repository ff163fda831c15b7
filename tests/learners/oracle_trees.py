"""A slow, obvious twin of the trees: every division is tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.learners._boosting import TreeLimits

Array = npt.NDArray[Any]


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
    limits: TreeLimits,
) -> Array:
    """The step of each row by one tree, the leaf that gains most divided first.

    ``allowed`` says which columns each leaf may be divided by, leaves × columns.
    """
    slope, bend = derivatives

    def worth(rows: Array) -> float:
        return float(slope[rows].sum() ** 2 / (bend[rows].sum() + limits.shrinking))

    def best(leaf: int, rows: Array) -> tuple[float, Array | None]:
        found: tuple[float, Array | None] = (1e-12, None)
        for j in np.flatnonzero(allowed[leaf]):
            column = codes[rows, j]
            ratios = {
                v: slope[rows][column == v].sum()
                / (bend[rows][column == v].sum() + limits.shrinking)
                for v in set(column.tolist())
            }
            for keep in divisions(column, bool(named[j]), ratios):
                parts = rows[keep], rows[~keep]
                if min(map(len, parts)) < limits.rows:
                    continue
                if min(bend[part].sum() for part in parts) < limits.hessian:
                    continue
                gain = sum(map(worth, parts)) - worth(rows)
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
        steps[rows] = limits.rate * slope[rows].sum() / (bend[rows].sum() + limits.shrinking)
    return steps
