"""Growing a forest circuit: trees that imitate cross-fitted scores of D, and honest counts.

1. *Scores* of D and the *mechanism* that follows: :mod:`fairpc.models._label_scores`,
   :mod:`fairpc.models._score_mechanism`.
2. *Sums.* Log odds of Df that features add, each by itself, imitate the mean score of all folds.
   They tilt the density of the group (:class:`Tilted`).
3. *Trees.* For each fold a regression tree cuts X into boxes in which what the sums leave of the
   fold's score is nearly constant. The tree depends on the labels of other folds only, so the
   labels of the fold's own rows, counted in its leaves, are honest: counts of rows that grew a
   tree look purer than new rows would be. (The sums, of a few hundred numbers, and the shares of
   the learners are those of all rows.)
4. *Leaves.* P_k(l | f, s) from the honest labels, and rows that the score stands for, at the
   mechanism of step 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from fairpc.core import Array, Bools, Codes, Floats, Ints, map_in_order, one_thread
from fairpc.data import Table
from fairpc.evidence import LabelBounds
from fairpc.learners import additive_scores, softmax
from fairpc.models._choices import Choices
from fairpc.models._fair_layers import Layout
from fairpc.models._fit import Fitted, OnStep, Options
from fairpc.models._forest import BoxSets, Forest, box_masses
from fairpc.models._forest_decisions import ForestDistribution
from fairpc.models._label_scores import (
    DRAWS,
    N_FOLDS,
    LearnerScores,
    ScoreLearning,
    Scores,
    value_orders,
    which_ordered,
)
from fairpc.models._rows import Rows
from fairpc.models._score_map_fit import rates_between
from fairpc.models._score_mechanism import (
    balance,
    balanced,
    fit_mechanism,
    score_bins,
    sharpened,
)
from fairpc.models._top_em import Limits, TopRates
from fairpc.structure import soft_clusters

MAX_LEAVES: Final = 500
LEAVES_PER_ROW: Final = 0.05
FEWEST_LEAVES: Final = 8
LEAF_ROWS: Final = 5
"""The most leaves of a tree, fewer for a table of few rows, and the fewest rows of a leaf."""
SCORE_ROWS: Final = 60.0
"""Rows of a leaf that its score stands for, beside those that are counted."""
GROWING_ROWS: Final = 16_000
GROWING_CELLS: Final = 4_000_000
GROWING_SCORES: Final = 320_000
FEWEST_GROWING: Final = 2000
MIXED_CELLS: Final = 0.15
"""Rows on which a tree is grown, for it imitates a smooth score, and more would say little more;
fewer where so many cells, or scores of groups and classes, would be in memory; and the share of
cells that those have from other rows that are not of the table."""
SHARE_STEPS: Final = 50
MOST_SLOPE: Final = 5.0
"""Steps of Newton's method for the shares of leaves, and how far these may be shifted."""
RAREST: Final = 1e-12
"""Least P(Df): a log must be finite."""
LEAF_SHARE: Final = 1.0
"""Rows of a group that are spread over the leaves as all rows are."""
N_CLUSTERS: Final = 4
CLUSTER_ROWS: Final = 500
"""Clusters of a group's density: how many, and the fewest rows for each."""
SHRINKING: Final = 5.0
"""Rows by which the features of a cluster are shrunk towards those of the group, these in turn
towards those of the table."""
FLIPPED_ROWS: Final = 2000
"""Rows on which the spread of the trees is looked at."""


@dataclass(frozen=True, eq=False)
class ForestStart:
    """What a forest is grown from: rows, and what learners say of the labels that they held out."""

    rows: Rows  #: the table
    learning: ScoreLearning  #: its folds
    growing: Growing  #: what trees are grown on
    by_learner: LearnerScores  #: of learners that know nothing of the mechanism
    scores: Scores  #: of all of them together
    #: P(Df) and mechanism between the groups' recorded rates (:func:`rates_between`); None where
    #: there is no such rule, and ``mechanism_prior`` decides: if it was asked to
    rates: TopRates | None
    bounds: LabelBounds | None  #: what the labels leave possible; None beside a prior
    rng: np.random.Generator  #: of what is drawn from here on

    @classmethod
    def of(
        cls,
        rows: Rows,
        ordered: Sequence[bool] | None = None,
        limits: Limits | None = None,
        *,
        between: bool = True,
        positive: int = 1,
        names: tuple[str, ...] | None = None,
    ) -> ForestStart:
        """Scores of rows; ``ordered`` says which features are numbers, ``positive`` and ``names``
        which class and groups the bounds are about."""
        rng = np.random.default_rng(DRAWS)
        learning, growing = _learning(rows, rows.by_subgroup(), ordered, rng)
        by_learner = learning.by_learner()
        scores = learning.mixed(by_learner)
        rates = bounds = None
        if between:
            named = names or tuple(map(str, range(rows.n_groups)))
            rates, bounds = rates_between(rows, scores, limits, positive, named)
        return cls(rows, learning, growing, by_learner, scores, rates, bounds, rng)


