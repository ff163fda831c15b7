"""Fitting a forest: honest scores, mechanisms that are known, and tables of every kind."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from fairpc import FairPC
from fairpc.core import Array
from fairpc.errors import LearningError
from fairpc.learners import INFORMATIVE
from fairpc.models import (
    ForestDistribution,
    Rows,
    _forest_fit as forest_fit,
    _label_scores as label_scores,
    _score_mechanism as score_mechanism,
)
from fairpc.models._forest_fit import ForestStart, fit_forest
from fairpc.models._label_scores import dealt
from fairpc.models._score_map_fit import LEAST_ALTERED
from fairpc.models._selection import AUTO
from fairpc.models._top_em import Limits
from models.tables import largest_dependence, random_rows

OPTIONS = replace(AUTO, random_state=0)
STRONG = ((0.10, 0.95), (0.02, 0.60))
NONE = ((0.0, 1.0), (0.0, 1.0))


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick fits: trees of a few leaves, grown on few rows; slow tests have whole ones."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(forest_fit, "GROWING_ROWS", 300)
        monkeypatch.setattr(forest_fit, "MAX_LEAVES", 30)
        monkeypatch.setattr(score_mechanism, "MECHANISM_STEPS", 500)


class Drawn(NamedTuple):
    rows: Rows
    f: Array


def logistic(seed: int, n: int, mechanism: Any = STRONG, **kept: Any) -> Drawn:
    """X told by nobody, Df by a logistic curve of three of five features, D bent from it."""
    rng = np.random.default_rng(seed)
    s, x = rng.integers(0, 2, n), rng.integers(0, 4, (n, 5))
    z = (x - 1.5) @ np.array([2.4, -1.6, 1.2, 0.0, 0.0])
    f = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    d = (rng.random(n) < np.asarray(mechanism)[s, f]).astype(int)
    return Drawn(Rows.of(s, d, x, **kept), f)


def fitted(rows: Rows, **changed: Any) -> ForestDistribution:
    """A forest of which everything must be finite and both independencies hold."""
    return with_range(rows, **changed)[0]


def with_range(
    rows: Rows, *, between: bool = True, **changed: Any
) -> tuple[ForestDistribution, Array]:
    """The same, and the range of P(D = 1 | Df = f, s) that its held-out labels leave."""
    options = replace(OPTIONS, **changed)
    start = ForestStart.of(rows, limits=options.limits, between=between)
    done = fit_forest(start, options)
    m, bounds = done.distribution, done.label_bounds
    assert isinstance(m, ForestDistribution)
    assert np.isfinite(m.circuit.parameters).all()
    assert m.parity_gap().max() < 1e-9
    scores = m.decision(rows.s, rows.x)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    return m, np.array([]) if bounds is None else bounds.mechanism_range()


def recorded_rates(rows: Rows) -> Array:
    """P(D = 1 | s)."""
    return np.array([rows.d[rows.s == s].mean() for s in range(rows.n_groups)])


def holds(ranges: Array, mechanism: Any) -> bool:
    truth = np.asarray(mechanism)
    return bool((ranges[..., 0] <= truth).all() and (truth <= ranges[..., 1]).all())


def same(one: ForestDistribution, two: ForestDistribution) -> bool:
    return np.array_equal(one.circuit.parameters, two.circuit.parameters) and np.array_equal(
        one.circuit.graph.child, two.circuit.graph.child
    )


def test_the_same_seed_gives_the_same_bits() -> None:
    rows = random_rows(0, 300, 2, 2, 0.1)
    np.random.seed(1)  # noqa: NPY002 - nothing may depend on it
    one = fitted(rows)
    np.random.seed(2)  # noqa: NPY002
    assert same(one, fitted(rows))


def test_both_independencies_hold_after_a_fit() -> None:
    rows = random_rows(3, 200, 3, 2, 0.2)
    assert max(largest_dependence(fitted(rows))) < 1e-9


# --- honest scores and counts -----------------------------------------------------------------


def test_copies_are_dealt_one_by_one() -> None:
    """A row of weight 7 is seven rows: each fold has one or two of them."""
    rows = Rows.of([0, 1, 0, 1], [0, 1, 1, 0], [[0], [1], [0], [1]], weights=[7, 3, 5, 0])
    held = dealt(rows, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(held.sum(axis=1), rows.weights)
    assert set(held[0]) == {1.0, 2.0}
    assert set(held[1]) == {0.0, 1.0}
    np.testing.assert_array_equal(held[2], 1.0)


def test_rows_of_each_cell_are_dealt_evenly_and_others_not_at_all() -> None:
    rows = random_rows(1, 400, 3, 2, 0.3)
    held = dealt(rows, 5, np.random.default_rng(0))
    known = (rows.s >= 0) & (rows.d >= 0)
    assert not held[~known].any()
    np.testing.assert_allclose(held.sum(axis=1)[known], rows.weights[known])
    assert ((held > 0).sum(axis=1) == known).all()  # weights that are not whole are not split
    for s, d in np.ndindex(3, 2):
        here = (rows.s == s) & (rows.d == d)
        assert np.ptp((held[here] > 0).sum(axis=0)) <= 1


def test_folds_side_by_side_say_what_they_say_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = logistic(0, 300)
    said = []
    for n_threads in ("1", "3"):
        monkeypatch.setenv("FAIRPC_THREADS", n_threads)
        learning = label_scores.ScoreLearning.of(rows, None, np.random.default_rng(0), rows.x)
        said.append(learning.mixed(learning.by_learner()))
    assert (said[0].given == said[1].given).all()
    assert (said[0].drawn == said[1].drawn).all()


def test_what_is_said_of_a_row_was_learned_without_its_label() -> None:
    """Exactly: other labels of a fold change nothing of what its learners say."""
    rows, _ = logistic(0, 1500)
    learning = label_scores.ScoreLearning.of(rows, None, np.random.default_rng(0), rows.x)
    fold = learning.held[:, 2] > 0
    turned = replace(learning, rows=replace(rows, d=np.where(fold, 1 - rows.d, rows.d)))
    # Learners of D, and those of Df at a mechanism, which take as many rounds.
    firsts = learning.by_learner(), turned.by_learner()
    rates = fitted(rows).top_rates
    seconds = learning.by_learner(rates, firsts[0]), turned.by_learner(rates, firsts[1])
    for one, two in (firsts, seconds):
        assert one.n_rounds[2] == two.n_rounds[2]
        for said, again in zip(one[:2], two[:2], strict=True):
            np.testing.assert_array_equal(said[2], again[2])
            assert not np.array_equal(said[1], again[1])
    assert seconds[0].n_rounds == firsts[0].n_rounds


def test_a_tree_and_its_leaves_depend_on_the_labels_that_they_may() -> None:
    """Exactly: a tree on the labels of other folds, the counts of its leaves on its fold's own."""
    rows, _ = logistic(1, 300)
    rng = np.random.default_rng(0)
    learning, growing = forest_fit._learning(rows, rows, None, rng)
    scores = learning.mixed(learning.by_learner())
    rates = score_mechanism.fit_mechanism(score_mechanism.score_bins(rows, scores), OPTIONS)
    upper = rates.distribution.top_rates
    top = [upper.of_subgroup(s, rows.strata) for s in range(rows.n_groups)]
    own = scores.held[:, 0] > 0
    turned = replace(rows, d=np.where(own, 1 - rows.d, rows.d))
    one, two = (
        forest_fit._grown(r, growing, scores, top, np.random.default_rng(1)) for r in (rows, turned)
    )
    here = one.tree == 0
    for box, other in zip(one.allowed, two.allowed, strict=True):
        np.testing.assert_array_equal(box[here], other[two.tree == 0])
    assert not np.array_equal(one.leaf_rate[:, :, here], two.leaf_rate[:, :, two.tree == 0])
    # Numbers, whose order no label gives: now the other labels say nothing to this tree.
    numbers = replace(growing, numbers=[True] * 5)
    others = replace(rows, d=np.where(own, rows.d, 1 - rows.d))
    one, two = (
        forest_fit._grown(r, numbers, scores, top, np.random.default_rng(1)) for r in (rows, others)
    )
    here = one.tree == 0
    np.testing.assert_array_equal(one.leaf_rate[:, :, here], two.leaf_rate[:, :, here])
    assert not np.array_equal(one.leaf_rate[:, :, ~here], two.leaf_rate[:, :, ~here])


