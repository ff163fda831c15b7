"""Circuits for the eye: an SVG of the top layers, and a summary in a few lines.

Drawings are layered, every edge points down and few edges cross. The method is that of
Sugiyama, Tagawa and Toda (1981): nodes get layers by their longest path from the top;
edges over several layers get a bend in each of them; layers are ordered by the
barycentres of their neighbours; then places are found that are close to the
neighbours' without changing that order.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from fairpc.circuit.graph import INDICATOR, KIND_NAMES, PRODUCT, SUM, Circuit, Graph
from fairpc.circuit.properties import NAMES
from fairpc.errors import counted

MAX_ANALYSED: Final = 20_000
"""Nodes up to which a summary computes structural properties that are not known yet."""

MAX_COMPARED: Final = 2_000
"""The same for determinism, which compares nodes in pairs."""

_SMALL: Final = 12  # nodes up to which each is drawn; in larger circuits, distributions are boxes
_MAX_ROW: Final = 12  # nodes side by side where not all fit

_RADIUS: Final = 13.0
_GAP: Final = 18.0
_LAYER: Final = 78.0
_MARGIN: Final = 16.0
_LINE: Final = 15.0  # height of a line of text
_LETTER: Final = 6.7  # width of a letter
_LONGEST: Final = 20  # letters of a name

_ORDER_SWEEPS: Final = 12
_PLACE_SWEEPS: Final = 16

# One palette for light and dark pages: coloured nodes, pale labels with dark text, grey edges.
_STYLE: Final = "".join(
    f".fairpc-circuit {rule}"
    for rule in (
        "text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:11px;"
        "text-anchor:middle;fill:#1d2733}",
        ".weight text{font-size:9.5px}",
        ".edge{fill:none;stroke:#8b95a1;stroke-width:1.3}",
        ".cut{stroke-dasharray:1.5 3}",
        ".sum{fill:#f2a541;stroke:#9c6412}",
        ".product{fill:#7ab8ec;stroke:#245f92}",
        ".indicator{fill:#e9edf2;stroke:#75808c}",
        ".distribution{fill:#fbe7c8;stroke:#9c6412}",
        ".pill{fill:#f7f3e8;stroke:#c9c2ae;stroke-width:.6}",
        ".sign{fill:none;stroke:#1d2733;stroke-width:2;stroke-linecap:round}",
    )
)


def to_svg(
    circuit: Circuit, max_nodes: int = 60, *, labels: Mapping[str, Sequence[str]] | None = None
) -> str:
    """A drawing of the circuit, root on top: sums +, products ×, indicators [X = v].

    Of a circuit with more than ``max_nodes`` nodes, the top layers are drawn
    and the rest is counted. Beyond a dozen nodes, a sum over all indicators of
    one variable is drawn as a box with the variable and its probabilities.
    ``labels`` names the values of some variables; of the others numbers are shown.
    """
    return _Drawing.of(circuit, max(max_nodes, 1), labels or {}).svg()


def to_html(circuit: Circuit) -> str:
    """Drawing and summary, for a notebook."""
    return (
        f'<div style="overflow-x:auto">{to_svg(circuit)}</div>'
        f'<pre style="line-height:1.3">{escape(summary(circuit))}</pre>'
    )


def summary(circuit: Circuit) -> str:
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
    # A cached property leaves its value in the dictionary of its owner.
    known = vars(vars(graph).get("properties", graph))
    for name in NAMES:
        limit = MAX_COMPARED if name == "deterministic" else MAX_ANALYSED
        if name in known or graph.n_nodes <= limit:
            found.append(str(graph.properties[name]))
        else:
            skipped.append(name.replace("_", "-"))
    if skipped:
        found.append(f"ask properties() whether {', '.join(skipped)}")
    return "; ".join(found)


def _shortened(name: str) -> str:
    name = _printable(name)
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _printable(text: str) -> str:
    """Text on one line, without what XML has no word for."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


