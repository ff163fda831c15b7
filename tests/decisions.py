"""A table of past decisions, for tests of tables that are read in batches or partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl


def table(n: int = 1500, seed: int = 0) -> pl.DataFrame:
    """Rows with text, numbers, holes, and a column of whole weights."""
    rng = np.random.default_rng(seed)
    f = rng.random(n) < 0.45
    sex = rng.choice(["F", "M"], n)
    label = np.where(rng.random(n) < np.where(sex == "F", 0.25, 0.05), ~f, f)
    columns: dict[str, Any] = {"sex": sex, "label": label.astype(int)}
    for j in range(5):
        columns[f"x{j}"] = (rng.random(n) < np.where(f, 0.7 - 0.05 * j, 0.3)).astype(int)
    columns["age"] = rng.integers(18, 80, n) + 5 * f
    columns["income"] = np.round(np.exp(rng.normal(10.0 + f, 1.0)), 2)
    columns["job"] = [None if r < 0.1 else "abcd"[int(r * 1000) % 4] for r in rng.random(n)]
    columns["weight"] = rng.integers(0, 3, n)
    return pl.DataFrame(columns)
