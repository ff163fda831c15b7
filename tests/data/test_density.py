"""Densities inside bins: whole, exact on intervals, drawn as they say; against slow twins."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import assume, given, strategies as st
from scipy import integrate, stats

from data import frames
from fairpc.data import Encoding
from fairpc.data._binning import Atoms, choose_edges
from fairpc.data._density import DAY, ColumnDensity
from fairpc.data._fit_density import (
    _ClosedSection,
    _lines,
    _Section,
    _slope,
    _steps,
    fit_density,
)
from fairpc.errors import FileFormatError, TableError

Values = npt.NDArray[np.float64]
CLOSE = 1e-9


def fitted(values: Values, *, n_bins: int = 6, whole: bool = False, date: bool = False) -> Any:
    """The density of some rows under bins by quantiles; None where there is none."""
    distinct, counts = np.unique(values, return_counts=True)
    atoms = Atoms(distinct + 0.0, counts.astype(float), None, whole, date)
    return fit_density(choose_edges(atoms, n_bins, 0.005), atoms)


Draw = Callable[[np.random.Generator, int], Values]


def _zero_or(rng: np.random.Generator, values: Any, share: float) -> Values:
    return np.where(rng.random(len(values)) < share, 0.0, values)


def _with_points(rng: np.random.Generator, n: int) -> Values:
    return np.where(rng.random(n) < 0.4, rng.choice([-1.0, 2.5], n), rng.normal(size=n))


REAL: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(3.0, 2.0, n),
    "skewed": lambda rng, n: np.exp(rng.normal(0.0, 1.5, n)),
    "zeros": lambda rng, n: _zero_or(rng, rng.exponential(900.0, n), 0.6),
    "two points": _with_points,
    "rounded": lambda rng, n: np.round(rng.normal(50.0, 8.0, n), 1),
    "negative": lambda rng, n: -np.exp(rng.normal(2.0, 1.0, n)),
    "small": lambda rng, n: rng.uniform(1e-9, 2e-9, n),
    "large": lambda rng, n: rng.normal(1e12, 1e9, n),
}
WHOLE: dict[str, Draw] = {
    "ages": lambda rng, n: rng.integers(17, 91, n).astype(np.float64),
    "counts": lambda rng, n: rng.geometric(0.05, n).astype(np.float64) - 1,
    "amounts": lambda rng, n: np.floor(rng.lognormal(8.0, 1.0, n)),
    "zeros": lambda rng, n: _zero_or(rng, rng.integers(1, 3000, n), 0.8),
    "debts": lambda rng, n: rng.integers(-4000, 100, n).astype(np.float64),
}
columns = st.tuples(
    st.sampled_from([*((k, False) for k in sorted(REAL)), *((k, True) for k in sorted(WHOLE))]),
    st.integers(25, 900),
    st.integers(2, 24),
    st.integers(0, 2**32 - 1),
)
"""What a column is, its rows, its bins, a seed."""


def density_of(column: Any) -> tuple[ColumnDensity, Values]:
    (name, whole), n, n_bins, seed = column
    values = (WHOLE if whole else REAL)[name](np.random.default_rng(seed), n)
    assume(np.ptp(values) > 0)
    density = fitted(values, n_bins=n_bins, whole=whole)
    assert density is not None
    return density, values


def twin_below(density: ColumnDensity, x: float) -> list[float]:
    """P(X < x | bin) of each bin by sums over its values, or integrals of the density at them."""
    bounds = [-math.inf, *density.edges, math.inf]
    return [twin_mass(density, low, min(high, x)) for low, high in pairwise(bounds)]


def twin_mass(density: ColumnDensity, low: float, high: float) -> float:
    """P(low <= X < high | bin) within one bin, from ``log_density`` alone."""
    if high <= low:
        return 0.0
    if density.step:
        first = far(density, -1) if math.isinf(low) else low
        last = far(density, 1) if math.isinf(high) else high
        every = np.arange(math.ceil(first / density.step), math.ceil(last / density.step))
        values = (every * density.step).astype(np.float64)
        return math.fsum(np.exp(density.log_density(values)))
    total = sum(
        math.exp(density.log_density(np.array([v]))[0]) for v in density.points if low <= v < high
    )
    inner = [c for c in density.cuts if low < c < high]
    for a, b in pairwise([low, *inner, high]):
        if b - a > 4 * math.ulp(a if math.isfinite(a) else b):
            total += smooth_mass(density, a, b)
    return total


def smooth_mass(density: ColumnDensity, a: float, b: float) -> float:
    """The integral of the density over a part of one piece, by quadrature on a scale of its own."""
    middle = (max(a, far(density, -1)) + min(b, far(density, 1))) / 2
    k = int(np.searchsorted(density.cuts, middle, side="right"))
    unit = 1.0 / abs(density.rates[k]) if density.rates[k] else b - a
    low, high = max(a, b - 60 * unit), min(b, a + 60 * unit)
    low, high = (low, b) if density.rates[k] < 0 else (a, high)

    def at(u: float) -> float:
        x = low + u * unit
        inside = min(max(x, math.nextafter(low, math.inf)), math.nextafter(high, -math.inf))
        return unit * math.exp(density.log_density(np.array([inside]))[0])

    return float(integrate.quad(at, 0.0, (high - low) / unit, epsabs=1e-12, limit=200)[0])


def far(density: ColumnDensity, side: int) -> float:
    """A number beyond which a tail holds less than 1e-17 of its bin."""
    k = -1 if side > 0 else 0
    return density.cuts[k] + 40.0 / density.rates[k]


@given(columns)
def test_every_bin_integrates_to_one(column: Any) -> None:
    density, _ = density_of(column)
    bounds = [-math.inf, *density.edges, math.inf]
    for low, high in pairwise(bounds):
        assert twin_mass(density, low, high) == pytest.approx(1.0, abs=CLOSE)


@given(columns, st.data())
def test_an_interval_is_the_sum_of_fine_bins(column: Any, data: st.DataObject) -> None:
    density, values = density_of(column)
    inside = st.floats(float(values.min()) - 1.0, float(values.max()) + 1.0)
    ends = st.one_of(inside, st.sampled_from([*density.cuts, *values.tolist()]))
    low, high = sorted([data.draw(ends), data.draw(ends)])
    found = density.between(low, high)
    fine = np.linspace(low, high, 40)
    parts = [density.between(a, b) for a, b in pairwise(fine)]
    assert np.abs(np.sum(parts, axis=0) - found).max() < CLOSE
    twin = np.array(twin_below(density, high)) - twin_below(density, low)
    assert np.abs(twin - found).max() < CLOSE
    everything = density.between(-math.inf, low) + found + density.between(high, math.inf)
    assert np.abs(everything - 1.0).max() < CLOSE


@given(columns)
def test_quantiles_turn_shares_back_into_numbers(column: Any) -> None:
    density, values = density_of(column)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, len(density.edges) + 1, 200).astype(np.int16)
    shares = np.concatenate([rng.random(196), [0.0, 1.0 - 1e-16, 0.5, 1e-12]])
    numbers = density.quantiles(codes, shares)
    assert np.isfinite(numbers).all()
    assert (np.searchsorted(density.edges, numbers, side="right") == codes).all()
    if density.step:
        assert (numbers % density.step == 0).all()
    assert np.isfinite(density.log_density(numbers)).all()
    for code, share, number in zip(codes, shares, numbers, strict=True):
        below = density.below(float(number))[code]
        up_to = density.below(math.nextafter(float(number), math.inf))[code]
        slack = 1e-6 * (1 + abs(number) / (np.ptp(values) or 1.0) * 1e-6)
        assert below - slack <= share <= up_to + slack


def test_draws_are_spread_as_the_density_says() -> None:
    rng = np.random.default_rng(1)
    for name in ("normal", "skewed", "zeros"):
        values = REAL[name](rng, 3000)
        density = fitted(values)
        codes = np.searchsorted(density.edges, values, side="right").astype(np.int16)
        drawn = density.quantiles(codes, rng.random(len(codes)))
        fresh = drawn[drawn != 0.0]
        share = np.bincount(codes) / len(codes)

        zero = float(density.between(0.0, math.nextafter(0.0, 1.0)) @ share)

        def cdf(
            x: Values, density: Any = density, share: Any = share, zero: float = zero
        ) -> Values:
            """P(X < x | X is not 0)."""
            below = np.array([density.below(float(v)) @ share - zero * (v > 0) for v in x])
            return np.asarray(below / (1 - zero))

        assert stats.kstest(fresh, cdf).pvalue > 0.001
        if name == "zeros":
            assert zero == pytest.approx((values == 0).mean(), abs=1e-3)


def test_a_uniform_density_by_hand() -> None:
    """Bins (-inf, 0), [0, 4), [4, inf); the middle one is flat with a point of mass .2 at 1."""
    density = ColumnDensity(
        edges=(0.0, 4.0),
        cuts=(0.0, 1.0, 4.0),
        weights=(1.0, 0.3, 0.5, 1.0),
        rates=(-2.0, 0.0, 0.0, 0.5),
        masses=(0.0, 0.2, 0.0),
    )
    # below 0: 2·exp(2x); [0, 1): .3; at 1: .2; [1, 4): .5/3; from 4 on: .5·exp(-.5(x - 4))
    found = np.exp(density.log_density(np.array([-1.0, 0.5, 1.0, 2.0, 6.0, np.nan])))
    assert found == pytest.approx([2 * math.exp(-2), 0.3, 0.2, 0.5 / 3, 0.5 * math.exp(-1), 1.0])
    assert density.between(0.5, 1.0) == pytest.approx([0, 0.15, 0])
    assert density.between(0.5, math.nextafter(1.0, 2.0)) == pytest.approx([0, 0.35, 0])
    assert density.between(-1.0, 2.5) == pytest.approx([1 - math.exp(-2), 0.75, 0])
    assert density.medians() == pytest.approx([-math.log(2) / 2, 1.0, 4 + 2 * math.log(2)])
    assert density.points == (1.0,)


def test_whole_numbers_by_hand() -> None:
    """Bins of whole numbers: up to 2, 3 to 5, 6 and more, halving from step to step outside."""
    half = math.log(2)
    rates = (-half, 0.0, half)
    both = (3.0, 6.0)
    density = ColumnDensity(both, both, (1.0, 1.0, 1.0), rates, (0.0, 0.0), step=1.0)
    found = np.exp(density.log_density(np.array([2.0, 1.0, 3.0, 5.0, 5.5, 6.0, 8.0])))
    assert found == pytest.approx([1 / 2, 1 / 4, 1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 8])
    # More than 4 is at least 5.
    assert density.between(math.nextafter(4.0, 9.0), math.inf) == pytest.approx([0, 1 / 3, 1])
    assert density.below(1.0) == pytest.approx([1 / 4, 0, 0])
    assert density.medians().tolist() == [2.0, 4.0, 7.0]


def test_days_and_instants() -> None:
    rng = np.random.default_rng(0)
    days = np.round(rng.normal(18_000, 200, 500)) * DAY
    assert fitted(days, date=True).step == DAY
    moments = fitted(days + rng.integers(0, 1000, 500) * 1e6, date=True)
    assert moments.step == 0.0
    at = np.array([18_000 * DAY])
    per_day = moments.log_density(at, DAY) - moments.log_density(at)
    assert per_day == pytest.approx(math.log(DAY))


def test_numbers_on_one_side_of_zero_stay_there() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.exponential(1.0, 2000), np.exp(rng.normal(7.0, 1.0, 2000))):
        density = fitted(values)
        assert density.below(0.0)[0] < 1e-3
        mirrored = fitted(-values)
        assert 1 - mirrored.below(0.0)[-1] < 1e-3


def test_held_out_rows_choose_the_shape() -> None:
    """Even rows need no cut; two clumps in one bin do; and a slope is a rate, not stairs."""
    rng = np.random.default_rng(0)
    ends = np.repeat([-5.0, 15.0], 300) + rng.normal(size=600)
    inside = [
        rng.uniform(0, 10, 600),
        np.concatenate([rng.uniform(1, 2, 300), rng.uniform(8, 9, 300)]),
        5 * np.log1p(rng.random(3000) * math.expm1(2.0)),
    ]
    atoms = [np.sort(np.concatenate([ends, values])) for values in inside]
    shapes = []
    for values in atoms:
        density = fit_density((0.0, 10.0), Atoms(values, np.ones(len(values))))
        assert density is not None
        inner = [k for k, c in enumerate(density.cuts) if 0.0 <= c < 10.0]
        shapes.append([density.rates[k + 1] for k in inner])
    assert shapes[0] == [0.0]
    assert len(shapes[1]) >= 4
    assert len(shapes[2]) == 1
    assert shapes[2][0] == pytest.approx(-0.2, abs=0.03)


def test_numbers_that_no_density_can_hold_stay_in_bins() -> None:
    rng = np.random.default_rng(0)
    assert fitted(rng.normal(0, 1e200, 100)) is None
    frame = pl.DataFrame({"x": rng.normal(0, 1e200, 100), "y": rng.normal(size=100)})
    encoding = frames.fit_encoding(frame, numbers="density")
    assert [c.density is None for c in encoding.columns] == [True, False]


def valid() -> dict[str, Any]:
    frame = pl.DataFrame({"n": np.round(np.random.default_rng(0).normal(size=200), 2)})
    return frames.fit_encoding(frame, numbers="density").to_dict()


HOSTILE: list[tuple[str, Any, str]] = [
    ("weights", lambda w: [-w[0], *w[1:]], "not a distribution within each bin"),
    ("weights", lambda w: [w[0] / 2, *w[1:]], "not a distribution within each bin"),
    ("weights", lambda w: w[:-1], "other numbers of cuts"),
    ("weights", lambda w: ["a", *w[1:]], "not a number"),
    ("weights", lambda w: [math.nan, *w[1:]], "not finite, or too large"),
    ("cuts", lambda c: c[::-1], "do not ascend"),
    ("cuts", lambda c: [c[0] - 1, *c[1:]], "lacks edges of its column"),
    ("cuts", lambda c: [*c[:-1], 1e200], "not finite, or too large"),
    ("rates", lambda r: [1.0, *r[1:]], "does not fall towards its open ends"),
    ("rates", lambda r: [*r[:-1], 0.0], "does not fall towards its open ends"),
    ("rates", lambda r: [r[0], 1e9, *r[2:]], "too steep or too narrow"),
    ("rates", lambda r: [r[0], 5e-324, *r[2:]], "as good as flat"),
    ("rates", lambda r: [*r[:-1], 1e-300], "does not fall towards its open ends"),
    ("masses", lambda m: [0.5, *m[1:]], "not a distribution within each bin"),
    ("step", lambda s: 1.0, "not multiples of 1.0"),
    ("step", lambda s: 0.5, "has the step 0.5"),
    ("step", lambda s: True, "not a number"),
    ("more", lambda s: 1, "the unknown field"),
]


@pytest.mark.parametrize("count", [0.0, 7.0, 300.0])
@pytest.mark.parametrize("slope", [-90.0, -3.0, -2e-4, 0.0, 0.4, 40.0])
def test_a_slope_is_found_from_its_mean(slope: float, count: float) -> None:
    u, weights = np.polynomial.legendre.leggauss(200)
    u = (u + 1) / 2
    if count:
        u, weights = np.arange(count) / count, np.ones(int(count))
    weights = weights * np.exp(-slope * u + min(slope, 0.0))
    mean = float(weights @ u / weights.sum())
    assert _slope(mean, count) == pytest.approx(slope, rel=1e-8, abs=1e-8)


def test_steps_of_several_parts_are_the_best_of_all_ways_to_cut() -> None:
    """By enumeration; all parts are as good at once as each by itself."""
    rng = np.random.default_rng(0)
    parts: list[_ClosedSection] = []
    while len(parts) < 12:
        x = np.unique(rng.beta(0.5 + 2 * rng.random(), 1.0, rng.integers(33, 47)))
        part = _ClosedSection(_Section(x, np.ones(len(x)), 0.0, 1.0), 0.0, 1.0, float(len(x)), 0.5)
        if len(_lines(part.values, 0.0, 1.0)) == 6:
            parts.append(part)
    lines = np.array([_lines(part.values, 0.0, 1.0) for part in parts])
    cut = set()
    for part, at, found in zip(parts, lines, _steps(parts, lines), strict=True):
        assert next(_steps([part], at[None])) == found
        ways = [inner for k in range(5) for inner in combinations(at[1:-1].tolist(), k)]
        best = max(ways, key=lambda inner: held_out_nats(part, inner))
        assert found.cuts == best
        assert found.score == pytest.approx(held_out_nats(part, best), abs=CLOSE)
        cut.add(len(best))
    assert len(cut) > 1


def held_out_nats(part: _ClosedSection, cuts: tuple[float, ...]) -> float:
    """Each row's log density among the others and the prior row, and a price for each cut."""
    nats = -len(cuts) * math.log(6)
    for low, high in pairwise((0.0, *cuts, 1.0)):
        n = int(((part.values.x >= low) & (part.values.x < high)).sum())
        density = (n - 1 + part.prior * (high - low)) / part.n / (high - low) if n else 1.0
        nats += n * math.log(density)
    return nats


