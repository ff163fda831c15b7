"""Layouts: edges point down, nothing overlaps, few edges cross."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpc.circuit.layout import Edge, Layout, layered
from strategies import examples

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
    for depth in range(layout.n_layers):
        row = sorted(
            (layout.x[i], widths[i]) for i in range(len(widths)) if layout.layer[i] == depth
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
        monkeypatch.setattr("fairpc.circuit.layout._ORDER_SWEEPS", sweeps)
        found[sweeps] = sum(crossings(e, layered(e, [20.0] * 17, GAP)) for e in graphs)
    assert found[12] < 0.6 * found[0]


def test_one_node() -> None:
    assert layered([], [30.0], GAP) == Layout([15.0], [0], [])
