"""Numbers into bins: heavy values alone, the rest by quantiles or by what they say of the label.

A bin is a half-open interval between two edges; the first and the last are open
ended, so that every number has a bin. Plain quantiles are a trap: where one
value holds most rows they all fall on it, and the column collapses. So a value
with at least 1/bins of the rows gets a bin of its own. And a bin of few rows, whose rate of the
label differs from that of its neighbours by chance, is a trap too: it joins one of them.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, Codes, Floats, Ints
from fairpc.data._column_summary import run_starts

FINE: Final = 64  #: number of quantile bins from which bins are merged with the label
_FINE_ROWS: Final = 30.0  # a fine bin with fewer rows says more about chance than about the label
_LEVEL: Final = 0.05 / FINE  # of the test whether a light bin differs: it was one of so many
_END_LEVEL: Final = 0.01  # of the first and last bin: there are two, and nothing lies beyond
_LIGHT: Final = 0.5  # of the mean weight of a bin, heavy values left out
_DAY: Final = 86_400_000_000
_PARTS: Final = (3_600_000_000, 60_000_000, 1_000_000)  # of a day: an hour, a minute, a second
_TRIED: Final = 10  # multiples of a step on either side
_ROUNDING: Final = 1e-9  # people, by sums of weights
_PART: Final = 50.0  # of the kept range: as far beyond it may the ends be
_NARROW: Final = 2.0**-23  # a number of 32 bits is as near to one of 64


@dataclass(frozen=True, eq=False)
class Atoms:
    """Distinct values of a column, ascending, with their weight."""

    values: Floats  #: float64
    weights: Floats  #: total weight of the rows with each value
    classes: Floats | None = None  #: weight per value and class of the label, or None
    integral: bool = False  #: all values are whole numbers
    date: bool = False  #: values are microseconds since 1970

    @cached_property
    def single(self) -> bool:
        """Whether the values are what a column of 32-bit numbers holds."""
        with np.errstate(over="ignore"):
            return bool((self.values.astype(np.float32) == self.values).all())


@dataclass
class _Bins:
    """Runs of atoms: ``start[i]`` is the first atom of bin i; ``alone`` marks heavy values."""

    start: list[int]
    weight: list[float]
    alone: list[bool]
    classes: list[Floats]

    def merge(self, i: int) -> None:
        """Join bins i and i + 1."""
        self.weight[i] += self.weight[i + 1]
        self.alone[i] = False
        self.classes[i] = self.classes[i] + self.classes[i + 1]
        for part in (self.start, self.weight, self.alone, self.classes):
            del part[i + 1]

    def lighter_pair(self, i: int, apart: Sequence[bool] = ()) -> int | None:
        """The first of bin i and its lighter neighbour; none of them is one of those ``apart``."""
        sides = [j for j in (i - 1, i + 1) if 0 <= j < len(self.start)]
        if apart:
            sides = [j for j in sides if not (apart[i] or apart[j])]
        return min(i, min(sides, key=lambda j: (self.weight[j], j))) if sides else None


def choose_edges(atoms: Atoms, n_bins: int, rare: float, min_cell: int) -> tuple[float, ...]:
    """Edges of about ``n_bins`` bins, none with less than a share ``rare`` of the weight.

    None has a weight under ``min_cell``; there are no edges where that leaves one bin.

    With classes, quantile bins finer than asked are merged, neighbour by neighbour, where the
    merger loses least information about the class (ChiMerge with the mutual information as its
    distance). Then light bins are merged that do not differ from a neighbour.
    """
    total = float(atoms.weights.sum())
    heavy = atoms.weights * n_bins >= total
    rest = float(atoms.weights[~heavy].sum())
    left = max(n_bins - int(heavy.sum()), 1)
    light = _LIGHT * rest / left
    supervised = atoms.classes is not None
    if supervised:
        left = max(left, min(FINE, int(rest / _FINE_ROWS)))
    bins = _runs(atoms, heavy, left)
    _merge_small(bins, rare * total)
    if supervised:
        _merge_by_class(bins, n_bins)
        _merge_light(bins, light)
    _merge_few(bins, min_cell)
    return _edges(atoms, bins, min_cell)


def distinct_edges(atoms: Atoms, rare: float, min_cell: int) -> tuple[float, ...]:
    """Edges that leave each value its bin, except that rare values join a neighbour."""
    bins = _runs(atoms, np.zeros(len(atoms.values), np.bool_), len(atoms.values))
    _merge_small(bins, rare * float(atoms.weights.sum()))
    _merge_few(bins, min_cell)
    return _edges(atoms, bins, min_cell)


def merged_bins(classes: Floats, n_bins: int) -> Ints:
    """Of bins, with a weight per class, which of about ``n_bins`` each joins; as by edges."""
    n = len(classes)
    bins = _Bins(list(range(n)), classes.sum(axis=1).tolist(), [False] * n, list(classes))
    _merge_by_class(bins, n_bins)
    return np.searchsorted(bins.start, np.arange(n), side="right") - 1


def bin_codes(edges: tuple[float, ...], data: npt.NDArray[np.generic]) -> Codes:
    """Bin of each number; -1 for NaN."""
    if len(edges) <= 32:
        # For so few edges, comparing with each is several times faster than a search.
        numbers = data.astype(np.float64, copy=False)
        below = np.zeros(len(numbers), np.int8)
        for edge in edges:
            below += (numbers >= edge).view(np.int8)
        codes = below.astype(np.int16)
    else:
        codes = np.searchsorted(np.asarray(edges), data, side="right").astype(np.int16)
    if data.dtype.kind == "f":
        codes[np.isnan(data)] = -1
    return codes


def bin_labels(edges: tuple[float, ...], *, integral: bool, date: bool) -> tuple[str, ...]:
    """A readable name per bin: "< 25", "[25, 45)", "≥ 45"; a bin of one value is that value."""
    if not edges:
        return ("any",)
    shown = [(edge, *_shown_edge(edge, date, short=True)) for edge in edges]
    if len({(words, after) for _, words, after in shown}) < len(shown):
        # In a column of 64-bit numbers two edges may be one number of 32 bits.
        shown = [(edge, *_shown_edge(edge, date, short=False)) for edge in edges]
    (_, first, after_first), (_, last, after_last) = shown[0], shown[-1]
    labels = [f"≤ {first}" if after_first else f"< {first}"]
    for (low, a, after_a), (high, b, after_b) in pairwise(shown):
        if not date and not after_a and (b == a or (integral and high == low + 1)):
            labels.append(a)
        else:
            labels.append(f"{'(' if after_a else '['}{a}, {b}{']' if after_b else ')'}")
    return (*labels, f"> {last}" if after_last else f"≥ {last}")


def value_label(value: float, *, date: bool) -> str:
    """A number or an instant as a reader would write it."""
    return _instant(value) if date else _number(value)


def _shown_edge(edge: float, date: bool, short: bool) -> tuple[str, bool]:
    """An edge in words, and whether it lies just above the number that these show."""
    if date:
        return _instant(edge), False
    below, exact = _number(float(np.nextafter(edge, -math.inf)), short), _number(edge, short)
    return (below, True) if len(below) < len(exact) else (exact, False)


def _number(value: float, short: bool = True) -> str:
    """The fewest digits that tell a number from others; ``short``: of its own precision."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return str(single) if short and float(single) == value else repr(value)