@pytest.mark.parametrize(("field", "change", "sentence"), HOSTILE)
def test_a_hostile_density_gets_a_sentence(field: str, change: Any, sentence: str) -> None:
    data = valid()
    density = data["columns"][0]["density"]
    density[field] = change(density.get(field))
    with pytest.raises(FileFormatError, match=sentence):
        Encoding.from_dict(data)


def test_densities_are_of_their_column() -> None:
    data = valid()
    assert Encoding.from_dict(json.loads(json.dumps(data))).to_dict() == data
    column = Encoding.from_dict(data).columns[0]
    assert column.density is not None
    with pytest.raises(TableError, match="has a density of other bins"):
        replace(column, edges=column.edges[:-1])
    with pytest.raises(TableError, match="is a category: it has levels and no edges"):
        replace(column, kind="category", levels=("a",), edges=())
    bins = {k: v for k, v in data["columns"][0].items() if k != "density"}
    old = Encoding.from_dict(data | {"columns": [bins]})
    assert old.columns[0].density is None
    assert "density" not in old.to_dict()["columns"][0]
    too_many = {"cuts": [float(i) for i in range(70_000)]}
    data["columns"][0]["density"] |= too_many
    with pytest.raises(FileFormatError, match="may have 65536"):
        Encoding.from_dict(data)
