"""Df from the scores of any classifier of D: one line per group, once the mechanism is known.

D is independent of X given (Df, S), so with q(x, s) = P(Df = 1 | x, s)

    r(x, s) = P(D = 1 | x, s) = b0 + (b1 − b0) q(x, s),    b_f = P(D = 1 | Df = f, s).

A classifier that sees X and S gives r, if it is calibrated within each group. Cross-fitted scores
calibrate it. They also give P(Df) and the mechanism: as for a forest, by the model of the bins of
the score (:mod:`fairpc.fair.label_scores`), kept within what held-out rows leave possible; or the
middle of that set. Then q = (r − b0) / (b1 − b0).

Scores beyond b0 and b1 are bent towards 0 and 1, so that their order is kept, and the odds of
each group are shifted so that the mean of q in its training rows is P(Df = 1).

With strata (:mod:`fairpc.fair.strata`) P(Df = 1 | a) takes the place of P(Df = 1), and the odds of
each subgroup are shifted so that the mean of q in it is that of its stratum. The mechanism is that
of the group, or of the subgroup where it is *within* strata.

Here D = 1 means the positive class, whatever the order of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args, overload

import numpy as np
from scipy.special import expit, logit

from fairpc.errors import FileFormatError, LearningError
from fairpc.errors.arrays import Floats, Ints, Positions, check_choice
from fairpc.evidence.ends import Known, LabelEnds, label_ends
from fairpc.evidence.ends_within import SharedEnds, StrataEnds, ends_of, ends_within
from fairpc.evidence.intervals import Interval, kish
from fairpc.fair.fit import Options
from fairpc.fair.label_scores import Scores, fit_mechanism, score_bins
from fairpc.fair.priors import RECIPE_MECHANISM, STRATUM_ROWS
from fairpc.fair.rows import Rows
from fairpc.fair.strata import UNDIVIDED, Strata
from fairpc.fair.top import Limits, TopRates

Method = Literal["isotonic", "sigmoid"]
Select = Literal["prior", "middle"]

LEVEL: Final = 0.95
"""Of the set that the mechanism is kept within."""
KNOT_ROWS: Final = 30.0
"""Rows of a step of the calibration, at least."""
STEP_GROUP: Final = 300.0
"""Rows of a group under which its calibration is a sigmoid: few steps would make scores equal."""
SLOPE: Final = 1e-6
"""Of a calibration beyond its last steps: scores that differ stay in order."""
EDGE: Final = 0.02
"""From 0 and 1 the distance at which scores are bent."""
LEAST: Final = 1e-9
"""Distance of probabilities from 0 and 1: odds must be finite."""
WIDTH: Final = 0.01
"""By which P(D = 1 | Df = 1) exceeds P(D = 1 | Df = 0), at least: a line must have a slope."""
FEWEST: Final = 0.001
"""A P(Df) nearer to 0 or 1 than this leaves nothing to tell apart."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """From scores of one group to rates of D.

    Attributes:
        scores, rates: of the steps; the rate in between lies on a line. For a sigmoid: the
            intercept and the slope of the log-odds, and nothing.
        rows: how many rows of equal weight each step is worth.
    """

    scores: Floats
    rates: Floats
    rows: Floats

    def __call__(self, scores: Floats) -> Floats:
        """P(D = 1 | x, s) of scores."""
        if not len(self.rates):
            return np.asarray(expit(self.scores[0] + self.scores[1] * _log_odds(scores)))
        rates = np.interp(scores, self.scores, self.rates)
        return np.asarray(rates + SLOPE * (scores - self.scores.mean()), np.float64)

    def is_sound(self) -> bool:
        """Whether the numbers can be those of a calibration."""
        n = len(self.rates)
        shapes = self.scores.shape, self.rates.shape, self.rows.shape
        if shapes != ((n or 2,), (n,), (n or 1,)) or not np.isfinite(self.scores).all():
            return False
        ascending = not n or bool((np.diff(self.scores) > 0).all())
        return ascending and bool(
            ((self.rates >= 0) & (self.rates <= 1)).all() and np.all(self.rows > 0)
        )

    def variance(self, scores: Floats) -> Floats:
        """Of the rate at these scores, as far as the rows of its steps are few."""
        rates = np.clip(self(scores), LEAST, 1 - LEAST)
        if not len(self.rates):
            # Two numbers were learned from all rows.
            return np.asarray(2 * rates * (1 - rates) / self.rows.sum(), np.float64)
        # Shrunk a little: a step without a label of one class is not certain.
        n = np.interp(scores, self.scores, self.rows)
        shrunk = (rates * n + 1) / (n + 2)
        return np.asarray(shrunk * (1 - shrunk) / n, np.float64)


def calibrate(
    scores: Floats, labels: Positions, weights: Floats, method: Method | None
) -> Calibration:
    """Rates of D along the scores of one group, not falling.

    "isotonic" is isotonic regression whose steps are joined by lines at their centres (Oron and
    Flournoy 2017): scores that differ are not made equal, so that no order is lost. Small groups
    get a sigmoid.
    """
    if method is None:
        return Calibration(np.array([0.0, 1.0]), np.zeros(0), np.array([kish(weights)]))
    if method == "sigmoid" or (kish(weights) < STEP_GROUP and 0 < labels.mean() < 1):
        return _sigmoid(scores, labels, weights)
    return isotonic_steps(scores, labels, weights)


def isotonic_steps(scores: Floats, labels: Positions, weights: Floats) -> Calibration:
    """Isotonic regression of labels, by steps of 30 rows, joined at their centres."""
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(scores, kind="stable")
    effective = kish(weights)
    n_steps = int(max(effective // KNOT_ROWS, 1))
    # By the middle of each row, so that steps are the same from above.
    place = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    step = np.minimum((place * n_steps).astype(np.intp), n_steps - 1)
    # Equal scores share a step, that of the first of them.
    step = step[np.searchsorted(scores[order], scores[order], side="left")]
    _, step = np.unique(step, return_inverse=True)
    w = np.bincount(step, weights[order])
    centre = np.bincount(step, weights[order] * scores[order]) / w
    rate = np.bincount(step, weights[order] * labels[order]) / w
    rate = isotonic_regression(rate, sample_weight=w)
    rates, joined = np.unique(rate, return_inverse=True)
    total = np.bincount(joined, w)
    centres = np.bincount(joined, w * centre) / total
    return Calibration(centres, rates, total * effective / total.sum())


def _sigmoid(scores: Floats, labels: Positions, weights: Floats) -> Calibration:
    """Log-odds of D as a line in the log-odds of the score (Platt)."""
    from sklearn.linear_model import LogisticRegression

    line = LogisticRegression(C=10.0).fit(_log_odds(scores)[:, None], labels, weights)
    slope = max(float(line.coef_[0, 0]), SLOPE)
    found = np.array([float(line.intercept_[0]), slope])
    return Calibration(found, np.zeros(0), np.array([kish(weights)]))


def _log_odds(scores: Floats) -> Floats:
    return np.asarray(logit(np.clip(scores, 1e-6, 1 - 1e-6)), np.float64)


@dataclass(frozen=True, eq=False)
class StrataMap:
    """What differs between strata.

    Attributes:
        share: P(S, A), [s, a].
        decision_rate: P(Df = 1 | A), [a].
        mechanism: b0 and b1 of each subgroup, [s, a, f].
        shifts: of the log-odds of q, [s, a].
    """

    share: Floats
    decision_rate: Floats
    mechanism: Floats
    shifts: Floats

    @property
    def group_decision_rate(self) -> Floats:
        """P(Df = 1 | S), [s]: groups differ by the mix of strata alone."""
        return np.asarray(self.share @ self.decision_rate / self.share.sum(axis=1), np.float64)

    @property
    def group_mechanism(self) -> Floats:
        """b0 and b1 of each group, [s, f]: the mean over P(a | f, s)."""
        decided = np.stack([1 - self.decision_rate, self.decision_rate], axis=1)
        joint = self.share[:, :, None] * decided
        return np.asarray((joint * self.mechanism).sum(axis=1) / joint.sum(axis=1), np.float64)

    def is_sound(self, n_groups: int) -> bool:
        """Whether the numbers can be those of strata of so many groups."""
        n = len(self.decision_rate)
        shapes = self.share.shape, self.mechanism.shape, self.shifts.shape
        rates = np.concatenate([self.share.ravel(), self.decision_rate, self.mechanism.ravel()])
        return (
            shapes == ((n_groups, n), (n_groups, n, 2), (n_groups, n))
            and bool(np.isfinite(self.shifts).all() and ((rates >= 0) & (rates <= 1)).all())
            and bool((self.mechanism[..., 1] > self.mechanism[..., 0]).all())
        )


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """What turns the scores of a classifier into P(Df = 1 | x, s).

    Attributes:
        calibrations: per group.
        group_rate: P(S).
        decision_rate: P(Df = 1).
        mechanism: b0 and b1 of each group, [s, f]; their mean where strata have their own.
        shifts: of the log-odds of q, per group; with strata, for rows whose stratum is not known.
        ends: what held-out rows leave possible.
        straight: whether D = Df was kept, because the labels do not reject it.
        strata: what differs between them; None without strata.
    """

    calibrations: tuple[Calibration, ...]
    group_rate: Floats
    decision_rate: float
    mechanism: Floats
    shifts: Floats
    ends: LabelEnds | StrataEnds
    straight: bool = False
    strata: StrataMap | None = None

    def rates(self, positive: int) -> TopRates:
        """P(S), P(Df) and P(D | Df, S) by the codes of the classes."""
        rate = np.array([1 - self.decision_rate, self.decision_rate])
        mechanism = np.stack([1 - self.mechanism, self.mechanism], axis=2)
        order = [0, 1] if positive else [1, 0]
        return TopRates(self.group_rate, rate[order], mechanism[:, order][:, :, order])

    def observed(self, scores: Floats, groups: Positions) -> Floats:
        """r = P(D = 1 | x, s): the scores of one classifier or of several, [classifier, row]."""
        found = np.empty_like(scores)
        for g, calibration in enumerate(self.calibrations):
            here = groups == g
            found[..., here] = np.clip(calibration(scores[..., here]), 0.0, 1.0)
        return found

    def rate_set(self, level: float) -> Interval:
        """Confidence set of P(Df = 1); lower > upper where the assumptions are rejected."""
        if isinstance(self.ends, LabelEnds):
            return self.ends.rate_set(level)
        share = self.group_rate[:, None] if self.strata is None else self.strata.share
        return self.ends.rate_set(level, share)

    def _lines(self, groups: Positions, strata: Positions | None) -> tuple[Floats, Floats]:
        """b0 and b1 of each row, [row, f], and its shift; of the group where strata are unknown."""
        mechanism, shifts = self.mechanism[groups], self.shifts[groups]
        if self.strata is not None and strata is not None:
            known = strata >= 0
            at = groups[known], strata[known]
            mechanism[known], shifts[known] = self.strata.mechanism[at], self.strata.shifts[at]
        return mechanism, shifts

    def decision(
        self, scores: Floats, groups: Positions, strata: Positions | None = None
    ) -> Floats:
        """q = P(Df = 1 | x, s): the mean over classifiers, [classifier, row] to [row].

        Strata are by number, -1 where one is not known.
        """
        return _shifted(self.unshifted(scores, groups, strata), self._lines(groups, strata)[1])

    def unshifted(
        self, scores: Floats, groups: Positions, strata: Positions | None = None
    ) -> Floats:
        """The same before log-odds are shifted: what shifts are found from, to the last bit."""
        q = np.empty_like(scores)
        mechanism = self._lines(groups, strata)[0]
        for g, calibration in enumerate(self.calibrations):
            here = groups == g
            b0, b1 = mechanism[here].T
            q[..., here] = _bent((calibration(scores[..., here]) - b0) / (b1 - b0))
        mean: Floats = np.atleast_2d(q).mean(axis=0)
        return mean

    def bounds(
        self,
        scores: Floats,
        groups: Positions,
        level: float | None,
        strata: Positions | None = None,
    ) -> Floats:
        """Least and largest P(Df = 1 | x, s), rows × 2; see ``LabelEnds.score_bounds``.

        With a level, half of 1 − level is for the set, half for what is not known of r: the
        spread of classifiers that were each learned without a fold (a jackknife), and the
        calibration. The score itself always lies between the two, if any does.
        """
        each = self.observed(np.atleast_2d(scores), groups)
        r = each.mean(axis=0)
        low = high = r
        if level is not None:
            half = _half_width(self, each, np.atleast_2d(scores), groups, level)
            low, high = np.clip(r - half, 0.0, 1.0), np.clip(r + half, 0.0, 1.0)
            level = (1 + level) / 2
        q = self.decision(scores, groups, strata)
        return self.ends.around(q, low, high, groups, level, strata)

    def posterior(
        self,
        q: Floats,
        labels: Positions,
        groups: Positions,
        strata: Positions | None = None,
    ) -> Floats:
        """P(Df = 1 | x, s, d) ∝ q P(d | Df = 1, s); q where the label is not known (-1)."""
        b0, b1 = self._lines(groups, strata)[0].T
        one = np.where(labels == 1, b1, 1 - b1) * q
        zero = np.where(labels == 1, b0, 1 - b0) * (1 - q)
        total = one + zero
        known = np.divide(one, total, out=np.array(q), where=total > 0)
        return np.where(labels >= 0, known, q)

    def turned(
        self,
        q: Floats,
        labels: Positions,
        groups: Positions,
        weights: Floats,
        strata: Positions | None = None,
    ) -> Floats:
        """Expected weight of rows with Df = f and D = d in group s, [s, f, d], 1 = positive.

        Of a row whose label is not known (-1) either is counted, as probable as it is.
        """
        own = self._lines(groups, strata)[0]
        mechanism = np.stack([1 - own, own], axis=2)  # [row, f, d]
        # Not zero: a decision that is known may contradict it.
        joint = np.stack([1 - q, q], axis=1)[:, :, None] * np.maximum(mechanism, LEAST)
        for d in (0, 1):
            joint[labels == 1 - d, :, d] = 0.0
        joint *= (weights / joint.sum(axis=(1, 2)))[:, None, None]
        counts = np.zeros((len(self.mechanism), 2, 2))
        np.add.at(counts, groups, joint)
        return counts

    def to_dict(self) -> dict[str, Any]:
        """As JSON-safe data."""
        own = {}
        if self.strata is not None:
            own = {"strata": {name: v.tolist() for name, v in vars(self.strata).items()}}
        return own | {
            "calibrations": [
                {name: values.tolist() for name, values in vars(c).items()}
                for c in self.calibrations
            ],
            "group_rate": self.group_rate.tolist(),
            "decision_rate": self.decision_rate,
            "mechanism": self.mechanism.tolist(),
            "shifts": self.shifts.tolist(),
            "ends": self.ends.to_dict(),
            "straight": self.straight,
        }

    @classmethod
    def from_dict(cls, data: Any, strata: Strata = UNDIVIDED) -> ScoreMap:
        """The map of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        try:
            calibrations = tuple(
                Calibration(*(np.array(c[f.name], np.float64) for f in fields(Calibration)))
                for c in data["calibrations"]
            )
            found = cls(
                calibrations,
                np.array(data["group_rate"], np.float64),
                float(data["decision_rate"]),
                np.array(data["mechanism"], np.float64),
                np.array(data["shifts"], np.float64),
                ends_of(data["ends"], strata.n if strata else None, within=strata.within),
                bool(data["straight"]),
                _strata_of(data["strata"]) if strata else None,
            )
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise FileFormatError(f"the map of scores is not as saved: {error}") from error
        found._check(strata)
        return found

    def _check(self, strata: Strata) -> None:
        """A FileFormatError where the parts do not fit together."""
        n = len(self.calibrations)
        shapes = self.group_rate.shape, self.mechanism.shape, self.shifts.shape
        rates = np.concatenate([self.group_rate, self.mechanism.ravel(), [self.decision_rate]])
        sound = shapes == ((n,), (n, 2), (n,)) and len(self.ends.groups) == n and n >= 2
        sound = sound and bool(
            np.isfinite(self.shifts).all() and ((rates >= 0) & (rates <= 1)).all()
        )
        if sound and self.strata is not None:
            sound = len(self.strata.decision_rate) == strata.n and self.strata.is_sound(n)
        if not (sound and all(c.is_sound() for c in self.calibrations)):
            raise FileFormatError("the map of scores does not fit together: it was altered")
        if not (self.mechanism[:, 1] > self.mechanism[:, 0]).all():
            raise FileFormatError("the map of scores has a mechanism that turns no labels: altered")


