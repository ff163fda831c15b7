"""How a map of scores is learned: P(Df) and the mechanism from scores of rows not seen.

Calibrations, then a point of what held-out rows leave possible, then shifts of the odds; see
:mod:`fairpc.models._score_map`. With strata the point has a P(Df = 1) of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairpc.core import Floats, LearningError, Positions
from fairpc.data import TableCoding
from fairpc.evidence import (
    Known,
    LabelBounds,
    StratumBounds,
    WithinBounds,
    label_bounds,
)
from fairpc.learners import KNOT_ROWS, LEAST, calibrate
from fairpc.models._bias_account import contradictions
from fairpc.models._label_scores import Scores
from fairpc.models._reviewed_fit import ReviewedRates
from fairpc.models._rows import Rows
from fairpc.models._score_map import ScoreMap, StrataMap, Subgroups, shifted
from fairpc.models._score_mechanism import HARDLY_ANY
from fairpc.models._top_em import Limits, TopRates

WIDTH: Final = 0.01
"""By which P(D = 1 | Df = 1) exceeds P(D = 1 | Df = 0), at least: a line must have a slope."""
FEWEST: Final = 0.001
"""A P(Df) nearer to 0 or 1 than this leaves nothing to tell apart."""

LEAST_ALTERED: Final = 1e-4
"""Of the labels of a decision, so that no label is impossible unless it was stated."""
ERRORS: Final = 2.0
"""Standard errors by which a classifier must predict labels better than the groups' rates."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows whose group and label are known, with cross-fitted scores."""

    #: groups, labels and weights; of the features only those that make strata are looked at
    rows: Rows
    scores: Floats  #: P(D = positive | x, s) by a classifier that had not seen the row's fold
    folds: Positions  #: of the cross-fit
    positive: int  #: code of the positive class
    persons: Positions | None = None  #: who each row is about, where persons repeat
    #: the same scores, where classifiers of Df at the mechanism have a share in them; the mechanism
    #: itself, P(Df) and what is possible are found from the first
    second: Floats | None = None

    @property
    def last(self) -> Floats:
        """The scores that become decisions."""
        return self.scores if self.second is None else self.second

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

    @property
    def at(self) -> Subgroups:
        return Subgroups(self.groups, self.strata)


def fit_score_map(
    scored: ScoredRows, names: tuple[str, ...], *, limits: Limits | None = None
) -> ScoreMap:
    """Learn what turns scores into Df; see the head of this module."""
    if all(is_constant(scored, g) for g in range(len(names))):
        raise LearningError(
            f"the classifier gives all rows of a group one score, such as {scored.scores[0]:.4f}: "
            "nothing tells decisions apart; give features that do, or another classifier"
        )
    bounds = bounds_of_labels(scored, names)
    if limits is not None:
        bounds = within_limits(bounds, limits, scored.positive)
    weights = scored.rows.weights
    rates = np.bincount(scored.groups, weights, len(names)) / weights.sum()
    strata = scored.rows.strata
    each, mechanism, straight = between_recorded(bounds, strata.n)
    each, mechanism = each if strata.delta else each[0], _apart(mechanism)
    own = by_group = None
    if strata:
        own = _of_strata(scored, each, mechanism)
        pi, mechanism = own.mean_decision_rate, own.group_mechanism
    elif strata.delta:
        by_group, mechanism = each[:, 0], mechanism[:, 0]
        pi = float(rates @ by_group)
    else:
        pi, mechanism = float(each[0]), mechanism[:, 0]
    _refuse_alike(np.atleast_1d(pi if by_group is None else by_group))
    shifts = np.zeros(len(names))
    found = ScoreMap((), rates, pi, mechanism, shifts, bounds, straight, own, by_group)
    return calibrated(found, scored)


