"""Compiled kernels of the active path: lists of induced trees. Arrays in, arrays out.

The value of a circuit at a row is the sum over the induced trees consistent
with the row of the product of the parameters on the tree. Rows with few trees
keep these as lists of parameter numbers. Lists repeat each other from both
ends: lower parts that many trees share become *pieces*, and what is left goes
into a *prefix tree*, in which lists that begin alike share their beginning.
"""

from __future__ import annotations

import numpy as np

from fairpc.circuit._kernels import LOG_SCALE, SCALE, UNSCALE, ZERO_EXPONENT
from fairpc.data.jit import kernel


@kernel
def _list_tree(
    kind, child_ptr, child, edge_parameter, edge_link, map_ptr, maps, off, count, uses, least,
    n, u, rank, n_parameters, entries, end, piece_of, piece_node, piece_at, n_pieces,
    stack_node, stack_at, stack_rank,
):  # fmt: skip
    """Append the entries of one tree below (n, u).

    Parts in at least ``least`` trees become pieces: they are queued, not entered.
    With ``least`` zero the whole tree is entered, and ``uses`` counts its parts.
    """
    stack_node[0] = n
    stack_at[0] = u
    stack_rank[0] = rank
    depth = 1
    while depth > 0:
        depth -= 1
        n = stack_node[depth]
        u = stack_at[depth]
        k = stack_rank[depth]
        for e in range(child_ptr[n], child_ptr[n + 1]):
            c = child[e]
            below = u if kind[n] == 2 else np.int64(maps[map_ptr[edge_link[e]] + u])
            trees = np.int64(count[off[c] + below])
            if kind[n] == 2:
                if k >= trees:
                    k -= trees
                    continue
                entries[end] = edge_parameter[e]
                end += 1
            at = off[c] + below
            if kind[c] == 2 and least == 0:
                uses[at] += 1
            if kind[c] == 2 and trees == 1 and least > 0 and uses[at] >= least:
                if piece_of[at] < 0:
                    piece_of[at] = n_pieces
                    piece_node[n_pieces] = c
                    piece_at[n_pieces] = below
                    n_pieces += 1
                entries[end] = n_parameters + piece_of[at]
                end += 1
            elif kind[c] != 0:
                stack_node[depth] = c
                stack_at[depth] = below
                stack_rank[depth] = k if kind[n] == 2 else k % trees
                depth += 1
            if kind[n] == 2:
                break
            k //= trees
    return end, n_pieces


@kernel
def _has_sums_below(kind, child_ptr, child, n):
    """Whether a tree below the sum node n can have more than its first edge."""
    for e in range(child_ptr[n], child_ptr[n + 1]):
        c = child[e]
        if kind[c] == 2:
            return True
        for k in range(child_ptr[c], child_ptr[c + 1]):
            if kind[child[k]] != 0:
                return True
    return False


@kernel
def _forget_short_parts(kind, child_ptr, child, off, uses):
    """A single entry is no shorter as a piece."""
    for n in range(len(kind)):
        if kind[n] == 2 and not _has_sums_below(kind, child_ptr, child, n):
            for at in range(off[n], off[n + 1]):
                uses[at] = 0


