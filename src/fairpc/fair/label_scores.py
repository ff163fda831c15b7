"""What classifiers say of D on rows that they have not seen, and the mechanism that follows.

D is independent of X given (Df, S), so P(D | x, s) is all that X says of Df: a score. In each of
five folds of the rows, boosted trees and linear log odds learn D from X and S on the other folds;
once the mechanism is known, they learn Df behind the labels (:mod:`fairpc.fair.learners`). Their
shares in the score are those under which the labels are likeliest.

Rows are put into bins of their score, and P(Df), P(D | Df, S) are those of the model of the bins
alone: as many bins as rows can fill, so that chance does not look like purity. Where the bins leave
several mechanisms possible, the likelihood is flat and the prior of the mechanism decides.

Forests are grown from scores (:mod:`fairpc.fair.forest_fit`), circuits are compared with them
(:mod:`fairpc.fair.choice`), or held to their mechanism (:func:`held_limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy
from scipy.stats import chi2

from fairpc.circuit.em import Step
from fairpc.circuit.program import map_in_order, thread_count
from fairpc.errors import LearningError
from fairpc.errors.arrays import Bools, Codes, Floats, Ints
from fairpc.fair.distinct_rows import effective_size
from fairpc.fair.fit import Fitted, Options, fit_parameters
from fairpc.fair.initial import initial_model
from fairpc.fair.learners import Boosted, Labelled, Linear
from fairpc.fair.priors import (
    AGREEMENT,
    RECIPE_MECHANISM,
    agreeing_mechanism,
    parameter_prior,
)
from fairpc.fair.rows import Rows
from fairpc.fair.telling import narrowed, telling_columns
from fairpc.fair.top import Limits, TopRates
from fairpc.structure import component_weights

DRAWS: Final = 0
"""Seed of folds, learners and trees: a forest does not depend on ``random_state``, so that nobody
can draw again until decisions please. Other draws would turn about one decision in a hundred."""
N_FOLDS: Final = 5
"""Folds of the rows: what is said of a row was learned from the others."""
ORDER_ROWS: Final = 10.0
"""Rows by which the label rates are shrunk that put categories into order."""
LEARNING_ROWS: Final = 60_000
"""Distinct rows from which a learner learns at most; all are scored and counted."""
MOST_LEVELS: Final = 32
"""Levels up to which a category has coefficients in the logistic regression."""
MANY_CLASSES: Final = 10
"""Classes above which logistic regression learns alone: boosting grows a tree for each class in
every step."""
SHARE_TOLERANCE: Final = 1e-8
"""Nats per row below which the shares of learners have settled."""
FLOOR: Final = 1e-4
"""Share of the scores that is spread over all classes: a log must be finite."""
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
"""Labels that are not bent: P(D = f | Df = f, S), the prior rows that keep it there, and the level
of the test that rejects it."""
HELD_STEPS: Final = 100
HELD_TOLERANCE: Final = 1e-4
RAREST: Final = 1e-12
"""EM of a mechanism at a Df that is balanced: its steps, the change that ends them, and the least
count."""
STRETCH: Final = (0.5, 2.5)
STRETCH_STEPS: Final = 50
"""What log odds may be multiplied by, so that they are as far apart as labels say; and steps of EM
by which scores of D become those of Df."""
HELD: Final = 0.05
"""How far P(Df) and the mechanism of held circuits may be from those of the score."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What was learned of D: P(D | x, s) by the learners of every fold.

    Attributes:
        given: P(D = d | x, s) of each row by the learners of a fold that it is in, folds × rows ×
            classes; zeros where it is not in the fold.
        drawn: P(D = d | x, S = s) of rows on which trees are grown, folds × rows × groups ×
            classes; with strata P(D = d | x, S = s, A = a), of subgroups.
        held: weight of each row in each fold, rows × folds.
        columns: the features that make no strata which each fold learned from; all, but of a wide
            table.
    """

    given: Floats
    drawn: Floats
    held: Floats
    columns: tuple[Ints, ...] = ()


@dataclass(frozen=True, eq=False)
class BinsFitted(Fitted):
    """The model of the bins of the score, its pseudo-counts, and whether D = Df was kept."""

    prior: Floats
    straight: bool = False


def label_scores(
    rows: Rows,
    ordered: Sequence[bool] | None,
    rng: np.random.Generator,
    drawn: Codes | None = None,
) -> Scores:
    """P(D | x, s) of every row by learners of every fold that know nothing of the mechanism."""
    learning = ScoreLearning.of(rows, ordered, rng, drawn)
    return learning.mixed(learning.told())


@dataclass(frozen=True, eq=False)
class Told:
    """P(D | x, s) by each learner of each fold, whose shares are not known yet.

    Attributes:
        own: of the rows of the fold, folds × learners × rows × classes.
        said: of the drawn rows, folds × learners × rows × subgroups × classes.
    """

    own: Floats
    said: Floats


@dataclass(frozen=True, eq=False)
class ScoreLearning:
    """Rows dealt into folds, and all that is drawn before the folds are learned side by side.

    Attributes:
        rows: the table.
        numbers: of each feature, whether its values have an order.
        drawn: further rows that are scored, of the features that make no strata.
        held: weight of each row in each fold, rows × folds.
        kept: the features that each fold learns from.
        draws: what else is drawn for each fold.
    """

    rows: Rows
    numbers: Sequence[bool]
    drawn: Codes
    held: Floats
    kept: tuple[Ints, ...]
    draws: tuple[_Draws, ...]

    @classmethod
    def of(
        cls,
        rows: Rows,
        ordered: Sequence[bool] | None,
        rng: np.random.Generator,
        drawn: Codes | None = None,
    ) -> ScoreLearning:
        held = dealt(rows, N_FOLDS, rng)
        x = rows.by_subgroup().x[:0] if drawn is None else drawn
        kept = tuple(telling_columns(rows, _other_folds(held, k)) for k in range(N_FOLDS))
        draws = tuple(_Draws.of(held, k, rng) for k in range(N_FOLDS))
        return cls(rows, which_ordered(rows, ordered), x, held, kept, draws)

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The features of each fold, counted among those that make no strata."""
        rest = np.array(self.rows.strata.rest(len(self.rows.names)))
        return tuple(np.flatnonzero(np.isin(rest, some)) for some in self.kept)

    def told(self, rates: TopRates | None = None) -> Told:
        """Learners of D, or, where the mechanism is known, of Df."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        rows, columns = self.rows, self.columns
        mechanism = np.eye(rows.n_classes)[None]
        if rates is not None:
            each = (rates.of_subgroup(g, rows.strata)[1] for g in range(rows.n_subgroups))
            mechanism = np.stack(list(each))

        def learned(k: int) -> tuple[Floats, Floats]:
            numbers = [self.numbers[j] for j in self.kept[k]]
            fold = _Fold(narrowed(rows, self.kept[k]), self.drawn[:, columns[k]], numbers)
            return fold.told(np.flatnonzero(self.held[:, k] > 0), self.draws[k], mechanism)

        # Folds have the cores: threads of linear algebra below them would wait for each other.
        with threadpool_limits(1):
            found = list(map_in_order(learned, range(N_FOLDS), thread_count(None)))
        own, said = (np.stack(parts) for parts in zip(*found, strict=True))
        return Told(own, said)

    def mixed(self, *told: Told) -> Scores:
        """The scores of all learners together, with the shares that fit held-out labels best."""
        own = np.concatenate([each.own for each in told], axis=1)
        row, fold = np.nonzero(self.held)
        likely = np.log(own[fold, :, row, self.rows.d[row]])
        shares = component_weights(likely, self.held[row, fold], tol=SHARE_TOLERANCE)
        said = np.concatenate([each.said for each in told], axis=1)
        given = np.einsum("kmrd,m->krd", own, shares)
        return Scores(given, np.einsum("kmrgd,m->krgd", said, shares), self.held, self.columns)


def which_ordered(rows: Rows, ordered: Sequence[bool] | None) -> Sequence[bool]:
    return [False] * len(rows.names) if ordered is None else ordered


def dealt(rows: Rows, n_folds: int, rng: np.random.Generator) -> Floats:
    """Weight of each row in each fold: rows of the table are dealt, of which one may be several."""
    groups = rows.subgroups
    known = np.flatnonzero((groups >= 0) & (rows.d >= 0) & (rows.weights > 0))
    if not len(known):
        raise LearningError(
            "no row has both a group and a label: a forest and its score are learned from such "
            "rows; give some"
        )
    each = rows.each
    row = np.repeat(known, each[known].astype(np.int64))
    mixed = rng.permutation(len(row))
    cell = groups[row[mixed]].astype(np.int64) * rows.n_classes + rows.d[row[mixed]]
    turn = np.empty(len(row), np.int64)
    turn[mixed[np.argsort(cell, kind="stable")]] = np.arange(len(row)) % n_folds
    held = np.zeros((rows.n_rows, n_folds))
    np.add.at(held, (row, turn), 1.0)
    return held * rows.unit[:, None]


def _other_folds(held: Floats, fold: int) -> Floats:
    """Weight of each row in the folds that one learns from: the others, if they have rows."""
    weights: Floats = held.sum(axis=1) - held[:, fold]
    return weights if weights.any() else held.sum(axis=1)


def value_orders(rows: Rows, weights: Floats, numbers: Sequence[bool]) -> tuple[Ints, ...]:
    """Of each feature the place of each value, by labels that have these weights."""
    return tuple(_order(rows, weights, j, number) for j, number in enumerate(numbers))


def _order(rows: Rows, weights: Floats, j: int, number: bool) -> Ints:
    """Place of each value of a feature: numbers as they are, others by their label rates."""
    arity = int(rows.arities[j])
    if number:
        return np.arange(arity)
    known = (rows.x[:, j] >= 0) & (rows.d >= 0)
    w, codes, d = weights[known], rows.x[known, j], rows.d[known]
    counts = np.bincount(codes, w, arity)
    sums = np.bincount(codes, w * d, arity)
    mean = sums.sum() / max(counts.sum(), 1e-12)
    rate = (sums + ORDER_ROWS * mean) / (counts + ORDER_ROWS)
    return np.argsort(np.argsort(rate, kind="stable"), kind="stable")


@dataclass(frozen=True, eq=False)
class _Draws:
    """What is drawn for a fold, before folds are learned side by side.

    Attributes:
        used: the rows that are learned from.
        weights: of all rows.
        seed: of boosting.
    """

    used: Ints
    weights: Floats
    seed: int

    @classmethod
    def of(cls, held: Floats, fold: int, rng: np.random.Generator) -> _Draws:
        weights = _other_folds(held, fold)
        used = np.flatnonzero(weights > 0)
        if len(used) > LEARNING_ROWS:
            used = np.sort(rng.choice(used, LEARNING_ROWS, replace=False))
        return cls(used, weights, int(rng.integers(1 << 31)))


@dataclass(frozen=True, eq=False)
class _Fold:
    """The table of a fold, and further rows that are scored in every subgroup."""

    rows: Rows
    drawn: Codes
    numbers: Sequence[bool]

    def told(self, here: Ints, draws: _Draws, mechanism: Floats) -> tuple[Floats, Floats]:
        """P(D | x, s) by each learner: of the rows of the fold, and of the drawn rows.

        ``mechanism`` is that of each subgroup, or one of all rows, by which D = Df.
        """
        rows, used = self.rows, draws.used
        kinds = rows.subgroups if len(mechanism) > 1 else np.zeros_like(rows.d)
        labelled = Labelled.of(rows.d[used], draws.weights[used], kinds[used], mechanism)
        learners = self._learners(used, labelled, np.random.default_rng(draws.seed))
        own = np.zeros((len(learners), rows.n_rows, rows.n_classes))
        said = np.zeros((len(learners), len(self.drawn), rows.n_subgroups, rows.n_classes))
        n = len(self.drawn)
        for m, decided in enumerate(learners):
            q = decided(here, rows.s[here])
            own[m, here] = np.einsum("rf,rfd->rd", q, mechanism[kinds[here]])
            for g in range(rows.n_subgroups if n else 0):
                s, a = divmod(g, rows.strata.n)
                q = decided(rows.n_rows + a * n + np.arange(n), np.full(n, s))
                said[m, :, g] = q @ mechanism[g if len(mechanism) > 1 else 0]
        floor = FLOOR / rows.n_classes
        own[:, here] = (1 - FLOOR) * own[:, here] + floor
        return own, (1 - FLOOR) * said + floor

    def _learners(
        self, used: Ints, labelled: Labelled, rng: np.random.Generator
    ) -> list[Callable[[Ints, Codes], Floats]]:
        """P(Df | x, s) of some rows in some groups, by boosting and by linear log odds.

        Categories have no order here: one that is found with the labels to be learned shows more
        of them than new rows have.
        """
        rows, strata = self.rows, self.rows.strata
        wide = strata.widened(self.drawn, len(rows.names))
        x = np.concatenate([rows.x, *(strata.placed(wide, a) for a in range(strata.n))])
        named = ~np.array(self.numbers, np.bool_) & (rows.arities > 2)
        table = _linear_columns(x, rows, named)

        def crossed(some: Ints, groups: Codes) -> Floats:
            dummies = [(groups == g).astype(np.float64)[:, None] for g in range(1, rows.n_groups)]
            scaled = table[some, : np.count_nonzero(~named)]
            return np.column_stack([table[some], *dummies, *(d * scaled for d in dummies)])

        def beside(some: Ints, groups: Codes) -> Codes:
            return np.column_stack([x[some], groups])

        linear = Linear.learned(crossed(used, rows.s[used]), labelled)
        learners = [lambda some, groups: linear.decided(crossed(some, groups))]
        if rows.n_classes <= MANY_CLASSES:
            sizes = np.append(rows.arities, rows.n_groups)
            kinds = np.append(named, rows.n_groups > 2)
            boosted = Boosted.learned(beside(used, rows.s[used]), labelled, sizes, kinds, rng)
            learners.append(lambda some, groups: boosted.decided(beside(some, groups)))
        return learners


def _linear_columns(x: Codes, rows: Rows, named: Bools) -> Floats:
    """Codes of numbers, scaled, with holes at the mean, then a column for each level."""
    places = np.where(x >= 0, x, np.nan)[:, ~named]
    known = rows.x[:, ~named] >= 0
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows.x[:, ~named], 0).sum(axis=0) / n
    spread = np.sqrt(np.where(known, (rows.x[:, ~named] - mean) ** 2, 0.0).sum(axis=0) / n)
    scaled = np.nan_to_num((places - mean) / np.where(spread > 0, spread, 1.0))
    levels = [
        (x[:, [j]] == np.arange(rows.arities[j])).astype(np.float64)
        for j in np.flatnonzero(named & (rows.arities <= MOST_LEVELS))
    ]
    return np.column_stack([scaled, *levels])


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
    binned = Rows(
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
    return binned if rows.f is None else binned.with_fair_decisions(rows.f[row])


def _binned(said: Floats, weights: Floats, effective: float) -> Ints:
    """Bins of equal weight along the score; of more than two classes, cells of their scores."""
    n_bins = int(np.clip(effective / BIN_ROWS, FEWEST_BINS, MAX_BINS))
    if said.shape[1] == 2:
        order = np.argsort(said[:, 1], kind="stable")
        place = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
        result = np.empty(len(order), np.int64)
        result[order] = np.minimum((place * n_bins).astype(np.int64), n_bins - 1)
        # Equal scores share a bin, that of the first of them.
        ranked = said[order, 1]
        first = np.searchsorted(ranked, ranked, side="left")
        result[order] = result[order][first]
        return result
    from sklearn.tree import DecisionTreeRegressor

    least = min(1.0 / n_bins, 0.5)
    tree = DecisionTreeRegressor(
        max_leaf_nodes=n_bins, min_weight_fraction_leaf=least / 2, random_state=0
    )
    leaf = tree.fit(said, said, weights).apply(said)
    return np.unique(leaf, return_inverse=True)[1]


def fit_mechanism(
    bins: Rows, options: Options, callback: Callable[[Step], object] | None = None
) -> BinsFitted:
    """P(S), P(Df) and P(D | Df, S) of the bins alone: a naive Bayes model of one feature.

    Without a reason to the contrary labels are not bent: D = Df is kept where the data do not
    reject it (a likelihood ratio test), and the prior of the mechanism is for where they do.
    """
    bent = _fit_bins(bins, options, AGREEMENT, options.mechanism_prior, callback)
    if not options.mechanism_prior:
        return bent
    straight = _fit_bins(bins, options, STRAIGHT, STRAIGHT_ROWS, callback)
    last = [float(fitted.history["log_likelihood"][-1]) for fitted in (bent, straight)]
    # Rows of unequal weight say less than their sum.
    effective = effective_size(bins.weights, bins.each)
    gain = last[0] - last[1]
    # Labels that are not bent have the same rates in all groups of a stratum, and that is all they
    # must have.
    n_rates = bins.strata.n * (bins.n_groups - 1) * (bins.n_classes - 1)
    if bins.f is None:
        # The prior keeps the bent model from its best fit; the rates themselves have none.
        gain = max(gain, _rates_apart(bins))
    rejected = 2 * effective * gain > chi2.ppf(STRAIGHT_LEVEL, n_rates)
    return bent if rejected else replace(straight, straight=True)


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
    rows: Rows,
    options: Options,
    agreement: float,
    prior_rows: float,
    callback: Callable[[Step], object] | None,
) -> BinsFitted:
    start = initial_model("LatNB", rows, None, options.smoothing)
    tol = min(options.tol or MECHANISM_TOLERANCE, MECHANISM_TOLERANCE)
    settled = replace(options, max_iter=MECHANISM_STEPS, tol=tol)
    prior = parameter_prior(start.circuit, start.layout, start.top, settled)
    if prior_rows > 0:
        prior[start.top.mechanism] = prior_rows * agreeing_mechanism(start.layout, agreement)
    fitted = fit_parameters(start, rows, {}, settled, callback, prior=prior)
    return BinsFitted(**vars(fitted), prior=prior)


def binned_model(
    rows: Rows, ordered: Sequence[bool] | None, options: Options
) -> tuple[Rows, BinsFitted]:
    """The rows, in their order, as bins of their held-out score, and the model of the bins.

    It is what the mechanism of a forest is learned from, and all that its refits need.
    """
    rng = np.random.default_rng(DRAWS)
    scores = label_scores(rows, ordered, rng)
    fold = scores.held.argmax(axis=1)
    once = np.zeros(scores.held.shape)
    once[np.arange(len(fold)), fold] = scores.held.sum(axis=1)
    bins = score_bins(rows, replace(scores, held=once))
    return bins, fit_mechanism(bins, options)


def held_limits(
    rows: Rows, ordered: Sequence[bool] | None, options: Options, known: Limits | None
) -> Limits:
    """P(Df) and mechanism near those of the score: what keeps Df of any circuits to the label.

    What is known goes first: within it, the nearest values to those of the score.
    """
    prior = options.mechanism_prior or RECIPE_MECHANISM
    quiet = replace(options, mechanism_prior=prior, journal=None)
    model = binned_model(rows, ordered, quiet)[1].distribution
    rates = model.top_rates
    ends = [
        np.clip(value + sign * HELD, 0.0, 1.0)
        for value in (rates.decision_rate, rates.mechanism)
        for sign in (-1, 1)
    ]
    if known is None:
        return Limits(*ends)
    if model.layout.strata:
        known = known.spread(model.layout)
    mine = known.rate_lower, known.rate_upper, known.mechanism_lower, known.mechanism_upper
    rate = [np.clip(end, mine[0], mine[1]) for end in ends[:2]]
    return Limits(*rate, *(np.clip(end, mine[2], mine[3]) for end in ends[2:]))


def held_mechanism(bins: Rows, fitted: BinsFitted, options: Options) -> TopRates:
    """The rates of the bins, their mechanism fitted anew to a Df of equal mean in all rows.

    The model of the bins has that mean under its own P(bin | s). Where the assumptions fail, these
    are not the shares of the rows, and a Df that is balanced in the rows tells labels best by
    another mechanism: the likeliest one, its prior kept. Otherwise nothing moves but by chance.
    Labels that are not bent, knowledge and known decisions keep the mechanism as it is.
    """
    rates, layout = fitted.distribution.top_rates, fitted.distribution.layout
    if fitted.straight or options.limits is not None or bins.f is not None:
        return rates
    own, groups = bins.by_subgroup(), bins.subgroups
    known = (groups >= 0) & (bins.d >= 0) & (own.x[:, 0] >= 0)
    counts = np.zeros((bins.n_subgroups, int(own.arities[0]), bins.n_classes))
    at = groups[known], own.x[known, 0], bins.d[known]
    np.add.at(counts, at, bins.weights[known])
    prior = fitted.prior[fitted.distribution.top.mechanism]
    for _ in range(HELD_STEPS):
        labels = prior.copy()
        for g, of_bin in enumerate(counts):
            rate, mechanism = rates.of_subgroup(g, bins.strata)
            n = of_bin.sum(axis=1)
            q = decided(np.maximum(of_bin, RAREST), mechanism, rate)
            joint = balanced(q, n / max(n.sum(), RAREST), rate)[:, :, None] * mechanism
            joint /= np.maximum(joint.sum(axis=1, keepdims=True), RAREST)
            labels[layout.mechanism_of(g)] += (joint * of_bin[:, None]).sum(axis=0)
        found = labels / np.maximum(labels.sum(axis=2, keepdims=True), RAREST)
        moved = float(np.abs(found - rates.mechanism).max())
        rates = replace(rates, mechanism=found)
        if moved < HELD_TOLERANCE:
            break
    return rates


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
            q = decided(scores.given[at], mechanism, rate)
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
    parts = []
    for g in range(rows.n_subgroups):
        here = np.flatnonzero(groups == g)
        if len(here):
            rate, mechanism = rates.of_subgroup(g, rows.strata)
            q = decided(scores.given[fold[here], row[here]], mechanism, rate, STRETCH_STEPS)
            parts.append((g, here, np.maximum(q, RAREST), rate, mechanism))

    def stretched(q: Floats, here: Ints, rate: Floats, power: float) -> tuple[Floats, Floats]:
        """P(f) of rows, and the factors of the odds that keep their mean."""
        own = q**power
        own /= own.sum(axis=1, keepdims=True)
        factors = balance(own, weights[here] / weights[here].sum(), rate)
        own = own * factors
        return own / own.sum(axis=1, keepdims=True), factors

    def loss(power: float) -> float:
        total = 0.0
        for _, here, q, rate, mechanism in parts:
            told = stretched(q, here, rate, power)[0] @ mechanism
            told = told[np.arange(len(here)), rows.d[row[here]]]
            total -= float(weights[here] @ np.log(np.maximum(told, RAREST)))
        return total

    power = float(minimize_scalar(loss, bounds=STRETCH, method="bounded").x)
    given, drawn = scores.given.copy(), scores.drawn.copy()
    for g, here, q, rate, mechanism in parts:
        own, factors = stretched(q, here, rate, power)
        given[fold[here], row[here]] = own @ mechanism
        n_folds, n_drawn = drawn.shape[:2]
        said = drawn[:, :, g].reshape(-1, rows.n_classes)
        said = decided(said, mechanism, rate, STRETCH_STEPS)
        said = np.maximum(said, RAREST) ** power * factors
        said = (said / said.sum(axis=1, keepdims=True)) @ mechanism
        drawn[:, :, g] = said.reshape(n_folds, n_drawn, -1)
    floor = FLOOR / rows.n_classes
    return replace(scores, given=np.maximum(given, floor), drawn=np.maximum(drawn, floor))


def decided(counts: Floats, mechanism: Floats, rate: Floats, n_steps: int = 200) -> Floats:
    """P(f | l) under which the labels of each leaf are likeliest, leaves × classes; by EM."""
    q = np.tile(rate, (len(counts), 1))
    total = counts.sum(axis=1, keepdims=True)
    for _ in range(n_steps):
        # Σ_d n_d P(f | d), with P(f | d) ∝ q_f P(d | f): no array of leaves × classes × classes.
        q = q * ((counts / np.maximum(q @ mechanism, 1e-300)) @ mechanism.T) / total
    return q


def balanced(q: Floats, share: Floats, rate: Floats) -> Floats:
    """P(f | l) with odds shifted alike in all leaves, so that their mean is P(f)."""
    shifted = q * balance(q, share, rate)
    result: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return result


def balance(q: Floats, share: Floats, rate: Floats) -> Floats:
    """What the odds of each class are multiplied by, so that the mean of all leaves is P(f)."""
    factors = np.ones(len(rate))
    for _ in range(100):
        mean = share @ q
        if np.abs(mean - rate).max() < 1e-12:
            break
        factor = rate / np.maximum(mean, 1e-300)
        factors *= factor
        q = q * factor
        q /= q.sum(axis=1, keepdims=True)
    return factors
