"""Fitting the density of numbers inside their bins: steps or a slope, points, tails.

A bin is cut at its heavy values into sections. What is between two ends is cut into steps, by
dynamic programming over lines that may be cuts, or gets one slope; the first and the last bin end
in tails. Candidates are compared by their held-out score, rows left out one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Final

import numpy as np

from fairpc.core import Floats, TableError
from fairpc.data._binning import Atoms, round_cut, round_number
from fairpc.data._column import MIN_CELL
from fairpc.data._density import DAY, FARTHEST, FINEST, ColumnDensity

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
_NEAR: Final = 1e-12  # a step of Newton's that is as small ends the search for a slope


@dataclass(frozen=True, eq=False)
class _Section:
    """Values of a section with their rows; ``step`` as in ``ColumnDensity``."""

    x: Floats
    rows: Floats
    step: float
    scale: float  #: how far values of the column are apart, about

    @cached_property
    def n(self) -> float:
        return float(self.rows.sum())

    def within(self, low: float, high: float) -> _Section:
        inside = slice(*self.x.searchsorted([low, high]))
        return _Section(self.x[inside], self.rows[inside], self.step, self.scale)

    def mirrored(self) -> _Section:
        """The same with the order reversed: the first bin is then open as the last one is.

        An interval that holds its lower end still does: values move by a step, or by a hair.
        """
        mirrored = -self.x[::-1]
        mirrored = mirrored - self.step if self.step else np.nextafter(mirrored, -math.inf)
        return _Section(mirrored, self.rows[::-1], self.step, self.scale)

    def on_grid(self, x: float) -> float:
        """The number, or the first multiple of the step from it on."""
        return math.ceil(x / self.step) * self.step if self.step else x

    def cut_after(self, i: int) -> float:
        """A round number near the one between value i and the next, that tells neither."""
        atoms = Atoms(self.x, self.rows, integral=self.step == 1.0, date=self.step == DAY)
        around = max(i - MIN_CELL + 1, 0), i + 1, min(i + MIN_CELL, len(self.x) - 1)
        return round_cut(atoms, *around, MIN_CELL)

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


_Interval = tuple[_Section, float, float]  #: values of a section, and its ends


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
    weights = np.bincount(place, atoms.weights, len(values)).astype(np.float64)
    return Atoms(values, weights, integral=atoms.integral, date=atoms.date)


def fit_density(edges: tuple[float, ...], atoms: Atoms, min_cell: int = 1) -> ColumnDensity | None:
    """The density of a column inside the bins between ``edges``; None for too large or close ones.

    No number in it depends on how far the last ``min_cell`` people are out.
    """
    atoms = _without_extremes(atoms, min_cell)
    far = max(abs(float(atoms.values[0])), abs(float(atoms.values[-1])), *map(abs, edges))
    span = float(atoms.values[-1]) - float(atoms.values[0])
    if not edges or far > FARTHEST or span <= 0:
        return None
    whole_days = atoms.date and bool((atoms.values % DAY == 0).all())
    step = 1.0 if atoms.integral else DAY if whole_days else 0.0
    scale = max(span / (len(edges) + 1), step)
    values = _Section(atoms.values, atoms.weights, step, scale)
    # Those who were moved to an end are under min_cell: a point is a value of many all the same.
    least = max(HEAVY * values.n, _HEAVY_ROWS, 2 * min_cell)
    heavy = atoms.values[(atoms.weights >= least) & (atoms.weights > 0)]
    bins = list(pairwise((-math.inf, *edges, math.inf)))
    sections = [_sections(values, heavy, low, high) for low, high in bins]
    fitted = _fit_sections([section for some in sections for section in some])
    parts = [
        _joined(values.within(low, high), heavy, some, list(islice(fitted, len(some))))
        for (low, high), some in zip(bins, sections, strict=True)
    ]
    cuts = tuple(cut for part in parts for cut in part.cuts)
    masses = tuple(part.points.get(cut, 0.0) for part in parts for cut in part.cuts)
    weights = tuple(w for part in parts for w in part.weights)
    rates = tuple(r for part in parts for r in part.rates)
    try:
        return ColumnDensity(edges, cuts, weights, rates, masses, step)
    except TableError:
        return None


def _sections(column: _Section, heavy: Floats, low: float, high: float) -> list[_Interval]:
    """What lies between the heavy values of a bin, in order."""
    rest = column.within(low, high)
    points = [float(v) for v in heavy if low <= v < high]
    starts = {low, *points}
    if column.step:
        # A heavy whole number is a piece of its own.
        starts |= {v + column.step for v in points if v + column.step < high}
    elif points:
        light = ~np.isin(rest.x, points)
        rest = _Section(rest.x[light], rest.rows[light], 0.0, column.scale)
    return [(rest.within(a, b), a, b) for a, b in pairwise([*sorted(starts), high])]


def _joined(
    values: _Section, heavy: Floats, sections: Sequence[_Interval], fitted: Sequence[_Pieces]
) -> _Pieces:
    """The pieces of a bin, from those of its sections; cuts where these start."""
    share = _PRIOR / len(sections)
    rows = []
    for part, a, b in sections:
        # All that lies on the other side of zero, and holds nothing.
        beyond_zero = not len(part.x) and (a, b) in ((-math.inf, 0.0), (0.0, math.inf))
        prior = _BEYOND if beyond_zero else share
        rows.append(0.0 if _is_point(a, b, values) else part.n + prior)
    low, high = sections[0][1], sections[-1][2]
    at = {}
    if not values.step:
        points = [float(v) for v in heavy if low <= v < high]
        at = {v: float(values.rows[values.x == v].sum()) for v in points}
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


def _fit_sections(sections: Sequence[_Interval]) -> Iterator[_Pieces]:
    """Pieces of each section; what has two ends is fitted at once, which takes far less time."""
    asked = [_closed_parts(*section) for section in sections]
    found = iter(_closed([part for parts in asked for part in parts]))
    for (values, low, high), parts in zip(sections, asked, strict=True):
        fronts = list(zip(parts, islice(found, len(parts)), strict=True))
        if math.isinf(low):
            yield _open(values.mirrored(), -high, fronts).mirrored()
        elif math.isinf(high):
            yield _open(values, low, fronts)
        else:
            yield fronts[0][1]


@dataclass(frozen=True, eq=False)
class _ClosedSection:
    """A section with two ends, or a part of one, out of a bin with ``n`` rows."""

    values: _Section
    low: float
    high: float
    n: float
    prior: float

    @property
    def total(self) -> float:
        return max(self.n - 1.0 + _PRIOR, _PRIOR)


def _closed_parts(values: _Section, low: float, high: float) -> list[_ClosedSection]:
    """A section with two ends; of an open one, what may lie before its tail."""
    if math.isinf(low):
        return _closed_parts(values.mirrored(), -high, math.inf)
    if math.isinf(high):
        return [
            _ClosedSection(values.within(low, end), low, end, values.n, _PRIOR / 2)
            for end in _tail_starts(values, low)
        ]
    return [_ClosedSection(values, low, high, values.n, _PRIOR)]


def _closed(parts: Sequence[_ClosedSection]) -> list[_Pieces]:
    """The best pieces of each: steps, or one piece with a slope."""
    found = [_Pieces((), (1.0,), (0.0,))] * len(parts)
    wide = [k for k, part in enumerate(parts) if not _is_point(part.low, part.high, part.values)]
    lines = [_lines(parts[k].values, parts[k].low, parts[k].high) for k in wide]
    for n_lines in {len(some) for some in lines}:
        alike = [i for i, some in enumerate(lines) if len(some) == n_lines]
        some = [parts[wide[i]] for i in alike]
        steps = _steps(some, np.array([lines[i] for i in alike]))
        for i, part, pieces in zip(alike, some, steps, strict=True):
            found[wide[i]] = max((pieces, *_sloped(part)), key=lambda pieces: pieces.score)
    return found


def _steps(parts: Sequence[_ClosedSection], lines: Floats) -> Iterator[_Pieces]:
    """The best steps: leave-one-out over all ways to cut at the lines, by dynamic programming."""
    given = zip(parts, lines, strict=True)
    count = np.array(
        [np.append(0.0, p.values.rows.cumsum())[p.values.x.searchsorted(at)] for p, at in given]
    )
    rows = count[:, None, :] - count[:, :, None]
    width = (lines[:, None, :] - lines[:, :, None]) / (parts[0].values.step or 1.0)
    prior, total = np.array([(part.prior, part.total) for part in parts]).T[:, :, None, None]
    share = prior * width / width[:, :1, -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        held_out = np.log((np.maximum(rows - 1.0, 0.0) + share) / total / width)
        score = np.where(rows > 0, rows * held_out, 0.0)
    best = np.full(lines.shape, -math.inf)
    per_cut = math.log(lines.shape[1])
    best[:, 0] = per_cut
    last = np.zeros(lines.shape, np.int64)
    for j in range(1, lines.shape[1]):
        so_far = best[:, :j] + score[:, :j, j] - per_cut
        last[:, j] = so_far.argmax(axis=1)
        best[:, j] = so_far.max(axis=1)
    for k, before in enumerate(last):
        if not before[-1]:
            yield _Pieces((), (1.0,), (0.0,), float(best[k, -1]))
            continue
        at = [len(before) - 1]
        while at[0]:
            at.insert(0, int(before[at[0]]))
        found = rows[k, at[:-1], at[1:]] + share[k, at[:-1], at[1:]]
        weights = tuple((found / found.sum()).tolist())
        cuts = tuple(lines[k, at[1:-1]].tolist())
        yield _Pieces(cuts, weights, (0.0,) * len(weights), float(best[k, -1]))


def _lines(values: _Section, low: float, high: float) -> list[float]:
    """Its ends, and where a section may be cut: at equal distances, and with equally many rows."""
    most = min(_LINES, int(values.n / _ROWS_PER_LINE))
    if most < 1 or len(values.x) < 2:
        return [low, high]
    gap, upto = (high - low) / (most + 1), values.rows.cumsum()
    ranks = upto.searchsorted(upto[-1] * np.arange(1, most + 1) / (most + 1)).tolist()
    lines = {k * gap + low for k in range(1, most + 1)}
    lines |= {values.cut_after(min(i, len(values.x) - 2)) for i in ranks}
    apart, ordered = (high - low) * _FLAT, sorted({values.on_grid(line) for line in lines})
    inside = [
        line
        for before, line in pairwise([-math.inf, *ordered])
        if line - before > apart and line - low > apart and high - line > apart
    ]
    return [low, *inside, high]


def _sloped(part: _ClosedSection) -> Iterator[_Pieces]:
    """One piece with a rate of its own, the likeliest."""
    values, n, width = part.values, part.values.n, part.high - part.low
    if n < 2.0 or len(values.x) < 2:
        return
    count = values.size(part.low, part.high) if values.step else 0.0
    mean = float(values.rows @ (values.x - part.low)) / n / width
    turned = _slope(mean, count)
    if abs(turned) < _FLAT:
        return
    steep = math.expm1(-turned / count) if count else turned
    log = math.log(abs(steep)) - turned * mean - math.log(abs(math.expm1(-turned)))
    log += math.log((n - 1.0 + part.prior) / part.total) - (0.0 if count else math.log(width))
    yield _Pieces((), (1.0,), (turned / width,), n * log - 1.0)


def _mean_of_sloped(slope: float, count: float) -> tuple[float, float]:
    """Mean and variance of exp(−slope · u) on [0, 1), or on ``count`` equally far points from 0."""
    if abs(slope) < 1e-6:
        middle, spread = (0.5 - 0.5 / count, 1 / count**2) if count else (0.5, 0.0)
        return middle - slope / 12.0, (1.0 - spread) / 12.0
    up, down = math.expm1(slope), -math.expm1(-slope)
    if not count:
        return 1.0 / slope - 1.0 / up, 1.0 / slope**2 - 1.0 / (up * down)
    step, back = count * math.expm1(slope / count), -count * math.expm1(-slope / count)
    return 1.0 / step - 1.0 / up, 1.0 / (step * back) - 1.0 / (up * down)


def _slope(mean: float, count: float) -> float:
    """The slope that has a mean, between −500 and 500: Newton's steps, halves where these leave."""
    low, high, at = -_STEEP, _STEEP, 0.0
    for _ in range(60):
        found, variance = _mean_of_sloped(at, count)
        low, high = (at, high) if found > mean else (low, at)
        new = at + (found - mean) / variance if variance > 0 else math.nan
        if not low < new < high:
            new = (low + high) / 2
        near, at = abs(new - at) <= _NEAR * max(1.0, abs(at)), new
        if near:
            break
    return at


