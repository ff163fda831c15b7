# mypy: ignore-errors
"""The exact gain of a split. Arrays in, arrays out; no validation."""

from __future__ import annotations

import numpy as np
from numba import njit

from fairpc.structure._kernels._state_kernels import possible
from fairpc.structure._layout import (
    FIRST,
    FLOW,
    NEXT,
    NODE,
    ROUNDING,
    SIZE,
    V_PARENT,
    VALUE,
    VNODE,
)

_jit = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
_inner = njit(
    cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True
)


@_inner
def xlogx(x):
    return x * np.log(x) if x > 0.0 else 0.0


@_inner
def left_over(whole, part):
    """What is left of a count; nothing where that is rounding."""
    rest = whole - part
    return rest if rest > ROUNDING * whole else 0.0


@_inner
def number_edges(N, E, queue, slot):
    """Number the edges of the nodes in ``queue`` in ``slot``; how many there are."""
    n_slots = 0
    for n in queue:
        f = N[n, FIRST]
        while f >= 0:
            slot[0, f] = n_slots
            n_slots += 1
            f = E[f, NEXT]
    return n_slots


@_inner
def count_path(N, E, V, active, codes, W, rows, e, queue, x, leaf, v0, slot, counts, path):
    """Fill ``counts`` by edge and value of ``x`` on the way from ``e`` to its leaf.

    Puts the nodes there into ``path``; gives back how many.
    """
    on_path = np.zeros(active.shape[0], np.bool_)
    u = leaf
    while u != N[E[e, NODE], VNODE]:
        on_path[u - v0] = True
        for i in rows:
            counts[slot[0, active[u - v0, i]], codes[x, i]] += W[i, FLOW]
        u = V[u, V_PARENT]
    n_path = 0
    for n in queue:
        if on_path[N[n, VNODE] - v0]:
            path[n_path] = n
            n_path += 1
    return n_path


@_inner
def allow_values(N, E, B, path, n_path, bit0, slot, allowed):
    """Mark in ``allowed`` the values of a variable, from ``bit0`` on, that each edge can have."""
    for q in range(n_path):
        f = N[path[q], FIRST]
        while f >= 0:
            for v in range(allowed.shape[1]):
                here = E[f, VALUE] == v
                if E[f, VALUE] < 0:
                    here = possible(B, E, np.int64(f), bit0 + v)
                allowed[slot[0, f], v] = here
            f = E[f, NEXT]


@_inner
def split_gain(N, E, C, path, n_path, slot, counts, allowed, taken, taking, total, v, first):
    """Gain in maximum log-likelihood, and new free parameters, if value ``v`` joins side 0.

    Per edge: ``counts`` of the split edge's rows by value, ``taken`` on side 0 so far and
    ``total``; values ``allowed``, and how many of them are on side 0 so far in
    ``taking[0]`` and at all in ``taking[1]``. ``first`` is what side 0 of the split edge
    has with ``v``. A node with values on both sides is cut in three: a copy for
    each side, and what other parents still send to the original.
    """
    whole = total[-1]
    gain = xlogx(first) + xlogx(left_over(whole, first)) - xlogx(whole)
    new = 1
    for q in range(n_path):
        n = path[q]
        change = 0.0
        sum_a = 0.0
        sum_b = 0.0
        sum_rest = 0.0
        sum_before = 0.0
        kept_a = 0
        kept_b = 0
        f = N[n, FIRST]
        while f >= 0:
            s = slot[0, f]
            a = taken[s] + counts[s, v]
            b = left_over(total[s], a)
            before = C[f, FLOW]
            rest = left_over(before, total[s])
            change += xlogx(a) + xlogx(b) + xlogx(rest) - xlogx(before)
            sum_a += a
            sum_b += b
            sum_rest += rest
            sum_before += before
            values = taking[0, s] + allowed[s, v]
            kept_a += values > 0
            kept_b += taking[1, s] > values
            f = E[f, NEXT]
        if kept_a == 0 or kept_b == 0:
            continue
        gain += change - xlogx(sum_a) - xlogx(sum_b) - xlogx(sum_rest) + xlogx(sum_before)
        new += kept_a + kept_b - 2
        if sum_rest == 0.0:
            new -= N[n, SIZE] - 1
    return gain, new


@_inner
def add_value(counts, allowed, v, taken, taking):
    """Put value ``v`` on side 0."""
    for s in range(len(counts)):
        taken[s] += counts[s, v]
        taking[0, s] += allowed[s, v]


@_inner
def best_sides(N, E, C, B, e, path, n_path, slot, counts, allowed, first, x, start, price, sides):
    """Choose the side of each value of ``x``, in ``sides``: gain, new parameters, score.

    One value is set against the rest first, the best of them; then others join
    it as long as that raises the score. ``first`` is the flow of ``e`` by value.
    """
    n_slots, k = counts.shape
    taken = np.zeros(n_slots)
    total = np.zeros(n_slots + 1)
    taking = np.zeros((2, n_slots), np.int32)
    for v in range(k):
        sides[v] = 1
        total[n_slots] += first[v]
        for s in range(n_slots):
            total[s] += counts[s, v]
            taking[1, s] += allowed[s, v]
    own = -np.inf
    gain = 0.0
    new = 0
    held = 0.0
    free = 0
    for v in range(k):
        free += possible(B, E, e, start[x] + v)
    for _ in range(1, free):
        chosen = -1
        for v in range(k):
            if sides[v] == 0 or not possible(B, E, e, start[x] + v):
                continue
            g, p = split_gain(
                N, E, C, path, n_path, slot, counts, allowed, taken, taking, total, v,
                held + first[v],
            )  # fmt: skip
            if g - price * max(p, 0) > own:
                own = g - price * max(p, 0)
                gain = g
                new = p
                chosen = v
            if free == 2:
                break
        if chosen < 0:
            break
        sides[chosen] = 0
        held += first[chosen]
        add_value(counts, allowed, chosen, taken, taking)
    return gain, new, own


@_jit
def best_split(N, E, C, B, V, active, codes, W, rows, e, queue, variables, leaves, v0, start,
               price, slot):  # fmt: skip
    """The split of edge ``e`` with the largest gain − price × new parameters.

    ``queue`` holds all nodes below ``e``, ``v0`` is the first vtree node of its
    cell. Gives back variable, side of each value, gain and new parameters.
    """
    best_x = -1
    best = np.empty(0, np.uint8)
    net = -np.inf
    gain = 0.0
    new = 0
    n_slots = number_edges(N, E, queue, slot)
    path = np.empty(len(queue), np.int32)
    for x in variables:
        k = start[x + 1] - start[x]
        counts = np.zeros((n_slots, k))
        allowed = np.zeros((n_slots, k), np.uint8)
        n_path = count_path(
            N, E, V, active, codes, W, rows, e, queue, x, leaves[x], v0, slot, counts, path
        )
        allow_values(N, E, B, path, n_path, start[x], slot, allowed)
        first = np.zeros(k)
        for i in rows:
            first[codes[x, i]] += W[i, FLOW]
        sides = np.empty(k, np.uint8)
        g, p, own = best_sides(
            N, E, C, B, e, path, n_path, slot, counts, allowed, first, x, start, price, sides
        )
        if own > net:
            net = own
            gain = g
            new = p
            best_x = x
            best = sides
    return best_x, best, gain, new
