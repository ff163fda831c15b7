"""Mechanisms of several groups that rates over strata leave possible: lines, and a grid.

If P(D = 1 | s, a) = b0s + (b1s − b0s) π_a, the rates of two groups lie on a rising line over the
strata, ρ_sa = α + β ρ_0a, and b0s = α + β b00, b1s = α + β b10. Both rates of a stratum are
estimated. The statistic of a line is

    Q(α, β) = Σ_a (ρ_sa − α − β ρ_0a)² / (v_sa + β² v_0a),   v the variances of the rates.

A line is kept if Q exceeds the least Q of all rising lines by no more than chance does. How much
that is depends on how far the strata differ: χ² with two degrees of freedom if they differ much,
with one per stratum if they do not differ at all. So the limit of a slope is simulated, given
what the rates say about how far the strata differ if this slope is the true one: the conditional
likelihood ratio of Moreira (2003, Econometrica 71), here for errors in both variables. The least
Q itself tests whether there is a line; χ² with two degrees of freedom less than strata bounds it
however little they differ (Guggenberger et al. 2012, Econometrica 80).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from fairpc.core import Bools, Floats, Positions, few_labels
from fairpc.evidence._intervals import Interval, Sample, rate_sample, some_of
from fairpc.evidence._top_sets import ClassRates, top_rate

SLOPES: Final = 200
NEAR_SLOPES: Final = 300
WIDE: Final = 7.0
"""Slopes that are looked at: all over, and within so many standard errors of the best one."""
DRAWS: Final = 1000
TRIED: Final = 20
"""Tables that are drawn for a limit, and slopes that are tried in each, all over and near by."""
GRID: Final = 41
COARSE_GRID: Final = 15
"""Values of b00 and of b10 that are looked at; fewer for a p-value."""
ZOOMS: Final = 2
INFORMATIVE: Final = 20
"""Rows that each group needs in a stratum for it to inform a line."""
FOR_BOUNDS: Final = 0.5
FOR_FIT: Final = 0.1
"""Shares of the error for the ends of all groups and for whether there is a line; the rest is for
which line it is."""
_ANGLES: Final = np.linspace(0.002, math.pi / 2 - 0.002, SLOPES)
_CLOSE: Final = 1e-3
"""b1 is larger than b0 by this at least."""


Box = tuple[Interval, Interval]
"""Ranges of b0 and of b1."""


@dataclass(frozen=True, eq=False)
class Line:
    """Lines of one group against the reference, for many slopes β."""

    n_strata: int  #: that inform it
    slope: Floats  #: of each line, increasing
    intercept: Floats  #: the α with the least statistic
    least: Floats  #: that statistic
    curvature: Floats  #: by which it grows with the square of the distance from this α
    null_slope: Floats  #: slopes that were simulated
    #: for each of them [slope, draw], in sorted order, by how much the statistic of the true line
    #: exceeds the least one
    null_excess: Floats

    @property
    def misfit(self) -> float:
        """The least statistic of all rising lines."""
        return float(self.least.min())

    @property
    def p_value(self) -> float | None:
        """Smallest level at which rates lie on no rising line; None for under three strata."""
        from scipy.stats import chi2

        return float(chi2.sf(self.misfit, self.n_strata - 2)) if self.n_strata > 2 else None

    def limit(self, alpha: float) -> Floats:
        """Per slope, what the excess of the true line is above with probability alpha at most."""
        from scipy.stats import chi2

        most = float(chi2.isf(alpha, self.n_strata))
        if self.n_strata <= 2:
            return np.full(len(self.slope), most)
        # Beyond what draws can tell, the tail of the widest case.
        within_draws = max(alpha, 20 / DRAWS)
        found = np.quantile(self.null_excess, 1 - within_draws, axis=1)
        found = found + (most - float(chi2.isf(within_draws, self.n_strata)))
        found = np.clip(found, float(chi2.isf(alpha, 2)), most)
        return np.interp(np.arctan(self.slope), np.arctan(self.null_slope), found)


def lines(rates: Floats, variances: Floats) -> Line:
    """Lines through rates [reference and other, stratum], most of them near to the best."""
    coarse = np.tan(_ANGLES)
    best = float(coarse[np.argmin(_fit(rates, variances, coarse)[1])])
    for _ in range(2):  # its error is that of the best slope, which is better known after a look
        near = _near(rates, variances, best, NEAR_SLOPES)
        best = float(near[np.argmin(_fit(rates, variances, near)[1])])
    slopes = np.unique(np.concatenate([coarse, near]))
    fitted = _fit(rates, variances, slopes)
    nulls = np.unique(np.concatenate([coarse[:: SLOPES // 4], near[:: NEAR_SLOPES // 6]]))
    if rates.shape[1] > 2:
        excess = np.stack([_null_excess(rates, variances, slope) for slope in nulls.tolist()])
    else:
        excess = np.zeros((len(nulls), 1))
    return Line(rates.shape[1], slopes, *fitted, nulls, excess)


def best_line(rates: Floats, n: Floats) -> tuple[float, float]:
    """Intercept and slope of the rising line with the least statistic, of rates from n rows."""
    from scipy.optimize import minimize_scalar

    variances = rate_variances(rates, n)
    fitted = lines(rates, variances)
    i = int(np.argmin(fitted.least))
    around = np.arctan(fitted.slope[[max(i - 1, 0), min(i + 1, len(fitted.slope) - 1)]])

    def statistic(angle: float) -> float:
        return float(_fit(rates, variances, np.array([math.tan(angle)]))[1][0])

    found = minimize_scalar(statistic, bounds=around, method="bounded", options={"xatol": 1e-12})
    slope = math.tan(found.x)
    return float(_fit(rates, variances, np.array([slope]))[0][0]), slope


def rate_variances(rates: Floats, n: Floats) -> Floats:
    """Of rates from n rows each; shrunk a little, because rates of 0 and 1 are not certain."""
    shrunk = (rates * n + 1) / (n + 2)
    return np.asarray(shrunk * (1 - shrunk) / n, np.float64)


def _fit(rates: Floats, variances: Floats, slopes: Floats) -> tuple[Floats, Floats, Floats]:
    """Per slope the best intercept, its statistic and its curvature; of many rates [2, …, a]."""
    weight = 1 / (variances[1] + np.square(slopes)[:, None] * variances[0])
    gap = rates[1][..., None, :] - slopes[:, None] * rates[0][..., None, :]
    total = weight.sum(axis=-1)
    intercept = (weight * gap).sum(axis=-1) / total
    least = (weight * np.square(gap - intercept[..., None])).sum(axis=-1)
    return intercept, least, total


def _near(rates: Floats, variances: Floats, slope: float, n: int) -> Floats:
    """Slopes around one, as far as its standard error lets the true one lie; all if it is weak."""
    weight = 1 / (variances[1] + slope * slope * variances[0])
    # Along the line errors are smaller than those of either rate.
    along = (rates[0] * variances[1] + slope * rates[1] * variances[0]) * weight
    spread = float((weight * np.square(along - np.average(along, weights=weight))).sum())
    error = 1 / math.sqrt(max(spread, 1e-12)) / (1 + slope * slope)
    middle = math.atan(slope)
    ends = max(middle - WIDE * error, _ANGLES[0]), min(middle + WIDE * error, _ANGLES[-1])
    return np.tan(np.linspace(*ends, n))


def _null_excess(rates: Floats, variances: Floats, slope: float) -> Floats:
    """Q of the true line less the least Q, sorted, in tables with its slope and these strata.

    Under a line, ρ_sa − α − β ρ_0a is independent of the best estimate of ρ_0a. The second is
    kept, the first is drawn.
    """
    intercept = float(_fit(rates, variances, np.array([slope]))[0][0])
    total = variances[1] + slope * slope * variances[0]
    along = (rates[0] * variances[1] + slope * (rates[1] - intercept) * variances[0]) / total
    noise = _normal(rates.shape[1])
    drawn = np.stack(
        [
            along - slope * variances[0] / np.sqrt(total) * noise,
            intercept + slope * along + variances[1] / np.sqrt(total) * noise,
        ]
    )
    all_over = np.tan(_ANGLES[:: SLOPES // TRIED])
    tried = np.concatenate([all_over, _near(rates, variances, slope, TRIED)])
    least = _fit(drawn, variances, tried)[1].min(axis=1)
    return np.sort(np.maximum(np.square(noise).sum(axis=1) - least, 0.0))


@lru_cache(maxsize=32)
def _normal(n_strata: int) -> Floats:
    """The same draws for every table, so that results repeat."""
    return np.random.default_rng(n_strata).normal(size=(DRAWS, n_strata))


@dataclass(frozen=True, eq=False)
class Region:
    """Which mechanisms are possible."""

    b00: Floats  #: values of the reference group that were looked at
    b10: Floats
    #: per pair of them, [b00, b10], the statistic of the best line in units of its limit, of the
    #: group where that is largest: up to 1 is possible
    distance: Floats
    ranges: tuple[Box, ...]  #: of each group, over all that is possible; empty if nothing is

    @property
    def empty(self) -> bool:
        return bool(self.distance.min() > 1)

    @property
    def area(self) -> float:
        """Of the possible (b00, b10)."""
        whole = float((self.b00[-1] - self.b00[0]) * (self.b10[-1] - self.b10[0]))
        return whole * float((self.distance <= 1).mean())

    def holds(self, b00: float, b10: float) -> bool:
        """Whether a mechanism of the reference is possible: a corner of its cell of the grid is."""
        at = []
        for values, value in ((self.b00, b00), (self.b10, b10)):
            if not values[0] <= value <= values[-1]:
                return False
            after = min(int(np.searchsorted(values, value)), len(values) - 1)
            at.append(slice(max(after - 1, 0), after + 1))
        return bool((self.distance[at[0], at[1]] <= 1).any())

    def outline(self) -> tuple[tuple[float, float], ...]:
        """Corners (b00, b10) of a polygon around all that is possible, to be drawn; none if empty.

        Along b00 by the least possible b10 of each, and back by the largest.
        """
        possible = self.distance <= 1
        there = np.flatnonzero(possible.any(axis=1)).tolist()
        pairs = [(float(self.b00[i]), self.b10[possible[i]]) for i in there]
        least = [(b00, float(b10.min())) for b00, b10 in pairs]
        most = [(b00, float(b10.max())) for b00, b10 in reversed(pairs)]
        return tuple(least + most)


@dataclass(frozen=True, eq=False)
class LineLimits:
    """What bounds a mechanism at some level."""

    b0: Floats  #: the largest b0 of each group
    b1: Floats  #: the least b1 of each group
    excess: tuple[Floats, ...]  #: of each line, per slope, the largest excess over the least one
    misfit: Floats  #: of each line, the largest least statistic


Cells = tuple[tuple[Sample | None, ...], ...]
"""Rates by group and stratum; None where there are no rows."""


def cell_rates(
    hits: Floats,
    groups: Positions,
    strata: Positions,
    shape: tuple[int, int],
    weights: Floats | None,
    persons: Positions | None,
) -> Cells:
    """The rate of hits in each group and stratum."""

    def rate(s: int, a: int) -> Sample | None:
        here = np.flatnonzero((groups == s) & (strata == a))
        if not len(here):
            return None
        return rate_sample(hits[here], some_of(weights, here), some_of(persons, here))

    return tuple(tuple(rate(s, a) for a in range(shape[1])) for s in range(shape[0]))


def without_few_rates(
    cells: Sequence[Sample | None], rate: float, min_cell: int
) -> tuple[Sample | None, ...]:
    """Strata of a group that inform no line, with its rate in place of one of few people."""

    def shown(cell: Sample | None) -> Sample | None:
        if cell is None or cell.size >= INFORMATIVE:
            return cell
        hits = np.array([cell.mean * cell.size])
        few = few_labels(hits, cell.size - hits, min_cell)[0]
        return replace(cell, mean=rate, variance=rate * (1 - rate) / cell.size) if few else cell

    return tuple(map(shown, cells))


def cell_counts(cells: Cells) -> tuple[Floats, Floats]:
    """Effective rows and rates, [s, a]; no rows, no rate."""
    n = [[0.0 if c is None else c.size for c in own] for own in cells]
    rates = [[math.nan if c is None else c.mean for c in own] for own in cells]
    return np.array(n), np.array(rates)


@dataclass(frozen=True, eq=False)
class CountedStrata:
    """What was counted: rates by group and stratum, and top sets of each group by seed."""

    n: Floats  #: effective rows [s, a]
    rates: Floats  #: [s, a]
    tops: Sequence[Sequence[tuple[ClassRates, ClassRates]]]  #: [s][seed]: other, positive

    @cached_property
    def lines(self) -> tuple[Line | None, ...]:
        """Of each group but the first, the reference; None where no stratum informs them."""
        found: list[Line | None] = []
        for s, kept in enumerate(self.informed, start=1):
            n, rates = self.n[[0, s]][:, kept], self.rates[[0, s]][:, kept]
            found.append(lines(rates, rate_variances(rates, n)) if kept.any() else None)
        return tuple(found)

    @property
    def known_lines(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line is not None)

    def region(self, level: float) -> Region:
        """The confidence set of the mechanism."""
        return region(self.known_lines, self.limits(1 - level, self.known_lines))

    @property
    def informed(self) -> Bools:
        """Which strata inform the line of each group but the first, [s − 1, a]."""
        return np.asarray((self.n[0] >= INFORMATIVE) & (self.n[1:] >= INFORMATIVE), np.bool_)

    def top_rates(self, s: int) -> Interval:
        """Medians of the rates of D = positive in the bottom and in the top set of a group."""
        tops = [
            [r.whole.mean if r.top is None else r.top.mean for r in pair] for pair in self.tops[s]
        ]
        other, positive = np.median(tops, axis=0).tolist()
        return 1 - other, positive

    def limits(self, alpha: float, each: tuple[Line, ...]) -> LineLimits:
        """Bounds that are all right together with probability 1 − alpha."""
        from scipy.stats import chi2

        tail = FOR_BOUNDS * alpha / (2 * len(self.n))
        b0, b1 = np.empty((2, len(self.n)))
        for s, seeds in enumerate(self.tops):
            lows = [[top_rate(rates, tail) for rates in pair] for pair in seeds]
            other, positive = np.median(lows, axis=0)
            b0[s], b1[s] = 1 - other, positive
        share = alpha / max(len(each), 1)
        excess, misfit = [], np.full(len(each), math.inf)
        for i, line in enumerate(each):
            # Two points always lie on a line.
            fit = FOR_FIT * share if line.n_strata > 2 else 0.0
            excess.append(line.limit((1 - FOR_BOUNDS) * share - fit))
            if fit:
                misfit[i] = chi2.isf(fit, line.n_strata - 2)
        return LineLimits(b0, b1, tuple(excess), misfit)


def region(each: tuple[Line, ...], limits: LineLimits) -> Region:
    """The possible mechanisms, looked at again where something is possible or nearest to it."""
    each, limits = _possible_slopes(each, limits)
    *_, (grid, distance, found) = _looks(each, limits, GRID)
    return _described(each, limits, grid, distance, found)


def nothing_possible(each: tuple[Line, ...], limits: LineLimits) -> bool:
    """Whether no mechanism is possible, as far as a few points tell."""
    looks = _looks(*_possible_slopes(each, limits), COARSE_GRID)
    return not any((distance <= 1).any() for _, distance, _ in looks)


def _possible_slopes(
    each: tuple[Line, ...], limits: LineLimits
) -> tuple[tuple[Line, ...], LineLimits]:
    """The slopes that are possible with some α: no mechanism is with any other."""
    names = ("slope", "intercept", "least", "curvature")
    some, kept = [], []
    for line, excess in zip(each, limits.excess, strict=True):
        at = line.least - line.misfit <= excess
        some.append(replace(line, **{name: getattr(line, name)[at] for name in names}))
        kept.append(excess[at])
    return tuple(some), replace(limits, excess=tuple(kept))


_Grid = tuple[Floats, Floats]
_AlphaRanges = list[tuple[Floats, Floats, Floats]]


def _looks(
    each: tuple[Line, ...], limits: LineLimits, n_values: int
) -> Iterator[tuple[_Grid, Floats, _AlphaRanges]]:
    """Values of b00 and b10, and how far each pair is from being possible: of all values, then of
    those around what is possible or nearest to it."""
    b00 = np.linspace(0.0, max(float(limits.b0[0]), 0.0), n_values)
    b10 = np.linspace(min(float(limits.b1[0]), 1.0), 1.0, n_values)
    for _ in range(1 + ZOOMS):
        distance, ranges = _distances(each, limits, b00, b10)
        yield (b00, b10), distance, ranges
        nearest = float(distance.min())
        if not math.isfinite(nearest):
            return
        i, j = np.nonzero(distance <= max(1.0, 1.02 * nearest))
        b00, b10 = _zoomed(b00, i), _zoomed(b10, j)


def _zoomed(values: Floats, at: Positions) -> Floats:
    """As many values around those at some places."""
    start, stop = max(int(at.min()) - 1, 0), min(int(at.max()) + 1, len(values) - 1)
    return np.linspace(values[start], values[stop], len(values))


def looked_at(each: tuple[Line, ...], limits: LineLimits, b00: Floats, b10: Floats) -> Region:
    """Which pairs of these values are possible."""
    return _described(each, limits, (b00, b10), *_distances(each, limits, b00, b10))


def _distances(
    each: tuple[Line, ...], limits: LineLimits, b00: Floats, b10: Floats
) -> tuple[Floats, _AlphaRanges]:
    """How far pairs of these values are from being possible, up to 1 where they are.

    With it of each line, per pair and slope, the least and the largest α, and the distance.
    """
    low, high = b00[:, None, None], b10[None, :, None]
    distance = np.where(high[..., 0] - low[..., 0] >= _CLOSE, 0.0, math.inf)
    ranges = []
    for s, (line, excess) in enumerate(zip(each, limits.excess, strict=True), start=1):
        rise, start = line.slope * (high - low), line.slope * low
        # α at which 0 ≤ b0s ≤ its limit, and its limit ≤ b1s ≤ 1.
        least = np.maximum(0.0, limits.b1[s] - rise) - start
        most = np.minimum(limits.b0[s], 1 - rise) - start
        alpha = np.clip(line.intercept, least, most)
        value = line.least - line.misfit + line.curvature * np.square(alpha - line.intercept)
        value = np.where(least <= most, value / excess, math.inf)
        misfit = line.misfit / float(limits.misfit[s - 1])
        distance = np.maximum(distance, np.maximum(value.min(axis=2), misfit))
        ranges.append((least, most, value))
    return distance, ranges


def _described(
    each: tuple[Line, ...], limits: LineLimits, grid: _Grid, distance: Floats, alphas: _AlphaRanges
) -> Region:
    """The region of pairs that are possible, and what it leaves of every group's mechanism."""
    b00, b10 = grid
    possible = distance <= 1
    if not possible.any():
        return Region(b00, b10, distance, ())
    i, j = np.nonzero(possible)
    ranges = [(_span(b00[i]), _span(b10[j]))]
    for line, excess, (least, most, value) in zip(each, limits.excess, alphas, strict=True):
        i, j, k = np.nonzero(possible[:, :, None] & (value <= 1))
        left = excess[k] - (line.least[k] - line.misfit)
        room = np.sqrt(np.maximum(left, 0.0) / line.curvature[k])
        alpha = np.stack(
            [
                np.maximum(least[i, j, k], line.intercept[k] - room),
                np.minimum(most[i, j, k], line.intercept[k] + room),
            ]
        )
        own = (_span(alpha + line.slope[k] * b[at]) for b, at in ((b00, i), (b10, j)))
        ranges.append((next(own), next(own)))
    return Region(b00, b10, distance, tuple(ranges))