def calibrated(score_map: ScoreMap, scored: ScoredRows) -> ScoreMap:
    """The map with calibrations and shifts of the last scores; all else is as it was."""
    labels, weights, scores = scored.labels, scored.rows.weights, scored.last
    groups, strata, own = scored.groups, scored.strata, score_map.strata
    each = [groups == g for g in range(len(score_map.group_rate))]
    calibrations = tuple(calibrate(scores[h], labels[h], weights[h]) for h in each)
    score_map = replace(score_map, calibrations=calibrations)
    # Where the stratum of a row is not known, its group has its mean over all strata.
    rates = score_map.by_stratum.rates[:, 0] if own is None else own.group_decision_rate
    q = score_map.unshifted(scores[None], Subgroups(groups))
    shifts = [_shift(q[h], weights[h], rate) for h, rate in zip(each, rates, strict=True)]
    if own is not None:
        q, cells = score_map.unshifted(scores[None], scored.at), np.zeros(own.share.shape)
        for s, a in zip(*np.nonzero(own.share), strict=True):
            here = each[s] & (strata == a)
            cells[s, a] = _shift(q[here], weights[here], own.rates[s, a])
        own = replace(own, shifts=cells)
    return replace(score_map, shifts=np.array(shifts), strata=own)


def held_to(
    score_map: ScoreMap,
    scored: ScoredRows,
    held: ReviewedRates,
    coding: TableCoding,
) -> tuple[ScoreMap, ScoredRows]:
    """The map at the rates and the mechanism of a review, and rows whose rates may differ so far.

    Scores are calibrated by the review: their mean in a group is its reviewed fair rate.
    """
    strata = scored.rows.strata
    strata = replace(strata, delta=max(strata.delta, held.delta))
    known = held.knowledge(coding.labels.classes, scored.positive)
    limits = known.limits(coding.groups, coding.labels.classes, scored.positive)
    ends = within_limits(score_map.ends, limits, scored.positive)
    score_map = replace(
        score_map,
        decision_rate=float(score_map.group_rate @ held.rate),
        group_decision_rate=held.rate if strata.delta else None,
        mechanism=_apart(held.mechanism),
        ends=ends.with_delta(strata.delta) if strata.delta else ends,
        straight=False,
    )
    scored = replace(scored, rows=scored.rows.with_strata(strata))
    return calibrated(score_map, scored), scored


def bounds_of_labels(scored: ScoredRows, names: tuple[str, ...]) -> LabelBounds:
    """What held-out scores of labels leave possible."""
    weights = scored.rows.weights
    alike = None if np.ptp(weights) == 0 else weights
    given = scored.labels, scored.scores, scored.groups, scored.folds, names, alike, scored.persons
    own = scored.rows.strata
    strata = scored.strata if own else None
    found = label_bounds(*given, strata=strata, n_strata=own.n)
    return found.with_delta(own.delta) if own.delta else found


def _refuse_alike(pi: Floats) -> None:
    for rate in pi[~((pi > FEWEST) & (pi < 1 - FEWEST))].tolist():
        raise LearningError(
            f"P(Df = positive) is estimated at {rate:.4f}: nearly all fair decisions are alike, "
            "and nothing is left to tell apart; state a fair_rate as knowledge, or give other rows"
        )


def _shift(q: Floats, weights: Floats, rate: float) -> float:
    """By how much log-odds must change for the mean of q to be the rate."""
    from scipy.optimize import brentq

    def excess(shift: float) -> float:
        return float(np.average(shifted(q, shift), weights=weights)) - rate

    return float(brentq(excess, -40.0, 40.0, xtol=1e-12))


def is_constant(scored: ScoredRows, group: int) -> bool:
    """Whether classifiers give all rows of a group one score.

    Each fold has a classifier of its own; a few rows in each are not enough to tell.
    """
    own = scored.groups == group
    scores, folds = scored.scores[own], scored.folds[own]
    if len(scores) < KNOT_ROWS:
        folds = np.zeros_like(folds)
    return all(np.ptp(scores[folds == k]) < LEAST for k in np.unique(folds))


