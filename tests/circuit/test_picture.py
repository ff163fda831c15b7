"""Pictures and summaries: complete where they can be, honest about what they leave out.

In their layouts edges point down, nothing overlaps and few edges cross.
"""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.circuit.graph import SUM
from fairpc.circuit.picture import (
    MAX_ANALYSED,
    MAX_COMPARED,
    Edge,
    Layout,
    depth,
    layered,
    summary,
    to_html,
    to_svg,
)
from strategies import any_circuits, examples

SVG = "{http://www.w3.org/2000/svg}"


def small() -> Circuit:
    b = CircuitBuilder({"S": 2, "X": 3})
    px = ([0.2, 0.3, 0.5], [0.6, 0.3, 0.1])
    cells = [b.product(b.indicator("S", s), b.categorical("X", p)) for s, p in enumerate(px)]
    return b.build(b.sum(cells, [0.7, 0.3]))


def tied() -> Circuit:
    """Two groups with a shared P(f), and P(x | f, s): 21 nodes."""
    b = CircuitBuilder({"S": 2, "F": 2, "X": 2})
    groups = []
    for s in (0, 1):
        x = [b.categorical("X", [0.1 + 0.2 * s + 0.3 * f, 0.9 - 0.2 * s - 0.3 * f]) for f in (0, 1)]
        f = b.sum([b.product(b.indicator("F", k), x[k]) for k in (0, 1)], [0.4, 0.6], tie="F")
        groups.append(b.product(b.indicator("S", s), f))
    return b.build(b.sum(groups, [0.5, 0.5]))


