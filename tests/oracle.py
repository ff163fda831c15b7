"""Slow, obvious twins of the engine: everything by enumeration of all complete rows.

Nothing here comes from ``fairpc``: a circuit is only read, as arrays. Each
function follows a definition of the paper, or plain probability, and never an
algorithm of ``src``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

INDICATOR, PRODUCT, SUM = 0, 1, 2
MAX_STATES = 4096
MAX_TREES = 20_000


class GraphArrays(Protocol):
    """What is read of a graph."""

    @property
    def arities(self) -> Array: ...
    @property
    def kind(self) -> Array: ...
    @property
    def variable(self) -> Array: ...
    @property
    def value(self) -> Array: ...
    @property
    def child_ptr(self) -> Array: ...
    @property
    def child(self) -> Array: ...
    @property
    def block(self) -> Array: ...
    @property
    def block_ptr(self) -> Array: ...


class CircuitArrays(Protocol):
    """What is read of a circuit."""

    @property
    def graph(self) -> GraphArrays: ...
    @property
    def parameters(self) -> Array: ...


class ForestArrays(Protocol):
    """What is read of a forest: boxes of trees, a density, and rates of the boxes."""

    @property
    def tree(self) -> Array: ...
    @property
    def allowed(self) -> tuple[Array, ...]: ...
    @property
    def shares(self) -> Array: ...
    @property
    def values(self) -> tuple[Array, ...]: ...
    @property
    def leaf_rate(self) -> Array: ...


class Edge(NamedTuple):
    """An edge (n, c), the parameter of it (None below a product)."""

    parent: int
    child: int
    parameter: int | None


def edges(g: GraphArrays) -> list[Edge]:
    """All edges in the order of the ``child`` array."""
    found = []
    for n in range(len(g.kind)):
        for i, e in enumerate(range(int(g.child_ptr[n]), int(g.child_ptr[n + 1]))):
            parameter = int(g.block_ptr[g.block[n]]) + i if g.kind[n] == SUM else None
            found.append(Edge(n, int(g.child[e]), parameter))
    return found


def edges_below(g: GraphArrays) -> list[list[int]]:
    """Per node, the numbers of the edges to its children."""
    below: list[list[int]] = [[] for _ in range(len(g.kind))]
    for e, edge in enumerate(edges(g)):
        below[edge.parent].append(e)
    return below


def all_rows(g: GraphArrays) -> Array:
    """Every complete row, one per line."""
    if math.prod(int(a) for a in g.arities) > MAX_STATES:
        raise ValueError("too many complete rows to enumerate")
    return np.array(list(itertools.product(*(range(int(a)) for a in g.arities))), int)


def node_values(circuit: CircuitArrays, rows: Array | None = None) -> Array:
    """C_n(z) for each node n and each complete row z, by the recursive definition of a circuit."""
    g, theta = circuit.graph, circuit.parameters
    rows = all_rows(g) if rows is None else rows
    edge, below = edges(g), edges_below(g)
    values = np.zeros((len(g.kind), len(rows)))
    for n in range(len(g.kind)):
        if g.kind[n] == INDICATOR:
            values[n] = rows[:, g.variable[n]] == g.value[n]
        elif g.kind[n] == PRODUCT:
            values[n] = 1.0
            for e in below[n]:
                values[n] *= values[edge[e].child]
        else:
            for e in below[n]:
                parameter = edge[e].parameter
                assert parameter is not None
                values[n] += theta[parameter] * values[edge[e].child]
    return values


def joint(circuit: CircuitArrays) -> Array:
    """P(z) of every complete row, in the order of ``all_rows``."""
    result: Array = node_values(circuit)[-1]
    return result


def likelihood(circuit: CircuitArrays, codes: Array) -> Array:
    """P(z) of complete rows."""
    result: Array = node_values(circuit, np.asarray(codes))[-1]
    return result


def agrees(g: GraphArrays, evidence: Array) -> Array:
    """Which complete rows complete the evidence (-1 = missing)."""
    rows = all_rows(g)
    result = np.ones(len(rows), bool)
    for j, v in enumerate(np.asarray(evidence).tolist()):
        if v >= 0:
            result &= rows[:, j] == v
    return result


def marginals(circuit: CircuitArrays, codes: Array) -> Array:
    """P(e) of each row, missing values marginalised."""
    p = joint(circuit)
    return np.array([math.fsum(p[agrees(circuit.graph, row)]) for row in codes])


def weighted(circuit: CircuitArrays, weights: dict[int, Array]) -> float:
    """Σ_x P(x) ∏ w_j(x_j) over every row x."""
    total = 0.0
    for row, p in zip(all_rows(circuit.graph), joint(circuit), strict=True):
        factor = p
        for j, w in weights.items():
            factor = factor * w[row[j]]
        total += factor
    return total


def posterior(circuit: CircuitArrays, evidence: Array) -> Array:
    """P(z | e) of every complete row."""
    p = np.where(agrees(circuit.graph, evidence), joint(circuit), 0.0)
    result: Array = p / math.fsum(p)
    return result


def conditionals(circuit: CircuitArrays, codes: Array) -> list[Array]:
    """P(X_j = v | e), one array (rows, arity) per variable."""
    rows = all_rows(circuit.graph)
    tables = [np.zeros((len(codes), int(a))) for a in circuit.graph.arities]
    for i, row in enumerate(codes):
        p = posterior(circuit, row)
        for j, table in enumerate(tables):
            for v in range(table.shape[1]):
                table[i, v] = math.fsum(p[rows[:, j] == v])
    return tables


def mpe_values(circuit: CircuitArrays, codes: Array) -> Array:
    """max over the completions z of each row of P(z)."""
    p = joint(circuit)
    return np.array([p[agrees(circuit.graph, row)].max() for row in codes])


class _Weighted(NamedTuple):
    graph: GraphArrays
    parameters: Array


def clashes(g: GraphArrays) -> list[tuple[int, int, int]]:
    """(sum, child, child) that are both positive for some row, whatever the positive weights."""
    positive = node_values(_Weighted(g, np.ones(int(g.block_ptr[-1])))) > 0
    found = []
    for n in range(len(g.kind)):
        if g.kind[n] == SUM:
            children = g.child[g.child_ptr[n] : g.child_ptr[n + 1]].tolist()
            for a, b in itertools.combinations(children, 2):
                if (positive[a] & positive[b]).any():
                    found.append((n, a, b))
    return found


def contexts(circuit: CircuitArrays) -> Array:
    """Definition 2: the context of each node, as the set of complete rows in it (nodes × rows).

    The context of the root is its support; γ_n = ∪_p γ_p ∩ supp(n).
    """
    support = node_values(circuit) > 0
    result = np.zeros_like(support)
    result[-1] = support[-1]
    # The last edges have the topmost parents, so that a context is complete when it is used.
    for edge in reversed(edges(circuit.graph)):
        result[edge.child] |= result[edge.parent] & support[edge.child]
    return result


def circuit_flows(circuit: CircuitArrays) -> Array:
    """Definition 3: F_z(n, c) = [z ∈ γ_n ∩ γ_c], edges × complete rows. Deterministic circuits."""
    context = contexts(circuit)
    return np.array([context[edge.parent] & context[edge.child] for edge in edges(circuit.graph)])


def expected_flows(circuit: CircuitArrays, codes: Array) -> Array:
    """Definition 4: the mean of F_z(n, c) over the completions z of e, by P(z | e); rows × edges.

    Deterministic circuits; see ``tree_flows`` for others.
    """
    flows = circuit_flows(circuit).astype(float)
    return np.array([flows @ posterior(circuit, row) for row in codes])


class Trees(NamedTuple):
    """Induced trees: each sum picks one child, each product keeps all."""

    weight: Array
    used: Array
    """trees × edges"""
    row: Array
    """trees × variables: the one complete row for which the tree is positive"""


def count_trees(g: GraphArrays) -> int:
    """How many induced trees there are."""
    counts: list[int] = []
    for n in range(len(g.kind)):
        below = [counts[c] for c in g.child[g.child_ptr[n] : g.child_ptr[n + 1]].tolist()]
        counts.append(sum(below) if g.kind[n] == SUM else math.prod(below))
    return counts[-1]


def _product_trees(parts: list[Trees]) -> Trees:
    trees = parts[0]
    for other in parts[1:]:
        a = np.repeat(np.arange(len(trees.weight)), len(other.weight))
        b = np.tile(np.arange(len(other.weight)), len(trees.weight))
        trees = Trees(
            trees.weight[a] * other.weight[b],
            trees.used[a] | other.used[b],
            np.maximum(trees.row[a], other.row[b]),
        )
    return trees


def induced_trees(circuit: CircuitArrays) -> Trees:
    """All induced trees with their weights, the product of their θ: P(z) sums those of row z."""
    g, theta = circuit.graph, circuit.parameters
    if count_trees(g) > MAX_TREES:
        raise ValueError("too many induced trees to enumerate")
    edge, below = edges(g), edges_below(g)
    at: list[Trees] = []
    for n in range(len(g.kind)):
        if g.kind[n] == INDICATOR:
            row = np.full((1, len(g.arities)), -1)
            row[0, g.variable[n]] = g.value[n]
            at.append(Trees(np.ones(1), np.zeros((1, len(edge)), bool), row))
            continue
        parts = []
        for e in below[n]:
            trees, parameter = at[edge[e].child], edge[e].parameter
            used = trees.used.copy()
            used[:, e] = True
            scale = 1.0 if parameter is None else float(theta[parameter])
            parts.append(Trees(trees.weight * scale, used, trees.row))
        if g.kind[n] == SUM:
            at.append(Trees(*(np.concatenate(x) for x in zip(*parts, strict=True))))
        else:
            at.append(_product_trees(parts))
    return at[-1]


def tree_flows(circuit: CircuitArrays, codes: Array) -> Array:
    """Posterior probability that the edge is in the induced tree, rows × edges. Any circuit.

    In a deterministic circuit each row has one tree, and this is Definition 4.
    """
    trees = induced_trees(circuit)
    flows = []
    for row in np.asarray(codes):
        weight = np.where(((trees.row == row) | (row < 0)).all(axis=1), trees.weight, 0.0)
        flows.append(weight @ trees.used / weight.sum())
    return np.array(flows)


def completed(
    circuit: CircuitArrays, codes: Array, weights: Array
) -> Iterator[tuple[int, Array, Array]]:
    """The completed data D' of the appendix: per row its number, completions and their weights."""
    rows = all_rows(circuit.graph)
    for i, (row, w) in enumerate(zip(codes, weights, strict=True)):
        p = posterior(circuit, row)
        yield i, rows[p > 0], w * p[p > 0]


