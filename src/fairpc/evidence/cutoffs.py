"""Where a score is high enough that nearly every row beyond it has the class; folds of persons."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fairpc.errors.arrays import Floats, Positions

MIN_SIZE: Final = 30
_Z: Final = 1.96


def best_cut(scores: Floats, hits: Floats, totals: Floats, min_size: float) -> float:
    """The cut-off whose set {score ≥ cut} has the largest Wilson lower bound of its hit rate.

    Args:
        scores: per distinct row.
        hits, totals: rows of the class, and all rows, at that score.
        min_size: of the set; the whole table is taken where it is smaller.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    n, x = np.cumsum(totals[order]), np.cumsum(hits[order])
    last = np.append(ranked[1:] != ranked[:-1], True)
    # Sums of weights that should reach the size exactly may miss it by rounding.
    allowed = last & (n >= min_size - 1e-9)
    if not allowed.any():
        return -math.inf
    n, x = n[allowed], x[allowed]
    rate, share = x / n, _Z * _Z / n
    half = _Z * np.sqrt(np.maximum(rate * (1 - rate), 0.0) / n + share / (4 * n))
    bound = (rate + share / 2 - half) / (1 + share)
    return float(ranked[allowed][np.argmax(bound)])


def deal(
    labels: Positions, persons: Positions | None, k: int, rng: np.random.Generator
) -> Positions:
    """A fold per row: shuffled, sorted by class, dealt in turn; a person is in one fold only."""
    if persons is not None:
        _, first, person = np.unique(persons, return_index=True, return_inverse=True)
        return deal(labels[first], None, k, rng)[person]
    shuffled = rng.permutation(len(labels))
    # Short integers are sorted in linear time.
    order = shuffled[np.argsort(labels[shuffled].astype(np.int16), kind="stable")]
    folds = np.empty(len(labels), np.intp)
    folds[order] = np.arange(len(labels)) % k
    return folds
