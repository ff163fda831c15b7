"""Thresholds of scores that make selection rates of groups equal, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Record,
    check_groups,
    check_labels,
    check_positive_weight,
    check_scores,
    check_threshold,
    one_number,
)


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
