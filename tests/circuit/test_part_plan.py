"""A plan over parts gives the flows of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpc.circuit.flows import prepare
from fairpc.circuit.part_plan import PartPlan
from fairpc.data.table import Table
from fairpc.errors import CodesError
from strategies import circuits


@given(circuits(), st.integers(1, 5), st.sampled_from([0, 1 << 30]), st.integers(0, 99))
def test_parts_add_up(circuit, n_parts: int, kept: int, seed: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    codes = circuit.sample(30, rng)
    codes[rng.random(codes.shape) < 0.2] = -1
    weights = rng.integers(1, 5, 30).astype(float)
    bounds = np.linspace(0, 30, n_parts + 1).astype(int)
    reads = []

    def load(k: int) -> Table:
        reads.append(k)
        part = slice(bounds[k], bounds[k + 1])
        return Table.of(codes[part], weights[part], arities=circuit.arities)

    plan = PartPlan(circuit.graph, 30, float(weights.sum()), n_parts, load, kept)
    whole = prepare(circuit.graph, Table.of(codes, weights, arities=circuit.arities))
    expected = whole(circuit.parameters)
    for _ in range(2):
        found = plan(circuit.parameters)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        assert np.allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)
    assert reads == list(range(n_parts)) * (1 if kept else 2)
    sets = np.stack([circuit.parameters, circuit.graph.uniform()])
    for ours, theirs in zip(plan.batch(sets), whole.batch(sets), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    with pytest.raises(CodesError, match="rows on disk"):
        plan(circuit.parameters, weights)
    with pytest.raises(CodesError, match="rows on disk"):
        plan.batch(sets, weights)
