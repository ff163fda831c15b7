"""Hidden trees against enumeration, and what an ensemble of them promises."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from fairpc.circuit import CircuitBuilder
from fairpc.core import Codes, Floats, Integers
from fairpc.data import Table
from fairpc.errors import LearningError
from fairpc.structure import Ensemble, HiddenTree, Tree, learn, learn_ensemble
from fairpc.structure._ensemble import fit_member
from fairpc.structure._hidden import clustered_start
from fairpc.structure._trees import marginals

QUICK = Ensemble(clusters=(2,), n_more=1, passes=3)
ARITIES = [2, 3, 2, 6]


def random_tree(
    rng: np.random.Generator,
    parent: Sequence[int] = (-1, 0, 0, 2),
    arities: Sequence[int] = ARITIES,
    states: Sequence[int] = (2, 3, 2, 2),
) -> HiddenTree:
    transitions, emissions = [], []
    for v, above in enumerate(parent):
        transitions.append(rng.dirichlet(np.ones(states[v]), 1 if above < 0 else states[above]))
        emissions.append(rng.dirichlet(np.ones(arities[v]), states[v]).T)
    return HiddenTree(Tree.of(parent), tuple(transitions), tuple(emissions))


def joint(model: HiddenTree, z: tuple[int, ...], row: Codes) -> float:
    """P(z, e) by the definition."""
    p = 1.0
    for v, above in enumerate(model.tree.parent):
        p *= float(model.transitions[v][0 if above < 0 else z[above], z[v]])
        if row[v] >= 0:
            p *= float(model.emissions[v][row[v], z[v]])
    return p


def states(model: HiddenTree) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(t.shape[1]) for t in model.transitions))


def mixed_rows(rng: np.random.Generator, n: int = 600) -> Integers:
    """Four noisy copies of a hidden bit, between two columns that have nothing to do with it."""
    hidden = rng.integers(0, 2, n)
    copies = [hidden ^ (rng.random(n) < 0.1) for _ in range(4)]
    return np.column_stack([rng.integers(0, 2, n), *copies, rng.integers(0, 3, n)])


def true_logs(rows: Integers) -> Floats:
    """log P of :func:`mixed_rows`: 1/2 · Σ_h 1/2 · .9^same · .1^(4 - same) · 1/3."""
    ones = rows[:, 1:5].sum(axis=1)
    copies = 0.5 * (0.9**ones * 0.1 ** (4 - ones) + 0.1**ones * 0.9 ** (4 - ones))
    logs: Floats = np.log(copies / 6)
    return logs


def holes(rng: np.random.Generator, rows: Integers, share: float = 0.2) -> Integers:
    return np.where(rng.random(rows.shape) < share, -1, rows)


def codes_of(rng: np.random.Generator, n: int = 40) -> Codes:
    return np.column_stack([rng.integers(-1, k, n) for k in ARITIES]).astype(np.int16)


def test_log_marginals_are_sums_over_all_states() -> None:
    rng = np.random.default_rng(0)
    model, codes = random_tree(rng), codes_of(rng)
    slow = [np.log(sum(joint(model, z, row) for z in states(model))) for row in codes]
    np.testing.assert_allclose(model.log_marginal(codes), slow, atol=1e-12)


def test_expected_counts_are_posterior_sums_over_all_states() -> None:
    rng = np.random.default_rng(1)
    model, codes = random_tree(rng), codes_of(rng)
    weights = rng.uniform(0, 3, len(codes))
    transitions = [np.zeros_like(t) for t in model.transitions]
    emissions = [np.zeros_like(e) for e in model.emissions]
    for row, w in zip(codes, weights, strict=True):
        total = sum(joint(model, z, row) for z in states(model))
        for z in states(model):
            share = w * joint(model, z, row) / total
            for v, above in enumerate(model.tree.parent):
                transitions[v][0 if above < 0 else z[above], z[v]] += share
                if row[v] >= 0:
                    emissions[v][row[v], z[v]] += share
    logs, found = model.expected_counts(np.ascontiguousarray(codes.T), weights)
    assert logs == pytest.approx(float(model.log_marginal(codes) @ weights), abs=1e-9)
    for fast, slow in zip(
        found.transitions + found.emissions, transitions + emissions, strict=True
    ):
        np.testing.assert_allclose(fast, slow, atol=1e-10)


def test_a_node_with_hundreds_of_children_does_not_underflow() -> None:
    rng = np.random.default_rng(2)
    m = 500
    model = random_tree(rng, (-1, *[0] * (m - 1)), [2] * m, [2] * m)
    codes = rng.integers(0, 2, (5, m)).astype(np.int16)
    slow = []
    for row in codes:
        logs = np.log(model.transitions[0][0] * model.emissions[0][row[0]])
        for v in range(1, m):
            logs += np.log(model.transitions[v] @ model.emissions[v][row[v]])
        slow.append(np.logaddexp(*logs))
    np.testing.assert_allclose(model.log_marginal(codes), slow, rtol=1e-12)


def test_the_circuit_of_a_hidden_tree_is_that_distribution() -> None:
    rng = np.random.default_rng(3)
    model, codes = random_tree(rng), codes_of(rng)
    builder = CircuitBuilder({f"X{v}": k for v, k in enumerate(ARITIES)})
    circuit = builder.build(model.graft(builder))
    np.testing.assert_allclose(circuit.log_marginal(codes), model.log_marginal(codes), atol=1e-12)


def test_em_without_prior_rows_never_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(4)
    table = Table.of(holes(rng, mixed_rows(rng)))
    overall, before = marginals(table.codes.T, table.weights, table.arities), -np.inf
    model = clustered_start(table, 3, rng)
    for _ in range(25):
        after, counts = model.expected_counts(table.codes.T, table.weights)
        assert after >= before - 1e-9
        before = after
        model = model.with_counts(counts, overall, 0.0, 0.0)


def test_a_start_is_a_distribution_whatever_the_arities() -> None:
    rng = np.random.default_rng(5)
    codes = codes_of(rng, 300)
    codes[:, 1] = 0
    model = clustered_start(Table.of(codes, arities=ARITIES), 2, rng)
    for t, e in zip(model.transitions, model.emissions, strict=True):
        np.testing.assert_allclose(t.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(e.sum(axis=0), 1, atol=1e-12)
        assert t.min() > 0 or len(t) == 1
        assert e.min() > 0


def test_an_ensemble_is_normalised_smooth_and_decomposable() -> None:
    rng = np.random.default_rng(6)
    circuit = learn(Table.of(holes(rng, mixed_rows(rng))), method=QUICK, random_state=0)
    every = np.array(list(itertools.product(*(range(k) for k in circuit.arities))))
    assert np.exp(circuit.log_likelihood(every)).sum() == pytest.approx(1, abs=1e-9)
    assert circuit.log_marginal([[-1] * 6])[0] == pytest.approx(0, abs=1e-9)
    found = circuit.properties()
    assert found.smooth
    assert found.decomposable
    assert circuit.sample(7, 0).shape == (7, 6)


def test_the_circuit_of_an_ensemble_is_the_mixture_of_its_members() -> None:
    rng = np.random.default_rng(7)
    train, valid, test = (mixed_rows(rng) for _ in range(3))
    found = learn_ensemble(Table.of(train), Table.of(valid), QUICK, random_state=0)
    codes = Table.of(test).codes
    parts = np.stack([np.exp(m.log_marginal(codes)) for m in found.members], axis=1)
    logs = found.circuit().log_marginal(codes)
    np.testing.assert_allclose(logs, np.log(parts @ found.weights), atol=1e-9)
    held_out = found.circuit().log_marginal(valid).mean()
    assert found.validation_log_likelihood == pytest.approx(held_out, abs=1e-9)


def test_the_name_finds_what_no_tree_holds() -> None:
    rng = np.random.default_rng(8)
    train, valid, test = (Table.of(mixed_rows(rng, 1500)) for _ in range(3))
    truth = true_logs(test.codes).mean()
    tree = learn(train, method="chow-liu")
    ensemble = learn(train, method="ensemble", validation=valid, random_state=0)
    assert tree.log_marginal(test.codes).mean() < truth - 0.1
    assert ensemble.log_marginal(test.codes).mean() > truth - 0.02


def test_the_same_seed_gives_the_same_circuit_and_another_seed_another() -> None:
    table = Table.of(mixed_rows(np.random.default_rng(9)))
    first, again, other = (learn(table, method=QUICK, random_state=s) for s in (0, 0, 1))
    assert first.graph.same_as(again.graph)
    assert np.array_equal(first.parameters, again.parameters)
    assert not np.array_equal(first.parameters, other.parameters)


def test_a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_is_none() -> None:
    rng = np.random.default_rng(10)
    rows, valid = mixed_rows(rng, 400), Table.of(mixed_rows(rng, 200))
    weights = rng.integers(0, 4, len(rows))
    twice = learn(
        Table.of(np.repeat(rows, weights, axis=0)), method=QUICK, validation=valid, random_state=0
    )
    once = learn(Table.of(rows, weights), method=QUICK, validation=valid, random_state=0)
    np.testing.assert_allclose(once.log_marginal(rows), twice.log_marginal(rows), atol=1e-9)


def test_held_out_rows_choose_and_do_not_enter_the_parameters_of_members() -> None:
    rng = np.random.default_rng(11)
    train, valid = Table.of(mixed_rows(rng)), Table.of(mixed_rows(rng, 300))
    other = Table.of(valid.codes[::-1])
    heavy = Table.of(valid.codes, np.full(300, 5.0))
    one_pass = [
        fit_member(train, rows, 2, 1, np.random.default_rng(0))[0] for rows in (valid, heavy, other)
    ]
    for member in one_pass[1:]:
        for a, b in zip(one_pass[0].transitions, member.transitions, strict=True):
            assert np.array_equal(a, b)
    kind = train.codes[:, 1] == train.codes[:, 0]
    kinds = Table.of(train.codes[kind], arities=train.arities)
    settings = Ensemble(clusters=(1, 2), n_more=2, passes=3)
    scores = [
        learn_ensemble(train, rows, settings, random_state=0).circuit().log_marginal(kinds.codes)
        for rows in (valid, kinds)
    ]
    assert scores[1].mean() > scores[0].mean()


def test_constant_columns_and_values_of_held_out_rows_alone_are_possible() -> None:
    rng = np.random.default_rng(12)
    rows = mixed_rows(rng)
    rows[:, 5] = 0
    valid = rows[:100].copy()
    valid[0, 5] = 1
    circuit = learn(Table.of(rows), method=QUICK, validation=Table.of(valid), random_state=0)
    assert np.isfinite(circuit.log_marginal(valid)).all()


def test_what_an_ensemble_cannot_use_is_refused() -> None:
    rng = np.random.default_rng(13)
    table = Table.of(mixed_rows(rng, 50))
    with pytest.raises(LearningError, match="has no use for tree"):
        learn(table, method="ensemble", prune="aic")
    with pytest.raises(LearningError, match="has no use for tree"):
        learn(table, method="ensemble", smoothing=2.0)
    named = Table.of(table.codes, names=tuple("abcdef"))
    with pytest.raises(LearningError, match="validation rows have the columns"):
        learn(table, method="ensemble", validation=named)
    with pytest.raises(LearningError, match="clusters is empty"):
        Ensemble(clusters=())
    with pytest.raises(ValueError, match="ensemble"):
        learn(table, method="ensembles")  # type: ignore[arg-type]
