"""From the nodes of a ``.psdd`` file to a circuit.

Every check, and the numbering of the graph's nodes, works on whole arrays, so
that a file of megabytes is read, or refused, in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NoReturn

import numpy as np

from fairpc.circuit.graph import INDICATOR, PRODUCT, SUM, Circuit, Graph
from fairpc.circuit.psdd_nodes import LITERAL, TRUE, PsddNodes, first_of, parse_nodes, starts_of
from fairpc.circuit.vtree import NodeLines, Vtree
from fairpc.errors import CircuitError
from fairpc.errors.arrays import Bools, Bytes, Floats, Ints

TOLERANCE: Final = 1e-5
"""How far weights may sum from one: what six significant digits of log θ can lose."""

_EXACT: Final = 1e-12  # nearer to one than this, the weights are left as they are


def circuit_of(lines: NodeLines, vtree: Vtree | None, names: Sequence[str] | None) -> Circuit:
    """The circuit of a psdd file, checked against a vtree if there is one."""
    nodes = parse_nodes(lines)
    if not len(nodes.id):
        lines.fail("it has no nodes: the file is truncated")
    slots = _Slots(nodes)
    keep = slots.below_root()
    # Counts first: of all that is wrong with a truncated file, that it is truncated says most.
    _check_count(nodes, everything_used=bool(keep.all()))
    if vtree is None:
        _check_own_places(nodes)
    else:
        _check_places(nodes, vtree)
    weights = _weights(nodes)
    return Circuit(
        slots.graph(keep, names), weights[np.repeat(keep[slots.is_sum], slots.sum_sizes)]
    )


def _check_places(nodes: PsddNodes, vtree: Vtree) -> None:
    """Every node sits where the file says, and the last at the root of the vtree."""
    order = np.argsort(vtree.ids)
    at = np.minimum(np.searchsorted(vtree.ids[order], nodes.vtree), len(order) - 1)
    place = order[at]
    bad = first_of(vtree.ids[place] != nodes.vtree)
    if bad is not None:
        nodes.fail(bad, f"there is no vtree node {nodes.vtree[bad]}: do the files belong together?")
    bad = first_of((nodes.variable >= 0) & (vtree.variable[place] != nodes.variable))
    if bad is not None:
        nodes.fail(
            bad,
            f"node {nodes.id[bad]} is over variable {nodes.variable[bad] + 1} and vtree node "
            f"{nodes.vtree[bad]} is not its leaf: check that the files belong together",
        )
    above = place[nodes.owner]
    outside = place[nodes.prime] != vtree.left[above]
    bad = first_of(outside | (place[nodes.sub] != vtree.right[above]))
    if bad is not None:
        node = int(nodes.owner[bad])
        nodes.fail(
            node,
            f"node {nodes.id[node]} does not split its variables as vtree node "
            f"{nodes.vtree[node]} does: primes belong to its left child, subs to its right child",
        )
    if place[-1] != vtree.root:
        nodes.fail(
            len(place) - 1,
            f"the last node is put at vtree node {nodes.vtree[-1]} and the root of the vtree is "
            f"{vtree.ids[-1]}: the file is truncated, or the two do not belong together",
        )


def _check_own_places(nodes: PsddNodes) -> None:
    """Without a vtree, decisions define one, and must agree about it.

    A place is minus the number of a leaf's variable, or the number of a pair of
    places: one for all primes, one for all subs of a decision.
    """
    place: list[int] = (-1 - nodes.variable).tolist()
    pairs: dict[tuple[int, int], int] = {}
    first = nodes.starts[:-1]
    primes, subs = nodes.prime[first].tolist(), nodes.sub[first].tolist()
    for node, prime, sub in zip(nodes.decisions.tolist(), primes, subs, strict=True):
        place[node] = pairs.setdefault((place[prime], place[sub]), len(pairs))
    places = np.array(place, np.int64)
    sides = np.stack([places[nodes.prime], places[nodes.sub]])
    expected = np.repeat(sides[:, first], nodes.number[nodes.decisions], axis=1)
    bad = first_of((sides != expected).any(axis=0))
    if bad is not None:
        node = int(nodes.owner[bad])
        nodes.fail(
            node,
            f"the elements of node {nodes.id[node]} split its variables in different ways: all "
            "primes need the same variables, and all subs",
        )
    _check_tree(nodes, list(pairs), places)


def _check_tree(nodes: PsddNodes, pairs: list[tuple[int, int]], places: Ints) -> None:
    """No place occurs twice below the last node's, and the variables are 1 to n."""
    root = int(places[-1])
    parent = {root: root}
    stack = [root]
    while stack:
        place = stack.pop()
        for side in pairs[place] if place >= 0 else ():
            if side in parent:
                _overlap(nodes, int(np.argmax(places == _meeting(parent, place, parent[side]))))
            parent[side] = place
            stack.append(side)
    variables = sorted(-place for place in parent if place < 0)
    if variables[-1] != len(variables):
        gap = next(i for i, v in enumerate(variables, 1) if i != v)
        nodes.lines.fail(
            f"variable {gap} does not occur below the last node and variable {variables[-1]} does: "
            "a psdd is over the variables 1 to n"
        )


