"""The mechanism that scores of D leave likeliest, and what the scores then say of Df.

Rows are put into bins of their held-out score (:mod:`fairpc.models._label_scores`), and P(Df),
P(D | Df, S) are those of the model of the bins alone: as many bins as rows can fill, so that chance
does not look like purity. Where the bins leave several mechanisms possible, the likelihood is flat
and the prior of the mechanism decides.

Forests are grown at this mechanism (:mod:`fairpc.models._forest_fit`), circuits may be held to it
(:func:`held_limits`), and scores to the model (:func:`held_to_model`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy
from scipy.stats import chi2

from fairpc.core import Floats, Ints, map_in_order
from fairpc.learners import steps_along
from fairpc.models._fit import Fitted, OnStep, Options, fit_parameters, initial_model
from fairpc.models._label_scores import FLOOR, Scores
from fairpc.models._priors import AGREEMENT, agreeing_mechanism, parameter_prior
from fairpc.models._rows import Rows, effective_size
from fairpc.models._top_em import Limits, TopRates

BIN_ROWS: Final = 300.0
MAX_BINS: Final = 20
FEWEST_BINS: Final = 3
"""Bins of the score: rows of each, and how many a group may have."""
MECHANISM_STEPS: Final = 5000
MECHANISM_TOLERANCE: Final = 1e-9
"""EM over the bins is slow where the likelihood is flat, and its steps are cheap."""
STRAIGHT: Final = 0.999
STRAIGHT_ROWS: Final = 1000.0
STRAIGHT_LEVEL: Final = 0.99
"""Labels that are not altered: P(D = f | Df = f, S), the prior rows that keep it there, and the
level of the test that rejects it."""
HARDLY_ANY: Final = 0.005
"""Share of a decision's labels that may be altered where nothing is learned of what is behind the
labels: a second round of learners would learn the same."""
MOST_SHIFT: Final = 2.0
"""Most that Newton's method shifts the log odds of a class at once."""
RAREST: Final = 1e-12
"""Least P(Df) of a row: a log must be finite."""
LEAST: Final = 1e-100
"""Least P(Df) that odds are shifted of: what they are multiplied by must stay finite."""
STRETCH: Final = (0.5, 2.5)
STRETCH_STEPS: Final = 50
"""What log odds may be multiplied by, so that they are as far apart as labels say; and steps of EM
by which scores of D become those of Df."""


@dataclass(frozen=True, eq=False)
class BinsFitted(Fitted):
    """The model of the bins of the score, and whether D = Df was kept."""

    straight: bool = False


def score_bins(rows: Rows, scores: Scores) -> Rows:
    """Rows of the table as bins of what was said of them by learners that had not seen them.

    A row is there once for each fold that it is in; rows without a group or a label are there once,
    with no bin. Columns that make strata stay beside the bins.
    """
    held, groups = scores.held.copy(), rows.subgroups
    unseen = (groups < 0) | (rows.d < 0) | ~held.any(axis=1)
    held[unseen, 0] = rows.weights[unseen]
    row, fold = np.nonzero(held)
    # A row of no weight stays, for those who count on the order of rows.
    lost = np.setdiff1d(np.arange(rows.n_rows), row)
    row, fold = np.append(row, lost), np.append(fold, np.zeros(len(lost), np.int64))
    order = np.argsort(row, kind="stable")
    row, fold = row[order], fold[order]
    s, weights, unit = groups[row], held[row, fold], rows.unit[row]
    copies = np.divide(weights, unit, out=np.zeros(len(row)), where=unit > 0)
    bins = np.full(len(row), -1, np.int16)
    for g in range(rows.n_subgroups):
        here = np.flatnonzero((s == g) & ~unseen[row] & (weights > 0))
        if len(here):
            said = scores.given[fold[here], row[here]]
            bins[here] = _binned(said, weights[here], effective_size(weights[here], copies[here]))
    strata = rows.strata
    columns = list(strata.columns)
    n_bins = max(int(bins.max(initial=0)) + 1, 2)
    return Rows(
        rows.s[row],
        rows.d[row],
        np.asfortranarray(np.column_stack([bins, rows.x[row][:, columns]])),
        weights,
        rows.n_groups,
        rows.n_classes,
        np.array([n_bins, *strata.sizes]),
        ("score", *(rows.names[j] for j in columns)),
        copies=copies,
        strata=replace(strata, columns=tuple(range(1, len(columns) + 1))),
    )


def _binned(said: Floats, weights: Floats, effective: float) -> Ints:
    """Bins of equal weight along the score."""
    n_bins = int(np.clip(effective / BIN_ROWS, FEWEST_BINS, MAX_BINS))
    order, step = steps_along(said[:, 1], weights, n_bins)
    return step[np.argsort(order)]


