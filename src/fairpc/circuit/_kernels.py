"""Compiled kernels of the circuit engine. Arrays in, arrays out; no validation.

Rows are merged *per scope*: the value of a node depends only on the row's
projection onto the node's scope, so each node holds one number per distinct
projection in the chunk, not per row. Node n owns ``val[off[n]:off[n + 1]]``.
A sum and its children have one scope (smoothness) and are combined elementwise;
a product looks its children up through ``maps``, one per pair of scopes.

Missing values are summed out by setting both indicators to one (code -1).
"""

from __future__ import annotations

import numpy as np

from fairpc.data._kernels import pair_ids
from fairpc.data.jit import kernel

# Values are mantissa · SCALE^exponent in the extended-range kernels.
SCALE = 2.0**256
UNSCALE = 2.0**-256
LOG_SCALE = 256.0 * np.log(2.0)
ZERO_EXPONENT = -(1 << 28)
# A likelihood below this may have lost digits on the way: the chunk is redone with
# extended range. Above it, whatever underflowed is smaller by a factor of 1e-50.
TINY = 1e-250


@kernel
def project(
    columns, start, stop, leaf, arities, part_ptr, part, link_from, link_to, merge,
    size, ids, rep, map_ptr, leaf_ptr,
):  # fmt: skip
    """Number the distinct projections of rows ``start:stop`` onto every scope.

    ``columns`` are the codes, variables × rows. ``leaf[s]`` is the variable of a
    one-variable scope; other scopes are put together from their parts. Fills the
    number of projections per scope, the places of the maps and of the leaves'
    codes; returns the map of each link (projection of a scope -> projection of a
    part of it) and the codes of the leaves' projections. ``ids`` holds each row's
    projection per scope. With ``merge`` off every row stands alone.
    """
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
    return maps, leaf_code


@kernel
def _weighted_pair(out, a, x, b, y):
    for u in range(len(out)):
        out[u] = a * x[u] + b * y[u]


@kernel
def _add_weighted(out, a, x):
    for u in range(len(out)):
        out[u] += a * x[u]


@kernel
def _gather_pair(out, x, i, y, j):
    for u in range(len(out)):
        out[u] = x[i[u]] * y[j[u]]


@kernel
def _gather_times(out, x, i):
    for u in range(len(out)):
        out[u] *= x[i[u]]


@kernel
def upward(
    kind, value, child_ptr, child, edge_parameter, edge_link, scope, theta,
    map_ptr, maps, leaf_ptr, leaf_code, off, val,
):  # fmt: skip
    """Pr_n of every node and projection, children first (Section "Probabilistic Circuits")."""
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
            _gather_pair(
                out, val[off[a] : off[a + 1]], maps[i : i + m],
                val[off[b] : off[b + 1]], maps[j : j + m],
            )  # fmt: skip
            for k in range(e + 2, stop):
                a = child[k]
                i = map_ptr[edge_link[k]]
                _gather_times(out, val[off[a] : off[a + 1]], maps[i : i + m])
        else:
            a = child[e]
            b = child[e + 1]
            _weighted_pair(
                out, theta[edge_parameter[e]], val[off[a] : off[a + 1]],
                theta[edge_parameter[e + 1]], val[off[b] : off[b + 1]],
            )  # fmt: skip
            for k in range(e + 2, stop):
                a = child[k]
                _add_weighted(out, theta[edge_parameter[k]], val[off[a] : off[a + 1]])


@kernel
def _quotient(out, x, y):
    for u in range(len(out)):
        out[u] = x[u] / y[u] if y[u] > 0.0 else 0.0


@kernel
def _push(flow, weight, ratio, x):
    total = 0.0
    for u in range(len(flow)):
        f = ratio[u] * (weight * x[u])
        flow[u] += f
        total += f
    return total


@kernel
def _scatter(flow, i, f):
    for u in range(len(f)):
        flow[i[u]] += f[u]


