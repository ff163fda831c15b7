"""Entropy and KL divergence against enumeration, and small cases by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.graph import INDICATOR, PRODUCT, SUM, Circuit, Graph
from fairpc.errors import CircuitError, PropertyError
from strategies import deterministic_circuits, examples, similar_circuits


def coin(p: float, arity: int = 2, name: str = "A") -> Circuit:
    b = CircuitBuilder({name: arity})
    return b.build(b.categorical(name, [1 - p, p, *[0.0] * (arity - 2)]))


def wrapped(circuit: Circuit) -> Circuit:
    """The same distribution by another graph: every sum node gets a sum of one child above it."""
    g = circuit.graph
    b = CircuitBuilder(dict(zip(g.names, g.arities.tolist(), strict=True)))
    made: list[int] = []
    for n in range(g.n_nodes):
        children = [made[c] for c in g.children(n).tolist()]
        if g.kind[n] == oracle.INDICATOR:
            made.append(b.indicator(int(g.variable[n]), int(g.value[n])))
        elif g.kind[n] == oracle.PRODUCT:
            made.append(b.product(*children))
        else:
            made.append(b.sum([b.sum(children, circuit.weights(n).tolist())], [1.0]))
    return b.build(made[-1])


def test_entropy_of_a_coin() -> None:
    # H(1/4) = −¾ log ¾ − ¼ log ¼
    expected = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert coin(0.25).entropy() == pytest.approx(expected, abs=1e-15)
    assert coin(0.0).entropy() == 0.0
    assert math.copysign(1.0, coin(0.0).entropy()) == 1.0


def test_entropy_of_independent_coins_adds_up() -> None:
    n = 2_000
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})
    c = b.build(b.product(*(b.categorical(i, [0.25, 0.75]) for i in range(n))))
    assert c.entropy() == pytest.approx(n * coin(0.25).entropy(), rel=1e-12)
    assert c.kl(c.with_parameters(c.graph.uniform())) == pytest.approx(
        n * coin(0.25).kl(coin(0.5)), rel=1e-12
    )


def test_kl_of_two_coins() -> None:
    # KL(¼ ‖ ½) = ¾ log(¾ / ½) + ¼ log(¼ / ½)
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert coin(0.25).kl(coin(0.5)) == pytest.approx(expected, abs=1e-15)
    assert coin(0.25).kl(wrapped(coin(0.5))) == pytest.approx(expected, abs=1e-15)


def test_kl_is_infinite_where_the_second_does_not_cover_the_first() -> None:
    assert coin(0.5).kl(coin(0.0)) == math.inf
    assert coin(0.5).kl(wrapped(coin(0.0))) == math.inf
    assert wrapped(coin(0.0)).kl(coin(0.5)) == pytest.approx(math.log(2))
    # However small the mass that is not covered.
    assert coin(1e-300).kl(wrapped(coin(0.0))) == math.inf


def test_a_product_of_one_child_is_looked_through() -> None:
    # 2 = product of [A=1] alone, 3 = sum(0, 2)
    arrays: dict[str, Any] = {
        "arities": [2],
        "kind": [INDICATOR, INDICATOR, PRODUCT, SUM],
        "variable": [0, 0, -1, -1],
        "value": [0, 1, -1, -1],
        "child_ptr": [0, 0, 0, 1, 3],
        "child": [1, 0, 2],
        "block": [-1, -1, -1, 0],
        "block_ptr": [0, 2],
    }
    padded = Circuit(Graph(names=("A",), **arrays), np.array([0.5, 0.5]))
    assert coin(0.25).kl(padded) == pytest.approx(coin(0.25).kl(coin(0.5)), abs=1e-15)
    assert padded.kl(coin(0.25)) == pytest.approx(coin(0.5).kl(coin(0.25)), abs=1e-15)


def test_what_is_not_tractable_is_refused() -> None:
    b = CircuitBuilder({"A": 2})
    mixture = b.build(b.sum([b.categorical("A", [0.5, 0.5]), b.categorical("A", [0.1, 0.9])]))
    with pytest.raises(PropertyError, match="entropy needs a deterministic circuit: sum node 4"):
        mixture.entropy()
    with pytest.raises(PropertyError, match="first argument, needs a deterministic circuit"):
        mixture.kl(coin(0.5))
    with pytest.raises(PropertyError, match="second argument, needs a deterministic circuit"):
        coin(0.5).kl(mixture)


def test_other_variables_are_refused() -> None:
    with pytest.raises(CircuitError, match="same variables in the same order"):
        coin(0.5).kl(coin(0.5, name="B"))
    with pytest.raises(CircuitError, match="same number of values"):
        coin(0.5).kl(coin(0.5, arity=3))


def two_by_two(split: str) -> Circuit:
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    a, bb, c = (b.categorical(v, [0.3, 0.7]) for v in "ABC")
    root = b.product(b.product(a, bb), c) if split == "AB|C" else b.product(a, b.product(bb, c))
    return b.build(root)


def test_different_decompositions_are_refused() -> None:
    with pytest.raises(PropertyError, match="split their variables alike: node"):
        two_by_two("AB|C").kl(two_by_two("A|BC"))


def context_specific(weights: tuple[float, float], p: float) -> Circuit:
    """S = 0 splits A B C as (A B)(C), S = 1 as (A)(B C)."""
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2, "S": 2})
    a, bb, c = (b.categorical(v, [p, 1 - p]) for v in "ABC")
    first = b.product(b.indicator("S", 0), b.product(b.product(a, bb), c))
    second = b.product(b.indicator("S", 1), b.product(a, b.product(bb, c)))
    return b.build(b.sum([first, second], weights))


def test_splits_need_to_agree_only_where_the_supports_meet() -> None:
    p, q = context_specific((0.4, 0.6), 0.2), wrapped(context_specific((0.5, 0.5), 0.7))
    assert p.kl(q) == pytest.approx(oracle.kl(p, q), abs=1e-12)


@settings(max_examples=examples(500))
@given(deterministic_circuits())
def test_entropy_equals_enumeration(circuit: Circuit) -> None:
    assert circuit.entropy() == pytest.approx(oracle.entropy(circuit), rel=1e-10, abs=1e-10)


@settings(max_examples=examples(500))
@given(similar_circuits())
def test_kl_equals_enumeration(pair: tuple[Circuit, Circuit]) -> None:
    p, q = pair
    assert p.kl(q) == pytest.approx(oracle.kl(p, q), rel=1e-10, abs=1e-10)


@settings(max_examples=examples(200))
@given(deterministic_circuits())
def test_kl_of_one_graph_equals_enumeration(circuit: Circuit) -> None:
    other = circuit.with_parameters(circuit.graph.uniform())
    assert circuit.kl(circuit) == 0.0
    assert circuit.kl(other) == pytest.approx(oracle.kl(circuit, other), rel=1e-10, abs=1e-10)
    assert other.kl(circuit) == pytest.approx(oracle.kl(other, circuit), rel=1e-10, abs=1e-10)


@settings(max_examples=examples(200))
@given(deterministic_circuits(structured=True))
def test_kl_by_the_short_cut_and_by_the_recursion_agree(circuit: Circuit) -> None:
    other = circuit.with_parameters(circuit.graph.uniform())
    assert circuit.kl(wrapped(other)) == pytest.approx(circuit.kl(other), rel=1e-10, abs=1e-10)
    assert other.kl(wrapped(circuit)) == pytest.approx(other.kl(circuit), rel=1e-10, abs=1e-10)