def test_columns_that_no_fold_learned_from_say_nothing() -> None:
    """Of a wide table: P(x_j | c, f, s) is the same for every f, and most columns are such."""
    rng = np.random.default_rng(0)
    few, _ = logistic(2, 150)
    noise = rng.integers(0, 2, (few.n_rows, 600))
    rows = Rows.of(few.s, few.d, np.column_stack([few.x, noise]))
    m = fitted(rows)
    quiet = [bool((value == value[:, :1]).all()) for value in m.forest.values]
    assert not quiet[0]
    assert np.count_nonzero(quiet) >= rows.x.shape[1] - label_scores.N_FOLDS * INFORMATIVE


@pytest.mark.parametrize(("turned", "straight"), [(100, False), (60, False), (50, True)])
def test_labels_count_as_bent_where_their_rates_differ_between_groups(
    turned: int, straight: bool
) -> None:
    """X shows Df, 400 of 1,000 in each group; some labels of one group are turned.

    Of 100, 60, 50 the likelihood ratio of equal rates is 22.0, 7.7, 5.3; the limit is 6.6.
    """
    f = np.tile(np.arange(1000) < 400, 2).astype(int)
    d = f.copy()
    d[1000 : 1000 + turned] = 0
    rows = Rows.of(np.repeat([0, 1], 1000), d, f[:, None])
    assert score_mechanism.fit_mechanism(rows, OPTIONS).straight == straight


