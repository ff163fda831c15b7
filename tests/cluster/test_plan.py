"""A plan over parts on workers is the plan of the rows."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from sys import getsizeof
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.circuit import Circuit, prepare
from fairpc.circuit._em import fit
from fairpc.cluster._plan import ROOT, DaskParts, Flows, HeldParts, Preparation, added, leaf, placed
from fairpc.cluster._table import exchanged, tree_sum
from fairpc.data import CodedRows, Distinct, Packing, Table, add_distinct
from fairpc.models import Rows
from fairpc.models._fit import Options, fit as fit_model


def naive_bayes(arities: tuple[int, ...]) -> Circuit:
    """A circuit over some rows: what LatNB learns of them, with everything observed."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, a, 200).astype(np.int16) for a in arities]
    x = np.stack(codes[2:], axis=1)
    rows = Rows.of(codes[0], codes[1], x, arities=arities[2:], n_groups=2, n_classes=2)
    return fit_model("NLatPC", rows, options=Options(max_iter=3)).distribution.circuit


def table_of_rows(rows: CodedRows, circuit: Circuit) -> Table:
    return Table.of(rows.codes, rows.weights, arities=circuit.arities, names=circuit.names)


@pytest.fixture(scope="module")
def packing() -> Packing:
    return Packing((2, 2, 3, 2, 4))


@pytest.fixture(scope="module")
def pieces(packing: Packing) -> list[Distinct]:
    """Pieces that share rows, some of them with holes; their weights count rows."""
    rng = np.random.default_rng(1)
    made = []
    for n in (300, 50, 120):
        codes = [rng.integers(-1 if a > 2 else 0, a, n).astype(np.int16) for a in packing.arities]
        made.append(packing.distinct(codes))
    return made


