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
from fairpc.circuit._expected_flows import row_flows
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


@settings(max_examples=examples(200))
@given(cases(positive=False, max_rows=8), st.integers(0, 255))
def test_rows_without_weight_do_not_count(case: Case, which: int) -> None:
    """Not even where they are impossible."""
    g, theta = case.circuit.graph, case.circuit.parameters
    weights = np.where([which >> (i % 8) & 1 for i in range(len(case.codes))], case.weights, 0.0)
    weights[0] = max(weights[0], 0.5)
    some = weights > 0
    table = Table.of(case.codes, weights, arities=g.arities)
    edges = oracle.by_parameter(g, weights @ row_flows(case.circuit, case.codes))
    p = oracle.marginals(case.circuit, case.codes)
    for path in ("active", "general"):
        plan = prepare(g, table, path=path)
        log_likelihood, flows = plan(theta)
        assert plan.log_likelihood(theta) == log_likelihood
        assert np.isneginf(log_likelihood) == bool((p[some] == 0).any())
        if np.isfinite(log_likelihood):
            truth = float(weights[some] @ np.log(p[some]))
            assert float(log_likelihood) == pytest.approx(truth, rel=1e-10, abs=1e-10)
        oracle.agree(flows, edges)


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