def _strata_of(data: Any) -> StrataMap:
    return StrataMap(*(np.array(data[f.name], np.float64) for f in fields(StrataMap)))


def _half_width(
    map_: ScoreMap, each: Floats, scores: Floats, groups: Positions, level: float
) -> Floats:
    """Half of an interval of r, from classifiers that each lack a fold and from the calibration."""
    from scipy.special import stdtrit

    n = len(each)
    jackknife = (n - 1) / n * ((each - each.mean(axis=0)) ** 2).sum(axis=0)
    steps = np.empty(each.shape[1])
    mean = scores.mean(axis=0)
    for g, calibration in enumerate(map_.calibrations):
        here = groups == g
        steps[here] = calibration.variance(mean[here])
    tail = 1 - (1 - level) / 4
    return np.asarray(stdtrit(max(n - 1, 1), tail) * np.sqrt(jackknife + steps), np.float64)


def _bent(q: Floats) -> Floats:
    """Numbers near to 0 and 1, and beyond, bent into the range between, their order kept."""
    high = 1 - EDGE * np.exp(-np.maximum(q - (1 - EDGE), 0.0) / EDGE)
    low = EDGE * np.exp(-np.maximum(EDGE - q, 0.0) / EDGE)
    return np.asarray(np.where(q > 1 - EDGE, high, np.where(q < EDGE, low, q)), np.float64)


