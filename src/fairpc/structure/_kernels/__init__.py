"""Compiled kernels of structure learning; importing this package imports Numba."""

from fairpc.structure._kernels._count_kernels import (
    bit_products,
    expand,
    number_planes,
    pair_information,
    row_products,
    tree_samples,
)
from fairpc.structure._kernels._gain_kernels import best_split
from fairpc.structure._kernels._split_kernels import (
    copy_nodes,
    move_rows,
    reach,
    release,
    restore_edge,
    settle,
)
from fairpc.structure._kernels._state_kernels import (
    below,
    candidates,
    edges_of,
    fill_values,
    route,
    set_priors,
    set_terms,
)

__all__ = [
    "below",
    "best_split",
    "bit_products",
    "candidates",
    "copy_nodes",
    "edges_of",
    "expand",
    "fill_values",
    "move_rows",
    "number_planes",
    "pair_information",
    "reach",
    "release",
    "restore_edge",
    "route",
    "row_products",
    "set_priors",
    "set_terms",
    "settle",
    "tree_samples",
]
