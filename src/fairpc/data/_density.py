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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from fairpc.core import Bools, Codes, Floats, Integers, Ints, Record, TableError
from fairpc.data._binning import Atoms, round_number

DAY: Final = 86_400_000_000.0
"""Microseconds of a day: the unit of dates."""

MAX_PIECES: Final = 1 << 16
"""Pieces that a column may have."""

STEEPEST: Final = 600.0
"""Largest |rate| times the width of a piece: exp of it is still a number."""

FINEST: Final = 1e-290
"""Least width of a piece that holds mass: one over it is still a number."""

FARTHEST: Final = 1e150
"""Largest number that cuts a density: differences and products of such are still numbers."""

STEPS: Final = (0.0, 1.0, DAY)
_TOLERANCE: Final = 1e-9
_LEAST: Final = 1e-300


@dataclass(frozen=True)
class ColumnDensity(Record):
    """P(x | bin) of a column.

    Attributes:
        edges: between the bins.
        cuts: between the pieces, ascending; the edges are among them.
        weights: P(piece | bin), points left out; one more than cuts.
        rates: of each piece, per unit of the column.
        masses: P(x = cut | bin that starts at or holds the cut), for each cut.
        step: 0 for real numbers; else values are whole multiples of it, and so are cuts.
    """

    _long = ("edges",)  # which are those of the column

    edges: tuple[float, ...]
    cuts: tuple[float, ...]
    weights: tuple[float, ...]
    rates: tuple[float, ...]
    masses: tuple[float, ...]
    step: float = 0.0

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise TableError(f"a density {fault}: fit it again")

    def _fault(self) -> str:
        """What is wrong with the numbers; nothing where they are a density."""
        n = len(self.cuts)
        if n > MAX_PIECES:
            return f"has {n + 1} pieces, and may have {MAX_PIECES}"
        if (len(self.weights), len(self.rates), len(self.masses)) != (n + 1, n + 1, n):
            return "has other numbers of cuts, weights, rates and masses"
        if self.step not in STEPS:
            return f"has the step {self.step}"
        numbers = np.array([*self.cuts, *self.weights, *self.rates, *self.masses])
        if not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0.0) > FARTHEST:
            return "has numbers that are not finite, or too large"
        if (np.diff(self.cuts) <= 0).any() or not set(self.edges) <= set(self.cuts):
            return "has cuts that do not ascend, or lacks edges of its column"
        if min(*self.weights, *self.masses, 0.0) < 0 or not self._sums_to_one():
            return "has weights that are no distribution within each bin"
        return self._shape_fault()

    def _shape_fault(self) -> str:
        line = self._line
        inner = np.isfinite(line.start) & np.isfinite(line.end)
        width, rate = (line.end - line.start)[inner], line.rate[inner]
        fall = np.abs(rate * width)
        if (fall > STEEPEST).any() or (width[line.weight[inner] > 0] < FINEST).any():
            return "has a piece that is too steep or too narrow"
        if ((fall < FINEST) & (rate != 0)).any():
            return "has a piece that is as good as flat, and its rate is not 0"
        if not (self.rates[0] <= -1 / FARTHEST and self.rates[-1] >= 1 / FARTHEST):
            return "does not fall towards its open ends"
        on_grid = not self.step or (np.array(self.cuts) % self.step == 0).all()
        if self.step and not (on_grid and not any(self.masses)):
            return f"has cuts that are no multiples of {self.step}, or points on them"
        return ""

    def _sums_to_one(self) -> bool:
        line = self._line
        total = np.bincount(line.bin, line.weight + line.mass, len(self.edges) + 1)
        return bool((np.abs(total - 1.0) < _TOLERANCE).all())

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


HEAVY: Final = 0.03
"""Share of a column's rows from which on a value is a point with a mass of its own."""

_HEAVY_ROWS: Final = 10.0
_PRIOR: Final = 1.0  # rows spread over a section in proportion to width
_BEYOND: Final = 0.01  # rows on the other side of zero, where the column has none
_LINES: Final = 16  # of either kind: equally far apart, and with equally many rows between them
_ROWS_PER_LINE: Final = 16.0
_TAILS: Final = (0.5, 0.8, 0.95)  # shares of an open bin after which its tail may start
_STEEP: Final = 500.0
_FLAT: Final = 1e-9


