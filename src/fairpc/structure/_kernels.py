# mypy: ignore-errors
"""Compiled loops of trees, searches and splits. Arrays in, arrays out; no validation.

Callers make the arrays that are filled, and room to work in: Numba compiles ``np.zeros`` anew for
every type and shape, for a tenth of a second each.

The state of a search is a handful of arrays that grow at the end:

    N  nodes      int32 (nodes, 5): vtree node, first edge, number of edges, parents, mark
    E  edges      int32 (edges, 7): node, left, right, value, next edge, rows, alive
    C  counts     float64 (edges, 2): flow, held-out weight
    T  terms      float64 (nodes, 3): log-likelihood, held-out one, impossible held-out edges
    B  values     uint64 (nodes, words): values possible below a node, bit ``start[x] + v``
    V  vtree      int32 (vtree nodes, 5): left, right, variable, parent, depth
    active        int32 (vtree nodes of a cell, rows): the edge each row takes there
    codes         int16 (variables, rows)
    W             float64 (rows, 2): the columns of C

The circuits are deterministic, so a complete row takes exactly one edge at each
vtree node; everything a split changes follows from the rows of the split edge.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import strict_inner_kernel, strict_kernel

VNODE, FIRST, SIZE, PARENTS, MARK = range(5)
NODE, LEFT, RIGHT, VALUE, NEXT, ROWS, ALIVE = range(7)
FLOW, HELD_OUT = range(2)
V_LEFT, _, V_VARIABLE, V_PARENT, V_DEPTH = range(5)

ROUNDING = 1e-12
"""What is left of a count, relative to it, when all of its rows have gone."""

NONE, ALL, SOME = range(3)
TAKEN, TOTAL = -2, -1


@strict_kernel
def pair_information(counts, start, possible, free, pseudocount, result):
    """Mutual information of all pairs from stacked counts of possible values, into ``result``.

    4 * pseudocount prior rows are spread over the possible cells of a pair; variable
    i has ``free[i]`` possible values.
    """
    m = len(start) - 1
    for i in range(m):
        for j in range(i):
            a = 4.0 * pseudocount / (free[i] * free[j])
            total = 0.0
            score = 0.0
            for v in range(start[j], start[j + 1]):
                s = 0.0
                for u in range(start[i], start[i + 1]):
                    if possible[u] and possible[v]:
                        s += counts[u, v] + a
                if s > 0.0:
                    score -= s * np.log(s)
            for u in range(start[i], start[i + 1]):
                s = 0.0
                for v in range(start[j], start[j + 1]):
                    if possible[u] and possible[v]:
                        c = counts[u, v] + a
                        s += c
                        if c > 0.0:
                            score += c * np.log(c)
                if s > 0.0:
                    score -= s * np.log(s)
                total += s
            if total > 0.0:
                result[i, j] = score / total + np.log(total)
                result[j, i] = result[i, j]


@strict_kernel
def row_products(columns, w, start, plane, held, gram):
    """Weighted joint counts of planes, row by row over those that are ``held``; any weights."""
    m, n = columns.shape
    for r in range(n):
        k = 0
        for j in range(m):
            v = columns[j, r]
            p = plane[start[j] + v] if v >= 0 else plane[start[j + 1] - 1]
            if p >= 0:
                held[k] = p
                k += 1
        for a in range(k):
            for b in range(a + 1):
                gram[held[a], held[b]] += w[r]


@strict_kernel
def number_planes(columns, w, start, single, plane):
    """Number planes for the values of each variable, all but the most frequent.

    ``single`` takes the weight of each value of a variable, stacked, with that of "missing" last;
    ``plane`` the planes of the same, -1 for the most frequent and -2 for what never occurs.
    ``start`` is where each variable begins there. Gives back the number of planes.
    """
    m, n = columns.shape
    n_planes = 0
    for j in range(m):
        for r in range(n):
            v = columns[j, r]
            single[start[j] + v if v >= 0 else start[j + 1] - 1] += w[r]
        most = start[j + 1] - 1
        for c in range(start[j], start[j + 1]):
            if single[c] > single[most]:
                most = c
        for c in range(start[j], start[j + 1]):
            if c == most:
                plane[c] = -1
            elif single[c] > 0.0:
                plane[c] = n_planes
                n_planes += 1
            else:
                plane[c] = -2
    return n_planes


@strict_kernel
def expand(gram, plane, single, start, left, counts):
    """Counts of all pairs from those of the planes: the most frequent value is what is left.

    ``counts`` is without "missing"; ``left`` is room for as many numbers as ``single`` has.
    """
    for i in range(len(start) - 1):
        for c in range(start[i], start[i + 1] - 1):
            counts[c - i, c - i] = single[c]
        for j in range(i):
            hole_i, hole_j = start[i + 1] - 1, start[j + 1] - 1
            # left[d]: rows with value d of j less those with a plane of i.
            for d in range(start[j], start[j + 1]):
                left[d] = single[d]
            for c in range(start[i], start[i + 1]):
                p = plane[c]
                if p < 0:
                    continue
                rest = single[c]
                for d in range(start[j], start[j + 1]):
                    if plane[d] >= 0:
                        g = gram[p, plane[d]]
                        rest -= g
                        left[d] -= g
                        if c < hole_i and d < hole_j:
                            counts[c - i, d - j] = g
                for d in range(start[j], start[j + 1]):
                    if plane[d] == -1:
                        left[d] -= rest
                        if c < hole_i and d < hole_j:
                            counts[c - i, d - j] = rest if rest > 0.0 else 0.0
            for c in range(start[i], hole_i):
                for d in range(start[j], hole_j):
                    if plane[c] == -1 and plane[d] != -2:
                        counts[c - i, d - j] = left[d] if left[d] > 0.0 else 0.0
                    counts[d - j, c - i] = counts[c - i, d - j]


@strict_kernel
def tree_samples(codes, order, parent, start, pairs, uniforms):
    """Fill the holes of rows with a draw from a tree's posterior; ``codes`` (variables, rows).

    ``pairs`` holds weights [value, value of the parent], values stacked; P(x | parent) is part of
    a column of it, normalised. Of a root the first column has its weights. Messages run up the
    tree, values are drawn on the way down.
    """
    m = len(order)
    message = np.empty(start[m])
    for r in range(codes.shape[1]):
        for v in range(start[m]):
            message[v] = 1.0
        for t in range(m - 1, -1, -1):
            x = order[t]
            for v in range(start[x], start[x + 1]):
                if codes[x, r] >= 0 and codes[x, r] != v - start[x]:
                    message[v] = 0.0
            p = parent[x]
            if p < 0:
                continue
            for a in range(start[p], start[p + 1]):
                s = 0.0
                norm = 0.0
                for v in range(start[x], start[x + 1]):
                    s += pairs[v, a - start[p]] * message[v]
                    norm += pairs[v, a - start[p]]
                message[a] *= s / norm
        for t in range(m):
            x = order[t]
            if codes[x, r] >= 0:
                continue
            a = 0 if parent[x] < 0 else codes[parent[x], r]
            total = 0.0
            for v in range(start[x], start[x + 1]):
                total += message[v] * pairs[v, a]
            left = uniforms[x, r] * total
            for v in range(start[x], start[x + 1]):
                left -= message[v] * pairs[v, a]
                codes[x, r] = v - start[x]
                if left < 0.0:
                    break


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
def candidates(E, C, B, start, lo, hi, min_flow, found):
    """Put into ``found`` those of the edges ``lo:hi`` that can be split and have ``min_flow``.

    At 0, any flow will do. Gives back how many there are.
    """
    k = 0
    for e in range(lo, hi):
        if E[e, LEFT] >= 0 and E[e, ALIVE] and C[e, FLOW] > 0.0 and C[e, FLOW] >= min_flow:
            if splittable(B, E, e, start):
                found[k] = e
                k += 1
    return k


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
            for c in range(2):
                C[e, c] += W[i, c]


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
            f = N[n, FIRST]
            while f >= 0:
                total += C[f, FLOW]
                f = E[f, NEXT]
            f = N[n, FIRST]
            while f >= 0:
                c = C[f, FLOW] + strength * (1.0 / N[n, SIZE])
                if c > 0.0:
                    log_theta = np.log(c / total)
                    T[n, 0] += C[f, FLOW] * log_theta
                    T[n, 1] += C[f, HELD_OUT] * log_theta
                elif C[f, HELD_OUT] > 0.0:
                    T[n, 2] += 1.0
                f = E[f, NEXT]
        for c in range(3):
            change[c] += T[n, c]


@strict_kernel
def edges_of(N, E, queue, found):
    """Put the edges of the nodes in ``queue`` into ``found``."""
    k = 0
    for n in queue:
        f = N[n, FIRST]
        while f >= 0:
            found[k] = f
            k += 1
            f = E[f, NEXT]


@strict_kernel
def below(N, E, root, n_fixed, seen, found):
    """Put the nodes at and below ``root`` that are not indicators into ``found``; how many.

    They are in no order. ``seen`` is false for every node, and then true for these.
    """
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
    return count


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
    """Number the edges of the nodes in ``queue`` in ``slot``."""
    n_slots = 0
    for n in queue:
        f = N[n, FIRST]
        while f >= 0:
            slot[0, f] = n_slots
            n_slots += 1
            f = E[f, NEXT]


@strict_inner_kernel
def count_path(N, E, V, active, codes, W, rows, e, queue, x, leaf, v0, slot, counts, on_path, path):
    """Fill ``counts`` by edge and value of ``x`` on the way from ``e`` to its leaf.

    Puts the nodes there into ``path``; gives back how many. ``on_path`` tells their vtree nodes.
    """
    for u in range(len(on_path)):
        on_path[u] = False
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
def allow_values(N, E, B, path, n_path, bit0, k, slot, allowed):
    """Mark in ``allowed`` which of the ``k`` values from ``bit0`` on each edge can have."""
    for q in range(n_path):
        f = N[path[q], FIRST]
        while f >= 0:
            for v in range(k):
                here = E[f, VALUE] == v
                if E[f, VALUE] < 0:
                    here = possible(B, E, np.int64(f), bit0 + v)
                allowed[slot[0, f], v] = here
            f = E[f, NEXT]


@strict_inner_kernel
def split_gain(N, E, C, path, n_path, slot, counts, allowed, v, first):
    """Gain in maximum log-likelihood, and new free parameters, if value ``v`` joins side 0.

    ``counts`` and ``allowed`` are those of ``best_split``; ``first`` is what side 0 of the split
    edge has with ``v``. A node with values on both sides is cut in three: a copy for
    each side, and what other parents still send to the original.
    """
    whole = counts[len(counts) - 1, TOTAL]
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
            a = counts[s, TAKEN] + counts[s, v]
            b = left_over(counts[s, TOTAL], a)
            before = C[f, FLOW]
            rest = left_over(before, counts[s, TOTAL])
            change += xlogx(a) + xlogx(b) + xlogx(rest) - xlogx(before)
            sum_a += a
            sum_b += b
            sum_rest += rest
            sum_before += before
            values = allowed[s, TAKEN] + allowed[s, v]
            kept_a += values > 0
            kept_b += allowed[s, TOTAL] > values
            f = E[f, NEXT]
        if kept_a == 0 or kept_b == 0:
            continue
        gain += change - xlogx(sum_a) - xlogx(sum_b) - xlogx(sum_rest) + xlogx(sum_before)
        new += kept_a + kept_b - 2
        if sum_rest == 0.0:
            new -= N[n, SIZE] - 1
    return gain, new


@strict_inner_kernel
def add_value(counts, allowed, v):
    """Put value ``v`` on side 0."""
    for s in range(len(counts) - 1):
        counts[s, TAKEN] += counts[s, v]
        allowed[s, TAKEN] += allowed[s, v]


@strict_inner_kernel
def best_sides(N, E, C, B, e, path, n_path, slot, counts, allowed, x, start, price, sides):
    """Choose the side of each value of ``x``, in ``sides[0]``: gain, new parameters, score.

    One value is set against the rest first, the best of them; then others join
    it as long as that raises the score.
    """
    n_slots = len(counts) - 1
    k = start[x + 1] - start[x]
    for s in range(n_slots + 1):
        counts[s, TAKEN] = 0.0
        allowed[s, TAKEN] = 0
        total = 0.0
        n_allowed = 0
        for v in range(k):
            total += counts[s, v]
            n_allowed += allowed[s, v]
        counts[s, TOTAL] = total
        allowed[s, TOTAL] = n_allowed
    for v in range(k):
        sides[0, v] = 1
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
            if sides[0, v] == 0 or not possible(B, E, e, start[x] + v):
                continue
            flow = held + counts[n_slots, v]
            g, p = split_gain(N, E, C, path, n_path, slot, counts, allowed, v, flow)
            score = g - price * p if p > 0 else g
            if score > own:
                own = score
                gain = g
                new = p
                chosen = v
            if free == 2:
                break
        if chosen < 0:
            break
        sides[0, chosen] = 0
        held += counts[n_slots, chosen]
        add_value(counts, allowed, chosen)
    return gain, new, own


@strict_kernel
def best_split(
    N, E, C, B, V, active, codes, W, rows, e, queue, xs, leaf, v0, start, price, slot, work
):
    """The split of edge ``e`` on one of ``xs`` with the largest gain − price × new parameters.

    ``queue`` holds all nodes below ``e``, ``leaf`` the vtree node of each variable,
    ``v0`` is the first vtree node of its cell. Gives back variable, gain and new parameters; the
    side of each value is in ``sides[1]``.

    ``work`` is room for: ``counts`` of the rows of ``e`` for each edge of ``queue``, by value of a
    variable, on side 0 so far and in total, with ``e`` itself in the last row; ``allowed``, the
    same of values that can occur; ``on_path``, a mark of each vtree node of a cell; ``path``, for
    the nodes of ``queue``; ``sides``, as tried and the best.
    """
    counts, allowed, on_path, path, sides = work
    n_slots = len(counts) - 1
    best_x = -1
    net = -np.inf
    gain = 0.0
    new = 0
    number_edges(N, E, queue, slot)
    for x in xs:
        k = start[x + 1] - start[x]
        for s in range(n_slots + 1):
            for v in range(k):
                counts[s, v] = 0.0
                allowed[s, v] = 0
        n_path = count_path(
            N, E, V, active, codes, W, rows, e, queue, x, leaf[x], v0, slot, counts, on_path, path
        )
        allow_values(N, E, B, path, n_path, start[x], k, slot, allowed)
        for i in rows:
            counts[n_slots, codes[x, i]] += W[i, FLOW]
        g, p, own = best_sides(
            N, E, C, B, e, path, n_path, slot, counts, allowed, x, start, price, sides
        )
        if own > net:
            net = own
            gain = g
            new = p
            best_x = x
            for v in range(k):
                sides[1, v] = sides[0, v]
    return best_x, gain, new


@strict_kernel
def reach(N, E, V, e, leaf, levels, mark, marks, queue, vnodes):
    """Nodes below edge ``e`` that a split on the variable of vtree node ``leaf`` may copy.

    Those on the way to ``leaf``, and all in the first ``levels`` levels of sums, into ``queue``.
    Parents come before children. Their vtree nodes go into ``vnodes``. Gives back the number of
    nodes, of their edges, and of vtree nodes. ``marks``, two of each vtree node, are false.
    """
    v = N[E[e, NODE], VNODE]
    u = leaf
    while u != v:
        marks[0, u] = True
        u = V[u, V_PARENT]
    limit = V[v, V_DEPTH] + levels
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
            if marks[0, u] or V[u, V_DEPTH] <= limit:
                N[c, MARK] = mark
                queue[n] = c
                n += 1
                edges += N[c, SIZE]
                if not marks[1, u]:
                    marks[1, u] = True
                    vnodes[n_v] = u
                    n_v += 1
        f = E[f, NEXT] if head >= 0 else -1
        while f < 0:
            head += 1
            if head == n:
                return n, edges, n_v
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
    for c in range(2):
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
    if state == SOME and E[N[n, FIRST], VALUE] < 0:
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
def copy_nodes(N, E, C, B, V, e, queue, x, sides, start, size, indicator, maps, edge_maps):
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
    middle = size[1]
    for side in range(2):
        middle = size[1]
        for q in range(len(queue) - 1, -1, -1):
            n = queue[q]
            u = N[n, VNODE]
            state = restriction(B, n, start[x], sides, side)
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
        for c in range(2):
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
                for c in range(2):
                    C[g, c] += W[i, c]
            else:
                E[f, ROWS] -= 1
                for c in range(2):
                    C[f, c] -= W[i, c]
    for k in range(len(edges)):
        f = edges[k]
        for s in range(2):
            g = edge_maps[s, f]
            if g != f and g >= n_fixed:
                E[f, ROWS] -= E[g, ROWS]
                for c in range(2):
                    C[f, c] -= C[g, c]
        for c in range(2):
            if E[f, ROWS] == 0 or C[f, c] < ROUNDING * before[k, c]:
                C[f, c] = 0.0
    E[e, ROWS] = 0
    for c in range(2):
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
def release(N, E, e, stack):
    """Take edge ``e`` away, and whatever no edge leads to then; the parameters that go with it.

    ``stack`` is room for as many nodes as there are.
    """
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