def _shifted(q: Floats, shifts: Floats | float) -> Floats:
    return np.asarray(expit(logit(np.clip(q, LEAST, 1 - LEAST)) + shifts), np.float64)


def _shift(q: Floats, weights: Floats, rate: float) -> float:
    """By how much log-odds must change for the mean of q to be the rate."""
    from scipy.optimize import brentq

    def excess(shift: float) -> float:
        return float(np.average(_shifted(q, shift), weights=weights)) - rate

    return float(brentq(excess, -40.0, 40.0, xtol=1e-12))


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows whose group and label are known, with cross-fitted scores.

    Attributes:
        rows: groups, labels, weights and known fair decisions; of the features only those that
            make strata are looked at.
        scores: P(D = positive | x, s) by a classifier that had not seen the row's fold.
        folds: of the cross-fit.
        positive: code of the positive class.
        persons: who each row is about, where persons repeat.
    """

    rows: Rows
    scores: Floats
    folds: Positions
    positive: int
    persons: Positions | None = None

    @property
    def labels(self) -> Positions:
        """1 for the positive class, 0 for the other."""
        return np.asarray(self.rows.d == self.positive, np.intp)

    @property
    def groups(self) -> Positions:
        return np.asarray(self.rows.s, np.intp)

    @property
    def strata(self) -> Positions:
        """Number of each row's stratum; without strata all rows are in one."""
        return np.asarray(self.rows.strata.codes(self.rows.x), np.intp)

    def drawn(self, times: Ints) -> ScoredRows:
        """Each row as often as it was drawn; a person who was drawn twice counts as two."""
        at = np.repeat(np.arange(len(times)), times)
        persons = None
        if self.persons is not None:
            copy = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
            each = self.persons[at] * (int(times.max()) + 1) + copy
            persons = np.unique(each, return_inverse=True)[1]
        rows = self.rows.take(at)
        return ScoredRows(rows, self.scores[at], self.folds[at], self.positive, persons)