def _meeting(parent: dict[int, int], a: int, b: int) -> int:
    """The lowest place above both (or one of them)."""
    above = {a}
    while parent[a] != a:
        a = parent[a]
        above.add(a)
    while b not in above:
        b = parent[b]
    return b


def _overlap(nodes: PsddNodes, node: int) -> NoReturn:
    nodes.fail(
        node,
        f"a prime and a sub of node {nodes.id[node]} share variables: "
        "the two sides of a decision must be over different ones",
    )


def _weights(nodes: PsddNodes) -> Floats:
    """Parameters of the sums in the order of their lines; those of a T are (1 - p, p)."""
    true = nodes.true
    twofold = ~np.isnan(nodes.log_q)
    log_p, log_q = nodes.log_p[twofold], nodes.log_q[twofold]
    for where, logs in (
        (nodes.owner, nodes.element_log),
        (true, nodes.log_p),
        (true[twofold], log_q),
    ):
        bad = first_of(~(logs <= TOLERANCE))
        if bad is not None:
            node = int(where[bad])
            nodes.fail(
                node,
                f"node {nodes.id[node]} has the log-probability {logs[bad]:.9g}: "
                "give a number that is not above 0",
            )
    _check_totals(nodes, true[twofold], np.exp(log_p) + np.exp(log_q))
    sizes = np.select([nodes.kind == TRUE, nodes.sums], [2, nodes.number], 0)
    start = starts_of(sizes)
    weights = np.empty(int(start[-1]))
    log_p = np.minimum(nodes.log_p, 0.0)
    weights[start[true]] = -np.expm1(log_p)
    weights[start[true] + 1] = np.exp(log_p)
    theta = _normalised(nodes)[nodes.sums[nodes.owner]]
    weights[np.repeat(nodes.sums & (nodes.kind != TRUE), sizes)] = theta
    return weights


def _normalised(nodes: PsddNodes) -> Floats:
    """Weights of the elements, divided by their sum where that is one only nearly."""
    theta = np.exp(nodes.element_log)
    if not len(theta):
        return theta
    totals = np.add.reduceat(theta, nodes.starts[:-1])
    _check_totals(nodes, nodes.decisions, totals)
    totals[np.abs(totals - 1.0) <= _EXACT] = 1.0
    theta /= np.repeat(totals, nodes.number[nodes.decisions])
    return theta


def _check_totals(nodes: PsddNodes, where: Ints, totals: Floats) -> None:
    bad = first_of(~(np.abs(totals - 1.0) <= TOLERANCE))
    if bad is not None:
        node = int(where[bad])
        nodes.fail(
            node,
            f"the weights of node {nodes.id[node]} sum to {totals[bad]:.9g}: weights are "
            "exp(log(theta)) and must sum to 1",
        )


def _check_count(nodes: PsddNodes, everything_used: bool) -> None:
    """The header counts the lines; Juice.jl counts the elements as well, more or less.

    So a larger count is believed if everything is below the last node: a file
    that was cut before its root has loose ends.
    """
    claimed, found = nodes.lines.count, len(nodes.id)
    juice = everything_used and found <= claimed <= found + len(nodes.owner)
    if claimed != found and not juice:
        nodes.lines.fail(
            f"the header declares {claimed:,} nodes and the file has {found:,}: "
            "the file is truncated or its header is wrong"
        )


