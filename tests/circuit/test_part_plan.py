"""A plan over parts gives the flows of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuit.test_active import decisions, holes
from fairpc.circuit.flows import prepare
from fairpc.circuit.part_plan import PartPlan, plan_bytes, plan_once
from fairpc.data.table import Table
from fairpc.errors import CodesError
from strategies import circuits, many


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


@given(circuits(), st.integers(0, 99))
def test_parts_after_the_memory_is_full_are_evaluated_without_being_kept(  # type: ignore[no-untyped-def]
    circuit, seed: int
) -> None:
    """The same bits at each call: a fit that goes on begins with another first call."""
    rng = np.random.default_rng(seed)
    tables = [Table.of(circuit.sample(20, rng), arities=circuit.arities) for _ in range(3)]
    size = plan_bytes(prepare(circuit.graph, tables[0]))
    reads = []

    def load(k: int) -> Table:
        reads.append(k)
        return tables[k]

    plan = PartPlan(circuit.graph, 60, 60.0, 3, load, size)
    (first, flows), (second, again) = plan(circuit.parameters), plan(circuit.parameters)
    assert reads == [0, 1, 2, 1, 2]
    assert first == second
    assert np.array_equal(flows, again)


def test_a_plan_that_is_used_once_looks_for_what_is_active_only_where_that_pays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    circuit = decisions(10)
    table = Table.of(holes(many(2_000), 10, 0.3), arities=circuit.arities)
    n_active = prepare(circuit.graph, table).n_active
    assert n_active > 0
    assert plan_once(circuit.graph, table, 1).n_active == 0
    assert plan_once(circuit.graph, table, 2).n_active == n_active
    monkeypatch.setattr("fairpc.circuit.part_plan.SMALL_EDGES", circuit.graph.n_edges - 1)
    assert plan_once(circuit.graph, table, 1).n_active == n_active