def fit_score_map(
    scored: ScoredRows,
    names: tuple[str, ...],
    *,
    calibration: Method | None = "isotonic",
    select: Select = "prior",
    limits: Limits | None = None,
) -> ScoreMap:
    """Learn what turns scores into Df; see the head of this module.

    Args:
        scored: the training rows with their cross-fitted scores.
        names: of the groups.
        calibration: "isotonic", "sigmoid", or None for scores that are calibrated.
        select: the point of the set: "prior", by the prior of the mechanism, or "middle".
        limits: what is known beforehand.
    """
    if calibration is not None:
        check_choice("calibration", calibration, get_args(Method))
    check_choice("select", select, get_args(Select))
    labels, groups, weights = scored.labels, scored.groups, scored.rows.weights
    _refuse_constant(scored, names)
    ends = _with_known(_ends(scored, names), scored, limits)
    each = [groups == g for g in range(len(names))]
    calibrations = tuple(
        calibrate(scored.scores[h], labels[h], weights[h], calibration) for h in each
    )
    rates = np.array([weights[h].sum() for h in each]) / weights.sum()
    if not isinstance(ends, LabelEnds):
        own, straight = _strata_point(scored, ends, limits, select)
        whole = rates, float(own.share.sum(axis=0) @ own.decision_rate), own.group_mechanism
        _refuse_alike(whole[1])
        found = ScoreMap(calibrations, *whole, np.zeros(len(names)), ends, straight, own)
        return _shifted_within(found, own, scored)
    pi, mechanism, straight = _point(scored, ends, limits, select)
    mechanism = _apart(mechanism)
    _refuse_alike(pi)
    found = ScoreMap(calibrations, rates, pi, mechanism, np.zeros(len(names)), ends, straight)
    q = found.decision(scored.scores[None], groups)
    shifts = np.array([_shift(q[h], weights[h], pi) for h in each])
    return replace(found, shifts=shifts)


