"""Random rows for the models."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fairpc.fair.rows import Rows


def random_rows(seed: int, n: int, n_groups: int, n_classes: int, holes: float) -> Rows:
    """Rows in which everything depends on everything, some cells missing, with weights."""
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, 4, size=int(rng.integers(2, 5)))
    s, d = rng.integers(0, n_groups, n), rng.integers(0, n_classes, n)
    s[:n_groups], d[:n_classes] = np.arange(n_groups), np.arange(n_classes)
    x = np.column_stack(
        [(rng.integers(0, a, n) + s * d * (rng.random(n) < 0.5)) % a for a in arities]
    )
    x[rng.random(x.shape) < holes] = -1
    hide = np.arange(n) >= max(n_groups, n_classes)
    s[hide & (rng.random(n) < holes / 2)] = -1
    d[hide & (rng.random(n) < holes / 2)] = -1
    return Rows.of(
        s, d, x, weights=rng.random(n) + 0.1, n_groups=n_groups, n_classes=n_classes,
        arities=arities,
    )  # fmt: skip


@st.composite
def rows_of_any_kind(draw: st.DrawFn) -> Rows:
    return random_rows(
        draw(st.integers(0, 2**31)), draw(st.integers(30, 120)), draw(st.integers(2, 4)),
        draw(st.integers(2, 4)), draw(st.sampled_from([0.0, 0.2])),
    )  # fmt: skip
