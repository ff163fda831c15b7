# mypy: ignore-errors
"""Counting pairs of values, and drawing from trees. Arrays in, arrays out; no validation.

Callers make the arrays that are filled: Numba compiles ``np.zeros`` anew for every type and shape,
for a tenth of a second each.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import strict_inner_kernel, strict_kernel


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


@strict_inner_kernel
def popcount(x):
    """Number of bits set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@strict_kernel
def bit_products(columns, w, start, plane, bits, gram):
    """Weighted joint counts of planes by counting bits, 64 rows at a time; weights are whole.

    A weight is the sum of its binary digits: each digit adds one count, over
    the rows that have it. ``bits`` is room for a row of words per plane, and for two more; all
    are zero.
    """
    m, n = columns.shape
    n_planes, words = len(gram), bits.shape[1]
    digit = bits[n_planes]
    part = bits[n_planes + 1]
    for j in range(m):
        for r in range(n):
            v = columns[j, r]
            p = plane[start[j] + v] if v >= 0 else plane[start[m] + j]
            if p >= 0:
                bits[p, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
    most = 0.0
    for r in range(n):
        if w[r] > most:
            most = w[r]
    power = 1
    while power <= most:
        for k in range(words):
            digit[k] = 0
        for r in range(n):
            if np.int64(w[r]) & power:
                digit[r >> 6] |= np.uint64(1) << np.uint64(r & 63)
        for p in range(n_planes):
            for k in range(words):
                part[k] = bits[p, k] & digit[k]
            for q in range(p + 1):
                count = np.uint64(0)
                for k in range(words):
                    count += popcount(part[k] & bits[q, k])
                gram[p, q] += np.float64(count) * power
        power *= 2


@strict_kernel
def row_products(columns, w, start, plane, held, gram):
    """Weighted joint counts of planes, row by row over those that are ``held``; any weights."""
    m, n = columns.shape
    for r in range(n):
        k = 0
        for j in range(m):
            v = columns[j, r]
            p = plane[start[j] + v] if v >= 0 else plane[start[m] + j]
            if p >= 0:
                held[k] = p
                k += 1
        for a in range(k):
            for b in range(a + 1):
                gram[held[a], held[b]] += w[r]


@strict_kernel
def number_planes(columns, w, start, single, plane):
    """Number planes for the values of each variable, all but the most frequent.

    ``single`` takes the weight of each value, stacked, then of "missing" in each
    variable; ``plane`` the planes of the same, -1 for the most frequent and -2 for what
    never occurs. Gives back the number of planes.
    """
    m, n = columns.shape
    n_planes = 0
    for j in range(m):
        for r in range(n):
            v = columns[j, r]
            single[start[j] + v if v >= 0 else start[m] + j] += w[r]
        most = start[m] + j
        for c in range(start[j], start[j + 1]):
            if single[c] > single[most]:
                most = c
        for t in range(start[j + 1] - start[j] + 1):
            c = start[j] + t if t < start[j + 1] - start[j] else start[m] + j
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

    ``left`` is room for as many numbers as ``single`` has.
    """
    m = len(start) - 1
    for i in range(m):
        for c in range(start[i], start[i + 1]):
            counts[c, c] = single[c]
        for j in range(i):
            # left[d]: rows with value d of j less those with a plane of i.
            for t in range(start[j + 1] - start[j] + 1):
                d = start[j] + t if t < start[j + 1] - start[j] else start[m] + j
                left[d] = single[d]
            for s in range(start[i + 1] - start[i] + 1):
                c = start[i] + s if s < start[i + 1] - start[i] else start[m] + i
                p = plane[c]
                if p < 0:
                    continue
                rest = single[c]
                for t in range(start[j + 1] - start[j] + 1):
                    d = start[j] + t if t < start[j + 1] - start[j] else start[m] + j
                    if plane[d] >= 0:
                        g = gram[p, plane[d]]
                        rest -= g
                        left[d] -= g
                        if c < start[m] and d < start[m]:
                            counts[c, d] = g
                for t in range(start[j + 1] - start[j] + 1):
                    d = start[j] + t if t < start[j + 1] - start[j] else start[m] + j
                    if plane[d] == -1:
                        left[d] -= rest
                        if c < start[m] and d < start[m]:
                            counts[c, d] = max(rest, 0.0)
            for c in range(start[i], start[i + 1]):
                for d in range(start[j], start[j + 1]):
                    if plane[c] == -1 and plane[d] != -2:
                        counts[c, d] = max(left[d], 0.0)
                    counts[d, c] = counts[c, d]


@strict_kernel
def tree_samples(codes, order, parent, start, pairs, uniforms):
    """Fill the holes of rows with a draw from a tree's posterior; ``codes`` (variables, rows).

    ``pairs`` holds stacked pairwise weights; P(x | parent) is a row of it,
    normalised. Messages run up the tree, values are drawn on the way down.
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
                    s += pairs[a, v] * message[v]
                    norm += pairs[a, v]
                message[a] *= s / norm
        for t in range(m):
            x = order[t]
            if codes[x, r] >= 0:
                continue
            a = -1 if parent[x] < 0 else start[parent[x]] + codes[parent[x], r]
            total = 0.0
            for v in range(start[x], start[x + 1]):
                total += message[v] * (pairs[v, v] if a < 0 else pairs[a, v])
            left = uniforms[x, r] * total
            for v in range(start[x], start[x + 1]):
                left -= message[v] * (pairs[v, v] if a < 0 else pairs[a, v])
                codes[x, r] = v - start[x]
                if left < 0.0:
                    break