def reference_ranges(lines: Floats, limits: Floats) -> Box:
    """b00 and b10 that all groups leave to the reference, of exact lines; low > high is empty.

    ``lines`` are α and β of each group, ``limits`` its least b0, m, M and its largest b1.
    """
    moved = (limits - lines[:, :1]) / lines[:, 1:]
    return (
        (float(moved[:, 0].max()), float(moved[:, 1].min())),
        (float(moved[:, 2].max()), float(moved[:, 3].min())),
    )


def mapped(lines: Floats, reference: Box) -> tuple[Box, ...]:
    """The box of each group, from that of the reference."""
    ends = lines[:, :1] + lines[:, 1:] * np.array([*reference[0], *reference[1]])
    return tuple(((a, b), (c, d)) for a, b, c, d in ends.tolist())


def scores_within(low: Floats, high: Floats, box: Box) -> tuple[Floats, Floats]:
    """Least and largest q = (r − b0) / (b1 − b0) of rows whose r lies from low to high.

    It falls in b0 and in b1, so that its bounds are at the ends of both.
    """
    (b0_least, b0_most), (b1_least, b1_most) = box
    least = np.clip((low - b0_most) / (b1_most - b0_most), 0.0, 1.0)
    return least, np.clip((high - b0_least) / (b1_least - b0_least), 0.0, 1.0)


def _span(values: Floats) -> Interval:
    return float(values.min()), float(values.max())
