"""Compiled kernels of the active path. Arrays in, arrays out; no validation.

A pair (node, projection) is *active* if it can be non-zero and some row reaches
it from the root. What is not active never matters, whatever the parameters. The
active pairs become *slots* in one array of numbers: two ones, a zero, the
parameters, then sums. A sum is a list of *terms*, each the product of three slots
before it: ``val[terms[t, 3]] += val[terms[t, 0]] · val[terms[t, 1]] · val[terms[t, 2]]``.
Products and sums of one term are written into the terms that use them where
there is room. A term of fewer factors is filled up with ones; they are two, so
that a term rarely names a slot twice and its sets can be handled side by side.
"""

from __future__ import annotations

import numpy as np

from fairpc.circuit._kernels import SCALE, UNSCALE, ZERO_EXPONENT
from fairpc.data.jit import kernel

ZERO = 2
FIRST = 3
"""Slot of the first parameter."""
REACHED = 3


@kernel
def _either(out, x):
    for u in range(len(out)):
        out[u] |= x[u]


@kernel
def _both(out, x, i):
    for u in range(len(out)):
        out[u] &= x[i[u]]


@kernel
def mark_possible(
    kind, value, child_ptr, child, edge_link, scope, map_ptr, maps, leaf_ptr, leaf_code, off, on
):
    """Mark with one each pair that is non-zero for positive parameters."""
    for n in range(len(kind)):
        out = on[off[n] : off[n + 1]]
        m = len(out)
        if kind[n] == 0:
            code = leaf_code[leaf_ptr[scope[n]] : leaf_ptr[scope[n]] + m]
            for u in range(m):
                out[u] = code[u] == value[n] or code[u] < 0
            continue
        for u in range(m):
            out[u] = kind[n] == 1
        for e in range(child_ptr[n], child_ptr[n + 1]):
            c = child[e]
            if kind[n] == 1:
                i = map_ptr[edge_link[e]]
                _both(out, on[off[c] : off[c + 1]], maps[i : i + m])
            else:
                _either(out, on[off[c] : off[c + 1]])


@kernel
def list_active(kind, child_ptr, child, edge_link, map_ptr, maps, off, on, pairs, pair_ptr):
    """The projections at which each node is active, ``pairs[pair_ptr[n]:pair_ptr[n + 1]]``.

    Filled from the back, parents first, with room for one more in front; active
    pairs are marked in ``on``.
    """
    k = len(pairs)
    pair_ptr[len(kind)] = k
    root = off[len(kind) - 1]
    for u in range(root, off[len(kind)]):
        if on[u]:
            on[u] = REACHED
    for n in range(len(kind) - 1, -1, -1):
        o = off[n]
        stop = k
        for u in range(off[n + 1] - o - 1, -1, -1):
            # Written in any case, and written over where it was not active: no branch.
            pairs[k - 1] = u
            k -= on[o + u] == REACHED
        pair_ptr[n] = k
        for e in range(child_ptr[n], child_ptr[n + 1]):
            c = off[child[e]]
            if kind[n] == 1:
                i = map_ptr[edge_link[e]]
                for j in range(k, stop):
                    on[c + maps[i + pairs[j]]] = REACHED
            else:
                for j in range(k, stop):
                    if on[c + pairs[j]]:
                        on[c + pairs[j]] = REACHED


@kernel
def _write(terms, t, a, b, c, slot):
    """A term; a factor 0 stands for none, and only ``c`` or both ``b`` and ``c`` may be."""
    terms[t, 0] = a
    terms[t, 1] = b
    terms[t, 2] = c if c != 0 else 1
    terms[t, 3] = slot


@kernel
def _product_slots(
    terms, t, slot, left, right, first, last, child, edge_link, map_ptr, maps, off, u
):
    """The factors of the children as two slots; whatever is more gets a sum of its own.

    Returns the two, and the numbers of terms and slots so far.
    """
    a = np.int64(0)
    b = np.int64(0)
    for e in range(first, last):
        c = off[child[e]] + maps[map_ptr[edge_link[e]] + u]
        x = np.int64(left[c])
        y = np.int64(right[c])
        if a != 0 and y != 0:
            _write(terms, t, x, y, np.int64(0), slot)
            left[c] = slot
            right[c] = 0
            x = slot
            y = np.int64(0)
            t += 1
            slot += 1
        if x != 0 and a != 0 and b != 0:
            _write(terms, t, a, b, np.int64(0), slot)
            a = slot
            b = x
            t += 1
            slot += 1
        elif x != 0 and a != 0:
            b = x
        elif x != 0:
            a = x
            b = y
    return a, b, t, slot


