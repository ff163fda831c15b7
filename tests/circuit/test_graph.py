"""The frozen graph: what it holds, and that every broken rule is named with its node."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fairpc.circuit import INDICATOR, PRODUCT, SUM, Circuit, Graph
from fairpc.circuit._graph import check_parameters, variable_index
from fairpc.data import MAX_ARITY
from fairpc.errors import CircuitError, FairpcError
from strategies import any_circuits, examples

# Two binary variables; θ = (.3, .7) for A and (.4, .6) for B:
#
#   0 [A=0]  1 [A=1]  2 [B=0]  3 [B=1]   4 = sum(0, 1)   5 = sum(2, 3)   6 = 4 × 5
VALID: dict[str, Any] = {
    "names": ("A", "B"),
    "arities": [2, 2],
    "kind": [INDICATOR] * 4 + [SUM, SUM, PRODUCT],
    "variable": [0, 0, 1, 1, -1, -1, -1],
    "value": [0, 1, 0, 1, -1, -1, -1],
    "child_ptr": [0, 0, 0, 0, 0, 2, 4, 6],
    "child": [0, 1, 2, 3, 4, 5],
    "block": [-1, -1, -1, -1, 0, 1, -1],
    "block_ptr": [0, 2, 4],
}
THETA = [0.3, 0.7, 0.4, 0.6]


def graph(**changes: Any) -> Graph:
    return Graph(**{**VALID, **changes})


def changed(name: str, index: int, value: int) -> list[int]:
    result = list(VALID[name])
    result[index] = value
    return result


def test_arrays_and_derived_arrays() -> None:
    g = graph()
    assert (g.n_nodes, g.n_edges, g.n_variables, g.n_parameters, g.root) == (7, 6, 2, 4, 6)
    assert g.children(5).tolist() == [2, 3]
    assert g.edge_node.tolist() == [4, 4, 5, 5, 6, 6]
    assert g.edge_parameter.tolist() == [0, 1, 2, 3, -1, -1]
    assert g.parameter_block.tolist() == [0, 0, 1, 1]
    assert g.scopes == (0b01, 0b01, 0b10, 0b10, 0b01, 0b10, 0b11)
    assert g.name(4) == "sum node 4"
    assert g.name(1) == "indicator node 1 [A = 1]"
    assert g.name(6) == "product node 6"


def test_shared_blocks_give_shared_parameters() -> None:
    g = graph(block=[-1, -1, -1, -1, 0, 0, -1], block_ptr=[0, 2])
    assert g.edge_parameter.tolist() == [0, 1, 0, 1, -1, -1]
    assert g.n_parameters == 2


def test_a_single_indicator_is_a_circuit() -> None:
    arrays: dict[str, Any] = {
        "arities": [2],
        "kind": [INDICATOR],
        "variable": [0],
        "value": [1],
        "child_ptr": [0, 0],
        "child": [],
        "block": [-1],
        "block_ptr": [0],
    }
    g = Graph(names=("A",), **arrays)
    c = Circuit(g, np.empty(0))
    assert c.parameters.shape == (0,)
    assert g.edge_node.shape == (0,)
    assert g.edge_parameter.shape == (0,)


@pytest.mark.parametrize(
    ("changes", "node", "words"),
    [
        ({"arities": [2]}, None, "2 variable names and 1 arities"),
        ({"names": ("A", "A")}, None, "variable 'A' is named twice"),
        ({"arities": [2, 0]}, None, "variable 'B' has arity 0"),
        ({"arities": [2, MAX_ARITY + 1]}, None, f"'B' has arity {MAX_ARITY + 1}"),
        ({"kind": [], "variable": [], "value": [], "block": []}, None, "has no nodes"),
        ({"value": VALID["value"][:-1]}, None, "differ in length"),
        ({"variable": VALID["variable"][:-1]}, None, "differ in length"),
        ({"block": VALID["block"][:-1]}, None, "differ in length"),
        ({"child_ptr": VALID["child_ptr"][:-1]}, None, "differ in length"),
        ({"kind": changed("kind", 5, 3)}, 5, "node 5 has unknown kind 3"),
        ({"variable": changed("variable", 2, 2)}, 2, "indicator node 2 tests variable 2"),
        ({"variable": changed("variable", 2, -1)}, 2, "indicator node 2 tests variable -1"),
        ({"value": changed("value", 3, 2)}, 3, r"indicator node 3 \[B = 2\] tests a value"),
        ({"value": changed("value", 0, -1)}, 0, r"indicator node 0 \[A = -1\] tests a value"),
        ({"variable": changed("variable", 4, 0)}, 4, "sum node 4 names a variable"),
        ({"value": changed("value", 6, 1)}, 6, "product node 6 names a variable"),
        ({"child_ptr": [0, 0, 0, 0, 0, 2, 4, 5]}, None, "child_ptr does not cut"),
        ({"child_ptr": [1, 1, 1, 1, 1, 2, 4, 6]}, None, "child_ptr does not cut"),
        ({"child_ptr": [0, 0, 0, 0, 0, 4, 2, 6]}, None, "child_ptr does not cut"),
        ({"child_ptr": [0, 0, 0, 0, 0, 0, 4, 6]}, 4, "sum node 4 has no children"),
        ({"child_ptr": [0, 0, 0, 0, 0, 2, 6, 6]}, 6, "product node 6 has no children"),
        ({"child_ptr": [0, 0, 0, 0, 1, 2, 4, 6]}, 3, r"indicator node 3 \[B = 1\] has children"),
        ({"child": [0, 1, 2, 3, 4, 7]}, 6, "product node 6 has the child 7"),
        ({"child": [0, 1, -1, 3, 4, 5]}, 5, "sum node 5 has the child -1"),
        ({"child": [0, 1, 2, 6, 4, 5]}, 5, "sum node 5 has the child 6"),
        ({"child": [0, 4, 2, 3, 4, 5]}, 4, "sum node 4 has the child 4"),
        ({"child": [0, 5, 2, 3, 4, 5]}, 4, "sum node 4 has the child 5"),
        ({"child": [0, 0, 2, 3, 4, 5]}, 1, r"indicator node 1 \[A = 1\] is not a descendant"),
        (
            {"names": ("A", "B", "C"), "arities": [2, 2, 2]},
            None,
            "variable 'C' is tested by no node",
        ),
        ({"block_ptr": [0, 2, 2]}, None, "block_ptr does not cut"),
        ({"block_ptr": [1, 2, 4]}, None, "block_ptr does not cut"),
        ({"block_ptr": []}, None, "block_ptr does not cut"),
        ({"block": changed("block", 5, 2)}, 5, "sum node 5 has another parameter block"),
        ({"block": changed("block", 4, -1)}, 4, "sum node 4 has another parameter block"),
        ({"block": changed("block", 6, 0)}, 6, "product node 6 has another parameter block"),
        ({"block": changed("block", 0, 1)}, 0, "indicator node 0.* has another parameter block"),
        ({"block_ptr": [0, 2, 5]}, 5, "sum node 5 has not one parameter per child"),
        ({"block_ptr": [0, 2, 4, 6]}, None, "parameter block 2 belongs to no sum node"),
    ],
)
def test_construction_names_the_broken_rule(
    changes: dict[str, Any], node: int | None, words: str
) -> None:
    with pytest.raises(CircuitError, match=words) as caught:
        graph(**changes)
    assert caught.value.node == node
    assert isinstance(caught.value, FairpcError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("theta", "node", "words"),
    [
        ([0.3, 0.7, 0.4], None, r"shape \(3,\): the graph has 4"),
        ([[0.3, 0.7, 0.4, 0.6]], None, r"shape \(1, 4\)"),
        ([0.3, 0.7, -0.4, 1.4], 5, "sum node 5 has weight -0.4"),
        ([0.3, 0.7, 0.4, float("nan")], 5, "sum node 5 has weight nan"),
        ([float("inf"), 0.7, 0.4, 0.6], 4, "sum node 4 has weight inf"),
        ([0.3, 0.7, 0.4, 0.5], 5, "sum node 5 has weights that sum to 0.9"),
        ([0.0, 0.0, 0.4, 0.6], 4, "sum node 4 has weights that sum to 0:"),
    ],
)
def test_parameters_name_the_sum_at_fault(theta: Any, node: int | None, words: str) -> None:
    with pytest.raises(CircuitError, match=words) as caught:
        Circuit(graph(), theta)
    assert caught.value.node == node


def test_the_fault_of_a_shared_block_is_told_of_its_first_sum() -> None:
    g = graph(block=[-1, -1, -1, -1, 0, 0, -1], block_ptr=[0, 2])
    with pytest.raises(CircuitError, match="sum node 4"):
        check_parameters(g, [0.5, 0.6])


def test_graph_and_parameters_are_frozen() -> None:
    c = Circuit(graph(), np.array(THETA))
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.graph = graph()  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.graph.names = ("C", "D")  # type: ignore[misc]
    arrays = [getattr(c.graph, f.name) for f in dataclasses.fields(c.graph) if f.name != "names"]
    derived = [c.graph.edge_node, c.graph.edge_parameter, c.graph.parameter_block]
    for array in (*arrays, *derived, c.parameters, c.weights(4)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_arrays_given_are_copied() -> None:
    theta = np.array(THETA)
    kind = np.array(VALID["kind"], np.uint8)
    c = Circuit(graph(kind=kind), theta)
    theta[0] = 9.0
    kind[0] = 9
    assert c.parameters.tolist() == THETA
    assert c.graph.kind[0] == INDICATOR


def test_uniform_and_random_parameters_sum_to_one_per_block() -> None:
    g = graph()
    assert g.uniform().tolist() == [0.5] * 4
    rng = np.random.default_rng(1)
    for concentration in (1.0, 1e-4):
        theta = check_parameters(g, g.random(rng, concentration))
        assert np.add.reduceat(theta, [0, 2]) == pytest.approx([1.0, 1.0])


def test_same_as() -> None:
    assert graph().same_as(graph())
    assert not graph().same_as(graph(names=("A", "C")))
    assert not graph().same_as(graph(value=[1, 0, 0, 1, -1, -1, -1]))


def test_circuit_reads_its_graph() -> None:
    c = Circuit(graph(), np.array(THETA))
    assert c.names == ("A", "B")
    assert c.arities.tolist() == [2, 2]
    assert c.weights(5).tolist() == [0.4, 0.6]
    other = c.with_parameters([0.5, 0.5, 0.1, 0.9])
    assert other.graph is c.graph
    assert other.weights(5).tolist() == [0.1, 0.9]
    with pytest.raises(CircuitError, match="product node 6 has no weights"):
        c.weights(6)


def test_variables_by_name_and_number() -> None:
    g = graph()
    assert variable_index(g.names, "B") == 1
    assert [variable_index(g.names, v) for v in ("B", 0)] == [1, 0]
    with pytest.raises(CircuitError, match="no variable 'C': the circuit has A, B"):
        variable_index(g.names, "C")
    with pytest.raises(CircuitError, match="no variable 2: columns are 0 to 1"):
        variable_index(g.names, 2)
    with pytest.raises(CircuitError, match="no variable -1"):
        variable_index(g.names, -1)


@settings(max_examples=examples(200))
@given(any_circuits())
def test_random_circuits_keep_their_invariants(circuit: Circuit) -> None:
    g = circuit.graph
    assert (g.child < g.edge_node).all()
    assert g.scopes[g.root] == (1 << g.n_variables) - 1
    assert ((g.edge_parameter >= 0) == (g.kind[g.edge_node] == SUM)).all()
    for n in np.flatnonzero(g.kind == SUM).tolist():
        below = slice(int(g.child_ptr[n]), int(g.child_ptr[n + 1]))
        assert circuit.weights(n).tolist() == circuit.parameters[g.edge_parameter[below]].tolist()
