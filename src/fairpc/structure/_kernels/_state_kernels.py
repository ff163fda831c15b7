# mypy: ignore-errors
"""Reading and scoring the state of a search. Arrays in, arrays out; no validation."""

from __future__ import annotations

import numpy as np
from numba import njit

from fairpc.structure._layout import (
    ALIVE,
    FIRST,
    FLOW,
    HELD_OUT,
    LEFT,
    NEXT,
    NODE,
    PARAMETER,
    PARENTS,
    PRIOR,
    RIGHT,
    ROWS,
    SIZE,
    V_LEFT,
    V_PARENT,
    V_VARIABLE,
    VALUE,
    VNODE,
)

_jit = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
_inner = njit(
    cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True
)


@_inner
def possible(B, E, e, bit):
    """Whether value ``bit`` is possible below edge ``e``."""
    word = bit >> 6
    b = B[E[e, LEFT], word] | B[E[e, RIGHT], word]
    return (b >> np.uint64(bit & 63)) & np.uint64(1) == np.uint64(1)


@_inner
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


@_jit
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


@_jit
def fill_values(N, E, B, V, start, n_nodes):
    """Possible values and number of parents of all nodes, which stand children first."""
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


@_jit
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
                # Edges of a compiled tree stand in the order of the values decided on.
                e += codes[x, i]
            active[u, i] = e
            E[e, ROWS] += 1
            for c in range(3):
                C[e, c] += W[i, c]


@_inner
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


@_jit
def set_priors(N, E, C, B, V, start, marginal, lo, hi):
    """Prior of the edges ``lo:hi``: the mass of what each makes possible under ``marginal``."""
    for e in range(lo, hi):
        if E[e, VALUE] >= 0:
            x = V[N[E[e, NODE], VNODE], V_VARIABLE]
            C[e, PRIOR] = marginal[start[x] + E[e, VALUE]]
        else:
            C[e, PRIOR] = independent_mass(B, E, e, start, marginal)


@_jit
def set_terms(N, E, C, T, strength, lo, hi, others):
    """Log-likelihood terms of the nodes ``lo:hi`` and ``others``; the sum of their changes."""
    change = np.zeros(3)
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
    return change


@_jit
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


@_jit
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