def noise(seed: int, n: int, arity: int = 4) -> Rows:
    rng = np.random.default_rng(seed)
    d = (rng.random(n) < 0.4).astype(int)
    return Rows.of(rng.integers(0, 2, n), d, rng.integers(0, arity, (n, 5)))


def label_likelihood(m: ForestDistribution, rows: Rows) -> float:
    told = m.observed(rows.s, rows.x)[np.arange(rows.n_rows), rows.d]
    return float(np.log(told).mean())


def test_labels_that_are_noise_are_not_told() -> None:
    """On new rows the forest loses next to nothing against P(D) itself: .673 nats.

    Labels that nobody altered are among what is possible, and the point alters as few as the
    groups' recorded rates, which differ by chance, need.
    """
    rows = noise(0, 600)
    m, ranges = with_range(rows)
    new = noise(1, 2000)
    scores = m.decision(new.s, new.x)[:, 1]
    assert scores.std() < 0.12
    entropy = -(0.4 * np.log(0.4) + 0.6 * np.log(0.6))
    assert label_likelihood(m, new) > -entropy - 0.03
    assert holds(ranges, NONE)
    assert_fewest_altered(m, rows)


def assert_fewest_altered(m: ForestDistribution, rows: Rows) -> None:
    """P(Df) is between the recorded rates, and |ρ - π| of a group's labels are altered."""
    rates, pi = recorded_rates(rows), float(m.decision_rate[0, 1])
    assert rates.min() <= pi <= rates.max()
    b0, b1 = m.mechanism[:, :, 1].T
    altered = pi * (1 - b1) + (1 - pi) * b0
    np.testing.assert_allclose(altered, np.abs(rates - pi), atol=2 * LEAST_ALTERED)


# --- mechanisms that are known ----------------------------------------------------------------