def parts_of(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> DaskParts:
    monkeypatch.setattr("fairpc.cluster._table.PART_ROWS", 60)
    n_rows = sum(piece.n_rows for piece in pieces)
    return DaskParts.of(client, exchanged(client, client.scatter(pieces), n_rows), packing)


@pytest.mark.parametrize("n_buckets", [256, 2, 1])
def test_every_row_is_in_one_part(
    n_buckets: int,
    client: Any,
    packing: Packing,
    pieces: list[Distinct],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairpc.cluster._table.MOST_BUCKETS", n_buckets)
    parts = parts_of(client, packing, pieces, monkeypatch)
    whole = add_distinct(pieces)
    found = client.gather(list(parts.futures))
    assert len(parts) > 3
    assert parts.n_rows == whole.n_rows == sum(part.n_rows for part in found)
    assert parts.total_weight == whole.weights.sum() == 470
    again = add_distinct(found)
    assert np.array_equal(again.words, whole.words)
    assert np.array_equal(again.weights, whole.weights)


def test_the_plan_of_parts_is_the_plan_of_the_rows(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = naive_bayes(packing.arities)
    whole = add_distinct(pieces)
    table_of = partial(table_of_rows, circuit=circuit)
    here = prepare(circuit.graph, table_of(packing.rows(whole)))
    there = parts_of(client, packing, pieces, monkeypatch).plan(circuit.graph, table_of)
    assert there.total_weight == 470
    theta = circuit.parameters
    (likelihood, flows), (other_likelihood, other_flows) = here(theta), there(theta)
    assert likelihood == pytest.approx(other_likelihood, rel=1e-12)
    assert np.allclose(flows, other_flows, rtol=1e-12)
    ours, theirs = (fit(plan, circuit.graph.uniform(), max_iter=20) for plan in (there, here))
    assert np.allclose(ours.parameters, theirs.parameters, rtol=1e-10)


def test_nothing_but_parameters_and_sums_travels_once_parts_are_ready(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many more calls than it takes Dask to see the tasks of all of them as one group."""
    forget_earlier_plans(client)
    circuit = naive_bayes(packing.arities)
    table_of = partial(table_of_rows, circuit=circuit)
    plan = parts_of(client, packing, pieces, monkeypatch).plan(circuit.graph, table_of)
    first = plan(circuit.parameters)
    ready, came = client.run(ready_plans), client.run(n_incoming)
    assert sorted(len(plans) for plans in ready.values()) == [2, 3]
    sums = [plan(circuit.parameters) for _ in range(20)]
    assert client.run(ready_plans) == ready
    assert client.run(n_incoming) == came
    for log_likelihood, flows in sums:
        assert log_likelihood == first[0]
        assert np.array_equal(flows, first[1])


def forget_earlier_plans(client: Any) -> None:
    """Wait until workers have dropped what tests before held: a release takes a moment."""
    deadline = time.monotonic() + 30
    while any(client.run(ready_plans).values()) and time.monotonic() < deadline:
        time.sleep(0.05)


def ready_plans(dask_worker: Any) -> list[int]:
    """What names the plans that a worker has made ready."""
    held = [value for value in dask_worker.data.values() if isinstance(value, HeldParts)]
    return [id(plan) for parts in held for plan in parts._ready.values()]


def n_incoming(dask_worker: Any) -> int:
    return len(dask_worker.transfer_incoming_log)


def answering(threads: dict[str, int]) -> Callable[[], Awaitable[dict[str, int]]]:
    """A scheduler that says that its workers have so many threads."""

    async def nthreads() -> dict[str, int]:
        return threads

    return nthreads


def test_a_sum_has_the_same_bits_whoever_holds_the_parts(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = naive_bayes(packing.arities)
    table_of = partial(table_of_rows, circuit=circuit)
    parts = parts_of(client, packing, pieces, monkeypatch)
    found = []
    workers = client.nthreads()
    for threads in (1, 2, 3, 20):
        plan = parts.plan(circuit.graph, table_of)
        monkeypatch.setattr(client, "nthreads", answering(dict.fromkeys(workers, threads)))
        found.append(plan(circuit.parameters))
    for one, other in pairwise(found):
        assert one[0] == other[0]
        assert np.array_equal(one[1], other[1])


def test_a_group_of_parts_stays_where_it_is_while_there_is_a_thread_for_it() -> None:
    assert placed([None, None, None], {"a": 2, "b": 1}) == ["a", "a", "b"]
    assert placed(["b", "a", "a"], {"a": 2, "b": 1}) == ["b", "a", "a"]
    assert placed(["a", "a", "a"], {"a": 1, "b": 2}) == ["a", "b", "b"]
    assert placed(["gone", "b"], {"b": 1, "new": 1}) == ["new", "b"]
    assert placed([None], {}) == [None]


def test_a_group_that_fell_to_a_busy_worker_goes_to_a_free_one(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_earlier_plans(client)
    circuit = naive_bayes(packing.arities)
    table_of = partial(table_of_rows, circuit=circuit)
    parts = parts_of(client, packing, pieces, monkeypatch)
    plan = parts.plan(circuit.graph, table_of)
    only = next(iter(client.nthreads()))
    with monkeypatch.context() as patched:
        patched.setattr(client, "nthreads", answering({only: 2}))
        first = plan(circuit.parameters)
    assert {len(plans) for plans in client.run(ready_plans).values()} == {0, len(parts)}
    monkeypatch.setattr("fairpc.cluster._plan.LOOK", 0.0)
    second = plan(circuit.parameters)
    assert sorted(len(plans) for plans in client.run(ready_plans).values()) == [2, 3]
    assert first[0] == second[0]
    assert np.array_equal(first[1], second[1])


@pytest.mark.parametrize(("n", "fan_in"), [(1, 3), (3, 3), (11, 3), (30, 3)])
def test_sums_keep_the_order_of_the_parts(client: Any, n: int, fan_in: int) -> None:
    parts = [client.submit(np.arange, k, k + 1, pure=False) for k in range(n)]
    total = tree_sum(client, parts, np.concatenate, fan_in)
    assert total.result().tolist() == list(range(n))


def test_empty_parts_are_left_out_of_sums(client: Any) -> None:
    parts = client.scatter([np.array([1]), None, np.array([2])], hash=False)
    assert tree_sum(client, parts, np.concatenate).result().tolist() == [1, 2]
    nothing = client.scatter([None], hash=False)
    assert tree_sum(client, nothing, np.concatenate).result() is None


PACKING = Packing((2, 2, 3, 2, 4))
CIRCUIT = naive_bayes(PACKING.arities)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldParts:
    monkeypatch.setattr("fairpc.cluster._plan._room", lambda: 1 << 30)
    return made()


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
    for _ in range(2):
        held.flows(CIRCUIT.parameters)
    assert all(held._ready[k] is plan for k, plan in ready.items())
    assert getsizeof(held) > held._size > 0


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
    monkeypatch.setattr("fairpc.cluster._plan._room", lambda: full + full // 2)
    some = made()
    assert list(some._ready) == [0]
    for theta in (CIRCUIT.parameters, CIRCUIT.graph.uniform()):
        one, two = held.flows(theta)[ROOT], some.flows(theta)[ROOT]
        assert np.allclose(one[0], two[0], rtol=1e-12)
        assert np.allclose(one[1], two[1], rtol=1e-12)
    assert list(some._ready) == [0]


def test_room_is_given_back(held: HeldParts, monkeypatch: pytest.MonkeyPatch) -> None:
    full = held._size
    monkeypatch.setattr("fairpc.cluster._plan._room", lambda: 2 * full)
    other = made()
    assert len(other._ready) == 3
    assert not made()._ready
    del other
    gc.collect()
    assert len(made()._ready) == 3


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
