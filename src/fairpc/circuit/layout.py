"""Layered drawings of directed acyclic graphs: every edge points down, few edges cross.

The method of Sugiyama, Tagawa and Toda (1981): nodes get layers by their
longest path from the top; edges over several layers get a bend in each of
them; layers are ordered by the barycentres of their neighbours; then places are
found that are close to the neighbours' without changing that order.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

Edge = tuple[int, int]

_ORDER_SWEEPS: Final = 12
_PLACE_SWEEPS: Final = 16


@dataclass(frozen=True)
class Layout:
    """Where things go: centre and layer of each node, centres of each edge's bends."""

    x: list[float]
    layer: list[int]
    bends: list[list[float]]

    @property
    def n_layers(self) -> int:
        return max(self.layer) + 1


@dataclass
class _Row:
    """Things side by side in one layer."""

    items: list[int]

    def rank(self) -> dict[int, int]:
        return {item: i for i, item in enumerate(self.items)}


def layered(edges: Sequence[Edge], widths: Sequence[float], gap: float) -> Layout:
    """A layout of the nodes 0 … n - 1, listed parents first; edges are (parent, child)."""
    layer = [0] * len(widths)
    for parent, child in sorted(edges):
        layer[child] = max(layer[child], layer[parent] + 1)
    rows = [_Row([]) for _ in range(max(layer) + 1)]
    for node in _depth_first(edges, len(widths)):
        rows[layer[node]].items.append(node)

    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    chains: list[list[int]] = []
    for parent, child in edges:
        chain = [parent]
        for depth in range(layer[parent] + 1, layer[child]):
            rows[depth].items.append(len(above))
            chain.append(len(above))
            above.append([])
            below.append([])
        for a, b in zip(chain, [*chain[1:], child], strict=True):
            below[a].append(b)
            above[b].append(a)
        chains.append(chain[1:])

    _order(rows, above, below)
    bend = 2 * gap / 3
    x = _place(rows, above, below, [*widths, *[bend] * (len(above) - len(widths))], gap)
    return Layout(x[: len(widths)], layer, [[x[item] for item in chain] for chain in chains])


def _depth_first(edges: Sequence[Edge], n: int) -> list[int]:
    """Nodes in the order of a depth-first walk: relatives start out side by side."""
    below: list[list[int]] = [[] for _ in range(n)]
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


def _order(rows: list[_Row], above: list[list[int]], below: list[list[int]]) -> None:
    """Sweep down and up; keep the order with the fewest crossings."""
    best = [list(row.items) for row in rows]
    fewest = _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        down = sweep % 2 == 0
        fixed = rows[0] if down else rows[-1]
        for row in rows[1:] if down else rows[-2::-1]:
            _sort(row, fixed.rank(), above if down else below)
            fixed = row
        found = _crossings(rows, below)
        if found < fewest:
            fewest, best = found, [list(row.items) for row in rows]
    for row, items in zip(rows, best, strict=True):
        row.items = items


def _sort(row: _Row, rank: dict[int, int], neighbours: list[list[int]]) -> None:
    own = row.rank()
    scale = len(rank) / max(len(own), 1)

    def centre(item: int) -> float:
        near = [rank[n] for n in neighbours[item] if n in rank]
        return sum(near) / len(near) if near else own[item] * scale

    row.items.sort(key=centre)


def _crossings(rows: list[_Row], below: list[list[int]]) -> int:
    count = 0
    for row, following in pairwise(rows):
        rank = following.rank()
        seen: list[int] = []
        for item in row.items:
            ends = sorted(rank[n] for n in below[item])
            count += sum(len(seen) - bisect(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


def _place(
    rows: list[_Row],
    above: list[list[int]],
    below: list[list[int]],
    widths: list[float],
    gap: float,
) -> list[float]:
    """Centres, drawn to the mean of their neighbours again and again."""
    x = [0.0] * len(widths)
    for row in rows:
        places = _spread([0.0] * len(row.items), row, widths, gap)
        for item, place in zip(row.items, places, strict=True):
            x[item] = place
    for sweep in range(_PLACE_SWEEPS):
        last = sweep >= _PLACE_SWEEPS - 2
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = []
            for item in row.items:
                near = above[item] if sweep % 2 == 0 else below[item]
                near = above[item] + below[item] if last else near
                wanted.append(sum(x[n] for n in near) / len(near) if near else x[item])
            for item, place in zip(row.items, _spread(wanted, row, widths, gap), strict=True):
                x[item] = place
    left = min(place - width / 2 for place, width in zip(x, widths, strict=True))
    return [place - left for place in x]


def _spread(wanted: list[float], row: _Row, widths: list[float], gap: float) -> list[float]:
    """Places nearest to the wanted ones (least squares) that keep the order and the gaps.

    Less the room that the things to the left take up, places must not fall from
    left to right: isotonic regression, by pooling neighbours that violate it.
    """
    room = [0.0]
    for a, b in pairwise(row.items):
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
