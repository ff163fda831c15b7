"""Error rates against the latent fair decision: the records, and what they say in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from fairpc.core import Record
from fairpc.evidence._error_sets import Rate
from fairpc.evidence._intervals import Interval

Sign = Literal["lower", "higher", "undecided"]
RATE_NAMES: Final[dict[Rate, str]] = {
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "accuracy": "accuracy",
    "precision": "precision",
    "selection": "selection rate",
}
THROUGH_DF: Final = "labels depend on features only through the fair decision"
"""What the sign of a difference rests on; nothing in the labels shows whether it is so."""
_MOST_PAIRS: Final = 3
_DETECTABLE: Final = 0.05
_VACUOUS: Final = 0.75  # of a difference, which lies from -1 to 1


@dataclass(frozen=True)
class RateRange(Record):
    """A rate that labels do not fix: ``low, high = range``, with identification and sampling.

    NaN where it is not defined (the precision of a group that is never selected), or where the
    labels contradict the assumptions.
    """

    low: float  #: limits at the level: what the labels leave open, and sampling error
    high: float
    #: what would stay open with any number of rows, at the estimates
    identified: Interval

    _computed = ("sampling",)

    @property
    def sampling(self) -> Interval:
        """By how much sampling error moves either end away from the identified range."""
        return self.identified[0] - self.low, self.high - self.identified[1]

    @property
    def width(self) -> float:
        return self.high - self.low

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> float:
        return (self.low, self.high)[index]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(frozen=True)
class RecordedRates:
    """The rates against the recorded label, which may be biased; NaN where not defined."""

    tpr: float
    fpr: float
    accuracy: float
    precision: float
    selection: float


@dataclass(frozen=True)
class GroupErrorRates(Record):
    """One group: rates of its decisions against the latent fair decision, and as recorded."""

    group: Any  #: its name; a tuple where several attributes are crossed
    n: int  #: rows
    effective_n: float  #: independent rows they are worth
    tpr: RateRange  #: P(h = 1 | Df = 1), the share of fair positives that are selected
    fpr: RateRange  #: P(h = 1 | Df = 0)
    accuracy: RateRange  #: P(h = Df)
    precision: RateRange  #: P(Df = 1 | h = 1)
    selection: RateRange  #: P(h = 1); sampling error alone
    recorded: RecordedRates  #: the same against the recorded label
    b0: Interval  #: P(D = 1 | Df = 0) that is possible at the level
    b1: Interval  #: P(D = 1 | Df = 1)
    small: bool  #: worth under 30 rows, or under 5 in a row or column of decision by label


@dataclass(frozen=True)
class PairErrorRates(Record):
    """Two groups: each rate of the last minus that of the first, or over it."""

    first: Any  #: the groups, in sorted order
    last: Any
    tpr: RateRange
    fpr: RateRange
    accuracy: RateRange
    precision: RateRange
    selection: RateRange
    recorded: RecordedRates  #: the same of the rates against the recorded label
    #: reviews that would decide which group is higher, where labels leave it open and fewer than
    #: all rows do
    tpr_reviews: int | None = None
    fpr_reviews: int | None = None

    def detectable(self, rate: str) -> float:
        """The difference that these reviews would show: 5 points, or the middle of its range."""
        found: RateRange = getattr(self, rate)
        return max(_DETECTABLE, abs(sum(found.identified)) / 2)

    def sign(self, rate: Rate) -> Sign:
        """Whether all that is possible of a difference is below 0, or above."""
        found: RateRange = getattr(self, rate)
        if found.high < 0:
            return "lower"
        return "higher" if found.low > 0 else "undecided"

    def is_vacuous(self, rate: Rate) -> bool:
        """Whether what is possible has no sign and spans so much that it is no finding."""
        return self.sign(rate) == "undecided" and not getattr(self, rate).width < _VACUOUS

    def is_open(self, rate: Rate) -> bool:
        """Whether it may be 0 and may be more than 5 points: then reviews would decide."""
        most = max(map(abs, getattr(self, rate)))
        return self.sign(rate) == "undecided" and not most <= _DETECTABLE


@dataclass(frozen=True)
class ScoreBin(Record):
    """Rows of one group whose score lies in [low, high); the last bin includes 1."""

    group: Any
    low: float
    high: float
    n: int  #: rows
    mean_score: float
    recorded: float  #: share with a positive recorded label
    fair: RateRange  #: share with a positive latent fair decision


@dataclass(frozen=True)
class ErrorRates(Record):
    """Rates of decisions against the latent fair decision, group by group and between groups."""

    groups: dict[Any, GroupErrorRates]  #: by name, in sorted order
    differences: tuple[PairErrorRates, ...]  #: every pair: last minus first
    ratios: tuple[PairErrorRates, ...]  #: every pair: last over first
    calibration: tuple[ScoreBin, ...]  #: per group and bin of scores; empty without scores
    level: float
    simultaneous: bool  #: whether all ranges hold together at the level, or each by itself
    delta: float  #: by how much fair rates of groups may differ; 1 assumes nothing
    rejected: bool  #: the labels contradict fair rates so near to each other; ranges are NaN
    positive: Any  #: the class that counts as positive
    #: the same in each stratum, where labels are altered in each in its own way; else empty
    strata: tuple[StratumErrorRates, ...] = ()
    doubt: str = ""  #: what to check first, if decisions follow the labels suspiciously closely

    _computed = ("sentences", "summary")

    @property
    def sentences(self) -> tuple[str, ...]:
        """What follows about equal opportunity (true positive rates) and equalised odds (false
        positive rates too), pair by pair."""
        if self.rejected:
            return (
                f"Fair rates that differ by at most {self.delta:g} contradict the labels: use a "
                "larger delta.",
            )
        return tuple(_sentence(pair, rate) for pair in self.differences for rate in ("tpr", "fpr"))

    def summary(self) -> str:
        """The sentences of the first pairs, and what they rest on."""
        shown = list(self.sentences[: 2 * _MOST_PAIRS])
        if self.doubt:
            shown.insert(0, self.doubt)
        if len(self.differences) > _MOST_PAIRS:
            more = len(self.differences) - _MOST_PAIRS
            shown.append(f"{more} more pairs of groups are in differences.")
        small = [repr(g.group) for g in self.groups.values() if g.small]
        if small:
            shown.append(f"Few rows, read with care: {', '.join(small)}.")
        each = "All ranges together hold" if self.simultaneous else "Each range holds"
        where = "a group and stratum" if self.strata else "a group"
        rates = "fair rates of groups may differ."
        if self.delta < 1:
            apart = f"differ by at most {self.delta:g}" if self.delta else "be equal"
            rates = f"fair rates of groups are taken to {apart}."
        shown.append(
            f"{each} at {self.level:.0%} if the decisions did not look at these labels and, within "
            f"{where}, {THROUGH_DF}; {rates}"
        )
        return " ".join(shown)


@dataclass(frozen=True)
class StratumErrorRates(Record):
    """The rates in one stratum."""

    stratum: Any  #: its name
    rates: ErrorRates


def _sentence(pair: PairErrorRates, rate: Rate) -> str:
    """What follows about the difference of a rate of two groups."""
    found: RateRange = getattr(pair, rate)
    name, sign = RATE_NAMES[rate], pair.sign(rate)
    if_so = f"If {THROUGH_DF}, the {name} of {pair.last!r}"
    if math.isnan(found.low):
        return f"The {name} of {pair.first!r} or {pair.last!r} is not defined."
    if sign == "undecided" and not pair.is_open(rate):
        return (
            f"{if_so} differs from that of {pair.first!r} by at most "
            f"{_points(max(map(abs, found)))}."
        )
    if pair.is_vacuous(rate):
        return (
            f"These labels say next to nothing of how the {name} of {pair.last!r} differs from "
            f"that of {pair.first!r}; reviewing some rows would."
        )
    if sign == "undecided":
        ends = " to ".join(f"{_points(abs(e))} {'lower' if e < 0 else 'higher'}" for e in found)
        review = "reviewing some rows would narrow it"
        n = pair.tpr_reviews if rate == "tpr" else pair.fpr_reviews
        if n is not None:
            apart = _points(pair.detectable(rate))
            review = f"about {n:,} reviews would decide a difference of {apart}"
        return (
            f"Whether the {name} of {pair.last!r} differs from that of {pair.first!r} is not "
            f"decidable from these labels: it may be {ends}; {review}."
        )
    low, high = sorted(abs(end) for end in found)
    return (
        f"{if_so} is {sign} than that of {pair.first!r} by "
        f"{_points(low).split()[0]} to {_points(high)}."
    )


def _points(share: float) -> str:
    """Points, whole ones from one on: 0.4 points, 1 point, 12 points."""
    number = f"{100 * share:.0f}" if share >= 0.0095 or share == 0 else f"{100 * share:.1f}"
    return f"{number} point" if number == "1" else f"{number} points"
