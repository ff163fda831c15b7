"""How the arrays of a search are laid out; what the kernels index by.

The state of a search is a handful of arrays that grow at the end:

    N  nodes      int32 (nodes, 5): vtree node, first edge, number of edges, parents, mark
    E  edges      int32 (edges, 7): node, left, right, value, next edge, rows, alive
    C  counts     float64 (edges, 4): flow, weight for parameters, held-out weight, prior
    T  terms      float64 (nodes, 3): log-likelihood, held-out one, impossible held-out edges
    B  values     uint64 (nodes, words): values possible below a node, bit ``start[x] + v``
    V  vtree      int32 (vtree nodes, 5): left, right, variable, parent, depth
    active        int32 (vtree nodes of a cell, rows): the edge each row takes there
    codes         int16 (variables, rows)
    W             float64 (rows, 3): the first three columns of C

The circuits are deterministic, so a complete row takes exactly one edge at each
vtree node; everything a split changes follows from the rows of the split edge.
"""

from __future__ import annotations

from typing import Final

VNODE: Final = 0
FIRST: Final = 1
SIZE: Final = 2
PARENTS: Final = 3
MARK: Final = 4

NODE: Final = 0
LEFT: Final = 1
RIGHT: Final = 2
VALUE: Final = 3
NEXT: Final = 4
ROWS: Final = 5
ALIVE: Final = 6

FLOW: Final = 0
PARAMETER: Final = 1
HELD_OUT: Final = 2
PRIOR: Final = 3

V_LEFT: Final = 0
V_RIGHT: Final = 1
V_VARIABLE: Final = 2
V_PARENT: Final = 3
V_DEPTH: Final = 4

NONE: Final = 0
ALL: Final = 1
SOME: Final = 2
COPY: Final = 3

ROUNDING: Final = 1e-12
"""What is left of a count, relative to it, when all of its rows have gone."""
