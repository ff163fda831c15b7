"""Pictures and summaries: complete where they can be, honest about what they leave out."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from random import Random
from shutil import which

import pytest
from hypothesis import given, settings, strategies as st

from fairpc.circuit import Circuit, CircuitBuilder, depth
from fairpc.circuit._picture import MAX_ANALYSED, MAX_COMPARED, drawn, summary
from strategies import any_circuits, examples

NODE = re.compile(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)", shape=(\w+),.*?(dashed)?"?\]$')
EDGE = re.compile(r'^  (\d+) -> (\d+)(?: \[label="([^"]+)"\])?$')
MORE = re.compile(r'^  label="… ([\d,]+) more nodes?"$')


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


def read(dot: str) -> tuple[dict[int, tuple[str, str, bool]], list[tuple[str, str, str]], int]:
    """Label, shape and dashed rim of each node; edges with their weights; how many more there are.

    Every line between the style and the end is one of these.
    """
    assert dot.startswith("digraph {\n")
    assert dot.endswith("\n}\n")
    nodes, edges, more = {}, [], 0
    for line in dot.splitlines()[5:-1]:
        if node := NODE.match(line):
            label = node[2].replace("\\n", "\n").replace("\\\\", "\\").replace('\\"', '"')
            nodes[int(node[1])] = (label.replace("&amp;", "&"), node[3], bool(node[4]))
        elif edge := EDGE.match(line):
            edges.append((edge[1], edge[2], edge[3] or ""))
        else:
            rest = MORE.match(line)
            assert rest, line
            more = int(rest[1].replace(",", ""))
    return nodes, edges, more


def labels(dot: str) -> list[str]:
    return [label for label, *_ in read(dot)[0].values()]


def test_a_small_circuit_is_written_whole() -> None:
    nodes, edges, more = read(small().to_dot())
    assert sorted(label for label, *_ in nodes.values()) == sorted(
        ["+", "+", "+", "×", "×", "S = 0", "S = 1", "X = 0", "X = 1", "X = 2"]
    )
    assert len(edges) == 12
    assert sorted(weight for *_, weight in edges if weight) == sorted(
        ["0.7", "0.3", "0.2", "0.3", "0.5", "0.6", "0.3", "0.1"]
    )
    assert not any(cut for *_, cut in nodes.values())
    assert more == 0


def test_values_are_shown_by_their_labels() -> None:
    shown = labels(small().to_dot(labels={"S": ("women", "men")}))
    assert sorted(label for label in shown if "=" in label) == [
        "S = men",
        "S = women",
        "X = 0",
        "X = 1",
        "X = 2",
    ]


@pytest.mark.parametrize("max_nodes", [1, 2, 7, 30, 60, 200])
def test_of_a_large_circuit_the_top_is_written_and_the_rest_counted(max_nodes: int) -> None:
    circuit = huge()
    assert circuit.graph.n_nodes > 1_900
    nodes, edges, more = read(circuit.to_dot(max_nodes))
    assert len(nodes) == max_nodes
    assert more + len(nodes) == circuit.graph.n_nodes
    for node, (_, _, cut) in nodes.items():
        drawn_below = {child for parent, child, _ in edges if parent == str(node)}
        assert cut == (drawn_below != set(map(str, circuit.graph.children(node).tolist())))


def test_a_wide_root_is_cut() -> None:
    b = CircuitBuilder({"A": 500})
    nodes, _, more = read(b.build(b.sum([b.indicator(0, v) for v in range(499)])).to_dot())
    assert (len(nodes), more) == (60, 440)


def test_one_more_node_is_singular() -> None:
    b = CircuitBuilder({"A": 2})
    assert '"… 1 more node"' in b.build(b.sum([b.indicator(0, 0)])).to_dot(1)


@settings(max_examples=examples(300))
@given(any_circuits(), st.sampled_from([5, 60]))
def test_any_circuit_can_be_written(circuit: Circuit, max_nodes: int) -> None:
    nodes, edges, more = read(circuit.to_dot(max_nodes))
    assert {int(end) for edge in edges for end in edge[:2]} <= nodes.keys()
    assert circuit.graph.root in nodes
    if circuit.graph.n_nodes <= max_nodes:
        assert more == 0


@given(st.text(min_size=1, max_size=30))
def test_any_name_can_be_written(name: str) -> None:
    b = CircuitBuilder({name: 2})
    circuit = b.build(b.categorical(0))
    shown = [label for label in labels(circuit.to_dot()) if label.endswith((" = 0", " = 1"))]
    assert len(shown) == 2
    if name.isprintable() and len(name) <= 20 and not set(name) & set("\\&"):
        assert f"{name} = 0" in shown
    assert len(summary(circuit).splitlines()) == 7


def test_what_means_something_in_dot_is_text() -> None:
    b = CircuitBuilder({'"\\&lt;\\': 2})
    assert 'label="\\"\\\\&amp;lt;\\\\ = 0"' in b.build(b.categorical(0)).to_dot()


@pytest.mark.skipif(which("dot") is None, reason="Graphviz is not installed")
@settings(max_examples=20)
@given(st.text(min_size=1, max_size=15).filter(str.isprintable))
def test_graphviz_draws_names_as_they_are(name: str) -> None:
    b = CircuitBuilder({name: 2})
    root = ET.fromstring(drawn(b.build(b.categorical(0)).to_dot()))
    shown = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert shown == {"+", "0.5", f"{name} = 0", f"{name} = 1"}


def of_path(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a script the only program that is found, and call it dot."""
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_graphviz_gets_the_text_and_its_element_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'read -r first; echo "<!DOCTYPE svg><svg><!-- $1 $first --></svg>"'
    of_path(tmp_path, script, monkeypatch)
    html = small()._repr_html_()
    assert "<svg><!-- -Tsvg digraph { --></svg>" in html
    assert "10: 3 sums" in html


@pytest.mark.parametrize("script", ["exit 1", "echo no drawing"])
def test_a_circuit_is_not_drawn_where_graphviz_fails(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_path(tmp_path, script, monkeypatch)
    assert drawn(small().to_dot()) == ""


def test_without_graphviz_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    html = small()._repr_html_()
    assert "The circuit is not drawn: install Graphviz" in html
    assert "10: 3 sums" in html


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
    assert "deterministic" not in vars(circuit.properties())
    assert not circuit.properties().deterministic
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