def _instant(value: float) -> str:
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
    except OverflowError:  # before the year 1, or after 9999
        return str(np.datetime64(int(value), "us")) if abs(value) < 2**63 else repr(value)
    midnight = moment.time() == dt.time()
    return moment.date().isoformat() if midnight else moment.isoformat(sep=" ")


def _runs(atoms: Atoms, heavy: Bools, n_bins: int) -> _Bins:
    """Quantile bins, or one per value if these are few; a heavy value parts its neighbours."""
    light = np.where(heavy, 0.0, atoms.weights)
    total = float(light.sum())
    middle = np.cumsum(light) - light / 2
    part = np.arange(len(light))
    if len(light) > n_bins and total > 0:
        part = np.floor(n_bins * middle / total)
    start = run_starts(part, heavy)
    classes = atoms.classes if atoms.classes is not None else np.zeros((len(light), 1))
    return _Bins(
        start.tolist(),
        np.add.reduceat(atoms.weights, start).tolist(),
        heavy[start].tolist(),
        list(np.add.reduceat(classes, start, axis=0)),
    )


def _merge_lightest(bins: _Bins, least: float, pair: Callable[[int], int | None]) -> None:
    """Join light bins, the lightest first, where ``pair`` names a pair; two are always left."""
    while len(bins.start) > 2:
        order = np.argsort(bins.weight, kind="stable").tolist()
        pairs = (pair(i) for i in order if bins.weight[i] < least)
        first = next((i for i in pairs if i is not None), None)
        if first is None:
            return
        bins.merge(first)


def _merge_small(bins: _Bins, least: float) -> None:
    """Join bins lighter than ``least`` to the lighter neighbour that is not a heavy value."""
    _merge_lightest(bins, least, lambda i: bins.lighter_pair(i, bins.alone))