def fit_forest(start: ForestStart, options: Options, on_step: OnStep | None = None) -> Fitted:
    """FairPC with a forest in place of each P(x | f, s).

    The values of features that are not numbers are put into the order of their label rates.
    """
    rows, scores, rng = start.rows, start.scores, start.rng
    own = rows.by_subgroup()
    bins = score_bins(rows, scores)
    fitted = fit_mechanism(bins, options, start.rates, on_step=on_step)
    rates, bare = fitted.distribution.top_rates, None
    if start.rates is None and options.mechanism_prior:
        no_prior = replace(options, mechanism_prior=0.0)
        bare = fit_mechanism(bins, no_prior).distribution.mechanism
    if not fitted.straight:
        # Learners that know how labels were altered tell more of them.
        first = start.by_learner
        scores = start.learning.mixed(first, start.learning.by_learner(rates, first))
    each = [rates.of_subgroup(g, rows.strata) for g in range(own.n_groups)]
    # Groups and trees have the cores: threads of linear algebra would wait for each other, and
    # last bits would depend on their number.
    with one_thread():
        scores = sharpened(rows, scores, rates)
        forest = _grown(own, start.growing, scores, each, rng, options.min_cell)
    distribution = ForestDistribution(Layout.of("FairPC", rows), forest, rates)
    turned = flipped_share(distribution, own, start.growing.codes, rng)
    choices = Choices(round(float(rows.each.sum())), forest=True, turned=turned)
    found = distribution, fitted.history, fitted.converged
    return Fitted(*found, choices=choices, label_bounds=start.bounds, without_prior=bare)


def flipped_share(
    distribution: ForestDistribution, rows: Rows, codes: Codes, rng: np.random.Generator
) -> float:
    """Share of decisions (a score above one half) that other folds and trees would turn.

    Estimated from the spread of the trees, each of which has folds, learners and a tree of its own:
    two means of as many trees fall on different sides of one half with probability 2 p (1 - p). The
    mechanism is common to all trees, and what other draws do to it is not in here. ``rows`` have
    subgroups for groups.
    """
    if not (rows.s >= 0).any():
        return float("nan")
    known = np.flatnonzero((rows.s >= 0) & (rows.weights > 0))
    share = rows.weights[known] / rows.weights[known].sum()
    some = known[rng.choice(len(known), FLIPPED_ROWS, p=share)]
    forest = distribution.forest
    rate = distribution.subgroup_decision_rate.reshape(rows.n_groups, -1)[rows.s[some]]
    each = forest.tree_decisions(codes[some], rows.s[some], rate)[:, :, 1]
    error = each.std(axis=1, ddof=1) / np.sqrt(forest.n_trees)
    p = ndtr((each.mean(axis=1) - 0.5) / np.maximum(error, 1e-12))
    return float((2 * p * (1 - p)).mean())


@dataclass(frozen=True, eq=False)
class Growing:
    """What trees are grown on: rows, and more of their kind where rows are few."""

    codes: Codes  #: the rows, their holes filled by draws of the density
    drawn: Codes  #: rows on which trees imitate the scores, about the same number for any table
    numbers: Sequence[bool]  #: of each feature, whether its values have an order of their own
    shares: Floats  #: P(c | s) of the density
    values: tuple[Floats, ...]  #: P(x_j = v | c, s)