def completed_counts(circuit: CircuitArrays, codes: Array, weights: Array) -> Array:
    """Flow of each parameter on the completed, weighted data: F_D' added over edges that share."""
    index = {tuple(z): i for i, z in enumerate(all_rows(circuit.graph).tolist())}
    flows = circuit_flows(circuit).astype(float)
    counts = np.zeros(int(circuit.graph.block_ptr[-1]))
    for _, rows, alpha in completed(circuit, codes, weights):
        total = flows[:, [index[tuple(z)] for z in rows.tolist()]] @ alpha
        for edge, flow in zip(edges(circuit.graph), total.tolist(), strict=True):
            if edge.parameter is not None:
                counts[edge.parameter] += flow
    return counts


def by_parameter(g: GraphArrays, edge_flows: Array) -> Array:
    """Flows of edges added up per parameter."""
    result = np.zeros((*edge_flows.shape[:-1], int(g.block_ptr[-1])))
    for e, edge in enumerate(edges(g)):
        if edge.parameter is not None:
            result[..., edge.parameter] += edge_flows[..., e]
    return result


def ratios(g: GraphArrays, counts: Array, otherwise: Array) -> Array:
    """Equation 1: counts divided by the total of their block; ``otherwise`` where it is zero."""
    theta = np.array(otherwise, float)
    for start, stop in itertools.pairwise(g.block_ptr.tolist()):
        total = math.fsum(counts[start:stop])
        if total > 0:
            theta[start:stop] = counts[start:stop] / total
    return theta