def rates_between(
    rows: Rows, scores: Scores, limits: Limits | None, positive: int, names: tuple[str, ...]
) -> tuple[TopRates | None, LabelBounds | None]:
    """Rates by the rule of :func:`between_recorded`, from scores of two classes, and their bounds.

    Neither where a group has no row.
    """
    row, fold = np.nonzero(scores.held)
    copies = np.rint(scores.held[row, fold] / rows.unit[row]).astype(np.intp)
    row, fold = np.repeat(row, copies), np.repeat(fold, copies)
    one_by_one = replace(rows.take(row), weights=rows.unit[row], copies=np.ones(len(row)))
    scored = ScoredRows(one_by_one, scores.given[fold, row, positive], fold, positive)
    if len(np.unique(scored.groups)) < len(names):
        return None, None
    weights = np.bincount(rows.subgroups[row], scored.rows.weights, rows.n_subgroups)
    share = weights / weights.sum()
    if limits is not None and limits.leave_one:
        rates = TopRates(share, limits.rate_lower, limits.mechanism_lower)
        return rates, bounds_of_labels(scored, names)
    bounds = bounds_of_labels(scored, names)
    if limits is not None:
        bounds = within_limits(bounds, limits, positive)
    pi, mechanism, _ = between_recorded(bounds, rows.strata.n)
    each = pi.ravel() if rows.strata.delta else pi[0]
    if rows.strata:
        each = np.clip(each, FEWEST, 1 - FEWEST)
    else:
        _refuse_alike(each)
    rate = each if rows.strata or rows.strata.delta else each[0]
    return TopRates.of_two(share, rate, _apart(mechanism).reshape(-1, 2), positive), bounds


def limits_between(bounds: LabelBounds | None, rate: float, positive: int) -> Limits | None:
    """Limits that leave only the rule's point, for a model whose fair ``rate`` needs them.

    It does where every group's recorded rate lies on one side of it, though the labels allow a rate
    between them. Where the labels allow none, and with strata or rates that may differ, the rule
    does not say that a model is wrong, and there are no limits.
    """
    if not isinstance(bounds, StratumBounds) or bounds.delta:
        return None
    point = bounds.point()
    recorded = [g.rate for g, few in zip(bounds.ranges(), point.unused, strict=True) if not few]
    if point.rule != "middle" or min(recorded) <= rate <= max(recorded):
        return None
    pi, mechanism, _ = between_recorded(bounds, 1)
    share = np.ones(len(mechanism)) / len(mechanism)
    return Limits.exactly(TopRates.of_two(share, pi[0, 0], mechanism[:, 0], positive))


def between_recorded(
    bounds: StratumBounds | WithinBounds, n_strata: int
) -> tuple[Floats, Floats, bool]:
    """The point that lies between the groups' recorded rates, with the fewest altered labels.

    P(Df = 1 | s, a), [s, a], which differs between groups only where labels contradict one rate
    and rates may differ; the mechanism [s, a, f]; and whether hardly any label is altered by it.
    """
    unknown, mechanism = _unknown(len(bounds.groups), n_strata)
    pi = np.tile(unknown, (len(bounds.groups), 1))
    for a, groups, own in bounds.parts():
        point = own.point()
        known = np.array([(each.b0, each.b1) for each in own.known])  # [s, f, end]
        possible = np.clip(point.mechanism, LEAST_ALTERED, 1 - LEAST_ALTERED)
        # What was stated is kept to the last digit, also where it makes a label impossible.
        mechanism[groups, a] = np.clip(possible, known[..., 0], known[..., 1])
        pi[:, a] = point.rate
        pi[groups, a] = point.rates
    agreeing = np.minimum(1 - mechanism[..., 0], mechanism[..., 1])
    return pi, mechanism, bool(agreeing.min() > 1 - HARDLY_ANY)


