"""Compiled kernels of the circuit engine. Arrays in, arrays out; no validation.

``g`` are the arrays of a graph, ``chunk`` those of a chunk of rows (GraphArrays and
ChunkArrays).

Rows are merged *per scope*: the value of a node depends only on the row's
projection onto the node's scope, so each node holds one number per distinct
projection in the chunk, not per row. Node n owns ``val[off[n]:off[n + 1]]``.
A sum and its children have one scope (smoothness) and are combined elementwise;
a product looks its children up through ``maps``, one per pair of scopes.

Missing values are marginalised: all indicators of the variable are one (code -1).

The active path works without the circuit. A pair (node, projection) is *active* if
it can be non-zero and some row reaches it from the root. What is not active never
matters, whatever the parameters. The active pairs become *slots* in one array of
numbers: some ones, a zero, the parameters, then sums. A sum is a list of *terms*, each
the product of three slots before it:
``val[terms[t, 3]] += val[terms[t, 0]] · val[terms[t, 1]] · val[terms[t, 2]]``.
Products and sums of one term are written into the terms that use them where
there is room. A term of fewer factors is filled up with ones. Terms take them in turn:
slopes are added up in every slot, and adding to one that was just written waits.
Slots are unsigned, for a signed index is first compared with zero.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import inner_kernel, kernel
from fairpc.data._kernels import pair_ids

# Values are mantissa · SCALE^exponent in the extended-range kernels.
SCALE = 2.0**256
UNSCALE = 2.0**-256
LOG_SCALE = 256.0 * np.log(2.0)
ZERO_EXPONENT = -(1 << 28)
# A likelihood below this may have lost digits on the way: the chunk is redone with
# extended range. Above it, whatever underflowed is smaller by a factor of 1e-50.
TINY = 1e-250

# Slots of the active path: ones before it, zero, and the first parameter.
ZERO = 8
FIRST = 9
REACHED = 3


@kernel
def project(scopes, columns, start, stop, merge, ids, rep):
    """Number the distinct projections of rows ``start:stop`` onto every scope.

    ``columns`` are the codes, variables × rows. ``leaf[s]`` is the variable of a
    one-variable scope; other scopes are put together from their parts. ``ids`` takes
    each row's projection per scope. Returns the number of projections per scope; the
    map of each link (projection of a scope -> projection of a part of it) and the
    codes of the leaves' projections, each after the places where they start. With
    ``merge`` off every row stands alone.
    """
    leaf, arities, part_ptr, part, link_from, link_to = scopes
    size = np.empty(len(leaf), np.int64)
    map_ptr = np.empty(len(link_from) + 1, np.int64)
    leaf_ptr = np.empty(len(leaf) + 1, np.int64)
    map_ptr[0] = 0
    leaf_ptr[0] = 0
    n = stop - start
    for s in range(len(leaf)):
        if not merge:
            size[s] = n
            for i in range(n):
                ids[s, i] = i
                rep[s, i] = i
        elif leaf[s] >= 0:
            size[s] = arities[leaf[s]] + 1
            for i in range(n):
                ids[s, i] = columns[leaf[s], start + i] + 1
        else:
            p = part_ptr[s]
            count = size[part[p]]
            for i in range(n):
                ids[s, i] = ids[part[p], i]
            while p + 1 < part_ptr[s + 1]:
                p += 1
                count = pair_ids(ids[s], ids[part[p]], count, size[part[p]], ids[s], rep[s])
            size[s] = count
        leaf_ptr[s + 1] = leaf_ptr[s] + (size[s] if leaf[s] >= 0 else 0)
    leaf_code = np.empty(leaf_ptr[len(leaf)], np.int32)
    for s in range(len(leaf)):
        if leaf[s] >= 0:
            for u in range(size[s]):
                leaf_code[leaf_ptr[s] + u] = u - 1 if merge else columns[leaf[s], start + u]
    for link in range(len(link_from)):
        map_ptr[link + 1] = map_ptr[link] + size[link_from[link]]
    maps = np.empty(map_ptr[len(link_from)], np.uint16)
    for link in range(len(link_from)):
        s = link_from[link]
        t = link_to[link]
        for u in range(size[s]):
            maps[map_ptr[link] + u] = ids[t, rep[s, u]] if s != t else u
    return size, map_ptr, maps, leaf_ptr, leaf_code


@inner_kernel
def _weighted_pair(out, a, x, b, y):
    for u in range(len(out)):
        out[u] = a * x[u] + b * y[u]


@inner_kernel
def _add_weighted(out, a, x):
    for u in range(len(out)):
        out[u] += a * x[u]


@inner_kernel
def _gather_pair(out, x, i, y, j):
    for u in range(len(out)):
        out[u] = x[i[u]] * y[j[u]]


@inner_kernel
def _gather_times(out, x, i):
    for u in range(len(out)):
        out[u] *= x[i[u]]


@kernel
def upward(g, chunk, theta, val):
    """Pr_n of every node and projection, children first (Section "Probabilistic Circuits")."""
    kind, _, value, child_ptr, child, edge_parameter, edge_link, scope = g
    map_ptr, maps, leaf_ptr, leaf_code, off = chunk
    for n in range(len(kind)):
        out = val[off[n] : off[n + 1]]
        m = len(out)
        e = child_ptr[n]
        stop = child_ptr[n + 1]
        if kind[n] == 0:
            code = leaf_code[leaf_ptr[scope[n]] : leaf_ptr[scope[n]] + m]
            for u in range(m):
                out[u] = 1.0 if code[u] == value[n] or code[u] < 0 else 0.0
        elif stop - e == 1:
            a = child[e]
            weight = 1.0 if kind[n] == 1 else theta[edge_parameter[e]]
            x = val[off[a] : off[a + 1]]
            for u in range(m):
                out[u] = weight * x[u]
        elif kind[n] == 1:
            a = child[e]
            b = child[e + 1]
            i = map_ptr[edge_link[e]]
            j = map_ptr[edge_link[e + 1]]
            x = val[off[a] : off[a + 1]]
            y = val[off[b] : off[b + 1]]
            _gather_pair(out, x, maps[i : i + m], y, maps[j : j + m])
            for k in range(e + 2, stop):
                a = child[k]
                i = map_ptr[edge_link[k]]
                _gather_times(out, val[off[a] : off[a + 1]], maps[i : i + m])
        else:
            a = child[e]
            b = child[e + 1]
            x = val[off[a] : off[a + 1]]
            y = val[off[b] : off[b + 1]]
            _weighted_pair(out, theta[edge_parameter[e]], x, theta[edge_parameter[e + 1]], y)
            for k in range(e + 2, stop):
                a = child[k]
                _add_weighted(out, theta[edge_parameter[k]], val[off[a] : off[a + 1]])


@inner_kernel
def _quotient(out, x, y):
    for u in range(len(out)):
        out[u] = x[u] / y[u] if y[u] > 0.0 else 0.0


@inner_kernel
def _push(flow, weight, ratio, x):
    total = 0.0
    for u in range(len(flow)):
        f = ratio[u] * (weight * x[u])
        flow[u] += f
        total += f
    return total


@inner_kernel
def _scatter(flow, i, f):
    for u in range(len(f)):
        flow[i[u]] += f[u]


@kernel
def downward(g, chunk, theta, val, flow, edge_flow):
    """Expected flows, parents first: Algorithm 1 of the appendix, for a chunk of rows at once.

    ``flow`` holds the weight of each row at the root and zero elsewhere; at the
    end flow[off[n] + u] = EF(n), summed over the rows whose projection is u. What
    passes each sum edge is added to ``edge_flow``.
    """
    kind, _, _, child_ptr, child, edge_parameter, edge_link, _ = g
    map_ptr, maps, _, _, off = chunk
    longest = 0
    for n in range(len(kind)):
        longest = max(longest, off[n + 1] - off[n])
    buffer = np.empty(longest)
    for n in range(len(kind) - 1, -1, -1):
        if kind[n] == 0:
            continue
        own = flow[off[n] : off[n + 1]]
        m = len(own)
        if kind[n] == 1:
            for e in range(child_ptr[n], child_ptr[n + 1]):
                c = child[e]
                i = map_ptr[edge_link[e]]
                _scatter(flow[off[c] : off[c + 1]], maps[i : i + m], own)
        else:
            ratio = buffer[:m]
            _quotient(ratio, own, val[off[n] : off[n + 1]])
            for e in range(child_ptr[n], child_ptr[n + 1]):
                c = child[e]
                x = val[off[c] : off[c + 1]]
                weight = theta[edge_parameter[e]]
                edge_flow[e] += _push(flow[off[c] : off[c + 1]], weight, ratio, x)


@kernel
def weighted_log(values, weights):
    """Σ w · log v over entries with weight; the smallest such v tells of underflow."""
    total = 0.0
    least = np.inf
    for u in range(len(values)):
        if weights[u] > 0.0:
            least = min(least, values[u])
            total += weights[u] * np.log(values[u])
    return total, least


@inner_kernel
def _scaled_product(out, exponent, x, x_exponent, i):
    for u in range(len(out)):
        v = out[u] * x[i[u]]
        e = exponent[u] + x_exponent[i[u]]
        if v == 0.0:
            e = ZERO_EXPONENT
        elif v < UNSCALE:
            v *= SCALE
            e -= 1
        out[u] = v
        exponent[u] = e


@inner_kernel
def _scaled_add(out, exponent, weight, weight_exponent, x, x_exponent, use_max):
    for u in range(len(out)):
        m = weight * x[u]
        if m == 0.0:
            continue
        e = weight_exponent + x_exponent[u]
        d = exponent[u] - e
        a = out[u]
        if use_max:
            above = d > 0 or (d == 0 and a >= m)
            # One step of the exponent apart the mantissas still decide.
            if d == 1:
                above = a >= m * UNSCALE
            elif d == -1:
                above = a * UNSCALE >= m
            if above:
                m = a
                e = exponent[u]
        elif d == 0:
            m += a
        elif d > 0:
            m = a + (m * UNSCALE if d == 1 else 0.0)
            e = exponent[u]
        elif d == -1:
            m += a * UNSCALE
        if m < UNSCALE:
            m *= SCALE
            e -= 1
        out[u] = m
        exponent[u] = e


@kernel
def upward_scaled(g, chunk, scaled_theta, scaled_val, use_max, filled):
    """``upward`` with extended range: val · SCALE^exponent. ``use_max`` turns sums into maxima.

    With ``filled`` the indicators have their values already, those of soft evidence.
    """
    kind, _, value, child_ptr, child, edge_parameter, edge_link, scope = g
    map_ptr, maps, leaf_ptr, leaf_code, off = chunk
    theta, theta_exponent = scaled_theta
    val, exponent = scaled_val
    for n in range(len(kind)):
        out = val[off[n] : off[n + 1]]
        scale = exponent[off[n] : off[n + 1]]
        m = len(out)
        if kind[n] == 0 and filled:
            continue
        if kind[n] == 0:
            code = leaf_code[leaf_ptr[scope[n]] : leaf_ptr[scope[n]] + m]
            for u in range(m):
                on = code[u] == value[n] or code[u] < 0
                out[u] = 1.0 if on else 0.0
                scale[u] = 0 if on else ZERO_EXPONENT
        elif kind[n] == 1:
            for u in range(m):
                out[u] = 1.0
                scale[u] = 0
            for e in range(child_ptr[n], child_ptr[n + 1]):
                c = child[e]
                i = map_ptr[edge_link[e]]
                x = val[off[c] : off[c + 1]]
                x_scale = exponent[off[c] : off[c + 1]]
                _scaled_product(out, scale, x, x_scale, maps[i : i + m])
        else:
            for u in range(m):
                out[u] = 0.0
                scale[u] = ZERO_EXPONENT
            for e in range(child_ptr[n], child_ptr[n + 1]):
                c = child[e]
                p = edge_parameter[e]
                x = val[off[c] : off[c + 1]]
                x_scale = exponent[off[c] : off[c + 1]]
                _scaled_add(out, scale, theta[p], theta_exponent[p], x, x_scale, use_max)


@inner_kernel
def _share(theta, theta_exponent, p, val, exponent, below, above):
    """(θ[p] · val[below]) / val[above] of scaled numbers, as an ordinary one between 0 and 1."""
    weight = theta[p]
    x = val[below]
    total = val[above]
    if total == 0.0 or x == 0.0 or weight == 0.0:
        return 0.0
    d = theta_exponent[p] + exponent[below] - exponent[above]
    ratio = weight * x / total
    if d == 0:
        return ratio
    if d == 1:
        return ratio * SCALE
    if d == -1:
        return ratio * UNSCALE
    return 0.0


@kernel
def downward_scaled(g, chunk, scaled_theta, scaled_val, flow, edge_flow):
    """``downward`` on the values of ``upward_scaled``; flows themselves need no scaling."""
    kind, _, _, child_ptr, child, edge_parameter, edge_link, _ = g
    map_ptr, maps, _, _, off = chunk
    theta, theta_exponent = scaled_theta
    val, exponent = scaled_val
    for n in range(len(kind) - 1, -1, -1):
        if kind[n] == 0:
            continue
        o = off[n]
        m = off[n + 1] - o
        for e in range(child_ptr[n], child_ptr[n + 1]):
            c = off[child[e]]
            if kind[n] == 1:
                i = map_ptr[edge_link[e]]
                for u in range(m):
                    flow[c + maps[i + u]] += flow[o + u]
                continue
            p = edge_parameter[e]
            total = 0.0
            for u in range(m):
                f = flow[o + u] * _share(theta, theta_exponent, p, val, exponent, c + u, o + u)
                flow[c + u] += f
                total += f
            edge_flow[e] += total


@kernel
def scaled_log(val, exponent):
    """log of scaled numbers; log 0 is -inf."""
    out = np.empty(len(val))
    for u in range(len(val)):
        out[u] = np.log(val[u]) + exponent[u] * LOG_SCALE if val[u] > 0.0 else -np.inf
    return out


@inner_kernel
def _uniform(state):
    """Next state and a number in [0, 1): splitmix64, one stream per row."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) * 2.0**-53