@kernel
def downward(
    kind, child_ptr, child, edge_parameter, edge_link, theta,
    map_ptr, maps, off, val, flow, edge_flow,
):  # fmt: skip
    """Expected flows, parents first: Algorithm 1 of the appendix, for a chunk of rows at once.

    ``flow`` holds the weight of each row at the root and zero elsewhere; at the
    end flow[off[n] + u] = EF(n), summed over the rows whose projection is u. What
    passes each sum edge is added to ``edge_flow``.
    """
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
                edge_flow[e] += _push(
                    flow[off[c] : off[c + 1]], theta[edge_parameter[e]], ratio,
                    val[off[c] : off[c + 1]],
                )  # fmt: skip


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


@kernel
def _scaled_product(out, exponent, x, x_exponent, i):
    for u in range(len(out)):
        m = out[u] * x[i[u]]
        e = exponent[u] + x_exponent[i[u]]
        if m == 0.0:
            e = ZERO_EXPONENT
        elif m < UNSCALE:
            m *= SCALE
            e -= 1
        out[u] = m
        exponent[u] = e


@kernel
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
def upward_scaled(
    kind, value, child_ptr, child, edge_parameter, edge_link, scope, theta, theta_exponent,
    map_ptr, maps, leaf_ptr, leaf_code, off, val, exponent, use_max,
):  # fmt: skip
    """``upward`` with extended range: val · SCALE^exponent. ``use_max`` turns sums into maxima."""
    for n in range(len(kind)):
        out = val[off[n] : off[n + 1]]
        scale = exponent[off[n] : off[n + 1]]
        m = len(out)
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
                _scaled_product(
                    out, scale, val[off[c] : off[c + 1]], exponent[off[c] : off[c + 1]],
                    maps[i : i + m],
                )  # fmt: skip
        else:
            for u in range(m):
                out[u] = 0.0
                scale[u] = ZERO_EXPONENT
            for e in range(child_ptr[n], child_ptr[n + 1]):
                c = child[e]
                p = edge_parameter[e]
                _scaled_add(
                    out, scale, theta[p], theta_exponent[p],
                    val[off[c] : off[c + 1]], exponent[off[c] : off[c + 1]], use_max,
                )  # fmt: skip


@kernel
def _share(weight, weight_exponent, x, x_exponent, total, total_exponent):
    """(weight · x) / total of scaled numbers, as an ordinary number; a share lies in [0, 1]."""
    if total == 0.0 or x == 0.0 or weight == 0.0:
        return 0.0
    d = weight_exponent + x_exponent - total_exponent
    ratio = weight * x / total
    if d == 0:
        return ratio
    if d == 1:
        return ratio * SCALE
    if d == -1:
        return ratio * UNSCALE
    return 0.0


@kernel
def downward_scaled(
    kind, child_ptr, child, edge_parameter, edge_link, theta, theta_exponent,
    map_ptr, maps, off, val, exponent, flow, edge_flow,
):  # fmt: skip
    """``downward`` on the values of ``upward_scaled``; flows themselves need no scaling."""
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
                f = flow[o + u] * _share(
                    theta[p], theta_exponent[p], val[c + u], exponent[c + u],
                    val[o + u], exponent[o + u],
                )  # fmt: skip
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


@kernel
def _uniform(state):
    """Next state and a number in [0, 1): splitmix64, one stream per row."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) * 2.0**-53


@kernel
def trace(
    kind, variable, value, child_ptr, child, edge_parameter, edge_link, theta, theta_exponent,
    map_ptr, maps, off, val, exponent, root_ids, seeds, draw, out,
):  # fmt: skip
    """Walk each row from the root to its leaves and write the values of the leaves.

    A sum goes to one child: drawn by its share where ``draw``, else the first
    with the largest share (after an upward pass with maxima: the MPE).
    """
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
                    p = edge_parameter[e]
                    share = _share(
                        theta[p], theta_exponent[p], val[off[c] + u], exponent[off[c] + u],
                        val[off[n] + u], exponent[off[n] + u],
                    )  # fmt: skip
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
