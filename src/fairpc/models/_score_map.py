"""Df from the scores of any classifier of D: one line per group, once the mechanism is known.

D is independent of X given (Df, S), so with q(x, s) = P(Df = 1 | x, s)

    r(x, s) = P(D = 1 | x, s) = b0 + (b1 − b0) q(x, s),    b_f = P(D = 1 | Df = f, s).

A classifier that sees X and S gives r, if it is calibrated within each group. Cross-fitted scores
calibrate it. They also give P(Df) and the mechanism, a point of what held-out rows leave possible.
Then q = (r − b0) / (b1 − b0).

Scores beyond b0 and b1 are compressed towards 0 and 1, so that their order is kept, and the odds of
each group are shifted so that the mean of q in its training rows is P(Df = 1).

With strata (``_strata``) P(Df = 1 | a) takes the place of P(Df = 1), each subgroup has a mechanism,
and its odds are shifted so that the mean of q in it is that of its stratum.

Here D = 1 means the positive class, whatever the order of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import expit, logit

from fairpc.core import ALTERED, FileFormatError, Floats, Positions, record, serialise
from fairpc.evidence import Interval, LabelBounds, WithinBounds, around
from fairpc.learners import LEAST, Calibration
from fairpc.models._strata import UNDIVIDED, Strata
from fairpc.models._top_em import TopRates

SUM_TOLERANCE: Final = 1e-8
_ABSENT: Final = ("strata", "group_decision_rate")
"""Fields that a file has only where the map has them."""
EDGE: Final = 0.02
"""From 0 and 1 the distance at which scores are compressed."""


class Subgroups(NamedTuple):
    """The subgroup of each row: its group, and its stratum by number, -1 where it is not known."""

    groups: Positions
    strata: Positions | None = None  #: None where all are in one, or none is known


@dataclass(frozen=True, eq=False)
class StrataMap:
    """What differs between strata."""

    share: Floats  #: P(S, A), [s, a]
    decision_rate: Floats  #: P(Df = 1 | A), [a]; where rates may differ, P(Df = 1 | S, A), [s, a]
    mechanism: Floats  #: b0 and b1 of each subgroup, [s, a, f]
    shifts: Floats  #: of the log-odds of q, [s, a]

    @property
    def group_decision_rate(self) -> Floats:
        """P(Df = 1 | S), [s]: groups differ by the mix of strata alone, unless rates may."""
        rates = self.decision_rate
        own = self.share @ rates if rates.ndim == 1 else (self.share * rates).sum(axis=1)
        return np.asarray(own / self.share.sum(axis=1), np.float64)

    @property
    def mean_decision_rate(self) -> float:
        """P(Df = 1)."""
        if self.decision_rate.ndim == 1:
            return float(self.share.sum(axis=0) @ self.decision_rate)
        return float((self.share * self.decision_rate).sum())

    @property
    def stratum_decision_rate(self) -> Floats:
        """P(Df = 1 | A), [a]."""
        if self.decision_rate.ndim == 1:
            return self.decision_rate
        total = self.share.sum(axis=0)
        mean = (self.share * self.decision_rate).sum(axis=0) / np.where(total > 0, total, 1.0)
        return np.asarray(mean, np.float64)

    @property
    def rates(self) -> Floats:
        """P(Df = 1 | S, A), [s, a]."""
        return np.broadcast_to(self.decision_rate, self.share.shape)

    @property
    def group_mechanism(self) -> Floats:
        """b0 and b1 of each group, [s, f]: the mean over P(a | f, s)."""
        decided = np.stack([1 - self.decision_rate, self.decision_rate], axis=-1)
        joint = self.share[:, :, None] * decided
        return np.asarray((joint * self.mechanism).sum(axis=1) / joint.sum(axis=1), np.float64)

    def is_sound(self, n_groups: int, n: int, delta: float) -> bool:
        """Whether the numbers can be those of so many groups and strata."""
        sizes = self.decision_rate.shape, self.share.shape, self.shifts.shape, self.mechanism.shape
        rated = (n_groups, n) if delta > 0 else (n,)
        if sizes != (rated, (n_groups, n), (n_groups, n), (n_groups, n, 2)):
            return False
        rates = np.concatenate(
            [each.ravel() for each in (self.share, self.decision_rate, self.mechanism)]
        )
        return (
            float(np.ptp(self.rates, axis=0).max()) <= delta + SUM_TOLERANCE
            and bool(np.isfinite(self.shifts).all() and ((rates >= 0) & (rates <= 1)).all())
            and bool((self.mechanism[..., 1] > self.mechanism[..., 0]).all())
            and abs(self.share.sum() - 1) < SUM_TOLERANCE
        )


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """What turns the scores of a classifier into P(Df = 1 | x, s)."""

    calibrations: tuple[Calibration, ...]  #: per group
    group_rate: Floats  #: P(S)
    decision_rate: float  #: P(Df = 1); the mean over groups where their rates may differ
    mechanism: Floats  #: b0 and b1 of each group, [s, f]; with strata their mean
    shifts: Floats  #: of the log-odds of q, per group; with strata, where the stratum is not known
    ends: LabelBounds  #: what held-out rows leave possible
    straight: bool = False  #: whether D = Df was kept, because the labels do not reject it
    strata: StrataMap | None = None  #: what differs between them
    group_decision_rate: Floats | None = None  #: P(Df = 1 | S), [s], if it may differ, unstratified

    @property
    def by_stratum(self) -> StrataMap:
        """The same for each stratum; without strata there is one."""
        if self.strata is not None:
            return self.strata
        rates, by_group = np.array([self.decision_rate]), self.group_decision_rate
        if by_group is not None:
            rates = by_group[:, None]
        one = self.group_rate[:, None], rates, self.mechanism[:, None]
        return StrataMap(*one, self.shifts[:, None])

    def rates(self, positive: int) -> TopRates:
        """P(S), P(Df) and P(D | Df, S) by the codes of the classes."""
        return TopRates.of_two(self.group_rate, self.decision_rate, self.mechanism, positive)

    def observed(self, scores: Floats, groups: Positions) -> Floats:
        """r = P(D = 1 | x, s): the scores of one classifier or of several, [classifier, row]."""
        found = np.empty_like(scores)
        for g, calibration in enumerate(self.calibrations):
            here = groups == g
            found[..., here] = np.clip(calibration(scores[..., here]), 0.0, 1.0)
        return found

    def rate_set(self, level: float) -> Interval:
        """Confidence set of P(Df = 1); lower > upper where the assumptions are rejected."""
        return self.ends.rate_set(level, self.by_stratum.share)

    def _lines(self, at: Subgroups) -> tuple[Floats, Floats]:
        """b0 and b1 of each row, [row, f], and its shift; of the group where strata are unknown."""
        mechanism, shifts = self.mechanism[at.groups], self.shifts[at.groups]
        if at.strata is not None:
            known, own = at.strata >= 0, self.by_stratum
            cells = at.groups[known], at.strata[known]
            mechanism[known], shifts[known] = own.mechanism[cells], own.shifts[cells]
        return mechanism, shifts

    def mechanism_of(self, at: Subgroups) -> Floats:
        """b0 and b1 of each row, [row, f]."""
        return self._lines(at)[0]

    def decision(self, scores: Floats, at: Subgroups) -> Floats:
        """q = P(Df = 1 | x, s): the mean over classifiers, [classifier, row] to [row]."""
        return shifted(self.unshifted(scores, at), self._lines(at)[1])

    def unshifted(self, scores: Floats, at: Subgroups) -> Floats:
        """The same before log-odds are shifted: what shifts are found from, to the last bit."""
        q = np.empty_like(scores)
        mechanism = self.mechanism_of(at)
        for g, calibration in enumerate(self.calibrations):
            here = at.groups == g
            b0, b1 = mechanism[here].T
            q[..., here] = _squashed((calibration(scores[..., here]) - b0) / (b1 - b0))
        return mean_of(np.atleast_2d(q))

    def bounds(self, scores: Floats, at: Subgroups, level: float | None) -> Floats:
        """Least and largest P(Df = 1 | x, s), rows × 2; see ``StratumBounds.score_bounds``.

        With a level, half of 1 − level is for the set, half for what is not known of r: the
        spread of classifiers that were each learned without a fold (a jackknife), and the
        calibration. The score itself always lies between the two, if any does.
        """
        each = self.observed(np.atleast_2d(scores), at.groups)
        r = mean_of(each)
        low = high = r
        if level is not None:
            half = _half_width(self, each, np.atleast_2d(scores), at.groups, level)
            low, high = np.clip(r - half, 0.0, 1.0), np.clip(r + half, 0.0, 1.0)
            level = (1 + level) / 2
        q = self.decision(scores, at)
        return around(q, self.ends.score_bounds(low, high, at.groups, level, at.strata))

    def posterior(self, q: Floats, labels: Positions, at: Subgroups) -> Floats:
        """P(Df = 1 | x, s, d) ∝ q P(d | Df = 1, s); q where the label is not known (-1)."""
        known = posterior_of(q, labels, self.mechanism_of(at))
        return np.where(labels >= 0, known, q)

    def altered(self, q: Floats, labels: Positions, at: Subgroups, weights: Floats) -> Floats:
        """Expected weight of rows with Df = f and D = d in group s, [s, f, d], 1 = positive.

        Of a row whose label is not known (-1) either is counted, as probable as it is.
        """
        own = self.mechanism_of(at)
        mechanism = np.stack([1 - own, own], axis=2)  # [row, f, d]
        # Not zero: a decision that is known may contradict it.
        joint = np.stack([1 - q, q], axis=1)[:, :, None] * np.maximum(mechanism, LEAST)
        for d in (0, 1):
            joint[labels == 1 - d, :, d] = 0.0
        joint *= (weights / joint.sum(axis=(1, 2)))[:, None, None]
        counts = np.zeros((len(self.mechanism), 2, 2))
        np.add.at(counts, at.groups, joint)
        return counts

    def to_dict(self) -> dict[str, Any]:
        """As JSON-safe data."""
        content = {field.name: serialise(getattr(self, field.name)) for field in fields(self)}
        return {n: v for n, v in content.items() if v is not None or n not in _ABSENT}

    @classmethod
    def from_dict(cls, data: dict[str, Any], strata: Strata = UNDIVIDED) -> ScoreMap:
        """The map of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        whole = dict.fromkeys(_ABSENT) | data
        found = record(cls, whole, "the map of scores", exact=True, repair=ALTERED)
        if not found._fits(strata):
            raise FileFormatError(f"the map of scores does not fit together: {ALTERED}")
        return found

    def _fits(self, strata: Strata) -> bool:
        """Whether the parts are those of one map."""
        n, own, ends = len(self.calibrations), self.strata, self.ends
        n_strata = len(ends.strata) if isinstance(ends, WithinBounds) else 0
        return (
            n >= 2
            and all(calibration.is_sound() for calibration in self.calibrations)
            and len(ends.groups) == n
            and n_strata == (strata.n if strata else 0)
            and isinstance(ends, WithinBounds) == bool(strata)
            and ends.with_delta(strata.delta) == ends
            and (own is not None) == bool(strata)
            and (self.group_decision_rate is not None) == bool(strata.delta and not strata)
            and replace(self, strata=None).by_stratum.is_sound(n, 1, 0.0 if own else strata.delta)
            and (own is None or own.is_sound(n, strata.n, strata.delta))
        )


