# mypy: ignore-errors
"""Splitting an edge: copy what is below it, move its rows. Arrays in, arrays out; no validation."""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import strict_inner_kernel, strict_kernel
from fairpc.structure._state_kernels import (
    ALIVE,
    FIRST,
    LEFT,
    MARK,
    NEXT,
    NODE,
    PARENTS,
    RIGHT,
    ROUNDING,
    ROWS,
    SIZE,
    V_DEPTH,
    V_PARENT,
    V_VARIABLE,
    VALUE,
    VNODE,
)

NONE, ALL, SOME, COPY = range(4)


@strict_kernel
def reach(N, E, V, e, leaf, levels, mark):
    """Nodes below edge ``e`` that a split on the variable of vtree node ``leaf`` may copy.

    Those on the way to ``leaf``, and all in the first ``levels`` levels of sums.
    Parents come before children. Also their number of edges, and the vtree
    nodes concerned.
    """
    v = N[E[e, NODE], VNODE]
    on_path = np.zeros(V.shape[0], np.bool_)
    u = leaf
    while u != v:
        on_path[u] = True
        u = V[u, V_PARENT]
    limit = V[v, V_DEPTH] + levels
    queue = np.empty(64, np.int32)
    vnodes = np.empty(V.shape[0], np.int32)
    seen = np.zeros(V.shape[0], np.bool_)
    n = 0
    n_v = 0
    edges = 0
    head = -1
    f = e
    while True:
        for side in range(2):
            c = E[f, LEFT + side]
            if c < 0 or N[c, MARK] == mark:
                continue
            u = N[c, VNODE]
            if on_path[u] or V[u, V_DEPTH] <= limit:
                N[c, MARK] = mark
                if n == len(queue):
                    longer = np.empty(2 * n, np.int32)
                    for k in range(n):
                        longer[k] = queue[k]
                    queue = longer
                queue[n] = c
                n += 1
                edges += N[c, SIZE]
                if not seen[u]:
                    seen[u] = True
                    vnodes[n_v] = u
                    n_v += 1
        f = E[f, NEXT] if head >= 0 else -1
        while f < 0:
            head += 1
            if head == n:
                return queue[:n].copy(), edges, vnodes[:n_v].copy()
            f = N[queue[head], FIRST]


