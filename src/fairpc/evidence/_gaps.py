"""How far apart groups are, on data: differences and ratios with simultaneous intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Positions,
    Record,
    check_array,
    check_clusters,
    check_counts,
    check_groups,
    check_level,
    check_numbers,
    check_positive_weight,
    check_scores,
    check_threshold,
)
from fairpc.evidence import _intervals as intervals
from fairpc.evidence._intervals import Interval, Sample

if TYPE_CHECKING:
    from fairpc.evidence._gaps_within import ParityWithin

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
    """One group: its mean score or selection rate, and how many rows it is of.

    Attributes:
        group: its name; a tuple where several attributes are crossed.
        n: rows.
        effective_n: independent rows they are worth; below n with weights or repeated persons.
        mean: mean score, or selection rate.
        small: worth under 30 rows, or a rate with under 5 rows on one side: read with care.
    """

    group: Any
    n: int
    effective_n: float
    mean: float
    small: bool


@dataclass(frozen=True)
class PairGap(Record):
    """Two groups: last minus first, last over first, each with its interval.

    Attributes:
        first, last: the groups, in sorted order.
        difference: mean of last − mean of first.
        difference_interval: simultaneous over all pairs of the record.
        ratio: mean of last / mean of first; infinite or NaN where the first is 0.
        ratio_interval: simultaneous likewise; the upper end may be infinite.
    """

    first: Any
    last: Any
    difference: float
    difference_interval: Interval
    ratio: float
    ratio_interval: Interval

    _computed = ("impact_ratio", "impact_interval", "four_fifths")

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

    Attributes:
        kind: "rate" of decisions (scores all 0 or 1, or a threshold), or "mean score".
        level: chance, before the data are seen, that all intervals of the record cover.
        threshold: scores from here on are selected; None where the scores are compared.
        groups: per group, in sorted order.
        pairs: every pair, in that order.
        clustered: whether persons repeat.
    """

    kind: Kind
    level: float
    threshold: float | None
    groups: tuple[GroupMean, ...]
    pairs: tuple[PairGap, ...]
    clustered: bool

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
class ParityCurve(Record, Sequence[Parity]):
    """Gaps between groups at several thresholds: a sequence of :class:`Parity`, one for each.

    Attributes:
        level: chance, before the data are seen, that all intervals of the curve cover.
        records: per threshold, in the order in which they were given.
    """

    level: float
    records: tuple[Parity, ...]

    _computed = ("summary",)

    @property
    def thresholds(self) -> tuple[float, ...]:
        return tuple(record.threshold for record in self.records if record.threshold is not None)

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> Parity: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Parity, ...]: ...

    def __getitem__(self, index: int | slice) -> Parity | tuple[Parity, ...]:
        return self.records[index]

    def summary(self) -> str:
        """The threshold with the largest gap, in plain words."""
        worst = max(self.records, key=lambda record: abs(record.difference))
        return (
            f"Over {len(self)} thresholds, all intervals together at {self.level:.0%}, the gap is "
            f"largest at {worst.threshold:g}. {worst.summary()}"
        )


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
    if given is not None:
        from fairpc.evidence._gaps_within import parity_within

        if counts is not None:
            raise MetricError("given and counts were both given: repeat the rows, or leave one out")
        weighing: dict[str, Any] = {"clusters": clusters, "sample_weight": sample_weight}
        return parity_within(scores, groups, given, threshold=threshold, level=level, **weighing)
    values = check_scores(scores)
    names, ids = check_groups(groups, len(values))
    weights = check_positive_weight(sample_weight, len(values))
    times = check_counts(counts, len(values), clusters)
    persons = check_clusters(clusters, len(values))
    intervals.check_enough_rows(names, ids, persons, times)
    cut = None
    if threshold is not None:
        told: Any = threshold
        if isinstance(told, list | tuple) or getattr(told, "ndim", 0) > 0:
            raise MetricError("threshold has several values: give one number, or call parity_curve")
        cut = check_threshold(threshold)
        values = (values >= cut).astype(np.float64)
    kind: Kind = "rate" if np.isin(values, (0.0, 1.0)).all() else "mean score"
    rows = _Samples(values, ids, weights, persons, times, kind)
    pairs = list(combinations(range(len(names)), 2))
    tail = (1 - check_level(level)) / (2 * len(pairs))
    means = tuple(rows.group(g, name) for g, name in enumerate(names))
    gaps = tuple(rows.pair(a, b, names, tail) for a, b in pairs)
    return Parity(kind, level, cut, means, gaps, clustered=persons is not None)


