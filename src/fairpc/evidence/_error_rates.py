"""Error rates of anybody's decisions against the latent fair decision, from biased labels.

Of each group, P(D=1 | x, s) lies between b0 = P(D=1 | Df=0, s) and b1 = P(D=1 | Df=1, s). Held-out
sets of rows with few and with many positive labels bound b0 from above and b1 from below, and each
mechanism within gives the rates of a decision that did not look at the labels, see
:mod:`fairpc.evidence._error_sets`. Fair rates of groups may differ; where they are taken to differ
by delta at most, the mechanisms of groups depend on each other.

Equal opportunity is the difference of two groups in ``tpr``, equalised odds in ``tpr`` and ``fpr``.
"""

# ruff: noqa: N803

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    check_level,
    check_scores,
    one_number,
    one_of,
    two_numbers,
    whole_number,
)
from fairpc.evidence._chosen_sets import TopSets
from fairpc.evidence._decision_rows import DecisionRows, HeldOut
from fairpc.evidence._error_records import (
    ErrorRates,
    GroupErrorRates,
    PairErrorRates,
    RateRange,
    RecordedRates,
    ScoreBin,
    StratumErrorRates,
)
from fairpc.evidence._error_sets import RATES, DecisionCells, GroupSet, Rate
from fairpc.evidence._gaps import SMALL
from fairpc.evidence._held_out_bounds import Known
from fairpc.evidence._intervals import Interval, some_of
from fairpc.evidence._possible_sets import PossibleSets, free_range, joined, pair_limits, pair_range
from fairpc.evidence._review_design import reviews_to_decide
from fairpc.evidence._strata import level_of_each

_FEW: Final = 5
_SEEDS: Final = 5
_MOST_SEEDS: Final = 1000
_MOST_BINS: Final = 1000
_MOST_PAIRS: Final = 6
"""Pairs of groups up to which reviews are counted."""
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
    given: npt.ArrayLike | None = None,
    positive: Any = None,
    classifier: Any = None,
    n_seeds: int | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> ErrorRates:
    """TPR, FPR, accuracy, precision and selection rate against Df, as ranges, for any decisions.

    The decisions must come from a rule of features and group that was made on other rows: those
    that repeat the labels, or follow them more closely than held-out scores explain, are refused. A
    model that hardly overfits its training rows cannot be distinguished from one of other rows.

    Args:
        decisions: 0 or 1 per row, or classes of ``y``.
        y: recorded label, two classes.
        sensitive_features: group per row; several columns are crossed.
        label_scores: P(y = positive | x, s) of each row, by a model that had not seen its label.
        X: features, in place of ``label_scores``: a classifier then finds held-out sets within each
            group, as in :func:`test_assumptions`, whose sets of the same rows may be given, too.
        scores: of the model that decides, from 0 to 1: adds its calibration in ``n_bins`` bins.
        level: of each range, or of all together if ``simultaneous``.
        delta: by how much P(Df = 1) of two groups may differ; 0 assumes equal fair rates.
        knowledge: per group a range of ``b0`` = P(D=1 | Df=0, s) and of ``b1`` = P(D=1 | Df=1, s),
            such as ``{"w": {"b0": (0, 0)}}`` if no label of w was ever raised.
        given: legitimate factors, whose values are strata, each with a mechanism of its own:
            ``delta`` then holds within each.
        positive: class that counts as positive; the last of two if None.
        classifier, n_seeds: with ``X``, as in :func:`test_assumptions`.
        clusters: who each row is about, where persons repeat.
        sample_weight: how many people a row stands for in the population.
    """
    check_level(level)
    about: Any = {"clusters": clusters, "sample_weight": sample_weight, "positive": positive}
    rows = DecisionRows.of(decisions, y, sensitive_features, given=given, **about)
    known = _knowledge(knowledge, rows.names)
    if not 0 <= one_number("delta", delta) <= 1:
        raise MetricError(f"delta is {delta}: give a difference of fair rates from 0 to 1")
    assumed = _Assumed(float(delta), known, level, simultaneous)
    n_seeds = (_SEEDS if X is None else 1) if n_seeds is None else n_seeds
    rows.refuse_copies()
    bins = _bins(rows, scores, whole_number("n_bins", n_bins, 1, _MOST_BINS))
    whole_number("n_seeds", n_seeds, 1, _MOST_SEEDS)
    held, predicted = rows.ends(label_scores, X, classifier, n_seeds)
    for here, own in zip(rows.parts, held, strict=True):
        rows.of_part(here).refuse_training_rows(own)
    return replace(_found(rows, held, assumed, bins, predicted), doubt=rows.doubt(predicted))


