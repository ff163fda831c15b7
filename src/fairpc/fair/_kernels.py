"""Kernels of forests: the density of rows by the boxes that hold them.

Inputs are checked by the callers in ``forest``. A row has a word of bits for every 64
boxes, those that its known values allow; words of all features are joined by AND.
"""

from __future__ import annotations

import numpy as np

from fairpc.data.jit import kernel

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_SHIFT = np.uint64(58)
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_TABLE = np.zeros(64, np.int64)
for _i in range(64):
    _TABLE[(((1 << _i) * 0x03F79D71B4CB0A89) % (1 << 64)) >> 58] = _i


@kernel
def box_densities(x, s, start, bits, log_value, log_share, mass, weight, out):
    """log P(x | f, s) of each row into ``out``, rows × classes; what is missing is summed out.

    Args:
        x, s: codes of the features, -1 = missing, features × rows; group of each row.
        start: where the values of each feature start.
        bits: words of the boxes that allow each value, values × words; the last are all boxes.
        log_value: log P(x_j = v | c, f, s), groups × classes × clusters × values.
        log_share: log P(c | f, s), groups × classes × clusters.
        mass: P(x_j in the box | c, f, s), groups × classes × boxes × features × clusters.
        weight: P(box | f, s) ÷ P(x in the box | f, s), groups × boxes × classes.
    """
    n_features, n_rows = x.shape
    n_words, n_clusters = bits.shape[1], log_share.shape[2]
    n_classes = out.shape[1]
    word = np.empty(n_words, np.uint64)
    value = np.empty((n_classes, n_clusters))
    every = np.empty(n_classes)
    top = np.empty(n_classes)
    missing = np.empty(n_features, np.int64)
    total = np.empty(n_classes)
    for r in range(n_rows):
        g = s[r]
        n_missing = 0
        for w in range(n_words):
            word[w] = bits[-1, w]
        for f in range(n_classes):
            total[f] = 0.0
            for c in range(n_clusters):
                value[f, c] = log_share[g, f, c]
        for j in range(n_features):
            v = x[j, r]
            if v < 0:
                missing[n_missing] = j
                n_missing += 1
                continue
            at = start[j] + v
            for w in range(n_words):
                word[w] &= bits[at, w]
            for f in range(n_classes):
                for c in range(n_clusters):
                    value[f, c] += log_value[g, f, c, at]
        for f in range(n_classes):
            top[f] = value[f, 0]
            for c in range(1, n_clusters):
                top[f] = max(top[f], value[f, c])
            every[f] = 0.0
            for c in range(n_clusters):
                # A row that is impossible in all clusters has no value in any.
                value[f, c] = np.exp(value[f, c] - top[f]) if top[f] > -np.inf else 0.0
                every[f] += value[f, c]
        for w in range(n_words):
            left = word[w]
            while left != _NONE:
                low = left & (~left + _ONE)
                left ^= low
                i = 64 * w + _TABLE[(low * _DE_BRUIJN) >> _SHIFT]
                for f in range(n_classes):
                    density = every[f]
                    if n_missing > 0:
                        density = 0.0
                        for c in range(n_clusters):
                            share = value[f, c]
                            for m in range(n_missing):
                                share *= mass[g, f, i, missing[m], c]
                            density += share
                    total[f] += weight[g, i, f] * density
        for f in range(n_classes):
            out[r, f] = top[f] + np.log(total[f])