@kernel
def trace(g, chunk, scaled_theta, scaled_val, root_ids, seeds, draw, out):
    """Walk each row from the root to its leaves and write the values of the leaves.

    A sum goes to one child: drawn by its share where ``draw``, else the first
    with the largest share (after an upward pass with maxima: the MPE).
    """
    kind, variable, value, child_ptr, child, edge_parameter, edge_link, _ = g
    map_ptr, maps, _, _, off = chunk
    theta, theta_exponent = scaled_theta
    val, exponent = scaled_val
    root = len(kind) - 1
    stack_node = np.empty(len(kind) + 1, np.int64)
    stack_at = np.empty(len(kind) + 1, np.int64)
    for r in range(len(root_ids)):
        state = seeds[r]
        stack_node[0] = root
        stack_at[0] = root_ids[r]
        depth = 1
        while depth > 0:
            depth -= 1
            n = stack_node[depth]
            u = stack_at[depth]
            if kind[n] == 0:
                out[r, variable[n]] = value[n]
            elif kind[n] == 1:
                for e in range(child_ptr[n], child_ptr[n + 1]):
                    stack_node[depth] = child[e]
                    stack_at[depth] = maps[map_ptr[edge_link[e]] + u]
                    depth += 1
            else:
                left = 0.0
                if draw:
                    state, left = _uniform(state)
                best = -1.0
                chosen = -1
                for e in range(child_ptr[n], child_ptr[n + 1]):
                    c = child[e]
                    at = off[c] + u
                    p = edge_parameter[e]
                    share = _share(theta, theta_exponent, p, val, exponent, at, off[n] + u)
                    if share <= 0.0:
                        continue
                    if draw:
                        chosen = c  # the last one with a share, should rounding leave a rest
                        left -= share
                        if left < 0.0:
                            break
                    elif share > best:
                        best = share
                        chosen = c
                stack_node[depth] = chosen
                stack_at[depth] = u
                depth += 1