def _open(
    values: _Section, low: float, fronts: Sequence[tuple[_ClosedSection, _Pieces]]
) -> _Pieces:
    """Pieces from ``low`` on without end: a closed part, perhaps, then a tail that falls."""
    tails = [_with_tail(values, low), *(_with_tail(values, low, *front) for front in fronts)]
    return max(tails, key=lambda pieces: pieces.score)


def _tail_starts(values: _Section, low: float) -> list[float]:
    """Shares of the rows, and beyond the last of them."""
    if not len(values.x):
        return []
    upto = np.cumsum(values.rows)
    ranks = np.searchsorted(upto, upto[-1] * np.array(_TAILS))
    largest = float(values.x[-1])
    room = max((largest - low) / max(values.n, 1.0), values.step, _FLAT * values.scale)
    cuts = [values.cut_after(int(i)) for i in ranks[ranks < len(values.x) - 1]]
    starts = [values.on_grid(cut) for cut in (*cuts, round_number(largest, largest + room))]
    if low < 0 and largest < 0:
        starts.append(0.0)
    width = _FLAT * max(values.scale, abs(low))
    return sorted({start for start in starts if start - low > width})


def _with_tail(
    values: _Section, low: float, front: _ClosedSection | None = None, closed: _Pieces | None = None
) -> _Pieces:
    n, end = values.n, low if front is None else front.high
    tail = values.within(end, math.inf)
    mean = tail.mean_excess(end)
    rate = math.log1p(1.0 / mean) if values.step else 1.0 / mean
    falls = math.log(-math.expm1(-rate)) if values.step else math.log(rate)
    prior = _PRIOR if front is None else _PRIOR / 2
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
    if front is None or closed is None:
        return _Pieces((), (1.0,), last, score)
    score += closed.score - math.log(len(_TAILS) + 3)
    if not (tail.n or bound) and values.rows[-1] <= 1.0 and len(values.x) > 1:
        # Without its one row the largest value would have been in the tail.
        gap = values.size(float(values.x[-2]), float(values.x[-1]))
        score += math.log(prior / total) + falls - rate * gap + math.log(values.size(low, end))
    inside = (front.values.n + _PRIOR / 2) / (n + _PRIOR / 2 + prior)
    weights = (*(w * inside for w in closed.weights), 1.0 - inside)
    return _Pieces((*closed.cuts, end), weights, (*closed.rates, *last), score)
