"""Slow, obvious twins of what ``fairpc.structure`` does fast. They share no code with it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.circuit import INDICATOR, PRODUCT, Circuit, Graph

Row = Sequence[int]
Codes = npt.NDArray[np.integer[Any]]


def pair_table(
    codes: Codes, weights: Sequence[float], i: int, j: int, ki: int, kj: int
) -> list[list[float]]:
    """Weighted counts of (x_i, x_j) over the rows where both are observed."""
    table = [[0.0] * kj for _ in range(ki)]
    for row, w in zip(codes.tolist(), weights, strict=True):
        if row[i] >= 0 and row[j] >= 0:
            table[row[i]][row[j]] += w
    return table


def mutual_information(table: list[list[float]], prior: float) -> float:
    """Σ p log p / (p_i p_j) of a table to which ``prior`` rows are added, spread evenly."""
    cells = len(table) * len(table[0])
    p = [[c + prior / cells for c in row] for row in table]
    total = sum(map(sum, p))
    if total == 0:
        return 0.0
    rows = [sum(row) for row in p]
    columns = [sum(column) for column in zip(*p, strict=True)]
    return sum(
        c / total * math.log(c * total / (rows[a] * columns[b]))
        for a, row in enumerate(p)
        for b, c in enumerate(row)
        if c > 0
    )


def spanning_trees(n: int) -> Iterator[list[tuple[int, int]]]:
    """All labelled trees on n nodes, by Prüfer's sequences."""
    if n <= 2:
        yield [(0, 1)] if n == 2 else []
        return
    for code in itertools.product(range(n), repeat=n - 2):
        degree = [1 + code.count(v) for v in range(n)]
        edges = []
        for v in code:
            leaf = next(u for u in range(n) if degree[u] == 1)
            edges.append((min(leaf, v), max(leaf, v)))
            degree[leaf] -= 1
            degree[v] -= 1
        u, v = (w for w in range(n) if degree[w] == 1)
        yield [*edges, (u, v)]


def eccentricity(edges: list[tuple[int, int]], n: int, start: int) -> int:
    """Longest distance from ``start`` to a node that it is connected with."""
    distance = {start: 0}
    while True:
        new = {
            b: distance[a] + 1
            for i, j in edges
            for a, b in ((i, j), (j, i))
            if a in distance and b not in distance
        }
        if not new:
            return max(distance.values())
        distance |= new


def probability(circuit: Circuit, row: Row) -> float:
    """P(row) by recursion; -1 is marginalised."""
    g = circuit.graph

    def value(n: int) -> float:
        if g.kind[n] == INDICATOR:
            x = row[int(g.variable[n])]
            return 1.0 if x < 0 or x == g.value[n] else 0.0
        below = [value(int(c)) for c in g.children(n)]
        if g.kind[n] == PRODUCT:
            return math.prod(below)
        weights = circuit.weights(n).tolist()
        return float(sum(w * b for w, b in zip(weights, below, strict=True)))

    return value(g.root)


def log_likelihood(circuit: Circuit, codes: Codes, weights: Sequence[float]) -> float:
    """Σ weight · log P(row)."""
    total = 0.0
    for row, w in zip(codes.tolist(), weights, strict=True):
        p = probability(circuit, row)
        total += w * (math.log(p) if p > 0 else -math.inf) if w else 0.0
    return total


def active_edges(graph: Graph, row: Row) -> list[tuple[int, int]]:
    """The sum edges (node, position) that a complete row takes, in a deterministic circuit."""
    positive = [False] * graph.n_nodes
    for n in range(graph.n_nodes):
        if graph.kind[n] == INDICATOR:
            positive[n] = row[int(graph.variable[n])] == graph.value[n]
        else:
            below = [positive[int(c)] for c in graph.children(n)]
            positive[n] = all(below) if graph.kind[n] == PRODUCT else any(below)
    taken = []
    stack = [graph.root]
    while stack:
        n = stack.pop()
        children = graph.children(n).tolist()
        if graph.kind[n] == PRODUCT:
            stack += children
        elif graph.kind[n] != INDICATOR:
            active = [k for k, c in enumerate(children) if positive[c]]
            assert len(active) == 1, f"row {row} takes edges {active} of node {n}"
            taken.append((n, active[0]))
            stack.append(children[active[0]])
    return taken


def maximum_likelihood(
    circuit: Circuit, codes: Codes, weights: Sequence[float], alpha: float = 0.0
) -> Circuit:
    """Parameters from counted edges, with Laplace smoothing; nodes without counts are uniform."""
    g = circuit.graph
    flow = {n: [0.0] * len(g.children(n)) for n in range(g.n_nodes) if g.block[n] >= 0}
    for row, w in zip(codes.tolist(), weights, strict=True):
        for n, k in active_edges(g, row):
            flow[n][k] += w
    theta = np.zeros(g.n_parameters)
    for n, counts in flow.items():
        k, total = len(counts), sum(counts) + alpha
        block = g.block_ptr[g.block[n]]
        for i, c in enumerate(counts):
            theta[block + i] = (c + alpha / k) / total if total > 0 else 1 / k
    return circuit.with_parameters(theta)


def check_structure(graph: Graph) -> None:
    """Smooth, decomposable, deterministic: by enumeration of all complete rows."""
    scope: list[frozenset[int]] = []
    for n in range(graph.n_nodes):
        below = [scope[int(c)] for c in graph.children(n)]
        if graph.kind[n] == INDICATOR:
            scope.append(frozenset([int(graph.variable[n])]))
        elif graph.kind[n] == PRODUCT:
            assert sum(map(len, below)) == len(frozenset().union(*below)), f"product {n} overlaps"
            scope.append(frozenset().union(*below))
        else:
            assert len(set(below)) == 1, f"sum {n} is not smooth"
            scope.append(below[0])
    assert scope[-1] == frozenset(range(graph.n_variables))
    for row in itertools.product(*(range(int(k)) for k in graph.arities)):
        positive = [False] * graph.n_nodes
        for n in range(graph.n_nodes):
            if graph.kind[n] == INDICATOR:
                positive[n] = row[int(graph.variable[n])] == graph.value[n]
                continue
            below_positive = [positive[int(c)] for c in graph.children(n)]
            if graph.kind[n] == PRODUCT:
                positive[n] = all(below_positive)
            else:
                assert sum(below_positive) <= 1, f"sum {n} is not deterministic at {row}"
                positive[n] = any(below_positive)
        assert positive[graph.root], f"row {row} has no support"