@inner_kernel
def _either(out, x):
    for u in range(len(out)):
        out[u] |= x[u]


@inner_kernel
def _both(out, x, i):
    for u in range(len(out)):
        out[u] &= x[i[u]]


@kernel
def mark_possible(g, chunk, on):
    """Mark with one each pair that is non-zero for positive parameters."""
    kind, _, value, child_ptr, child, _, edge_link, scope = g
    map_ptr, maps, leaf_ptr, leaf_code, off = chunk
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
def list_active(g, chunk, on, pairs, pair_ptr):
    """The projections at which each node is active, ``pairs[pair_ptr[n]:pair_ptr[n + 1]]``.

    Filled from the back, parents first, with room for one more in front; active
    pairs are marked in ``on``.
    """
    kind, _, _, child_ptr, child, _, edge_link, _ = g
    map_ptr, maps, _, _, off = chunk
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


@inner_kernel
def _write(terms, t, a, b, c, slot):
    """A term; a factor 0 stands for none, and only ``c`` or both ``b`` and ``c`` may be."""
    one = 2 * t % ZERO
    terms[t, 0] = a
    terms[t, 1] = b if b != 0 else one
    terms[t, 2] = c if c != 0 else one + 1
    terms[t, 3] = slot


@inner_kernel
def _product_slots(terms, t, slot, left, right, first, last, child, link, map_ptr, maps, off, u):
    """The factors of the children as two slots; whatever is more gets a sum of its own.

    Returns the two, and the numbers of terms and slots so far.
    """
    a = np.int64(0)
    b = np.int64(0)
    for e in range(first, last):
        c = off[child[e]] + maps[map_ptr[link[e]] + u]
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


@inner_kernel
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
def list_terms(g, chunk, n_parameters, on, pairs, pair_ptr, left, right, terms):
    """Terms of all active pairs, children first; returns the numbers of terms and of slots.

    A pair's value is the product of the slots ``left`` and ``right``. With more terms
    than there is room for, the number of terms returned is -1.
    """
    kind, _, _, child_ptr, child, edge_parameter, link, _ = g
    map_ptr, maps, _, _, off = chunk
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
                    terms, t, slot, left, right, first, last, child, link, map_ptr, maps, off, u
                )
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
    for s in range(ZERO):
        val[s] = 1.0
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
