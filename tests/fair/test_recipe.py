"""The recipe: exact independencies whatever it chooses, choices on validation rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from fair.tables import random_rows, rows_of_any_kind
from fairpc.circuit.em import objective
from fairpc.errors import LearningError
from fairpc.fair.choices import paired_gain
from fairpc.fair.clusters import learn_clusters
from fairpc.fair.component import SINGLE, TREES, Counted, learn_component
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Options, fit
from fairpc.fair.mixture import assemble
from fairpc.fair.parts import Part, hold_out, joined
from fairpc.fair.recipe import AUTO, Stage, fit_auto
from fairpc.fair.rows import FloatArray, Rows
from fairpc.fair.shrinkage import choose_strength
from fairpc.fair.soft_cells import cell_posterior, soft_cells
from fairpc.fair.start import Structure, cells_of
from fairpc.fair.upper import Places, Upper, upper_em
from published import paper_table
from strategies import examples

SHORT = replace(AUTO, max_iter=10, min_iter=1, structure=Structure(max_splits=20), random_state=0)


def biased_rows(seed: int, n: int, n_features: int = 5) -> Rows:
    """Features that hang together and tell Df; labels bent against group 1."""
    rng = np.random.default_rng(seed)
    s, f = rng.integers(0, 2, n), rng.integers(0, 2, n)
    flip = np.where(f == 1, 0.1 + 0.3 * s, 0.1)
    d = np.where(rng.random(n) < flip, 1 - f, f)
    x = np.empty((n, n_features), np.int16)
    x[:, 0] = np.where(rng.random(n) < 0.2, 1 - f, f)
    for j in range(1, n_features):
        x[:, j] = np.where(rng.random(n) < 0.25, rng.integers(0, 2, n), x[:, j - 1] ^ (f & j % 2))
    return Rows.of(s, d, x)


def log_likelihood(m: FairDistribution, rows: Rows) -> FloatArray:
    return m.log_likelihood(rows.s, rows.d, rows.x)


def largest_dependence(m: FairDistribution) -> tuple[float, float]:
    """Largest |P(f, s) − P(f) P(s)|, and |P(d, x | f, s) − P(d | f, s) P(x | f, s)| for pairs d, x.

    By exact query of the circuit, which knows nothing of either.
    """
    layout = m.layout
    width = len(layout.variables)
    shape = (layout.n_groups, layout.n_classes)

    def p(*fixed: tuple[int, int]) -> float:
        row = np.full((1, width), -1)
        for column, value in fixed:
            row[0, column] = value
        return float(np.exp(m.circuit.log_marginal(row)[0]))

    groups, labels = [0.0], [0.0]
    for s, f in np.ndindex(shape):
        cell = p((0, s), (1, f))
        groups.append(abs(cell - p((0, s)) * p((1, f))))
        for d in range(layout.n_classes):
            for column, arity in zip(layout.x, layout.arities, strict=True):
                for v in range(arity):
                    both = p((0, s), (1, f), (layout.d, d), (column, v)) / cell
                    apart = p((0, s), (1, f), (layout.d, d)) * p((0, s), (1, f), (column, v))
                    labels.append(abs(both - apart / cell**2))
    return max(groups), max(labels)


@settings(max_examples=examples(15), deadline=None)
@given(rows_of_any_kind())
def test_independencies_are_exact_for_any_rows(rows: Rows) -> None:
    for n_components in (1, 3):
        fitted = fit_auto(rows, options=SHORT, n_components=n_components)
        m = fitted.distribution
        assert m.layout.n_components == n_components
        assert max(largest_dependence(m)) < 1e-9
        assert m.parity_gap().max() < 1e-9
        assert np.isfinite(log_likelihood(m, rows)).all()
        assert m.circuit.graph.properties.deterministic


def test_three_groups_and_three_classes_with_holes_and_weights() -> None:
    rows = random_rows(3, 400, 3, 3, 0.2)
    fitted = fit_auto(rows, options=SHORT)
    m = fitted.distribution
    assert m.mechanism.shape == (3, 3, 3)
    np.testing.assert_allclose(m.mechanism.sum(axis=2), 1.0)
    assert max(largest_dependence(m)) < 1e-9


def test_a_cell_without_rows() -> None:
    rows = biased_rows(0, 300)
    empty = (rows.s == 1) & (rows.d == 1)
    m = fit_auto(rows.take(np.flatnonzero(~empty)), options=SHORT).distribution
    assert max(largest_dependence(m)) < 1e-9


@pytest.mark.parametrize("n_components", [None, 1, 4])
def test_the_same_seed_gives_the_same_model(n_components: int | None) -> None:
    rows = biased_rows(1, 600)
    one, two = (
        fit_auto(rows, options=SHORT, n_components=n_components).distribution.circuit
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.graph.child, two.graph.child)


def test_other_seeds_hold_out_other_rows() -> None:
    rows = biased_rows(1, 600)
    held = [hold_out(rows, 0.1, np.random.default_rng(seed))[1] for seed in (0, 1)]
    assert not np.array_equal(held[0].x, held[1].x)


def test_weights_count_as_copies() -> None:
    rows = biased_rows(2, 400)
    validation = biased_rows(3, 100)
    copies = np.arange(400) % 3
    weighted = Rows.of(rows.s, rows.d, rows.x, weights=copies)
    repeated = rows.take(np.repeat(np.arange(400), copies))
    one, two = (
        fit_auto(r, validation=validation, options=SHORT, n_components=1).distribution
        for r in (weighted, repeated)
    )
    np.testing.assert_allclose(
        log_likelihood(one, rows), log_likelihood(two, rows), rtol=0, atol=1e-9
    )


def test_evaluation_rows_are_scored_and_change_nothing() -> None:
    rows, validation, test = biased_rows(4, 600), biased_rows(5, 150), biased_rows(6, 100)
    for n_components in (1, 2):
        fitted = fit_auto(
            rows, validation=validation, evaluation={"test": test}, options=SHORT,
            n_components=n_components,
        )  # fmt: skip
        without = fit_auto(rows, validation=validation, options=SHORT, n_components=n_components)
        m = fitted.distribution
        np.testing.assert_array_equal(m.circuit.parameters, without.distribution.circuit.parameters)
        last = log_likelihood(m, test).mean()
        assert fitted.history["test"][-1] == pytest.approx(last, abs=1e-9)
        np.testing.assert_allclose(fitted.history["mechanism"][-1], m.mechanism)
        assert (np.diff(fitted.history["objective"]) > -1e-8).all()


def test_validation_rows_decide_and_enter_the_refit_alone() -> None:
    rows, validation = biased_rows(7, 800), biased_rows(8, 200)
    others = biased_rows(9, 200)
    single = [
        fit_auto(rows, validation=v, options=SHORT, n_components=1, refit=False)
        for v in (validation, others)
    ]
    if single[0].choices.start == single[1].choices.start:
        np.testing.assert_array_equal(
            single[0].distribution.circuit.parameters, single[1].distribution.circuit.parameters
        )
    scores = [f.choices.single_score for f in single]
    assert scores[0] != scores[1]
    refitted = fit_auto(rows, validation=validation, options=SHORT, n_components=1)
    assert refitted.choices.refitted
    weight = 1000 + SHORT.smoothing
    share = joined(rows, validation).s.mean() * 1000 + 0.5
    assert refitted.distribution.group_rate[1] == pytest.approx(share / weight)


def test_an_impostor_structure_loses_on_validation_rows() -> None:
    """Independent features: nothing is gained by a mixture, the single circuit stays."""
    rng = np.random.default_rng(0)
    s, d = rng.integers(0, 2, (2, 3000))
    fitted = fit_auto(Rows.of(s, d, rng.integers(0, 2, (3000, 4))), options=SHORT)
    choices = fitted.choices
    taken = choices.mixture_gain > min(choices.standard_error, 0.01)
    assert (fitted.distribution.layout.n_components > 1 or bool(choices.dropped)) == taken


def test_choices_in_words() -> None:
    rows = biased_rows(10, 500)
    stages: list[Stage] = []
    fitted = fit_auto(rows, options=SHORT, callback=stages.append)
    text = str(fitted.choices)
    n = fitted.choices.n_validation
    assert n == pytest.approx(50, abs=2)
    assert f"{500 - n} rows were fitted to, {n} validation rows decided." in text
    assert "Structural EM started from" in text
    assert "A mixture was" in text
    assert "fitted again to training and validation rows" in text
    assert sum(fitted.choices.weights) == pytest.approx(1.0)
    assert set(fitted.choices.start_scores) == {
        "a tree for each cell", "one tree for all cells, split as in Strudel",
    }  # fmt: skip
    assert [s.last for s in stages] == [False] * 4 + [True]
    assert stages[-1].fitted is fitted


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_an_interrupt_keeps_the_best_so_far(after: int) -> None:
    stages: list[Stage] = []

    def interrupt(stage: Stage) -> None:
        stages.append(stage)
        if len(stages) == after:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted: the best model so far is given back"):
        fitted = fit_auto(biased_rows(11, 400), options=SHORT, callback=interrupt)
    best = max(stages, key=lambda stage: stage.score)
    assert fitted.distribution is best.fitted.distribution
    assert fitted.choices.interrupted
    assert "interrupted" in str(fitted.choices)


def test_an_interrupt_of_em_ends_the_recipe() -> None:
    stages: list[Stage] = []

    def interrupt(step: object) -> None:
        if len(stages) == 2:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="start from"):
        fit_auto(biased_rows(11, 400), options=SHORT, callback=stages.append, on_step=interrupt)
    assert len(stages) == 2


def test_an_interrupt_before_any_model_goes_through() -> None:
    def interrupt(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_auto(biased_rows(11, 400), options=SHORT, on_step=interrupt)


def test_random_start() -> None:
    options = replace(SHORT, init="random")
    m = fit_auto(biased_rows(12, 300), options=options).distribution
    assert max(largest_dependence(m)) < 1e-9


def test_no_smoothing() -> None:
    rows = biased_rows(13, 400)
    m = fit_auto(rows, options=replace(SHORT, smoothing=0.0)).distribution
    assert np.isfinite(m.circuit.parameters).all()


def test_refuses() -> None:
    rows = biased_rows(14, 100)
    with pytest.raises(LearningError, match="n_components is 0"):
        fit_auto(rows, n_components=0)
    with pytest.raises(LearningError, match="validation_fraction is 1"):
        fit_auto(rows, validation_fraction=1.0)
    with pytest.raises(LearningError, match="differ in groups, classes or features"):
        fit_auto(rows, validation=random_rows(0, 50, 3, 2, 0.0))


@settings(max_examples=examples(30), deadline=None)
@given(rows_of_any_kind())
def test_soft_cells_share_out_every_row(rows: Rows) -> None:
    part = Part.of(rows)
    assert part.rows.weights.sum() == pytest.approx(rows.weights.sum())
    m = fit("FairPC", rows, options=Options(structure=Structure("chow-liu"), max_iter=3))
    logs, posterior = cell_posterior(m.distribution, part.rows, part.places)
    np.testing.assert_allclose(logs, log_likelihood(m.distribution, part.rows), atol=1e-9)
    cells = soft_cells(part.rows, part.places, posterior)
    assert sum(t.total_weight for t in cells) == pytest.approx(rows.weights.sum())
    known = (rows.s >= 0) & (rows.d >= 0)
    for s in range(rows.n_groups):
        mine = sum(cells[f * rows.n_groups + s].total_weight for f in range(rows.n_classes))
        assert mine >= rows.weights[known & (rows.s == s)].sum() - 1e-9


def test_soft_cells_of_a_certain_model_are_the_cells() -> None:
    rows = biased_rows(15, 200)
    part = Part.of(rows)
    hard = np.eye(2)[part.places.d]
    for soft, cell in zip(soft_cells(part.rows, part.places, hard), cells_of(rows), strict=True):
        assert soft.total_weight == cell.total_weight
        np.testing.assert_allclose(soft.weights @ soft.codes, cell.weights @ cell.codes)


def test_upper_em_is_em_of_the_circuit_with_the_rest_fixed() -> None:
    """A first update from the same start: the same P(S), P(Df) and mechanism as by flows.

    With labels known: where they are not, flows fill them in, and this M-step leaves them out.
    """
    rows = random_rows(5, 200, 3, 2, 0.2)
    rows = rows.take(np.flatnonzero(rows.d >= 0))
    part = Part.of(rows)
    options = Options(structure=Structure("chow-liu"), max_iter=1, min_iter=0)
    start = fit("FairPC", rows, options=replace(options, max_iter=0)).distribution
    after = fit("FairPC", rows, options=options).distribution
    codes = start.layout.codes(part.places.s, None, part.rows.x[part.places.row])
    upper = Upper.of(start)
    densities = np.empty((len(codes), 2))
    for f in range(2):
        codes[:, 1] = f
        densities[:, f] = start.circuit.log_marginal(codes)
        densities[:, f] -= np.log(upper.group_rate[part.places.s] * upper.decision_rate[f])
    prior = Upper(np.full(3, 1 / 3), np.full(2, 0.5), np.full((3, 2, 2), 0.5))
    steps = upper_em(part.places, densities, upper, prior)
    first, second = next(steps), next(steps)
    assert first.log_likelihood == pytest.approx(
        float(rows.weights @ log_likelihood(start, rows)), abs=1e-8
    )
    np.testing.assert_allclose(second.upper.group_rate, after.group_rate, atol=1e-10)
    np.testing.assert_allclose(second.upper.decision_rate, after.decision_rate[0], atol=1e-10)
    np.testing.assert_allclose(second.upper.mechanism, after.mechanism, atol=1e-10)
    assert second.objective > first.objective


def test_parameters_forget_the_completions_they_came_from() -> None:
    cells = cells_of(random_rows(6, 300, 2, 2, 0.3))
    learned = learn_component(SINGLE, cells, None, Structure(), 5.0, np.random.default_rng(0))
    refined = Counted.of(learned, cells, 5.0).shrunk(5.0)
    for i, table in enumerate(cells):
        prior = 5.0 * learned.base.circuits[i].parameters
        before, after = (
            objective(float(table.weights @ c.log_marginal(table.codes)), c.parameters, prior)
            for c in (learned.circuits[i], refined.circuits[i])
        )
        assert after >= before


def test_counts_serve_every_strength() -> None:
    """On complete rows the parameters from counts are those of a search with that strength."""
    cells = cells_of(biased_rows(0, 200))
    rng = np.random.default_rng(0)
    counted = Counted.of(learn_component(SINGLE, cells, None, Structure(), 1.0, rng), cells, 1.0)
    for strength in (0.5, 5.0, 20.0):
        again = learn_component(SINGLE, cells, None, Structure(), strength, rng)
        for ours, theirs in zip(counted.shrunk(strength).circuits, again.circuits, strict=True):
            np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-12)
        for ours, theirs in zip(
            counted.component.shrunk(strength).circuits, again.circuits, strict=True
        ):
            np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-12)


def test_without_rows_a_tree_is_the_product_of_the_marginals() -> None:
    """What parameters are shrunk towards: features independent within the cell."""
    cells = cells_of(biased_rows(1, 300))
    trees = learn_component(TREES, cells, None, Structure(), 1.0, np.random.default_rng(0))
    every = np.array(list(np.ndindex((2,) * 5)), np.int16)
    for circuit, table in zip(trees.base.circuits, cells, strict=True):
        ones = (table.weights @ table.codes + 0.5) / (table.total_weight + 1.0)
        expected = np.prod(np.where(every == 1, ones, 1.0 - ones), axis=1)
        np.testing.assert_allclose(np.exp(circuit.log_marginal(every)), expected, atol=1e-12)


def test_few_rows_are_shrunk_more() -> None:
    rng = np.random.default_rng(0)

    def chosen(n: int) -> float:
        s, d = rng.integers(0, 2, (2, n))
        x = rng.integers(0, 4, (n, 6))
        x[:, 1] = np.where(rng.random(n) < 0.5, x[:, 0], x[:, 1])
        train, held = hold_out(Rows.of(s, d, x), 0.1, rng)
        return choose_strength(Part.of(train), Part.of(held), 1.0, rng)[0]

    assert chosen(200) == 20.0
    train, held = (Part.of(r) for r in hold_out(biased_rows(2, 500), 0.1, rng))
    assert choose_strength(train, held, 0.0, rng) == (0.0, {})
    strength, scores = choose_strength(train, held, 0.5, rng)
    assert list(scores) == [0.5, 2.5, 10.0]
    assert strength == max(scores, key=lambda k: scores[k])


def test_a_search_over_held_out_parts_is_the_definition() -> None:
    """Many rows: the score of a strength is the mean log P(x | d, s) of the validation rows."""
    rng = np.random.default_rng(0)
    train, held = biased_rows(3, 6000), biased_rows(4, 500)
    scores = choose_strength(Part.of(train), Part.of(held), 1.0, rng)[1]
    for strength, score in scores.items():
        trees = learn_component(TREES, cells_of(train), None, Structure(), strength, rng)
        total = sum(
            c.log_marginal(t.codes).sum()
            for c, t in zip(trees.circuits, cells_of(held), strict=True)
        )
        assert score == pytest.approx(total / 500, abs=1e-10)


def test_clusters_share_out_their_cell() -> None:
    cells = cells_of(biased_rows(5, 400))
    components, shares = learn_clusters(cells, 3, Structure(), 5.0, np.random.default_rng(0))
    assert len(components) == 3
    assert shares.shape == (4, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert all(c.kind.clusters for c in components)


def test_clusters_are_taken_where_the_cells_have_them() -> None:
    """Two kinds of rows in each cell, no tree over the features tells them."""
    rng = np.random.default_rng(0)
    n = 4000
    s, d, kind = rng.integers(0, 2, (3, n))
    x = np.where(rng.random((n, 8)) < 0.15, 1 - kind[:, None], kind[:, None])
    fitted = fit_auto(Rows.of(s, d, x), options=SHORT, n_components=2)
    assert fitted.choices.clusters_gain > 0
    assert "Clusters of rows were taken" in str(fitted.choices)
    assert max(largest_dependence(fitted.distribution)) < 1e-9
    assert sum(fitted.choices.weights) == pytest.approx(1.0)


@settings(max_examples=examples(30), deadline=None)
@given(rows_of_any_kind())
def test_equalised_masses_follow_the_rate(rows: Rows) -> None:
    """And log-odds move by the same number in all rows of a group."""
    places = Places.of(rows)
    rng = np.random.default_rng(0)
    joint = rng.normal(size=(len(places.row), rows.n_classes))
    rate = rng.dirichlet(np.full(rows.n_classes, 5.0))
    shift = np.zeros((rows.n_groups, rows.n_classes))
    posterior = places.equalised(joint, rate, shift)
    mass = places.counts(posterior).sum(axis=2)
    wanted = rate * mass.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mass, wanted, atol=1e-4 * places.total_weight)
    expected = places.normalised(joint + shift[places.s])[1]
    np.testing.assert_allclose(posterior, expected, atol=1e-12)


@pytest.mark.parametrize("n_components", [None, 1, 3])
def test_equal_mass_brings_the_groups_together(n_components: int | None) -> None:
    """Features that tell apart two groups of different rates: without it the scores drift."""
    rows = biased_rows(23, 2000)
    kept = np.random.default_rng(0).random(2000) < np.where(rows.x[:, 0] == rows.s, 1.0, 0.3)
    rows = rows.take(np.flatnonzero(kept))
    part = Part.of(rows)
    gaps = []
    for equal in (False, True):
        options = replace(AUTO, equal_mass=equal, random_state=0)
        m = fit_auto(rows, options=options, n_components=n_components).distribution
        mass = part.places.counts(cell_posterior(m, part.rows, part.places)[1]).sum(axis=2)
        shares = mass[:, 1] / mass.sum(axis=1)
        gaps.append(abs(shares[1] - shares[0]))
        assert max(largest_dependence(m)) < 1e-9
    assert gaps[1] < gaps[0]


def test_places_of_rows_without_a_group() -> None:
    rows = Rows.of([0, 1, -1], [0, -1, 1], [[0], [1], [0]], n_groups=2, n_classes=2)
    places = Places.of(rows)
    assert places.row.tolist() == [0, 1, 2, 2]
    assert places.s.tolist() == [0, 1, 0, 1]
    logs, posterior = places.normalised(np.log([[0.1, 0.1], [0.2, 0.6], [0.1, 0.1], [0.1, 0.2]]))
    np.testing.assert_allclose(np.exp(logs), [0.2, 0.8, 0.5])
    np.testing.assert_allclose(posterior, [[0.5, 0.5], [0.25, 0.75], [0.2, 0.2], [0.2, 0.4]])


@pytest.mark.parametrize("whole", [True, False])
def test_a_part_of_every_label_and_group_is_held_out(whole: bool) -> None:
    rows = biased_rows(16, 2000)
    weights = np.arange(2000) % 4 * (1.0 if whole else 0.3)
    rows = Rows.of(rows.s, rows.d, rows.x, weights=weights)
    train, held = hold_out(rows, 0.2, np.random.default_rng(0))
    assert train.weights.sum() + held.weights.sum() == pytest.approx(rows.weights.sum())
    for d in range(2):
        for s in range(2):
            n, m = (r.weights[(r.d == d) & (r.s == s)].sum() for r in (rows, held))
            assert m / n == pytest.approx(0.2, abs=0.5 / n + 1e-9 if whole else 0.03)


def test_one_row_at_least_is_held_out() -> None:
    rows = Rows.of([0, 1, 1], [0, 1, 0], [[0], [1], [0]])
    train, held = hold_out(rows, 0.1, np.random.default_rng(0))
    assert (train.n_rows, held.n_rows) == (2, 1)


def test_paired_gain() -> None:
    """Differences 1, 3, 3: mean 7/3, variance 8/9, standard error sqrt(8/9 / 2) = 2/3."""
    gain, error = paired_gain(np.array([1.0, 3.0]), np.zeros(2), np.array([1.0, 2.0]), 3.0)
    assert gain == pytest.approx(7 / 3)
    assert error == pytest.approx(2 / 3)


def test_a_mixture_has_the_weights_it_was_given() -> None:
    rows = biased_rows(17, 300)
    stages: list[Stage] = []
    fitted = fit_auto(rows, options=SHORT, n_components=3, refit=False, callback=stages.append)
    m = fitted.distribution
    assert m.layout.component is not None
    nothing = np.full((1, len(m.layout.variables)), -1)
    shares = m.circuit.posterior(m.layout.component, nothing)[0]
    np.testing.assert_allclose(shares, fitted.choices.weights, atol=1e-12)
    if not fitted.choices.clusters_gain > 0:
        assert fitted.choices.components[0] == "a tree for each cell, split by gain"


TARGETS = {
    "adult": 0.009, "german": 0.0, "compas": -0.001,
    "10": 0.034, "12": 0.043, "14": 0.087, "16": 0.149, "18": 0.115, "20": 0.122,
}  # fmt: skip
"""Least mean gain in held-out nats a row over the paper's protocol, ten folds."""
TRUE_TARGETS = {"10": 0.007, "12": 0.018, "14": 0.019, "16": 0.021, "18": 0.019, "20": 0.008}
"""Least gain in accuracy to the true Df."""
TRUE_TREES = 0.005
"""Nats a row by which trees fitted with the true Df may be ahead."""
UNCONSTRAINED = {"adult": (-5.963, -5.953, -5.920), "compas": (-3.900, -3.920, -3.952)}
"""Held-out nats a row of circuits without any constraint (HCLT), folds 1 to 3."""


