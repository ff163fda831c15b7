"""The boxes of a forest circuit in a graph of ONNX: only those that hold a row are looked at.

A row has a bit for each box, as in the kernel of forest circuits: bits of all features are joined
by AND. What is left is a list of pairs (row, box), whose numbers are gathered, multiplied and
added up by row. What a box leaves to missing features is a product of masses, which tables have
for each pattern of the features that the box cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from onnx import TensorProto

from fairpc.core import Array, Ints
from fairpc.exporting._onnx_graph import LOWEST, OnnxGraph, allowed_subgroups
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import Forest

MOST_BYTES: Final = 2**24
"""Of the tables of masses for every pattern of missing features, once loaded."""
CROSSED: Final = 6
"""Features whose pattern is one number of a row."""
CROSSINGS: Final = 512
"""Most crossings of codes in one table of bits."""


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
    row, box = _held(graph, forest, given, subgroup)
    weight = np.repeat(forest.weight, forest.n_clusters, axis=2).transpose(1, 0, 2)
    found = [(graph.constant(weight.reshape(-1, n_terms)), box)]
    for block in blocks(forest, MOST_BYTES // (8 * forest.shares.size)):
        place = _pattern_place(graph, forest, block, given, row, box)
        found.append((_masses(graph, forest, block), place))
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


def _masses(graph: OnnxGraph, forest: Forest, block: PatternBlock) -> str:
    """Products of masses for each pattern of missing features: (patterns × groups) × terms.

    The file holds the masses of distinct sets of values. A runtime multiplies them out once, when
    it loads the graph: all that they are made of is constant.
    """
    shape = 1, len(forest.shares), forest.shares[0].size
    first = np.append(0, np.cumsum([len(of.allowed) for of in forest.sets]))
    every = np.concatenate([of.mass for of in forest.sets], axis=1).transpose(1, 0, 2, 3)
    masses = graph.constant(every.reshape(-1, *shape))
    tables = []
    for number, some in block.by_number.items():
        table = graph.add("Expand", graph.constant(1.0), graph.whole([len(some), *shape]))
        for q in range(number):
            features = [(b, block.features[b][q]) for b in some]
            of_box = [first[j] + forest.sets[j].of_box[b] for b, j in features]
            missing = graph.gather(masses, graph.whole(of_box))
            table = graph.add("Concat", table, graph.add("Mul", table, missing), axis=1)
        tables.append(graph.add("Reshape", table, graph.whole([-1, shape[2]])))
    return graph.add("Concat", *tables, axis=0)


def _pattern_place(
    graph: OnnxGraph,
    forest: Forest,
    block: PatternBlock,
    given: Sequence[str],
    row: str,
    box: str,
) -> str:
    """Where a block has the pattern of what a row lacks, of the features that a box cuts.

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
        at = graph.add("Add", graph.add("Mul", box, graph.whole(1 << len(some))), pattern)
        parts.append(graph.lookup(graph.add("Reshape", table, graph.whole([-1])), at))
    return graph.all_of("Add", parts)


def _held(graph: OnnxGraph, forest: Forest, given: Sequence[str], of_rows: str) -> tuple[str, str]:
    """Each pair of a row and a box that holds it. Only bytes with a bit are looked at further."""
    every = graph.add("Transpose", _bytes(graph, forest, given), perm=[1, 0])
    every = graph.add("Reshape", every, graph.whole([-1]))
    at = graph.add("NonZero", graph.add("Cast", every, to=TensorProto.BOOL))
    at = graph.add("Reshape", at, graph.whole([-1]))
    # Where there are no rows, runtimes refuse to divide by zero nonetheless.
    n_rows = graph.add("Max", graph.add("Shape", of_rows), graph.whole([1]))
    byte = graph.add("Div", at, n_rows)
    row = graph.add("Sub", at, graph.add("Mul", byte, n_rows))
    value = graph.add("Cast", graph.lookup(every, at), to=TensorProto.INT64)
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    pair, bit = _places(graph, graph.gather(graph.constant(bits, np.bool_), value))
    first = graph.add("Mul", graph.lookup(byte, pair), graph.whole(8))
    return graph.lookup(row, pair), graph.add("Add", first, bit)


def _bytes(graph: OnnxGraph, forest: Forest, given: Sequence[str]) -> str:
    """Bits of the boxes that hold each row, rows × bytes of eight boxes."""
    allowed = forest.allowed
    narrowed = [j for j, box in enumerate(allowed) if not box.all()] or [0]
    found = []
    for first, *others in _crossed({j: allowed[j].shape[1] + 1 for j in narrowed}):
        table, code = _bit_table(graph, forest, first), given[first]
        for j in others:
            pair = [(table, 1), (_bit_table(graph, forest, j), 0)]
            each = [graph.add("Unsqueeze", name, graph.whole([axis])) for name, axis in pair]
            # Made once, when a graph is loaded.
            table = graph.add("BitwiseAnd", *each)
            table = graph.add("Reshape", table, graph.whole([-1, -(-len(forest.tree) // 8)]))
            n_codes = allowed[j].shape[1] + 1
            code = graph.add("Add", graph.add("Mul", code, graph.whole(n_codes)), given[j])
        found.append(graph.gather(table, code))
    return graph.all_of("BitwiseAnd", found)


def _bit_table(graph: OnnxGraph, forest: Forest, j: int) -> str:
    """Bits of the boxes that allow each value of a feature, or what is missing: codes × bytes."""
    allowed = forest.allowed[j].T
    every = np.concatenate([allowed, np.ones((1, allowed.shape[1]), bool)])
    return graph.constant(np.packbits(every, axis=1, bitorder="little"), np.uint8)


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


def _places(graph: OnnxGraph, matrix: str) -> tuple[str, str]:
    """Row and column of what is true, in the order of rows."""
    found = graph.add("NonZero", matrix)
    row, column = (graph.gather(found, graph.whole(k)) for k in (0, 1))
    return row, column


@dataclass(frozen=True, eq=False)
class PatternBlock:
    """Some of the features that each box cuts; each pattern of what is missing has a place."""

    features: tuple[tuple[int, ...], ...]  #: of each box

    @property
    def n_patterns(self) -> int:
        """Of all boxes."""
        return sum(1 << len(of) for of in self.features)

    @property
    def by_number(self) -> dict[int, Ints]:
        """Boxes by the number of their features; patterns have their places in this order."""
        number = np.array([len(of) for of in self.features])
        return {k: np.flatnonzero(number == k) for k in sorted(set(number.tolist()))}

    def steps(self, n_features: int) -> tuple[Ints, Array]:
        """Place of each box's complete rows, and how far each missing feature is from it."""
        start, step = np.zeros(len(self.features), int), np.zeros((len(self.features), n_features))
        n = 0
        for k, boxes in self.by_number.items():
            start[boxes] = n + np.arange(len(boxes)) * (1 << k)
            n += len(boxes) << k
        for b, features in enumerate(self.features):
            step[b, list(features)] = 1 << np.arange(len(features))
        return start, step


def blocks(forest: Forest, most_patterns: int) -> list[PatternBlock]:
    """All features that boxes cut, in as few blocks as have so few patterns."""
    cut = np.stack([~box.all(axis=1) for box in forest.allowed], axis=1)
    cuts = [tuple(np.flatnonzero(each).tolist()) for each in cut]
    most = max(map(len, cuts))
    for size in range(most, 0, -1):
        starts = range(0, most, size)
        found = [PatternBlock(tuple(each[i : i + size] for each in cuts)) for i in starts]
        if size == 1 or sum(block.n_patterns for block in found) <= most_patterns:
            return found
    return []
