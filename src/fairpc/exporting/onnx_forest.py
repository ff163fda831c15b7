"""The boxes of a forest in a graph of ONNX: only those that hold a row are looked at.

A row has a bit for each box, as in the kernel of forests: bits of all features are joined by AND.
What is left is a list of pairs (row, box), a few for each tree of a complete row, whose numbers
are gathered, multiplied and added up by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from onnx import TensorProto

from fairpc.exporting.onnx_graph import OnnxGraph, allowed_subgroups
from fairpc.exporting.program import BoxSets, Scorer
from fairpc.fair.forest import Forest

MOST_BYTES: Final = 2**26
"""Of the tables of masses for every pattern of missing features in a block, once loaded."""
MOST_IN_BLOCK: Final = 8
LOWEST: Final = -1e300
"""In place of the logarithm of zero, where two are subtracted."""


def forest_joint(graph: OnnxGraph, scorer: Scorer, forest: Forest, codes: Sequence[str]) -> str:
    """P(f, x, s) but for a factor of each row, rows × classes."""
    allowed = allowed_subgroups(graph, scorer, codes)
    row, subgroup = _places(graph, allowed)
    given = [graph.gather(codes[j], row) for j in scorer.rest]
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
    n_groups, n_classes, n_clusters = forest.shares.shape
    n_boxes, n_terms = len(forest.tree), n_classes * n_clusters
    weight = np.repeat(forest.weight[..., None], n_clusters, axis=3)
    weight = weight.reshape(n_groups, n_boxes, n_terms)
    row, first, byte = _bytes(graph, forest, given)
    # What a byte stands for is worked out before its bits are told apart: these are more.
    in_byte, bit = _places(graph, graph.gather(_bits_of_bytes(graph), byte))
    narrowed = [j for j, allowed in enumerate(forest.allowed) if not allowed.all()]
    size = _block_size(forest, len(narrowed))
    factors = []
    for start in range(0, max(len(narrowed), 1), size):
        block = narrowed[start : start + size]
        table = _block_table(graph, forest, block, weight if start == 0 else None)
        at = graph.add("Mul", subgroup, graph.whole(n_boxes << len(block)))
        for k, j in enumerate(block):
            n_values = forest.values[j].shape[3]
            flag = np.append(np.zeros(n_values), n_boxes << (len(block) - 1 - k))
            at = graph.add("Add", at, graph.gather(graph.whole(flag), given[j]))
        at = graph.add("Add", graph.gather(at, row), first)
        factors.append(graph.gather(table, graph.add("Add", graph.gather(at, in_byte), bit)))
    products = graph.all_of("Mul", factors)
    shape = graph.add("Concat", graph.add("Shape", subgroup), graph.whole([n_terms]), axis=0)
    zeros = graph.add("Expand", graph.constant(0.0), shape)
    index = graph.add("Unsqueeze", graph.gather(row, in_byte), graph.whole([1]))
    return graph.add("ScatterND", zeros, index, products, reduction="add")


def _block_size(forest: Forest, n_features: int) -> int:
    """How many features are looked up at once, by the pattern of what is missing of them."""
    number = forest.weight.size * forest.n_clusters * 8
    for size in range(MOST_IN_BLOCK, 1, -1):
        if number * (1 << size) * -(-n_features // size) <= MOST_BYTES:
            return size
    return 1


def _block_table(
    graph: OnnxGraph, forest: Forest, block: Sequence[int], weight: np.ndarray | None
) -> str:
    """Products of masses for each pattern of missing features: (groups × patterns × boxes) × terms.

    What a row needs lies together, as it has one pattern.

    The file holds the masses of distinct sets of values. A runtime multiplies them out once, when
    it loads the graph: all that they are made of is constant.
    """
    n_groups, n_classes, n_clusters = forest.shares.shape
    n_boxes, n_terms = len(forest.tree), n_classes * n_clusters
    start = np.ones((1, 1, n_terms)) if weight is None else weight
    table = graph.add("Unsqueeze", graph.constant(start), graph.whole([1]))
    for j in block:
        sets = BoxSets.of(forest, j)
        mass = graph.gather(graph.constant(sets.mass), graph.whole(sets.of_box), axis=1)
        missing = graph.add("Unsqueeze", mass, graph.whole([1]))
        shape = graph.whole([n_groups, 1, n_boxes, n_terms])
        ones = graph.add("Expand", graph.constant(1.0), shape)
        pair = graph.add("Concat", ones, missing, axis=1)
        wide = graph.add("Unsqueeze", table, graph.whole([2]))
        table = graph.add("Mul", wide, graph.add("Unsqueeze", pair, graph.whole([1])))
        table = graph.add("Reshape", table, graph.whole([n_groups, -1, n_boxes, n_terms]))
    return graph.add("Reshape", table, graph.whole([-1, n_terms]))


def _bytes(graph: OnnxGraph, forest: Forest, given: Sequence[str]) -> tuple[str, str, str]:
    """Bits of the boxes that hold each row, eight at a time: row, first box, and value of a byte.

    Only words and bytes with a bit are looked at further.
    """
    words: list[str] = []
    for j, code in enumerate(given):
        holding = forest.bits[forest.start[j] : forest.start[j + 1]]
        if not forest.allowed[j].all() or not words:
            table = np.concatenate([holding, forest.bits[-1:]])
            words.append(graph.gather(graph.constant(table, np.uint64), code))
    every = graph.all_of("BitwiseAnd", words)
    row, word = _places(graph, graph.add("Cast", every, to=TensorProto.BOOL))
    at = graph.add("Add", graph.add("Mul", row, graph.whole(forest.bits.shape[1])), word)
    value = graph.gather(graph.add("Reshape", every, graph.whole([-1])), at)
    value = graph.add("Unsqueeze", value, graph.whole([1]))
    shifts = graph.constant(np.arange(0, 64, 8)[None], np.uint64)
    shifted = graph.add("BitShift", value, shifts, direction="RIGHT")
    low = graph.add("BitwiseAnd", shifted, graph.constant(255, np.uint64))
    byte = graph.add("Cast", low, to=TensorProto.INT32)
    in_word, number = _places(graph, graph.add("Cast", byte, to=TensorProto.BOOL))
    at = graph.add("Add", graph.add("Mul", in_word, graph.whole(8)), number)
    byte = graph.gather(graph.add("Reshape", byte, graph.whole([-1])), at)
    first = graph.gather(graph.add("Mul", word, graph.whole(64)), in_word)
    first = graph.add("Add", first, graph.add("Mul", number, graph.whole(8)))
    return graph.gather(row, in_word), first, byte


def _bits_of_bytes(graph: OnnxGraph) -> str:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return graph.constant(bits, np.bool_)


def _places(graph: OnnxGraph, matrix: str) -> tuple[str, str]:
    """Row and column of what is true, in the order of rows."""
    found = graph.add("NonZero", matrix)
    row, column = (graph.gather(found, graph.whole(k)) for k in (0, 1))
    return row, column