@kernel
def _sum_slots(terms, t, slot, left, right, on, off, u, first, last, child, edge_parameter):
    """The active edges of a sum as terms of a new slot, or a single one as two factors."""
    k = 0
    only = np.int64(0)
    for e in range(first, last):
        if on[off[child[e]] + u]:
            k += 1
            only = e
    at = off[child[only]] + u
    if k == 1 and right[at] == 0:
        return np.int64(edge_parameter[only] + FIRST), np.int64(left[at]), t, slot
    for e in range(first, last):
        at = off[child[e]] + u
        if on[at]:
            p = np.int64(edge_parameter[e] + FIRST)
            _write(terms, t, p, np.int64(left[at]), np.int64(right[at]), slot)
            t += 1
    return slot, np.int64(0), t, slot + 1


@kernel
def list_terms(
    kind, child_ptr, child, edge_parameter, edge_link, map_ptr, maps, off, on, pairs, pair_ptr,
    n_parameters, left, right, terms,
):  # fmt: skip
    """Terms of all active pairs, children first; returns the numbers of terms and of slots.

    A pair's value is the product of the slots ``left`` and ``right``. With more terms
    than there is room for, the number of terms returned is -1.
    """
    t = np.int64(0)
    slot = np.int64(FIRST + n_parameters)
    for n in range(len(kind)):
        first = child_ptr[n]
        last = child_ptr[n + 1]
        for j in range(pair_ptr[n], pair_ptr[n + 1]):
            if t + 2 * (last - first) + 1 > len(terms):
                return np.int64(-1), slot
            u = np.int64(pairs[j])
            a = np.int64(0)
            b = np.int64(0)
            if kind[n] == 1:
                a, b, t, slot = _product_slots(
                    terms, t, slot, left, right, first, last, child, edge_link, map_ptr, maps,
                    off, u,
                )  # fmt: skip
            elif kind[n] == 2:
                a, b, t, slot = _sum_slots(
                    terms, t, slot, left, right, on, off, u, first, last, child, edge_parameter
                )
            left[off[n] + u] = a
            right[off[n] + u] = b
    return t, slot


@kernel
def rise(theta, terms, root, weights, val, likelihood):
    """The value of every slot, and of the rows; rows without weight count as certain."""
    val[0] = 1.0
    val[1] = 1.0
    val[ZERO] = 0.0
    for p in range(len(theta)):
        val[FIRST + p] = theta[p]
    for s in range(FIRST + len(theta), len(val)):
        val[s] = 0.0
    for t in range(len(terms)):
        val[terms[t, 3]] += val[terms[t, 0]] * val[terms[t, 1]] * val[terms[t, 2]]
    for r in range(len(root)):
        likelihood[r] = val[root[r, 0]] * val[root[r, 1]] if weights[r] > 0.0 else 1.0


@kernel
def fall(theta, terms, root, rate, val, slope, flow):
    """Expected flow per parameter: θ · ∂ log-likelihood / ∂θ, slopes from the rows down.

    ``rate`` is weight / likelihood of each row. No slope exceeds the sum of the
    rates, so nothing overflows where no likelihood is tiny.
    """
    for s in range(len(slope)):
        slope[s] = 0.0
    for r in range(len(root)):
        a = root[r, 0]
        b = root[r, 1]
        slope[a] += rate[r] * val[b]
        slope[b] += rate[r] * val[a]
    for t in range(len(terms) - 1, -1, -1):
        a = terms[t, 0]
        b = terms[t, 1]
        c = terms[t, 2]
        above = slope[terms[t, 3]]
        x = above * val[a]
        y = val[b]
        z = val[c]
        slope[a] += above * y * z
        slope[b] += x * z
        slope[c] += x * y
    for p in range(len(theta)):
        flow[p] = theta[p] * slope[FIRST + p]