@kernel
def list_trees(
    kind, child_ptr, child, edge_parameter, edge_link, map_ptr, maps, off, count,
    root_ids, chosen, longest, n_parameters, piece_of, uses,
):  # fmt: skip
    """The parameters on each induced tree of the chosen rows, one list per tree.

    An induced tree takes one child at every sum and all children at products;
    ``count`` holds how many of them are consistent with a projection (an upward
    pass with all parameters one). The k-th tree is read off k itself: at a sum k
    falls into the range of one child, at a product it splits as mixed radix.

    A part that several trees have in common is listed once, as a *piece*, after
    the trees; entry ``n_parameters + i`` stands for piece i. Returns the entries,
    the end of each list, and the node of each piece. ``piece_of`` comes filled
    with -1, ``uses`` with zeros.
    """
    root = np.int64(len(kind) - 1)
    stack_node = np.empty(len(kind) + 1, np.int64)
    stack_at = np.empty(len(kind) + 1, np.int64)
    stack_rank = np.empty(len(kind) + 1, np.int64)
    entries = np.empty(longest, np.int32)
    ends = np.empty(0, np.int64)
    piece_node = np.empty(0, np.int32)
    piece_at = np.empty(0, np.int32)
    for listing in range(2):
        # A first round counts how often each part is used, a second one lists.
        total = np.int64(0)
        n_lists = np.int64(0)
        n_pieces = np.int64(0)
        job = 0
        while job < len(chosen) + n_pieces:
            if job < len(chosen):
                n, u = root, np.int64(root_ids[chosen[job]])
                trees = np.int64(count[off[root] + u])
                least = np.int64(3)
            else:
                n = np.int64(piece_node[job - len(chosen)])
                u = np.int64(piece_at[job - len(chosen)])
                trees = np.int64(1)
                least = np.int64(2) * uses[off[n] + u]
            job += 1
            for rank in range(trees):
                end, n_pieces = _list_tree(
                    kind, child_ptr, child, edge_parameter, edge_link, map_ptr, maps, off,
                    count, uses, least * listing, n, u, rank, n_parameters, entries,
                    total * listing, piece_of, piece_node, piece_at, n_pieces,
                    stack_node, stack_at, stack_rank,
                )  # fmt: skip
                total = end if listing else total + end
                if listing:
                    ends[n_lists] = end
                n_lists += 1
        if not listing:
            # Each piece takes the place of one of its uses, and adds at most the entry
            # that stands for it; and there are no more pieces than sum edges visited.
            entries = np.empty(2 * total + longest, np.int32)
            ends = np.empty(n_lists + total, np.int64)
            piece_node = np.empty(total, np.int32)
            piece_at = np.empty(total, np.int32)
            _forget_short_parts(kind, child_ptr, child, off, uses)
    return entries[:total], ends[:n_lists], piece_node[:n_pieces]


@kernel
def active_flows(
    theta, weights, row_ptr, leaf, parent, entry, piece_ptr, piece_entry, known, flow, value, passed
):
    """Expected flows of rows over their trees; returns Σ w · log P(row) and the smallest P(row).

    P(row) is the sum over its trees of the product of the parameters on them, and
    a tree carries its share of the row's weight. Node j of the prefix tree stands
    for the product of ``entry[j]`` and of its ancestors' entries; tree t ends at
    node ``leaf[t]``. ``known`` and ``flow`` have room for parameters and pieces,
    ``value`` and ``passed`` for the prefix tree. The smallest P(row) tells
    whether digits were lost.
    """
    n_parameters = len(theta)
    n_pieces = len(piece_ptr) - 1
    for p in range(n_parameters):
        known[p] = theta[p]
        flow[p] = 0.0
    for i in range(n_pieces):
        v = 1.0
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            v *= known[piece_entry[k]]
        known[n_parameters + i] = v
        flow[n_parameters + i] = 0.0
    for j in range(len(parent)):
        up = parent[j]
        value[j] = known[entry[j]] * (value[up] if up >= 0 else 1.0)
        passed[j] = 0.0
    log_likelihood = 0.0
    least = np.inf
    for r in range(len(weights)):
        w = weights[r]
        if w == 0.0:
            continue
        total = 0.0
        for t in range(row_ptr[r], row_ptr[r + 1]):
            total += value[leaf[t]]
        least = min(least, total)
        log_likelihood += w * np.log(total)
        rate = w / total
        for t in range(row_ptr[r], row_ptr[r + 1]):
            passed[leaf[t]] += rate * value[leaf[t]]
    for j in range(len(parent) - 1, -1, -1):
        f = passed[j]
        flow[entry[j]] += f
        if parent[j] >= 0:
            passed[parent[j]] += f
    for i in range(n_pieces - 1, -1, -1):
        f = flow[n_parameters + i]
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            flow[piece_entry[k]] += f
    return log_likelihood, least


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
def active_flows_scaled(
    mantissa, exponent, weights, row_ptr, leaf, parent, entry, piece_ptr, piece_entry, flow
):
    """``active_flows`` with extended range: mantissa · SCALE^exponent, room for pieces included.

    A row of probability zero adds -inf to the log-likelihood and nothing to the flows.
    """
    n_pieces = len(piece_ptr) - 1
    n_parameters = len(mantissa) - n_pieces
    for i in range(n_pieces):
        v, e = 1.0, np.int64(0)
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            v, e = _scaled_times(v, e, mantissa[piece_entry[k]], exponent[piece_entry[k]])
        mantissa[n_parameters + i] = v
        exponent[n_parameters + i] = e
    value = np.empty(len(parent))
    scale = np.empty(len(parent), np.int64)
    passed = np.zeros(len(parent))
    for j in range(len(parent)):
        v, e = 1.0, np.int64(0)
        if parent[j] >= 0:
            v, e = value[parent[j]], scale[parent[j]]
        value[j], scale[j] = _scaled_times(v, e, mantissa[entry[j]], exponent[entry[j]])
    log_likelihood = 0.0
    for r in range(len(weights)):
        if weights[r] == 0.0:
            continue
        highest = np.int64(ZERO_EXPONENT)
        for t in range(row_ptr[r], row_ptr[r + 1]):
            highest = max(highest, scale[leaf[t]])
        total = 0.0
        for t in range(row_ptr[r], row_ptr[r + 1]):
            total += _relative(value[leaf[t]], scale[leaf[t]] - highest)
        if total == 0.0:
            log_likelihood = -np.inf
            continue
        log_likelihood += weights[r] * (np.log(total) + highest * LOG_SCALE)
        for t in range(row_ptr[r], row_ptr[r + 1]):
            share = _relative(value[leaf[t]], scale[leaf[t]] - highest) / total
            passed[leaf[t]] += weights[r] * share
    for k in range(len(flow)):
        flow[k] = 0.0
    for j in range(len(parent) - 1, -1, -1):
        flow[entry[j]] += passed[j]
        if parent[j] >= 0:
            passed[parent[j]] += passed[j]
    for i in range(n_pieces - 1, -1, -1):
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            flow[piece_entry[k]] += flow[n_parameters + i]
    return log_likelihood


