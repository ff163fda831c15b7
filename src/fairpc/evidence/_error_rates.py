"""Error rates of anybody's decisions against the latent fair decision, from biased labels.

Of each group, P(D=1 | x, s) lies between b0 = P(D=1 | Df=0, s) and b1 = P(D=1 | Df=1, s). Held-out
sets of rows with few and with many positive labels bound b0 from above and b1 from below, and each
mechanism within gives the rates of a decision that did not look at the labels, see
:mod:`fairpc.evidence._error_sets`. Fair rates of groups may differ; where they are taken to differ
by delta at most, the mechanisms of groups depend on each other.
"""

# ruff: noqa: N803

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    MetricError,
    check_level,
    check_scores,
    one_number,
    one_of,
    two_numbers,
    whole_number,
)
from fairpc.evidence._chosen_sets import TopSets
from fairpc.evidence._decision_rows import DecisionRows
from fairpc.evidence._error_pairs import gap_range, ratio_range
from fairpc.evidence._error_records import (
    ErrorRates,
    GroupErrorRates,
    PairErrorRates,
    RateRange,
    RecordedRates,
    ScoreBin,
)
from fairpc.evidence._error_sets import (
    RATES,
    DecisionCells,
    GroupSet,
    Rate,
    coupled,
    gap_limits,
    joined_gap,
    joined_ratio,
    ratio_limits,
)
from fairpc.evidence._gaps import SMALL
from fairpc.evidence._intervals import (
    Interval,
    quantile,
    some_of,
)
from fairpc.evidence._strata import level_of_each
from fairpc.evidence._stratum_bounds import HeldOutRates, Known
from fairpc.evidence._top_sets import joint_bound

_TIED: Final = 0.2
"""Share of the error that is spent on what ties groups to each other, where delta is below 1."""
_FEW: Final = 5
_SEEDS: Final = 5
_MOST_SEEDS: Final = 1000
_MOST_BINS: Final = 1000
_UNDEFINED: Final = RateRange(math.nan, math.nan, (math.nan, math.nan))


