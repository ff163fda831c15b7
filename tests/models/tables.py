"""Random rows for the models, quick options, and what is asked of a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from fairpc.core import Floats
from fairpc.models import FairDistribution, Rows
from fairpc.models._selection import AUTO

SHORT = replace(AUTO, max_iter=10, min_iter=1, random_state=0)


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
        s,
        d,
        x,
        weights=rng.random(n) + 0.1,
        n_groups=n_groups,
        n_classes=n_classes,
        arities=arities,
    )


@st.composite
def rows_of_any_kind(draw: st.DrawFn) -> Rows:
    seed, n = draw(st.integers(0, 2**31)), draw(st.integers(30, 120))
    n_groups, n_classes = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    return random_rows(seed, n, n_groups, n_classes, draw(st.sampled_from([0.0, 0.2])))


def biased_rows(seed: int, n: int, n_features: int = 5) -> Rows:
    """Features that hang together and tell Df; labels bent against group 1."""
    rng = np.random.default_rng(seed)
    s, f = rng.integers(0, 2, n), rng.integers(0, 2, n)
    flip = np.where(f == 1, 0.1 + 0.3 * s, 0.1)
    d = np.where(rng.random(n) < flip, 1 - f, f)
    x = np.empty((n, n_features), np.int16)
    x[:, 0] = np.where(rng.random(n) < 0.2, 1 - f, f)
    for j in range(1, n_features):
        x[:, j] = np.where(rng.random(n) < 0.25, rng.integers(0, 2, n), x[:, j - 1] ^ (f & j % 2))
    return Rows.of(s, d, x)


def log_likelihood(m: FairDistribution, rows: Rows) -> Floats:
    return m.log_likelihood(rows.s, rows.d, rows.x)


def largest_dependence(m: FairDistribution) -> tuple[float, float]:
    """Largest |P(f, s) − P(f) P(s)|, and |P(d, x | f, s) − P(d | f, s) P(x | f, s)| for pairs d, x.

    By exact query of the circuit, which knows nothing of either.
    """
    layout = m.layout
    width = len(layout.variables)
    shape = (layout.n_groups, layout.n_classes)

    def p(*fixed: tuple[int, int]) -> float:
        row = np.full((1, width), -1)
        for column, value in fixed:
            row[0, column] = value
        return float(np.exp(m.circuit.log_marginal(row)[0]))

    groups, labels = [0.0], [0.0]
    for s, f in np.ndindex(shape):
        cell = p((0, s), (1, f))
        groups.append(abs(cell - p((0, s)) * p((1, f))))
        for d in range(layout.n_classes):
            for column, arity in zip(layout.x, layout.arities, strict=True):
                for v in range(arity):
                    both = p((0, s), (1, f), (layout.d, d), (column, v)) / cell
                    apart = p((0, s), (1, f), (layout.d, d)) * p((0, s), (1, f), (column, v))
                    labels.append(abs(both - apart / cell**2))
    return max(groups), max(labels)