def fit_mechanism(
    bins: Rows,
    options: Options,
    rates: TopRates | None = None,
    *,
    on_step: OnStep | None = None,
) -> BinsFitted:
    """P(S), P(Df) and P(D | Df, S) of the bins alone: a naive Bayes model of one feature.

    Where ``rates`` are given, P(Df) and the mechanism are these. Otherwise labels are not altered
    without a reason: D = Df is kept where the data do not reject it (a likelihood ratio test), and
    the prior of the mechanism is for where they do.
    """
    if rates is not None:
        held = replace(options, limits=Limits.exactly(rates), mechanism_prior=0.0)
        fitted = _fit_bins(bins, held, AGREEMENT, 0.0, on_step)
        agreeing = np.diagonal(rates.mechanism, axis1=1, axis2=2)
        return replace(fitted, straight=bool(agreeing.min() > 1 - HARDLY_ANY))
    altered = _fit_bins(bins, options, AGREEMENT, options.mechanism_prior, on_step)
    if not options.mechanism_prior:
        return altered
    straight = _fit_bins(bins, options, STRAIGHT, STRAIGHT_ROWS, on_step)
    last = [float(fitted.history["log_likelihood"][-1]) for fitted in (altered, straight)]
    # Rows of unequal weight say less than their sum.
    effective = effective_size(bins.weights, bins.each)
    # Labels that are not altered have the same rates in all groups of a stratum, and that is all
    # they must have.
    n_rates = bins.strata.n * (bins.n_groups - 1) * (bins.n_classes - 1)
    # The prior keeps the altered model from its best fit; the rates themselves have none.
    gain = max(last[0] - last[1], _rates_apart(bins))
    rejected = 2 * effective * gain > chi2.ppf(STRAIGHT_LEVEL, n_rates)
    return altered if rejected else replace(straight, straight=True)


def _rates_apart(rows: Rows) -> float:
    """Mean log P(d | s, a) − log P(d | a) of rows whose group and label are known."""
    groups, n = rows.subgroups, rows.strata.n
    known = (groups >= 0) & (rows.d >= 0)
    counts = np.zeros((rows.n_subgroups, rows.n_classes))
    np.add.at(counts, (groups[known], rows.d[known]), rows.weights[known])
    apart = 0.0
    for of_stratum in (counts[a::n] for a in range(n)):
        both = np.outer(of_stratum.sum(axis=1), of_stratum.sum(axis=0))
        expected = both / max(of_stratum.sum(), 1e-300)
        apart += float((xlogy(of_stratum, of_stratum) - xlogy(of_stratum, expected)).sum())
    return apart / max(float(rows.weights.sum()), 1e-300)


def _fit_bins(
    rows: Rows, options: Options, agreement: float, prior_rows: float, on_step: OnStep | None
) -> BinsFitted:
    start = initial_model("LatNB", rows, None, options.smoothing)
    tol = min(options.tol or MECHANISM_TOLERANCE, MECHANISM_TOLERANCE)
    settled = replace(options, max_iter=MECHANISM_STEPS, tol=tol)
    prior = parameter_prior(start.circuit, start.layout, start.top, settled)
    if prior_rows > 0:
        prior[start.top.mechanism] = prior_rows * agreeing_mechanism(start.layout, agreement)
    fitted = fit_parameters(start, rows, settled, on_step=on_step, prior=prior)
    return BinsFitted(**vars(fitted))


def held_to_model(rows: Rows, scores: Scores, rates: TopRates) -> Scores:
    """The scores of rows as the model can have them: between the ends of the mechanism, and with
    the same mean of Df in all groups, within their strata."""
    given, groups = scores.given.copy(), rows.subgroups
    row, fold = np.nonzero(scores.held)
    for g in range(rows.n_subgroups):
        here = np.flatnonzero(groups[row] == g)
        if len(here):
            at = fold[here], row[here]
            share = scores.held[row[here], fold[here]]
            rate, mechanism = rates.of_subgroup(g, rows.strata)
            q = np.maximum(decided(scores.given[at], mechanism, rate), RAREST)
            q = balanced(q, share / share.sum(), rate)
            given[at] = np.maximum(q @ mechanism, FLOOR / rows.n_classes)
    return replace(scores, given=given)


