"""Hashes of rows: SplitMix64 by hand, and numbers that look like chance."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from fairpc.core import RowSample, row_hash, row_uniform

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


def drawn(frame: pl.DataFrame, size: int, seed: int = 0, batch: int = 64) -> pl.DataFrame:
    sample = RowSample(size, seed)
    for part in frame.iter_slices(batch):
        sample.push(part)
    assert sample.n_seen == len(frame)
    found: pl.DataFrame = sample.rows()
    return found


def test_few_rows_are_all_kept_in_order() -> None:
    frame = pl.DataFrame({"row": range(100), "word": [f"w{k}" for k in range(100)]})
    assert drawn(frame, 100).equals(frame)
    assert drawn(frame, 1000, batch=7).equals(frame)


@pytest.mark.parametrize("size", [1, 50, 999])
def test_the_batches_do_not_matter(size: int) -> None:
    frame = pl.DataFrame({"row": range(1000)})
    one = drawn(frame, size, batch=1000)
    assert len(one) == size
    assert one["row"].is_sorted()
    for batch in (1, 33, 500):
        assert drawn(frame, size, batch=batch).equals(one)


def test_a_smaller_sample_is_part_of_a_larger_one_and_seeds_differ() -> None:
    frame = pl.DataFrame({"row": range(2000)})
    small, large = (set(drawn(frame, n)["row"]) for n in (100, 400))
    assert small < large
    assert len(small & set(drawn(frame, 100, seed=1)["row"])) < 25


def test_every_row_is_as_likely_as_any_other() -> None:
    """Over seeds, how often each of 40 rows is among 10: binomial, and no two rows go together."""
    frame, n_seeds = pl.DataFrame({"row": range(40)}), 2000
    times, together = np.zeros(40), 0
    for seed in range(n_seeds):
        rows = drawn(frame, 10, seed, batch=8)["row"].to_numpy()
        times[rows] += 1
        together += int({0, 39} <= set(rows.tolist()))
    spread = np.sqrt(n_seeds * 0.25 * 0.75)
    assert np.abs(times - n_seeds / 4).max() < 4 * spread
    chance = 10 / 40 * 9 / 39
    assert abs(together - n_seeds * chance) < 4 * np.sqrt(n_seeds * chance)


def test_values_of_all_types_stay() -> None:
    n = 300
    frame = pl.DataFrame(
        {
            "text": [None if k % 7 == 0 else "long " * 20 + str(k) for k in range(n)],
            "level": pl.Series([("a", "b")[k % 2] for k in range(n)], dtype=pl.Categorical),
            "day": [date(2020, 1, 1 + k % 28) for k in range(n)],
            "yes": [k % 3 == 0 for k in range(n)],
            "number": np.arange(n) / 3,
            "small": pl.Series(range(n), dtype=pl.Int16),
        }
    )
    found = drawn(frame, 40)
    assert found.schema == frame.schema
    assert found.equals(frame[found["small"].to_list()])
