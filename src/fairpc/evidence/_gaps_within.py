"""Gaps within strata: attributes A that may rightly matter, such as hours or the amount asked for.

Groups may differ because they are spread differently over the strata (the mix), or because they
differ within them. The raw gap of two groups is the sum of both (Kitagawa 1955):

    Σ_a w_a (μ_1a − μ_0a)  +  Σ_a μ_a (p_1a − p_0a)

with p the share of a stratum in a group, μ its mean score there, and w and μ without a group the
mean over both groups. A stratum that one of the groups does not have cannot be compared: its rows
are left out and named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Positions,
    Record,
    check_clusters,
    check_groups,
    check_positive_weight,
    check_scores,
)
from fairpc.evidence._gaps import SMALL, Parity, parity
from fairpc.evidence._intervals import Interval, clustered_variance, quantile, some_of
from fairpc.evidence._strata import check_strata


@dataclass(frozen=True)
class StratumGap:
    """Two groups within one stratum.

    Attributes:
        stratum: its name; a tuple where several attributes are crossed.
        n: rows of the first and of the last group.
        means: mean score, or selection rate, of each.
        difference: last − first.
        difference_interval: simultaneous over all strata and pairs of the record.
        small: a group has under 30 rows here: read with care.
    """

    stratum: Any
    n: tuple[int, int]
    means: tuple[float, float]
    difference: float
    difference_interval: Interval
    small: bool


@dataclass(frozen=True)
class PairWithin(Record):
    """Two groups: their gap within strata, and what the mix of strata adds to it.

    Attributes:
        first, last: the groups, in sorted order.
        raw: mean of last − mean of first, over the strata that both have.
        within: the weighted mean of the gaps within strata.
        within_interval: simultaneous over all pairs of the record.
        mix: the part of the raw gap that the mix of strata explains; raw = within + mix.
        mix_interval: the same.
        strata: per stratum that both groups have.
        left_out: strata that only one of the groups has, and how many rows.
    """

    first: Any
    last: Any
    raw: float
    within: float
    within_interval: Interval
    mix: float
    mix_interval: Interval
    strata: tuple[StratumGap, ...]
    left_out: tuple[tuple[Any, int], ...]


@dataclass(frozen=True)
class ParityWithin(Record):
    """Gaps between groups within strata, beside the raw ones.

    Attributes:
        raw: the gaps without strata, of all rows.
        pairs: every pair of groups.
        level: chance, before the data are seen, that the intervals of ``within`` of all pairs
            cover; the same for ``mix``, and for the gaps within strata.
        n_strata: strata that occur.
    """

    raw: Parity
    pairs: tuple[PairWithin, ...]
    level: float
    n_strata: int

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


def parity_within(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    threshold: float | None = None,
    level: float = 0.95,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> ParityWithin:
    """Differences between groups within strata, their mean, and the part that the mix explains.

    Intervals of the mean within strata and of the mix are normal, from the influence of each row
    (of each person where persons repeat) on them; those of single strata are those of
    :func:`fairpc.evidence.parity`. Bonferroni over pairs, and over strata for single strata.

    Args:
        scores, groups, threshold, level, clusters, sample_weight: as for ``parity``.
        given: stratum per row; several columns are crossed.
    """
    raw = parity(
        scores,
        groups,
        threshold=threshold,
        level=level,
        clusters=clusters,
        sample_weight=sample_weight,
    )
    values = check_scores(scores)
    if raw.threshold is not None:
        values = (values >= raw.threshold).astype(np.float64)
    names, ids = check_groups(groups, len(values))
    strata, where = check_strata(given, len(values))
    weights = check_positive_weight(sample_weight, len(values))
    persons = check_clusters(clusters, len(values))
    pairs = list(combinations(range(len(names)), 2))
    rows = _Rows(values, ids, where, weights, persons)
    found = tuple(rows.pair(a, b, names, strata, level, len(pairs)) for a, b in pairs)
    return ParityWithin(raw, found, level, len(strata))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Checked arrays: scores, group and stratum of each row, weights, persons."""

    values: Floats
    groups: Positions
    strata: Positions
    weights: Floats | None
    persons: Positions | None

    def pair(
        self,
        a: int,
        b: int,
        names: tuple[Any, ...],
        strata: tuple[Any, ...],
        level: float,
        n_pairs: int,
    ) -> PairWithin:
        both = [(self.groups == g) for g in (a, b)]
        n = np.stack([np.bincount(self.strata[own], minlength=len(strata)) for own in both])
        shared = np.flatnonzero(n.min(axis=0) >= 2)
        if not len(shared):
            raise MetricError(
                f"groups {names[a]!r} and {names[b]!r} have no stratum in common with two rows of "
                "each: merge strata"
            )
        lost = tuple(
            (strata[k], int(n[:, k].sum()))
            for k in np.flatnonzero((n.min(axis=0) < 2) & (n.max(axis=0) > 0)).tolist()
        )
        kept = (both[0] | both[1]) & np.isin(self.strata, shared)
        parts = self._parts(kept, b, shared)
        tail = (1 - level) / (2 * n_pairs)
        inside = self._gaps(kept, shared, strata, names, 1 - 2 * tail / len(shared))
        within, mix = ((p[0], _interval(*p, tail)) for p in parts)
        return PairWithin(
            names[a], names[b], within[0] + mix[0], *within, *mix, strata=inside, left_out=lost
        )

    def _gaps(
        self,
        kept: npt.NDArray[np.bool_],
        shared: Positions,
        strata: tuple[Any, ...],
        names: tuple[Any, ...],
        level: float,
    ) -> tuple[StratumGap, ...]:
        """The two groups within each stratum."""
        found = []
        for k in shared.tolist():
            here = kept & (self.strata == k)
            record = parity(
                self.values[here],
                self.groups[here],
                level=level,
                clusters=some_of(self.persons, here),
                sample_weight=some_of(self.weights, here),
            )
            first, last = record.groups
            gap = record.pairs[0]
            means, n = (first.mean, last.mean), (first.n, last.n)
            interval = gap.difference_interval
            small = min(n) < SMALL
            found.append(StratumGap(strata[k], n, means, gap.difference, interval, small))
        return tuple(found)

    def _parts(
        self, kept: npt.NDArray[np.bool_], last: int, shared: Positions
    ) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Gap within strata and part of the mix: estimate, variance, degrees of freedom."""
        values = self.values[kept]
        side = (self.groups[kept] == last).astype(np.intp)
        stratum = np.searchsorted(shared, self.strata[kept])
        w = np.ones(len(values)) if self.weights is None else self.weights[kept]
        k = len(shared)
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
        within = by_score[0] + there[0]
        mix = by_score[1] + sign * there[1]
        result = []
        for estimate, influence in ((float(weight @ gap), within), (float(level @ spread), mix)):
            scaled = influence * w / mass.sum(axis=1)[side]
            result.append((estimate, *self._variance(scaled, kept)))
        return result[0], result[1]

    def _variance(self, terms: Floats, kept: npt.NDArray[np.bool_]) -> tuple[float, float]:
        persons = some_of(self.persons, kept)
        n = len(terms)
        variance, clusters = clustered_variance(terms, 0.0, np.ones(n), persons)
        # Of a sum, not of a mean.
        return variance * n * n, clusters - 1


def _interval(estimate: float, variance: float, freedom: float, tail: float) -> Interval:
    half = quantile(1 - tail, freedom if freedom > 0 else math.inf) * math.sqrt(variance)
    return max(-1.0, estimate - half), min(1.0, estimate + half)