def sharpened(rows: Rows, scores: Scores, rates: TopRates) -> Scores:
    """The scores with log odds of Df that are as far apart as held-out labels say.

    Learners that stop early, and means of several, are too cautious. One number stretches the log
    odds of all rows: the one under which held-out labels are likeliest, where each group keeps its
    mean of Df, within its strata.
    """
    row, fold = np.nonzero(scores.held)
    groups, weights = rows.subgroups[row], scores.held[row, fold]
    drawn = scores.drawn.copy()

    def part(g: int) -> _Stretching:
        rate, mechanism = rates.of_subgroup(g, rows.strata)
        here = np.flatnonzero(groups == g)
        q = decided(scores.given[fold[here], row[here]], mechanism, rate, STRETCH_STEPS)
        said = drawn[:, :, g].reshape(-1, rows.n_classes)
        said = np.maximum(decided(said, mechanism, rate, STRETCH_STEPS), RAREST)
        logs = np.log(np.maximum(q.T, RAREST))
        of_label = np.ascontiguousarray(mechanism[:, rows.d[row[here]]])
        return _Stretching(g, here, logs, said, of_label, weights[here], rate, mechanism)

    parts = list(map_in_order(part, np.unique(groups).tolist()))

    def loss(power: float) -> float:
        return sum(map_in_order(lambda each: each.loss(power), parts))

    power = float(minimize_scalar(loss, bounds=STRETCH, method="bounded").x)
    given = scores.given.copy()
    for each in parts:
        own, factors = each.stretched(power)
        given[fold[each.here], row[each.here]] = own.T @ each.mechanism
        said = each.said**power * factors
        said = (said / said.sum(axis=1, keepdims=True)) @ each.mechanism
        drawn[:, :, each.g] = said.reshape(*drawn.shape[:2], -1)
    floor = FLOOR / rows.n_classes
    return replace(scores, given=np.maximum(given, floor), drawn=np.maximum(drawn, floor))


@dataclass(frozen=True, eq=False)
class _Stretching:
    """The rows of a subgroup while their log odds are stretched.

    Classes come first where rows are many: sums over two numbers in a row take NumPy ten times as
    long as sums of two columns.
    """

    g: int  #: number of the subgroup
    here: Ints  #: its rows
    logs: Floats  #: log P(f) of the rows before, classes × rows
    said: Floats  #: P(f) of the drawn rows before, rows × classes
    of_label: Floats  #: P(d | f) of the label of each row, classes × rows
    weights: Floats  #: of the rows
    rate: Floats  #: P(f) of the subgroup
    mechanism: Floats  #: P(d | f) of the subgroup

    def stretched(self, power: float) -> tuple[Floats, Floats]:
        """P(f) of the rows, classes × rows, and the factors of the odds that keep their mean."""
        own = np.exp(power * self.logs)
        own /= own.sum(axis=0)
        factors = balance(own.T, self.weights / self.weights.sum(), self.rate)
        own *= factors[:, None]
        return own / own.sum(axis=0), factors

    def loss(self, power: float) -> float:
        """Minus the log-likelihood of the labels."""
        likelihood = (self.stretched(power)[0] * self.of_label).sum(axis=0)
        return -float(self.weights @ np.log(np.maximum(likelihood, RAREST)))


def decided(counts: Floats, mechanism: Floats, rate: Floats, n_steps: int = 200) -> Floats:
    """P(f | l) under which the labels of each leaf are likeliest, leaves × classes; by EM."""
    shares = np.ascontiguousarray(counts.T) / counts.sum(axis=1)
    q = np.tile(rate[:, None], (1, len(counts)))
    for _ in range(n_steps):
        # Σ_d n_d P(f | d), with P(f | d) ∝ q_f P(d | f): no array of leaves × classes × classes.
        q *= mechanism @ (shares / np.maximum(mechanism.T @ q, 1e-300))
    return np.ascontiguousarray(q.T)


def balanced(q: Floats, share: Floats, rate: Floats) -> Floats:
    """P(f | l) with odds shifted alike in all leaves, so that their mean is P(f)."""
    q = np.maximum(q, LEAST)
    shifted = q * balance(q, share, rate)
    result: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return result


def balance(q: Floats, share: Floats, rate: Floats) -> Floats:
    """What the odds of each class are multiplied by, so that the mean of all leaves is P(f).

    By Newton's method where that halves the gap; elsewhere, and where a class must vanish, by the
    ratios of the rates, which are slow and never overshoot.
    """
    # Of a class that no leaf leaves possible no odds could be shifted.
    factors, q = np.ones(len(rate)), np.maximum(np.ascontiguousarray(q.T), LEAST)
    if not share.any():  # a group that a stratum lacks
        return factors
    mean = q @ share
    for _ in range(100):
        off = np.abs(rate - mean).max()
        if off < 1e-12:
            break
        tried, means = q, mean
        if rate.all():
            spread = np.diag(mean) - (q * share) @ q.T + 1e-9 * np.eye(len(rate))
            step = np.linalg.solve(spread, rate - mean)
            factor = np.exp(np.clip(step, -MOST_SHIFT, MOST_SHIFT))
            tried, means = _shifted(q, factor, share)
        if np.abs(rate - means).max() > off / 2:
            factor = rate / mean
            tried, means = _shifted(q, factor, share)
        factors, q, mean = factors * factor, tried, means
    return factors


def _shifted(q: Floats, factor: Floats, share: Floats) -> tuple[Floats, Floats]:
    """P(f), classes × leaves, with odds that are multiplied, and its mean."""
    shifted = q * factor[:, None]
    shifted /= shifted.sum(axis=0)
    return shifted, shifted @ share
