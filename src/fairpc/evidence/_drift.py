"""Has a latent fair decision left the label? What a plain classifier of the same rows says of it.

A model explains D by a latent fair decision Df, so its P(D = 1 | x, s) stays between
P(D = 1 | Df = 0, s) and P(D = 1 | Df = 1, s). Where Df describes X and not D these two lie
close together: the model predicts D badly, and some sets of rows have rates of D that its mechanism
excludes. One cross-fit of a plain classifier shows both. It is the cross-fit of the test of the
assumptions made cheap: all groups are learned from at once, a single way of splitting is taken,
and cut-offs come from the predictions of the other folds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, Floats, Positions, one_thread
from fairpc.evidence._intervals import clopper_pearson, clustered_variance, rate_sample, some_of
from fairpc.evidence._top_sets import class_counts, held_out_rates, joint_bound, top_rate
from fairpc.learners import (
    Features,
    chosen,
    deal,
    design,
    distinct,
    indicators,
    learners,
    others,
)

DRIFT_FOLDS: Final = 5
_LEAST: Final = 1e-6
"""Probabilities of a label count as at least this: one sure mistake must not decide."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a table, one by one: arrays have one entry per row."""

    design: Floats  #: numeric features of the distinct rows, groups among them
    index: Positions  #: which distinct row each row is
    labels: Positions
    groups: Positions
    weights: Floats | None  #: None where all rows count alike
    folds: Positions  #: from 0 to 4; predictions are compared on the rows of fold 0
    n_groups: int  #: a group may have no rows here

    def where(self, rows: Bools) -> LabelledRows:
        """Some of the rows; all features are kept."""
        names = ("index", "labels", "groups", "weights", "folds")
        return replace(self, **{name: some_of(getattr(self, name), rows) for name in names})

    def by_group(self) -> Iterator[tuple[int, LabelledRows]]:
        """The groups that have rows, and their rows."""
        for s in np.unique(self.groups).tolist():
            yield s, self.where(self.groups == s)


def dealt(labels: Positions, groups: Positions, k: int, rng: np.random.Generator) -> Positions:
    """A fold per row, the same share of every class of every group in each."""
    return deal(groups * (int(labels.max()) + 1) + labels, None, k, rng)


def classifier_scores(rows: LabelledRows, rng: np.random.Generator) -> Floats:
    """P(class | x, s) of each row, by a plain classifier that was not shown the row's fold.

    Logistic regression or gradient boosting, whichever has the less log-loss on halves of the
    rows outside fold 0.
    """
    given = rows.index, rows.labels, rows.weights, (len(rows.design), 2)
    folds = [class_counts(*given, rows.folds == k) for k in range(DRIFT_FOLDS)]
    scores = np.empty((len(rows.labels), 2))
    with one_thread():
        halves = folds[1] + folds[2], folds[3] + folds[4]
        options = learners(None, weighted=True)
        features = Features(rows.design)
        ((learner, _, first),) = chosen(options, features, [halves], rng)
        learned = [first, *learner.probabilities(features, others(folds)[1:])]
    for k, found in enumerate(learned):
        here = rows.folds == k
        scores[here] = found[rows.index[here]]
    return scores


def held_out_scores(
    x: npt.ArrayLike,
    labels: Positions,
    groups: Positions,
    weights: Floats | None = None,
    persons: Positions | None = None,
) -> Floats:
    """P(label = 1 | x, s) of each row of a table, by a plain classifier that had not seen it."""
    n_groups, rng = int(groups.max()) + 1, np.random.default_rng(0)
    columns = [design(x), indicators(groups, np.arange(1, n_groups))]
    rows, index = distinct(np.column_stack(columns))
    folds = deal(2 * groups + labels, persons, DRIFT_FOLDS, rng)
    given = LabelledRows(rows, index, labels, groups, weights, folds, n_groups)
    return classifier_scores(given, rng)[:, 1]


@dataclass(frozen=True)
class LabelFit:
    """How well a model predicts the labels of unseen rows: mean log P(d | x, s)."""

    model: float  #: of the model
    plain: float  #: of a plain classifier
    rates: float  #: of the rates of the groups alone, P(d | s)
    gain: float  #: plain − rates, over its standard error
    shortfall: float  #: (plain + rates) / 2 − model, over its standard error


