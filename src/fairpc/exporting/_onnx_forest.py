"""The boxes of a forest in a graph of ONNX: only those that hold a row are looked at.

A row has a bit for each box, as in the kernel of forests: bits of all features are joined by AND.
What is left is a list of pairs (row, bundle of boxes) with the bits of these boxes, whose numbers
are gathered, multiplied and added up by row. Pairs come bundle by bundle, so that what they need
of a table lies together.

A bundle of boxes is a box too, and fewer bundles than boxes hold a row. Two boxes of a tree that
differ in one feature are a box together. Leaves are joined in this way until nothing can be
joined, which gives trees back; a bundle is what is below a node of at most eight boxes. Which
boxes of a bundle hold a row is a byte, and this byte says all of the features that joined them:
where boxes on both sides hold the row, the feature is missing, where one side does, it is known.
So what the boxes of a bundle add up to is one number for each byte.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from onnx import TensorProto

from fairpc.core import Array, Bytes, Floats, Ints
from fairpc.exporting._onnx import LOWEST, OnnxGraph, allowed_subgroups
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import BoxSets, Forest

MOST_BYTES: Final = 2**24
"""Of the tables of masses for every pattern of missing features, once loaded."""
MOST_STORED: Final = 2**23
"""Bytes of what the boxes of bundles add up to, in the file."""
CROSSED: Final = 6
"""Features whose pattern is one number of a row."""
CROSSINGS: Final = 512
"""Most crossings of codes in one table of bits."""
BITS: Final = 8
"""Most boxes of a bundle."""
Sides = tuple[tuple[int, int], ...]


def forest_joint(
    graph: OnnxGraph, scorer: ScorerProgram, forest: Forest, codes: Sequence[str]
) -> str:
    """P(f, x, s) but for a factor of each row, rows × classes."""
    allowed = allowed_subgroups(graph, scorer, codes)
    row, subgroup = _places(graph, allowed)
    given = [graph.lookup(codes[j], row) for j in scorer.rest]
    logs = _cluster_logs(graph, forest, given, subgroup)
    top = graph.add("ReduceMax", logs, graph.whole([1]), keepdims=1)
    top = graph.add("Max", top, graph.constant(LOWEST))
    clusters = graph.add("Exp", graph.add("Sub", logs, top))
    boxes = _box_sums(graph, forest, given, subgroup)
    shape = graph.whole([-1, *forest.shares.shape[1:]])
    parts = graph.add("Reshape", graph.add("Mul", clusters, boxes), shape)
    dense = graph.add("ReduceSum", parts, graph.whole([2]), keepdims=0)
    joint = graph.add("Mul", dense, graph.gather(graph.constant(scorer.rates), subgroup))
    return _by_row(graph, joint, top, row, codes[0], scorer.rates.shape[1])


def _by_row(graph: OnnxGraph, joint: str, top: str, row: str, of_rows: str, n_classes: int) -> str:
    """Sums over the subgroups of each row, each scaled by its own logarithm before."""
    n_rows = graph.add("Shape", of_rows)
    index = graph.add("Unsqueeze", row, graph.whole([1]))
    shape = graph.add("Concat", n_rows, graph.whole([1]), axis=0)
    lowest = graph.add("Expand", graph.constant(LOWEST), shape)
    highest = graph.add("ScatterElements", lowest, index, top, axis=0, reduction="max")
    scale = graph.add("Exp", graph.add("Sub", top, graph.gather(highest, row)))
    shape = graph.add("Concat", n_rows, graph.whole([n_classes]), axis=0)
    zeros = graph.add("Expand", graph.constant(0.0), shape)
    scaled = graph.add("Mul", joint, scale)
    return graph.add("ScatterND", zeros, index, scaled, reduction="add")


def _cluster_logs(graph: OnnxGraph, forest: Forest, given: Sequence[str], subgroup: str) -> str:
    """log P(c, x | f, s) of what is known, whatever the box; rows × (classes × clusters)."""
    n_groups = len(forest.shares)
    with np.errstate(divide="ignore"):
        shares = np.log(forest.shares).reshape(n_groups, -1)
        logs = [np.log(value) for value in forest.values]
    parts = [graph.gather(graph.constant(shares), subgroup)]
    for log, code in zip(logs, given, strict=True):
        missing = np.zeros((*log.shape[:3], 1))
        table = np.concatenate([log, missing], axis=3).transpose(0, 3, 1, 2)
        size = table.shape[1]
        at = graph.add("Add", graph.add("Mul", subgroup, graph.whole(size)), code)
        parts.append(graph.gather(graph.constant(table.reshape(n_groups * size, -1)), at))
    return graph.all_of("Add", parts)


def _box_sums(graph: OnnxGraph, forest: Forest, given: Sequence[str], subgroup: str) -> str:
    """Σ_l w_l ∏_j P(x_j in the box | c, f, s) over the boxes of a row and the features it lacks."""
    n_groups, n_terms = len(forest.shares), forest.shares[0].size
    bundles = Bundles.of(forest, MOST_STORED // 8)
    row, bundle, bits = _held(graph, bundles, given, subgroup)
    start = graph.lookup(graph.whole(bundles.start), bundle)
    sums = graph.constant(bundles.sums().reshape(-1, n_terms))
    found = [(sums, graph.add("Add", start, bits))]
    for block in blocks(bundles, MOST_BYTES // (8 * forest.shares.size)):
        place = _pattern_place(graph, forest, block, given, row, bundle)
        found.append((_masses(graph, bundles, block), place))
    group = graph.lookup(subgroup, row)
    factors = []
    for table, place in found:
        at = graph.add("Add", graph.add("Mul", place, graph.whole(n_groups)), group)
        factors.append(graph.gather(table, at))
    products = graph.all_of("Mul", factors)
    shape = graph.add("Concat", graph.add("Shape", subgroup), graph.whole([n_terms]), axis=0)
    zeros = graph.add("Expand", graph.constant(0.0), shape)
    index = graph.add("Unsqueeze", row, graph.whole([1]))
    return graph.add("ScatterND", zeros, index, products, reduction="add")


def _masses(graph: OnnxGraph, bundles: Bundles, block: PatternBlock) -> str:
    """Products of masses for each pattern of missing features: (patterns × groups) × terms.

    The file holds the masses of distinct sets of values. A runtime multiplies them out once, when
    it loads the graph: all that they are made of is constant.
    """
    shape = 1, len(bundles.forest.shares), bundles.forest.shares[0].size
    sets = bundles.sets
    first = np.append(0, np.cumsum([len(of.allowed) for of in sets]))
    every = np.concatenate([of.mass for of in sets], axis=1).transpose(1, 0, 2, 3)
    masses = graph.constant(every.reshape(-1, *shape))
    tables = []
    for number, some in block.by_number.items():
        table = graph.add("Expand", graph.constant(1.0), graph.whole([len(some), *shape]))
        for q in range(number):
            features = [(b, block.features[b][q]) for b in some]
            of_bundle = [first[j] + sets[j].of_box[b] for b, j in features]
            missing = graph.gather(masses, graph.whole(of_bundle))
            table = graph.add("Concat", table, graph.add("Mul", table, missing), axis=1)
        tables.append(graph.add("Reshape", table, graph.whole([-1, shape[2]])))
    return graph.add("Concat", *tables, axis=0)


def _pattern_place(
    graph: OnnxGraph,
    forest: Forest,
    block: PatternBlock,
    given: Sequence[str],
    row: str,
    bundle: str,
) -> str:
    """Where a block has the pattern of what a row lacks, of the features that a bundle cuts.

    Each missing feature is a step, and steps of a few features are added up when a graph is loaded.
    """
    start, step = block.steps(len(given))
    used = np.flatnonzero(step.any(axis=0)).tolist()
    parts = []
    for i in range(0, len(used), CROSSED):
        some = used[i : i + CROSSED]
        bits = np.arange(1 << len(some)) >> np.arange(len(some))[:, None] & 1
        table = graph.add("MatMul", graph.whole(step[:, some]), graph.whole(bits))
        table = table if i else graph.add("Add", table, graph.whole(start[:, None]))
        flags = []
        for q, j in enumerate(some):
            flag = np.append(np.zeros(forest.values[j].shape[3]), 1 << q)
            flags.append(graph.lookup(graph.whole(flag), given[j]))
        pattern = graph.lookup(graph.all_of("Add", flags), row)
        at = graph.add("Add", graph.add("Mul", bundle, graph.whole(1 << len(some))), pattern)
        parts.append(graph.lookup(graph.add("Reshape", table, graph.whole([-1])), at))
    return graph.all_of("Add", parts)


def _held(
    graph: OnnxGraph, bundles: Bundles, given: Sequence[str], of_rows: str
) -> tuple[str, str, str]:
    """Bundles with boxes that hold a row: row, bundle, and bits of these boxes.

    Eight bundles are a word. Only words, then bytes, with a bit are looked at further.
    """
    every = graph.add("Transpose", _words(graph, bundles, given), perm=[1, 0])
    every = graph.add("Reshape", every, graph.whole([-1]))
    in_words = _true(graph, graph.add("Cast", every, to=TensorProto.BOOL))
    word, row = _divided(graph, in_words, graph.add("Shape", of_rows))
    value = graph.lookup(every, in_words)
    parts = [
        graph.add("BitShift", value, graph.constant(8 * k, np.uint64), direction="RIGHT")
        for k in range(8)
    ]
    # The cast keeps the lowest eight bits.
    parts = [graph.add("Cast", part, to=TensorProto.UINT8) for part in parts]
    byte = graph.add("Concat", *parts, axis=0)
    at = _true(graph, byte)
    k, of_word = _divided(graph, at, graph.add("Shape", value))
    first = graph.add("Mul", word, graph.whole(8))
    bundle = graph.add("Add", graph.lookup(first, of_word), k)
    bits = graph.add("Cast", graph.lookup(byte, at), to=TensorProto.INT64)
    return graph.lookup(row, of_word), bundle, bits


def _words(graph: OnnxGraph, bundles: Bundles, given: Sequence[str]) -> str:
    """Bits of the boxes that hold each row, rows × words."""
    allowed = bundles.forest.allowed
    narrowed = [j for j, box in enumerate(allowed) if not box.all()] or [0]
    words = []
    for first, *others in _crossed({j: allowed[j].shape[1] + 1 for j in narrowed}):
        table, code = _word_table(graph, bundles, first), given[first]
        for j in others:
            pair = [(table, 1), (_word_table(graph, bundles, j), 0)]
            each = [graph.add("Unsqueeze", name, graph.whole([axis])) for name, axis in pair]
            # Made once, when a graph is loaded.
            table = graph.add("BitwiseAnd", *each)
            table = graph.add("Reshape", table, graph.whole([-1, -(-len(bundles.nodes) // 8)]))
            n_codes = allowed[j].shape[1] + 1
            code = graph.add("Add", graph.add("Mul", code, graph.whole(n_codes)), given[j])
        words.append(graph.gather(table, code))
    return graph.all_of("BitwiseAnd", words)


def _word_table(graph: OnnxGraph, bundles: Bundles, j: int) -> str:
    """Bits of the boxes that allow each value of a feature, or what is missing: codes × words."""
    held = bundles.bytes_of(j)
    padded = np.pad(held, ((0, 0), (0, -held.shape[1] % 8)))
    return graph.constant(np.ascontiguousarray(padded).view("<u8"), np.uint64)


def _crossed(sizes: Mapping[int, int]) -> list[list[int]]:
    """Features whose codes have few crossings: what they say together is looked up at once."""
    found: list[list[int]] = []
    for j in sorted(sizes, key=lambda j: -sizes[j]):
        with_room = (some for some in found if math.prod(sizes[k] for k in (*some, j)) <= CROSSINGS)
        some = next(with_room, None)
        if some is None:
            found.append([j])
        else:
            some.append(j)
    return found


def _divided(graph: OnnxGraph, number: str, by: str) -> tuple[str, str]:
    """Quotient and rest."""
    # Where there are no numbers, runtimes refuse to divide by zero nonetheless.
    by = graph.add("Max", by, graph.whole([1]))
    quotient = graph.add("Div", number, by)
    return quotient, graph.add("Sub", number, graph.add("Mul", quotient, by))


def _true(graph: OnnxGraph, vector: str) -> str:
    """Places of a vector that are not zero."""
    return graph.add("Reshape", graph.add("NonZero", vector), graph.whole([-1]))


def _places(graph: OnnxGraph, matrix: str) -> tuple[str, str]:
    """Row and column of what is true, in the order of rows."""
    found = graph.add("NonZero", matrix)
    row, column = (graph.gather(found, graph.whole(k)) for k in (0, 1))
    return row, column


@dataclass(frozen=True, eq=False)
class BoxNode:
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
    parts: tuple[BoxNode, ...] = ()

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

    def with_other(self, other: BoxNode, i: int, full: Sequence[int]) -> BoxNode:
        """The two, which differ in the i-th of their sides."""
        j, bits = self.sides[i]
        bits |= other.sides[i][1]
        side = () if bits == full[j] else ((j, bits),)
        sides = (*self.sides[:i], *side, *self.sides[i + 1 :])
        return BoxNode(sides, self.size + other.size, feature=j, parts=(self, other))


def joined(leaves: Iterable[BoxNode], full: Sequence[int]) -> list[BoxNode]:
    """What is left of the boxes of a tree when no two of them can be joined."""
    queue = deque(leaves)
    waiting: dict[tuple[int, Sides], BoxNode] = {}
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


def below(roots: Iterable[BoxNode], most: int) -> list[BoxNode]:
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
    nodes: tuple[BoxNode, ...]

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

    def _sums(self, node: BoxNode, weight: Floats) -> Floats:
        if not node.parts:
            return np.stack([np.zeros_like(weight[:, node.box]), weight[:, node.box]])
        low, high = (self._sums(part, weight) for part in node.parts)
        mass = [self._mass(part, node.feature) for part in node.parts]
        whole = mass[0] + mass[1]
        share = [np.divide(m, whole, out=np.zeros_like(m), where=whole > 0) for m in mass]
        both = high[:, None] + low
        both[1:, 1:] = high[1:, None] * share[1] + low[1:] * share[0]
        return both.reshape(-1, *low.shape[1:])

    def _mass(self, node: BoxNode, j: int) -> Floats:
        """P(x_j in the node | c, f, s), groups × terms."""
        inside = self.forest.allowed[j][node.boxes].any(axis=0)
        mass: Floats = self.forest.values[j][..., inside].sum(axis=3)
        return mass.reshape(len(mass), -1)


def _leaves(forest: Forest, full: Sequence[int]) -> list[BoxNode]:
    """Each box of a forest as a node."""
    sides: list[list[tuple[int, int]]] = [[] for _ in forest.tree]
    for j, allowed in enumerate(forest.allowed):
        packed = np.packbits(allowed, axis=1, bitorder="little")
        for i in np.flatnonzero(~allowed.all(axis=1)).tolist():
            sides[i].append((j, int.from_bytes(packed[i].tobytes(), "little")))
    return [BoxNode(tuple(side), box=i) for i, side in enumerate(sides)]


@dataclass(frozen=True, eq=False)
class PatternBlock:
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


def blocks(bundles: Bundles, most_patterns: int) -> list[PatternBlock]:
    """All features that bundles cut, in as few blocks as have so few patterns."""
    cuts = [tuple(j for j, _ in node.sides) for node in bundles.nodes]
    most = max(map(len, cuts))
    for size in range(most, 0, -1):
        starts = range(0, most, size)
        found = [PatternBlock(tuple(cut[i : i + size] for cut in cuts)) for i in starts]
        if size == 1 or sum(block.n_patterns for block in found) <= most_patterns:
            return found
    return []
