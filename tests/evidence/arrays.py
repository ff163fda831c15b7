"""The published tables as plain arrays, and data drawn from the model with a known mechanism."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from published import paper_table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def published(name: str) -> tuple[Floats, Ints, Ints]:
    """Features, labels and groups of a published table; skips the test where it is absent."""
    rows = paper_table(name).rows
    return rows.x.astype(np.float64), rows.d.astype(np.int64), rows.s.astype(np.int64)


def drawn(
    rng: np.random.Generator,
    n: int,
    mechanism: Sequence[tuple[float, float]] = ((0.1, 0.9), (0.2, 0.7)),
    pi: float | Sequence[float] = 0.5,
    n_features: int = 6,
    signal: float = 0.35,
) -> tuple[Floats, Ints, Ints]:
    """Rows of S, Df, D and binary X: D a copy of Df bent by P(D=1 | Df, S), X given (Df, S).

    Args:
        mechanism: per group P(D=1 | Df=0), P(D=1 | Df=1).
        pi: P(Df=1), or one per group, which breaks the independence of Df and S.
        signal: how far P(X_i=1 | Df) is from one half.
    """
    s = rng.integers(0, len(mechanism), n)
    f = (rng.random(n) < np.broadcast_to(pi, len(mechanism))[s]).astype(np.int64)
    d = (rng.random(n) < np.array(mechanism)[s, f]).astype(np.int64)
    tilt = 0.5 + signal * (2 * f - 1)[:, None] * np.linspace(0.5, 1, n_features)
    x = (rng.random((n, n_features)) < tilt).astype(np.float64)
    return x, d, s


def revealing(
    rng: np.random.Generator,
    n: int,
    mechanism: Sequence[tuple[float, float]] = ((0.0, 0.7), (0.3, 1.0)),
    pi: float | Sequence[float] = 0.5,
    clear: float = 0.4,
) -> tuple[Floats, Ints, Ints]:
    """As :func:`drawn`, but X shows Df itself in some rows, so that bounds can bind.

    In the population a group with P(D=1 | Df=0) = 0 then bounds P(Df=1) by its ``pi`` from
    above, and one with P(D=1 | Df=1) = 1 from below.
    """
    s = rng.integers(0, len(mechanism), n)
    f = (rng.random(n) < np.broadcast_to(pi, len(mechanism))[s]).astype(np.int64)
    d = (rng.random(n) < np.array(mechanism)[s, f]).astype(np.int64)
    shown = rng.random(n) < clear
    noise = (rng.random((n, 3)) < 0.5).astype(np.float64)
    x = np.column_stack([shown & (f == 1), shown & (f == 0), noise])
    return x.astype(np.float64), d, s


def repeated(
    rng: np.random.Generator, n_persons: int, most: int = 4
) -> tuple[Floats, Ints, Ints, Ints]:
    """As :func:`revealing`, each person in one to ``most`` equal rows; and who a row is about."""
    x, d, s = revealing(rng, n_persons)
    persons = np.repeat(np.arange(n_persons), rng.integers(1, most + 1, n_persons))
    return x[persons], d[persons], s[persons], persons
