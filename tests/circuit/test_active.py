"""The active path: when it is taken, and that it says what the circuit says."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from fairpc.circuit import (
    Circuit,
    CircuitBuilder,
    RowPlan,
    _chunks as chunks,
    _expected_flows as flows_module,
    prepare,
)
from fairpc.circuit._chunks import Projection
from fairpc.circuit._expected_flows import row_flows
from fairpc.circuit._program import Program
from fairpc.core import Codes
from fairpc.data import Table
from strategies import Case, cases, examples, many


def bits(n: int, parts: int) -> Circuit:
    """A mixture of products of bits: nothing of it is ever zero but the bits that are not seen."""
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})
    rng = np.random.default_rng(3)
    rates = rng.uniform(0.2, 0.8, (parts, n))
    products = [
        b.product(*(b.categorical(i, [1 - p, p]) for i, p in enumerate(row))) for row in rates
    ]
    return b.build(b.sum(products))


def decisions(n: int) -> Circuit:
    """A chain of decisions: deterministic, and with missing bits no longer a single tree."""
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})
    below = [b.indicator(n - 1, v) for v in range(2)]
    for i in range(n - 2, -1, -1):
        below = [
            b.product(b.indicator(i, v), b.sum(below, [0.2 + 0.1 * v, 0.8 - 0.1 * v]))
            for v in range(2)
        ]
    return b.build(b.sum(below, [0.4, 0.6]))


def holes(n_rows: int, n: int, share: float) -> npt.NDArray[Any]:
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 2, (n_rows, n))
    codes[rng.random(codes.shape) < share] = -1
    return codes


def agree(one: RowPlan, other: RowPlan, theta: npt.NDArray[np.float64]) -> None:
    (a, flow_a), (b, flow_b) = one(theta), other(theta)
    assert a == pytest.approx(b, rel=1e-12)
    np.testing.assert_allclose(flow_a, flow_b, rtol=1e-10, atol=1e-12)


def test_a_circuit_of_which_little_is_active_takes_the_active_path() -> None:
    circuit = decisions(10)
    table = Table.of(holes(many(2_000), 10, 0.3), arities=circuit.arities)
    auto = prepare(circuit.graph, table)
    assert auto.n_active == auto.n_distinct
    general = prepare(circuit.graph, table, path="general")
    assert general.n_active == 0
    agree(auto, general, circuit.graph.random(np.random.default_rng(0)))


def test_a_circuit_of_which_much_is_active_does_not() -> None:
    circuit = bits(6, 12)
    table = Table.of(holes(200, 6, 0.9), arities=circuit.arities)
    auto, active = (prepare(circuit.graph, table, path=path) for path in ("auto", "active"))
    assert auto.n_active == 0
    assert active.n_active == active.n_distinct
    theta = circuit.graph.random(np.random.default_rng(0))
    agree(auto, active, theta)
    sets = np.stack([theta, circuit.parameters, circuit.graph.uniform()])
    np.testing.assert_allclose(auto.batch(sets)[1], active.batch(sets)[1], rtol=1e-10)


@pytest.mark.parametrize("room", [0, 20_000])
def test_rows_that_find_no_room_are_projected_at_each_call(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    circuit = decisions(12)
    table = Table.of(holes(many(3_000), 12, 0.2), arities=circuit.arities)
    monkeypatch.setattr(flows_module, "ACTIVE_ROWS", 500)
    roomy = prepare(circuit.graph, table)
    monkeypatch.setattr(flows_module, "KEPT_BYTES", room)
    tight = prepare(circuit.graph, table)
    kept = [chunk.form for chunk in tight.chunks if chunk.form is not None]
    assert len(kept) < len(tight.chunks) == len(roomy.chunks)
    assert sum(form.n_bytes for form in kept) <= room
    agree(tight, roomy, circuit.graph.random(np.random.default_rng(0)))


def test_rows_that_find_no_room_are_projected_once_for_all_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    circuit = decisions(12)
    table = Table.of(holes(many(3_000), 12, 0.2), arities=circuit.arities)
    monkeypatch.setattr(flows_module, "ACTIVE_ROWS", 500)
    monkeypatch.setattr(flows_module, "KEPT_BYTES", 0)
    plan = prepare(circuit.graph, table)
    rng = np.random.default_rng(1)
    sets = np.stack([circuit.graph.random(rng) for _ in range(40)])
    projected = []

    def project(own: Program, codes: Codes, start: int, stop: int) -> Projection:
        projected.append((start, stop))
        return once(own, codes, start, stop)

    once = chunks.project
    monkeypatch.setattr(flows_module, "project", project)
    logs, flows = plan.batch(sets)
    assert sorted(projected) == [(chunk.rows.start, chunk.rows.stop) for chunk in plan.chunks]
    for b, theta in enumerate(sets):
        log_likelihood, flow = plan(theta)
        assert logs[b] == log_likelihood
        assert np.array_equal(flows[b], flow)


@pytest.mark.parametrize("numbers", [1, 2_000, 1 << 22])
def test_many_sets_take_several_passes(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    circuit = decisions(8)
    rng = np.random.default_rng(1)
    plan = prepare(circuit.graph, Table.of(holes(300, 8, 0.3), arities=circuit.arities))
    monkeypatch.setattr(flows_module, "BATCH_NUMBERS", numbers)
    sets = np.stack([circuit.graph.random(rng) for _ in range(70)])
    weights = rng.uniform(0, 2, (70, 300))
    logs, flows = plan.batch(sets, weights)
    for b in (0, 31, 32, 69):
        log_likelihood, flow = plan(sets[b], weights[b])
        assert logs[b] == pytest.approx(log_likelihood, rel=1e-12)
        np.testing.assert_allclose(flows[b], flow, rtol=1e-10, atol=1e-12)


@settings(max_examples=examples(200))
@given(cases(positive=False, max_rows=8), st.integers(0, 255))
def test_rows_without_weight_do_not_count(case: Case, which: int) -> None:
    """Not even where they are impossible."""
    g, theta = case.circuit.graph, case.circuit.parameters
    weights = np.where([which >> (i % 8) & 1 for i in range(len(case.codes))], case.weights, 0.0)
    weights[0] = max(weights[0], 0.5)
    some = weights > 0
    table = Table.of(case.codes, arities=g.arities)
    edges = oracle.by_parameter(g, weights @ row_flows(case.circuit, case.codes))
    p = oracle.marginals(case.circuit, case.codes)
    for path in ("active", "general"):
        plan = prepare(g, table, path=path)
        log_likelihood, flows = plan(theta, weights)
        assert plan.log_likelihood(theta, weights) == log_likelihood
        assert np.isneginf(log_likelihood) == bool((p[some] == 0).any())
        if np.isfinite(log_likelihood):
            truth = float(weights[some] @ np.log(p[some]))
            assert float(log_likelihood) == pytest.approx(truth, rel=1e-10, abs=1e-10)
        oracle.agree(flows, edges)
        logs, several = plan.batch(np.stack([theta, theta]), weights)
        assert logs[0] == logs[1] == pytest.approx(log_likelihood, rel=1e-12)
        oracle.agree(several[1], edges)


def test_sets_that_underflow_stand_beside_sets_that_do_not() -> None:
    circuit = bits(900, 2)
    codes = holes(4, 900, 0.1)
    plan = prepare(circuit.graph, Table.of(codes, arities=circuit.arities), path="active")
    g = circuit.graph
    near = g.uniform()
    seen = codes[0]
    for part in range(2):  # a set in which the first row is nearly certain
        for i in np.flatnonzero(seen >= 0).tolist():
            block = 2 * (900 * part + i)
            near[block : block + 2] = (0.999, 0.001) if seen[i] == 0 else (0.001, 0.999)
    first = np.eye(1, 4).ravel()
    sets = np.stack([near, circuit.parameters])
    logs, flows = plan.batch(sets, first)
    assert logs[0] > -10
    assert logs[1] < -575  # below the smallest likelihood that plain numbers are used for
    for b in range(2):
        one = plan(sets[b], first)
        assert logs[b] == pytest.approx(one[0], rel=1e-12)
        np.testing.assert_allclose(flows[b], one[1], rtol=1e-10, atol=1e-300)
        truth = circuit.with_parameters(sets[b]).log_marginal(codes[:1])[0]
        assert logs[b] == pytest.approx(truth, rel=1e-12)


@given(cases())
@settings(max_examples=examples(100))
def test_plans_made_in_python_are_those_of_compiled_code(case: Case) -> None:
    """The first small plans of a process are not compiled."""
    table = Table.of(case.codes, case.weights, arities=case.circuit.arities)

    def plan(left: int) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunks.Listed, "left", left)
            # As in a process that has not listed anything yet.
            kernels = SimpleNamespace(**vars(chunks.kernels()))
            kernels.list_terms = _NotLoaded(kernels.list_terms)
            patch.setattr(chunks, "kernels", lambda: kernels)
            patch.setattr(chunks, "kernels", lambda: kernels)
            made = prepare(case.circuit.graph, table, path="active")
            assert chunks.Listed.left < left or not left
        forms: list[Any] = [chunk.form for chunk in made.chunks]
        return [(f.n_slots, f.terms.tolist(), f.root.tolist()) for f in forms]

    assert plan(1 << 20) == plan(0)


@dataclass
class _NotLoaded:
    """A kernel that no call has compiled."""

    call: Any
    signatures: tuple[()] = ()

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def test_large_plans_are_compiled() -> None:
    assert chunks.listing_kernels(chunks.FIRST_NUMBERS + 1) is chunks.kernels()
