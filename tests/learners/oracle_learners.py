"""A slow, obvious twin of the corrected loss."""

from __future__ import annotations

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
