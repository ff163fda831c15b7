"""A slow, obvious twin of the corrected loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def loss(odds: Array, d: Array, w: Array, kind: Array, mechanism: Array) -> float:
    """−Σ w log Σ_f P(f) P(d | f), of the log odds of class 1 against 0."""
    total = 0.0
    for r in range(len(odds)):
        q = np.array([1.0, np.exp(odds[r])]) / (1.0 + np.exp(odds[r]))
        total -= w[r] * np.log(sum(q[f] * mechanism[kind[r], f, d[r]] for f in range(len(q))))
    return float(total)
