"""Parameters within bounds by a general optimiser; shares no code with what it checks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize

Array = npt.NDArray[np.float64]


def value(counts: Array, theta: Array) -> float:
    """Σ n log θ over the counts that are positive."""
    used = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[used] @ np.log(theta[used]))


def best_value(counts: Array, lower: Array, upper: Array) -> float:
    """The maximum of Σ n log θ with lower ≤ θ ≤ upper and Σ θ = 1, by sequential programming."""
    room = upper - lower
    start = lower + room * (1 - lower.sum()) / max(room.sum(), 1e-12)
    used = counts > 0

    def loss(theta: Array) -> float:
        return -float(counts[used] @ np.log(np.maximum(theta[used], 1e-12)))

    options = {
        "bounds": list(zip(lower, upper, strict=True)),
        "constraints": {"type": "eq", "fun": lambda theta: theta.sum() - 1},
        "options": {"ftol": 1e-13, "maxiter": 1000},
    }
    found = optimize.minimize(loss, start, method="SLSQP", **options)
    return value(counts, np.clip(found.x, lower, upper))


def best_near_value(
    hits: Array, totals: Array, distance: float, lower: Array, upper: Array
) -> float:
    """The maximum of Σ h log π + (n − h) log(1 − π) with all π in a window of this width.

    By a grid of windows and, as each share is by itself there, grids of shares within each.
    """
    best = -np.inf
    for start in np.linspace(-distance, 1, 401):
        total = 0.0
        for h, n, low, high in zip(hits, totals, lower, upper, strict=True):
            ends = max(start, low, 1e-300), min(start + distance, high, 1 - 1e-16)
            if ends[0] > ends[1]:
                total = -np.inf
                break
            tried = np.linspace(*ends, 101)
            total += float((h * np.log(tried) + (n - h) * np.log1p(-tried)).max())
        best = max(best, total)
    return best
