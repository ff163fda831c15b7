# mypy: ignore-errors
"""Kernels of boosted trees: derivatives of the corrected loss, and trees grown from histograms.

Inputs are checked by the callers in ``learners``. A *place* is one value of one column; places of
all columns are numbered one after the other, and each column has one more for what is missing. A
tree is a list of divisions: one moves the rows of a leaf whose place does not stay into a new leaf.
"""

from __future__ import annotations

import numpy as np

from fairpc.data.jit import inner_kernel, kernel, strict_inner_kernel, strict_kernel


@inner_kernel
def _shares(odds, r, q):
    """P(f) of a row of its log odds, by class, into ``q``."""
    top, total = odds[0, r], 0.0
    for f in range(1, len(q)):
        top = max(top, odds[f, r])
    for f in range(len(q)):
        q[f] = np.exp(odds[f, r] - top)
        total += q[f]
    for f in range(len(q)):
        q[f] /= total


@kernel
def corrected_slopes(odds, d, w, kind, mechanism, slope, bend):
    """First derivative and expected curvature of log Σ_f q_f P(d | f) by the odds of each row.

    Args:
        odds: log odds of Df, trees × rows: of class 1 against class 0, or of each of more classes.
        d, w: label and weight of each row.
        kind: which mechanism bent the label of each row.
        mechanism: P(D = d | Df = f), kinds × classes × classes.
        slope, bend: what is found, trees × rows.
    """
    n_trees, n_rows = odds.shape
    n_classes = mechanism.shape[1]
    q = np.empty(n_classes)
    told = np.empty(n_classes)
    for r in range(n_rows):
        of = mechanism[kind[r]]
        if n_trees == 1:
            p = 1.0 / (1.0 + np.exp(-odds[0, r]))
            one = max(of[0, 1] + p * (of[1, 1] - of[0, 1]), 1e-12)
            none = max(1.0 - one, 1e-12)
            step = p * (1.0 - p) * (of[1, 1] - of[0, 1])
            slope[0, r] = w[r] * step * (1.0 / one if d[r] == 1 else -1.0 / none)
            bend[0, r] = w[r] * step * step / (one * none)
            continue
        _shares(odds, r, q)
        for k in range(n_classes):
            told[k] = 0.0
            for f in range(n_classes):
                told[k] += q[f] * of[f, k]
            told[k] = max(told[k], 1e-12)
        for f in range(n_classes):
            curved = 0.0
            for k in range(n_classes):
                apart = of[f, k] - told[k]
                curved += apart * apart / told[k]
            bend[f, r] = w[r] * q[f] * q[f] * curved
            slope[f, r] = w[r] * q[f] * (of[f, d[r]] / told[d[r]] - 1.0)


@kernel
def corrected_loss(odds, d, w, kind, mechanism):
    """−Σ w log Σ_f q_f P(d | f); arguments as of ``corrected_slopes``."""
    n_trees, n_rows = odds.shape
    n_classes = mechanism.shape[1]
    q = np.empty(n_classes)
    loss = 0.0
    for r in range(n_rows):
        if n_trees == 1:
            q[1] = 1.0 / (1.0 + np.exp(-odds[0, r]))
            q[0] = 1.0 - q[1]
        else:
            _shares(odds, r, q)
        told = 0.0
        for f in range(n_classes):
            told += q[f] * mechanism[kind[r], f, d[r]]
        loss -= w[r] * np.log(max(told, 1e-12))
    return loss


@strict_inner_kernel
def _add_up(x, order, first, last, slope, bend, leaf, sums):
    """Derivatives and numbers of the rows of a leaf, by place; the last sums are of all rows."""
    n_columns, every = x.shape[1], sums.shape[1] - 1
    for p in range(every + 1):
        for k in range(3):
            sums[leaf, p, k] = 0.0
    for i in range(first, last):
        r = order[i]
        g, h = slope[r], bend[r]
        sums[leaf, every, 0] += g
        sums[leaf, every, 1] += h
        for j in range(n_columns):
            p = x[r, j]
            sums[leaf, p, 0] += g
            sums[leaf, p, 1] += h
            sums[leaf, p, 2] += 1.0
    sums[leaf, every, 2] = last - first


@strict_inner_kernel
def _ranked(sums, leaf, begin, end, named, shrinking, rank, ratio):
    """The places of a column that rows of a leaf have, into ``rank``; returns how many.

    What is missing has no place in an order. Where there is none, places are in that of what they
    would say, and what is missing is one of them.
    """
    m = 0
    for p in range(begin, end if named else end - 1):
        if sums[leaf, p, 2] <= 0.0:
            continue
        e, key = m, 0.0
        if named:
            key = sums[leaf, p, 0] / (sums[leaf, p, 1] + shrinking)
            while e > 0 and ratio[e - 1] > key:
                ratio[e] = ratio[e - 1]
                rank[e] = rank[e - 1]
                e -= 1
        ratio[e] = key
        rank[e] = p
        m += 1
    return m