def by_rule(rates: Array, low: Array, high: Array) -> Array:
    """(b0, b1) of each group, then P(Df = 1): the middle between recorded rates, altered least."""
    least = max(((rates - low) / (1 - low)).max(), rates.min())
    largest = min((rates / high).min(), rates.max())
    pi = (least + largest) / 2
    b0, b1 = np.maximum(rates - pi, 0) / (1 - pi), np.minimum(rates / pi, 1)
    return np.append(np.column_stack([b0, b1]), pi)


def test_labels_that_nobody_altered_are_altered_by_chance_alone() -> None:
    """The rates of 800 rows differ by 4 points; no label need have been altered."""
    rows, f = logistic(2, 800, NONE)
    m, ranges = with_range(rows)
    assert holds(ranges, NONE)
    assert_fewest_altered(m, rows)
    assert ((m.decision(rows.s, rows.x)[:, 1] > 0.5) == f).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_known_mechanism_is_in_the_range_and_the_point_is_that_of_the_rule(seed: int) -> None:
    """Within three standard errors of the rule's point of the process itself, with 6,000 rows."""
    rows, f = logistic(seed, 6000)
    found, ranges = with_range(rows)
    assert holds(ranges, STRONG)
    grid = np.array(list(product(range(4), repeat=3)))
    q = 1 / (1 + np.exp(-((grid - 1.5) @ [2.4, -1.6, 1.2])))
    b = np.array(STRONG)
    r = b[:, :1] + (b[:, 1:] - b[:, :1]) * q
    process = r.mean(axis=1), r.min(axis=1), r.max(axis=1)
    # Rates of half of the rows; of the ends, sets of at least 300 rows are seen.
    rng = np.random.default_rng(0)
    draws = [
        by_rule(*(rng.binomial(n, p) / n for n, p in zip((3000, 300, 300), process, strict=True)))
        for _ in range(400)
    ]
    point = np.append(found.mechanism[:, :, 1], found.decision_rate[0, 1])
    away = np.abs(point - by_rule(*process))
    assert (away <= 3 * np.std(draws, axis=0) + LEAST_ALTERED).all()
    scores = found.decision(rows.s, rows.x)[:, 1]
    assert ((scores > 0.5) == f).mean() > 0.85  # .87 is what the logistic curve itself tells


def test_altered_labels_are_seen() -> None:
    """Of 1,500 rows, labels of group 1 were lowered in four of ten: half of it is certain."""
    rows, _ = logistic(3, 1500)
    m = fitted(rows)
    assert m.mechanism[1, 1, 0] > 0.2
    assert m.mechanism[1, 1, 0] > m.mechanism[0, 1, 0] + 0.1


@pytest.mark.slow
def test_a_mechanism_is_found_in_rows_drawn_from_a_forest() -> None:
    """The forest's own family: its rows, bent by its own mechanism, give both back."""
    first = fit_forest(ForestStart.of(logistic(4, 6000)[0]), OPTIONS).distribution
    drawn = first.circuit.sample(8000, np.random.default_rng(0))
    layout = first.layout
    rows = Rows.of(drawn[:, 0], drawn[:, layout.d], drawn[:, list(layout.x)])
    again = fit_forest(ForestStart.of(rows), OPTIONS).distribution
    np.testing.assert_allclose(again.mechanism, first.mechanism, atol=0.08)
    one, two = (m.decision(rows.s, rows.x)[:, 1] for m in (first, again))
    assert np.corrcoef(one, two)[0, 1] > 0.95


def test_a_prior_decides_only_where_it_is_asked_for() -> None:
    rows, _ = logistic(5, 600)
    one, two = (fitted(rows, mechanism_prior=p).mechanism for p in (30.0, 0.0))
    np.testing.assert_array_equal(one, two)
    one, two = (
        with_range(rows, between=False, mechanism_prior=p)[0].mechanism for p in (30.0, 0.0)
    )
    assert not np.array_equal(one, two)