@strict_inner_kernel
def restriction(B, node, bit0, sides, side):
    """NONE, ALL or SOME of a node's values from ``bit0`` on are on ``side``; ALL if it has none."""
    hit = False
    missed = False
    for v in range(len(sides)):
        bit = bit0 + v
        if (B[node, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) == np.uint64(1):
            if sides[v] == side:
                hit = True
            else:
                missed = True
    if hit and missed:
        return SOME
    return NONE if missed else ALL


@strict_inner_kernel
def add_edge(N, E, C, B, node, left, right, value, bit, size):
    """Append an edge to ``node``; what is possible below it becomes possible there."""
    e = size[1]
    size[1] += 1
    E[e, NODE] = node
    E[e, LEFT] = left
    E[e, RIGHT] = right
    E[e, VALUE] = value
    E[e, NEXT] = -1
    E[e, ROWS] = 0
    E[e, ALIVE] = 1
    for c in range(4):
        C[e, c] = 0.0
    if left >= 0:
        N[left, PARENTS] += 1
        N[right, PARENTS] += 1
        for w in range(B.shape[1]):
            B[node, w] |= B[left, w] | B[right, w]
    else:
        B[node, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    N[node, SIZE] += 1
    return e


@strict_inner_kernel
def add_node(N, B, vnode, size):
    """Append a node without edges; its first edge is the next one."""
    n = size[0]
    size[0] += 1
    N[n, VNODE] = vnode
    N[n, FIRST] = size[1]
    N[n, SIZE] = 0
    N[n, PARENTS] = 0
    N[n, MARK] = 0
    for w in range(B.shape[1]):
        B[n, w] = 0
    return n


@strict_inner_kernel
def moved(N, maps, side, mark, node):
    """The copy of ``node`` on ``side``, or itself where the split does not reach it."""
    return maps[side, node] if N[node, MARK] == mark else node


@strict_inner_kernel
def copy_node(N, E, C, B, V, n, side, mark, x, bit0, sides, size, maps, edge_maps):
    """Copy ``n`` with what is left of its edges on ``side``; ``bit0`` is of a leaf's variable."""
    u = N[n, VNODE]
    new = add_node(N, B, u, size)
    last = np.int64(-1)
    f = N[n, FIRST]
    while f >= 0:
        a = np.int32(-1)
        b = np.int32(-1)
        value = E[f, VALUE]
        if value >= 0:
            kept = V[u, V_VARIABLE] != x or sides[value] == side
        else:
            a = moved(N, maps, side, mark, E[f, LEFT])
            b = moved(N, maps, side, mark, E[f, RIGHT])
            kept = a >= 0 and b >= 0
        edge_maps[side, f] = -1
        if kept:
            g = add_edge(N, E, C, B, new, a, b, value, bit0 + value, size)
            edge_maps[side, f] = g
            if last >= 0:
                E[last, NEXT] = g
            last = g
        f = E[f, NEXT]
    maps[side, n] = new


@strict_inner_kernel
def keep_or_collapse(N, E, n, side, state, bit0, sides, indicator, maps, edge_maps):
    """Where no copy is needed, say what becomes of ``n`` on ``side``; else give back False."""
    if state == COPY or (state == SOME and E[N[n, FIRST], VALUE] < 0):
        return False
    maps[side, n] = n if state == ALL else -1
    kept = 0
    f = N[n, FIRST]
    while f >= 0:
        edge_maps[side, f] = f if state == ALL else -1
        if state == SOME and sides[E[f, VALUE]] == side:
            kept += 1
            edge_maps[side, f] = indicator + bit0 + E[f, VALUE]
            maps[side, n] = edge_maps[side, f]
        f = E[f, NEXT]
    return kept < 2


@strict_kernel
def copy_nodes(N, E, C, B, V, e, queue, x, sides, levels, start, size, indicator, maps, edge_maps):
    """Split edge ``e`` on variable ``x``: values with sides[v] = 0 against those with 1.

    Makes the restricted copies of the nodes in ``queue`` and puts two edges in
    the place of ``e``; rows move afterwards. ``size`` holds the numbers of nodes and
    of edges; ``maps`` and ``edge_maps`` receive, per side, what each node and edge
    becomes: -1 where it is dropped, itself where nothing changes. Gives back the
    numbers of the first edge made for side 1 and of the first of the two that
    replace ``e``; the other one follows it.
    """
    n_or = E[e, NODE]
    mark = N[queue[0], MARK]
    limit = V[N[n_or, VNODE], V_DEPTH] + levels
    middle = size[1]
    for side in range(2):
        middle = size[1]
        for q in range(len(queue) - 1, -1, -1):
            n = queue[q]
            u = N[n, VNODE]
            state = restriction(B, n, start[x], sides, side)
            single = E[N[n, FIRST], VALUE] >= 0 and N[n, SIZE] == 1
            if state == ALL and V[u, V_DEPTH] <= limit and not single:
                state = COPY
            if keep_or_collapse(N, E, n, side, state, start[x], sides, indicator, maps, edge_maps):
                continue
            own = V[u, V_VARIABLE]
            bit0 = start[own] if own >= 0 else np.int64(0)
            copy_node(N, E, C, B, V, n, side, mark, x, bit0, sides, size, maps, edge_maps)
    pair = size[1]
    for side in range(2):
        a = moved(N, maps, side, mark, E[e, LEFT])
        b = moved(N, maps, side, mark, E[e, RIGHT])
        add_edge(N, E, C, B, np.int64(n_or), a, b, np.int32(-1), np.int64(0), size)
    E[pair, NEXT] = pair + 1
    E[pair + 1, NEXT] = E[e, NEXT]
    N[n_or, SIZE] -= 1
    E[e, ALIVE] = 0
    relink(N, E, np.int64(n_or), e, pair)
    return middle, pair


@strict_inner_kernel
def relink(N, E, node, old, new):
    """Put edge ``new`` where ``old`` is in the list of a node's edges."""
    if N[node, FIRST] == old:
        N[node, FIRST] = new
        return
    f = N[node, FIRST]
    while E[f, NEXT] != old:
        f = E[f, NEXT]
    E[f, NEXT] = new


@strict_kernel
def restore_edge(N, E, node, e, pair):
    """Put edge ``e`` back, which a split replaced by two."""
    N[node, SIZE] -= 1
    E[e, ALIVE] = 1
    relink(N, E, node, pair, e)


@strict_kernel
def move_rows(E, C, active, W, rows, side, e, u, pair, vnodes, edges, before, n_fixed, edge_maps):
    """Move the rows of a split edge to the copies; ``n_fixed`` edges are indicators, uncounted.

    ``before`` holds the counts of ``edges``: what is left of one after nearly all
    of it has moved is rounding, and becomes zero.
    """
    for k in range(len(rows)):
        i = rows[k]
        g = pair + side[k]
        active[u, i] = g
        E[g, ROWS] += 1
        for c in range(3):
            C[g, c] += W[i, c]
    for v in vnodes:
        for k in range(len(rows)):
            i = rows[k]
            f = active[v, i]
            g = edge_maps[side[k], f]
            if g == f:
                continue
            active[v, i] = g
            if g >= n_fixed:
                E[g, ROWS] += 1
                for c in range(3):
                    C[g, c] += W[i, c]
            else:
                E[f, ROWS] -= 1
                for c in range(3):
                    C[f, c] -= W[i, c]
    for k in range(len(edges)):
        f = edges[k]
        for s in range(2):
            g = edge_maps[s, f]
            if g != f and g >= n_fixed:
                E[f, ROWS] -= E[g, ROWS]
                for c in range(3):
                    C[f, c] -= C[g, c]
        for c in range(3):
            if E[f, ROWS] == 0 or C[f, c] < ROUNDING * before[k, c]:
                C[f, c] = 0.0
    E[e, ROWS] = 0
    for c in range(3):
        C[e, c] = 0.0


@strict_kernel
def settle(N, E, lo, hi):
    """Let go of new nodes that no edge leads to; the number of parameters of the others."""
    parameters = 0
    for n in range(hi - 1, lo - 1, -1):
        if N[n, PARENTS] > 0:
            parameters += N[n, SIZE] if N[n, SIZE] > 1 else 0
            continue
        f = N[n, FIRST]
        while f >= 0:
            E[f, ALIVE] = 0
            if E[f, LEFT] >= 0:
                N[E[f, LEFT], PARENTS] -= 1
                N[E[f, RIGHT], PARENTS] -= 1
            f = E[f, NEXT]
    return parameters


@strict_kernel
def release(N, E, e, n_nodes):
    """Take edge ``e`` away, and whatever no edge leads to then; the parameters that go with it."""
    stack = np.empty(n_nodes, np.int32)
    top = 0
    gone = 0
    f = e
    while True:
        if E[f, LEFT] >= 0:
            for s in range(2):
                c = E[f, LEFT + s]
                N[c, PARENTS] -= 1
                if N[c, PARENTS] == 0:
                    stack[top] = c
                    top += 1
        E[f, ALIVE] = 0
        f = E[f, NEXT] if f != e else -1
        while f < 0:
            if top == 0:
                return gone
            top -= 1
            n = stack[top]
            if N[n, SIZE] > 1:
                gone += N[n, SIZE]
            if E[N[n, FIRST], VALUE] < 0 or N[n, SIZE] > 1:
                f = N[n, FIRST]