def em_step(circuit: CircuitArrays, codes: Array, weights: Array) -> Array:
    """Closed-form maximum likelihood on the completed data; an unused block keeps its θ."""
    counts = completed_counts(circuit, codes, weights)
    return ratios(circuit.graph, counts, circuit.parameters)


def density(forest: ForestArrays, s: int, f: int, z: tuple[int, ...]) -> float:
    """P(z | f, s) of the density that all trees restrict: a mixture of independent features."""
    total = []
    for c in range(forest.shares.shape[2]):
        p = float(forest.shares[s, f, c])
        for j, v in enumerate(z):
            p *= float(forest.values[j][s, f, c, v])
        total.append(p)
    return math.fsum(total)


def box_term(forest: ForestArrays, s: int, f: int, c: int, leaf: int, x: tuple[int, ...]) -> float:
    """P(c, known x, x in box l | f, s): of a missing feature (-1) all values of the box."""
    p = float(forest.shares[s, f, c])
    for j, known in enumerate(x):
        inside = np.flatnonzero(forest.allowed[j][leaf]).tolist()
        p *= math.fsum(
            float(forest.values[j][s, f, c, v]) for v in inside if known < 0 or v == known
        )
    return p


def forest_density(forest: ForestArrays, s: int, f: int, x: tuple[int, ...]) -> float:
    """P(known x | f, s) = (1 / trees) Σ_l P(l | f, s) P(known x, x in box l) / P(x in box l).

    For more features than can be enumerated.
    """
    clusters = range(forest.shares.shape[2])
    terms = []
    for leaf in range(len(forest.tree)):
        held, whole = (
            math.fsum(box_term(forest, s, f, c, leaf, row) for c in clusters)
            for row in (x, (-1,) * len(x))
        )
        terms.append(float(forest.leaf_rate[s, f, leaf]) * held / whole)
    return math.fsum(terms) / len(set(forest.tree.tolist()))


