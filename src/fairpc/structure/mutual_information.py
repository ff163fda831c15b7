"""Pairwise counts and mutual information of categorical columns.

Every column becomes planes, one per value but the most frequent, whose counts
follow from the others. A missing value is counted as one more value and left
out of the result, so each pair is counted over the rows where both are observed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairpc.errors.arrays import Array, Bools, Codes, Floats, Integers, Ints

PSEUDOCOUNT: Final = 1.0
"""Prior rows per cell of a 2×2 table, the reference's choice; see :func:`mutual_information`."""

_MOST_DIGITS: Final = 20


def pair_counts(columns: Codes, weights: Floats, sizes: Integers) -> Floats:
    """Weighted counts of all pairs of values, as one symmetric matrix.

    ``columns`` holds one row per variable (-1 = missing). Values are stacked:
    value v of variable j is row ``offsets(sizes)[j] + v`` of the result, so that a
    diagonal block holds the counts of one variable. The Gram matrix of the planes is
    taken on packed bits, 64 rows at a time, where weights are whole numbers, and
    over the planes that hold in each row otherwise.
    """
    from fairpc.structure import _kernels

    # Kernels are compiled per type, and read-only is part of an array's type: give one.
    columns, weights = _read_only(columns), _read_only(weights)
    start = offsets(sizes)
    single, plane, n_planes = _kernels.number_planes(columns, weights, start)
    products = _kernels.bit_products if _whole(weights) else _kernels.row_products
    gram = products(columns, weights, start, plane, n_planes)
    counts: Floats = _kernels.expand(gram, plane, single, start)
    return counts


def offsets(sizes: Integers) -> Ints:
    """First stacked row of each variable, and the total at the end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def mutual_information(
    counts: Floats,
    sizes: Integers,
    pseudocount: float = PSEUDOCOUNT,
    possible: Bools | None = None,
) -> Floats:
    """Mutual information in nats of every pair of variables, from :func:`pair_counts`.

    Each table of a pair is smoothed by ``4 * pseudocount`` prior rows spread evenly
    over its cells: one per cell where both are binary, as in the reference, and
    no more in total where they are not. ``possible`` says which of the stacked values
    there are; all by default.
    """
    from fairpc.structure import _kernels

    start = offsets(sizes)
    known = np.ones(int(start[-1]), bool) if possible is None else possible
    result: Floats = _kernels.pair_information(counts, start, known, float(pseudocount))
    return result


def _read_only(array: Array) -> Array:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _whole(weights: Floats) -> bool:
    """Whether each weight is a whole number of few binary digits."""
    if not len(weights) or weights.max() >= 1 << _MOST_DIGITS:
        return False
    return bool((weights == np.floor(weights)).all())