@dataclass(frozen=True)
class _Shape:
    """What a node is drawn as: a circle with a sign, or a box with lines of text.

    Attributes:
        hint: what is shown when one points at it.
    """

    style: Literal["sum", "product", "indicator", "distribution"]
    hint: str
    lines: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        longest = max(map(len, self.lines), default=0)
        return _LETTER * longest + 12 if self.lines else 2 * _RADIUS

    @property
    def half_height(self) -> float:
        return (_LINE * len(self.lines) + 9) / 2 if self.lines else _RADIUS

    def svg(self, x: float, y: float) -> str:
        if not self.lines:
            return (
                f'<circle class="{self.style}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
                f'<path class="sign" d="{_PLUS if self.style == "sum" else _TIMES}" '
                f'transform="translate({x:.1f} {y:.1f})"/>'
            )
        first = y + 4 - _LINE * (len(self.lines) - 1) / 2
        text = "".join(
            f'<text x="{x:.1f}" y="{first + _LINE * i:.1f}">{_escaped(line)}</text>'
            for i, line in enumerate(self.lines)
        )
        return (
            f'<rect class="{self.style}" x="{x - self.width / 2:.1f}" '
            f'y="{y - self.half_height:.1f}" width="{self.width:.1f}" '
            f'height="{2 * self.half_height:.0f}" rx="5"/>{text}'
        )


_PLUS: Final = "M-5.5 0H5.5M0 -5.5V5.5"
_TIMES: Final = "M-4.2 -4.2L4.2 4.2M-4.2 4.2L4.2 -4.2"