def _ends(scored: ScoredRows, names: tuple[str, ...]) -> LabelEnds | StrataEnds:
    weights = scored.rows.weights
    alike = None if np.ptp(weights) == 0 else weights
    given = scored.labels, scored.scores, scored.groups, scored.folds, names, alike, scored.persons
    own = scored.rows.strata
    if not own:
        return label_ends(*given)
    return ends_within(*given, strata=scored.strata, n_strata=own.n, within=own.within)


def _refuse_alike(pi: float) -> None:
    if not FEWEST < pi < 1 - FEWEST:
        raise LearningError(
            f"P(Df = positive) is estimated at {pi:.4f}: nearly all fair decisions are alike, and "
            "nothing is left to tell apart; state a fair_rate as knowledge, or give other rows"
        )


def _shifted_within(found: ScoreMap, own: StrataMap, scored: ScoredRows) -> ScoreMap:
    """The map whose q has the mean of its stratum in every subgroup.

    Rows whose stratum is not known are shifted so that each group has its mean over all strata.
    """
    groups, strata, weights = scored.groups, scored.strata, scored.rows.weights
    q = found.unshifted(scored.scores[None], groups, strata)
    shifts = np.zeros(own.share.shape)
    for s, a in zip(*np.nonzero(own.share), strict=True):
        here = (groups == s) & (strata == a)
        shifts[s, a] = _shift(q[here], weights[here], own.decision_rate[a])
    unknown = found.unshifted(scored.scores[None], groups)
    rates = own.group_decision_rate
    whole = [
        _shift(unknown[groups == s], weights[groups == s], rate) for s, rate in enumerate(rates)
    ]
    return replace(found, shifts=np.array(whole), strata=replace(own, shifts=shifts))


