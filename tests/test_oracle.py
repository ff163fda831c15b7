"""The oracle agrees with itself, and the strategies make what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

import oracle
from fairpc.circuit import Circuit
from fairpc.circuit._properties import properties_of
from strategies import Case, any_circuits, cases, circuits, deterministic_circuits, examples


@settings(max_examples=examples(200))
@given(any_circuits(max_states=128, max_nodes=30))
def test_induced_trees_make_up_the_joint_distribution(circuit: Circuit) -> None:
    assume(oracle.count_trees(circuit.graph) <= 5_000)
    trees = oracle.induced_trees(circuit)
    assert len(trees.weight) == oracle.count_trees(circuit.graph)
    assert trees.weight.sum() == pytest.approx(1.0)
    assert (trees.row >= 0).all()
    flat = np.ravel_multi_index(tuple(trees.row.T), tuple(circuit.graph.arities))
    p = oracle.joint(circuit)
    oracle.agree(np.bincount(flat, trees.weight, minlength=len(p)), p)


@settings(max_examples=examples(200))
@given(cases(deterministic=True, max_states=128, max_nodes=30))
def test_both_definitions_of_expected_flows_agree(case: Case) -> None:
    oracle.agree(
        oracle.tree_flows(case.circuit, case.codes), oracle.expected_flows(case.circuit, case.codes)
    )


FEATURES = (
    "deterministic",
    "not deterministic",
    "structured",
    "not structured",
    "shared node",
    "shared parameters",
    "weight of zero",
    "sum of one child",
    "sum of three children",
    "product of three children",
    "large",
    "impossible rows",
)


def features(circuit: Circuit) -> set[str]:
    g = circuit.graph
    width = np.diff(g.child_ptr)
    parents = np.bincount(g.child, minlength=g.n_nodes)
    found = {
        "deterministic": not oracle.clashes(g),
        "not deterministic": bool(oracle.clashes(g)),
        "structured": bool(properties_of(g).structured_decomposable),
        "not structured": not properties_of(g).structured_decomposable,
        "shared node": bool((parents[g.kind != oracle.INDICATOR] > 1).any()),
        "shared parameters": len(np.unique(g.block[g.block >= 0])) < (g.block >= 0).sum(),
        "weight of zero": bool((circuit.parameters == 0).any()),
        "sum of one child": bool(((g.kind == oracle.SUM) & (width == 1)).any()),
        "sum of three children": bool(((g.kind == oracle.SUM) & (width == 3)).any()),
        "product of three children": bool(((g.kind == oracle.PRODUCT) & (width == 3)).any()),
        "large": g.n_nodes > 60 and g.n_variables > 6,
        "impossible rows": bool((oracle.joint(circuit) == 0).any()),
    }
    return {name for name, yes in found.items() if yes}


def test_the_strategy_makes_circuits_of_every_sort() -> None:
    seen: list[set[str]] = []

    @settings(max_examples=100)
    @given(circuits())
    def collect(circuit: Circuit) -> None:
        g = circuit.graph
        assert properties_of(g).smooth
        assert properties_of(g).decomposable
        assert set(g.arities.tolist()) <= {2, 3, 4, 5}
        assert oracle.joint(circuit).sum() == pytest.approx(1.0)
        seen.append(features(circuit))

    collect()
    for feature in FEATURES:
        assert sum(feature in found for found in seen) >= 3, feature


@settings(max_examples=examples(100))
@given(deterministic_circuits(structured=True))
def test_flags_are_kept(circuit: Circuit) -> None:
    assert circuit.properties().deterministic
    assert circuit.properties().structured_decomposable