@kernel
def _relative(v, steps):
    """v · SCALE^steps for steps ≤ 0; what is two steps below is nothing beside the rest."""
    if steps == 0:
        return v
    return v * UNSCALE if steps == -1 else 0.0


@kernel
def active_flows_batch(
    weights, row_ptr, leaf, parent, entry, piece_ptr, piece_entry,
    known, flow, log_likelihood, least,
):  # fmt: skip
    """``active_flows`` for B parameter sets at once: weights (rows, B), known and flow (P + , B).

    ``known`` comes with the parameters in its first rows; ``least`` with infinities.
    """
    n_pieces = len(piece_ptr) - 1
    n_parameters = len(known) - n_pieces
    n_sets = known.shape[1]
    value = np.empty((len(parent), n_sets))
    passed = np.empty((len(parent), n_sets))
    total = np.empty(n_sets)
    for k in range(len(flow)):
        for b in range(n_sets):
            flow[k, b] = 0.0
    for i in range(n_pieces):
        for b in range(n_sets):
            known[n_parameters + i, b] = 1.0
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            for b in range(n_sets):
                known[n_parameters + i, b] *= known[piece_entry[k], b]
    for j in range(len(parent)):
        up = parent[j]
        for b in range(n_sets):
            value[j, b] = known[entry[j], b] * (value[up, b] if up >= 0 else 1.0)
            passed[j, b] = 0.0
    for r in range(len(weights)):
        for b in range(n_sets):
            total[b] = 0.0
        for t in range(row_ptr[r], row_ptr[r + 1]):
            for b in range(n_sets):
                total[b] += value[leaf[t], b]
        for b in range(n_sets):
            w = weights[r, b]
            if w > 0.0:
                least[b] = min(least[b], total[b])
                log_likelihood[b] += w * np.log(total[b])
                total[b] = w / total[b]
            else:
                total[b] = 0.0
        for t in range(row_ptr[r], row_ptr[r + 1]):
            for b in range(n_sets):
                passed[leaf[t], b] += total[b] * value[leaf[t], b]
    for j in range(len(parent) - 1, -1, -1):
        for b in range(n_sets):
            flow[entry[j], b] += passed[j, b]
        if parent[j] >= 0:
            for b in range(n_sets):
                passed[parent[j], b] += passed[j, b]
    for i in range(n_pieces - 1, -1, -1):
        for k in range(piece_ptr[i], piece_ptr[i + 1]):
            for b in range(n_sets):
                flow[piece_entry[k], b] += flow[n_parameters + i, b]