def is_constant(scored: ScoredRows, group: int) -> bool:
    """Whether classifiers give all rows of a group one score.

    Each fold has a classifier of its own; a few rows in each are not enough to tell.
    """
    own = scored.groups == group
    scores, folds = scored.scores[own], scored.folds[own]
    if len(scores) < KNOT_ROWS:
        folds = np.zeros_like(folds)
    return all(np.ptp(scores[folds == k]) < LEAST for k in np.unique(folds))


def _refuse_constant(scored: ScoredRows, names: tuple[str, ...]) -> None:
    if all(is_constant(scored, g) for g in range(len(names))):
        raise LearningError(
            f"the classifier gives all rows of a group one score, such as {scored.scores[0]:.4f}: "
            "nothing tells decisions apart; give features that do, or another classifier"
        )


def _point(
    scored: ScoredRows, ends: LabelEnds, limits: Limits | None, select: Select
) -> tuple[float, Floats, bool]:
    """P(Df = 1), the mechanism [s, f], and whether D = Df was kept."""
    if select == "middle":
        return (*_middle_of(ends), False)
    rates, straight = _of_bins(scored, limits)
    f = [1 - scored.positive, scored.positive]
    pi, mechanism = float(rates.decision_rate[f[1]]), rates.mechanism[:, f, f[1]]
    if straight:
        return pi, mechanism, True
    return (*_kept_inside(pi, mechanism, ends), False)


