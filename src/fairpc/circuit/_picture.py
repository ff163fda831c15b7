"""Circuits for the eye: the top layers as DOT text for Graphviz, and a summary in a few lines."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from html import escape
from shutil import which
from typing import TYPE_CHECKING, Final

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, Graph, WeightedGraph
from fairpc.circuit._properties import NAMES, properties_of
from fairpc.core import counted

if TYPE_CHECKING:
    from fairpc.circuit._circuit import Circuit

MAX_ANALYSED: Final = 20_000
"""Nodes up to which a summary computes structural properties that are not known yet."""
MAX_COMPARED: Final = 2_000
"""The same for determinism, which compares nodes in pairs."""
_LONGEST: Final = 20  # letters of a name
_SECONDS: Final = 60  # that Graphviz may take; it takes a tenth of one
_NOT_DRAWN: Final = "The circuit is not drawn: install Graphviz, which draws circuit.to_dot()."
_STYLE: Final = """\
  graph [bgcolor=white, fontname="Helvetica,sans-serif", fontsize=11, nodesep=0.2, ranksep=0.45]
  node [style=filled, fontname="Helvetica,sans-serif", fontsize=11, margin="0.2,0.05",
    height=0.3, width=0.3]
  edge [arrowhead=none, color="#8b95a1", fontname="Helvetica,sans-serif", fontsize=9]"""


def to_dot(circuit: WeightedGraph, max_nodes: int, labels: Mapping[str, Sequence[str]]) -> str:
    """:meth:`Circuit.to_dot`."""
    graph, order = circuit.graph, [circuit.graph.root]
    for node in order:  # level by level, as long as there is room
        below = dict.fromkeys(graph.children(node).tolist())
        order += [c for c in below if c not in order][: max(max_nodes - len(order), 0)]
    nodes, edges = [], []
    for node in order:
        children = graph.children(node).tolist()
        weights = circuit.weights(node).tolist() if graph.kind[node] == SUM else None
        for j, child in enumerate(children):
            if child in order:
                weight = "" if weights is None else f' [label="{weights[j]:.3g}"]'
                edges.append(f"  {node} -> {child}{weight}")
        cut = "" if set(children) <= set(order) else ', style="filled,dashed"'
        nodes.append(f"  {node} [{_look(graph, node, labels)}{cut}]")
    hidden = graph.n_nodes - len(order)
    more = [f'  label="… {counted(hidden, "more node")}"'] if hidden else []
    return "\n".join(["digraph {", _STYLE, *more, *nodes, *edges, "}", ""])


def _look(graph: Graph, node: int, labels: Mapping[str, Sequence[str]]) -> str:
    """Attributes of a node: its shape, its colour and its label."""
    if graph.kind[node] == INDICATOR:
        name, code = graph.names[graph.variable[node]], int(graph.value[node])
        value = labels[name][code] if name in labels else str(code)
        marks = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
        label = f"{_shortened(name)} = {_shortened(value)}".translate(marks)
        return f'label="{label}", shape=box, fillcolor="#e9edf2"'
    sign, colour = ("+", "#f2a541") if graph.kind[node] == SUM else ("×", "#7ab8ec")
    return f'label="{sign}", shape=circle, fixedsize=true, fillcolor="{colour}"'


def _shortened(name: str) -> str:
    """A name on one line, without control characters."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def drawn(dot: str) -> str:
    """DOT text as an SVG element, drawn by Graphviz; empty where that is not installed."""
    program = which("dot")
    if program is None:
        return ""
    try:
        run = subprocess.run(  # noqa: S603 - the program is Graphviz, and the text is quoted
            [program, "-Tsvg"],
            input=dot.encode(),
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    _, tag, rest = run.stdout.decode().partition("<svg")
    return tag + rest


def to_html(circuit: Circuit) -> str:
    """Drawing and summary, for a notebook."""
    drawing = drawn(circuit.to_dot()) or _NOT_DRAWN
    return (
        f'<div style="overflow-x:auto">{drawing}</div>'
        f'<pre style="line-height:1.3">{escape(summary(circuit))}</pre>'
    )


def summary(circuit: WeightedGraph) -> str:
    """Size, depth and structural properties, one line each."""
    graph = circuit.graph
    kinds = np.bincount(graph.kind, minlength=3)
    counts = ", ".join(
        counted(int(kinds[kind]), word)
        for kind, word in ((SUM, "sum"), (PRODUCT, "product"), (INDICATOR, "indicator"))
    )
    rows = (
        ("variables", _variables(graph)),
        ("nodes", f"{graph.n_nodes:,}: {counts}"),
        ("edges", f"{graph.n_edges:,}"),
        ("parameters", _parameters(graph)),
        ("depth", f"{depth(graph):,}"),
        ("properties", _properties(graph)),
    )
    return "\n".join(["Circuit", *(f"  {name:<11} {text}" for name, text in rows)])


def depth(graph: Graph) -> int:
    """Edges on the longest path from the root to an indicator."""
    height = [0] * graph.n_nodes
    ptr, child = graph.child_ptr.tolist(), graph.child.tolist()
    for n in range(graph.n_nodes):
        below = child[ptr[n] : ptr[n + 1]]
        if below:
            height[n] = 1 + max([height[c] for c in below])
    return height[-1]


def _variables(graph: Graph) -> str:
    arities = graph.arities.tolist()
    shown = [f"{_shortened(n)} ({a})" for n, a in zip(graph.names[:6], arities[:6], strict=True)]
    more = graph.n_variables - len(shown)
    return f"{graph.n_variables:,}: " + ", ".join(shown) + (f", … {more:,} more" if more else "")


def _parameters(graph: Graph) -> str:
    """Parameters, and how many of them several sum nodes share."""
    users = np.bincount(graph.block[graph.kind == SUM], minlength=len(graph.block_ptr) - 1)
    tied = int(np.diff(graph.block_ptr)[users > 1].sum())
    blocks = counted(len(graph.block_ptr) - 1, "block")
    sums = counted(int(users[users > 1].sum()), "sum node")
    shared = f"{tied:,} of them used by more than one sum ({sums} in all)"
    return f"{graph.n_parameters:,} in {blocks}, " + (shared if tied else "none shared")


def _properties(graph: Graph) -> str:
    found, skipped = [], []
    properties = properties_of(graph)
    known = vars(properties)  # a cached property leaves its value in the dictionary of its owner
    for name in NAMES:
        limit = MAX_COMPARED if name == "deterministic" else MAX_ANALYSED
        if name in known or graph.n_nodes <= limit:
            found.append(str(properties[name]))
        else:
            skipped.append(name.replace("_", "-"))
    if skipped:
        found.append(f"ask properties() whether {', '.join(skipped)}")
    return "; ".join(found)