def error_rates(
    decisions: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    label_scores: npt.ArrayLike | None = None,
    X: npt.ArrayLike | TopSets | None = None,
    scores: npt.ArrayLike | None = None,
    n_bins: int = 10,
    level: float = 0.95,
    simultaneous: bool = False,
    delta: float = 1.0,
    knowledge: Mapping[Any, Known | Mapping[str, Any]] | None = None,
    positive: Any = None,
    classifier: Any = None,
    n_seeds: int | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> ErrorRates:
    """TPR, FPR, accuracy, precision and selection rate against Df, as ranges, for any decisions.

    The decisions must not have looked at these labels: a rule of features and group that was made
    on other rows. Rows that trained the model must not be given, nor decisions that follow the
    recorded ones. Both are refused where they show: decisions that repeat the labels, and decisions
    that tell the labels better than any held-out set of rows does. Equal fair rates are not assumed
    unless ``delta`` says so; that labels depend on features only through Df within a group is.

    Args:
        decisions: 0 or 1 per row, or classes of ``y``.
        y: recorded label, two classes.
        sensitive_features: group per row; several columns are crossed.
        label_scores: P(y = positive | x, s) of each row, by a model that had not seen its label.
        X: features; a classifier then makes held-out scores within each group, as in
            :func:`test_assumptions`. Give one of the two. An audit gives the sets that its test of
            the same rows has chosen.
        scores: of the model that decides, from 0 to 1: adds its calibration against Df.
        n_bins: of those scores.
        level: of each range, or of all together if ``simultaneous``.
        simultaneous: whether groups, differences, ratios and bins hold all at once.
        delta: by how much P(Df = 1) of two groups may differ; 0 assumes equal fair rates.
        knowledge: a mapping from groups to a range of ``b0`` = P(D=1 | Df=0, s) and of ``b1`` =
            P(D=1 | Df=1, s), such as ``{"w": {"b0": (0, 0)}}`` if no label of w was ever raised.
        positive: class that counts as positive; the last of two if None.
        classifier: with ``X``, as in :func:`test_assumptions`.
        n_seeds: ways of splitting rows into folds, of whose limits the median is taken; 5 with
            ``label_scores`` if None, 1 with ``X``, where each takes fits of classifiers.
        clusters: who each row is about, where persons repeat.
        sample_weight: how many people a row stands for in the population.
    """
    check_level(level)
    rows = DecisionRows.of(decisions, y, sensitive_features, positive, clusters, sample_weight)
    if not 0 <= one_number("delta", delta) <= 1:
        raise MetricError(f"delta is {delta}: give a difference of fair rates from 0 to 1")
    known = _knowledge(knowledge, rows.names)
    if n_seeds is None:
        n_seeds = _SEEDS if X is None else 1
    n_seeds = whole_number("n_seeds", n_seeds, 1, _MOST_SEEDS)
    rows.refuse_copies()
    held = rows.ends(label_scores, X, classifier, n_seeds)
    rows.refuse_training_rows(held)
    bins = _bins(rows, scores, whole_number("n_bins", n_bins, 1, _MOST_BINS))
    pairs = list(combinations(range(len(rows.names)), 2))
    n_ranges = len(RATES) * (len(rows.names) + 2 * len(pairs)) + len(bins)
    each = level_of_each(level, n_ranges) if simultaneous else level
    sets = _Sets.of(rows, held, known, float(delta), 1 - each)
    groups = {name: _group(rows, sets, g) for g, name in enumerate(rows.names)}
    each_pair = [(tuple(groups.values())[a], tuple(groups.values())[b], (a, b)) for a, b in pairs]
    return ErrorRates(
        groups=groups,
        differences=tuple(_pair(sets, *pair, ratio=False) for pair in each_pair),
        ratios=tuple(_pair(sets, *pair, ratio=True) for pair in each_pair),
        calibration=tuple(_score_bin(rows, sets, *one) for one in bins),
        level=level,
        simultaneous=simultaneous,
        delta=float(delta),
        rejected=sets.rejected,
        positive=rows.positive,
    )


def _knowledge(given: Any, names: tuple[Any, ...]) -> list[Known]:
    """What is known of the mechanism of each group."""
    known = [Known() for _ in names]
    if given is None:
        return known
    if not isinstance(given, Mapping):
        raise MetricError("knowledge is no mapping: give one from groups to ranges of b0 and b1")
    for group, said in given.items():
        g = one_of("a group of knowledge", group, names)
        if isinstance(said, Known):
            known[g] = said
            continue
        if not isinstance(said, Mapping) or not set(said) <= {"b0", "b1"}:
            raise MetricError(f"knowledge of group {group!r} is {said!r}: give ranges of b0 and b1")
        known[g] = Known(**{f: _range(f"{f} of group {group!r}", r) for f, r in said.items()})
    return known


def _range(name: str, value: Any) -> Interval:
    low, high = two_numbers(name, value) if np.ndim(value) else (one_number(name, value),) * 2
    if not 0 <= low <= high <= 1:
        raise MetricError(f"{name} is {value!r}: give a range of shares, the lower end first")
    return low, high


@dataclass(frozen=True, eq=False)
class _Sets:
    """What is possible for each group: at the estimates, and at the level."""

    estimated: list[GroupSet]
    limited: list[GroupSet]
    free: list[tuple[GroupSet, GroupSet]]  #: both, as if fair rates could differ by anything
    delta: float
    estimated_delta: float  #: the least that estimates leave, where chance leaves no smaller one
    rejected: bool

    @classmethod
    def of(
        cls,
        rows: DecisionRows,
        held: list[list[HeldOutRates]],
        known: list[Known],
        delta: float,
        alpha: float,
    ) -> _Sets:
        # m, M and both ends of a rate; with delta also ρ, and P(Df) of every group, at both ends.
        tied = alpha * _TIED if delta < 1 else 0.0
        tail, tied = (alpha - tied) / 4, tied / (2 + 2 * len(held))
        each = list(zip(rows.cells, held, known, strict=True))
        estimated = [_estimated(*one) for one in each]
        limited = [_limited(*one, tail, tied) for one in each]
        for name, own in zip(rows.names, limited, strict=True):
            if own.b0[0] > own.b0[1] or own.b1[0] > own.b1[1]:
                raise MetricError(
                    f"knowledge of group {name!r} contradicts its labels: it leaves b0 from "
                    f"{own.b0[0]:.3f} to {own.b0[1]:.3f} and b1 from {own.b1[0]:.3f} to "
                    f"{own.b1[1]:.3f}; widen it"
                )
        ranges = [(own.possible.lower, own.possible.upper) for own in estimated]
        least = max(low for low, _ in ranges) - min(high for _, high in ranges)
        own_delta = max(delta, least)
        free = list(zip(estimated, limited, strict=True))
        estimated, _ = coupled(estimated, ranges, own_delta)
        possible = [_possible(*one, tied) for one in each] if delta < 1 else ranges
        limited, left = coupled(limited, possible, delta)
        return cls(estimated, limited, free, delta, own_delta, not left)


def _median(values: Iterator[float] | Sequence[float]) -> float:
    return float(np.median(list(values)))


def _estimated(cells: DecisionCells, held: list[HeldOutRates], known: Known) -> GroupSet:
    """A group at the estimates; what is known counts for more than an end."""
    rho = cells.labelled
    m, top = (_median(h.scores(None)[end] for h in held) for end in (0, 1))
    b0 = known.b0[0], max(known.b0[0], min(m, rho, known.b0[1]))
    b1 = min(known.b1[1], max(top, rho, known.b1[0])), known.b1[1]
    return GroupSet(cells, b0, b1, (rho, rho))


def _limited(
    cells: DecisionCells, held: list[HeldOutRates], known: Known, tail: float, tied: float
) -> GroupSet:
    """A group at limits, each wrong with probability at most ``tail``; of ρ at most ``tied``."""
    m, top = (_median(h.scores(tail)[end] for h in held) for end in (0, 1))
    z = quantile(1 - tail, cells.freedom)
    b0 = known.b0[0], min(m, known.b0[1])
    b1 = max(top, known.b1[0]), known.b1[1]
    rho = held[0].rate_limits(tied) if tied else (0.0, 1.0)
    return GroupSet(cells.smoothed(z), b0, b1, rho, z=z)


def _possible(
    cells: DecisionCells, held: list[HeldOutRates], known: Known, tail: float
) -> Interval:
    """Confidence limits of the P(Df=1) that one group leaves possible."""
    low = 1 - _median(joint_bound(h.negative, tail) for h in held)
    high = _median(joint_bound(h.positive, tail) for h in held)
    scores = [_median(h.scores(tail)[end] for h in held) for end in (0, 1)]
    inside = [
        known.range(held[0], rate, (scores[0], scores[1])) for rate in held[0].rate_limits(tail)
    ]
    # Of both limits of ρ the one that leaves more counts.
    return max(low, min(r.lower for r in inside)), min(high, max(r.upper for r in inside))


def _recorded(cells: DecisionCells) -> RecordedRates:
    """Rates of decisions against the recorded label."""
    p00, p01, p10, p11 = cells.shares.tolist()
    selected = p10 + p11
    return RecordedRates(
        tpr=p11 / (p01 + p11),
        fpr=p10 / (p00 + p10),
        accuracy=p00 + p11,
        precision=p11 / selected if selected > 0 else math.nan,
        selection=selected,
    )


def _joined(identified: Interval, limits: Interval) -> RateRange:
    """Limits that hold the estimates: smoothing may have moved them past these."""
    if math.isnan(identified[0]) or math.isnan(limits[0]):
        return _UNDEFINED
    return RateRange(min(limits[0], identified[0]), max(limits[1], identified[1]), identified)


def _group(rows: DecisionRows, sets: _Sets, g: int) -> GroupErrorRates:
    point, limited = sets.estimated[g], sets.limited[g]
    cells = point.cells
    ranges = {
        rate: _UNDEFINED
        if sets.rejected and rate != "selection"
        else _joined(point.range(rate), limited.range(rate))
        for rate in RATES
    }
    p00, p01, p10, p11 = (cells.size * cells.shares).tolist()
    few = min(p00 + p01, p10 + p11, p00 + p10, p01 + p11) < _FEW
    n = int((rows.ids == g).sum())
    return GroupErrorRates(
        group=rows.names[g],
        n=n,
        effective_n=cells.size,
        **ranges,
        recorded=_recorded(cells),
        b0=limited.b0,
        b1=limited.b1,
        small=few or cells.size < SMALL,
    )


def _pair(
    sets: _Sets, first: GroupErrorRates, last: GroupErrorRates, at: tuple[int, int], *, ratio: bool
) -> PairErrorRates:
    """Two groups, and the places of their sets."""
    ranges: dict[str, RateRange] = {}
    for rate in RATES:
        x, y = getattr(first, rate), getattr(last, rate)
        if math.isnan(x.low + y.low):
            ranges[rate] = _UNDEFINED
        elif rate == "selection" or sets.delta >= 1:
            ranges[rate] = _apart(x, y, ratio=ratio)
        else:
            ranges[rate] = _tied(sets, rate, at, ratio=ratio)
    said = {}
    for rate in RATES:
        a, b = getattr(first.recorded, rate), getattr(last.recorded, rate)
        said[rate] = b - a if not ratio else b / a if a > 0 else math.nan
    return PairErrorRates(first.group, last.group, **ranges, recorded=RecordedRates(**said))


def _tied(sets: _Sets, rate: Rate, at: tuple[int, int], *, ratio: bool) -> RateRange:
    """Difference or ratio of two groups whose fair rates are near to each other.

    It lies within that of groups whose fair rates may differ by anything, too.
    """
    inside, limits = (ratio_range, ratio_limits) if ratio else (gap_range, gap_limits)
    points, ends = ([own[g] for g in at] for own in (sets.estimated, sets.limited))
    identified = inside(points[0], points[1], rate, sets.estimated_delta)
    first, last = (_joined(*(own.range(rate) for own in sets.free[g])) for g in at)
    free = _apart(first, last, ratio=ratio)
    low, high = limits(ends[0], ends[1], rate, sets.delta)
    return _joined(identified, (max(low, free.low), min(high, free.high)))


def _apart(first: RateRange, last: RateRange, *, ratio: bool) -> RateRange:
    """Difference or ratio of two groups that do not depend on each other.

    Each end is that of two ends that are estimated from different rows, whose limits are joined
    (MOVER: Zou and Donner 2008, Donner and Zou 2012).
    """
    (a, b), (c, d) = first.identified, last.identified
    ends = [((first.high, b, first.high), (last.low, c, last.low))]
    ends.append(((first.low, a, first.low), (last.high, d, last.high)))
    (x, y), (u, v) = ((np.array(p), np.array(q)) for p, q in ends)
    if ratio:
        identified = c / b if b > 0 else math.inf, d / a if a > 0 else math.inf
        return _joined(identified, (float(joined_ratio(x, y, 0)), float(joined_ratio(u, v, 2))))
    return _joined((c - b, d - a), (float(joined_gap(x, y)[0]), float(joined_gap(u, v)[1])))


Bin = tuple[int, Interval, Bools, float]


def _bins(rows: DecisionRows, scores: npt.ArrayLike | None, n_bins: int) -> list[Bin]:
    """Group, ends, rows and mean score of each bin that has rows."""
    if scores is None:
        return []
    values = check_scores(scores)
    if len(values) != len(rows.ids):
        raise MetricError(
            f"scores has {len(values)} rows and decisions {len(rows.ids)}: give as many"
        )
    place = np.minimum((values * n_bins).astype(np.intp), n_bins - 1)
    found: list[Bin] = []
    for g in range(len(rows.names)):
        here = rows.ids == g
        for k in np.unique(place[here]).tolist():
            inside = here & (place == k)
            mean = float(np.average(values[inside], weights=some_of(rows.weights, inside)))
            found.append((g, (k / n_bins, (k + 1) / n_bins), inside, mean))
    return found


def _score_bin(
    rows: DecisionRows, sets: _Sets, g: int, ends: Interval, inside: Bools, mean: float
) -> ScoreBin:
    """A bin is a decision too: its precision is the share of fair positives in it."""
    here, weights, who = rows.of_group(g)
    cells = DecisionCells.of(inside[here], rows.labelled[here], weights, who)
    point, limited = sets.estimated[g], sets.limited[g]
    fair = _UNDEFINED
    if not sets.rejected:
        fair = _joined(
            replace(point, cells=cells).range("precision"),
            replace(limited, cells=cells.smoothed(limited.z)).range("precision"),
        )
    recorded = float(cells.shares[3] / cells.selected)
    return ScoreBin(rows.names[g], *ends, int(inside.sum()), mean, recorded, fair)