# --- weights, holes, knowledge ----------------------------------------------------------------


def test_weights_count_as_copies() -> None:
    """Not bit for bit, for the rows are drawn in another order; within what a seed changes."""
    rows, _ = logistic(6, 700)
    copies = np.arange(700) % 3
    weighted = rows.with_weights(copies.astype(float))
    repeated = rows.take(np.repeat(np.arange(700), copies))
    one, two = fitted(weighted), fitted(repeated)
    np.testing.assert_allclose(one.group_rate, two.group_rate, atol=1e-12)
    np.testing.assert_allclose(one.mechanism, two.mechanism, atol=0.15)
    scores = [m.decision(rows.s, rows.x)[:, 1] for m in (one, two)]
    assert np.corrcoef(scores[0], scores[1])[0, 1] > 0.9


def test_holes_in_everything() -> None:
    rows, f = logistic(7, 900, NONE)
    rng = np.random.default_rng(0)
    x, s, d = (np.where(rng.random(a.shape) < 0.2, -1, a) for a in (rows.x, rows.s, rows.d))
    some = Rows.of(s, d, x, n_groups=2, n_classes=2, arities=rows.arities)
    m = fitted(some)
    assert ((m.decision(rows.s, rows.x)[:, 1] > 0.5) == f).mean() > 0.75
    assert np.isfinite(m.log_likelihood(some.s, some.d, some.x)).all()


def test_rows_without_both_group_and_label_are_refused() -> None:
    s, d = [0, 1, -1, -1], [-1, -1, 0, 1]
    rows = Rows.of(s, d, [[0], [1], [0], [1]])
    with pytest.raises(LearningError, match="no row has both a group and a label"):
        fit_forest(ForestStart.of(rows), OPTIONS)


def test_three_groups() -> None:
    rng = np.random.default_rng(8)
    s, f = rng.integers(0, 3, 900), rng.integers(0, 2, 900)
    x = np.stack([(f + (rng.random(900) < 0.2)) % 2 for _ in range(3)], axis=1)
    rows = Rows.of(s, f, x)
    m = fitted(rows)
    assert m.mechanism.shape == (3, 2, 2)
    assert (m.decision(s, rows.x).argmax(axis=1) == f).mean() > 0.8


def test_limits_are_kept_exactly() -> None:
    rows, _ = logistic(10, 600)
    low, high = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
    high[1, 0, 1] = 0.0  # never raised in group 1
    low[0, 1, 1] = 0.97
    limits = Limits(np.array([0.3, 0.7]), np.array([0.3, 0.7]), low, high)
    for prior in (30.0, 0.0):
        m = fitted(rows, limits=limits, mechanism_prior=prior)
        np.testing.assert_allclose(m.decision_rate[0], [0.3, 0.7], atol=1e-12)
        assert m.mechanism[1, 0, 1] == 0.0
        assert m.mechanism[0, 1, 1] >= 0.97 - 1e-12


# --- tables of every kind ---------------------------------------------------------------------


def test_constant_and_empty_columns() -> None:
    rows, _ = logistic(13, 300)
    x = np.column_stack([rows.x, np.zeros(300, int), np.full(300, -1)])
    fitted(Rows.of(rows.s, rows.d, x, arities=[*rows.arities, 1, 3]))


@pytest.mark.parametrize("n_known", [0, 2])
def test_a_column_that_is_known_in_hardly_any_row(n_known: int) -> None:
    """The learners of a fold may see none of its values."""
    rows, _ = logistic(18, 200)
    x = np.column_stack([rows.x, np.where(np.arange(200) < n_known, np.arange(200), -1)])
    fitted(Rows.of(rows.s, rows.d, x, arities=[*rows.arities, 3]))


