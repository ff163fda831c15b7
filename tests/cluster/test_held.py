"""Parts that are made ready stay so where there is room, and do not travel."""

from __future__ import annotations

import gc
import pickle
from functools import partial

import numpy as np
import pytest

from cluster.test_plan import naive_bayes
from fairpc.circuit import Circuit
from fairpc.cluster.plan import ROOT, HeldParts, Preparation
from fairpc.data.distinct import CodedRows, Packing
from fairpc.data.table import Table

PACKING = Packing((2, 2, 3, 2, 4))
CIRCUIT = naive_bayes(PACKING.arities)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldParts:
    monkeypatch.setattr("fairpc.cluster.plan._room", lambda: 1 << 30)
    return made()


def table_of_rows(rows: CodedRows, circuit: Circuit) -> Table:
    return Table.of(rows.codes, rows.weights, arities=circuit.arities, names=circuit.names)


def made(n_rows: int = 120) -> HeldParts:
    rng = np.random.default_rng(1)
    table_of = partial(table_of_rows, circuit=CIRCUIT)
    parts = [
        PACKING.distinct([rng.integers(0, a, n_rows).astype(np.int16) for a in (2, 2, 3, 2, 4)])
        for _ in range(3)
    ]
    return HeldParts.of(Preparation(CIRCUIT.graph, PACKING, table_of), 0, parts, len(parts))


def test_parts_are_made_ready_once(held: HeldParts) -> None:
    ready = dict(held._ready)
    assert len(ready) == 3
    held.flows(CIRCUIT.parameters)
    held.flows_of_sets(np.stack([CIRCUIT.parameters] * 2))
    assert all(held._ready[k] is plan for k, plan in ready.items())
    assert held.n_bytes > held._size > 0


def test_what_is_ready_does_not_travel(held: HeldParts) -> None:
    sent = pickle.loads(pickle.dumps(held))
    assert not sent._ready
    one, two = held.flows(CIRCUIT.parameters)[ROOT], sent.flows(CIRCUIT.parameters)[ROOT]
    assert one[0] == two[0]
    assert np.array_equal(one[1], two[1])
    assert len(sent._ready) == 3


def test_parts_without_room_give_the_same_flows(
    held: HeldParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for one part and a half beside those that are held already."""
    full = held._size
    monkeypatch.setattr("fairpc.cluster.plan._room", lambda: full + full // 2)
    some = made()
    assert list(some._ready) == [0]
    sets = np.stack([CIRCUIT.parameters, CIRCUIT.graph.uniform()])
    for one, two in (
        (held.flows(sets[0]), some.flows(sets[0])),
        (held.flows_of_sets(sets), some.flows_of_sets(sets)),
    ):
        assert np.allclose(one[ROOT][0], two[ROOT][0], rtol=1e-12)
        assert np.allclose(one[ROOT][1], two[ROOT][1], rtol=1e-12)
    assert list(some._ready) == [0]


def test_room_is_given_back(held: HeldParts, monkeypatch: pytest.MonkeyPatch) -> None:
    full = held._size
    monkeypatch.setattr("fairpc.cluster.plan._room", lambda: 2 * full)
    other = made()
    assert len(other._ready) == 3
    assert not made()._ready
    del other
    gc.collect()
    assert len(made()._ready) == 3