@dataclass(frozen=True, eq=False)
class _Assumed:
    delta: float
    known: list[Known]
    level: float
    simultaneous: bool


def _found(
    rows: DecisionRows,
    held: list[HeldOut],
    assumed: _Assumed,
    bins: list[Bin],
    predicted: Floats,
) -> ErrorRates:
    pairs = list(combinations(range(len(rows.names)), 2))
    level, delta = assumed.level, assumed.delta
    n_ranges = len(RATES) * (len(rows.names) + 2 * len(pairs)) + len(bins)
    each = level_of_each(level, n_ranges) if assumed.simultaneous else level
    sets = PossibleSets.of(rows, held, assumed.known, delta, 1 - each)
    groups = [_group(rows, sets, g) for g in range(len(rows.names))]
    differences = [_pair(sets, groups, at, ratio=False) for at in pairs]
    if len(pairs) <= _MOST_PAIRS and not sets.rejected:
        fair = _posterior(rows, sets, predicted)
        differences = [
            replace(pair, **_reviews(rows, fair, pair, at, level))
            for pair, at in zip(differences, pairs, strict=True)
        ]
    inside = []
    if rows.within:
        for name, here, own in zip(rows.strata, rows.parts, held, strict=True):
            found = _found(rows.of_part(here), [own], assumed, [], predicted[here])
            inside.append(StratumErrorRates(name, found))
    return ErrorRates(
        groups=dict(zip(rows.names, groups, strict=True)),
        differences=tuple(differences),
        ratios=tuple(_pair(sets, groups, at, ratio=True) for at in pairs),
        calibration=tuple(_score_bin(rows, sets, *one) for one in bins),
        level=level,
        simultaneous=assumed.simultaneous,
        delta=delta,
        rejected=sets.rejected,
        positive=rows.positive,
        strata=tuple(inside),
    )


def _knowledge(given: Any, names: tuple[Any, ...]) -> list[Known]:
    """What is known of the mechanism of each group."""
    known = [Known() for _ in names]
    if given is None:
        return known
    if not isinstance(given, Mapping):
        raise MetricError("knowledge is not a mapping: give one from groups to ranges of b0 and b1")
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


def _recorded(cells: DecisionCells) -> RecordedRates:
    """Rates of decisions against the recorded label."""
    p00, p01, p10, p11 = cells.shares.reshape(-1, 4).sum(axis=0).tolist()
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


def _group(rows: DecisionRows, sets: PossibleSets, g: int) -> GroupErrorRates:
    point, limited = sets.estimated[g], sets.limited[g]
    cells = point.cells
    ranges = {
        rate: _UNDEFINED
        if sets.rejected and rate != "selection"
        else _joined(point.range(rate), limited.range(rate))
        for rate in RATES
    }
    p00, p01, p10, p11 = (cells.size * cells.shares.reshape(-1, 4).sum(axis=0)).tolist()
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
    sets: PossibleSets, groups: list[GroupErrorRates], at: tuple[int, int], *, ratio: bool
) -> PairErrorRates:
    """Two groups, by their places."""
    first, last = (groups[g] for g in at)
    ranges: dict[str, Any] = {}
    for rate in RATES:
        x, y = getattr(first, rate), getattr(last, rate)
        if math.isnan(x.low + y.low):
            ranges[rate] = _UNDEFINED
        elif rate == "selection" or not sets.free or sets.delta >= 1:
            ranges[rate] = _apart(x, y, ratio=ratio)
        else:
            ranges[rate] = _tied(sets, rate, at, ratio=ratio)
    said = {}
    for rate in RATES:
        a, b = getattr(first.recorded, rate), getattr(last.recorded, rate)
        said[rate] = b - a if not ratio else b / a if a > 0 else math.nan
    return PairErrorRates(first.group, last.group, **ranges, recorded=RecordedRates(**said))