def forest_joint(
    forest: ForestArrays, group_rate: Array, decision_rate: Array, mechanism: Array
) -> tuple[Array, Array]:
    """All complete rows (s, f, d, x), and P of each by the definition of a forest.

    P(s) P(f) P(d | f, s) · (1 / trees) Σ_k Σ_l P_k(l | f, s) P(x, x in box l | f, s) /
    P(box l | f, s).
    """
    n_groups, n_classes, n_boxes = forest.leaf_rate.shape
    sizes = [value.shape[3] for value in forest.values]
    states = list(itertools.product(*(range(k) for k in sizes)))
    inside = [
        [all(bool(forest.allowed[j][i, v]) for j, v in enumerate(z)) for z in states]
        for i in range(n_boxes)
    ]
    rows, found = [], []
    for s in range(n_groups):
        for f in range(n_classes):
            p = [density(forest, s, f, z) for z in states]
            box = [math.fsum(a for a, here in zip(p, b, strict=True) if here) for b in inside]
            for i, z in enumerate(states):
                terms = [
                    float(forest.leaf_rate[s, f, leaf]) * p[i] / box[leaf]
                    for leaf in range(n_boxes)
                    if inside[leaf][i]
                ]
                x = math.fsum(terms) / len(set(forest.tree.tolist()))
                for d in range(n_classes):
                    rows.append((s, f, d, *z))
                    found.append(group_rate[s] * decision_rate[f] * mechanism[s, f, d] * x)
    return np.array(rows), np.array(found)


class LabelRange(NamedTuple):
    """One group whose labels were seen: P(D=1), ends of P(D=1 | x), ranges of b0 and b1."""

    rate: float
    low: float
    high: float
    b0: tuple[float, float] = (0.0, 1.0)
    b1: tuple[float, float] = (0.0, 1.0)

    def allows(self, b0: Array, b1: Array) -> Array:
        """Which mechanisms fit: no P(D=1 | x) is below b0 or above b1."""
        slack = 1e-9
        fits = (b0 >= self.b0[0] - slack) & (b0 <= min(self.low, self.b0[1]) + slack)
        fits &= (b1 >= max(self.high, self.b1[0]) - slack) & (b1 <= self.b1[1] + slack)
        result: Array = fits & (b1 > b0)
        return result


def label_rates(group: LabelRange, steps: int = 200) -> Array:
    """Every P(Df=1) of one group: that of each mechanism on a grid that fits."""
    grid = np.linspace(0, 1, steps + 1)
    b0, b1 = (a.ravel() for a in np.meshgrid(grid, grid, indexing="ij"))
    fits = group.allows(b0, b1)
    pi = (group.rate - b0[fits]) / (b1[fits] - b0[fits])
    result: Array = pi[(pi >= -1e-9) & (pi <= 1 + 1e-9)]
    return result


def label_mechanisms(
    group: LabelRange, pi: tuple[float, float], steps: int = 200
) -> tuple[Array, Array]:
    """Every b0 and b1 of one group that fits, for P(Df=1) in a range.

    Over two grids, of (b0, b1) and of (P(Df=1), b1), because a range may be a point or a line. The
    third number follows from π b1 + (1 − π) b0 = P(D=1).
    """
    fine, ends = np.linspace(0, 1, 2 * steps + 1), np.linspace(*pi, steps + 1)
    b0, b1 = (a.ravel() for a in np.meshgrid(fine, fine, indexing="ij"))
    at, top = (a.ravel() for a in np.meshgrid(ends[ends < 1], fine, indexing="ij"))
    b0 = np.concatenate([b0, (group.rate - at * top) / (1 - at)])
    b1 = np.concatenate([b1, top])
    fits = group.allows(b0, b1) & (b1 - b0 > 1e-6)
    b0, b1 = b0[fits], b1[fits]
    found = (group.rate - b0) / (b1 - b0)
    inside = (found >= pi[0] - 1e-9) & (found <= pi[1] + 1e-9)
    return b0[inside], b1[inside]