def label_fit(model: Floats, plain: Floats, rates: Floats, rows: LabelledRows) -> LabelFit:
    """Predictions [row, class] of the same rows, compared row by row."""
    at = np.arange(len(rows.labels)), rows.labels
    one, two, none = (np.log(np.clip(p[at], _LEAST, 1.0)) for p in (model, plain, rates))
    w = np.ones(len(one)) if rows.weights is None else rows.weights

    def in_errors(values: Floats) -> float:
        """A mean as a multiple of its standard error."""
        mean = float(np.average(values, weights=w))
        variance, _ = clustered_variance(values, mean, w, None)
        return mean / math.sqrt(variance) if variance > 0 else 0.0

    fit, known, base = (float(np.average(values, weights=w)) for values in (one, two, none))
    return LabelFit(fit, known, base, in_errors(two - none), in_errors((two + none) / 2 - one))


@dataclass(frozen=True, eq=False)
class DriftBounds:
    """What each group leaves of P(Df) and of the mechanism, [group, class]."""

    rates: Floats  #: upper bounds of P(Df = c), all together wrong with probability 1 − level
    tops: Floats  #: lower bounds of P(D = c | Df = c, s): of the rate of c in a top set
    delta: float = 0.0  #: by how much P(Df = c | s) of two groups may differ

    @property
    def uppers(self) -> Floats:
        """Upper bounds of P(Df = c | s) from all groups, [group, class]."""
        uppers: Floats = np.minimum(self.rates, self.rates.min(axis=0) + self.delta)
        return uppers

    @property
    def lowers(self) -> Floats:
        """Lower bounds: what the other classes leave."""
        uppers = self.uppers
        left = 1 - (uppers.sum(axis=1, keepdims=True) - uppers)
        return np.asarray(np.maximum(left, 0.0), np.float64)

    @property
    def empty(self) -> bool:
        """Whether no P(Df) is left: then it is the assumptions that do not fit."""
        return bool(self.rates.min(axis=0).sum() < 1 - self.delta)


def drift_bounds(
    rows: LabelledRows, scores: Floats, level: float, delta: float = 0.0
) -> DriftBounds:
    """Bounds of P(Df) and of the mechanism from cross-fitted scores [row, class].

    No set of rows of a group has a larger rate of c than P(D = c | Df = c, s), if D = c is at
    least as frequent under Df = c as under any other Df.
    """
    shape = rows.n_groups, 2
    tail = (1 - level) / (shape[0] * shape[1])
    rates, tops = np.ones(shape), np.zeros(shape)
    for s, group in rows.by_group():
        found = scores[rows.groups == s]
        for c in range(shape[1]):
            hits = (group.labels == c).astype(np.float64)
            counted = held_out_rates(hits, found[:, c], group.folds, group.weights)
            rates[s, c], tops[s, c] = joint_bound(counted, tail), top_rate(counted, tail)
    return DriftBounds(rates, tops, delta)


@dataclass(frozen=True, eq=False)
class GroupRates:
    """P(D = c | s) of the rows and its confidence limits, [group, class]."""

    rates: Floats
    lowers: Floats
    uppers: Floats


def group_rates(rows: LabelledRows, level: float) -> GroupRates:
    """Rates and exact limits, all together wrong with probability 1 − level.

    A group without rows has the rates of all.
    """
    shape = rows.n_groups, 2
    tail = (1 - level) / (2 * shape[0] * shape[1])
    rates, lowers, uppers = np.empty(shape), np.zeros(shape), np.ones(shape)
    for c in range(shape[1]):
        hits = (rows.labels == c).astype(np.float64)
        rates[:, c] = np.average(hits, weights=rows.weights)
        for s, group in rows.by_group():
            sample = rate_sample(hits[rows.groups == s], group.weights, None)
            rates[s, c] = sample.mean
            limits = clopper_pearson(sample.mean * sample.size, sample.size, tail)
            lowers[s, c], uppers[s, c] = limits
    return GroupRates(rates, lowers, uppers)
