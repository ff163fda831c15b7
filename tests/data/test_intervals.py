"""Numbers inside their bins: whole, exact on intervals, drawn as they say, silent of few people."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, strategies as st

from data import frames
from fairpc.data import Column
from fairpc.data._binning import Atoms, kept_ends
from fairpc.data._intervals import DAY, Intervals

Values = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]
FIRST = dt.date(2020, 1, 1)
DRAWS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(3.0, 2.0, n),
    "skewed": lambda rng, n: np.exp(rng.normal(0.0, 1.5, n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.6, 0.0, rng.exponential(900.0, n)),
    "last": lambda rng, n: np.where(rng.random(n) < 0.6, 5.5, rng.random(n)),
    "large": lambda rng, n: rng.normal(1e12, 1e9, n),
    "ages": lambda rng, n: rng.integers(17, 91, n).astype(np.float64),
    "debts": lambda rng, n: rng.integers(-4000, 100, n).astype(np.float64),
}
columns = st.tuples(
    st.sampled_from(sorted(DRAWS)), st.integers(60, 900), st.integers(2, 24), st.integers(0, 99)
)
"""What a column is, its rows, its bins, a seed."""


def column_of(x: Values, **options: Any) -> Column:
    given = pl.Series("x", x.astype(np.int64) if (x % 1 == 0).all() else x)
    encoding = frames.fit_encoding(given.to_frame(), numeric=["x"], **options)
    return encoding.columns[0]


def assert_uniform(column: Column) -> None:
    """Bins hold 1; draws lie in them at their share; the density is that of narrow intervals."""
    bins, n = column.intervals, column.arity
    codes = np.arange(n, dtype=np.int16)
    assert bins.between(-math.inf, math.inf).tolist() == [1.0] * n
    for low, high in pairwise([-math.inf, *column.edges, math.inf]):
        held = bins.between(low, high)
        assert sorted(held) == [0.0] * (n - 1) + [1.0]
    for share in (0.0, 0.3, 1 - 2**-53):
        drawn = bins.quantiles(codes, np.full(n, share))
        assert np.array_equal(np.searchsorted(column.edges, drawn, side="right"), codes)
        below = np.diag([bins.below(x) for x in drawn.tolist()])
        assert (below <= share + 1e-9).all()
        if not bins.step:
            assert np.abs(below - share)[bins.widths > 1e-3].max(initial=0) < 1e-6
    assert np.isfinite(bins.log_density(1.0)).all()


@given(columns)
def test_a_number_is_uniform_within_its_bin(given_: tuple[str, int, int, int]) -> None:
    name, n, n_bins, seed = given_
    x = DRAWS[name](np.random.default_rng(seed), n)
    column = column_of(x, n_bins=n_bins)
    assert_uniform(column)
    bins, density = column.intervals, np.exp(column.intervals.log_density(1.0))
    inside = bins.widths > 1e-3
    mass = density * np.where(inside, 2 * bins.widths, 1.0)
    assert mass == pytest.approx(np.ones(column.arity))
    # The naive twin: the share of evenly spread points that lie below a number.
    for k in np.flatnonzero(inside).tolist():
        start, end = float(bins.start[k]), float(bins.end[k])
        points = np.arange(start, end) if bins.step else np.linspace(start, end, 1001)[:-1]
        cut = start + 0.37 * (end - start)
        assert bins.below(cut)[k] == pytest.approx((points < cut).mean(), abs=2e-3)


def test_end_bins_reach_to_the_kept_numbers() -> None:
    """[17, 30) and [30, 40] hold 13 and 11 whole numbers."""
    whole = Intervals.of([30.0], [17.0, 40.0], 1.0)
    assert np.exp(whole.log_density(1.0)) == pytest.approx([1 / 13, 1 / 11])
    assert whole.between(20.0, 35.5).tolist() == pytest.approx([10 / 13, 6 / 11])
    assert whole.between(40.0, 41.0).tolist() == pytest.approx([0, 1 / 11])
    real = Intervals.of([30.0], [17.0, 40.0], 0.0)
    assert np.exp(real.log_density(1.0)) == pytest.approx([1 / 13, 1 / 10])
    days = Intervals.of([3 * DAY], [0.0, 4 * DAY], DAY)
    assert np.exp(days.log_density(DAY)) == pytest.approx([1 / 3, 1 / 2])
    assert np.exp(days.log_density(1.0)) == pytest.approx([1 / (3 * DAY), 1 / (2 * DAY)])


def test_a_heavy_number_has_a_mass() -> None:
    zeros = Intervals.of([0.0, 5e-324], [-2.0, 8.0], 0.0)
    assert np.exp(zeros.log_density(1.0)) == pytest.approx([1 / 2, 1, 1 / 8])
    assert zeros.below(0.0).tolist() == [1, 0, 0]
    assert zeros.below(5e-324).tolist() == [1, 1, 0]
    assert zeros.quantiles(np.array([1, 1], np.int16), np.array([0.0, 0.9])).tolist() == [0, 0]


def test_dates_are_whole_days_where_all_are() -> None:
    days = [FIRST + dt.timedelta(days=k % 90) for k in range(400)]
    hours = [dt.datetime(2020, 1, 1) + dt.timedelta(hours=k) for k in range(400)]
    for values, kind in ((days, dt.date), (hours, dt.datetime)):
        column = frames.fit_encoding(pl.DataFrame({"x": values})).columns[0]
        drawn = column.shown_numbers(column.intervals.quantiles(np.zeros(2, np.int16), 0.5))
        assert [type(value) for value in drawn] == [kind] * 2
        assert_uniform(column)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.booleans())
def test_ends_tell_of_many_people_only(seed: int, min_cell: int, whole: bool) -> None:
    """Those further out than ``min_cell`` people change nothing, and few have a kept number."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.round(rng.lognormal(4, 1, 200), 0 if whole else 2))
    low, high = ends_of(x, min_cell, whole)
    assert low <= x[min_cell - 1]
    assert x[-min_cell] <= high
    if min_cell == 1:
        assert (low, high) == (x[0], x[-1])
        return
    for end, reached in ((low, x[min_cell - 1]), (high, x[-min_cell])):
        assert (end == reached) == ((x == reached).sum() >= min_cell)
    room = max((x[-min_cell] - x[min_cell - 1]) / 50, float(whole))
    assert x[min_cell - 1] - low <= room * (1 + 1e-9)
    assert high - x[-min_cell] <= room * (1 + 1e-9)
    far = x.copy()
    far[: min_cell - 1], far[len(x) - min_cell + 1 :] = -1e6, 1e7
    assert ends_of(far, min_cell, whole) == (low, high)


def ends_of(x: Values, min_cell: int, whole: bool) -> tuple[float, float]:
    values, counts = np.unique(x, return_counts=True)
    return kept_ends(Atoms(values, counts.astype(float), integral=whole), min_cell)
