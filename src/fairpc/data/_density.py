"""Numbers inside their bins: P(x | bin), the same wherever a circuit has the bin.

A leaf over a number is P(bin) · P(x | bin). The second factor is a property of the column, frozen
when the encoding is fitted, so that codes, circuits and EM know bins alone, and every
probability of an interval is still exact: that of an event is the sum over bins of P(bin) times
the share of the bin that lies in the interval.

The line is cut into pieces, each within one bin. On a piece the density falls or rises as
exp(−rate · x), flat where the rate is 0; the first and the last piece are open and fall
towards their end, so that every number has a density. A value that holds many rows is a *point*
with a mass of its own, at the start of a piece. Where values are whole numbers, or whole days,
all mass is on these: a piece is then a run of them, and the density is a mass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fairpc.core import Bools, Codes, Floats, Integers, Ints, Record, TableError, refuse

DAY: Final = 86_400_000_000.0  #: microseconds of a day: the unit of dates
MAX_PIECES: Final = 1 << 16  #: pieces that a column may have
STEEPEST: Final = 600.0  #: largest |rate| times the width of a piece: exp of it is still a number
FINEST: Final = 1e-290  #: least width of a piece that holds mass: one over it is still a number
FARTHEST: Final = 1e150
"""Largest number that cuts a density: differences and products of such are still numbers."""
STEPS: Final = (0.0, 1.0, DAY)
_LEAST: Final = 1e-300


@dataclass(frozen=True)
class ColumnDensity(Record):
    """P(x | bin) of a column."""

    _long = ("edges",)  # which are those of the column

    edges: tuple[float, ...]  #: between the bins
    cuts: tuple[float, ...]  #: between the pieces, ascending; the edges are among them
    weights: tuple[float, ...]  #: P(piece | bin), points left out; one more than cuts
    rates: tuple[float, ...]  #: of each piece, per unit of the column
    masses: tuple[float, ...]  #: P(x = cut | bin that starts at or holds the cut), for each cut
    step: float = 0.0  #: 0 for real numbers; else values are whole multiples of it, and so are cuts

    def __post_init__(self) -> None:
        faults = ((there, f"a density {fault}: fit it again") for there, fault in self._faults())
        refuse(TableError, faults)

    def _faults(self) -> Iterator[tuple[object, str]]:
        n, lengths = len(self.cuts), (len(self.weights), len(self.rates), len(self.masses))
        yield n > MAX_PIECES, f"has {n + 1} pieces, and may have {MAX_PIECES}"
        yield lengths != (n + 1, n + 1, n), "has other numbers of cuts, weights, rates and masses"
        yield self.step not in STEPS, f"has the step {self.step}"
        numbers = np.array([*self.cuts, *self.weights, *self.rates, *self.masses])
        large = not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0.0) > FARTHEST
        yield large, "has numbers that are not finite, or too large"
        odd = (np.diff(self.cuts) <= 0).any() or not set(self.edges) <= set(self.cuts)
        yield odd, "has cuts that do not ascend, or lacks edges of its column"
        line = self._line
        total = np.bincount(line.bin, line.weight + line.mass, len(self.edges) + 1)
        odd = min(*self.weights, *self.masses, 0.0) < 0 or not (np.abs(total - 1.0) < 1e-9).all()
        yield odd, "has weights that are not a distribution within each bin"
        inner = np.isfinite(line.start) & np.isfinite(line.end)
        width, rate = (line.end - line.start)[inner], line.rate[inner]
        fall = np.abs(rate * width)
        odd = (fall > STEEPEST).any() or (width[line.weight[inner] > 0] < FINEST).any()
        yield odd, "has a piece that is too steep or too narrow"
        flat = ((fall < FINEST) & (rate != 0)).any()
        yield flat, "has a piece that is as good as flat, and its rate is not 0"
        falls = self.rates[0] <= -1 / FARTHEST and self.rates[-1] >= 1 / FARTHEST
        yield not falls, "does not fall towards its open ends"
        if self.step:
            off_grid = (np.array(self.cuts) % self.step != 0).any() or any(self.masses)
            yield off_grid, f"has cuts that are not multiples of {self.step}, or points on them"

    @cached_property
    def _line(self) -> _Line:
        start = np.array([-math.inf, *self.cuts])
        bins = np.searchsorted(self.edges, start, side="right")
        weight, mass = np.array(self.weights), np.array([0.0, *self.masses])
        both = weight + mass
        first = np.searchsorted(bins, np.arange(len(self.edges) + 2))
        before = np.cumsum(both) - both
        before -= before[first[bins]]
        end = np.array([*self.cuts, math.inf])
        return _Line(start, end, weight, np.array(self.rates), mass, before, bins, first)

    def log_density(self, x: Floats, unit: float = 1.0) -> Floats:
        """log P(x | its bin): of a whole number or a point its mass, else the density at x.

        The density is per ``unit``. Where values are whole, what lies between two counts as the
        lower one. NaN gives 0: nothing is known.
        """
        known = np.where(np.isnan(x), 0.0, x)
        if self.step:
            known = np.floor(known / self.step) * self.step
        k = np.searchsorted(self.cuts, known, side="right")
        line = self._line
        at_point = (known == line.start[k]) & (line.mass[k] > 0)
        with np.errstate(divide="ignore"):
            inside = np.log(line.weight[k]) + line.log_shape(k, known, self.step)
            inside += 0.0 if self.step else math.log(unit)
            found = np.where(at_point, np.log(line.mass[k]), inside)
        return np.where(np.isnan(x), 0.0, found)

    def below(self, x: float) -> Floats:
        """P(X < x | bin) of each bin."""
        line, n = self._line, len(self.edges) + 1
        if math.isinf(x):
            return np.full(n, 1.0 if x > 0 else 0.0)
        if self.step:
            x = math.ceil(x / self.step) * self.step
        k = np.searchsorted(self.cuts, [x], side="right")
        share = line.before[k] + line.weight[k] * line.fraction(k, np.array([x]))
        share += np.where(x > line.start[k], line.mass[k], 0.0)
        result = (np.arange(n) < line.bin[k]).astype(np.float64)
        result[line.bin[k]] = np.minimum(share, 1.0)
        return result

    def between(self, low: float, high: float) -> Floats:
        """P(low <= X < high | bin) of each bin."""
        return np.maximum(self.below(high) - self.below(low), 0.0)

    def quantiles(self, codes: Codes, shares: Floats) -> Floats:
        """The number below which a share of a bin lies, for each bin in ``codes``."""
        line = self._line
        bins = codes.astype(np.int64)
        wanted = bins + shares
        # Each piece has two places on the way up: its point, then what lies behind it.
        places = line.bin[:, None] + line.before[:, None] + np.stack([0 * line.mass, line.mass], 1)
        at = np.searchsorted(places.ravel(), wanted, side="right") - 1
        at = np.clip(at, 2 * line.first[bins], 2 * line.first[bins + 1] - 1)
        k, behind = at // 2, at % 2 == 1
        weight = np.where(line.weight[k] > 0, line.weight[k], 1.0)
        fraction = np.clip((wanted - places[k, 1]) / weight, 0.0, 1.0)
        value = np.where(behind & (line.weight[k] > 0), line.at(k, fraction), line.start[k])
        if self.step:
            value = np.floor(value / self.step) * self.step
            return np.clip(value, line.start[k], line.end[k] - self.step)
        return np.clip(value, line.start[k], np.nextafter(line.end[k], -math.inf))

    def medians(self) -> Floats:
        """The median of each bin."""
        n = len(self.edges) + 1
        return self.quantiles(np.arange(n, dtype=np.int16), np.full(n, 0.5))

    @cached_property
    def points(self) -> tuple[float, ...]:
        """Values with a mass of their own."""
        return tuple(c for c, mass in zip(self.cuts, self.masses, strict=True) if mass > 0)


@dataclass(frozen=True, eq=False)
class _Line:
    """The pieces as arrays; ``before`` is what of its bin lies below the start of each."""

    start: Floats
    end: Floats
    weight: Floats
    rate: Floats
    mass: Floats
    before: Floats
    bin: Ints
    first: Ints

    def fraction(self, k: Integers, x: Floats) -> Floats:
        """P(X < x | piece k)."""
        start, end, rate = self.start[k], self.end[k], self.rate[k]
        with np.errstate(all="ignore"):
            flat = (x - start) / (end - start)
            sloped = np.expm1(-rate * (x - start)) / np.expm1(-rate * (end - start))
            upper = -np.expm1(-rate * (x - start))
            lower = np.exp(rate * (end - x))
        return self._by_shape(k, flat, sloped, upper, lower)

    def at(self, k: Integers, fraction: Floats) -> Floats:
        """The number with this share of piece k below it."""
        start, end, rate = self.start[k], self.end[k], self.rate[k]
        with np.errstate(all="ignore"):
            flat = start + fraction * (end - start)
            sloped = start - np.log1p(fraction * np.expm1(-rate * (end - start))) / rate
            upper = start - np.log(np.maximum(1.0 - fraction, _LEAST)) / rate
            lower = end - np.log(np.maximum(fraction, _LEAST)) / rate
        return self._by_shape(k, flat, sloped, upper, lower)

    def log_shape(self, k: Integers, x: Floats, step: float) -> Floats:
        """log of the density of piece k at x; of its mass where values are multiples of a step."""
        start, end, rate = self.start[k], self.end[k], self.rate[k]
        with np.errstate(all="ignore"):
            flat = np.log(step or 1.0) - np.log(end - start)
            steep = np.log(np.abs(np.expm1(-rate * step) if step else rate))
            sloped = steep - rate * (x - start) - np.log(np.abs(np.expm1(-rate * (end - start))))
            upper = steep - rate * (x - start)
            # The mass of a value is what lies between it and the next, where the end is nearer.
            falls = np.log(-np.expm1(rate * step)) if step else steep
            lower = falls + rate * (end - x - step)
        return self._by_shape(k, flat, sloped, upper, lower)

    def _by_shape(
        self, k: Integers, flat: Floats, sloped: Floats, upper: Floats, lower: Floats
    ) -> Floats:
        open_below: Bools = np.isneginf(self.start[k])
        open_above: Bools = np.isposinf(self.end[k])
        inner = np.where(self.rate[k] == 0, flat, sloped)
        return np.where(open_below, lower, np.where(open_above, upper, inner))
