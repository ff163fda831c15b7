"""Wealth of a gambler who bets against a mean: large wealth is evidence, whenever one looks.

For each candidate mean m two gamblers bet, one that the mean is larger and one that it is
smaller. A bet is fixed before the score it is made on is seen, so that at the true mean
wealth is a fair game, and stays under 1/α for ever with probability 1 − α (Ville).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fairpc.errors.arrays import Floats

GRID: Final = np.linspace(0.0, 1.0, 257)
# Below one, so that no score in [0, 1] can take more than the wealth there is.
_MOST: Final = 0.75
_CHUNK: Final = 4096


def bets(scores: Floats, count: int, total: float, squares: float, log_term: float) -> Floats:
    """Predictable bets (Waudby-Smith and Ramdas 2024), each from the scores before it.

    Args:
        scores: the new scores, in order.
        count, total, squares: number, sum and sum of squares of the scores before them.
        log_term: log(2/α), the evidence aimed at.
    """
    before = count + np.arange(len(scores))
    sums = total + np.append(0.0, np.cumsum(scores)[:-1])
    sums2 = squares + np.append(0.0, np.cumsum(scores**2)[:-1])
    # One pseudo-score 0 and one 1 stand at the beginning.
    mean = (sums + 1.0) / (before + 2)
    variance = np.maximum((sums2 + 1.0) / (before + 2) - mean**2, 1e-6)
    time = before + 1
    return np.minimum(_MOST, np.sqrt(2 * log_term / (variance * time * np.log(1 + time))))


def log_growth(scores: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Growth of log wealth on the grid: betting on a larger mean, and on a smaller one."""
    up, down = np.zeros(len(GRID)), np.zeros(len(GRID))
    for start in range(0, len(scores), _CHUNK):
        x = scores[start : start + _CHUNK, None] - GRID
        size = sizes[start : start + _CHUNK, None]
        up += np.log1p(size * x).sum(axis=0)
        down += np.log1p(-size * x).sum(axis=0)
    return up, down


def difference_region(
    first: tuple[Floats, Floats], last: tuple[Floats, Floats], alpha: float
) -> tuple[float, float]:
    """Range of last − first over all pairs of means that the joint wealth leaves.

    Wealth in both groups multiplies. On each side it is monotone in m, so the least over a
    cell of the grid is at one of its corners, and whole cells are kept: nothing is lost to
    the grid. What is left of one group at a mean of the other is an interval for the same reason.
    """
    a, b = (_cell_evidence(*wealth) for wealth in (first, last))
    best = int(b.argmin())
    # Possible with probability at most alpha: nothing is left, and the best pair is named.
    limit = max(math.log(1 / alpha), math.nextafter(float(a.min() + b[best]), math.inf))
    i = np.flatnonzero(a + b[best] < limit)
    room = limit - a[i]
    below = np.searchsorted(np.maximum.accumulate(b[best::-1]), room)
    above = np.searchsorted(np.maximum.accumulate(b[best:]), room)
    # Rounding may leave no room where the sum has some; the best cell itself is kept.
    lowest, highest = best - np.maximum(below - 1, 0), best + np.maximum(above - 1, 0)
    return float((GRID[lowest] - GRID[i + 1]).min()), float((GRID[highest + 1] - GRID[i]).max())


def _cell_evidence(up: Floats, down: Floats) -> Floats:
    """Least log evidence against the means of each cell: half the wealth on either side."""
    evidence = np.maximum(up, down) - math.log(2)
    return np.minimum(evidence[:-1], evidence[1:])
