"""A plan over parts on workers is the plan of the rows."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from fairpc.circuit import Circuit
from fairpc.circuit.em import fit
from fairpc.circuit.flows import prepare
from fairpc.cluster.parts import DaskParts
from fairpc.cluster.passes import exchanged
from fairpc.cluster.plan import PartFlows
from fairpc.cluster.reduction import tree_sum
from fairpc.data.distinct import Distinct, Packing, add_distinct
from fairpc.data.table import Table
from fairpc.errors import CodesError
from fairpc.fair.fit import Options
from fairpc.fair.fit import fit as fit_model
from fairpc.fair.rows import Rows


def naive_bayes(arities: tuple[int, ...]) -> Circuit:
    """A circuit over some rows: what LatNB learns of them, with everything observed."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, a, 200).astype(np.int16) for a in arities]
    x = np.stack(codes[2:], axis=1)
    rows = Rows.of(codes[0], codes[1], x, arities=arities[2:], n_groups=2, n_classes=2)
    return fit_model("NLatPC", rows, options=Options(max_iter=3)).distribution.circuit


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
        made.append(Distinct.of(packing.pack(codes)))
    return made


def parts_of(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> DaskParts:
    monkeypatch.setattr("fairpc.cluster.passes.PART_ROWS", 60)
    n_rows = sum(piece.n_rows for piece in pieces)
    return DaskParts.of(client, exchanged(client, client.scatter(pieces), n_rows), packing)


def test_every_row_is_in_one_part(
    client: Any, packing: Packing, pieces: list[Distinct], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    table_of = partial(Table.of, arities=circuit.arities, names=circuit.names)
    here = prepare(circuit.graph, table_of(packing.unpack(whole.words), whole.weights))
    there = parts_of(client, packing, pieces, monkeypatch).plan(circuit.graph, table_of)
    assert (there.n_rows, there.total_weight) == (whole.n_rows, 470)
    theta = circuit.parameters
    (likelihood, flows), (other_likelihood, other_flows) = here(theta), there(theta)
    assert likelihood == pytest.approx(other_likelihood, rel=1e-12)
    assert np.allclose(flows, other_flows, rtol=1e-12)
    sets = np.stack([theta, circuit.graph.uniform()])
    for one, two in zip(here.batch(sets), there.batch(sets), strict=True):
        assert np.allclose(one, two, rtol=1e-12)
    with pytest.raises(CodesError, match="give None"):
        there(theta, np.ones(there.n_rows))
    ours, theirs = (fit(plan, circuit.graph.uniform(), max_iter=20) for plan in (there, here))
    assert np.allclose(ours.parameters, theirs.parameters, rtol=1e-10)


def test_a_part_is_made_ready_once_and_does_not_travel(
    packing: Packing, pieces: list[Distinct]
) -> None:
    circuit = naive_bayes(packing.arities)
    table_of = partial(Table.of, arities=circuit.arities, names=circuit.names)
    flows = PartFlows(circuit.graph, packing, table_of)
    assert flows.plan(0, pieces[0], room=0) is not flows.plan(0, pieces[0], room=0)
    kept = flows.plan(0, pieces[0], room=1 << 30)
    assert flows.plan(0, pieces[0], room=1 << 30) is kept
    sent = pickle.loads(pickle.dumps(flows))
    assert sent.plan(0, pieces[0], 1 << 30) is not kept
    one, two = (f.plan(0, pieces[0], 0)(circuit.parameters) for f in (flows, sent))
    assert one[0] == two[0]
    assert np.array_equal(one[1], two[1])


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