@dataclass(frozen=True)
class _Drawing:
    """Shapes, parents first, and where they are put.

    Attributes:
        edges: parent and child as places in ``shapes``, and the weight below a sum.
        cut: places of the nodes some of whose children are out of sight.
        hidden: number of nodes that are neither drawn nor part of a box.
    """

    circuit: Circuit
    shapes: list[_Shape]
    edges: list[tuple[int, int, float | None]]
    cut: list[int]
    hidden: int
    layout: Layout

    @classmethod
    def of(cls, circuit: Circuit, max_nodes: int, labels: Mapping[str, Sequence[str]]) -> _Drawing:
        graph = circuit.graph
        boxes, seen = _in_sight(graph, max_nodes)
        nodes = sorted(seen, reverse=True)
        at = {node: i for i, node in enumerate(nodes)}
        edges: list[tuple[int, int, float | None]] = []
        cut = []
        for node in nodes:
            children = [] if node in boxes else graph.children(node).tolist()
            weights = circuit.weights(node).tolist() if graph.kind[node] == SUM else None
            for j, child in enumerate(children):
                if child in at:
                    edges.append((at[node], at[child], None if weights is None else weights[j]))
            if any(child not in at for child in children):
                cut.append(at[node])
        inside = {c for node in boxes for c in graph.children(node).tolist()}
        shapes = [_shape(circuit, node, node in boxes, labels) for node in nodes]
        layout = layered([e[:2] for e in edges], [shape.width for shape in shapes], _GAP)
        return cls(circuit, shapes, edges, cut, graph.n_nodes - len(inside | at.keys()), layout)

    def svg(self) -> str:
        graph, hidden = self.circuit.graph, self.hidden
        width = max(x + s.width / 2 for x, s in zip(self.layout.x, self.shapes, strict=True))
        width = max(width + 2 * _MARGIN, 150.0)
        bottom = self._point(0.0, self.layout.n_layers - 1)[1]
        height = bottom + 2 * _RADIUS + _MARGIN + (32 if hidden else 0)
        title = f"Circuit over {counted(graph.n_variables, 'variable')}"
        text = f"{title}: {counted(graph.n_nodes, 'node')}, {counted(graph.n_edges, 'edge')}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="fairpc-circuit" role="img" '
            f'aria-label="{text}" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">',
            f"<title>{title}</title>",
            f"<desc>{text}; {counted(hidden, 'node is', 'nodes are')} not drawn.</desc>",
            f"<style>{_STYLE}</style>",
            *(self._edge(i) for i in range(len(self.edges))),
            *(self._stub(i) for i in self.cut),
            *self._weights(),
            *(self._node(i) for i in range(len(self.shapes))),
        ]
        if hidden:
            more = f"… {counted(hidden, 'more node')}"
            parts.append(f"<g>{_pill(width / 2, height - _MARGIN - 9, more, _LETTER)}</g>")
        return "\n".join([*filter(None, parts), "</svg>"])

    def _point(self, place: float, layer: int) -> tuple[float, float]:
        return _MARGIN + place, _MARGIN + _RADIUS + _LAYER * layer

    def _centre(self, i: int) -> tuple[float, float]:
        return self._point(self.layout.x[i], self.layout.layer[i])

    def _points(self, edge: int) -> list[tuple[float, float]]:
        """From the lower rim of the parent over the bends to the upper rim of the child."""
        parent, child, _ = self.edges[edge]
        (x, y), (u, v) = self._centre(parent), self._centre(child)
        bends = enumerate(self.layout.bends[edge], self.layout.layer[parent] + 1)
        inner = (self._point(place, depth) for depth, place in bends)
        return [(x, y + _RADIUS), *inner, (u, v - self.shapes[child].half_height)]

    def _edge(self, edge: int) -> str:
        (x, y), *rest = self._points(edge)
        path = f"M{x:.1f} {y:.1f}"
        for u, v in rest:
            bow = _BOW * (v - y)
            path += f"C{x:.1f} {y + bow:.1f} {u:.1f} {v - bow:.1f} {u:.1f} {v:.1f}"
            x, y = u, v
        return f'<path class="edge" d="{path}"/>'

    def _weights(self) -> list[str]:
        """Labels of the sum edges, each where it meets as few earlier ones as possible."""
        taken: list[tuple[float, float]] = []
        labels = []
        for edge, (_, _, weight) in enumerate(self.edges):
            if weight is not None:
                start, end, *_ = self._points(edge)
                spots = [_along(start, end, t) for t in _SPOTS]
                x, y = min(spots, key=lambda spot: sum(_meet(spot, other) for other in taken))
                taken.append((x, y))
                labels.append(f'<g class="weight">{_pill(x, y, _digits(weight), 5.6, 13.0)}</g>')
        return labels

    def _stub(self, i: int) -> str:
        x, y = self._centre(i)
        lines = (f"M{x:.1f} {y + _RADIUS:.1f}l{side} 17" for side in (-9, 0, 9))
        return f'<path class="edge cut" d="{"".join(lines)}"/>'

    def _node(self, i: int) -> str:
        shape = self.shapes[i]
        return f"<g><title>{_escaped(shape.hint)}</title>{shape.svg(*self._centre(i))}</g>"


_BOW: Final = 0.42  # how long an edge stays upright
_SPOTS: Final = (0.6, 0.48, 0.72, 0.36, 0.82, 0.28, 0.88)  # past the middle, siblings are apart


def _along(start: tuple[float, float], end: tuple[float, float], t: float) -> tuple[float, float]:
    """A point of the Bézier curve that ``_edge`` draws."""
    (x, y), (u, v) = start, end
    early, late, last = 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
    return x + (u - x) * (late + last), y + (v - y) * (early * _BOW + late * (1 - _BOW) + last)


