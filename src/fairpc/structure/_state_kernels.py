# mypy: ignore-errors
"""The state of a search: its layout, reading it, and scoring it. Arrays in, arrays out.

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

import numpy as np

from fairpc.core._compiling import strict_inner_kernel, strict_kernel

VNODE, FIRST, SIZE, PARENTS, MARK = range(5)
NODE, LEFT, RIGHT, VALUE, NEXT, ROWS, ALIVE = range(7)
FLOW, PARAMETER, HELD_OUT, PRIOR = range(4)
V_LEFT, _, V_VARIABLE, V_PARENT, V_DEPTH = range(5)

ROUNDING = 1e-12
"""What is left of a count, relative to it, when all of its rows have gone."""


@strict_inner_kernel
def possible(B, E, e, bit):
    """Whether value ``bit`` is possible below edge ``e``."""
    word = bit >> 6
    b = B[E[e, LEFT], word] | B[E[e, RIGHT], word]
    return (b >> np.uint64(bit & 63)) & np.uint64(1) == np.uint64(1)


@strict_inner_kernel
def splittable(B, E, e, start):
    """Whether some variable can take two values below the inner edge ``e``."""
    for x in range(len(start) - 1):
        n = 0
        for bit in range(start[x], start[x + 1]):
            if possible(B, E, e, bit):
                n += 1
                if n == 2:
                    return True
    return False


@strict_kernel
def candidates(N, E, C, B, start, lo, hi, min_flow):
    """Those of the edges ``lo:hi`` that can be split and have ``min_flow``, or any at 0."""
    found = np.empty(hi - lo, np.int32)
    k = 0
    for e in range(lo, hi):
        if E[e, LEFT] >= 0 and E[e, ALIVE] and C[e, FLOW] > 0.0 and C[e, FLOW] >= min_flow:
            if splittable(B, E, e, start):
                found[k] = e
                k += 1
    return found[:k].copy()


@strict_kernel
def fill_values(N, E, B, V, start, n_nodes):
    """Possible values and number of parents of all nodes, which come children first."""
    for n in range(n_nodes):
        f = N[n, FIRST]
        while f >= 0:
            if E[f, LEFT] < 0:
                bit = start[V[N[n, VNODE], V_VARIABLE]] + E[f, VALUE]
                B[n, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            else:
                for s in range(2):
                    c = E[f, LEFT + s]
                    N[c, PARENTS] += 1
                    for w in range(B.shape[1]):
                        B[n, w] |= B[c, w]
            f = E[f, NEXT]


@strict_kernel
def route(N, E, C, V, active, codes, W, lo, hi, v0, root):
    """Send rows ``lo:hi`` of a cell down a compiled tree: fill ``active``, add to the counts."""
    n_v = active.shape[0]
    for u in range(n_v - 1, -1, -1):
        p = V[v0 + u, V_PARENT]
        x = V[v0 + u, V_VARIABLE]
        if x < 0:
            x = V[V[v0 + u, V_LEFT], V_VARIABLE]
        for i in range(lo, hi):
            n = root
            if p >= 0:
                above = active[p - v0, i]
                n = E[above, LEFT] if V[p, V_LEFT] == v0 + u else E[above, RIGHT]
            e = N[n, FIRST]
            if N[n, SIZE] > 1:
                # Edges of a compiled tree are in the order of the values decided on.
                e += codes[x, i]
            active[u, i] = e
            E[e, ROWS] += 1
            for c in range(3):
                C[e, c] += W[i, c]


@strict_inner_kernel
def independent_mass(B, E, e, start, marginal):
    """Probability of what is possible below an inner edge if the variables were independent."""
    q = 1.0
    for x in range(len(start) - 1):
        p = 0.0
        for bit in range(start[x], start[x + 1]):
            if possible(B, E, e, bit):
                p += marginal[bit]
        if p > 0.0:
            q *= p
    return q


@strict_kernel
def set_priors(N, E, C, B, V, start, marginal, lo, hi):
    """Prior of the edges ``lo:hi``: the mass of what each makes possible under ``marginal``."""
    for e in range(lo, hi):
        if E[e, VALUE] >= 0:
            x = V[N[E[e, NODE], VNODE], V_VARIABLE]
            C[e, PRIOR] = marginal[start[x] + E[e, VALUE]]
        else:
            C[e, PRIOR] = independent_mass(B, E, e, start, marginal)


@strict_kernel
def set_terms(N, E, C, T, strength, lo, hi, others, change):
    """Log-likelihood terms of the nodes ``lo:hi`` and ``others``; ``change`` takes their change."""
    for k in range(hi - lo + len(others)):
        n = lo + k if k < hi - lo else others[k - (hi - lo)]
        for c in range(3):
            change[c] -= T[n, c]
            T[n, c] = 0.0
        if N[n, SIZE] > 1:
            total = strength
            prior = 0.0
            f = N[n, FIRST]
            while f >= 0:
                total += C[f, PARAMETER]
                prior += C[f, PRIOR]
                f = E[f, NEXT]
            f = N[n, FIRST]
            while f >= 0:
                share = C[f, PRIOR] / prior if prior > 0.0 else 1.0 / N[n, SIZE]
                c = C[f, PARAMETER] + strength * share
                if c > 0.0:
                    log_theta = np.log(c / total)
                    T[n, 0] += C[f, PARAMETER] * log_theta
                    T[n, 1] += C[f, HELD_OUT] * log_theta
                elif C[f, HELD_OUT] > 0.0:
                    T[n, 2] += 1.0
                f = E[f, NEXT]
        for c in range(3):
            change[c] += T[n, c]


@strict_kernel
def edges_of(N, E, queue, n_edges):
    """The edges of the nodes in ``queue``."""
    found = np.empty(n_edges, np.int32)
    k = 0
    for n in queue:
        f = N[n, FIRST]
        while f >= 0:
            found[k] = f
            k += 1
            f = E[f, NEXT]
    return found


@strict_kernel
def below(N, E, root, n_nodes, n_fixed):
    """The nodes at and below ``root`` that are no indicators, in no order."""
    seen = np.zeros(n_nodes, np.bool_)
    found = np.empty(n_nodes, np.int32)
    seen[root] = root >= n_fixed
    found[0] = root
    count = 1 if root >= n_fixed else 0
    head = 0
    while head < count:
        f = N[found[head], FIRST]
        head += 1
        while f >= 0:
            for s in range(2):
                c = E[f, LEFT + s]
                if c >= n_fixed and not seen[c]:
                    seen[c] = True
                    found[count] = c
                    count += 1
            f = E[f, NEXT]
    return found[:count].copy()


@strict_inner_kernel
def xlogx(x):
    return x * np.log(x) if x > 0.0 else 0.0


@strict_inner_kernel
def left_over(whole, part):
    """What is left of a count; nothing where that is rounding."""
    rest = whole - part
    return rest if rest > ROUNDING * whole else 0.0


@strict_inner_kernel
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


@strict_inner_kernel
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


@strict_inner_kernel
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


@strict_inner_kernel
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


@strict_inner_kernel
def add_value(counts, allowed, v, taken, taking):
    """Put value ``v`` on side 0."""
    for s in range(len(counts)):
        taken[s] += counts[s, v]
        taking[0, s] += allowed[s, v]


@strict_inner_kernel
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
            flow = held + first[v]
            g, p = split_gain(
                N, E, C, path, n_path, slot, counts, allowed, taken, taking, total, v, flow
            )
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


@strict_kernel
def best_split(N, E, C, B, V, active, codes, W, rows, e, queue, xs, leaf, v0, start, price, slot):
    """The split of edge ``e`` on one of ``xs`` with the largest gain − price × new parameters.

    ``queue`` holds all nodes below ``e``, ``leaf`` the vtree node of each variable,
    ``v0`` is the first vtree node of its cell. Gives back variable, side of each
    value, gain and new parameters.
    """
    best_x = -1
    best = np.empty(0, np.uint8)
    net = -np.inf
    gain = 0.0
    new = 0
    n_slots = number_edges(N, E, queue, slot)
    path = np.empty(len(queue), np.int32)
    for x in xs:
        k = start[x + 1] - start[x]
        counts = np.zeros((n_slots, k))
        allowed = np.zeros((n_slots, k), np.uint8)
        n_path = count_path(
            N, E, V, active, codes, W, rows, e, queue, x, leaf[x], v0, slot, counts, path
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
