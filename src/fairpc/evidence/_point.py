"""One point of the identified set, by a rule that can be said in a sentence.

The fair rate is the middle of the part of the set that lies between the lowest and the highest
recorded rate of a group; the labels of each group are then altered as little as that rate allows,
in |ρ_s − π| of its rows. It is a convention: labels fit every other point of the set as well.

Groups of fewer than 30 rows are not asked: a held-out set of rows needs as many, so that their
labels bound nothing, and a recorded rate of so few rows is mostly chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fairpc.core import Record
from fairpc.evidence._differences import check_difference
from fairpc.evidence._group_range import GroupRange
from fairpc.evidence._intervals import Interval
from fairpc.evidence._top_sets import MIN_SIZE

Rule = Literal["middle", "end", "between"]
_RULES: Final = {
    "middle": "the middle of what is possible between the lowest and the highest recorded rate",
    "end": "the end of what is possible that is nearest to the recorded rates",
    "between": "the middle of the gap between what one group needs and another allows",
}


@dataclass(frozen=True)
class FairRatePoint(Record):
    """A fair rate, and for each group the mechanism with the fewest altered labels."""

    rate: float  #: P(Df=1) by the rule
    rates: tuple[float, ...]  #: P(Df=1 | s); all the same unless the labels contradict it
    mechanism: tuple[Interval, ...]  #: (b0, b1) of each group
    altered: tuple[float, ...]  #: share of each group's rows whose label was altered
    #: "middle" of the part between recorded rates; "end", where the set has no such part;
    #: "between", where the set is empty
    rule: Rule
    unused: tuple[bool, ...]  #: whether a group has too few rows to be asked

    _computed = ("summary",)

    def summary(self) -> str:
        """The rule, in plain words."""
        return (
            f"A fair rate of {self.rate:.3f} is {_RULES[self.rule]}; the labels of each group are "
            "altered as little as it allows. It is a convention, and not a finding."
        )


def fair_rate_point(
    groups: Sequence[GroupRange], *, delta: float = 0.0, pi: Interval = (0.0, 1.0)
) -> FairRatePoint:
    """The point of an identified set that lies between the recorded rates.

    Where no rate fits all groups, groups have different ones, as near to the point as their labels
    allow and no further apart than ``delta``; else ``delta`` does not move it.

    Args:
        groups: what each leaves possible, such as ``identified_set(…).groups``.
        delta: by how much fair rates of groups may differ.
        pi: range of P(Df=1) that is known beforehand.
    """
    delta = check_difference("delta", delta)
    small = [g.n < MIN_SIZE for g in groups]
    if all(small):
        small = [False] * len(groups)
    used = [g for g, few in zip(groups, small, strict=True) if not few]
    ends = max(pi[0], *(g.lower for g in used)), min(pi[1], *(g.upper for g in used))
    recorded = min(g.rate for g in used), max(g.rate for g in used)
    rate, rule = _chosen(ends, recorded)
    rate = min(max(rate, pi[0]), pi[1])  # what is known holds, also where labels contradict it
    rates = np.full(len(groups), rate)
    if rule == "between":
        own = [
            (0.0, 1.0) if few else (g.lower, g.upper) for g, few in zip(groups, small, strict=True)
        ]
        away = np.clip(rate, *np.array(own).T) - rate
        rates += away * min(1.0, delta / max(float(np.ptp(away)), 1e-300))
        rates = np.clip(rates, *pi)
    each = list(zip(groups, rates.tolist(), strict=True))
    mechanism = tuple((g.b0(p)[0], g.b1(p)[1]) for g, p in each)
    altered = (
        p * (1 - b1) + (1 - p) * b0 for (_, p), (b0, b1) in zip(each, mechanism, strict=True)
    )
    return FairRatePoint(rate, tuple(rates.tolist()), mechanism, tuple(altered), rule, tuple(small))


def _chosen(possible: Interval, recorded: Interval) -> tuple[float, Rule]:
    """The rate by the rule, and which part of it decided."""
    empty = possible[0] > possible[1]
    start, stop = sorted(possible)
    low, high = max(start, recorded[0]), min(stop, recorded[1])
    if low <= high:
        return (low + high) / 2, "between" if empty else "middle"
    return (start if start > recorded[1] else stop), "between" if empty else "end"