def _of_bins(scored: ScoredRows, limits: Limits | None) -> tuple[TopRates, bool]:
    """P(Df) and the mechanism of the bins of the score, and whether D = Df was kept."""
    rows, n = scored.rows, scored.rows.n_rows
    n_folds = int(scored.folds.max()) + 1
    said, held = np.zeros((n_folds, n, 2)), np.zeros((n, n_folds))
    at = scored.folds, np.arange(n)
    said[(*at, scored.positive)] = scored.scores
    said[(*at, 1 - scored.positive)] = 1 - scored.scores
    held[at[::-1]] = rows.weights
    options = Options(mechanism_prior=RECIPE_MECHANISM, limits=limits)
    fitted = fit_mechanism(score_bins(rows, Scores(said, said[:, :0], held)), options)
    return fitted.distribution.top_rates, fitted.straight


def _strata_point(
    scored: ScoredRows, ends: StrataEnds, limits: Limits | None, select: Select
) -> tuple[StrataMap, bool]:
    """P(Df = 1 | a) and the mechanism, not shifted yet, and whether D = Df was kept."""
    n, strata = len(ends.groups), scored.rows.strata
    straight = False
    if select == "middle":
        pi, mechanism = _middle(ends, n, strata.n)
    else:
        rates, straight = _of_bins(scored, limits)
        f = [1 - scored.positive, scored.positive]
        pi, mechanism = rates.decision_rate[:, f[1]], rates.mechanism[:, f, f[1]]
        mechanism = mechanism.reshape(n, -1, 2)
        if not straight:
            pi, mechanism = _kept_within(pi, mechanism, ends)
    share = np.zeros((n, strata.n))
    np.add.at(share, (scored.groups, scored.strata), scored.rows.weights)
    share /= scored.rows.weights.sum()
    mechanism = np.broadcast_to(_apart(mechanism), (n, strata.n, 2)).copy()
    # A stratum of decisions that are all alike still has scores with odds.
    pi = np.clip(pi, FEWEST, 1 - FEWEST)
    return StrataMap(share, pi, mechanism, np.zeros((n, strata.n))), straight


def _middle(ends: StrataEnds, n_groups: int, n_strata: int) -> tuple[Floats, Floats]:
    """P(Df = 1 | a) and the mechanism [s, a, f] in the middle of what is possible."""
    if isinstance(ends, SharedEnds):
        boxes = ends.boxes(None)
        if boxes is None:
            raise LearningError(
                "no mechanism that is the same in all strata fits the labels of every group, so "
                "there is no middle: take select='prior', other columns in given, or "
                "mechanism='within'"
            )
        shared = np.mean(np.array(boxes), axis=2)
        return ends.stratum_rates(_apart(shared), STRATUM_ROWS), shared[:, None]
    # Of a subgroup without rows nothing is known.
    pi, mechanism = np.full(n_strata, 0.5), np.tile([0.0, 1.0], (n_groups, n_strata, 1))
    for a, own in enumerate(ends.strata):
        if own is not None:
            pi[a], mechanism[ends.of(a), a] = _middle_of(own)
    return pi, mechanism


def _kept_within(pi: Floats, mechanism: Floats, ends: StrataEnds) -> tuple[Floats, Floats]:
    """The nearest P(Df = 1 | a) and mechanism that held-out rows leave possible.

    Where strata share a mechanism, P(Df = 1 | a) are those that fit the rates of their labels best.
    """
    if isinstance(ends, SharedEnds):
        shared = _apart(ends.nearest(mechanism[:, 0], LEVEL))
        return ends.stratum_rates(shared, STRATUM_ROWS), shared[:, None]
    pi, mechanism = pi.copy(), mechanism.copy()
    for a, own in enumerate(ends.strata):
        if own is not None:
            at, level = ends.of(a), ends.level_each(LEVEL)
            pi[a], mechanism[at, a] = _kept_inside(float(pi[a]), mechanism[at, a], own, level)
    return pi, mechanism


