"""Equal rows given once with their number are the same as equal rows given one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from closeness import assert_close
from fairpc.errors import MetricError
from fairpc.evidence import identified_set, parity


def drawn(seed: int, n: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "scores": rng.random(n),
        "groups": np.append(rng.integers(0, 3, n - 6), [0, 0, 1, 1, 2, 2]),
        "counts": rng.integers(1, 9, n),
        "weights": rng.choice([0.25, 1.0, 3.0], n),
    }


@given(st.integers(0, 10**6), st.sampled_from([None, 0.5]), st.booleans())
def test_gaps(seed: int, threshold: float | None, weighted: bool) -> None:
    table = drawn(seed)
    times = table["counts"]
    weights = table["weights"] if weighted else None
    merged = parity(
        table["scores"], table["groups"], threshold=threshold, sample_weight=weights, counts=times
    )
    scores, groups = (np.repeat(table[name], times) for name in ("scores", "groups"))
    each = None if weights is None else np.repeat(weights, times)
    repeated = parity(scores, groups, threshold=threshold, sample_weight=each)
    assert_close(merged.to_dict(), repeated.to_dict())
    assert sum(g.n for g in merged.groups) == times.sum()


@given(st.integers(0, 10**6))
def test_identified_sets(seed: int) -> None:
    table = drawn(seed)
    times = table["counts"]
    scores = 0.3 + 0.2 * table["scores"]
    merged = identified_set(scores, table["groups"], counts=times)
    repeated = identified_set(np.repeat(scores, times), np.repeat(table["groups"], times))
    assert_close(merged.to_dict(), repeated.to_dict())
    np.testing.assert_allclose(np.repeat(merged.score_lower, times), repeated.score_lower)


@pytest.mark.parametrize(
    ("counts", "more", "words"),
    [
        ([1, 0, 1, 1], {}, "counts is 0 in row 1: give whole numbers from 1 to 9.0072e"),
        ([1, 1.5, 1, 1], {}, "counts is 1.5 in row 1"),
        ([1, 2], {}, "counts has 2 rows and the first argument 4"),
        ([2, 2, 2, 2], {"clusters": [0, 1, 2, 3]}, "counts and clusters were given"),
        ([1, 1, 1, 1], {}, "group 1 has 1 row"),
    ],
)
def test_bad_counts_are_a_sentence(counts: list[float], more: dict[str, Any], words: str) -> None:
    with pytest.raises(MetricError, match=words):
        parity([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1], counts=counts, **more)