@kernel
def rise_sets(theta, terms, root, weights, val, likelihood):
    """``rise`` for several parameter sets side by side, the sets being the last axis."""
    n_sets = val.shape[1]
    for k in range(n_sets):
        val[0, k] = 1.0
        val[1, k] = 1.0
        val[ZERO, k] = 0.0
    for p in range(len(theta)):
        for k in range(n_sets):
            val[FIRST + p, k] = theta[p, k]
    for s in range(FIRST + len(theta), len(val)):
        for k in range(n_sets):
            val[s, k] = 0.0
    for t in range(len(terms)):
        a = terms[t, 0]
        b = terms[t, 1]
        c = terms[t, 2]
        s = terms[t, 3]
        for k in range(n_sets):
            val[s, k] += val[a, k] * val[b, k] * val[c, k]
    for r in range(len(root)):
        a = root[r, 0]
        b = root[r, 1]
        for k in range(n_sets):
            likelihood[r, k] = val[a, k] * val[b, k] if weights[r, k] > 0.0 else 1.0


@kernel
def fall_sets(theta, terms, root, rate, val, slope, flow):
    """``fall`` for several parameter sets side by side."""
    n_sets = val.shape[1]
    for s in range(len(slope)):
        for k in range(n_sets):
            slope[s, k] = 0.0
    for r in range(len(root)):
        a = root[r, 0]
        b = root[r, 1]
        for k in range(n_sets):
            slope[a, k] += rate[r, k] * val[b, k]
            slope[b, k] += rate[r, k] * val[a, k]
    for t in range(len(terms) - 1, -1, -1):
        a = terms[t, 0]
        b = terms[t, 1]
        c = terms[t, 2]
        s = terms[t, 3]
        for k in range(n_sets):
            above = slope[s, k]
            x = above * val[a, k]
            y = val[b, k]
            z = val[c, k]
            slope[a, k] += above * y * z
            slope[b, k] += x * z
            slope[c, k] += x * y
    for p in range(len(theta)):
        for k in range(n_sets):
            flow[p, k] = theta[p, k] * slope[FIRST + p, k]


@kernel
def _scaled_times(v, e, x, x_exponent):
    """The product of two scaled numbers."""
    v *= x
    if v == 0.0:
        return 0.0, np.int64(ZERO_EXPONENT)
    e += x_exponent
    if v < UNSCALE:
        v *= SCALE
        e -= 1
    return v, e


@kernel
def _relative(v, steps):
    """v · SCALE^steps for steps ≤ 0; what is two steps below is nothing beside the rest."""
    if steps == 0:
        return v
    return v * UNSCALE if steps == -1 else 0.0


@kernel
def _scaled_term(terms, t, val, exponent):
    v, e = val[terms[t, 0]], np.int64(exponent[terms[t, 0]])
    v, e = _scaled_times(v, e, val[terms[t, 1]], exponent[terms[t, 1]])
    return _scaled_times(v, e, val[terms[t, 2]], exponent[terms[t, 2]])


@kernel
def rise_scaled(terms, val, exponent):
    """``rise`` with extended range, val · SCALE^exponent; the parameters are in place."""
    for t in range(len(terms)):
        v, e = _scaled_term(terms, t, val, exponent)
        s = terms[t, 3]
        if v > 0.0:
            top = max(e, np.int64(exponent[s]))
            val[s] = _relative(v, e - top) + _relative(val[s], exponent[s] - top)
            exponent[s] = top


@kernel
def fall_scaled(terms, val, exponent, flow):
    """Expected flow of every slot on the values of ``rise_scaled``, from the rows down."""
    for t in range(len(terms) - 1, -1, -1):
        s = terms[t, 3]
        v, e = _scaled_term(terms, t, val, exponent)
        if v == 0.0:
            continue
        f = flow[s] * _relative(v / val[s], e - exponent[s])
        flow[terms[t, 0]] += f
        flow[terms[t, 1]] += f
        flow[terms[t, 2]] += f
