"""Parameters within bounds by a general optimiser; shares no code with fairpc.circuit._em."""

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
