"""Boxes of a forest in bundles, each of which is a box too: fewer bundles than boxes hold a row.

Two boxes of a tree that differ in one feature are a box together. Leaves are joined in this way
until nothing can be joined, which gives trees back; a bundle is what is below a node of at most
eight boxes. Which boxes of a bundle hold a row is a byte, and this byte says all of the features
that joined them: where boxes on both sides hold the row, the feature is missing, where one side
does, it is known. So what the boxes of a bundle add up to is one number for each byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fairpc.core import Array, Bytes, Floats, Ints
from fairpc.models import BoxSets, Forest

BITS: Final = 8
"""Most boxes of a bundle."""
Sides = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Node:
    """A box of a forest, or two nodes that are a box together.

    Attributes:
        sides: the features of which not all values are allowed, and the others as bits.
        size: number of boxes.
        box: the box, if it is one alone.
        feature: in which the two parts differ.
        parts: the two.
    """

    sides: Sides
    size: int = 1
    box: int = -1
    feature: int = -1
    parts: tuple[Node, ...] = ()

    @property
    def boxes(self) -> list[int]:
        """Their numbers, in the order of their bits."""
        if not self.parts:
            return [self.box]
        return [box for part in self.parts for box in part.boxes]

    @property
    def keys(self) -> dict[tuple[int, Sides], int]:
        """Of each feature all that is said of the others, and where the feature stands.

        Two boxes of a tree with an equal key are a box together.
        """
        return {
            (side[0], self.sides[:i] + self.sides[i + 1 :]): i for i, side in enumerate(self.sides)
        }

    def with_other(self, other: Node, i: int, full: Sequence[int]) -> Node:
        """The two, which differ in the i-th of their sides."""
        j, bits = self.sides[i]
        bits |= other.sides[i][1]
        side = () if bits == full[j] else ((j, bits),)
        sides = (*self.sides[:i], *side, *self.sides[i + 1 :])
        return Node(sides, self.size + other.size, feature=j, parts=(self, other))


def joined(leaves: Iterable[Node], full: Sequence[int]) -> list[Node]:
    """What is left of the boxes of a tree when no two of them can be joined."""
    queue = deque(leaves)
    waiting: dict[tuple[int, Sides], Node] = {}
    whole = []
    while queue:
        node = queue.popleft()
        keys = node.keys
        found = next((key for key in keys if key in waiting), None)
        if found is not None:
            other = waiting[found]
            for key in other.keys:
                del waiting[key]
            queue.append(other.with_other(node, keys[found], full))
        elif keys:
            waiting.update(dict.fromkeys(keys, node))
        else:
            whole.append(node)
    return [*dict.fromkeys(waiting.values()), *whole]


def below(roots: Iterable[Node], most: int) -> list[Node]:
    """The largest nodes of at most so many boxes; those that are near in a tree are neighbours."""
    left, found = list(roots), []
    while left:
        node = left.pop()
        if node.size <= most:
            found.append(node)
        else:
            left += node.parts
    return found


@dataclass(frozen=True, eq=False)
class Bundles:
    """The boxes of a forest, in bundles."""

    forest: Forest
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, forest: Forest, most_numbers: int) -> Bundles:
        """Bundles as large as so many sums allow: each box more doubles those of its bundle."""
        full = [(1 << box.shape[1]) - 1 for box in forest.allowed]
        leaves = _leaves(forest, full)
        trees = np.split(np.arange(len(leaves)), np.flatnonzero(np.diff(forest.tree)) + 1)
        roots = [root for tree in trees for root in joined((leaves[i] for i in tree), full)]
        for most in range(BITS, 0, -1):
            nodes = below(roots, most)
            if sum(1 << node.size for node in nodes) * forest.shares.size <= most_numbers:
                break
        return cls(forest, tuple(nodes))

    @cached_property
    def boxes(self) -> Ints:
        """The boxes, bundle by bundle, in the order of their bits."""
        return np.array([box for node in self.nodes for box in node.boxes])

    @cached_property
    def first(self) -> Ints:
        """Where the boxes of each bundle start."""
        return np.append(0, np.cumsum([node.size for node in self.nodes]))[:-1]

    @property
    def start(self) -> Ints:
        """Where the sums of each bundle start."""
        return np.append(0, np.cumsum([1 << node.size for node in self.nodes]))[:-1]

    def bytes_of(self, j: int) -> Bytes:
        """Bits of the boxes that allow each value of a feature, and of all; values × bundles."""
        allowed = self.forest.allowed[j][self.boxes]
        bits = np.zeros((len(self.nodes), BITS, allowed.shape[1] + 1), np.bool_)
        bundle = np.repeat(np.arange(len(self.nodes)), [node.size for node in self.nodes])
        bit = np.arange(len(bundle)) - self.first[bundle]
        bits[bundle, bit, :-1] = allowed
        bits[bundle, bit, -1] = True
        return np.packbits(bits, axis=1, bitorder="little")[:, 0].T

    @cached_property
    def sets(self) -> tuple[BoxSets, ...]:
        """Of each feature the different sets of values that bundles allow."""
        of_boxes = (box[self.boxes] for box in self.forest.allowed)
        allowed = (np.logical_or.reduceat(box, self.first) for box in of_boxes)
        return tuple(map(BoxSets.of, allowed, self.forest.values))

    def sums(self) -> Floats:
        """Σ_l w_l ∏_j P(x_j in box l | x_j in the bundle, c, f, s) of each byte of each bundle.

        Over the boxes that have a bit and the features that are missing; bytes × groups × terms.
        """
        weight = np.repeat(self.forest.weight, self.forest.n_clusters, axis=2)
        return np.concatenate([self._sums(node, weight) for node in self.nodes])

    def _sums(self, node: Node, weight: Floats) -> Floats:
        if not node.parts:
            return np.stack([np.zeros_like(weight[:, node.box]), weight[:, node.box]])
        low, high = (self._sums(part, weight) for part in node.parts)
        mass = [self._mass(part, node.feature) for part in node.parts]
        whole = mass[0] + mass[1]
        share = [np.divide(m, whole, out=np.zeros_like(m), where=whole > 0) for m in mass]
        both = high[:, None] + low
        both[1:, 1:] = high[1:, None] * share[1] + low[1:] * share[0]
        return both.reshape(-1, *low.shape[1:])

    def _mass(self, node: Node, j: int) -> Floats:
        """P(x_j in the node | c, f, s), groups × terms."""
        inside = self.forest.allowed[j][node.boxes].any(axis=0)
        mass: Floats = self.forest.values[j][..., inside].sum(axis=3)
        return mass.reshape(len(mass), -1)


def _leaves(forest: Forest, full: Sequence[int]) -> list[Node]:
    """Each box of a forest as a node."""
    sides: list[list[tuple[int, int]]] = [[] for _ in forest.tree]
    for j, allowed in enumerate(forest.allowed):
        packed = np.packbits(allowed, axis=1, bitorder="little")
        for i in np.flatnonzero(~allowed.all(axis=1)).tolist():
            sides[i].append((j, int.from_bytes(packed[i].tobytes(), "little")))
    return [Node(tuple(side), box=i) for i, side in enumerate(sides)]


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the features that each bundle cuts; each pattern of what is missing has a place.

    Attributes:
        features: of each bundle.
    """

    features: tuple[tuple[int, ...], ...]

    @property
    def n_patterns(self) -> int:
        """Of all bundles."""
        return sum(1 << len(of) for of in self.features)

    @property
    def by_number(self) -> dict[int, Ints]:
        """Bundles by the number of their features; patterns have their places in this order."""
        number = np.array([len(of) for of in self.features])
        return {k: np.flatnonzero(number == k) for k in sorted(set(number.tolist()))}

    def steps(self, n_features: int) -> tuple[Ints, Array]:
        """Place of each bundle's complete rows, and how far each missing feature is from it."""
        start, step = np.zeros(len(self.features), int), np.zeros((len(self.features), n_features))
        n = 0
        for k, bundles in self.by_number.items():
            start[bundles] = n + np.arange(len(bundles)) * (1 << k)
            n += len(bundles) << k
        for b, features in enumerate(self.features):
            step[b, list(features)] = 1 << np.arange(len(features))
        return start, step


def blocks(bundles: Bundles, most_patterns: int) -> list[Block]:
    """All features that bundles cut, in as few blocks as have so few patterns."""
    cuts = [tuple(j for j, _ in node.sides) for node in bundles.nodes]
    most = max(map(len, cuts))
    for size in range(most, 0, -1):
        starts = range(0, most, size)
        found = [Block(tuple(cut[i : i + size] for cut in cuts)) for i in starts]
        if size == 1 or sum(block.n_patterns for block in found) <= most_patterns:
            return found
    return []