def _merge_few(bins: _Bins, least: float) -> None:
    """Join bins lighter than ``least`` to the lighter neighbour, be it a heavy value."""
    while min(bins.weight) < least:
        pair = bins.lighter_pair(int(np.argmin(bins.weight)))
        if pair is None:
            return
        bins.merge(pair)


def _merge_by_class(bins: _Bins, n_bins: int) -> None:
    """Join the neighbours that differ least in class until ``n_bins`` are left."""
    losses = [_loss(bins, i) for i in range(len(bins.start) - 1)]
    while len(bins.start) > n_bins:
        i = int(np.argmin(losses))
        if math.isinf(losses[i]):
            return
        bins.merge(i)
        del losses[i]
        for j in (i - 1, i):
            if 0 <= j < len(losses):
                losses[j] = _loss(bins, j)


def _merge_light(bins: _Bins, least: float) -> None:
    """Join light bins to the neighbour that they differ least from, by a likelihood-ratio test."""
    from scipy.special import chdtri

    n_classes = int(np.count_nonzero(np.sum(bins.classes, axis=0)))
    inside, at_end = (float(chdtri(max(n_classes - 1, 1), p)) / 2 for p in (_LEVEL, _END_LEVEL))

    def most_alike(i: int) -> int | None:
        sides = [j for j in (i - 1, i) if 0 <= j < len(bins.start) - 1]
        loss, j = min((_loss(bins, j), j) for j in sides)
        return j if loss < (inside if len(sides) == 2 else at_end) else None

    _merge_lightest(bins, least, most_alike)


def _loss(bins: _Bins, i: int) -> float:
    """Information about the class, in nats, that is lost when bins i and i + 1 are joined."""
    if bins.alone[i] or bins.alone[i + 1]:
        return math.inf
    a, b = bins.classes[i], bins.classes[i + 1]
    return _entropy(a + b) - _entropy(a) - _entropy(b)


def _entropy(counts: Floats) -> float:
    """Entropy of counts times their total."""
    some = counts[counts > 0]
    total = float(some.sum())
    return total * math.log(total) - float(np.dot(some, np.log(some))) if total > 0 else 0.0


def _edges(atoms: Atoms, bins: _Bins, min_cell: int) -> tuple[float, ...]:
    """An edge between each two bins: tight around heavy values, elsewhere a round number."""
    values, people, edges = atoms.values, np.append(0.0, np.cumsum(atoms.weights)), list[float]()
    start, first = [*bins.start, len(values)], 0  # atom from which on people are above the last cut
    for i, at in enumerate(start[1:-1], 1):
        below, above = float(values[at - 1]), float(values[at])
        if bins.alone[i]:
            edge = _lower_edge(atoms, below, above)
        elif atoms.date and bins.alone[i - 1]:
            edge = _round_instant(below, min(above, below + _DAY))
        elif bins.alone[i - 1]:
            edge = below + 1 if atoms.integral else _upper_edge(atoms, below, above)
        else:
            # Neither bin is left with fewer people, nor is a bin of one heavy value cut.
            room = float(people[start[i + 1]] - people[at]) - min_cell
            low = _reaching(people, at, -min_cell) if atoms.weights[at - 1] < min_cell else at - 1
            low = max(low, _reaching(people, first, min_cell))
            high = at
            if atoms.weights[at] < min_cell and room > 0:
                high = max(_reaching(people, at, min(min_cell, room)), at)
            edge = _round_cut(atoms, min(low, at - 1), at, high, min_cell)
        first = int(np.searchsorted(values, edge))
        edges.append(edge)
    return tuple(edges)


def kept_ends(atoms: Atoms, min_cell: int) -> tuple[float, float]:
    """The least and the greatest number that ``min_cell`` people reach, or a round one beyond.

    Neither tells how far out fewer people are, nor the number of one of them.
    """
    values, people = atoms.values, np.cumsum(atoms.weights)
    i, j = np.searchsorted(people, [min_cell - _ROUNDING, people[-1] - min_cell + _ROUNDING])
    i, j = (int(k) for k in np.minimum([i, j], len(values) - 1))
    room = max(float(values[j] / _PART - values[i] / _PART), float(atoms.integral)) or 1.0

    def outside(value: float) -> float:
        return round_number(value, min(value + room, sys.float_info.max))

    low, high = float(values[i]), float(values[j])
    few = atoms.weights[[i, j]] < min_cell - _ROUNDING
    return -outside(-low) if few[0] else low, outside(high) if few[1] else high


def _reaching(people: Floats, at: int, n: float) -> int:
    """The atom with which those from ``at`` on, or down from it, are ``n`` people."""
    if n > 0:
        return min(int(np.searchsorted(people, people[at] + n - _ROUNDING)), len(people) - 1) - 1
    return max(int(np.searchsorted(people, people[at] + n + _ROUNDING, side="right")) - 1, 0)