def huge(n_sums: int = 3_000) -> Circuit:
    """Layers of sums over products, about as many nodes as n_sums."""
    rnd = Random(0)
    b = CircuitBuilder({f"V{i}": 2 for i in range(9)})
    nodes = [b.categorical(0, [k / 40, 1 - k / 40]) for k in range(40)]
    for i in range(1, 9):
        leaves = [b.categorical(i, [k / 40, 1 - k / 40]) for k in range(40)]
        products = [b.product(rnd.choice(nodes), rnd.choice(leaves)) for _ in range(n_sums // 8)]
        count = 1 if i == 8 else n_sums // 8
        nodes = [b.sum(rnd.sample(products, 4)) for _ in range(count)]
    return b.build(nodes[0])


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def count(root: ET.Element, style: str) -> int:
    return sum(style in (e.get("class") or "").split() for e in root.iter())


def texts(root: ET.Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}text")]


def test_a_small_circuit_is_drawn_whole() -> None:
    root = parse(to_svg(small()))
    assert {s: count(root, s) for s in ("sum", "product", "indicator", "edge")} == {
        "sum": 3,
        "product": 2,
        "indicator": 5,
        "edge": 12,
    }
    shown = texts(root)
    assert sorted(t for t in shown if "=" in t) == ["S = 0", "S = 1", "X = 0", "X = 1", "X = 2"]
    assert sorted(t for t in shown if t.startswith(".")) == sorted(
        [".7", ".3", ".2", ".3", ".5", ".6", ".3", ".1"]
    )
    assert not any("more" in t for t in shown)


def test_values_are_shown_by_their_labels() -> None:
    labels = {"S": ("women", "men")}
    root = parse(to_svg(small(), labels=labels))
    shown = [t for t in texts(root) if "=" in t]
    assert sorted(shown) == ["S = men", "S = women", "X = 0", "X = 1", "X = 2"]
    hints = [e.findtext(f"{SVG}title") for e in root.iter(f"{SVG}g")]
    assert "indicator node 0 [S = women]" in hints
    boxes = parse(to_svg(tied(), labels={"X": ("low", "high")}))
    titles = [e.findtext(f"{SVG}title") or "" for e in boxes.iter(f"{SVG}g")]
    assert any("X: low .1, high .9" in title for title in titles)


def test_it_says_what_it_is() -> None:
    root = parse(to_svg(small()))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Circuit over 2 variables: 10 nodes, 12 edges"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "Circuit over 2 variables"
    assert description is not None
    hints = [e.findtext(f"{SVG}title") for e in root.iter(f"{SVG}g")]
    assert "sum node 9" in hints
    assert "indicator node 0 [S = 0]" in hints


def test_it_needs_nothing_from_elsewhere() -> None:
    svg = to_svg(tied()).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|href|url\(|@import|<script|<image|<use", svg)
    rules = re.findall(r"[^{}]+(?={)", re.search(r"<style>(.*)</style>", svg)[1])  # type: ignore[index]
    assert rules
    assert all(rule.startswith(".fairpc-circuit ") for rule in rules)


def test_larger_circuits_have_boxes_for_distributions() -> None:
    root = parse(to_svg(tied()))
    assert count(root, "distribution") == 4
    assert count(root, "sum") == 3
    assert count(root, "indicator") == 4  # S and F; those of X are in the boxes
    assert texts(root).count("X") == 4
    assert ".1 .9" in texts(root)
    assert not any("more" in t for t in texts(root))


def test_boxes_order_values_and_are_only_complete_distributions() -> None:
    b = CircuitBuilder({"A": 6, "B": 2, "C": 2})
    a = b.sum([b.indicator("A", v) for v in (5, 4, 3, 2, 1, 0)], [0.05, 0.1, 0.15, 0.2, 0.2, 0.3])
    some = b.sum([b.indicator("B", 0), b.indicator("B", 0)], [0.5, 0.5])
    c = b.sum([b.indicator("C", 1), b.indicator("C", 0)], [0.25, 0.75])
    root = parse(to_svg(b.build(b.product(a, some, c))))
    assert count(root, "distribution") == 2
    assert ".3 .2 .2 …" in texts(root)
    assert ".75 .25" in texts(root)
    assert count(root, "sum") == 1


@pytest.mark.parametrize("max_nodes", [1, 2, 7, 30, 60, 200])
def test_of_a_large_circuit_the_top_is_drawn_and_the_rest_counted(max_nodes: int) -> None:
    circuit = huge()
    assert circuit.graph.n_nodes > 1_900
    root = parse(to_svg(circuit, max_nodes))
    shapes = sum(count(root, s) for s in ("sum", "product", "indicator", "distribution"))
    assert shapes <= max_nodes
    assert shapes >= min(max_nodes, 60) * 0.9
    (rest,) = [t for t in texts(root) if "more node" in t]
    hidden = int(rest.removeprefix("… ").split()[0].replace(",", ""))
    inside = 2 * len({t for t in texts(root) if re.fullmatch(r"V\d", t)})
    assert hidden + shapes + inside == circuit.graph.n_nodes
    assert count(root, "cut") > 0
    assert float(root.get("width") or 0) < 1_200


def test_a_wide_root_is_cut() -> None:
    b = CircuitBuilder({"A": 500})
    root = parse(to_svg(b.build(b.sum([b.indicator(0, v) for v in range(499)]))))
    assert count(root, "indicator") == 12
    assert "… 487 more nodes" in texts(root)


def test_one_more_node_is_singular() -> None:
    b = CircuitBuilder({"A": 2})
    assert "… 1 more node<" in to_svg(b.build(b.sum([b.indicator(0, 0)])), 1)


@settings(max_examples=examples(300))
@given(any_circuits(), st.sampled_from([5, 60]))
def test_any_circuit_can_be_drawn(circuit: Circuit, max_nodes: int) -> None:
    root = parse(to_svg(circuit, max_nodes))
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    for rect in root.iter(f"{SVG}rect"):
        x, w = float(rect.get("x") or 0), float(rect.get("width") or 0)
        assert 0 <= x <= x + w <= width
        assert 0 <= float(rect.get("y") or 0) <= height
    if circuit.graph.n_nodes <= max_nodes:
        assert not any("more node" in t for t in texts(root))


@given(st.text(min_size=1, max_size=30))
def test_any_name_can_be_drawn(name: str) -> None:
    b = CircuitBuilder({name: 2})
    root = parse(to_svg(b.build(b.categorical(0))))
    labels = [t for t in texts(root) if t.endswith((" = 0", " = 1"))]
    assert len(labels) == 2
    if name.isprintable() and len(name) <= 20:
        assert f"{name} = 0" in labels
    assert len(summary(b.build(b.categorical(0))).splitlines()) == 7


def test_markup_in_names_is_text() -> None:
    b = CircuitBuilder({"<b>&\"'": 2})
    circuit = b.build(b.categorical(0))
    assert "<b>" not in to_svg(circuit)
    assert "<b>" not in to_html(circuit)


@pytest.mark.parametrize(
    ("weight", "shown"),
    [(0.25, ".25"), (0.067, ".067"), (0.5, ".5"), (1e-9, "<.001"), (0.0, "0"), (0.995, ".995")],
)
def test_weights_have_two_or_three_digits(weight: float, shown: str) -> None:
    b = CircuitBuilder({"A": 2})
    assert shown in texts(parse(to_svg(b.build(b.categorical(0, [weight, 1 - weight])))))


def test_the_same_circuit_gives_the_same_picture() -> None:
    assert to_svg(huge()) == to_svg(huge())


def test_summary() -> None:
    assert summary(small()) == (
        "Circuit\n"
        "  variables   2: S (2), X (3)\n"
        "  nodes       10: 3 sums, 2 products, 5 indicators\n"
        "  edges       12\n"
        "  parameters  8 in 3 blocks, none shared\n"
        "  depth       3\n"
        "  properties  smooth; decomposable; deterministic; structured-decomposable"
    )


def test_summary_of_tied_parameters() -> None:
    assert "8 in 3 blocks, none shared" in summary(small())
    assert "12 in 6 blocks, 2 of them used by more than one sum (2 sum nodes in all)" in summary(
        tied()
    )


def test_summary_of_what_does_not_hold() -> None:
    b = CircuitBuilder({"A": 2})
    twice = b.build(b.sum([b.indicator(0, 0), b.indicator(0, 0)]))
    assert "not deterministic: sum node 1 has children 0 and 0" in summary(twice)


def test_summary_of_one_node() -> None:
    b = CircuitBuilder({"A": 2})
    text = summary(b.build(b.indicator(0, 1)))
    assert "1: 0 sums, 0 products, 1 indicator\n" in text
    assert "0 in 0 blocks, none shared" in text
    assert "depth       0" in text


def test_a_summary_is_not_held_up_by_determinism() -> None:
    circuit = huge(4_000)
    assert MAX_COMPARED < circuit.graph.n_nodes < MAX_ANALYSED
    text = summary(circuit)
    assert "smooth; decomposable; structured-decomposable" in text
    assert "ask properties() whether deterministic" in text
    assert "deterministic" not in vars(circuit.graph.properties)
    assert not circuit.graph.properties.deterministic
    assert "not deterministic: sum node" in summary(circuit)


def test_a_summary_of_many_nodes_computes_no_properties() -> None:
    n = MAX_ANALYSED
    b = CircuitBuilder({f"V{i}": 2 for i in range(2)})
    cells = [b.product(b.categorical(0), b.categorical(1)) for _ in range(n // 3)]
    circuit = b.build(b.sum(cells))
    assert circuit.graph.n_nodes > n
    start = time.process_time()
    text = summary(circuit)
    assert time.process_time() - start < 0.5
    assert "ask properties() whether smooth, decomposable, deterministic" in text
    assert "properties" not in vars(circuit.graph)


@settings(max_examples=examples(100))
@given(any_circuits())
def test_depth_is_the_longest_path(circuit: Circuit) -> None:
    def longest(node: int) -> int:
        below = circuit.graph.children(node).tolist()
        return 1 + max(map(longest, below)) if below else 0

    assert depth(circuit.graph) == longest(circuit.graph.root)


def test_html_has_picture_and_summary() -> None:
    html = to_html(tied())
    assert "<svg" in html
    assert "12 in 6 blocks" in html
    assert "overflow-x:auto" in html
    assert np.sum(tied().graph.kind == SUM) == 7


GAP = 10.0


def crossings(edges: list[Edge], layout: Layout) -> int:
    """Pairs of straight pieces between two layers that cross, by the definition."""
    pieces: list[tuple[int, float, float]] = []
    for (a, b), bends in zip(edges, layout.bends, strict=True):
        xs = [layout.x[a], *bends, layout.x[b]]
        pieces += [(layout.layer[a] + i, u, v) for i, (u, v) in enumerate(pairwise(xs))]
    return sum(
        p[0] == q[0] and (p[1] - q[1]) * (p[2] - q[2]) < -1e-9
        for i, p in enumerate(pieces)
        for q in pieces[:i]
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Edge], list[float]]:
    """Graphs with one top, parents before children."""
    rnd = draw(st.randoms(use_true_random=False))
    n = rnd.randrange(1, 25)
    edges = [(rnd.randrange(child), child) for child in range(1, n)]
    for _ in range(rnd.randrange(0, n)):
        a, b = sorted((rnd.randrange(n), rnd.randrange(n)))
        if a != b:
            edges.append((a, b))
    return edges, [float(rnd.randrange(20, 90)) for _ in range(n)]


@settings(max_examples=examples(500))
@given(graphs())
def test_edges_point_down_and_nothing_overlaps(graph: tuple[list[Edge], list[float]]) -> None:
    edges, widths = graph
    layout = layered(edges, widths, GAP)
    assert layout.layer[0] == 0
    for (a, b), bends in zip(edges, layout.bends, strict=True):
        assert layout.layer[b] > layout.layer[a]
        assert len(bends) == layout.layer[b] - layout.layer[a] - 1
    for level in range(layout.n_layers):
        row = sorted(
            (layout.x[i], widths[i]) for i in range(len(widths)) if layout.layer[i] == level
        )
        assert row
        for (x, w), (u, v) in pairwise(row):
            assert u - x >= (w + v) / 2 + GAP - 1e-6
    left = min(x - w / 2 for x, w in zip(layout.x, widths, strict=True))
    assert left >= -1e-6


def test_a_layer_is_the_longest_path() -> None:
    layout = layered([(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)], [20.0] * 4, GAP)
    assert layout.layer == [0, 1, 2, 3]
    assert [len(b) for b in layout.bends] == [0, 0, 1, 0, 2]


def test_a_parent_sits_over_the_middle_of_its_children() -> None:
    layout = layered([(0, 1), (0, 2), (0, 3)], [20.0] * 4, GAP)
    assert layout.x[1:] == pytest.approx([10, 40, 70])
    assert layout.x[0] == pytest.approx(40)


def test_trees_have_no_crossings() -> None:
    rnd = Random(1)
    for _ in range(30):
        n = rnd.randrange(2, 40)
        edges = [(rnd.randrange(child), child) for child in range(1, n)]
        assert crossings(edges, layered(edges, [20.0] * n, GAP)) == 0


def test_crossings_that_can_be_avoided_are_avoided() -> None:
    # Two stars whose leaves were listed crosswise: 1 owns the even ones, 2 the odd ones.
    edges = [(0, 1), (0, 2), *((1 + leaf % 2, leaf) for leaf in range(3, 13))]
    assert crossings(edges, layered(edges, [20.0] * 13, GAP)) == 0


def test_sweeps_take_out_crossings(monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = Random(2)
    found = {}
    graphs = []
    for _ in range(20):
        edges = [(0, i) for i in range(1, 7)]
        edges += [(rnd.randrange(1, 7), leaf) for leaf in range(7, 17) for _ in range(2)]
        graphs.append(edges)
    for sweeps in (12, 0):
        monkeypatch.setattr("fairpc.circuit.picture._ORDER_SWEEPS", sweeps)
        found[sweeps] = sum(crossings(e, layered(e, [20.0] * 17, GAP)) for e in graphs)
    assert found[12] < 0.6 * found[0]


def test_one_node() -> None:
    assert layered([], [30.0], GAP) == Layout([15.0], [0], [])