@strict_inner_kernel
def _best_division(sums, leaf, start, named, drawn, least, shrinking, keeps, rank, ratio):
    """The column that divides a leaf best, or -1, and what is gained; ``keeps`` has the places."""
    every = sums.shape[1] - 1
    g, h, n = sums[leaf, every, 0], sums[leaf, every, 1], sums[leaf, every, 2]
    best, column = 0.0, -1
    whole = g * g / (h + shrinking)
    luckiest = 0
    for j in range(1, len(named)):
        if drawn[leaf, j] < drawn[leaf, luckiest]:
            luckiest = j
    for j in range(len(named)):
        if n < 2 * least or (drawn[leaf, j] >= 0.5 and j != luckiest):
            continue
        begin, end = start[j], start[j + 1]
        m = _ranked(sums, leaf, begin, end, named[j], shrinking, rank, ratio)
        apart = not named[j] and sums[leaf, end - 1, 2] > 0.0
        # What is missing goes to the new leaf, then it stays.
        for way in range(2 if apart else 1):
            a, b, c = 0.0, 0.0, 0.0
            if way == 1:
                a, b, c = sums[leaf, end - 1, 0], sums[leaf, end - 1, 1], sums[leaf, end - 1, 2]
            for i in range(m if apart and way == 0 else m - 1):
                p = rank[i]
                a += sums[leaf, p, 0]
                b += sums[leaf, p, 1]
                c += sums[leaf, p, 2]
                if c < least:
                    continue
                if n - c < least:
                    break
                gain = a * a / (b + shrinking) - whole
                gain += (g - a) * (g - a) / (h - b + shrinking)
                if gain > best:
                    best, column = gain, j
                    for e in range(begin, end):
                        keeps[leaf, e] = False
                    for e in range(i + 1):
                        keeps[leaf, rank[e]] = True
                    if way == 1:
                        keeps[leaf, end - 1] = True
    return column, best


@strict_inner_kernel
def _divide(x, order, aside, first, last, leaf, j, keeps):
    """Rows of a leaf, those that stay first; returns where the others begin."""
    n_kept, n_gone = first, 0
    for i in range(first, last):
        r = order[i]
        if keeps[leaf, x[r, j]]:
            order[n_kept] = r
            n_kept += 1
        else:
            aside[n_gone] = r
            n_gone += 1
    for i in range(n_gone):
        order[n_kept + i] = aside[i]
    return n_kept


@strict_kernel
def grow(x, start, named, slope, bend, drawn, limits, work, divided, stays, values, at):
    """One tree, from the leaf whose division gains most to the next.

    Args:
        x: place of each value, rows × columns.
        start: first place of each column, and the number of places; a column's last is for what
            is missing.
        named: whether the places of a column have no order.
        slope, bend: derivatives of each row.
        drawn: numbers below one half say which columns a leaf may be divided by, leaves × columns.
        limits: fewest rows of a leaf, curvature that is added to a leaf's, share of a step.
        work: arrays to work in: two of rows; sums, leaves × places and one × 3; what a leaf would
            keep, leaves × places; two of places; bounds of leaves and their best column,
            leaves × 3; gains of leaves.
        divided: leaf and column of each division, written here, divisions × 2.
        stays: whether each place stays in its leaf, written here, divisions × places.
        values: step of each leaf, written here.
        at: leaf of each row, written here.
    """
    order, aside, sums, keeps, rank, ratio, leaves, gains = work
    least, shrinking, rate = limits
    every, n_leaves = sums.shape[1] - 1, len(values)
    for r in range(len(order)):
        order[r] = r
    leaves[0, 0], leaves[0, 1] = 0, len(order)
    small, large, n = 0, -1, 0
    # Each helper is called in one place: code that is inlined twice is compiled twice.
    while True:
        # The smaller part is summed, the other is what it leaves.
        _add_up(x, order, leaves[small, 0], leaves[small, 1], slope, bend, small, sums)
        if large >= 0:
            for p in range(every + 1):
                for k in range(3):
                    sums[large, p, k] -= sums[small, p, k]
        for part in (small, large):
            if part >= 0:
                leaves[part, 2], gains[part] = _best_division(
                    sums, part, start, named, drawn, least, shrinking, keeps, rank, ratio
                )
        n += 1
        leaf = 0
        for k in range(1, n):
            if gains[k] > gains[leaf]:
                leaf = k
        j = leaves[leaf, 2]
        if j < 0 or n == n_leaves:
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
                for k in range(3):
                    sums[n, p, k] = sums[leaf, p, k]
    for leaf in range(n_leaves):
        values[leaf] = 0.0
        if leaf < n:
            values[leaf] = rate * sums[leaf, every, 0] / (sums[leaf, every, 1] + shrinking)
            for i in range(leaves[leaf, 0], leaves[leaf, 1]):
                at[order[i]] = leaf
    for k in range(n - 1, n_leaves - 1):
        divided[k, 0] = -1


@kernel
def add_trees(x, divided, stays, values, odds):
    """Add what trees say of rows to their odds.

    Args:
        x: place of each value, rows × columns.
        divided: leaf and column of each division, trees × divisions × 2.
        stays: whether a place stays in its leaf, trees × divisions × places.
        values: step of each leaf, trees × leaves.
        odds: of each row.
    """
    n_trees, n_divisions = divided.shape[:2]
    for t in range(n_trees):
        for r in range(len(x)):
            leaf = 0
            for k in range(n_divisions):
                if divided[t, k, 0] == leaf and not stays[t, k, x[r, divided[t, k, 1]]]:
                    leaf = k + 1
            odds[r] += values[t, leaf]