@dataclass(frozen=True, eq=False)
class _Slots:
    """Numbering of the graph's nodes, in the order in which the lines of the file need them.

    A literal has one slot, a T three (both indicators, then the sum), a
    decision one per element (a product) and one for the sum. Slots with equal
    indicators or products are the same node, that of the first. A decision
    with one element is its product; its last slot stands for that.
    """

    nodes: PsddNodes

    @cached_property
    def base(self) -> Ints:
        """First slot of each line, and at the end the number of slots."""
        nodes = self.nodes
        width = np.select([nodes.kind == LITERAL, nodes.kind == TRUE], [1, 3], nodes.number + 1)
        return starts_of(width)

    @cached_property
    def element(self) -> Ints:
        """Slot of each element."""
        nodes = self.nodes
        local = np.arange(len(nodes.owner)) - np.repeat(
            nodes.starts[:-1], nodes.number[nodes.decisions]
        )
        return self.base[nodes.owner] + local

    @cached_property
    def same(self) -> Ints:
        """For each slot the first slot with the same node."""
        same = np.arange(self.base[-1])
        slots = np.flatnonzero(self._literal >= 0)
        same[slots] = _earliest(slots, self._literal[slots])
        low, high = np.sort([self.home[self.nodes.prime], self.home[self.nodes.sub]], axis=0)
        same[self.element] = _earliest(self.element, low * len(same) + high)
        single = self.nodes.single
        same[self.base[single + 1] - 1] = same[self.home[single]]
        return same

    @cached_property
    def _literal(self) -> Ints:
        """Variable and value that each slot of an indicator tests, as one number; -1 elsewhere."""
        nodes = self.nodes
        key = np.full(self.base[-1], -1)
        literal, true = np.flatnonzero(nodes.kind == LITERAL), nodes.true
        key[self.base[literal]] = 2 * nodes.variable[literal] + (nodes.number[literal] > 0)
        for value in (0, 1):
            key[self.base[true] + value] = 2 * nodes.variable[true] + value
        return key

    @cached_property
    def home(self) -> Ints:
        """A slot for each line, equal for lines that are the same node."""
        nodes = self.nodes
        home = self.base[1:] - 1
        literal = np.flatnonzero(nodes.kind == LITERAL)
        home[literal] = _earliest(home[literal], self._literal[home[literal]])
        single = nodes.single
        if len(single):
            # One after the other: equal products are found by the homes of their children.
            homes: list[int] = home.tolist()
            first: dict[tuple[int, int], int] = {}
            at = nodes.starts[np.searchsorted(nodes.decisions, single)]
            columns = (single, nodes.prime[at], nodes.sub[at], self.element[at])
            for line, prime, sub, slot in zip(*(c.tolist() for c in columns), strict=True):
                a, b = homes[prime], homes[sub]
                homes[line] = first.setdefault((min(a, b), max(a, b)), slot)
            home = np.array(homes, np.int64)
        return home

    @cached_property
    def new(self) -> Bools:
        """Slots that make a node."""
        return np.equal(self.same, np.arange(len(self.same)))

    @cached_property
    def node(self) -> Ints:
        """Node of each slot."""
        return (np.cumsum(self.new) - 1)[self.same]

    @cached_property
    def kind(self) -> Bytes:
        """Kind of each node."""
        kind = np.full(len(self.same), SUM, np.uint8)
        kind[self._literal >= 0] = INDICATOR
        kind[self.element] = PRODUCT
        return kind[self.new]

    @property
    def is_sum(self) -> Bools:
        return np.equal(self.kind, SUM)

    @property
    def sum_sizes(self) -> Ints:
        return np.diff(self.ptr)[self.is_sum]

    @cached_property
    def ptr(self) -> Ints:
        nodes = self.nodes
        sizes = np.zeros(len(self.same), np.int64)
        sizes[self.element] = 2
        last = self.base[1:] - 1
        sizes[last] = np.select([nodes.kind == LITERAL, nodes.kind == TRUE], [0, 2], nodes.number)
        return starts_of(sizes[self.new])

    @cached_property
    def child(self) -> Ints:
        nodes = self.nodes
        child = np.empty(self.ptr[-1], np.int64)
        start = self.ptr[self.node]  # of each slot
        # A product commutes: its children are sorted, as the builder sorts them.
        sides = np.sort(
            [self.node[self.home[nodes.prime]], self.node[self.home[nodes.sub]]], axis=0
        )
        child[start[self.element]] = sides[0]
        child[start[self.element] + 1] = sides[1]
        true = self.base[nodes.true]
        for value in (0, 1):
            child[start[true + 2] + value] = self.node[true + value]
        mixed = nodes.sums[nodes.owner]
        own = self.element[mixed]
        end = self.base[1:][nodes.owner[mixed]] - 1
        local = own - self.base[nodes.owner[mixed]]
        child[start[end] + local] = self.node[own]
        return child

    def below_root(self) -> Bools:
        """Which nodes are the last line's node, or below it."""
        root = int(self.node[self.home[-1]])
        keep = np.zeros(len(self.kind), bool)
        keep[self.child] = True
        keep[root] = True
        if root == len(keep) - 1 and keep.all():
            return keep
        reached = bytearray(len(keep))
        reached[root] = 1
        ptr, child = self.ptr.tolist(), self.child.tolist()
        for n in range(root, -1, -1):
            if reached[n]:
                for c in child[ptr[n] : ptr[n + 1]]:
                    reached[c] = 1
        return np.frombuffer(reached, np.bool_)

    def graph(self, keep: Bools, names: Sequence[str] | None) -> Graph:
        """The graph of the nodes to keep."""
        sizes = np.diff(self.ptr)
        sums = self.is_sum[keep]
        literal = np.where(self._literal >= 0, self._literal, -2)[self.new][keep]
        n = int(literal.max()) // 2 + 1
        if names is not None and len(names) != n:
            raise CircuitError(
                f"{len(names)} names were given for the {n} variables of {self.nodes.lines.path}: "
                "give one per variable"
            )
        return Graph(
            names=tuple(names or (f"X{i}" for i in range(1, n + 1))),
            arities=np.full(n, 2),
            kind=self.kind[keep],
            variable=literal // 2,
            value=np.where(literal < 0, -1, literal % 2),
            child_ptr=starts_of(sizes[keep]),
            child=(np.cumsum(keep) - 1)[self.child[np.repeat(keep, sizes)]],
            block=np.where(sums, np.cumsum(sums) - 1, -1),
            block_ptr=starts_of(sizes[keep][sums]),
        )


def _earliest(slots: Ints, keys: Ints) -> Ints:
    """For each slot the first one with an equal key; slots are in rising order."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return slots[first][inverse]