@dataclass(frozen=True, eq=False)
class _Section:
    """Values of a section with their rows; ``step`` as in ``ColumnDensity``."""

    x: Floats
    rows: Floats
    step: float
    scale: float  #: how far values of the column are apart, about

    @property
    def n(self) -> float:
        return float(self.rows.sum())

    def within(self, low: float, high: float) -> _Section:
        inside = slice(*np.searchsorted(self.x, [low, high]))
        return _Section(self.x[inside], self.rows[inside], self.step, self.scale)

    def mirrored(self) -> _Section:
        """The same with the order reversed: the first bin is then open as the last one is.

        An interval that holds its lower end still does: values move by a step, or by a hair.
        """
        mirrored = -self.x[::-1]
        mirrored = mirrored - self.step if self.step else np.nextafter(mirrored, -math.inf)
        return _Section(mirrored, self.rows[::-1], self.step, self.scale)

    def size(self, low: float, high: float) -> float:
        """Width of an interval, or its number of whole values."""
        return (high - low) / (self.step or 1.0)

    def mean_excess(self, low: float) -> float:
        """Mean distance from ``low``, in steps if there are any; a row at the scale is added.

        Where nothing lies beyond, a tail is to end before zero if it falls towards it.
        """
        scale = self.scale if len(self.x) or low >= 0 else min(self.scale, -low / 5)
        far = float(self.rows @ (self.x - low)) + scale * _PRIOR
        return far / (self.n + _PRIOR) / (self.step or 1.0)


@dataclass(frozen=True)
class _Pieces:
    """Pieces of a section or a bin: cuts between them, P(piece | section), rates.

    A section has a score, its held-out nats; a bin masses of points.
    """

    cuts: tuple[float, ...]
    weights: tuple[float, ...]
    rates: tuple[float, ...]
    score: float = 0.0
    points: Mapping[float, float] = field(default_factory=dict)

    def mirrored(self) -> _Pieces:
        return _Pieces(
            tuple(-cut for cut in reversed(self.cuts)),
            self.weights[::-1],
            tuple(-rate for rate in reversed(self.rates)),
            self.score,
        )


def _without_extremes(atoms: Atoms, least: int) -> Atoms:
    """Values up to which, from either end, there are ``least`` people; those beyond are at them.

    Spans and means of tails would else give the largest number away, to some digits.
    """
    if least <= 1 or atoms.weights.sum() < 2 * least:
        return atoms
    first = np.searchsorted(np.cumsum(atoms.weights), least)
    last = len(atoms.values) - 1 - np.searchsorted(np.cumsum(atoms.weights[::-1]), least)
    inner = np.clip(atoms.values, atoms.values[first], atoms.values[last])
    values, place = np.unique(inner, return_inverse=True)
    weights = np.bincount(place, atoms.weights, len(values))
    return Atoms(values, weights, integral=atoms.integral, date=atoms.date)


def fit_density(edges: tuple[float, ...], atoms: Atoms, min_cell: int = 1) -> ColumnDensity | None:
    """The density of a column inside the bins between ``edges``.

    No number in it depends on how far the last ``min_cell`` people are out.

    None where numbers are too large, or too close to each other, for one.
    """
    atoms = _without_extremes(atoms, min_cell)
    far = max(abs(float(atoms.values[0])), abs(float(atoms.values[-1])), *map(abs, edges))
    span = float(atoms.values[-1]) - float(atoms.values[0])
    if not edges or far > FARTHEST or span <= 0:
        return None
    step = _step(atoms)
    scale = max(span / (len(edges) + 1), step)
    values = _Section(atoms.values, atoms.weights, step, scale)
    # Those who were moved to an end are under min_cell: a point is a value of many all the same.
    least = max(HEAVY * values.n, _HEAVY_ROWS, 2 * min_cell)
    heavy = atoms.values[(atoms.weights >= least) & (atoms.weights > 0)]
    bounds = (-math.inf, *edges, math.inf)
    parts = [_fit_bin(values, heavy, low, high) for low, high in pairwise(bounds)]
    cuts = tuple(cut for part in parts for cut in part.cuts)
    masses = tuple(part.points.get(cut, 0.0) for part in parts for cut in part.cuts)
    weights = tuple(w for part in parts for w in part.weights)
    rates = tuple(r for part in parts for r in part.rates)
    try:
        return ColumnDensity(edges, cuts, weights, rates, masses, step)
    except TableError:
        return None


def _step(atoms: Atoms) -> float:
    if atoms.integral:
        return 1.0
    whole_days = atoms.date and bool((atoms.values % DAY == 0).all())
    return DAY if whole_days else 0.0


