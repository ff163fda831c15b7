"""No strata are one stratum: what is found within one is what is found without, to the bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from fairpc.evidence import (
    StratumBounds,
    WithinBounds,
    identified_set,
    label_bounds,
    parity,
    test_assumptions,
)
from strategies import examples

SEEDS = st.integers(0, 2**32 - 1)
LEVELS = st.floats(0.5, 0.99)


def rows(seed: int, n: int = 400) -> dict[str, Any]:
    """Features, labels, scores, groups, weights and persons."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    scores = 1 / (1 + np.exp(-x[:, 0]))
    weights = rng.uniform(0.5, 2, n) if seed % 2 else None
    persons = rng.integers(0, n // 2, n) if seed % 3 == 0 else None
    return {
        "x": x,
        "y": (rng.random(n) < scores).astype(int),
        "scores": scores,
        "s": rng.integers(0, 2 + seed % 2, n),
        "weighing": {"sample_weight": weights, "clusters": persons},
        "one": np.full(n, "all"),
    }


@settings(max_examples=examples(40))
@given(SEEDS, LEVELS, st.booleans())
def test_parity(seed: int, level: float, decided: bool) -> None:
    own = rows(seed)
    asked: dict[str, Any] = {"level": level, "threshold": 0.5 if decided else None}
    plain = parity(own["scores"], own["s"], **asked, **own["weighing"])
    within = parity(own["scores"], own["s"], given=own["one"], **asked, **own["weighing"])
    assert within.raw == plain
    for pair, inside in zip(plain.pairs, within.pairs, strict=True):
        assert inside.mix == 0
        assert abs(inside.within - pair.difference) < 1e-15
        (stratum,) = inside.strata
        assert stratum.difference == pair.difference
        if len(plain.groups) == 2:
            assert stratum.difference_interval == pair.difference_interval


@settings(max_examples=examples(40))
@given(SEEDS, st.booleans())
def test_identified_sets(seed: int, counted: bool) -> None:
    own = rows(seed)
    counts = np.random.default_rng(seed).integers(1, 4, len(own["s"])) if counted else None
    plain = identified_set(own["scores"], own["s"], counts=counts)
    within = identified_set(own["scores"], own["s"], counts=counts, given=own["one"])
    (only,) = within.sets
    assert only.to_dict() == plain.to_dict()
    assert not within.left_out
    for name in ("score_lower", "score_upper"):
        assert np.array_equal(getattr(within, name), getattr(plain, name), equal_nan=True)


@settings(max_examples=examples(8), deadline=None)
@given(SEEDS, LEVELS)
def test_the_test_of_the_assumptions(seed: int, level: float) -> None:
    own = rows(seed)
    asked = {"classifier": "logistic", "n_seeds": 1, "level": level} | own["weighing"]
    tested: Any = partial(test_assumptions, own["x"], own["y"], own["s"], **asked)
    plain, within = tested(), tested(given=own["one"])
    (only,) = within.strata
    assert only.test == plain
    assert (within.rejected, within.p_value) == (plain.rejected, plain.p_value)


@settings(max_examples=examples(40))
@given(SEEDS, LEVELS)
def test_bounds_of_held_out_labels(seed: int, level: float) -> None:
    own = rows(seed)
    folds = np.random.default_rng(seed).integers(0, 5, len(own["s"]))
    names = tuple(range(int(own["s"].max()) + 1))
    weighing = own["weighing"]["sample_weight"], own["weighing"]["clusters"]
    given = own["y"], own["scores"], own["s"], folds, names, *weighing
    plain = label_bounds(*given)
    within = label_bounds(*given, strata=np.zeros(len(folds), np.intp))
    assert isinstance(plain, StratumBounds)
    assert isinstance(within, WithinBounds)
    assert within.strata == (plain,)
    low, high = plain.rate_set(level)
    whole = np.eye(len(names), 1)  # P(S, A): all rows are in one group, so that shares sum to 1
    assert within.rate_set(level, whole) == ((low, high) if low <= high else (1.0, 0.0))
    asked = own["scores"], own["scores"], own["s"]
    for at in (None, level):
        one, two = (b.score_bounds(*asked, at) for b in (plain, within))
        assert np.array_equal(one, two, equal_nan=True)
