"""A drawn table with its truth, and small models of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from fairpc import FairPC, LatNB
from fairpc.datasets import make_synthetic
from fairpc.evidence import AssumptionTest, test_assumptions

Ints = npt.NDArray[np.int64]


@cache
def drawn(n: int = 1500, seed: int = 0) -> tuple[Ints, Ints, Ints, Ints]:
    """Features, labels, groups and the fair decisions behind them."""
    data = make_synthetic(6, n, random_state=seed)
    return tuple(np.asarray(v).astype(np.int64) for v in (data.X, data.y, data.sensitive, data.df))  # type: ignore[return-value]


@cache
def naive() -> LatNB:
    x, y, s, _ = drawn()
    return LatNB(max_iter=300).fit(x, y, sensitive_features=s)


@cache
def selected() -> FairPC:
    x, y, s, _ = drawn()
    return FairPC(random_state=0).fit(x, y, sensitive_features=s)


@cache
def not_rejected() -> AssumptionTest:
    x, y, s, _ = drawn()
    return test_assumptions(
        x, y.astype(str), s.astype(str), classifier="logistic", n_seeds=1, positive="1"
    )