def scores(m: FairDistribution, test: Rows, true: FloatArray | None) -> tuple[float, ...]:
    p = m.decision(test.s, test.x)[:, 1]
    gap = abs(p[test.s == 1].mean() - p[test.s == 0].mean())
    right = np.nan if true is None else ((p > 0.5) == true).mean()
    return float(log_likelihood(m, test).mean()), float(gap), float(right)


def trees_of_the_truth(rows: Rows, true: npt.NDArray[np.int64], test: Rows) -> float:
    """Mean log-likelihood of test rows under a tree for each (Df, S) of the true Df."""
    known = replace(rows, d=true.astype(np.int16))
    rng = np.random.default_rng(0)
    trees = learn_component(TREES, cells_of(known), None, Structure(), 1.0, rng)
    counts = np.full((2, 2, 2), 0.5)
    np.add.at(counts, (rows.s, true, rows.d), 1.0)
    groups, decisions = counts.sum(axis=(1, 2)), counts.sum(axis=(0, 2))
    mechanism = counts / counts.sum(axis=2, keepdims=True)
    upper = Upper(groups / groups.sum(), decisions / decisions.sum(), mechanism)
    return float(log_likelihood(assemble(rows, [trees], np.ones(1), upper), test).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_gain_on_the_published_folds(name: str) -> None:
    table = paper_table(name)
    found, truth = [], []
    for k, fold in enumerate(table.folds):
        train, valid, test = (table.rows.take(ids) for ids in (fold.train, fold.valid, fold.test))
        options = replace(AUTO, random_state=k)
        models = (
            fit_auto(train, validation=valid, options=options).distribution,
            fit("FairPC", train, validation=valid, options=Options(tol=0)).distribution,
        )
        decided = None if table.truth is None else table.truth[fold.test].astype(np.float64)
        found.append([scores(m, test, decided) for m in models])
        if table.truth is not None:
            both = np.concatenate([fold.train, fold.valid])
            truth.append(trees_of_the_truth(table.rows.take(both), table.truth[both], test))
    auto, paper = np.array(found).transpose(1, 0, 2)
    gain = auto[:, 0] - paper[:, 0]
    assert gain.mean() > TARGETS[name]
    if name == "adult" or name.isdigit():
        assert (gain > 0).all()
    assert auto[:, 1].mean() < paper[:, 1].mean() + 0.005
    if name in TRUE_TARGETS:
        assert (auto[:, 2] - paper[:, 2]).mean() > TRUE_TARGETS[name]
        assert auto[:, 0].mean() > np.mean(truth) - TRUE_TREES
    if name in UNCONSTRAINED:
        assert (auto[:3, 0] > UNCONSTRAINED[name]).all()