def _lower_edge(atoms: Atoms, below: float, value: float) -> float:
    """The edge under a heavy value, which is above it in 32 bits too, and as people write it."""
    if atoms.integral or atoms.date:
        return value
    edge = min(value, *_spellings(value, atoms.single))
    return edge if edge > max(below, *_spellings(below)) else value


def _upper_edge(atoms: Atoms, value: float, above: float) -> float:
    """The edge over a heavy value, as :func:`_lower_edge`."""
    edge = float(np.nextafter(max(value, *_spellings(value, atoms.single)), math.inf))
    return edge if edge <= min(above, *_spellings(above)) else float(np.nextafter(value, math.inf))


def _spellings(value: float, single: bool = False) -> tuple[float, ...]:
    """A number as one of 32 bits; of such a one, what a person writes, too."""
    with np.errstate(over="ignore"):
        narrow = float(np.float32(value))
    if not math.isfinite(narrow):
        return (value,)
    return (narrow, _short(value)) if single else (narrow,)


def _round_cut(atoms: Atoms, low: int, at: int, high: int, min_cell: int) -> float:
    """A round number between atom ``low`` and atom ``high``, near ``at`` and the one below it.

    Who knows the rule learns of these atoms that they enclose the number: where values are of few
    people they enclose some. It is the value of none of them, nor so close to one that it changes
    side in 32 bits, where there is room.
    """
    values, few = atoms.values[low : high + 1], atoms.weights[low : high + 1] < min_cell
    below, above = float(values[0]), float(values[-1])
    nearest = below + (above - below) / 2 if few[[at - 1 - low, at - low]].any() else above
    whole = atoms.integral or atoms.date
    kept = values if not whole else values[few]  # that a cut does not lie on
    for step in _instants() if atoms.date else _steps_of(values, whole):
        middle = math.floor(nearest / step)
        numbers = sorted(
            (_multiple(middle + k, step) for k in range(-_TRIED, _TRIED + 1)),
            key=lambda number: (abs(number - nearest), number),
        )
        for number in numbers:
            inside = below < number <= above and number not in kept
            if inside and (whole or _robust(values, number)):
                return number
    half = below + (above - below) / 2
    if not whole and below < half < above and half not in kept:
        return half
    # Neighbours with no number between them, or whole numbers that all have few people.
    return _round_instant(below, above) if atoms.date else round_number(below, above)


def _robust(values: Floats, cut: float) -> bool:
    """Whether all values are on their side of a cut in 32 bits, too."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32).astype(np.float64)
    far = np.maximum(np.abs(values - cut), np.abs(narrow - cut)) > _NARROW * abs(cut)
    return bool(np.all(((values >= cut) == (narrow >= cut)) & far))


def _steps_of(values: Floats, whole: bool) -> Iterator[float]:
    """Powers of ten from the size of the values down; 1 is the least for whole numbers."""
    largest = float(np.abs(values).max())
    start = math.floor(math.log10(largest)) + 1 if largest > 0 else 0
    for exponent in range(min(start, sys.float_info.max_10_exp), start - 18, -1):
        if (step := 10.0**exponent) > 0 and not (whole and exponent < 0):
            yield step


def _instants() -> tuple[float, ...]:
    return tuple(map(float, (_DAY, *_PARTS)))


def _multiple(k: int, step: float) -> float:
    """A multiple of a power of ten, or of a part of a day, without an error of rounding."""
    return float(f"{k}e{round(math.log10(step))}") if step < 1 else float(k * step)


def _short(value: float) -> float:
    """The number that a person writes for one of 32 bits: 3.2 for 3.200000047683716."""
    return float(str(np.float32(value)))


def round_number(below: float, above: float) -> float:
    """The number with the fewest digits in (below, above]."""
    largest = max(abs(below), abs(above))
    start = math.floor(math.log10(largest)) + 1 if largest > 0 else 0
    for exponent in range(min(start, sys.float_info.max_10_exp), start - 18, -1):
        step = 10.0**exponent
        if step == 0:
            continue
        multiple = math.floor(above / step)
        if multiple * step < below - 1e-9 * largest:
            continue  # a rounded product tells most of them apart, and faster than text
        candidate = float(f"{multiple}e{exponent}")
        if below < candidate <= above:
            return candidate
    return above


def _round_instant(below: float, above: float) -> float:
    """Midnight, or else the full hour, minute or second, in (below, above]."""
    for step in (_DAY, *_PARTS):
        candidate = above - above % step
        if candidate > below:
            return candidate
    return above
