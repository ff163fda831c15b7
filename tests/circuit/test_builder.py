"""The builder: equal nodes become one, parameters are shared by name, faults are named."""

from __future__ import annotations

import pytest

import oracle
from fairpc.circuit import INDICATOR, PRODUCT, SUM, CircuitBuilder
from fairpc.errors import CircuitError


def test_the_example_of_the_docstring() -> None:
    # P(S) = (.7, .3); P(X | S=0) = (.1, .2, .7), P(X | S=1) = (.5, .25, .25).
    b = CircuitBuilder({"S": 2, "X": 3})
    px = [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]
    cell = [b.product(b.indicator("S", s), b.categorical("X", p)) for s, p in enumerate(px)]
    circuit = b.build(b.sum(cell, [0.7, 0.3]))
    # .7·.1, .7·.2, .7·.7, .3·.5, .3·.25, .3·.25
    assert oracle.joint(circuit) == pytest.approx([0.07, 0.14, 0.49, 0.15, 0.075, 0.075])
    assert (circuit.graph.kind == INDICATOR).sum() == 5
    assert (circuit.graph.kind == PRODUCT).sum() == 2
    assert (circuit.graph.kind == SUM).sum() == 3


def test_equal_nodes_become_one() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    a0, b1 = b.indicator("A", 0), b.indicator("B", 1)
    assert b.indicator(0, 0) == a0
    assert b.product(a0, b1) == b.product(b1, a0)
    one = b.categorical("A", [0.25, 0.75])
    assert b.categorical("A", (0.25, 0.75)) == one
    assert b.categorical("A", [0.75, 0.25]) != one
    assert len(b) == 6  # A=0, B=1, their product, A=1, two sums


def test_a_product_of_one_node_is_that_node() -> None:
    b = CircuitBuilder({"A": 2})
    leaf = b.indicator("A", 1)
    assert b.product(leaf) == leaf


def test_sums_without_weights_are_uniform_and_stay_apart() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    first, second = b.categorical("A"), b.categorical("A")
    assert first != second
    mixture = b.sum([b.product(first, b.categorical("B")), b.product(second, b.categorical("B"))])
    circuit = b.build(mixture)
    assert circuit.graph.n_parameters == 10
    assert circuit.parameters.tolist() == [0.5] * 10


def test_a_tie_shares_parameters() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    first = b.categorical("A", [0.2, 0.8], tie="coin")
    second = b.categorical("B", tie="coin")
    circuit = b.build(b.product(first, second))
    assert circuit.graph.n_parameters == 2
    assert len(set(circuit.graph.block.tolist()) - {-1}) == 1
    assert oracle.joint(circuit) == pytest.approx([0.04, 0.16, 0.16, 0.64])


def test_a_tie_may_repeat_its_weights() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    first = b.categorical("A", [0.2, 0.8], tie="coin")
    second = b.categorical("B", [0.2, 0.8], tie="coin")
    assert b.build(b.product(first, second)).graph.n_parameters == 2


def test_what_is_not_below_the_root_is_left_out() -> None:
    b = CircuitBuilder({"A": 2})
    for _ in range(3):
        b.categorical("A")
    circuit = b.build(b.categorical("A", [0.25, 0.75]))
    assert circuit.graph.n_nodes == 3
    assert circuit.graph.variable.tolist() == [0, 0, -1]
    assert circuit.parameters.tolist() == [0.25, 0.75]


def test_a_variable_that_the_circuit_does_not_have_is_refused() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    with pytest.raises(CircuitError, match="variable 'B' is tested by no node"):
        b.build(b.categorical("A"))


def test_the_same_nodes_give_the_same_graph_whatever_was_built_beside_them() -> None:
    graphs = []
    for noise in (0, 3):
        b = CircuitBuilder({"A": 2, "B": 3})
        for name, arity in (("A", 2), ("B", 3)):
            for v in range(arity):
                b.indicator(name, v)
        for _ in range(noise):
            b.categorical("B")
        a = b.categorical("A")
        graphs.append(b.build(b.product(a, b.categorical("B", tie="t"))).graph)
    assert graphs[0].same_as(graphs[1])


def test_faults_are_named() -> None:
    b = CircuitBuilder({"A": 2, "B": 3})
    a = b.categorical("A", [0.5, 0.5], tie="t")
    with pytest.raises(CircuitError, match="no variable 'C': the circuit has A, B"):
        b.indicator("C", 0)
    with pytest.raises(CircuitError, match="no variable 2"):
        b.indicator(2, 0)
    with pytest.raises(CircuitError, match="'B' has no value 3: its values are 0 to 2"):
        b.indicator("B", 3)
    with pytest.raises(CircuitError, match="'B' has no value -1"):
        b.indicator("B", -1)
    with pytest.raises(CircuitError, match="unknown child 99"):
        b.product(a, 99)
    with pytest.raises(CircuitError, match="unknown child -1"):
        b.sum([-1])
    with pytest.raises(CircuitError, match="unknown child 50"):
        b.build(50)
    with pytest.raises(CircuitError, match="a product has no children"):
        b.product()
    with pytest.raises(CircuitError, match="a sum has no children"):
        b.sum([])
    with pytest.raises(CircuitError, match="3 children and 2 weights"):
        b.categorical("B", [0.5, 0.5])
    with pytest.raises(CircuitError, match="3 children and tie 't' has 2 parameters"):
        b.categorical("B", tie="t")
    with pytest.raises(CircuitError, match=r"gives tie 't' the weights \(0.1, 0.9\)"):
        b.categorical("A", [0.1, 0.9], tie="t")


@pytest.mark.parametrize("weights", [[-0.5, 1.5], [float("nan"), 1.0], [0.5, 0.6]])
def test_bad_weights_are_found_when_the_circuit_is_built(weights: list[float]) -> None:
    b = CircuitBuilder({"A": 2})
    with pytest.raises(CircuitError, match="sum node 2 has weight") as caught:
        b.build(b.categorical("A", weights))
    assert caught.value.node == 2