def _fit_bin(column: _Section, heavy: Floats, low: float, high: float) -> _Pieces:
    """Sections between the heavy values of a bin, each with its pieces; cuts where they start."""
    values = column.within(low, high)
    points = [float(v) for v in heavy if low <= v < high]
    starts = {low, *points}
    if column.step:
        # A heavy whole number is a piece of its own.
        starts |= {v + column.step for v in points if v + column.step < high}
    bounds = [*sorted(starts), high]
    rest = values
    if not column.step:
        light = ~np.isin(values.x, points)
        rest = _Section(values.x[light], values.rows[light], 0.0, column.scale)
    sections = [(rest.within(a, b), a, b) for a, b in pairwise(bounds)]
    fitted = [_fit_section(part, a, b) for part, a, b in sections]
    share = _PRIOR / len(sections)
    rows = [
        0.0
        if _is_point(a, b, column)
        else part.n + (_BEYOND if _beyond_zero(part, a, b) else share)
        for part, a, b in sections
    ]
    at = {v: float(values.rows[values.x == v].sum()) for v in points if not column.step}
    if not sum(rows) + sum(at.values()):
        at = {low: 1.0}
    total = sum(rows) + sum(at.values())
    weights = [
        w * n / total for pieces, n in zip(fitted, rows, strict=True) for w in pieces.weights
    ]
    cuts: list[float] = []
    for (_, a, _), pieces in zip(sections, fitted, strict=True):
        cuts += [*([a] if a > -math.inf else []), *pieces.cuts]
    rates = tuple(r for pieces in fitted for r in pieces.rates)
    masses = {v: n / total for v, n in at.items()}
    return _Pieces(tuple(cuts), tuple(weights), rates, points=masses)


def _is_point(low: float, high: float, column: _Section) -> bool:
    """Whether an interval of reals holds one number only, or is too narrow for a density."""
    return not column.step and high - low < max(FINEST, 4 * math.ulp(low) if low > -math.inf else 0)


def _beyond_zero(values: _Section, low: float, high: float) -> bool:
    """Whether a section is all that lies on the other side of zero, and holds nothing."""
    return not len(values.x) and (low, high) in ((-math.inf, 0.0), (0.0, math.inf))


def _fit_section(values: _Section, low: float, high: float) -> _Pieces:
    if math.isinf(low):
        return _open(values.mirrored(), -high).mirrored()
    if math.isinf(high):
        return _open(values, low)
    return _closed(values, low, high, values.n, _PRIOR)


def _closed(values: _Section, low: float, high: float, n: float, prior: float) -> _Pieces:
    """Pieces of a section with two ends, out of a bin with ``n`` rows."""
    if _is_point(low, high, values):
        return _Pieces((), (1.0,), (0.0,))
    total = max(n - 1.0 + _PRIOR, _PRIOR)
    steps = _steps(values, low, high, total, prior)
    sloped = _sloped(values, low, high, total, prior)
    return max((steps, *sloped), key=lambda pieces: pieces.score)


