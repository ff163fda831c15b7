"""How far apart groups are, on data: differences and ratios with simultaneous intervals.

Within strata of legitimate factors, groups may differ because they are spread
differently over the strata (the mix), or because they differ within them. The raw gap of two groups
is the sum of both (Kitagawa 1955):

    Σ_a w_a (μ_1a − μ_0a)  +  Σ_a μ_a (p_1a − p_0a)

with p the share of a stratum in a group, μ its mean score there, and w and μ without a group the
mean over both groups. A stratum that one of the groups does not have cannot be compared: its rows
are left out and named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Positions,
    Record,
    check_clusters,
    check_counts,
    check_groups,
    check_level,
    check_positive_weight,
    check_scores,
    check_threshold,
)
from fairpc.evidence import _intervals as intervals
from fairpc.evidence._intervals import Interval, Sample, some_of
from fairpc.evidence._strata import check_strata

FOUR_FIFTHS: Final = 0.8
SMALL: Final = 30
_FEW: Final = 5

Kind = Literal["mean score", "rate"]
Mark = Literal["below", "above", "undecided"]
_MARKS: Final[dict[Mark, str]] = {
    "below": "a ratio is below four fifths",
    "above": "every ratio is above four fifths",
    "undecided": "these rows do not decide whether every ratio is above four fifths",
}


@dataclass(frozen=True)
class GroupMean:
    """One group: its mean score or selection rate, and how many rows it is of."""

    group: Any  #: its name; a tuple where several attributes are crossed
    n: int  #: rows
    #: independent rows they are worth; below n with weights or repeated persons
    effective_n: float
    mean: float  #: mean score, or selection rate
    small: bool  #: worth under 30 rows, or a rate with under 5 rows on one side: read with care


@dataclass(frozen=True)
class PairGap(Record):
    """Two groups: last minus first, last over first, each with its interval."""

    first: Any  #: the groups, in sorted order
    last: Any
    difference: float  #: mean of last − mean of first
    difference_interval: Interval  #: simultaneous over all pairs of the record
    ratio: float  #: mean of last / mean of first; infinite or NaN where the first is 0
    ratio_interval: Interval  #: simultaneous likewise; the upper end may be infinite

    _computed = ("impact_ratio", "impact_interval", "four_fifths")

    def __post_init__(self) -> None:
        # JSON has no infinity, so files have no number there.
        low, high = self.ratio_interval
        if math.isnan(self.ratio) and self.difference > 0:
            object.__setattr__(self, "ratio", math.inf)
        if math.isnan(high) and not math.isnan(low):
            object.__setattr__(self, "ratio_interval", (low, math.inf))

    @property
    def impact_ratio(self) -> float:
        """The smaller mean over the larger: what the four-fifths rule looks at."""
        return 1 / self.ratio if self.ratio > 1 else self.ratio

    @property
    def impact_interval(self) -> Interval:
        """The interval of the impact ratio: it ends above 1 where either mean may be the larger."""
        low, high = self.ratio_interval
        if not self.ratio > 1:
            return low, high
        return (1 / high if high else math.inf), (1 / low if low else math.inf)

    @property
    def four_fifths(self) -> Mark:
        """Is the smaller mean under four fifths of the larger? As far as the interval tells."""
        low, high = self.ratio_interval
        if high < FOUR_FIFTHS or low > 1 / FOUR_FIFTHS:
            return "below"
        if low >= FOUR_FIFTHS and high <= 1 / FOUR_FIFTHS:
            return "above"
        return "undecided"


@dataclass(frozen=True)
class Parity(Record):
    """Gaps between groups, all intervals together at the level.

    ``difference``, ``ratio`` and their intervals are those of ``largest``: the
    only pair of two groups, the pair with the largest gap of more.
    """

    kind: Kind  #: "rate" of decisions (scores all 0 or 1, or a threshold), or "mean score"
    level: float  #: chance, before the data are seen, that all intervals of the record cover
    threshold: float | None  #: scores from here on are selected; None where scores are compared
    groups: tuple[GroupMean, ...]  #: in sorted order
    pairs: tuple[PairGap, ...]  #: every pair, in that order
    clustered: bool  #: whether persons repeat

    _computed = ("largest", "four_fifths", "summary")

    @property
    def largest(self) -> PairGap:
        return max(self.pairs, key=lambda pair: abs(pair.difference))

    @property
    def difference(self) -> float:
        return self.largest.difference

    @property
    def difference_interval(self) -> Interval:
        return self.largest.difference_interval

    @property
    def ratio(self) -> float:
        return self.largest.ratio

    @property
    def ratio_interval(self) -> Interval:
        return self.largest.ratio_interval

    @property
    def four_fifths(self) -> Mark:
        """ "below" if any pair is, "above" if every pair is, else "undecided"."""
        marks = {pair.four_fifths for pair in self.pairs}
        if "below" in marks:
            return "below"
        return "above" if marks == {"above"} else "undecided"

    def summary(self) -> str:
        """The largest gap, its interval and the four-fifths mark, in plain words."""
        pair = self.largest
        low, high = pair.difference_interval
        what = "mean score" if self.kind == "mean score" else "share of positive decisions"
        means = {g.group: g.mean for g in self.groups}
        several = f"The largest of {len(self.pairs)} gaps: " if len(self.pairs) > 1 else ""
        text = (
            f"{several}{what} {means[pair.last]:.3f} for {pair.last!r} and "
            f"{means[pair.first]:.3f} for {pair.first!r}: difference {pair.difference:+.4f}, "
            f"{self.level:.0%} interval {_interval(pair.difference_interval)}; "
            f"impact ratio (smaller over larger) {pair.impact_ratio:.4f}, interval "
            f"{_interval(pair.impact_interval)}. "
            f"Equal means are{' not' if low <= 0 <= high else ''} ruled out; "
            f"{_MARKS[self.four_fifths]}."
        )
        small = [repr(g.group) for g in self.groups if g.small]
        if small:
            text += f" Few rows, read with care: {', '.join(small)}."
        return text


@dataclass(frozen=True)
class StratumGap:
    """Two groups within one stratum."""

    stratum: Any  #: its name; a tuple where several attributes are crossed
    n: tuple[int, int]  #: rows of the first and of the last group
    means: tuple[float, float]  #: mean score, or selection rate, of each
    difference: float  #: last − first
    difference_interval: Interval  #: simultaneous over all strata and pairs of the record
    small: bool  #: a group has under 30 rows here: read with care


@dataclass(frozen=True)
class PairWithin(Record):
    """Two groups: their gap within strata, and what the mix of strata adds to it."""

    first: Any  #: the groups, in sorted order
    last: Any
    raw: float  #: mean of last − mean of first, over the strata that both have
    within: float  #: the weighted mean of the gaps within strata
    within_interval: Interval  #: simultaneous over all pairs of the record
    mix: float  #: the part of the raw gap that the mix of strata explains; raw = within + mix
    mix_interval: Interval  #: as that of ``within``
    strata: tuple[StratumGap, ...]  #: per stratum that both groups have
    left_out: tuple[tuple[Any, int], ...]  #: strata that only one of the groups has, and their rows


@dataclass(frozen=True)
class ParityWithin(Record):
    """Gaps between groups within strata, beside the raw ones."""

    raw: Parity  #: the gaps without strata, of all rows
    pairs: tuple[PairWithin, ...]  #: every pair of groups
    #: chance, before the data are seen, that the intervals of ``within`` of all pairs cover; the
    #: same for ``mix``, and for the gaps within strata
    level: float
    n_strata: int  #: strata that occur

    _computed = ("largest", "summary")

    @property
    def largest(self) -> PairWithin:
        """The pair with the largest gap within strata."""
        return max(self.pairs, key=lambda pair: abs(pair.within))

    def summary(self) -> str:
        """The largest gap within strata and the part of the mix, in plain words."""
        pair = self.largest
        low, high = pair.within_interval
        ruled = "" if low > 0 or high < 0 else " not"
        text = (
            f"{self.raw.summary()} Within {self.n_strata} strata the gap of {pair.last!r} and "
            f"{pair.first!r} is {pair.within:+.4f} on average, {self.level:.0%} interval "
            f"[{low:.4f}, {high:.4f}], and the mix of strata explains {pair.mix:+.4f}, interval "
            f"[{pair.mix_interval[0]:.4f}, {pair.mix_interval[1]:.4f}]. Equal means within strata "
            f"are{ruled} ruled out. A stratum must be argued for: an attribute that is itself the "
            "result of unequal treatment explains nothing away."
        )
        lost = sum(n for _, n in pair.left_out)
        if lost:
            text += f" {lost} rows are in strata that only one of the groups has: left out."
        return text


@overload
def parity(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: None = None,
    threshold: float | None = None,
    level: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
) -> Parity: ...


@overload
def parity(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    threshold: float | None = None,
    level: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    counts: None = None,
) -> ParityWithin: ...


def parity(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    threshold: float | None = None,
    level: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
) -> Parity | ParityWithin:
    """Differences and ratios of mean scores, or of selection rates, between groups.

    Mean scores: Welch's interval with one pseudo-score 0 and one 1 per group, and
    Fieller's for the ratio. Rates: Newcombe's interval for the difference and
    Koopman's score interval for the ratio. Bonferroni over pairs.

    Within strata, intervals of the mean gap and of the mix are normal, from the influence of each
    row (of each person where persons repeat) on them; those of single strata are as without strata,
    with Bonferroni over strata too.

    Args:
        scores: from 0 to 1, one per row; only 0 and 1 are decisions, and their means rates.
        groups: group per row; several columns are crossed into intersections.
        given: stratum per row, several columns are crossed: also compare within strata; a
            :class:`ParityWithin`. Rows must then be given one by one, without ``counts``.
        threshold: compare the shares of scores ≥ threshold instead of the scores.
        level: of all intervals together.
        clusters: who each row is about, where persons repeat.
        sample_weight: how many people a row stands for in the population; not counts of
            equal rows, which are ``counts``. Intervals then use the effective sample size.
        counts: how many equal rows each row is, weight and all; the same as repeating it.
    """
    if given is not None and counts is not None:
        raise MetricError("given and counts were both given: repeat the rows, or leave one out")
    values = check_scores(scores)
    names, ids = check_groups(groups, len(values))
    weights = check_positive_weight(sample_weight, len(values))
    times = check_counts(counts, len(values), clusters)
    persons = check_clusters(clusters, len(values))
    intervals.check_enough_rows(names, ids, persons, times)
    cut = None
    if threshold is not None:
        if np.ndim(threshold) > 0:
            raise MetricError("threshold has several values: give one number")
        cut = check_threshold(threshold)
        values = (values >= cut).astype(np.float64)
    kind: Kind = "rate" if np.isin(values, (0.0, 1.0)).all() else "mean score"
    rows = _Samples(values, names, ids, weights, persons, times, kind)
    pairs = list(combinations(range(len(names)), 2))
    tail = (1 - check_level(level)) / (2 * len(pairs))
    means = tuple(map(rows.group, range(len(names))))
    gaps = tuple(rows.pair(a, b, tail) for a, b in pairs)
    raw = Parity(kind, level, cut, means, gaps, clustered=persons is not None)
    if given is None:
        return raw
    strata, where = check_strata(given, len(values))
    within = tuple(_pair_within(rows, where, pair, strata, tail) for pair in pairs)
    return ParityWithin(raw, within, level, len(strata))


@dataclass(frozen=True, eq=False)
class _Samples:
    """Checked arrays, of which each group is a sample."""

    values: Floats
    names: tuple[Any, ...]
    ids: Positions
    weights: Floats | None
    persons: Positions | None
    counts: Floats | None
    kind: Kind

    def of(self, g: int) -> tuple[Sample, float]:
        """A group: its mean with what it is worth, and the mean without pseudo-scores."""
        here = self.ids == g
        make = intervals.rate_sample if self.kind == "rate" else intervals.mean_sample
        rows = (some_of(each, here) for each in (self.weights, self.persons, self.counts))
        factors = [some[here] for some in (self.weights, self.counts) if some is not None]
        weights = np.prod(factors, axis=0) if factors else None
        mean = float(np.average(self.values[here], weights=weights))
        return make(self.values[here], *rows), mean

    def group(self, g: int) -> GroupMean:
        here = self.ids == g
        n = int(here.sum() if self.counts is None else self.counts[here].sum())
        sample, mean = self.of(g)
        size, lopsided = sample.size, False
        if self.kind == "rate":
            lopsided = size * min(mean, 1 - mean) < _FEW
        else:
            size = max(size - 2, 0.0)
            if self.persons is not None:
                size = min(size, len(np.unique(self.persons[here])))
        return GroupMean(self.names[g], n, size, mean, size < SMALL or lopsided)

    def pair(self, a: int, b: int, tail: float) -> PairGap:
        (first, low), (last, high) = self.of(a), self.of(b)
        if self.persons is not None and first.variance + last.variance > 0:
            # Persons in both groups, with opposite scores, widen a difference: each mean is then
            # known as well as from 1 / factor of its rows.
            w = np.ones(len(self.values)) if self.weights is None else self.weights
            sums = []
            for g, mean in ((a, low), (b, high)):
                here = self.ids == g
                gap = w[here] * (self.values[here] - mean) / w[here].sum()
                sums.append(np.bincount(self.persons[here], gap, int(self.persons.max()) + 1))
            covariance = float(np.dot(sums[0], sums[1]))
            factor = max(1.0, 1 - 2 * covariance / (first.variance + last.variance))
            first, last = (
                replace(s, size=s.size / factor, variance=s.variance * factor)
                for s in (first, last)
            )
        rates = self.kind == "rate"
        difference = (intervals.newcombe if rates else intervals.welch)(first, last, tail)
        ratio = (intervals.koopman if rates else intervals.fieller)(first, last, tail)
        share = high / low if low > 0 else (math.inf if high > 0 else math.nan)
        return PairGap(self.names[a], self.names[b], high - low, difference, share, ratio)


def _pair_within(
    rows: _Samples,
    where: Positions,
    pair: tuple[int, int],
    strata: tuple[Any, ...],
    tail: float,
) -> PairWithin:
    """Two groups within the strata of each row."""
    first, last = (rows.names[g] for g in pair)
    both = [rows.ids == g for g in pair]
    n = np.stack([np.bincount(where[own], minlength=len(strata)) for own in both])
    shared = np.flatnonzero(n.min(axis=0) >= 2)
    if not len(shared):
        raise MetricError(
            f"groups {first!r} and {last!r} have no stratum in common with two rows of each: merge "
            "strata"
        )
    lost = np.flatnonzero((n.min(axis=0) < 2) & (n.max(axis=0) > 0)).tolist()
    kept = (both[0] | both[1]) & np.isin(where, shared)
    weighing = {"clusters": rows.persons, "sample_weight": rows.weights}
    inside = []
    for k in shared.tolist():  # each as if its rows were all
        here = kept & (where == k)
        given = {name: some_of(values, here) for name, values in weighing.items()}
        level = 1 - 2 * tail / len(shared)
        found = parity(rows.values[here], rows.ids[here], level=level, **given)
        sizes, means = (tuple(getattr(g, name) for g in found.groups) for name in ("n", "mean"))
        gap, few = found.pairs[0], min(sizes) < SMALL
        inside.append(
            StratumGap(strata[k], sizes, means, gap.difference, gap.difference_interval, few)
        )
    side, stratum = both[1][kept].astype(np.intp), np.searchsorted(shared, where[kept])
    within, mix = _parts(rows.values[kept], side, stratum, some_of(rows.weights, kept))
    persons = some_of(rows.persons, kept)
    return PairWithin(
        first,
        last,
        within[0] + mix[0],
        within[0],
        _normal_interval(*within, persons, tail),
        mix[0],
        _normal_interval(*mix, persons, tail),
        tuple(inside),
        tuple((strata[k], int(n[:, k].sum())) for k in lost),
    )


def _parts(
    values: Floats, side: Positions, stratum: Positions, weights: Floats | None
) -> tuple[tuple[float, Floats], tuple[float, Floats]]:
    """Gap within strata and part of the mix, each with the influence of the rows on it.

    ``side`` is 0 for rows of the first group, 1 for those of the last.
    """
    w = np.ones(len(values)) if weights is None else weights
    k = int(stratum.max()) + 1
    cell = side * k + stratum
    mass = np.bincount(cell, w, 2 * k).reshape(2, k)
    mean = np.bincount(cell, w * values, 2 * k).reshape(2, k) / mass
    share = mass / mass.sum(axis=1, keepdims=True)
    gap, weight = mean[1] - mean[0], share.mean(axis=0)
    level, spread = mean.mean(axis=0), share[1] - share[0]
    # Influence of a row on each part: by its score, and by its being in its stratum.
    sign = np.where(side == 1, 1.0, -1.0)
    # Residuals from means of few rows are too small.
    n = np.bincount(cell, minlength=2 * k)[cell]
    residual = (values - mean[side, stratum]) / share[side, stratum] * np.sqrt(n / (n - 1))
    by_score = sign * weight[stratum] * residual, 0.5 * spread[stratum] * residual
    there = [(terms[stratum] - share[side] @ terms) for terms in (0.5 * gap, level)]
    within, mix = by_score[0] + there[0], by_score[1] + sign * there[1]
    total = mass.sum(axis=1)[side]
    return (float(weight @ gap), within * w / total), (float(level @ spread), mix * w / total)


def _normal_interval(
    estimate: float, influence: Floats, persons: Positions | None, tail: float
) -> Interval:
    """Of a sum over rows, from the influence of each of them on it."""
    n = len(influence)
    variance, count = intervals.clustered_variance(influence, 0.0, np.ones(n), persons)
    t = intervals.quantile(1 - tail, count - 1 if count > 1 else math.inf)
    half = t * math.sqrt(variance * n * n)
    return max(-1.0, estimate - half), min(1.0, estimate + half)


def _interval(interval: Interval) -> str:
    return f"[{interval[0]:.4f}, {interval[1]:.4f}]"
