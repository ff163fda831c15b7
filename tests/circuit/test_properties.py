"""Structural properties: their answers, their words, and determinism against enumeration."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import oracle
from fairpc.circuit import (
    INDICATOR,
    SUM,
    Circuit,
    CircuitBuilder,
    Graph,
    _properties as properties,
)
from fairpc.circuit._properties import Properties, Property, require
from fairpc.errors import PropertyError
from strategies import any_circuits, deterministic_circuits, examples


def not_smooth() -> Graph:
    """Node 4 = sum of 0 [A=0] and 3 = [A=1] × [B=0] × [C=1]."""
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    a0, a1, rest = b.indicator("A", 0), b.indicator("A", 1), b.indicator("B", 0)
    return b.build(b.sum([a0, b.product(a1, rest, b.indicator("C", 1))])).graph


def xor() -> Circuit:
    """Equal boxes, disjoint supports: even = a₀b₀ + a₁b₁ and odd = a₀b₁ + a₁b₀."""
    b = CircuitBuilder({"A": 2, "B": 2})
    pair = {
        (i, j): b.product(b.indicator("A", i), b.indicator("B", j)) for i in (0, 1) for j in (0, 1)
    }
    even = b.sum([pair[0, 0], pair[1, 1]], [0.5, 0.5])
    odd = b.sum([pair[0, 1], pair[1, 0]], [0.25, 0.75])
    return b.build(b.sum([even, odd], [0.1, 0.9]))


def two_splits() -> Graph:
    """One product splits A B C into (A)(BC), the other into (AB)(C)."""
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2, "S": 2})
    a, bb, c = (b.categorical(v) for v in "ABC")
    first = b.product(b.indicator("S", 0), b.product(a, b.product(bb, c)))
    second = b.product(b.indicator("S", 1), b.product(b.product(a, bb), c))
    return b.build(b.sum([first, second])).graph


def test_a_property_reads_like_a_sentence() -> None:
    yes = Property("structured_decomposable", True)
    no = Property("smooth", False, "child 2 of sum node 7 lacks A", 7)
    assert yes
    assert not no
    assert str(yes) == "structured-decomposable"
    assert str(no) == "not smooth: child 2 of sum node 7 lacks A"
    assert "not smooth" in repr(no)


def test_properties_are_computed_once_and_listed() -> None:
    circuit = xor()
    answers = circuit.properties()
    assert answers is circuit.properties()
    assert answers.smooth is answers["smooth"]
    assert [p.name for p in answers] == list(properties.NAMES)
    assert all(answers)
    assert repr(answers).splitlines()[0] == "smooth"
    with pytest.raises(PropertyError, match="no property 'tidy': ask for smooth"):
        answers["tidy"]
    with pytest.raises(AttributeError):
        answers.graph = circuit.graph  # type: ignore[misc]


def test_a_sum_of_different_scopes_is_not_smooth() -> None:
    answer = Properties(not_smooth()).smooth
    assert not answer
    assert answer.node == 5
    assert answer.violation == "child 0 of sum node 5 lacks B, C, which a sibling has"


def test_many_variables_are_not_all_listed() -> None:
    b = CircuitBuilder({f"X{i}": 2 for i in range(9)})
    wide = b.product(*(b.indicator(i, 0) for i in range(9)))
    answer = Properties(b.build(b.sum([b.indicator(0, 1), wide])).graph).smooth
    assert answer.violation is not None
    assert "lacks X1, X2, X3, X4, X5 and 3 more" in answer.violation


def test_a_product_of_overlapping_scopes_is_not_decomposable() -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    pair = b.product(b.categorical("A"), b.categorical("B"))
    graph = b.build(b.product(b.categorical("A"), pair)).graph
    answers = Properties(graph)
    assert not answers.decomposable
    assert answers.decomposable.node == graph.root
    assert answers.decomposable.violation is not None
    assert "share A" in answers.decomposable.violation
    assert not answers.structured_decomposable
    assert "share A" in str(answers.structured_decomposable)


def test_decompositions_that_cross_are_not_structured() -> None:
    answers = Properties(two_splits())
    assert answers.decomposable
    assert not answers.structured_decomposable
    assert answers.structured_decomposable.violation is not None
    assert "(B, C)" in answers.structured_decomposable.violation
    assert "(A, B)" in answers.structured_decomposable.violation
    assert "neither contains the other" in answers.structured_decomposable.violation


def test_products_of_different_width_along_one_tree_are_structured() -> None:
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    a, bb, c = (b.categorical(v) for v in "ABC")
    nested = b.product(b.product(a, bb), c)
    assert Properties(b.build(b.sum([nested, b.product(a, bb, c)])).graph).structured_decomposable


def test_children_that_overlap_are_named() -> None:
    b = CircuitBuilder({"A": 2})
    graph = b.build(b.sum([b.categorical("A", [0.5, 0.5]), b.categorical("A", [0.1, 0.9])])).graph
    answer = Properties(graph).deterministic
    assert answer.node == 4
    assert answer.violation == "sum node 4 has children 2 and 3 that can both be positive"


def test_the_same_child_twice_is_a_violation() -> None:
    b = CircuitBuilder({"A": 2})
    leaf = b.indicator("A", 0)
    answer = Properties(b.build(b.sum([leaf, leaf], [0.5, 0.5])).graph).deterministic
    assert answer.violation == "sum node 1 has children 0 and 0 that can both be positive"


def test_equal_leaves_that_are_not_one_node_overlap() -> None:
    arrays: dict[str, Any] = {
        "arities": [2],
        "kind": [INDICATOR, INDICATOR, SUM],
        "variable": [0, 0, -1],
        "value": [1, 1, -1],
        "child_ptr": [0, 0, 0, 2],
        "child": [0, 1],
        "block": [-1, -1, 0],
        "block_ptr": [0, 2],
    }
    answer = Properties(Graph(names=("A",), **arrays)).deterministic
    assert answer.violation == "sum node 2 has children 0 and 1 that can both be positive"


def test_weights_of_zero_do_not_make_a_circuit_deterministic() -> None:
    b = CircuitBuilder({"A": 2})
    both = [b.indicator("A", 0), b.categorical("A", [0.5, 0.5])]
    circuit = b.build(b.sum(both, [0.0, 1.0]))
    assert not circuit.properties().deterministic
    assert oracle.clashes(circuit.graph)


def test_supports_with_equal_boxes_are_told_apart() -> None:
    assert Properties(xor().graph).deterministic
    assert not oracle.clashes(xor().graph)


def test_what_is_not_proven_is_not_claimed_to_overlap() -> None:
    # Different splits of A, B, C: (A B)(C) with A = B, against (A)(B)(C) with A ≠ B.
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    i = b.indicator
    equal = b.sum([b.product(i("A", v), i("B", v)) for v in (0, 1)])
    c = b.categorical("C")
    graph = b.build(b.sum([b.product(equal, c), b.product(i("A", 0), i("B", 1), c)])).graph
    answer = Properties(graph).deterministic
    assert not answer
    assert answer.violation is not None
    assert "not shown to exclude each other" in answer.violation
    assert not oracle.clashes(graph)


def test_a_sum_that_is_not_smooth_does_not_hide_an_overlap() -> None:
    # [A=0] + [B=0] is positive for A=1, B=0, and so is [A=1].
    b = CircuitBuilder({"A": 2, "B": 2})
    either = b.sum([b.indicator("A", 0), b.indicator("B", 0)])
    graph = b.build(b.sum([either, b.indicator("A", 1)])).graph
    assert not Properties(graph).deterministic


def test_the_bound_on_pairs_gives_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "MAX_PAIRS", 1)
    answer = Properties(xor().graph).deterministic
    assert not answer
    assert answer.violation is not None
    assert "not proven" in answer.violation
    assert answer.node == xor().graph.root


def test_require_names_query_property_and_node() -> None:
    b = CircuitBuilder({"A": 2})
    graph = b.build(b.sum([b.categorical("A", [0.5, 0.5]), b.categorical("A", [0.1, 0.9])])).graph
    require(graph, "MPE", "smooth", "decomposable")
    with pytest.raises(PropertyError) as caught:
        require(graph, "MPE", "smooth", "deterministic")
    assert str(caught.value) == (
        "MPE needs a deterministic circuit: sum node 4 has children 2 and 3 that can both be "
        "positive"
    )
    with pytest.raises(PropertyError, match="a structured-decomposable circuit"):
        require(two_splits(), "this", "structured_decomposable")


def _chain(n: int) -> Circuit:
    """A Markov chain of n binary variables: node t, v is [X_t = v] × (mixture of the rest)."""
    b = CircuitBuilder({f"X{t}": 2 for t in range(n)})
    below = [b.indicator(n - 1, v) for v in (0, 1)]
    for t in range(n - 2, -1, -1):
        below = [b.product(b.indicator(t, v), b.sum(below, [0.3, 0.7])) for v in (0, 1)]
    return b.build(b.sum(below))


def test_long_chains_are_no_problem() -> None:
    start = time.perf_counter()
    answers = _chain(2_000).properties()
    assert all(answers)
    assert time.perf_counter() - start < 5.0


def _parities(n: int) -> Circuit:
    """Even and odd parity of n bits: boxes never help, every proof goes to the leaves."""
    b = CircuitBuilder({f"X{t}": 2 for t in range(n)})
    nodes = [b.indicator(n - 1, v) for v in (0, 1)]
    for t in range(n - 2, -1, -1):
        nodes = [
            b.sum([b.product(b.indicator(t, v), nodes[v ^ parity]) for v in (0, 1)])
            for parity in (0, 1)
        ]
    return b.build(b.sum(nodes))


def test_deep_proofs_do_not_recurse() -> None:
    start = time.perf_counter()
    assert _parities(2_000).properties().deterministic
    assert time.perf_counter() - start < 5.0


def _decision_diagram(n: int) -> Circuit:
    """A random Boolean function of n bits as a PSDD over a balanced vtree.

    The rows of the truth table of each part are grouped by what they leave of
    the function: the groups are the primes, what is left are the subs.
    """
    rnd = Random(0)
    b = CircuitBuilder({f"X{i}": 2 for i in range(n)})
    memo: dict[tuple[int, tuple[bool, ...]], int] = {}

    def node(low: int, high: int, truth: tuple[bool, ...]) -> int:
        if (low, truth) not in memo:
            memo[low, truth] = leaf(low, truth) if high - low == 1 else split(low, high, truth)
        return memo[low, truth]

    def leaf(v: int, truth: tuple[bool, ...]) -> int:
        return b.sum([b.indicator(v, u) for u in (0, 1) if truth[u]])

    def split(low: int, high: int, truth: tuple[bool, ...]) -> int:
        middle = (low + high) // 2
        width = 2 ** (high - middle)
        groups: dict[tuple[bool, ...], set[int]] = {}
        for a in range(len(truth) // width):
            groups.setdefault(truth[a * width : (a + 1) * width], set()).add(a)
        elements = []
        for sub, rows in groups.items():
            prime = tuple(a in rows for a in range(len(truth) // width))
            if any(sub):
                elements.append(b.product(node(low, middle, prime), node(middle, high, sub)))
        return b.sum(elements)

    return b.build(node(0, n, tuple(rnd.random() < 0.5 for _ in range(2**n))))


def test_psdds_of_thousands_of_nodes_are_quick() -> None:
    circuit = _decision_diagram(12)
    assert circuit.graph.n_nodes > 1_000
    start = time.perf_counter()
    assert all(circuit.properties())
    assert time.perf_counter() - start < 5.0


def test_wide_sums_are_linear() -> None:
    b = CircuitBuilder({"A": 20_000})
    start = time.perf_counter()
    assert b.build(b.categorical("A")).properties().deterministic
    assert time.perf_counter() - start < 5.0


@settings(max_examples=examples(500))
@given(deterministic_circuits())
def test_deterministic_circuits_are_recognised(circuit: Circuit) -> None:
    answers = circuit.properties()
    assert answers.smooth
    assert answers.decomposable
    assert answers.deterministic
    assert not oracle.clashes(circuit.graph)


@settings(max_examples=examples(500))
@given(any_circuits())
def test_determinism_is_sound_and_its_words_are_true(circuit: Circuit) -> None:
    answer = circuit.properties().deterministic
    clashes = oracle.clashes(circuit.graph)
    assert not (answer and clashes)
    if answer.violation is not None and "can both be positive" in answer.violation:
        assert answer.node in {n for n, _, _ in clashes}


@settings(max_examples=examples(500))
@given(any_circuits(structured=True))
def test_structured_circuits_are_decided_exactly(circuit: Circuit) -> None:
    answers = circuit.properties()
    assert answers.structured_decomposable
    assert bool(answers.deterministic) == (not oracle.clashes(circuit.graph))


def _scopes(graph: Graph) -> list[set[Any]]:
    return [{v for v in range(graph.n_variables) if s >> v & 1} for s in graph.scopes]


@settings(max_examples=examples(500))
@given(any_circuits(structured=False))
def test_structured_means_nested_or_disjoint(circuit: Circuit) -> None:
    g = circuit.graph
    scopes = _scopes(g)
    products = [n for n in range(g.n_nodes) if g.kind[n] == oracle.PRODUCT]
    family = {n for p in products for n in (p, *g.children(p).tolist())}
    nested = all(
        scopes[a] <= scopes[b] or scopes[b] <= scopes[a] or not scopes[a] & scopes[b]
        for a in family
        for b in family
    )
    answer = Properties(g).structured_decomposable
    assert bool(answer) == nested
    if not nested:
        assert answer.node in family