def _tied(sets: PossibleSets, rate: Rate, at: tuple[int, int], *, ratio: bool) -> RateRange:
    """Difference or ratio of two groups whose fair rates are near to each other.

    It lies within that of groups whose fair rates may differ by anything, too.
    """
    points, ends = (
        (cast(GroupSet, own[at[0]]), cast(GroupSet, own[at[1]]))
        for own in (sets.estimated, sets.limited)
    )
    identified = pair_range(*points, rate, sets.estimated_delta, ratio=ratio)
    first, last = (_joined(*(own.range(rate) for own in sets.free[g])) for g in at)
    free = _apart(first, last, ratio=ratio)
    low, high = pair_limits(*ends, rate, sets.delta, ratio=ratio)
    return _joined(identified, (max(low, free.low), min(high, free.high)))


def _apart(first: RateRange, last: RateRange, *, ratio: bool) -> RateRange:
    """Difference or ratio of two groups that do not depend on each other.

    Each end is that of two ends that are estimated from different rows, whose limits are joined
    (MOVER: Zou and Donner 2008, Donner and Zou 2012).
    """
    (a, b), (c, d) = first.identified, last.identified
    x, y = np.array([first.high, b, first.high]), np.array([last.low, c, last.low])
    u, v = np.array([first.low, a, first.low]), np.array([last.high, d, last.high])
    low, high = joined(x, y, ratio=ratio)[0], joined(u, v, ratio=ratio)[1]
    return _joined(free_range((a, b), (c, d), ratio=ratio), (float(low), float(high)))


Bin = tuple[int, Interval, Bools, float]


def _bins(rows: DecisionRows, scores: npt.ArrayLike | None, n_bins: int) -> list[Bin]:
    """Group, ends, rows and mean score of each bin that has rows."""
    if scores is None:
        return []
    values = check_scores(scores)
    rows.check_length("scores", values)
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
    rows: DecisionRows, sets: PossibleSets, g: int, ends: Interval, inside: Bools, mean: float
) -> ScoreBin:
    """A bin is a decision too: its precision is the share of fair positives in it."""
    cells = replace(rows, decided=inside).cells(g)
    point, limited = sets.estimated[g], sets.limited[g]
    fair = _UNDEFINED
    if not sets.rejected:
        fair = _joined(
            replace(point, cells=cells).range("precision"),
            replace(limited, cells=cells.smoothed(limited.z)).range("precision"),
        )
    return ScoreBin(rows.names[g], *ends, int(inside.sum()), mean, _recorded(cells).precision, fair)


def _posterior(rows: DecisionRows, sets: PossibleSets, predicted: Floats) -> Floats:
    """P(Df = 1 | x, s, d) of each row, at the middle of what is possible."""
    fair = np.empty(len(rows.ids))
    for g, own in enumerate(sets.estimated):
        here = rows.ids == g
        b0, b1 = sum(own.b0) / 2, sum(own.b1) / 2
        q = np.clip((predicted[here] - b0) / max(b1 - b0, 1e-6), 0.0, 1.0)
        said = rows.labelled[here]
        yes, no = q * np.where(said, b1, 1 - b1), (1 - q) * np.where(said, b0, 1 - b0)
        fair[here] = np.where(yes + no > 0, yes / np.maximum(yes + no, 1e-300), q)
    return fair


def _reviews(
    rows: DecisionRows, fair: Floats, pair: PairErrorRates, at: tuple[int, int], level: float
) -> dict[str, Any]:
    """Rows to review, so that a difference that labels leave open is decided."""
    rates: tuple[Rate, ...] = ("tpr", "fpr")
    of = fair, rows.ids, rows.decided.astype(np.float64), level
    return {
        f"{rate}_reviews": reviews_to_decide(pair.detectable(rate), rate, at, *of)
        for rate in rates
        if pair.is_open(rate) and not math.isnan(getattr(pair, rate).low)
    }