def test_one_feature_of_one_value() -> None:
    rows, _ = logistic(14, 100)
    m = fitted(Rows.of(rows.s, rows.d, np.zeros((100, 1), int)))
    scores = m.decision(rows.s, np.zeros((100, 1), np.int16))
    np.testing.assert_allclose(scores, np.tile(m.decision_rate[0], (100, 1)), atol=1e-9)


@pytest.mark.parametrize("n", [4, 20])
def test_tables_of_hardly_any_rows(n: int) -> None:
    rng = np.random.default_rng(n)
    s, d = (np.arange(n) >= min(3, n // 2)).astype(int), rng.integers(0, 2, n)
    d[:2] = 0, 1
    fitted(Rows.of(s, d, rng.integers(0, 3, (n, 4))))


def test_a_group_whose_labels_are_all_alike() -> None:
    rows, _ = logistic(15, 300)
    fitted(replace(rows, d=np.where(rows.s == 1, 0, rows.d)))


def test_scores_are_as_far_apart_as_held_out_labels_say() -> None:
    """Shrunken ones are stretched, labels become likelier, and groups keep their mean of Df."""
    rows, _ = logistic(5, 3000)
    learning = label_scores.ScoreLearning.of(rows, None, np.random.default_rng(0), rows.x)
    scores = learning.mixed(learning.by_learner())
    rates = score_mechanism.fit_mechanism(score_mechanism.score_bins(rows, scores), OPTIONS)
    top = rates.distribution.top_rates

    def told(found: label_scores.Scores) -> tuple[float, list[float]]:
        """Mean log P(d) of held-out rows, and the mean of Df in each group."""
        row, fold = np.nonzero(found.held)
        given = found.given[fold, row]
        means = []
        for g in range(rows.n_groups):
            rate, mechanism = top.of_subgroup(g, rows.strata)
            q = score_mechanism.decided(given[rows.s[row] == g], mechanism, rate)
            means.append(float(q[:, 1].mean()))
        return float(np.log(given[np.arange(len(row)), rows.d[row]]).mean()), means

    sharp = score_mechanism.sharpened(rows, scores, top)
    timid = replace(
        scores,
        **{
            name: np.sqrt(said) / np.sqrt(said).sum(axis=-1, keepdims=True).clip(1e-300)
            for name, said in (("given", scores.given), ("drawn", scores.drawn))
        },
    )
    again = score_mechanism.sharpened(rows, timid, top)
    assert told(timid)[0] < told(again)[0] - 0.01
    assert told(sharp)[0] == pytest.approx(told(again)[0], abs=0.01)
    np.testing.assert_allclose(told(sharp)[1], top.decision_rate[1], atol=0.01)
    # Further rows are stretched as much.
    assert again.drawn[..., 1].std() > timid.drawn[..., 1].std()


def test_odds_of_a_class_that_is_nowhere_possible_are_shifted_all_the_same() -> None:
    q, share, rate = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.25, 0.75]), [0.7, 0.3]
    found = score_mechanism.balanced(q, share, np.array(rate))
    np.testing.assert_allclose(found, [rate, rate], atol=1e-12)


def test_odds_of_a_group_that_a_stratum_lacks_are_left_as_they_are() -> None:
    q, rate = np.array([[0.6, 0.4], [0.1, 0.9]]), np.array([0.7, 0.3])
    np.testing.assert_allclose(score_mechanism.balanced(q, np.zeros(2), rate), q)


def test_bins_of_a_forest_do_not_know_the_labels() -> None:
    """Labels that are held out from scores are held out from what the scores are made of."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1_000), rng.exponential(size=1_000)])
    y = (X[:, 0] + rng.normal(size=1_000) > 0.2).astype(int)
    s = rng.integers(0, 2, 1_000)

    def edges(labels: Any) -> list[tuple[float, ...]]:
        model = FairPC(structure="forest", random_state=0).fit(X, labels, sensitive_features=s)
        return [column.edges for column in model.coding_.features.columns]

    assert edges(y) == edges(rng.permutation(y))
