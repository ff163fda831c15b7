"""Thresholds of scores, per group, by what they make equal, and what that costs.

Equal selection rates need no labels. Equal opportunity and equalised odds are about error rates,
against the latent fair decision at one mechanism: a curve of accuracy against the gap. With
b_f = P(D=1 | Df=f, s), (D − b0) / (b1 − b0) has the mean of Df in every set of rows that a decision
picks without looking at D, so that it takes the place of Df in every rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Record,
    check_choice,
    check_groups,
    check_labels,
    check_positive_weight,
    check_scores,
    check_threshold,
    one_number,
    two_numbers,
    whole_number,
)

Notion = Literal["equal opportunity", "equalised odds"]
NOTIONS: Final = ("equal opportunity", "equalised odds")
MOST_CUTS: Final = 400
"""Thresholds of a group that are tried, at most: quantiles of its scores."""
_LEAST_GAP: Final = 0.005
"""The least gap that is aimed at: below, only deciding alike for everybody is left."""


@dataclass(frozen=True)
class GroupThreshold:
    """One group under a common threshold and under its own."""

    group: Any  #: its name
    threshold: float  #: scores from here on are selected; infinite if nobody is
    #: share selected by it; equal scores are not split, so it may miss the common rate
    rate: float
    rate_before: float  #: share selected by the common threshold
    accuracy: float | None  #: share of rows decided as labelled; None without labels
    accuracy_before: float | None  #: the same by the common threshold


@dataclass(frozen=True)
class EqualRates(Record):
    """Group thresholds that bring each group as near to one selection rate as its scores allow."""

    rate: float  #: the common rate aimed at
    common_threshold: float  #: the one threshold that is compared with
    groups: tuple[GroupThreshold, ...]  #: in sorted order
    accuracy: float | None  #: over all rows, with group thresholds; None without labels
    accuracy_before: float | None  #: without them

    _computed = ("price", "gap", "summary")

    @property
    def price(self) -> float | None:
        """Accuracy lost to the labels, which may themselves be biased; None without labels."""
        if self.accuracy is None or self.accuracy_before is None:
            return None
        return self.accuracy_before - self.accuracy

    @property
    def gap(self) -> float:
        """Largest difference of selection rates that is left."""
        rates = [group.rate for group in self.groups]
        return max(rates) - min(rates)

    def summary(self) -> str:
        """The thresholds and their price, in plain words."""
        cuts = ", ".join(f"{g.group!r} from {g.threshold:.3f}" for g in self.groups)
        text = (
            f"To select {self.rate:.1%} of every group: {cuts}; rates then differ by at most "
            f"{self.gap:.4f} on these rows."
        )
        if self.price is not None:
            text += (
                f" Agreement with the labels goes from {self.accuracy_before:.4f} to "
                f"{self.accuracy:.4f}; if the labels are biased, that is a poor measure of harm."
            )
        return text


def equal_rates(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    *,
    threshold: float = 0.5,
    rate: float | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> EqualRates:
    """Thresholds per group that equalise selection rates on these rows, and their price.

    Args:
        scores: from 0 to 1, one per row.
        groups: group per row; several columns are crossed.
        y: 0/1 labels to measure accuracy against; None leaves accuracy out.
        threshold: the common threshold that is compared with.
        rate: selection rate to aim at; None keeps the overall rate of the common threshold.
        sample_weight: weight per row.
    """
    values = check_scores(scores)
    names, ids = check_groups(groups, len(values))
    given = check_positive_weight(sample_weight, len(values))
    weights = np.ones(len(values)) if given is None else given
    truth = None if y is None else check_labels("y", y, len(values))
    # Values of several kinds have no order.
    if truth is not None and not set(found := list(dict.fromkeys(truth.tolist()))) <= {0, 1}:
        raise MetricError(f"y has the values {found[:5]}: give labels 0 and 1")
    common = check_threshold(threshold)
    before = values >= common
    overall = float(np.average(before, weights=weights))
    target = overall if rate is None else one_number("rate", rate)
    if not 0 <= target <= 1:
        raise MetricError(f"rate is {target}: give a share from 0 to 1")
    cuts = [_cut(values[ids == g], weights[ids == g], target) for g in range(len(names))]
    after = values >= np.array(cuts)[ids]

    def share(hits: Bools, rows: Bools) -> float:
        return float(np.average(hits[rows], weights=weights[rows]))

    def right(decisions: Bools, rows: Bools) -> float | None:
        return None if truth is None else share(decisions == truth, rows)

    each = []
    for name, cut, here in zip(names, cuts, (ids == g for g in range(len(names))), strict=True):
        rates = share(after, here), share(before, here)
        each.append(GroupThreshold(name, cut, *rates, right(after, here), right(before, here)))
    every = np.ones(len(values), np.bool_)
    return EqualRates(target, common, tuple(each), right(after, every), right(before, every))


def _cut(values: Floats, weights: Floats, target: float) -> float:
    """The score at which the share of scores from there on is nearest to the target."""
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    share = np.cumsum(weights[order]) / weights.sum()
    last = np.append(ranked[1:] != ranked[:-1], True)
    cuts = np.append(np.inf, ranked[last])
    shares = np.append(0.0, share[last])
    return float(cuts[np.argmin(np.abs(shares - target))])


@dataclass(frozen=True)
class GroupOperatingPoint:
    """One group under its threshold: rates against the latent fair decision."""

    group: Any  #: its name
    threshold: float  #: scores from here on are selected; infinite if nobody is
    tpr: float
    fpr: float


@dataclass(frozen=True)
class ThresholdPoint(Record):
    """A threshold per group, its gap and its accuracy."""

    gap: float  #: largest difference between groups of the rates that the notion is about
    accuracy: float  #: share of rows decided as the latent fair decision, all groups together
    groups: tuple[GroupOperatingPoint, ...]  #: in sorted order


@dataclass(frozen=True)
class ThresholdCurve(Record):
    """What a smaller gap costs: thresholds per group, from the smallest gap to the best accuracy.

    Estimated on these rows, at one mechanism; choose on rows that the scores were not learned from.
    """

    notion: Notion
    points: tuple[ThresholdPoint, ...]  #: gap and accuracy rise from one to the next
    before: ThresholdPoint  #: one common threshold for all

    _computed = ("summary",)

    def at(self, gap: float) -> ThresholdPoint:
        """The most accurate point whose gap is at most this; the smallest gap if there is none."""
        inside = [point for point in self.points if point.gap <= gap]
        return inside[-1] if inside else self.points[0]

    def summary(self) -> str:
        """Both ends of the curve and the common threshold, in plain words."""
        first, last = self.points[0], self.points[-1]
        return (
            f"{self.notion.capitalize()}: thresholds per group bring the gap from "
            f"{100 * self.before.gap:.1f} points (one threshold, accuracy "
            f"{self.before.accuracy:.1%}) to {100 * first.gap:.1f} points at an accuracy of "
            f"{first.accuracy:.1%}; the most accurate ones have {last.accuracy:.1%} and a gap of "
            f"{100 * last.gap:.1f} points. These are points at one mechanism, if the assumptions "
            "hold; ranges are not available. Different thresholds by group may be unlawful."
        )


class CurveOptions(TypedDict, total=False):
    """What a curve may be given beside scores, groups and labels."""

    mechanism: Mapping[Any, Any] | None
    threshold: float
    n_points: int
    sample_weight: npt.ArrayLike | None


def equal_opportunity(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    y: npt.ArrayLike,
    **options: Unpack[CurveOptions],
) -> ThresholdCurve:
    """Thresholds per group that bring true positive rates near to each other, and their price.

    Of two groups each point is the most accurate one of its gap; of more, each group is kept near
    to the largest.

    Args:
        scores: from 0 to 1, one per row.
        groups: group per row; several columns are crossed.
        y: recorded labels, 0 or 1, with ``mechanism``; or, without, the latent fair decision as
            far as it is known: P(Df = 1 | x, s, d) of each row, such as ``model.posterior``.
        options: ``mechanism``, per group P(D=1 | Df=0, s) and P(D=1 | Df=1, s), the point at which
            rates are computed, such as ``{"m": (0.05, 0.95), "w": (0.02, 0.7)}``; ``threshold``,
            the common one that is compared with, 0.5 if not given; ``n_points``, gaps that are
            aimed at, 21; ``sample_weight``, weight per row.
    """
    return threshold_curve("equal opportunity", scores, groups, y, **options)


def equalised_odds(
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    y: npt.ArrayLike,
    **options: Unpack[CurveOptions],
) -> ThresholdCurve:
    """The same for true and false positive rates at once: the gap is the larger of both.

    Arguments are those of :func:`equal_opportunity`. One threshold per group cannot always make
    both rates equal; the curve then begins at the gap that is left.
    """
    return threshold_curve("equalised odds", scores, groups, y, **options)


def threshold_curve(
    notion: Notion,
    scores: npt.ArrayLike,
    groups: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    mechanism: Any = None,
    threshold: float = 0.5,
    n_points: int = 21,
    sample_weight: npt.ArrayLike | None = None,
) -> ThresholdCurve:
    """The curve of a notion."""
    check_choice("notion", notion, NOTIONS, MetricError)
    values = check_scores(scores)
    n = len(values)
    names, ids = check_groups(groups, n)
    given = check_positive_weight(sample_weight, n)
    weights = np.ones(n) if given is None else given / given.mean()
    truth = check_scores(y, "y")
    if len(truth) != n:
        raise MetricError(f"y has {len(truth)} rows and scores {n}: give as many")
    n_points = whole_number("n_points", n_points, 2, 1000)
    common = check_threshold(threshold)
    ends = np.array(_mechanism(mechanism, names))[ids]
    fair = (truth - ends[:, 0]) / (ends[:, 1] - ends[:, 0])

    def cuts(scores: Floats) -> list[_Cuts]:
        rows = [(name, ids == g) for g, name in enumerate(names)]
        return [_Cuts.of(name, scores[at], fair[at], weights[at]) for name, at in rows]

    columns = slice(0, 1 if notion == "equal opportunity" else 2)
    search = _Search(columns, cuts(values), float(weights.sum()))
    # Decisions are scores, too: those of one threshold.
    one = replace(search, groups=cuts((values >= common).astype(np.float64)))
    before = one.point([int(np.flatnonzero(group.cuts >= 1)[-1]) for group in one.groups])
    before = replace(before, groups=tuple(replace(g, threshold=common) for g in before.groups))
    return ThresholdCurve(notion, search.points(n_points), before)


@dataclass(frozen=True, eq=False)
class _Cuts:
    """One group: thresholds, from nobody to everybody, and what each gives."""

    name: Any
    cuts: Floats
    rates: Floats  #: TPR and FPR, [threshold, 2]
    right: Floats  #: weight of rows that are decided as Df
    weight: float  #: of all its rows

    @classmethod
    def of(cls, name: Any, scores: Floats, fair: Floats, weights: Floats) -> _Cuts:
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        mass = np.stack([weights * fair, weights * (1 - fair)])[:, order]
        totals = mass.sum(axis=1)
        if not (totals > 0).all():
            raise MetricError(
                f"the mechanism leaves group {name!r} without fair decisions of both kinds: its "
                "rate of labels must lie between b0 and b1"
            )
        last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
        if len(last) > MOST_CUTS:
            last = last[np.linspace(0, len(last) - 1, MOST_CUTS).astype(np.intp)]
        sums = np.column_stack([np.zeros(2), np.cumsum(mass, axis=1)[:, last]])
        rates = np.clip(sums.T / totals, 0.0, 1.0)
        right = sums[0] + totals[1] - sums[1]
        return cls(name, np.append(np.inf, ranked[last]), rates, right, float(weights.sum()))


@dataclass(frozen=True, eq=False)
class _Search:
    columns: slice  #: which rates the notion is about
    groups: list[_Cuts]
    total: float  #: weight of all rows

    def points(self, n_points: int) -> tuple[ThresholdPoint, ...]:
        """From the smallest gap to the best accuracy, without points that cost more for less."""
        free = self.point([int(np.argmax(group.right)) for group in self.groups])
        aims = np.linspace(min(_LEAST_GAP, free.gap), free.gap, n_points)[:-1].tolist()
        found = [point for aim in aims if (point := self._nearest(aim)) is not None]
        kept: list[ThresholdPoint] = []
        for point in sorted([*found, free], key=lambda own: (own.gap, -own.accuracy)):
            if not kept or point.accuracy > kept[-1].accuracy:
                kept.append(point)
        return tuple(kept)

    def _nearest(self, gap: float) -> ThresholdPoint | None:
        """The most accurate point at which each group is as near as this to the largest."""
        first = max(range(len(self.groups)), key=lambda g: float(self.groups[g].weight))
        reference = self.groups[first]
        total, picks = reference.right.copy(), []
        for group in self.groups:
            away = np.abs(reference.rates[:, None, self.columns] - group.rates[:, self.columns])
            near = away.max(axis=2) <= gap + 1e-12
            right = np.where(near, group.right, -np.inf)
            picks.append(np.argmax(right, axis=1))
            if group is reference:
                picks[-1] = np.arange(len(reference.cuts))
            else:
                total += right.max(axis=1)
        best = int(np.argmax(total))
        if not np.isfinite(total[best]):
            return None
        return self.point([int(own[best]) for own in picks])

    def point(self, picks: list[int]) -> ThresholdPoint:
        """One threshold of each group, by its place."""
        each = list(zip(self.groups, picks, strict=True))
        rates = np.array([group.rates[i] for group, i in each])
        points = tuple(
            GroupOperatingPoint(group.name, float(group.cuts[i]), *own)
            for (group, i), own in zip(each, rates.tolist(), strict=True)
        )
        gap = float(np.ptp(rates[:, self.columns], axis=0).max())
        right = sum(float(group.right[i]) for group, i in each)
        return ThresholdPoint(gap, right / self.total, points)


def _mechanism(given: Any, names: tuple[Any, ...]) -> list[tuple[float, float]]:
    """b0 and b1 of each group; 0 and 1 where y is the fair decision itself."""
    if given is None:
        return [(0.0, 1.0)] * len(names)
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise MetricError(
            "mechanism is not a mapping from every group to P(D=1 | Df=0) and P(D=1 | Df=1): give "
            f"one for {', '.join(map(repr, names))}"
        )
    found = [two_numbers(f"mechanism of group {name!r}", given[name]) for name in names]
    for name, (b0, b1) in zip(names, found, strict=True):
        if not 0 <= b0 < b1 <= 1:
            raise MetricError(
                f"mechanism of group {name!r} is ({b0:g}, {b1:g}): give shares, P(D=1 | Df=0) "
                "below P(D=1 | Df=1)"
            )
    return found
