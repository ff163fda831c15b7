"""Compiled kernels on columns of codes. Arrays in, arrays out; no validation."""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import kernel

DENSE = 1 << 12  # a direct table of this many pairs is always worth it


@kernel
def pair_ids(a, b, n_a, n_b, ids, first):
    """Number the distinct pairs (a[i], b[i]) in order of appearance; returns how many.

    ``ids`` takes the number of each row's pair and may be ``a`` itself; ``first``
    takes the first row of each number. A direct table where the pairs are few,
    open addressing otherwise.
    """
    n = len(a)
    count = 0
    space = np.int64(n_a) * np.int64(n_b)
    direct = space <= DENSE or space <= 4 * n
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    mask = np.int64((1 << bits) - 1)
    shift = np.uint64(64 - bits)
    slots = np.empty(space if direct else mask + 1, np.int32)
    keys = np.empty(0 if direct else n, np.int64)
    for h in range(len(slots)):
        slots[h] = -1
    for i in range(n):
        key = np.int64(a[i]) * n_b + b[i]
        h = key
        if not direct:
            # Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
            h = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
            while slots[h] >= 0 and keys[slots[h]] != key:
                h = (h + 1) & mask
        found = slots[h]
        if found < 0:
            found = count
            slots[h] = found
            first[count] = i
            if not direct:
                keys[count] = key
            count += 1
        ids[i] = found
    return count
