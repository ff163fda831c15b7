"""A table on which Df drifts: many features go together, and few are about the label."""

from __future__ import annotations

import numpy as np
import polars as pl

STRONG = np.array([[0.10, 0.95], [0.02, 0.60]])
"""P(D = 1 | Df, S), [s, f]: a strong bend."""


def drifting(n: int = 3000, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Eight features that go together and are not about Df, two that are; two groups."""
    rng = np.random.default_rng(seed)
    s, f, cluster = rng.integers(0, 2, n), rng.random(n) < 0.7, rng.random(n) < 0.5
    d = (rng.random(n) < STRONG[s, f.astype(int)]).astype(int)
    columns = {f"c{k}": cluster ^ (rng.random(n) < 0.1) for k in range(8)}
    columns |= {f"x{k}": f ^ (rng.random(n) < 0.15) for k in range(2)}
    frame = pl.DataFrame({name: values.astype(int) for name, values in columns.items()})
    return frame, d, np.where(s == 0, "male", "female")
