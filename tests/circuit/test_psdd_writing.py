"""Psdd files: what is written comes back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from circuit.psdd_files import LARGER, SMALL, Folder, joint, random_circuit, without_last
from fairpc.circuit import PRODUCT, SUM, Circuit, CircuitBuilder, Graph, read_psdd
from strategies import examples


@st.composite
def binary_circuits(draw: st.DrawFn) -> Circuit:
    """Smooth and structured-decomposable circuits over binary variables."""
    rnd = draw(st.randoms(use_true_random=False))
    return random_circuit(rnd, rnd.randrange(1, 10), deterministic=rnd.randrange(2) == 0)


@settings(max_examples=examples(500))
@given(binary_circuits())
def test_what_is_written_is_the_same_distribution(one_folder: Folder, circuit: Circuit) -> None:
    found = one_folder.round_trip(circuit)
    assert found.names == circuit.names
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-13, abs=1e-300)
    loose = read_psdd(one_folder.psdd, names=circuit.names)
    assert loose.graph.same_as(found.graph)


@settings(max_examples=examples(500))
@given(binary_circuits())
def test_what_was_read_is_written_and_read_as_the_same_circuit(
    one_folder: Folder, circuit: Circuit
) -> None:
    first = one_folder.round_trip(circuit)
    second = one_folder.round_trip(first)
    assert sorted(second.graph.scopes) == sorted(first.graph.scopes)
    assert oracle.joint(second) == pytest.approx(oracle.joint(first), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("text", [SMALL, without_last(LARGER).replace("psdd 12", "psdd 11")])
def test_hand_written_files_come_back(folder: Folder, text: str) -> None:
    circuit = folder.read(text)
    found = folder.round_trip(circuit)
    assert found.graph.same_as(circuit.graph)
    assert found.parameters == pytest.approx(circuit.parameters, rel=1e-15)


@pytest.mark.parametrize("p", [1e-300, 1e-20, 1e-9, 0.3, 0.5, 1 - 1e-9])
def test_small_probabilities_keep_their_digits(folder: Folder, p: float) -> None:
    for weights in ([p, 1 - p], [1 - p, p]):
        b = CircuitBuilder({"A": 2, "B": 2})
        leaves = [b.categorical("A", weights), b.categorical("B", [0.5, 0.5])]
        found = folder.round_trip(b.build(b.product(*leaves)))
        digits = 2e-16 * (2 + abs(math.log(min(weights))))  # of the logarithm
        assert found.weights(2) == pytest.approx(weights, rel=digits)


def test_exact_zeros_and_ones(folder: Folder) -> None:
    for weights in ([0.0, 1.0], [1.0, 0.0]):
        b = CircuitBuilder({"A": 2, "B": 2})
        a, b0, b1 = b.categorical("A", weights), b.indicator("B", 0), b.indicator("B", 1)
        circuit = b.build(b.sum([b.product(a, b0), b.product(a, b1)], weights))
        found = folder.round_trip(circuit)
        assert found.graph.same_as(circuit.graph)
        assert found.parameters.tolist() == circuit.parameters.tolist()


def test_products_of_many_children_follow_the_vtree(folder: Folder) -> None:
    b = CircuitBuilder({f"V{i}": 2 for i in range(6)})
    tails = [b.categorical(i, [0.1 * i, 1 - 0.1 * i]) for i in range(1, 6)]
    cells = [b.product(b.indicator(0, v), *tails) for v in (0, 1)]
    circuit = b.build(b.sum(cells, [0.25, 0.75]))
    found = folder.round_trip(circuit)
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-14)
    sizes = np.diff(found.graph.child_ptr)[found.graph.kind == PRODUCT]
    assert (sizes == 2).all()
    assert len(sizes) == 2 + 4  # the chain over the tails is shared


def test_a_sum_below_a_sum_is_merged(folder: Folder) -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    a0, a1, b0, b1 = (b.indicator(v, k) for v in (0, 1) for k in (0, 1))
    leaf = b.sum([b.sum([a0, a1], [0.5, 0.5]), a1], [0.5, 0.5])
    inner = b.sum([b.product(a0, b0), b.product(a1, b1)], [0.5, 0.5])
    root = b.sum([inner, b.product(a0, b0), b.product(leaf, b1)], [0.5, 0.25, 0.25])
    circuit = b.build(root)
    found = folder.round_trip(circuit)
    assert (found.graph.kind == SUM).sum() == 2
    assert found.weights(found.graph.root) == pytest.approx([0.5, 0.25, 0.25])
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-14)


@pytest.mark.parametrize("kind", ["indicator", "sum of one", "distribution"])
def test_one_variable(folder: Folder, kind: str) -> None:
    b = CircuitBuilder({"A": 2})
    one = b.indicator("A", 1)
    roots = {
        "indicator": one,
        "sum of one": b.sum([b.sum([one]), one], [0.5, 0.5]),
        "distribution": b.categorical("A", [0.25, 0.75]),
    }
    circuit = b.build(roots[kind])
    found = folder.round_trip(circuit)
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-15)


def test_deep_circuits_do_not_recurse(folder: Folder) -> None:
    n = 3_000
    b = CircuitBuilder({f"V{i}": 2 for i in range(n)})
    node = b.categorical(0, [0.5, 0.5])
    for i in range(1, n):
        node = b.product(node, b.categorical(i, [0.25, 0.75]))
    found = folder.round_trip(b.build(node))
    assert found.graph.n_variables == n
    assert found.log_marginal(np.ones((1, n), int))[0] == pytest.approx(
        math.log(0.5) + (n - 1) * math.log(0.75)
    )


def test_shared_parameters_are_written_out(folder: Folder) -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    tied = [b.categorical(v, [0.25, 0.75], tie="t") for v in ("A", "B")]
    circuit = b.build(b.product(*tied))
    found = folder.round_trip(circuit)
    assert found.graph.n_parameters == 4
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-15)


def test_names_are_comments_that_cannot_break_out(folder: Folder) -> None:
    b = CircuitBuilder({"a\nL 9 9 9": 2, "ü": 2})
    circuit = b.build(b.product(b.indicator(0, 1), b.indicator(1, 0)))
    assert folder.round_trip(circuit).graph.same_as(circuit.graph)
    assert 'c variable 1: "a\\nL 9 9 9"' in folder.psdd.read_text()


def test_graphs_with_repeated_nodes_are_written(folder: Folder) -> None:
    """Equal indicators, and a product of one child, as the builder would not make them."""
    graph = Graph(
        names=("A", "B"),
        arities=np.array([2, 2]),
        kind=np.array([0, 0, 2, 0, 1, 1], np.uint8),
        variable=np.array([0, 0, -1, 1, -1, -1], np.int32),
        value=np.array([1, 1, -1, 0, -1, -1], np.int32),
        child_ptr=np.array([0, 0, 0, 2, 2, 3, 5]),
        child=np.array([0, 1, 2, 3, 4], np.int32),
        block=np.array([-1, -1, 0, -1, -1, -1], np.int32),
        block_ptr=np.array([0, 2]),
    )
    circuit = Circuit(graph, np.array([0.5, 0.5]))
    assert joint(folder.round_trip(circuit)) == joint(circuit)