def label_scores(
    group: LabelRange, r: Array, pi: tuple[float, float], steps: int = 200
) -> tuple[Array, Array]:
    """Least and largest P(Df=1 | x) of rows with P(D=1 | x) = r, for P(Df=1) in a range."""
    b0, b1 = label_mechanisms(group, pi, steps)
    q = np.clip((r[:, None] - b0) / (b1 - b0), 0.0, 1.0)
    return q.min(axis=1, initial=1.0), q.max(axis=1, initial=0.0)


def agree(actual: Any, expected: Any) -> None:
    """Equal to 1e-10, infinities included; never NaN."""
    assert not np.isnan(np.asarray(actual)).any()
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


def rate_differences(estimates: Array, limits: Array, added: bool) -> tuple[float, float]:
    """Limits of the least and of the largest difference, pair by pair; [group, end] each."""
    least, most = -math.inf, -math.inf
    for a in range(len(estimates)):
        for b in range(len(estimates)):
            if a != b:
                first = estimates[a, 0] - limits[a, 0], limits[b, 1] - estimates[b, 1]
                last = limits[a, 1] - estimates[a, 1], estimates[b, 0] - limits[b, 0]
                widths = [
                    sum(e) if added else math.sqrt(sum(v * v for v in e)) for e in (first, last)
                ]
                least = max(least, estimates[a, 0] - estimates[b, 1] - widths[0])
                most = max(most, estimates[a, 1] - estimates[b, 0] + widths[1])
    return least, most


def fair_rate_point(
    groups: list[tuple[float, float, float]], steps: int = 1000
) -> tuple[float, list[float]] | None:
    """π and the fewest altered labels of each (ρ, m, M), over all π and b1 of a grid.

    b1 at which b0 is just 0 or m are tried too, because what fits may lie between two of the grid.
    None where no π of the grid is possible for all groups.
    """
    grid = np.linspace(0.0, 1.0, steps + 1)[1:-1]
    fine = np.repeat(np.linspace(0.0, 1.0, steps + 1)[:, None], len(grid), axis=1)
    fewest = []
    for rate, low, high in groups:
        b1 = np.vstack([fine, [(rate - (1 - grid) * b0) / grid for b0 in (0.0, low)]])
        b0 = (rate - grid * b1) / (1 - grid)
        fits = (b0 >= -1e-9) & (b0 <= low + 1e-9) & (b1 >= high - 1e-9) & (b1 <= 1 + 1e-9)
        altered = np.where(fits, grid * (1 - b1) + (1 - grid) * np.maximum(b0, 0.0), math.inf)
        fewest.append(altered.min(axis=0))
    possible = grid[np.isfinite(fewest).all(axis=0)]
    rates = [rate for rate, _, _ in groups]
    between = possible[(possible >= min(rates)) & (possible <= max(rates))]
    if not len(between):
        return None
    pi = (between[0] + between[-1]) / 2
    at = int(np.argmin(np.where(np.isin(grid, possible), np.abs(grid - pi), math.inf)))
    return pi, [float(own[at]) for own in fewest]


def rates_within(
    own: list[tuple[float, float]], delta: float, steps: int = 100
) -> list[tuple[float, float]] | None:
    """The rates of each group that occur among all choices of which no two differ by more."""
    grids = [np.linspace(low, high, steps // len(own) ** 2 + 2) for low, high in own]
    grids = [
        np.unique(np.append(g, [e for pair in own for e in _near(pair, delta)])) for g in grids
    ]
    grids = [g[(g >= low) & (g <= high)] for g, (low, high) in zip(grids, own, strict=True)]
    each = np.array(list(itertools.product(*grids)))
    fits = each[np.ptp(each, axis=1) <= delta + 1e-12]
    return None if not len(fits) else list(zip(fits.min(axis=0), fits.max(axis=0), strict=True))


def _near(ends: tuple[float, float], delta: float) -> list[float]:
    return [end + shift for end in ends for shift in (-delta, 0.0, delta)]


def squared_limit(
    f: Any, here: list[float], far: list[float], covariance: Array, sign: int
) -> float:
    """f moved by the root of d' C d, with d what each argument at its limit changes."""
    middle = f(*here)
    steps = []
    for k in range(len(here)):
        moved = list(here)
        moved[k] = far[k]
        away = 1.0 if far[k] >= here[k] else -1.0
        steps.append(away * (f(*moved) - middle))
    d = np.array(steps)
    return float(middle + sign * math.sqrt(max(float(d @ covariance @ d), 0.0)))
