# mypy: ignore-errors
"""Kernels of boosted trees, of the corrected loss that they lower, and of saved trees.

Inputs are checked by the callers in ``_boosting``, ``_linear`` and ``_saved``. A *place* is one
value of one column; places of all columns are numbered one after the other, and each column has one
more for what is missing. A *combination* is the places that a row has in neighbouring columns. A
tree is a list of divisions: one moves the rows of a leaf whose place does not stay into a new leaf.
Saved trees have nodes in preorder.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import (
    add_four,
    kernel,
    strict_inner_kernel,
    strict_kernel,
)

BLOCK = 256  # rows that stay near the processor while a tree is asked
MOST_ODDS = 1e250  # odds stay finite, and so do their sums
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # its product with a bit has the bit's number on top


@strict_inner_kernel
def _add_up(listed, head, parts, order, first, last, gradient, hessian, leaf, joint, sums, of):
    """Derivatives and numbers of the rows of a leaf, by place; the last sums are of all rows.

    Rows are added to the combinations that they have, and these to their places; a sum is four
    numbers, of which three are used. ``of`` is the
    first place that is summed: the last sums alone will do for what is not divided.
    """
    own, every = sums[leaf], sums.shape[1] - 1
    for p in range(of, every + 1):
        for k in range(4):
            own[p, k] = 0.0
    for c in range(len(joint) if of == 0 else 0):
        for k in range(4):
            joint[c, k] = 0.0
    for i in range(first, last):
        r = order[np.uint32(i)]
        g, h = gradient[r], hessian[r]
        add_four(own, every, g, h, 1.0, 0.0)
        for b in range(listed.shape[1] if of == 0 else 0):
            add_four(joint, listed[r, b], g, h, 1.0, 0.0)
    for c in range(len(joint) if of == 0 else 0):
        for e in range(head[c], head[np.uint32(c + 1)] if joint[c, 2] > 0.0 else head[c]):
            add_four(own, parts[e], joint[c, 0], joint[c, 1], joint[c, 2], 0.0)


@strict_inner_kernel
def _ranked(own, begin, end, shrinking, rank, ratio):
    """The places of a column without an order that rows of a leaf have, in that of what they would
    say, into ``rank``; what is missing is one of them. Returns where they end."""
    last = begin
    for p in range(begin, end):
        if own[p, 2] <= 0.0:
            continue
        e, key = last, own[p, 0] / (own[p, 1] + shrinking)
        while e > begin and ratio[e - 1] > key:
            ratio[e] = ratio[e - 1]
            rank[e] = rank[e - 1]
            e -= 1
        ratio[e] = key
        rank[e] = p
        last += 1
    return last


@strict_inner_kernel
def _best_division(own, start, named, drawn, least, least_h, shrinking, keeps, rank, at, tried):
    """The column that divides a leaf best, or -1, and what is gained; ``keeps`` has the places."""
    every = len(own) - 1
    g, h, n = own[every, 0], own[every, 1], own[every, 2]
    first_g, first_h, first_n, gain = tried[0], tried[1], tried[2], tried[3]
    luckiest = 0
    for j in range(1, len(named)):
        if drawn[j] < drawn[luckiest]:
            luckiest = j
    n_tried = 0
    for j in range(len(named)):
        if n < 2 * least or (drawn[j] >= 0.5 and j != luckiest):
            continue
        begin, end, hole = start[j], start[j + 1] - 1, start[j + 1] - 1
        is_named = named[j]
        if is_named:
            end = _ranked(own, begin, end + 1, shrinking, rank, gain)
        # What is missing goes to the new leaf, then it stays.
        for way in range(2 if not is_named and own[hole, 2] > 0.0 else 1):
            a, b, c = 0.0, 0.0, 0.0
            if way == 1:
                a, b, c = own[hole, 0], own[hole, 1], own[hole, 2]
            for e in range(begin, end):
                p = rank[np.uint32(e)] if is_named else np.uint32(e)
                # Sums of nobody may be rounding of a subtraction.
                here = own[p, 2] > 0.0
                g_here, h_here = own[p, 0], own[p, 1]
                a += g_here if here else 0.0
                b += h_here if here else 0.0
                c += own[p, 2]
                if n - c < least or h - b < least_h:
                    break
                i = np.uint32(n_tried)
                first_g[i], first_h[i], first_n[i], at[i] = a, b, c, 2 * e + way
                n_tried += np.int64(here & (c >= least) & (b >= least_h))
    whole = g * g / (h + shrinking)
    for i in range(n_tried):
        # One fraction: dividing takes longer than all else here.
        a, stay, go = first_g[i], first_h[i] + shrinking, h - first_h[i] + shrinking
        gain[i] = (a * a * go + (g - a) * (g - a) * stay) / (stay * go) - whole
    best, best_i = 0.0, -1
    for i in range(n_tried):
        if gain[i] > best:
            best, best_i = gain[i], i
    if best_i < 0:
        return -1, best
    last, way, c, j = at[best_i] // 2, at[best_i] % 2, first_n[best_i], 0
    while start[j + 1] <= last:
        j += 1
    begin, hole = start[j], start[j + 1] - 1
    # Of places that no row has here, those in an order follow it, others the larger part.
    for p in range(begin, hole + 1):
        keeps[p] = own[p, 2] <= 0.0 and 2 * c >= n
    everyone = c + own[hole, 2] == n and way == 0
    for p in range(begin, begin if named[j] else hole):
        keeps[p] = p <= last or everyone
    for e in range(begin, last + 1 if named[j] else begin):
        keeps[rank[e]] = True
    if way == 1:
        keeps[hole] = True
    return j, best


@strict_inner_kernel
def _divide(x, order, aside, first, last, leaf, j, keeps):
    """Rows of a leaf, those that stay first; returns where the others begin."""
    column, kept = x[j], keeps[leaf]
    n_kept, n_gone = first, 0
    # Each row is written to both, without a branch: guessing wrongly takes longer.
    for i in range(first, last):
        r = order[np.uint32(i)]
        stays = np.int64(kept[column[r]])
        order[np.uint32(n_kept)] = r
        aside[np.uint32(n_gone)] = r
        n_kept += stays
        n_gone += 1 - stays
    for i in range(n_gone):
        order[n_kept + i] = aside[i]
    return n_kept


@strict_kernel
def grow(cells, rows, gradient, hessian, drawn, limits, work, divided, stays, values, odds):
    """One tree, from the leaf whose division gains most to the next.

    Args:
        cells: those of ``Cells``, in its order.
        rows: those that the tree is grown on.
        gradient, hessian: of each row.
        drawn: numbers below one half say which columns a leaf may be divided by, leaves × columns.
        limits: those of ``TreeLimits``.
        work: arrays to work in: two of rows; sums, combinations × 4 and leaves × places and one ×
            4; what a leaf would keep, leaves × places; one of places; two of twice as many, the
            last × 4; bounds of leaves and their best column, leaves × 3; gains of leaves.
        divided, stays, values: of ``Divisions``, written here.
        odds: of all rows; the exponential of the tree's step multiplies those that it is grown on.
    """
    x, start, named, listed, head, parts = cells
    order, aside, joint, sums, keeps, rank, at, tried, leaves, gains = work
    least, least_h, shrinking, rate = limits
    every, n_leaves = sums.shape[1] - 1, len(values)
    for i in range(len(rows)):
        order[i] = rows[i]
    leaves[0, 0], leaves[0, 1] = 0, len(rows)
    small, large, n = 0, -1, 0
    # Each helper is called in one place: code that is inlined twice is compiled twice.
    while True:
        # The smaller part is summed, the other is what it leaves.
        n += 1
        of = every if n == n_leaves else 0
        first, last = leaves[small, 0], leaves[small, 1]
        given = order, first, last, gradient, hessian, small, joint, sums, of
        _add_up(listed, head, parts, *given)
        if large >= 0:
            for p in range(of, every + 1):
                g, h, rows_there = sums[small, p, 0], sums[small, p, 1], sums[small, p, 2]
                add_four(sums[large], p, -g, -h, -rows_there, 0.0)
        if n == n_leaves:
            break
        for part in (small, large):
            if part >= 0:
                given = drawn[part], least, least_h, shrinking, keeps[part], rank, at, tried
                found = _best_division(sums[part], start, named, *given)
                leaves[part, 2], gains[part] = found
        leaf = 0
        for k in range(1, n):
            if gains[k] > gains[leaf]:
                leaf = k
        j = leaves[leaf, 2]
        if j < 0:
            break
        divided[n - 1, 0], divided[n - 1, 1] = leaf, j
        for p in range(start[j], start[j + 1]):
            stays[n - 1, p] = keeps[leaf, p]
        first, last = leaves[leaf, 0], leaves[leaf, 1]
        middle = _divide(x, order, aside, first, last, leaf, j, keeps)
        leaves[n, 0], leaves[n, 1], leaves[leaf, 1] = middle, last, middle
        small, large = n, leaf
        if last - middle > middle - first:
            small, large = leaf, n
            for p in range(every + 1):
                for k in range(4):
                    sums[n, p, k] = sums[leaf, p, k]
    for leaf in range(n_leaves):
        values[leaf] = 0.0
        if leaf < n:
            values[leaf] = rate * sums[leaf, every, 0] / (sums[leaf, every, 1] + shrinking)
            # Once for a leaf: logs of odds would need an exponential for each row.
            step = np.exp(values[leaf])
            for i in range(leaves[leaf, 0], leaves[leaf, 1]):
                r = order[np.uint32(i)]
                odds[r] = min(max(odds[r] * step, 1.0 / MOST_ODDS), MOST_ODDS)
    for k in range(n - 1, n_leaves - 1):
        divided[k, 0] = -1


@kernel
def add_trees(x, start, divided, stays, values, odds):
    """Add what trees (``Divisions``) of at most 64 leaves say of the places ``x`` of rows.

    A leaf is a bit. Each place of a divided column excludes the leaves on the other side, and all
    columns together leave one (Lucchese et al., SIGIR 2015).
    """
    n_trees, n_divisions = divided.shape[:2]
    n_rows = len(odds)
    allowed = np.empty(start[-1], np.uint64)
    below = np.empty(n_divisions + 1, np.uint64)
    of_leaf = np.empty(64)
    asked = np.empty(n_divisions, np.int64)
    left = np.empty(BLOCK, np.uint64)
    for t in range(n_trees):
        for k in range(n_divisions + 1):
            below[k] = np.uint64(1) << np.uint64(k)
            of_leaf[below[k] * DE_BRUIJN >> np.uint64(58)] = values[t, k]
        n_asked = 0
        for k in range(n_divisions - 1, -1, -1):
            leaf, j = divided[t, k]
            if leaf < 0:
                continue
            is_new = True
            for c in range(n_asked):
                is_new = is_new and asked[c] != j
            if is_new:
                asked[n_asked] = j
                n_asked += 1
            for p in range(start[j], start[j + 1]):
                others = below[k + 1] if stays[t, k, p] else below[leaf]
                allowed[p] = ~others & (~np.uint64(0) if is_new else allowed[p])
            below[leaf] |= below[k + 1]
        for first in range(0, n_rows, BLOCK):
            n_block = min(BLOCK, n_rows - first)
            for i in range(n_block):
                left[i] = below[0]
            for c in range(n_asked):
                column = x[asked[c]]
                for i in range(n_block):
                    left[i] &= allowed[column[np.uint32(first + i)]]
            for i in range(n_block):
                odds[first + i] += of_leaf[left[i] * DE_BRUIJN >> np.uint64(58)]


@kernel
def count_gradients(rows, odds, hits, total, gradient, hessian):
    """Derivatives of the log-likelihood of counts by the log odds of some rows.

    Args:
        rows: those that are looked at.
        odds: of class 1 against class 0, of each row.
        hits, total: counts of class 1, and of both.
        gradient, hessian: what is found, of each row.
    """
    for i in range(len(rows)):
        r = rows[i]
        q = odds[r] / (1.0 + odds[r])
        gradient[r] = hits[r] - total[r] * q
        hessian[r] = total[r] * q * (1.0 - q)


@kernel
def corrected_gradients(odds, d, w, kind, mechanism, gradient, hessian):
    """First derivative and expected curvature of log Σ_f q_f P(d | f) by each row's log odds.

    Args:
        odds: of Df, class 1 against class 0, of each row.
        d, w: label and weight of each row.
        kind: which mechanism altered the label of each row.
        mechanism: P(D = d | Df = f), kinds × 2 × 2.
        gradient, hessian: what is found, of each row.
    """
    for r in range(len(odds)):
        of = mechanism[kind[r]]
        p = odds[r] / (1.0 + odds[r])
        apart = of[1, 1] - of[0, 1]
        one = max(of[0, 1] + p * apart, 1e-12)
        none = max(1.0 - one, 1e-12)
        # One fraction: dividing takes longer than all else here.
        step = p * (1.0 - p) * apart
        scaled = w[r] * step / (one * none)
        gradient[r] = scaled * (none if d[r] == 1 else -one)
        hessian[r] = scaled * step


@kernel
def corrected_loss(odds, d, w, kind, mechanism):
    """−Σ w log Σ_f q_f P(d | f); arguments as of ``corrected_gradients``."""
    loss = 0.0
    for r in range(len(odds)):
        q = odds[r] / (1.0 + odds[r])
        of = mechanism[kind[r]]
        loss -= w[r] * np.log(max((1.0 - q) * of[0, d[r]] + q * of[1, d[r]], 1e-12))
    return loss


@kernel
def leaf_sums(x, start, feature, right, number, hole, level_set, goes_left, out):
    """Add the values of the leaves that each row is in, one of each tree, to ``out``.

    ``x`` is a matrix with NaN for what is missing; what follows are parts of ``SavedTrees``.
    """
    n_rows = len(x)
    named = len(goes_left) > 0
    node = np.empty(BLOCK, np.uint32)
    inside = np.empty(BLOCK, np.uint32)
    for first in range(0, n_rows, BLOCK):
        n_block = min(BLOCK, n_rows - first)
        for t in range(len(start) - 1):
            root = start[t]
            n_inside = n_block if feature[root] >= 0 else 0
            for r in range(n_block):
                node[r] = root
                inside[r] = r
            # All rows take one step, and those in a leaf drop out: few branches have to be
            # guessed, and the steps of several rows are under way at once.
            while n_inside > 0:
                kept = 0
                for k in range(n_inside):
                    r = inside[k]
                    i = node[r]
                    v = x[first + r, np.uint32(feature[i])]
                    if named and level_set[i] >= 0 and v == v:
                        left = np.uint32(goes_left[np.uint32(level_set[i]), np.uint32(v)])
                    else:
                        left = np.uint32((v <= number[i]) | ((v != v) & (hole[i] != 0)))
                    # i + 1 or right[i], without a branch; differences wrap around and back.
                    i = np.uint32(right[i] + left * np.uint32(i + 1 - right[i]))
                    node[r] = i
                    inside[kept] = r
                    kept += np.int64(feature[i] >= 0)
                n_inside = kept
            for r in range(n_block):
                out[first + r] += number[node[r]]
