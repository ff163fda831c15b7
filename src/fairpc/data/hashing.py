"""Hashes of packed rows: the same on every machine, whatever the order of the rows."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairpc.errors.arrays import Floats, Words

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_TWO: Final = np.uint64(0x94D049BB133111EB)


def row_hash(words: Words, seed: int = 0) -> Words:
    """A hash per row of words × rows: SplitMix64 (Steele et al. 2014), word by word."""
    state = _mixed(np.full(words.shape[1], seed % (1 << 64), np.uint64))
    for word in words:
        state = _mixed(state ^ word)
    return state


def row_uniform(words: Words, seed: int) -> Floats:
    """A number in (0, 1) per row, by its hash."""
    top = row_hash(words, seed) >> np.uint64(11)
    return (top.astype(np.float64) + 0.5) / float(1 << 53)


def row_digest(words: Words, copies: Floats) -> Words:
    """Four numbers that name weighted rows: sums over the rows, so the order plays no part.

    Digests of batches or parts add up to that of the table.
    """
    counts = copies.astype(np.uint64)
    sums = [np.multiply(row_hash(words, seed), counts).sum(dtype=np.uint64) for seed in range(4)]
    return np.array(sums, np.uint64)


def _mixed(state: Words) -> Words:
    state = state + _STEP
    state = (state ^ (state >> np.uint64(30))) * _ONE
    state = (state ^ (state >> np.uint64(27))) * _TWO
    mixed: Words = state ^ (state >> np.uint64(31))
    return mixed