def posterior_of(q: Floats, labels: Any, mechanism: Floats) -> Floats:
    """P(Df = 1 | x, s, d) of rows, where q is P(Df = 1 | x, s) and b0, b1 are those of each row."""
    b0, b1 = mechanism.T
    one = np.where(labels == 1, b1, 1 - b1) * q
    zero = np.where(labels == 1, b0, 1 - b0) * (1 - q)
    total = one + zero
    return np.asarray(np.divide(one, total, out=np.array(q), where=total > 0), np.float64)


def _half_width(
    map_: ScoreMap, each: Floats, scores: Floats, groups: Positions, level: float
) -> Floats:
    """Half of an interval of r, from classifiers that each lack a fold and from the calibration."""
    from scipy.special import stdtrit

    n = len(each)
    jackknife = (n - 1) * mean_of((each - mean_of(each)) ** 2)
    steps = np.empty(each.shape[1])
    mean = mean_of(scores)
    for g, calibration in enumerate(map_.calibrations):
        here = groups == g
        steps[here] = calibration.variance(mean[here])
    tail = 1 - (1 - level) / 4
    return np.asarray(stdtrit(max(n - 1, 1), tail) * np.sqrt(jackknife + steps), np.float64)


def mean_of(each: Floats) -> Floats:
    """The mean over classifiers, [classifier, row] to [row], added one after the other.

    NumPy adds those of a single row in another order: alone, it would have other bits.
    """
    total = each[0].copy()
    for own in each[1:]:
        total += own
    return np.asarray(total / len(each), np.float64)


def _squashed(q: Floats) -> Floats:
    """Numbers near to 0 and 1, and beyond, compressed into the range between, their order kept."""
    high = 1 - EDGE * np.exp(-np.maximum(q - (1 - EDGE), 0.0) / EDGE)
    low = EDGE * np.exp(-np.maximum(EDGE - q, 0.0) / EDGE)
    return np.asarray(np.where(q > 1 - EDGE, high, np.where(q < EDGE, low, q)), np.float64)


def shifted(q: Floats, shifts: Floats | float) -> Floats:
    return np.asarray(expit(logit(np.clip(q, LEAST, 1 - LEAST)) + shifts), np.float64)
