"""Complete rows for structure search: holes filled with draws from a tree's posterior.

A row with holes takes no single way through a deterministic circuit. A search
therefore sees one completion of each such row, drawn from P(missing | observed)
under the Chow–Liu tree that the circuit starts from. It decides on structure and first parameters
only: what is summed out exactly is so by the circuit afterwards.
"""

from __future__ import annotations

import numpy as np

from fairpc.errors.arrays import Codes, Floats, Ints
from fairpc.structure.mutual_information import offsets
from fairpc.structure.tree import Tree


def completed(
    codes: Codes,
    tree: Tree,
    counts: Floats,
    arities: Ints,
    rng: np.random.Generator,
) -> Codes:
    """Codes (variables, rows) without holes; ``counts`` are the pairwise counts of the tree.

    Each conditional distribution has one prior row spread evenly, so that every value can be drawn.
    """
    holes = np.flatnonzero((codes < 0).any(axis=0))
    if not len(holes):
        return codes
    from fairpc.structure import _kernels

    start = offsets(arities)
    smooth = counts + np.repeat(1.0 / arities, arities)
    filled = np.ascontiguousarray(codes[:, holes])
    uniforms = rng.random(filled.shape)
    _kernels.tree_samples(filled, tree.order, tree.parent, start, smooth, uniforms)
    result = codes.copy()
    result[:, holes] = filled
    return result
