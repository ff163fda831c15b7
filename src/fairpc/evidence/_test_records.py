"""What the tests of the assumptions found, and the sentences about it.

Without strata an :class:`AssumptionTest`; with strata the test of each by itself,
:class:`TestsByStratum`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fairpc.core import Record
from fairpc.evidence._group_range import LeastDifference
from fairpc.evidence._intervals import Interval
from fairpc.evidence._strata import ARGUED, LeftOut, left_out_words

Method = Literal["cross-fit", "single-split"]
SMALLEST_P: Final = 1e-12

WHAT_TO_DO: Final = (
    "If an attribute may rightly change the rate of fair decisions, such as hours worked, "
    "compare people within its levels: given=[…].",
    "If you know something beforehand, such as the rate of fair decisions, or that labels were "
    "only ever lowered, state it (knowledge=…), and say that the result depends on it.",
    "Have a few hundred rows looked at again: a review needs no such assumption.",
    "Do not go on as if nothing had been found: these data contradict what such a model assumes, "
    "so do not quote what it says about altered labels.",
)


def _p_words(p_value: float) -> str:
    return "below 1e-12" if p_value <= SMALLEST_P else f"= {p_value:.2g}"


@dataclass(frozen=True)
class ClassBound:
    """One class in one group; counts and cut-off are medians over the seeds."""

    label: Any  #: the class
    rate: float  #: P(D = label | group)
    upper: float  #: upper confidence bound of P(Df = label) from this group alone
    set_n: float  #: rows of the top set
    set_rate: float  #: rate of the class among them
    cutoff: float  #: rows whose predicted probability of the class is at least this are in the set


@dataclass(frozen=True)
class GroupBounds:
    """One group: bounds of P(Df) from it alone, and the counts behind them."""

    group: Any  #: its name; a tuple where several attributes are crossed
    n: int  #: rows
    effective_n: float  #: independent rows they are worth
    lower: float  #: of P(Df = positive)
    upper: float  #: likewise
    classes: tuple[ClassBound, ...]  #: per class


@dataclass(frozen=True)
class AlteredByFeatures:
    """The set of P(Df) where labels may also be altered by features, up to a limit."""

    #: by how much the odds of P(D = c | Df = c, s, x) may differ between two rows of a group; 1 is
    #: the assumption that they do not
    gamma: float
    lower: float  #: as those of the test
    upper: float


@dataclass(frozen=True)
class AssumptionTest(Record):
    """Confidence set for P(Df), and whether the labels contradict that it is one for all groups.

    The rejection is that of ``least_difference``, and not that the set is empty: it may stand
    beside a set that is just not.
    """

    lower: float  #: lower end of the confidence set of P(Df = positive)
    upper: float  #: upper end; ``lower > upper`` means that the set is empty
    rejected: bool  #: whether fair rates must differ by more than ``delta``
    p_value: float  #: smallest 1 − level at which it is rejected; never said to be under 1e-12
    groups: tuple[GroupBounds, ...]  #: per group
    classes: tuple[Any, ...]  #: in sorted order
    positive: Any  #: the class that the set is about
    level: float  #: of the confidence set
    method: Method  #: "cross-fit", or "single-split", which is exact for independent rows
    n_seeds: int  #: ways of splitting over which the median was taken
    altered_by_features: tuple[
        AlteredByFeatures, ...
    ]  #: the set where D depends on X too, given Df and S
    #: how much of that undoes a rejection: the least ``gamma`` that does; None where nothing was
    #: rejected, infinite where a thousandfold is not enough
    tolerated: float | None
    classifiers: tuple[tuple[str, int], ...]  #: which ranked the rows, and in how many fits
    delta: float = 0.0  #: by how much fair rates of groups may differ
    least_difference: LeastDifference = field(kw_only=True)  #: by how much they must at least
    most_difference: float = field(kw_only=True)  #: differences above this are excluded

    _computed = ("what_to_do", "summary")

    @property
    def what_to_do(self) -> tuple[str, ...]:
        """What is left to do after a rejection; empty where nothing was rejected."""
        return WHAT_TO_DO if self.rejected else ()

    def ends(self) -> dict[Any, Interval]:
        """Per group the rates of the positive class in the bottom and in the top set.

        Held-out estimates of the least and the largest P(D = positive | x, s), for
        ``identified_set``; without the noise that extremes of fitted scores have.
        """
        found = {}
        for g in self.groups:
            bounds = {c.label == self.positive: c for c in g.classes}
            low, high, rate = 1 - bounds[False].set_rate, bounds[True].set_rate, bounds[True].rate
            # The rate of the group serves where a set was empty, and its rate is NaN, and where
            # few rows put the rate of a set on the wrong side of it.
            found[g.group] = (
                rate if math.isnan(low) else min(low, rate),
                rate if math.isnan(high) else max(high, rate),
            )
        return found

    def tolerance(self) -> str:
        """How far the label may depend on features before a rejection falls, in plain words."""
        if self.tolerated is None:
            return ""
        if math.isinf(self.tolerated):
            return (
                "It would stand even if features changed the odds of a label a thousandfold, given "
                "the fair decision and the group."
            )
        return (
            "It would fall if features changed the odds of a label, given the fair decision and "
            f"the group, by a factor of {self.tolerated:.2f} or more."
        )

    def clash(self) -> str:
        """What a rejection means for the rates of fair decisions; empty where there is none."""
        least = self.least_difference
        if not self.rejected:
            return ""
        if least.limit <= self.delta:
            return "what was stated as known leaves no fair rate that the labels allow"
        allowed = "with the same rate in every group"
        if self.delta > 0:
            allowed = f"with rates that differ by {100 * self.delta:.3g} points at most"
        return (
            f"the fair rates must differ by at least {100 * least.limit:.1f} points, with "
            f"{least.above!r} above {least.below!r}; {allowed} these labels cannot be explained"
        )

    def power(self, difference: float = 0.1) -> str:
        """What the test can see, in plain words."""
        n_rows = sum(g.n for g in self.groups)
        return self.least_difference.power(n_rows, difference, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """The record and what follows from it as plain data, for JSON.

        ``classifiers`` maps each classifier to its number of fits.
        """
        return super().to_dict() | {"classifiers": dict(self.classifiers)}

    def summary(self) -> str:
        """The result and what it does not mean, in plain words."""
        p = _p_words(self.p_value)
        if self.rejected:
            return (
                f"Rejected at the {1 - self.level:.2g} level (p {p}): {self.clash()}. "
                "At least one of these fails: fair decisions are independent of the group"
                f"{', or nearly so' if self.delta > 0 else ''}; the label depends on the features "
                "through the fair decision only; in every group a label is most likely "
                f"under the fair decision of the same name. {self.tolerance()} What to do: "
                f"{' '.join(self.what_to_do)}"
            )
        share = (
            f"with {self.level:.0%} confidence the share of fair decisions {self.positive!r} "
            f"lies between {self.lower:.3f} and {self.upper:.3f}, if the assumptions are true"
        )
        return (
            f"Not rejected (p {p}): {share}. This does not show that the assumptions are true; "
            f"some violations cannot be seen however many rows there are. {self.power()}".rstrip()
        )


@dataclass(frozen=True)
class StratumTest:
    """The test of one stratum by itself, at the level that all strata together need."""

    stratum: Any
    n: int
    test: AssumptionTest


@dataclass(frozen=True)
class TestsByStratum(Record):
    """Whether parity within strata is contradicted, each with a mechanism of its own."""

    rejected: bool  #: whether some stratum has no P(Df) left
    p_value: float  #: the least of the strata, times their number; at most 1
    level: float  #: of all sets together
    strata: tuple[StratumTest, ...]  #: those that were tested, in sorted order
    left_out: tuple[LeftOut, ...]  #: those that were not

    __test__ = False
    _computed = ("summary",)

    def summary(self) -> str:
        """The result and what it does not mean, in plain words."""
        p = _p_words(self.p_value)
        named = [repr(s.stratum) for s in self.strata if s.test.rejected]
        if self.rejected:
            text = (
                f"Rejected at the {1 - self.level:.2g} level (p {p}): in "
                f"{'stratum' if len(named) == 1 else 'strata'} {', '.join(named)} no rate of fair "
                "decisions fits every group, even with a mechanism of its own."
            )
        else:
            text = (
                f"Not rejected (p {p}): each of {len(self.strata)} strata, with a mechanism of its "
                "own, leaves a rate of fair decisions that fits every group. This does not show "
                "that the assumptions are true."
            )
        return f"{text}{left_out_words(self.left_out)} {ARGUED}"
