"""Kernels of forests: the density of rows by the boxes that hold them.

Inputs are checked by the callers in ``_forest``. A row has a word of bits for every 64
boxes, those that its known values allow; words of all features are joined by AND.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import kernel

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_SHIFT = np.uint64(58)
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_TABLE = np.zeros(64, np.int64)
for _i in range(64):
    _TABLE[(((1 << _i) * 0x03F79D71B4CB0A89) % (1 << 64)) >> 58] = _i


@kernel
def box_densities(x, s, start, bits, log_value, log_share, cuts, set_of, mass, weight, out):
    """log P(x | f, s) of each row into ``out``, rows × classes; what is missing is marginalised.

    A term is a class and a cluster; those of a class lie together. Boxes share most of their
    numbers, so those of a set of values are looked up, and stay in the cache.

    Args:
        x, s: codes of the features, -1 = missing, features × rows; group of each row.
        start: where the values of each feature start.
        bits: words of the boxes that allow each value, values × words; the last are all boxes.
        log_value: log P(x_j = v | c, f, s), groups × values × terms.
        log_share: log P(c | f, s), groups × terms.
        cuts: bits of the features of which a box does not allow all values, boxes × words.
        set_of: the set of values that a box allows of a feature, boxes × features.
        mass: P(x_j in the set | c, f, s), groups × sets × terms.
        weight: P(box | f, s) ÷ P(x in the box | f, s), groups × boxes × terms.
    """
    n_features, n_rows = x.shape
    n_words, n_terms = bits.shape[1], log_share.shape[1]
    n_classes = out.shape[1]
    n_clusters = n_terms // n_classes
    word = np.empty(n_words, np.uint64)
    missing = np.empty(cuts.shape[1], np.uint64)
    value = np.empty(n_terms)
    share = np.empty(n_terms)
    total = np.empty(n_terms)
    for r in range(n_rows):
        g = s[r]
        for w in range(n_words):
            word[w] = bits[-1, w]
        for w in range(len(missing)):
            missing[w] = _NONE
        for t in range(n_terms):
            value[t] = log_share[g, t]
            total[t] = 0.0
        for j in range(n_features):
            v = x[j, r]
            if v < 0:
                missing[j >> 6] |= _ONE << np.uint64(j & 63)
                continue
            at = start[j] + v
            for w in range(n_words):
                word[w] &= bits[at, w]
            for t in range(n_terms):
                value[t] += log_value[g, at, t]
        for w in range(n_words):
            left = word[w]
            while left != _NONE:
                low = left & (~left + _ONE)
                left ^= low
                i = 64 * w + _TABLE[(low * _DE_BRUIJN) >> _SHIFT]
                for t in range(n_terms):
                    share[t] = weight[g, i, t]
                for m in range(len(missing)):
                    lacking = cuts[i, m] & missing[m]
                    while lacking != _NONE:
                        bit = lacking & (~lacking + _ONE)
                        lacking ^= bit
                        k = set_of[i, 64 * m + _TABLE[(bit * _DE_BRUIJN) >> _SHIFT]]
                        for t in range(n_terms):
                            share[t] *= mass[g, k, t]
                for t in range(n_terms):
                    total[t] += share[t]
        for f in range(n_classes):
            first = f * n_clusters
            top = value[first]
            for t in range(first + 1, first + n_clusters):
                top = max(top, value[t])
            density = 0.0
            # A row that is impossible in all clusters has no value in any.
            if top > -np.inf:
                for t in range(first, first + n_clusters):
                    density += np.exp(value[t] - top) * total[t]
            out[r, f] = top + np.log(density)