def _unknown(n_groups: int, n_strata: int) -> tuple[Floats, Floats]:
    """What is taken for a subgroup without rows, of which nothing is known."""
    return np.full(n_strata, 0.5), np.tile([0.0, 1.0], (n_groups, n_strata, 1))


def _of_strata(scored: ScoredRows, pi: Floats, mechanism: Floats) -> StrataMap:
    """P(Df = 1 | a) and the mechanism of each subgroup, not shifted yet."""
    shape = len(mechanism), scored.rows.strata.n
    share = np.zeros(shape)
    np.add.at(share, (scored.groups, scored.strata), scored.rows.weights)
    share /= scored.rows.weights.sum()
    # A stratum of decisions that are all alike still has scores with odds.
    pi = np.clip(pi, FEWEST, 1 - FEWEST)
    return StrataMap(share, pi, np.broadcast_to(mechanism, (*shape, 2)).copy(), np.zeros(shape))


def _apart(mechanism: Floats) -> Floats:
    """The same, with b1 above b0 also where all labels of a group are alike."""
    top = np.maximum(mechanism[..., 1], WIDTH)
    return np.stack([np.minimum(mechanism[..., 0], top - WIDTH), top], axis=-1)


def within_limits(bounds: LabelBounds, limits: Limits, positive: int) -> LabelBounds:
    """The same ends within what is known beforehand."""
    p = positive
    lower, upper = limits.mechanism_lower[:, :, p], limits.mechanism_upper[:, :, p]
    boxes = np.stack([lower[:, [1 - p, p]], upper[:, [1 - p, p]]], axis=2)  # [s, f, end]
    known = tuple(Known((b0[0], b0[1]), (b1[0], b1[1])) for b0, b1 in boxes.tolist())
    pi = float(limits.rate_lower[p]), float(limits.rate_upper[p])
    return bounds.with_known(known, pi)


def findings(score_map: ScoreMap, scored: ScoredRows, coding: TableCoding) -> list[str]:
    """What must be said of a fit before anything else."""
    sentences = contradictions(score_map.ends, coding, scored.rows.strata)
    sentences += _silent_groups(score_map, scored, coding)
    if _gain(score_map, scored) < ERRORS:
        sentences.append(
            "The classifier predicts the labels of held-out rows no better than the rates of the "
            "groups do: scores of the fair decision then say little; give features that predict "
            "decisions, or another classifier."
        )
    return sentences


def _silent_groups(score_map: ScoreMap, scored: ScoredRows, coding: TableCoding) -> list[str]:
    """A sentence for each group in which nothing tells fair decisions apart."""
    sentences = []
    for g, (bounds, name) in enumerate(zip(score_map.ends.groups, coding.group_names, strict=True)):
        only = scored.rows.d[scored.groups == g]
        if 0 < bounds.rate < 1 and not is_constant(scored, g):
            continue
        why = "the classifier gives all of its rows one score"
        if not 0 < bounds.rate < 1:
            why = f"all of its labels are {coding.labels.classes[int(only[0])]}"
        sentences.append(
            f"Nothing tells the fair decisions of group {name} apart ({why}): its rows get "
            "P(Df) as their score, or nearly so; merge groups, or give more rows."
        )
    return sentences


def _gain(score_map: ScoreMap, scored: ScoredRows) -> float:
    """How labels of unseen rows go with the rank of their score in its group, in standard errors.

    Ranks, because scores are calibrated before they are used: overstated ones may rank well.
    """
    from scipy.stats import rankdata

    groups, w = scored.groups, scored.rows.weights
    ranks = np.empty(len(w))
    for g in range(len(score_map.shifts)):
        here = groups == g
        rank = rankdata(scored.scores[here]) / here.sum()
        ranks[here] = rank - np.average(rank, weights=w[here])
    rates = np.array([g.rate for g in score_map.ends.groups])[groups]
    each = w * (scored.labels - rates) * ranks
    error = float(np.sqrt((each * each).sum()))
    return float(each.sum()) / error if error > 0 else 0.0
