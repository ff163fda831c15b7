"""Hashes of rows: SplitMix64 by hand, and numbers that look like chance."""

from __future__ import annotations

import numpy as np

from fairpc.data.hashing import row_hash, row_uniform

MASK = (1 << 64) - 1


def mixed(state: int) -> int:
    """SplitMix64 in whole numbers of any size."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def test_the_first_number_of_the_published_generator() -> None:
    """SplitMix64 from seed 0 begins with 0xE220A8397B1DCDAF."""
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert row_hash(np.zeros((0, 1), np.uint64)).tolist() == [0xE220A8397B1DCDAF]


def test_rows_are_hashed_word_by_word() -> None:
    words = np.array([[0, 1, MASK], [7, 7, 1 << 63]], np.uint64)
    expected = [mixed(mixed(mixed(42) ^ int(a)) ^ int(b)) for a, b in words.T]
    assert row_hash(words, 42).tolist() == expected
    assert np.array_equal(row_hash(words[:, ::-1], 42), row_hash(words, 42)[::-1])


def test_uniform_numbers_are_uniform_and_apart_by_seed() -> None:
    words = np.arange(20_000, dtype=np.uint64)[None]
    one, two = row_uniform(words, 1), row_uniform(words, 2)
    assert 0 < one.min() < one.max() < 1
    # Of 20,000 numbers, a tenth lies in each tenth of (0, 1): 2,000 ± 5 · sqrt(1,800).
    assert np.abs(np.histogram(one, 10, (0, 1))[0] - 2000).max() < 213
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / np.sqrt(20_000)
