"""Entropy and Kullback–Leibler divergence of deterministic circuits, in nats.

A complete assignment z activates one tree of a deterministic circuit, so that log P(z) = ∑ log θ
over the active sum edges (appendix "Parameter Learning using Expected Flows"), and the expectation
of that sum needs nothing but the probability of each edge's context.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, SUM, WeightedGraph
from fairpc.circuit._properties import Pair, PropertyName, Question, answered, require
from fairpc.core import CircuitError, Floats, PropertyError

_ONE_TREE: Final[tuple[PropertyName, ...]] = ("smooth", "decomposable", "deterministic")


def entropy(circuit: WeightedGraph) -> float:
    """H(P) = −∑ P(context of edge) · log θ over the sum edges, in nats."""
    require(circuit.graph, "entropy", *_ONE_TREE)
    edge, theta = _sum_edges(circuit)
    used = edge > 0
    return math.fsum(-edge[used] * np.log(theta[used])) + 0.0


def kl(p: WeightedGraph, q: WeightedGraph) -> float:
    """KL(P ‖ Q) in nats: infinite where P is positive and Q is zero.

    Both circuits are smooth, decomposable and deterministic over the same
    variables, and where their supports meet their products split the variables
    alike. The recursion runs over pairs of nodes, so the time is at most the
    product of the sizes; circuits with one graph need a single pass.
    """
    for role, circuit in (("the first", p), ("the second", q)):
        require(circuit.graph, f"KL divergence, of {role} argument,", *_ONE_TREE)
    if p.names != q.names or not np.array_equal(p.arities, q.arities):
        raise CircuitError(
            f"KL divergence compares circuits over ({', '.join(p.names[:8])}) and "
            f"({', '.join(q.names[:8])}): both need the same variables in the same order, with "
            "the same number of values"
        )
    if p.graph is q.graph or p.graph.same_as(q.graph):
        return _kl_of_one_graph(p, q)
    both = _Pairs(p, q).meeting(p.graph.root, q.graph.root)
    if both.states < _support_size(p):
        return math.inf
    # Rounding can leave a divergence of zero a little below it.
    return max(-entropy(p) - both.log_q, 0.0)


def _sum_edges(circuit: WeightedGraph) -> tuple[Floats, Floats]:
    """P(context of the edge) and θ of each sum edge: Algorithm 1 without evidence.

    Without evidence every node has value 1, so the flow of a node only divides among its children.
    """
    g = circuit.graph
    ptr, child, kind = g.child_ptr.tolist(), g.child.tolist(), g.kind.tolist()
    is_sum = g.edge_parameter >= 0
    theta = np.where(is_sum, circuit.parameters[g.edge_parameter] if is_sum.any() else 1.0, 1.0)
    share = theta.tolist()
    node = [0.0] * g.n_nodes
    node[g.root] = 1.0
    edge = [0.0] * g.n_edges
    for n in range(g.root, -1, -1):
        if kind[n] == INDICATOR:
            continue
        for e in range(ptr[n], ptr[n + 1]):
            edge[e] = node[n] * share[e]
            node[child[e]] += edge[e]
    return np.array(edge)[is_sum], theta[is_sum]


def _kl_of_one_graph(p: WeightedGraph, q: WeightedGraph) -> float:
    edge, theta = _sum_edges(p)
    _, other = _sum_edges(q)
    used = edge > 0
    if (other[used] == 0).any():
        return math.inf
    return max(math.fsum(edge[used] * (np.log(theta[used]) - np.log(other[used]))), 0.0)


class _Meeting(NamedTuple):
    """What two nodes n of P and m of Q have in common: the part of n's support inside m's."""

    states: int  #: in both supports: exact, so that "Q covers P" is no matter of rounding
    mass: float  #: P_n of them
    log_q: float  #: their expectation under P_n of log Q_m


_NOTHING = _Meeting(0, 0.0, 0.0)
_Question = Question[_Meeting]


class _PairSide:
    """One circuit of a pair: its nodes as plain lists, weights beside the children."""

    def __init__(self, circuit: WeightedGraph) -> None:
        g = circuit.graph
        self.kind = g.kind.tolist()
        self.scopes = g.scopes
        self.leaf = list(zip(g.variable.tolist(), g.value.tolist(), strict=True))
        self.children = [g.children(n).tolist() for n in range(g.n_nodes)]
        self.weights = [
            circuit.weights(n).tolist() if self.kind[n] == SUM else [] for n in range(g.n_nodes)
        ]

    def live(self, n: int) -> list[tuple[int, float]]:
        """Children of a sum with their weights, those of weight zero left out."""
        pairs = zip(self.children[n], self.weights[n], strict=True)
        return [(c, w) for c, w in pairs if w > 0]

    def unwrapped(self, n: int) -> int:
        """The node itself, or what a product of a single child stands for."""
        while self.kind[n] == PRODUCT and len(self.children[n]) == 1:
            n = self.children[n][0]
        return n


class _Pairs:
    """The recursion of ``kl`` over pairs of nodes, each pair once.

    P_n = ∑ φ P_c and, by determinism, log Q_m = log θ + log Q_d on the support
    of the one child d that is positive; a product multiplies counts and masses
    of its parts, and adds their logarithms.
    """

    def __init__(self, p: WeightedGraph, q: WeightedGraph) -> None:
        self._p = _PairSide(p)
        self._q = _PairSide(q)
        self._memo: dict[Pair, _Meeting] = {}

    def meeting(self, n: int, m: int) -> _Meeting:
        return answered((n, m), self._ask, self._memo.get, self._memo)

    def _ask(self, n: int, m: int) -> _Question:
        """Yields the pairs whose meetings it needs, and returns the meeting of (n, m)."""
        n, m = self._p.unwrapped(n), self._q.unwrapped(m)
        if self._p.kind[n] == SUM:
            pairs = [((c, m), w, 0.0) for c, w in self._p.live(n)]
            return (yield from self._mix(pairs))
        if self._q.kind[m] == SUM:
            pairs = [((n, d), 1.0, math.log(w)) for d, w in self._q.live(m)]
            return (yield from self._mix(pairs))
        if self._p.kind[n] == self._q.kind[m] == INDICATOR:
            return _Meeting(1, 1.0, 0.0) if self._p.leaf[n] == self._q.leaf[m] else _NOTHING
        return (yield from self._multiply(n, m))

    def _mix(self, pairs: list[tuple[Pair, float, float]]) -> _Question:
        """The meeting of a sum: of its parts, with weight φ and log θ."""
        states, mass, log_q = _NOTHING
        for pair, weight, log_theta in pairs:
            part: _Meeting = yield pair
            states += part.states
            mass += weight * part.mass
            log_q += weight * (part.mass * log_theta + part.log_q)
        return _Meeting(states, mass, log_q)

    def _multiply(self, n: int, m: int) -> _Question:
        of_q = {self._q.scopes[d]: d for d in self._q.children[m] or [m]}
        parts = sorted(self._p.children[n] or [n], key=lambda c: self._p.scopes[c].bit_count())
        states, mass, log_q = 1, 1.0, 0.0
        matched = 0
        for c in parts:
            d = of_q.get(self._p.scopes[c])
            if d is None:
                continue
            matched += 1
            part: _Meeting = yield c, d
            # Supports that exclude each other need not split the other variables alike.
            if part.states == 0:
                return _NOTHING
            log_q = log_q * part.mass + mass * part.log_q
            mass *= part.mass
            states *= part.states
        if matched < max(len(parts), len(of_q)):
            raise PropertyError(
                "KL divergence needs circuits that split their variables alike: node "
                f"{n} of the first and node {m} of the second have the same variables and "
                "different parts"
            )
        return _Meeting(states, mass, log_q)


def _support_size(circuit: WeightedGraph) -> int:
    """Number of assignments of positive probability: by determinism a sum at the sums."""
    side = _PairSide(circuit)
    sizes: list[int] = []
    for n, kind in enumerate(side.kind):
        if kind == SUM:
            sizes.append(sum(sizes[c] for c, _ in side.live(n)))
        else:
            sizes.append(math.prod(sizes[c] for c in side.children[n]))
    return sizes[-1]
