"""Sums over parts have one order, however the parts are dealt out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpc.cluster.plan import ROOT, Flows, added, leaf


def flows_of(n_parts: int) -> list[Flows]:
    """Numbers whose sum depends on the order in which they are added."""
    rng = np.random.default_rng(n_parts)
    return [(-np.exp(rng.normal(0, 9)), np.exp(rng.normal(0, 9, 3))) for _ in range(n_parts)]


@given(st.integers(1, 40), st.integers(0, 1000))
def test_whoever_has_the_parts_gives_the_same_bits(n_parts: int, seed: int) -> None:
    flows = flows_of(n_parts)
    whole = added([{leaf(k, n_parts): flow for k, flow in enumerate(flows)}], n_parts)
    assert list(whole) == [ROOT]
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 4, n_parts)
    some = [
        added(
            [{leaf(k, n_parts): flows[k] for k in np.flatnonzero(owner == who).tolist()}], n_parts
        )
        for who in rng.permutation(4)
    ]
    halves = [added(some[:2], n_parts), added(some[2:], n_parts)]
    for dealt in (added(some, n_parts), added(halves, n_parts)):
        assert dealt[ROOT][0] == whole[ROOT][0]
        assert np.array_equal(dealt[ROOT][1], whole[ROOT][1])
    assert whole[ROOT][0] == pytest.approx(sum(flow[0] for flow in flows), rel=1e-13)
    assert np.allclose(whole[ROOT][1], sum(flow[1] for flow in flows), rtol=1e-13)


def test_neighbours_send_few_sums() -> None:
    n_parts, flows = 96, flows_of(96)
    cuts = [0, 13, 32, 60, 96]
    for start, stop in pairwise(cuts):
        sums = added([{leaf(k, n_parts): flows[k] for k in range(start, stop)}], n_parts)
        assert len(sums) <= 2 * np.log2(n_parts)
    assert len(added([{leaf(k, n_parts): flows[k] for k in range(64)}], n_parts)) == 1