def parity_curve(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    thresholds: Sequence[float],
    *,
    level: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
) -> ParityCurve:
    """:func:`parity` of the decisions at several thresholds, the level holding for all together."""
    if not check_array("thresholds", thresholds).ndim:
        raise MetricError(f"thresholds is {thresholds!r}: give several, or call parity")
    cuts = check_numbers("thresholds", thresholds).tolist()
    each = 1 - (1 - check_level(level)) / len(cuts)
    rows: dict[str, Any] = {
        "clusters": clusters,
        "sample_weight": sample_weight,
        "counts": counts,
    }
    found = (parity(scores, groups, threshold=t, level=each, **rows) for t in cuts)
    return ParityCurve(level, tuple(replace(record, level=level) for record in found))


@dataclass(frozen=True, eq=False)
class _Samples:
    """Checked arrays, of which each group is a sample."""

    values: Floats
    ids: Positions
    weights: Floats | None
    persons: Positions | None
    counts: Floats | None
    kind: Kind

    def sample(self, g: int) -> Sample:
        here = self.ids == g
        make = intervals.rate_sample if self.kind == "rate" else intervals.mean_sample
        rows = (intervals.some_of(each, here) for each in (self.weights, self.persons, self.counts))
        return make(self.values[here], *rows)

    def mean(self, g: int) -> float:
        here = self.ids == g
        factors = [some[here] for some in (self.weights, self.counts) if some is not None]
        weights = np.prod(factors, axis=0) if factors else None
        return float(np.average(self.values[here], weights=weights))

    def group(self, g: int, name: Any) -> GroupMean:
        here = self.ids == g
        n = int(here.sum() if self.counts is None else self.counts[here].sum())
        sample, mean = self.sample(g), self.mean(g)
        size = sample.size if self.kind == "rate" else max(sample.size - 2, 0.0)
        if self.kind == "mean score" and self.persons is not None:
            size = min(size, len(np.unique(self.persons[here])))
        lopsided = self.kind == "rate" and size * min(mean, 1 - mean) < _FEW
        return GroupMean(name, n, size, mean, size < SMALL or lopsided)

    def pair(self, a: int, b: int, names: tuple[Any, ...], tail: float) -> PairGap:
        first, last = self.sample(a), self.sample(b)
        factor = self._crossing(a, b, first, last)
        # Each mean is then known as well as from 1 / factor of its rows.
        first, last = (
            replace(s, size=s.size / factor, variance=s.variance * factor) for s in (first, last)
        )
        rates = self.kind == "rate"
        difference = (intervals.newcombe if rates else intervals.welch)(first, last, tail)
        ratio = (intervals.koopman if rates else intervals.fieller)(first, last, tail)
        low, high = self.mean(a), self.mean(b)
        share = high / low if low > 0 else (math.inf if high > 0 else math.nan)
        return PairGap(names[a], names[b], high - low, difference, share, ratio)

    def _crossing(self, a: int, b: int, first: Sample, last: Sample) -> float:
        """How much persons who are in both groups, with opposite scores, widen a difference."""
        if self.persons is None or first.variance + last.variance == 0:
            return 1.0
        w = np.ones(len(self.values)) if self.weights is None else self.weights
        sums = []
        for g in (a, b):
            here = self.ids == g
            gap = w[here] * (self.values[here] - self.mean(g)) / w[here].sum()
            sums.append(np.bincount(self.persons[here], gap, int(self.persons.max()) + 1))
        covariance = float(np.dot(sums[0], sums[1]))
        return max(1.0, 1 - 2 * covariance / (first.variance + last.variance))


def _interval(ends: Interval) -> str:
    return f"[{ends[0]:.4f}, {ends[1]:.4f}]"