def _learning(
    rows: Rows, own: Rows, ordered: Sequence[bool] | None, rng: np.random.Generator
) -> tuple[ScoreLearning, Growing]:
    """How rows are scored, and what trees are grown on, of the same rows by subgroup."""
    shares, values = _density(own, rng)
    filled = _filled(own, shares, values, rng)
    n_scores = own.n_groups * own.n_classes
    n_drawn = min(GROWING_ROWS, GROWING_CELLS // filled.shape[1], GROWING_SCORES // n_scores)
    drawn = _drawn(filled, own.weights, max(n_drawn, FEWEST_GROWING), rng)
    numbers = which_ordered(rows, ordered)
    learning = ScoreLearning.of(rows, numbers, rng, drawn)
    rest = [numbers[j] for j in rows.strata.rest(len(rows.names))]
    return learning, Growing(filled, drawn, rest, shares, values)


def _drawn(filled: Codes, weights: Floats, n_drawn: int, rng: np.random.Generator) -> Codes:
    """Rows to grow trees on: the table's and, where it has few, neighbours of them.

    A score can be asked about any x. A neighbour has some values of another row.
    """
    n = len(filled)
    share = weights / weights.sum()
    drawn = filled[rng.choice(n, n_drawn, p=share)].copy(order="F")
    mixed = np.flatnonzero(rng.random(n_drawn) >= float(weights.sum()) / n_drawn)
    for j in range(filled.shape[1]):
        here = mixed[rng.random(len(mixed)) < MIXED_CELLS]
        drawn[here, j] = filled[rng.choice(n, len(here), p=share), j]
    return drawn


def _density(rows: Rows, rng: np.random.Generator) -> tuple[Floats, tuple[Floats, ...]]:
    """P(c | s) and P(x_j | c, s): clusters of each group's rows, features independent in them."""
    n_groups, sizes = rows.n_groups, rows.arities.tolist()
    of_group = [np.flatnonzero((rows.s == g) & (rows.weights > 0)) for g in range(n_groups)]
    least = min(float(rows.weights[here].sum()) for here in of_group)
    n_clusters = int(np.clip(least / CLUSTER_ROWS, 1, N_CLUSTERS))
    pooled = [_counts(rows.x[:, j], rows.weights[:, None], k)[:, 0] for j, k in enumerate(sizes)]
    base = [(c + 1 / len(c)) / (c.sum() + 1) for c in pooled]
    shares = np.empty((n_groups, n_clusters))
    values = [np.empty((n_groups, n_clusters, k)) for k in sizes]
    for g, here in enumerate(of_group):
        table = Table(np.asfortranarray(rows.x[here]), rows.weights[here], rows.arities, rows.names)
        posterior = np.ones((len(here), 1))
        if n_clusters > 1:
            posterior = soft_clusters(table, n_clusters, rng)
        weighted = posterior * rows.weights[here, None]
        shares[g] = (weighted.sum(axis=0) + 1 / n_clusters) / (weighted.sum() + 1)
        for j, k in enumerate(sizes):
            counts = _counts(rows.x[here, j], weighted, k)
            group = counts.sum(axis=1) + SHRINKING * base[j]
            mixed = counts + SHRINKING * (group / group.sum())[:, None]
            values[j][g] = (mixed / mixed.sum(axis=0)).T
    return shares, tuple(values)


def _counts(codes: Codes, weights: Floats, arity: int) -> Floats:
    """Weight of each value in each cluster."""
    known = codes >= 0
    columns = [np.bincount(codes[known], w[known], arity) for w in weights.T]
    return np.stack(columns, axis=1)


def _filled(
    rows: Rows, shares: Floats, values: tuple[Floats, ...], rng: np.random.Generator
) -> Codes:
    """The rows with their holes filled by draws of the density given what is known."""
    filled = rows.x.copy(order="F")
    holes = np.flatnonzero((rows.x < 0).any(axis=1))
    if not len(holes):
        return filled
    unknown = np.flatnonzero(rows.s[holes] < 0)
    groups = rows.s[holes].astype(np.int64)
    groups[unknown] = rng.integers(rows.n_groups, size=len(unknown))
    logs = np.log(shares)[groups]
    for j, value in enumerate(values):
        known = rows.x[holes, j] >= 0
        logs[known] += np.log(value)[groups[known], :, rows.x[holes[known], j]]
    cumulative = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
    drawn = rng.random(len(holes)) * cumulative[:, -1]
    cluster = np.minimum((drawn[:, None] > cumulative).sum(axis=1), shares.shape[1] - 1)
    for j, value in enumerate(values):
        missing = np.flatnonzero(rows.x[holes, j] < 0)
        if len(missing):
            steps = value[groups[missing], cluster[missing]].cumsum(axis=1)
            drawn = rng.random(len(missing)) * steps[:, -1]
            code = (drawn[:, None] > steps).sum(axis=1)
            filled[holes[missing], j] = np.minimum(code, value.shape[2] - 1)
    return filled


@dataclass(frozen=True, eq=False)
class Tilted:
    """The density of each group, tilted for each class by log odds of Df that add up.

    A product of features stays one when each factor is multiplied by exp(g_j(x_j)). So a mixture of
    products, tilted for each class, is a density of X under which the log odds of complete rows are
    the sums of ``additive_scores``, exactly, and what is missing can be marginalised.
    """

    #: of each feature the log odds of Df that its values add, groups × values × classes
    odds: tuple[Floats, ...]
    shares: Floats  #: P(c | f, s), groups × classes × clusters
    #: of each feature P(x_j = v | c, f, s), groups × classes × clusters × values
    values: tuple[Floats, ...]
    #: log of the factor by which tilts, before they are scaled to sum to 1, change the mass of the
    #: group's density; groups × classes
    log_mass: Floats

    @classmethod
    def of(
        cls, odds: Sequence[Floats], shares: Floats, values: Sequence[Floats], rates: Floats
    ) -> Tilted:
        """P(c | s) and P(x_j | c, s), groups × clusters × values, tilted; ``rates`` are P(f) of
        each group."""
        logs = np.repeat(np.log(shares)[:, None], rates.shape[1], axis=1)
        tilted = []
        for numbers, value in zip(odds, values, strict=True):
            # So that the mean over the classes stays near the density of the group.
            tilt = numbers - np.einsum("gvf,gf->gv", numbers, rates)[:, :, None]
            heights = value[:, None] * np.exp(tilt).transpose(0, 2, 1)[:, :, None]
            mass = heights.sum(axis=3, keepdims=True)
            tilted.append(heights / mass)
            logs += np.log(mass[..., 0])
        log_mass = np.logaddexp.reduce(logs, axis=2)
        return cls(tuple(odds), softmax(logs), tuple(tilted), log_mass)

    def added(self, codes: Codes, groups: Ints | int) -> Floats:
        """Log odds that the features of complete rows add, rows × classes."""
        result = np.zeros((len(codes), self.log_mass.shape[1]))
        for odds, column in zip(self.odds, codes.T, strict=True):
            if odds.any():
                result += odds[groups, column]
        return result


@dataclass(frozen=True, eq=False)
class AdditivePart:
    """What sums over features say of Df, to which the leaves of all trees add."""

    tilted: Tilted
    of_rows: Floats  #: log odds of the rows in their group, rows × classes
    of_drawn: Floats  #: log odds of the drawn rows in every group, rows × groups × classes
    label_rates: Floats  #: P(D = d | x, s) of the drawn rows that follows, rows × groups × classes


def _additive(
    rows: Rows, growing: Growing, scores: Scores, rates: Sequence[tuple[Floats, Floats]]
) -> AdditivePart:
    """Sums over the features that some fold learned from, which imitate the mean score of all."""
    informative = np.unique(np.concatenate(scores.columns))
    sizes = [value.shape[2] for value in growing.values]
    n_drawn, n_classes = len(growing.drawn), rows.n_classes
    mean_scores = scores.drawn.mean(axis=0)
    odds = [np.zeros((rows.n_groups, k, n_classes)) for k in sizes]
    start = np.log(np.maximum([rate for rate, _ in rates], RAREST))

    def imitated(g: int) -> tuple[Floats, ...]:
        return additive_scores(
            growing.drawn[:, informative],
            [sizes[j] for j in informative],
            mean_scores[:, g],
            np.tile(start[g], (n_drawn, 1)),
            rates[g][1],
            weights=np.ones(n_drawn),
        )

    for g, found in enumerate(map_in_order(imitated, range(rows.n_groups))):
        for j, numbers in zip(informative, found, strict=True):
            odds[j][g] = numbers
    tilted = Tilted.of(odds, growing.shares, growing.values, np.stack([rate for rate, _ in rates]))
    groups = np.maximum(rows.s, 0).astype(np.int64)
    of_drawn = np.stack(
        [start[g] + tilted.added(growing.drawn, g) for g in range(rows.n_groups)], axis=1
    )
    said = np.einsum("rgf,gfd->rgd", softmax(of_drawn), np.stack([m for _, m in rates]))
    return AdditivePart(tilted, start[groups] + tilted.added(growing.codes, groups), of_drawn, said)


def _grown(
    rows: Rows,
    growing: Growing,
    scores: Scores,
    rates: Sequence[tuple[Floats, Floats]],
    rng: np.random.Generator,
    min_cell: int = 1,
) -> Forest:
    """Trees that imitate what sums over features leave of each fold's scores, and their leaves."""
    additive = _additive(rows, growing, scores, rates)
    tilted = additive.tilted
    n_rows = float(rows.each.sum())
    n_leaves = int(np.clip(LEAVES_PER_ROW * n_rows, FEWEST_LEAVES, MAX_LEAVES))
    seeds = [int(rng.integers(1 << 31)) for _ in range(N_FOLDS)]

    def grown(k: int) -> tuple[list[Bools], Floats]:
        """Boxes and rates of the leaves of a fold's tree."""
        # The order of categories is by labels too: those of other folds.
        order = value_orders(rows, scores.held.sum(axis=1) - scores.held[:, k], growing.numbers)
        kept = scores.columns[k]
        places, drawn = (
            np.stack([order[j][codes[:, j]] for j in kept], axis=1)
            for codes in (growing.codes, growing.drawn)
        )
        tree = _tree(drawn, scores.drawn[k] - additive.label_rates, n_leaves, seeds[k])
        at = _pruned(tree, places, rows.each, min_cell)
        leaves, leaf = np.unique(
            at[np.concatenate([tree.apply(drawn), tree.apply(places)])], return_inverse=True
        )
        cut = _boxes(tree, leaves, order, kept)
        # A feature that no leaf cuts has all its mass in every box.
        some = [j for j, box in enumerate(cut) if not box.all()] or [0]
        masses = box_masses([BoxSets.of(cut[j], tilted.values[j]) for j in some])
        in_cluster = masses.prod(axis=3) * tilted.shares[:, :, None]
        log_mass = np.log(in_cluster.sum(axis=3)) + tilted.log_mass[:, :, None]
        return cut, _leaf_rates(rows, leaf, scores, k, rates, additive, log_mass)

    cuts, leaf_rates = zip(*map_in_order(grown, range(N_FOLDS)), strict=True)
    return Forest(
        np.repeat(np.arange(N_FOLDS), [each.shape[2] for each in leaf_rates]),
        tuple(np.concatenate(of_feature) for of_feature in zip(*cuts, strict=True)),
        tilted.shares,
        tilted.values,
        np.concatenate(leaf_rates, axis=2),
    )


def _tree(places: Ints, said: Floats, n_leaves: int, seed: int) -> Any:
    """A tree whose leaves tell what is to be said of rows in all groups."""
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(
        max_leaf_nodes=n_leaves,
        min_samples_leaf=LEAF_ROWS,
        max_features=0.7,
        random_state=seed,
    )
    return tree.fit(places, said[:, :, 1:].reshape(len(places), -1))


def _pruned(tree: Any, places: Ints, each: Floats, min_cell: int) -> Ints:
    """The leaf that each node is part of, itself unless leaves of few people were joined.

    A leaf in which there is somebody, but fewer than ``min_cell`` rows, becomes one with its
    sibling.
    """
    left, right = tree.tree_.children_left.copy(), tree.tree_.children_right
    people = np.bincount(tree.apply(places), each, len(left))
    for node in range(len(left) - 1, -1, -1):  # children come after their parents
        if left[node] >= 0:
            below = [left[node], right[node]]
            people[node] = people[below].sum()
            if any(left[c] < 0 and 0 < people[c] < min_cell for c in below):
                left[node] = -1
    at = np.arange(len(left))
    for node, child in enumerate(tree.tree_.children_left):
        if child >= 0 and (at[node] != node or left[node] < 0):
            at[[child, right[node]]] = at[node]
    return at


def _boxes(tree: Any, leaves: Ints, order: Sequence[Ints], columns: Ints) -> list[Bools]:
    """The values that each leaf allows, per feature; the tree has seen some columns of them."""
    nodes = tree.tree_
    feature = columns[np.maximum(nodes.feature, 0)]

    def goes_left(node: int) -> Bools:
        below: Bools = order[feature[node]] <= nodes.threshold[node]
        return below

    sizes = [len(places) for places in order]
    left = np.where(np.isin(np.arange(nodes.node_count), leaves), -1, nodes.children_left)
    reached, allowed = leaf_boxes(left, nodes.children_right, feature, goes_left, sizes)
    place = np.array([reached.index(leaf) for leaf in leaves.tolist()])
    return [boxes[place] for boxes in allowed]


def _leaf_rates(
    rows: Rows,
    leaves: Ints,
    scores: Scores,
    fold: int,
    rates: Sequence[tuple[Floats, Floats]],
    additive: AdditivePart,
    log_mass: Floats,
) -> Floats:
    """P(l | f, s) of a tree, groups × classes × leaves, at a mechanism that is known.

    ``leaves`` are those of the rows that were drawn, then of the rows of the table; ``rates`` are
    P(Df) and P(D | Df) of each group; ``log_mass`` is what the tilted densities have in each box,
    groups × classes × leaves.
    """
    imitated, leaf = np.split(leaves, [scores.drawn.shape[1]])
    n_leaves = int(leaves.max()) + 1
    result = np.empty((rows.n_groups, rows.n_classes, n_leaves))
    everyone = np.bincount(imitated, minlength=n_leaves) + LEAF_SHARE / n_leaves
    for g, (rate, mechanism) in enumerate(rates):
        here = np.flatnonzero(rows.s == g)
        own = here[scores.held[here, fold] > 0]
        # Honest labels of the fold's rows, and rows of each leaf that the score stands for.
        (added,) = additive_scores(
            np.concatenate([leaf[own], imitated])[:, None],
            [n_leaves],
            np.concatenate([np.eye(rows.n_classes)[rows.d[own]], scores.drawn[fold, :, g]]),
            np.concatenate([additive.of_rows[own], additive.of_drawn[:, g]]),
            mechanism,
            weights=np.concatenate([scores.held[own, fold], SCORE_ROWS / everyone[imitated]]),
        )
        # The same mean of Df in the rows of all groups.
        q, weights = softmax(additive.of_rows[here] + added[leaf[here]]), rows.weights[here]
        added = added + np.log(balance(q, weights / weights.sum(), rate))
        share = np.bincount(leaf[here], weights, n_leaves) + LEAF_SHARE * everyone / everyone.sum()
        # What a leaf says of Df under its own density, which is not quite that of its rows.
        q = softmax(np.log(np.maximum(rate, RAREST)) + added + log_mass[g].T)
        share = _nearest_shares(share / share.sum(), q, rate)
        result[g] = (balanced(q, share, rate) * share[:, None]).T
    shares: Floats = result / result.sum(axis=2, keepdims=True)
    return shares


def _nearest_shares(share: Floats, q: Floats, rate: Floats) -> Floats:
    """Shares of leaves near the given ones for which the mean of q is P(f).

    Nearest in Kullback–Leibler divergence: ∝ share · exp(q λ), by Newton's method. Where none are
    near enough, the mean stays apart.
    """
    nearest, slope = share, np.zeros(len(rate))
    for _ in range(SHARE_STEPS):
        mean = nearest @ q
        if np.abs(rate - mean).max() < 1e-12:
            break
        spread = (q - mean).T @ ((q - mean) * nearest[:, None]) + 1e-9 * np.eye(len(rate))
        slope = np.clip(slope + np.linalg.solve(spread, rate - mean), -MOST_SLOPE, MOST_SLOPE)
        nearest = softmax(np.log(share) + q @ slope)
    return nearest


def leaf_boxes(
    left: Array,
    right: Array,
    feature: Array,
    goes_left: Callable[[int], Bools],
    sizes: Sequence[int],
) -> tuple[list[int], list[Bools]]:
    """The leaves of a tree that can be reached, and the values that each allows, per feature.

    ``left`` is negative at leaves; ``goes_left`` says which values a node sends to the left. On the
    way only features that are cut are kept: a wide table has thousands of others.
    """
    waiting: list[tuple[int, dict[int, Bools]]] = [(0, {})]
    boxes: dict[int, dict[int, Bools]] = {}
    while waiting:
        node, box = waiting.pop()
        if left[node] < 0:
            boxes[node] = box
            continue
        j, side = int(feature[node]), goes_left(node)
        for child, half in ((left[node], side), (right[node], ~side)):
            narrowed = box[j] & half if j in box else half
            if narrowed.any():
                waiting.append((int(child), {**box, j: narrowed}))
    allowed = [np.ones((len(boxes), size), np.bool_) for size in sizes]
    for i, box in enumerate(boxes.values()):
        for j, inside in box.items():
            allowed[j][i] = inside
    return list(boxes), allowed