def _steps(values: _Section, low: float, high: float, total: float, prior: float) -> _Pieces:
    """The best steps: leave-one-out over all ways to cut at the lines, by dynamic programming."""
    lines = np.array([low, *_lines(values, low, high), high])
    count = np.append(0.0, np.cumsum(values.rows))[np.searchsorted(values.x, lines)]
    rows = count[None, :] - count[:, None]
    width = (lines[None, :] - lines[:, None]) / (values.step or 1.0)
    share = prior * width / width[0, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        held_out = np.log((np.maximum(rows - 1.0, 0.0) + share) / total / width)
        score = np.where(rows > 0, rows * held_out, 0.0)
    best = np.full(len(lines), -math.inf)
    per_cut = math.log(len(lines))
    best[0] = per_cut
    last = np.zeros(len(lines), np.int64)
    for j in range(1, len(lines)):
        so_far = best[:j] + score[:j, j] - per_cut
        last[j] = int(np.argmax(so_far))
        best[j] = so_far[last[j]]
    path = [len(lines) - 1]
    while path[-1]:
        path.append(int(last[path[-1]]))
    at = path[::-1]
    found = np.array([rows[i, j] + share[i, j] for i, j in pairwise(at)])
    weights = found / found.sum()
    cuts = tuple(lines[at[1:-1]].tolist())
    return _Pieces(cuts, tuple(weights.tolist()), (0.0,) * len(weights), float(best[-1]))


def _lines(values: _Section, low: float, high: float) -> list[float]:
    """Where a section may be cut: at equal distances, and where equally many rows lie between."""
    most = min(_LINES, int(values.n / _ROWS_PER_LINE))
    if most < 1 or len(values.x) < 2:
        return []
    even = np.linspace(low, high, most + 2)[1:-1]
    upto = np.cumsum(values.rows)
    ranks = np.searchsorted(upto, upto[-1] * np.arange(1, most + 1) / (most + 1))
    ranks = np.unique(np.clip(ranks, 0, len(values.x) - 2))
    middle = [round_number(float(values.x[i]), float(values.x[i + 1])) for i in ranks]
    lines = np.array([*even, *middle])
    if values.step:
        lines = np.ceil(lines / values.step) * values.step
    lines = np.unique(lines)
    apart = np.diff(lines, prepend=-math.inf) > (high - low) * _FLAT
    inside = (lines - low > (high - low) * _FLAT) & (high - lines > (high - low) * _FLAT)
    return [float(line) for line in lines[apart & inside]]


def _sloped(
    values: _Section, low: float, high: float, total: float, prior: float
) -> Iterator[_Pieces]:
    """One piece with a rate of its own, the likeliest."""
    n, width = values.n, high - low
    if n < 2.0 or len(values.x) < 2:
        return
    count = values.size(low, high) if values.step else 0.0
    mean = float(values.rows @ (values.x - low)) / n / width
    turned = _solved(lambda slope: _mean_of_sloped(slope, count), mean)
    if abs(turned) < _FLAT:
        return
    steep = math.expm1(-turned / count) if count else turned
    log = math.log(abs(steep)) - turned * mean - math.log(abs(math.expm1(-turned)))
    log += math.log((n - 1.0 + prior) / total) - (0.0 if count else math.log(width))
    yield _Pieces((), (1.0,), (turned / width,), n * log - 1.0)


def _mean_of_sloped(slope: float, count: float) -> float:
    """Mean of exp(−slope · u) on [0, 1), or on ``count`` equally far points of it from 0 on."""
    if abs(slope) < 1e-6:
        return (0.5 - 0.5 / count if count else 0.5) - slope / 12.0
    first = 1.0 / (count * math.expm1(slope / count)) if count else 1.0 / slope
    return first - 1.0 / math.expm1(slope)


def _solved(falling: Callable[[float], float], wanted: float) -> float:
    """Where a falling function has a value, between −500 and 500."""
    low, high = -_STEEP, _STEEP
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > wanted else (low, middle)
    return (low + high) / 2


def _open(values: _Section, low: float) -> _Pieces:
    """Pieces from ``low`` on without end: a closed part, perhaps, then a tail that falls."""
    ends = [low, *_tail_starts(values, low)]
    return max((_with_tail(values, low, end) for end in ends), key=lambda pieces: pieces.score)


def _tail_starts(values: _Section, low: float) -> list[float]:
    """Shares of the rows, and beyond the last of them."""
    if not len(values.x):
        return []
    upto = np.cumsum(values.rows)
    ranks = np.searchsorted(upto, upto[-1] * np.array(_TAILS))
    starts = []
    for i in ranks[ranks < len(values.x) - 1]:
        between = round_number(float(values.x[i]), float(values.x[i + 1]))
        starts.append(math.ceil(between / values.step) * values.step if values.step else between)
    largest = float(values.x[-1])
    room = max((largest - low) / max(values.n, 1.0), values.step, _FLAT * values.scale)
    beyond = round_number(largest, largest + room)
    starts.append(math.ceil(beyond / values.step) * values.step if values.step else beyond)
    if low < 0 and largest < 0:
        starts.append(0.0)
    width = _FLAT * max(values.scale, abs(low))
    return sorted({start for start in starts if start - low > width})


def _with_tail(values: _Section, low: float, end: float) -> _Pieces:
    n = values.n
    tail = values.within(end, math.inf)
    mean = tail.mean_excess(end)
    rate = math.log1p(1.0 / mean) if values.step else 1.0 / mean
    falls = math.log(-math.expm1(-rate)) if values.step else math.log(rate)
    prior = _PRIOR if end == low else _PRIOR / 2
    bound = end == 0.0 and not tail.n
    if bound:
        prior = _BEYOND
    total = max(n - 1.0 + _PRIOR, _PRIOR)
    score = 0.0
    if tail.n:
        held_out = math.log((max(tail.n - 1.0, 0.0) + prior) / total)
        far = float(tail.rows @ (tail.x - end)) / (values.step or 1.0)
        score = tail.n * (held_out + falls) - rate * far - 1.0
    last = (rate / values.step if values.step else rate,)
    if end == low:
        return _Pieces((), (1.0,), last, score)
    front = values.within(low, end)
    closed = _closed(front, low, end, n, _PRIOR / 2)
    score += closed.score - math.log(len(_TAILS) + 3)
    if not (tail.n or bound) and values.rows[-1] <= 1.0 and len(values.x) > 1:
        # Without its one row the largest value would have been in the tail.
        gap = values.size(float(values.x[-2]), float(values.x[-1]))
        score += math.log(prior / total) + falls - rate * gap + math.log(values.size(low, end))
    inside = (front.n + _PRIOR / 2) / (n + _PRIOR / 2 + prior)
    weights = (*(w * inside for w in closed.weights), 1.0 - inside)
    return _Pieces((*closed.cuts, end), weights, (*closed.rates, *last), score)
