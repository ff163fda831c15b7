"""Kernel of decision trees: the leaf of each row in each tree.

Inputs are checked by the caller in ``learned``. Nodes are in preorder: the left child of a node is
the next one.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import kernel

BLOCK = 256  # rows that stay near the processor while all trees are asked


@kernel
def leaf_sums(x, start, feature, right, number, hole, level_set, goes_left, out):
    """Add the values of the leaves that each row is in, one of each tree, to ``out``.

    Args:
        x: numbers of the features, codes of categories, NaN = missing; rows × features.
        start: first node of each tree, and the number of nodes.
        feature: that a node asks for, -1 in a leaf.
        right: right child.
        number: threshold up to which a number goes left; value of a leaf.
        hole: 1 where what is missing goes left.
        level_set: row of ``goes_left`` for a node that asks for a category, else -1.
        goes_left: 1 where a code goes left, sets × codes.
    """
    n_rows = len(x)
    named = len(goes_left) > 0
    node = np.empty(BLOCK, np.uint32)
    inside = np.empty(BLOCK, np.uint32)
    for first in range(0, n_rows, BLOCK):
        n_block = min(BLOCK, n_rows - first)
        for t in range(len(start) - 1):
            root = start[t]
            n_inside = n_block if feature[root] >= 0 else 0
            for r in range(n_block):
                node[r] = root
                inside[r] = r
            # All rows take one step, and those in a leaf drop out: few branches have to be
            # guessed, and the steps of several rows are under way at once.
            while n_inside > 0:
                kept = 0
                for k in range(n_inside):
                    r = inside[k]
                    i = node[r]
                    v = x[first + r, np.uint32(feature[i])]
                    if named and level_set[i] >= 0 and v == v:
                        left = np.uint32(goes_left[np.uint32(level_set[i]), np.uint32(v)])
                    else:
                        left = np.uint32((v <= number[i]) | ((v != v) & (hole[i] != 0)))
                    # i + 1 or right[i], without a branch; differences wrap around and back.
                    i = np.uint32(right[i] + left * np.uint32(i + 1 - right[i]))
                    node[r] = i
                    inside[kept] = r
                    kept += np.int64(feature[i] >= 0)
                n_inside = kept
            for r in range(n_block):
                out[first + r] += number[node[r]]