def _meet(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return abs(a[0] - b[0]) < 23 and abs(a[1] - b[1]) < 12


def _is_distribution(graph: Graph, node: int) -> bool:
    """Whether a node is a sum over all indicators of one variable."""
    children = graph.children(node)
    if graph.kind[node] != SUM or (graph.kind[children] != INDICATOR).any():
        return False
    variables, values = graph.variable[children], set(graph.value[children].tolist())
    complete = len(values) == len(children) == graph.arities[variables[0]]
    return complete and bool((variables == variables[0]).all())


def _in_sight(graph: Graph, max_nodes: int) -> tuple[set[int], set[int]]:
    """The nodes to draw as boxes, and all nodes to draw.

    Level by level, so many in all and, unless all fit, so many in a row.
    """
    row = _MAX_ROW if graph.n_nodes > max_nodes else graph.n_nodes
    boxes: set[int] = set()
    seen = {graph.root}
    level = [graph.root]
    while level:
        room = min(row, max_nodes - len(seen))
        families: list[list[int]] = [[] for _ in level]
        if graph.n_nodes > _SMALL:
            boxes.update(node for node in level if _is_distribution(graph, node))
        # Those in the middle first, so that the drawing stays in balance.
        for i in sorted(range(len(level)), key=lambda i: abs(2 * i - len(level) + 1)):
            children = [] if level[i] in boxes else graph.children(level[i]).tolist()
            families[i] = [c for c in dict.fromkeys(children) if c not in seen][:room]
            room -= len(families[i])
            seen.update(families[i])
        level = [child for family in families for child in family]
    return boxes, seen


def _shape(
    circuit: Circuit, node: int, is_box: bool, labels: Mapping[str, Sequence[str]]
) -> _Shape:
    graph = circuit.graph
    hint = f"{KIND_NAMES[graph.kind[node]]} node {node}"
    if graph.kind[node] == INDICATOR:
        name = graph.names[graph.variable[node]]
        value = _value(labels, name, int(graph.value[node]))
        label = f"{_shortened(name)} = {_shortened(value)}"
        return _Shape("indicator", f"{hint} [{name} = {value}]", (label,))
    if not is_box:
        return _Shape("sum" if graph.kind[node] == SUM else "product", hint)
    children = graph.children(node)
    order = np.argsort(graph.value[children])
    weights = [_digits(w) for w in circuit.weights(node)[order].tolist()]
    shown = weights if len(weights) <= 4 else [*weights[:3], "…"]
    name = graph.names[graph.variable[children[0]]]
    each = (f"{_value(labels, name, i)} {w}" for i, w in enumerate(weights))
    return _Shape(
        "distribution", f"{hint}, {name}: {', '.join(each)}", (_shortened(name), " ".join(shown))
    )


def _value(labels: Mapping[str, Sequence[str]], name: str, code: int) -> str:
    return labels[name][code] if name in labels else str(code)


def _pill(x: float, y: float, text: str, letter: float, height: float = 18.0) -> str:
    width = letter * len(text) + 6
    return (
        f'<rect class="pill" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.0f}" rx="{height / 2:.1f}"/>'
        f'<text x="{x:.1f}" y="{y + 3.5:.1f}">{_escaped(text)}</text>'
    )


def _digits(weight: float) -> str:
    """A weight in two or three digits: .25, .067, <.001."""
    if 0 < weight < 0.001:
        return "<.001"
    if 0.999 < weight < 1:
        return ">.999"
    text = f"{weight:.2f}" if 0.1 <= weight <= 0.99 or weight in (0, 1) else f"{weight:.3f}"
    return text.rstrip("0").rstrip(".").removeprefix("0") or "0"


def _escaped(text: str) -> str:
    return escape(_printable(text))


Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Where things go: centre and layer of each node, centres of each edge's bends."""

    x: list[float]
    layer: list[int]
    bends: list[list[float]]

    @property
    def n_layers(self) -> int:
        return max(self.layer) + 1


_Row = list[int]  # things side by side in one layer
_Neighbours = list[list[int]]


def _rank(row: _Row) -> dict[int, int]:
    return {item: i for i, item in enumerate(row)}


def layered(edges: Sequence[Edge], widths: Sequence[float], gap: float) -> Layout:
    """A layout of the nodes 0 … n - 1, listed parents first; edges are (parent, child)."""
    layer = [0] * len(widths)
    for parent, child in sorted(edges):
        layer[child] = max(layer[child], layer[parent] + 1)
    rows: list[_Row] = [[] for _ in range(max(layer) + 1)]
    for node in _depth_first(edges, len(widths)):
        rows[layer[node]].append(node)

    above: _Neighbours = [[] for _ in widths]
    below: _Neighbours = [[] for _ in widths]
    chains: list[list[int]] = []
    for parent, child in edges:
        chain = [parent]
        for depth in range(layer[parent] + 1, layer[child]):
            rows[depth].append(len(above))
            chain.append(len(above))
            above.append([])
            below.append([])
        for a, b in zip(chain, [*chain[1:], child], strict=True):
            below[a].append(b)
            above[b].append(a)
        chains.append(chain[1:])

    rows = _ordered(rows, above, below)
    bend = 2 * gap / 3
    x = _place(rows, above, below, [*widths, *[bend] * (len(above) - len(widths))], gap)
    return Layout(x[: len(widths)], layer, [[x[item] for item in chain] for chain in chains])


def _depth_first(edges: Sequence[Edge], n: int) -> list[int]:
    """Nodes in the order of a depth-first walk: relatives start out side by side."""
    below: _Neighbours = [[] for _ in range(n)]
    for parent, child in edges:
        below[parent].append(child)
    seen: dict[int, None] = {}
    stack = list(range(n - 1, -1, -1))
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(reversed(below[node]))
    return list(seen)


def _ordered(rows: list[_Row], above: _Neighbours, below: _Neighbours) -> list[_Row]:
    """Sweep down and up; keep the order with the fewest crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        step, near = (1, above) if sweep % 2 == 0 else (-1, below)
        swept = rows[::step][:1]
        for row in rows[::step][1:]:
            swept.append(_sorted(row, _rank(swept[-1]), near))
        rows = swept[::step]
        found = _crossings(rows, below)
        if found < fewest:
            best, fewest = rows, found
    return best


def _sorted(row: _Row, rank: dict[int, int], neighbours: _Neighbours) -> _Row:
    own = _rank(row)
    scale = len(rank) / max(len(own), 1)

    def centre(item: int) -> float:
        near = [float(rank[n]) for n in neighbours[item] if n in rank]
        return _mean(near, own[item] * scale)

    return sorted(row, key=centre)


def _crossings(rows: list[_Row], below: _Neighbours) -> int:
    count = 0
    for row, following in pairwise(rows):
        rank = _rank(following)
        seen: list[int] = []
        for item in row:
            ends = sorted(rank[n] for n in below[item])
            count += sum(len(seen) - bisect(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


def _place(
    rows: list[_Row], above: _Neighbours, below: _Neighbours, widths: list[float], gap: float
) -> list[float]:
    """Centres, drawn to the mean of their neighbours again and again."""
    x = [0.0] * len(widths)

    def put(row: _Row, wanted: list[float]) -> None:
        for item, place in zip(row, _spread(wanted, row, widths, gap), strict=True):
            x[item] = place

    for row in rows:
        put(row, [0.0] * len(row))
    for sweep in range(_PLACE_SWEEPS):
        near, step = (above, 1) if sweep % 2 == 0 else (below, -1)
        if sweep >= _PLACE_SWEEPS - 2:
            near = [a + b for a, b in zip(above, below, strict=True)]
        for row in rows[::step]:
            put(row, [_mean([x[n] for n in near[item]], x[item]) for item in row])
    left = min(place - width / 2 for place, width in zip(x, widths, strict=True))
    return [place - left for place in x]


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(wanted: list[float], row: _Row, widths: list[float], gap: float) -> list[float]:
    """Places nearest to the wanted ones (least squares) that keep the order and the gaps.

    Less the room that the things to the left take up, places must not fall from
    left to right: isotonic regression, by pooling neighbours that violate it.
    """
    room = [0.0]
    for a, b in pairwise(row):
        room.append(room[-1] + (widths[a] + widths[b]) / 2 + gap)
    pools: list[tuple[float, int]] = []
    for place, before in zip(wanted, room, strict=True):
        mean, size = place - before, 1
        while pools and pools[-1][0] > mean:
            other, n = pools.pop()
            mean, size = (mean * size + other * n) / (size + n), size + n
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [place + before for place, before in zip(flat, room, strict=True)]
