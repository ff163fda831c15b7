"""How labels were altered, in words: the range that held-out labels leave, then the point.

The range is the finding. The point is a convention: a rule where a model starts from scores
(:mod:`fairpc.evidence._group_range`), the end of EM where it does not. Where the labels contradict
the assumptions, nothing is said about altered labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from fairpc.core import NONE, Bools, Floats, counted
from fairpc.data import TableCoding
from fairpc.evidence import (
    ANYTHING,
    LEVEL,
    Interval,
    Known,
    LabelBounds,
    StratumBounds,
    WithinBounds,
)
from fairpc.models._settings import named_strata
from fairpc.models._strata import Strata

ZERO: Final = "0.0%"
_SEEN: Final = 5e-4, 5e-4, 0.5  # a share, the fair rate, a number of labels: by rounding
NO_DIFFERENCE: Final = (
    "No difference between the groups needs explaining: their recorded rates are equal within "
    "chance. Errors that all groups share cannot be seen in such a table; a review of some rows "
    "would show them."
)
OUTSIDE: Final = "The point that the model uses is outside its range: do not quote it."
ANYTHING_FROM: Final = 0.95
"""A range of a share that is wider leaves next to anything possible: it is no finding."""
UNRANGED: Final = "whose range is not known, if the assumptions hold"
OVERLAP: Final = "The labels do not say whose were altered: the ranges overlap"
ASSUMED: Final = (
    "These ranges need that a label depends on the features only through the fair decision and the "
    "group. Whether it does (or some kinds of cases are always decided one way) only a review of "
    "some rows can show."
)


@dataclass(frozen=True, eq=False)
class BiasAccount:
    """How labels were altered, by group: ranges, a point, estimated numbers, sentences.

    Attributes:
        groups, classes: names.
        mechanism: P(D = d | Df = f, S = s), [s, f, d]: the point.
        counts: number of training labels with Df = f, D = d in group s, [s, f, d], estimated from
            the features of each row: not the point times the group's rows, if these rows differ.
            NaN in a group of audited rows of which too few people have some label.
        ranges: least and largest P(D = d | Df = f, S = s) that held-out labels leave possible,
            [s, f, d, end]; NaN where they contradict the assumptions, None where no range was
            looked for.
        contradiction: the sentence where they do; empty otherwise.
        alike: whether the recorded rates of the groups are equal within chance.
        prior_rows: per (f, s), with D = Df in nine of ten, where such a prior is part of the point.
        level: of the ranges.
        training: the counts of the fit, where ``counts`` are those of other rows.
        without_prior: the point without prior rows, [s, f, d], where it has any.
        rate, rate_range: fair rate of the positive class, and what labels leave possible.
        other_rows: whether ``counts`` are of rows that the model was not fitted to.
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    mechanism: Floats
    counts: Floats
    ranges: Floats | None = None
    contradiction: str = ""
    alike: bool = False
    prior_rows: float = 0.0
    level: float = LEVEL
    training: Floats | None = None
    without_prior: Floats | None = None
    rate: float = np.nan
    rate_range: Interval | None = None
    other_rows: bool = False

    @property
    def _fitted(self) -> Floats:
        return self.counts if self.training is None else self.training

    @property
    def mostly_prior(self) -> Bools:
        """Whether a point has more prior rows than rows of the fit, [s, f]: it is not learned."""
        return np.asarray(self._fitted.sum(axis=2) < self.prior_rows)

    @property
    def count_ranges(self) -> Floats | None:
        """Least and largest number of labels with Df = f and D = d in group s, [s, f, d, end].

        Of ``ranges`` alone: the rows of a group with a label are known, and P(Df, D | s) rises or
        falls in b0 and in b1, so that its extremes are at two corners.
        """
        if self.ranges is None:
            return None
        recorded = self.counts.sum(axis=1)
        n = recorded.sum(axis=1)
        found = np.empty(self.ranges.shape)
        for f in range(2):
            # P(D = f | Df = 1 - f) and P(D = f | Df = f), as if f were the positive class.
            b0, b1 = self.ranges[:, 1 - f, f], self.ranges[:, f, f]
            rate = recorded[:, f] / np.maximum(n, 1e-300)
            for end in range(2):
                at = b0[:, 1 - end], b1[:, 1 - end]
                share = (rate - at[0]) / np.maximum(at[1] - at[0], 1e-300)
                missed = n * np.clip(share, 0.0, 1.0) * (1 - at[1])
                found[:, f, 1 - f, end] = np.minimum(missed, recorded[:, 1 - f])
        for f in range(2):
            found[:, f, f] = recorded[:, f, None] - found[:, 1 - f, f, ::-1]
        return found

    @property
    def _beyond(self) -> tuple[Bools, Bools, Bools]:
        """Which shares, whether the fair rate, and which counts are outside their ranges."""
        if self.rate_range is None or self.ranges is None or self.count_ranges is None:
            return (np.zeros(1, np.bool_),) * 3
        learned = np.where(self.mostly_prior, np.nan, 1.0)[..., None]
        # Counts of other rows vary by chance, of which the ranges of a fit know nothing.
        own = self.counts * np.where(self.other_rows, np.nan, learned)
        points = self.mechanism * learned, np.asarray(self.rate), own
        each = zip(points, (self.ranges, self.rate_range, self.count_ranges), _SEEN, strict=True)
        shares, rate, counts = (
            (at < np.asarray(of)[..., 0] - seen) | (at > np.asarray(of)[..., 1] + seen)
            for at, of, seen in each
        )
        return shares, rate, counts

    @property
    def outside(self) -> bool:
        """Whether a share, a count or the fair rate of the point is outside its range."""
        return any(beyond.any() for beyond in self._beyond)

    @property
    def withheld(self) -> str:
        """Why nothing is said about altered labels; empty where something is."""
        if self.contradiction or self.rate_range is None or not self._beyond[1].any():
            return self.contradiction
        low, high = self.rate_range
        return (
            f"By the labels of the fit the fair rate may be anything from {low:.1%} to "
            f"{high:.1%}, and the model uses {self.rate:.1%}: its mechanism must not be read as "
            "what happened."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What can be said, one sentence for each way in which labels of a group were altered."""
        if self.withheld:
            return (f"Nothing is said about altered labels. {self.withheld}",)
        own = tuple(
            self._sentence(s, f, d) for s, f, d in np.ndindex(self.mechanism.shape) if d != f
        )
        first = (self.no_difference,) if self.no_difference else ()
        last = () if self.ranges is None else (*(OUTSIDE,) * self.outside, ASSUMED)
        return (*first, *own, *self._said_of_prior(), *last)

    def _said_of_prior(self) -> tuple[str, ...]:
        """How much of the point its prior rows are, if there are any."""
        if not self.prior_rows:
            return ()
        return (
            f"The points hold {self.prior_rows:g} prior rows per group and fair decision, nine of "
            "ten recorded as they should be; beside each stands what it is without them.",
        )

    @property
    def no_difference(self) -> str:
        """The sentence where the groups' recorded rates are equal; empty otherwise."""
        said = self.alike and self.ranges is not None and not self.contradiction
        return NO_DIFFERENCE if said else ""

    def _sentence(self, s: int, f: int, d: int) -> str:
        """How often a decision was recorded as another label; "none" where nothing else can be."""
        who = f"In group {self.groups[s]}, of the people whose fair decision is {self.classes[f]}"
        label, point = self.classes[d], self._point(s, f, d)
        counts = self.count_ranges
        if self.ranges is None or counts is None:
            return f"{who}, {point} were recorded {label}: a point, {UNRANGED}."
        low, high = (f"{end:.1%}" for end in self.ranges[s, f, d])
        sure = f"{self.level:.0%} confidence, if the assumptions hold"
        if high == ZERO:
            return f"{who}, {NONE} were recorded {label} ({sure})."
        between = f"at most {high}" if low == ZERO else f"between {low} and {high}"
        (least, most), labels = np.round(counts[s, f, d]), ""
        if most >= 0:
            labels = f"; {f'{least:,.0f} to' if least else 'at most'} {counted(int(most), 'label')}"
        return (
            f"{who}, {between} were recorded {label} ({sure}{labels}). "
            f"{'' if self.outside else f'Point by convention: {point}.'}".rstrip()
        )

    def _point(self, s: int, f: int, d: int) -> str:
        if self.mostly_prior[s, f]:
            return "none, as the prior outweighs the rows"
        share, n = f"{self.mechanism[s, f, d]:.1%}", np.round(self.counts[s, f, d])
        bare = ""
        if self.without_prior is not None:
            bare = f"{self.without_prior[s, f, d]:.1%} without the prior"
        if share == ZERO:
            return f"under 0.1%{bare and f' ({bare})'}"
        by = f"by these rows' features {counted(int(n), 'label')}" if n >= 0 else ""
        notes = "; ".join(filter(None, (by, bare)))
        return f"{share} ({notes})" if notes else share

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        """What a notebook shows; marks that could hide or turn text are shown by number."""
        lines = (
            "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in sentence)
            for sentence in self.sentences
        )
        return f"<ul>{''.join(f'<li><bdi>{escape(line)}</bdi></li>' for line in lines)}</ul>"


def apart(ranges: Sequence[Interval]) -> tuple[int, int] | None:
    """Which of some groups surely had more labels altered, and which fewer; None if none surely.

    Ranges that overlap leave it open: what is said of two groups then is not a finding.
    """
    most = max(range(len(ranges)), key=lambda s: ranges[s][0])
    fewest = min(range(len(ranges)), key=lambda s: ranges[s][1])
    return (most, fewest) if ranges[most][0] > ranges[fewest][1] else None


def mechanism_ranges(bounds: LabelBounds, positive: int) -> Floats:
    """Least and largest P(D = d | Df = f, s) by the codes of the classes, [s, f, d, end].

    With strata [s, a, f, d, end].
    """
    own = bounds.mechanism_range()  # [..., f, end] of D = positive, the negative decision first
    order = [0, 1] if positive else [1, 0]
    both = np.stack([1 - own[..., ::-1], own], axis=-2)
    return np.asarray(both[..., order, :, :][..., order, :], np.float64)


def _stated(bounds: LabelBounds) -> bool:
    """Whether anything was stated as known beforehand, or is known of rows."""
    return any(
        own.pi != ANYTHING or any(one != Known() for one in own.known)
        for _, _, own in bounds.parts()
    )


def contradictions(bounds: LabelBounds, coding: TableCoding, strata: Strata) -> list[str]:
    """A sentence where held-out labels leave nothing possible."""
    if not bounds.rejected(LEVEL):
        return []
    name = coding.labels.positive_class
    tail = f"{', or what was stated as known is wrong' * _stated(bounds)}."
    if isinstance(bounds, WithinBounds):
        rejected = bounds.rejected(LEVEL)
        shown = named_strata(rejected, strata, coding)
        near = f" up to {100 * strata.delta:.3g} points" if strata.delta else ""
        found = (
            f"in {counted(len(rejected), 'stratum', 'strata')} ({shown}) no rate of the fair "
            f"decision {name} fits every group{near}; it cannot be independent of the group there, "
            f"or the label depends on features otherwise than through it{tail}"
        )
    else:
        least = bounds.differences(LEVEL).least()
        clash = "what was stated as known leaves no fair rate that the labels allow"
        if least.limit > bounds.delta:
            allowed = "with the same rate in every group"
            if bounds.delta > 0:
                allowed = f"with rates that differ by {100 * bounds.delta:.3g} points at most"
            clash = (
                f"the fair rates of {name} must differ by at least {100 * least.limit:.1f} points, "
                f"with {least.above} above {least.below}; {allowed} these labels cannot be "
                "explained"
            )
        found = (
            f"{clash}. Either that is so, or the label depends on features otherwise than through "
            f"the fair decision{tail} The labels alone cannot say which."
        )
    return [f"The labels of the fit contradict the assumptions ({LEVEL:.0%} confidence): {found}"]


def rates_alike(bounds: LabelBounds) -> bool:
    """Whether no two groups have recorded rates that differ by more than chance."""
    from scipy.special import ndtri

    whole = [g.positive.whole for g in bounds.groups]
    pairs = [(a, b) for i, a in enumerate(whole) for b in whole[:i]]
    if not pairs or not isinstance(bounds, StratumBounds):
        return False
    z = float(ndtri(1 - (1 - LEVEL) / (2 * len(pairs))))
    return all(abs(a.mean - b.mean) <= z * np.sqrt(a.variance + b.variance) for a, b in pairs)