def _middle_of(ends: LabelEnds) -> tuple[float, Floats]:
    """The middle of the plain set, at the estimates."""
    lower, upper = ends.point_set()
    pi = (lower + upper) / 2
    b1 = np.array([np.mean(r.b1(pi)) for r in ends.ranges()])
    return _with_rates(pi, b1, ends)


def _kept_inside(
    pi: float, mechanism: Floats, ends: LabelEnds, level: float = LEVEL
) -> tuple[float, Floats]:
    """The nearest P(Df) and mechanism that held-out rows leave possible, with sampling error.

    Bins are wider than the sets of held-out rows, so that their rates are less extreme. How far
    b0 and b1 are apart is kept where it can be: it is the same from either class.
    """
    lower, upper = ends.rate_set(level)
    if lower > upper:
        return pi, mechanism  # Nothing is possible: the assumptions do not fit.
    tail = ends.tail(level)
    pi = min(max(pi, lower), upper)
    rates = np.array([g.rate for g in ends.groups])
    b1 = rates + (1 - pi) * (mechanism[:, 1] - mechanism[:, 0])
    for g, (own, known) in enumerate(zip(ends.groups, ends.known, strict=True)):
        least, most = known.range(own, own.rate, own.scores(tail)).b1(pi)
        b1[g] = min(max(b1[g], least), most)
    return _with_rates(pi, b1, ends)


def _with_rates(pi: float, b1: Floats, ends: LabelEnds) -> tuple[float, Floats]:
    """b0 such that each group has its rate of labels."""
    rates = np.array([g.rate for g in ends.groups])
    top = np.minimum(np.maximum(b1, rates), 1.0)
    b0 = np.clip((rates - pi * top) / max(1 - pi, LEAST), 0.0, 1.0)
    return pi, np.column_stack([b0, top])


def _apart(mechanism: Floats) -> Floats:
    """The same, with b1 above b0 also where all labels of a group are alike."""
    top = np.maximum(mechanism[..., 1], WIDTH)
    return np.stack([np.minimum(mechanism[..., 0], top - WIDTH), top], axis=-1)


def _with_known(
    ends: LabelEnds | StrataEnds, scored: ScoredRows, limits: Limits | None
) -> LabelEnds | StrataEnds:
    """What held-out rows leave, cut by knowledge and by rows whose fair decision is known."""
    if limits is not None:
        ends = within_limits(ends, limits, scored.positive)
    if scored.rows.f is None:
        return ends
    decided = np.where(scored.rows.f < 0, -1, scored.rows.f == scored.positive)
    known = np.flatnonzero(decided >= 0)
    totals, hits = np.zeros((2, len(ends.groups), scored.rows.strata.n, 2))
    at = scored.groups[known], scored.strata[known], decided[known].astype(np.intp)
    np.add.at(totals, at, 1.0)
    np.add.at(hits, at, scored.labels[known])
    if isinstance(ends, LabelEnds):
        return ends.anchored(hits[:, 0], totals[:, 0], LEVEL)
    return ends.anchored(hits, totals, LEVEL)


@overload
def within_limits(ends: LabelEnds, limits: Limits, positive: int) -> LabelEnds: ...


@overload
def within_limits(
    ends: LabelEnds | StrataEnds, limits: Limits, positive: int
) -> LabelEnds | StrataEnds: ...


def within_limits(
    ends: LabelEnds | StrataEnds, limits: Limits, positive: int
) -> LabelEnds | StrataEnds:
    """The same ends within what is known beforehand."""
    p = positive
    lower, upper = limits.mechanism_lower[:, :, p], limits.mechanism_upper[:, :, p]
    boxes = np.stack([lower[:, [1 - p, p]], upper[:, [1 - p, p]]], axis=2)  # [s, f, end]
    known = tuple(Known((b0[0], b0[1]), (b1[0], b1[1])) for b0, b1 in boxes.tolist())
    if not isinstance(ends, LabelEnds):
        return ends.with_known(known)
    pi = float(limits.rate_lower[p]), float(limits.rate_upper[p])
    return replace(ends, pi=pi, known=known)
