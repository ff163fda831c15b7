"""Strata: Df is independent of S within each, D of X given Df, S and A, whatever is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st

from fairpc.errors import EvidenceError, LearningError
from fairpc.models import FairDistribution, Rows, Strata
from fairpc.models._fair_layers import DF, Layout, S
from fairpc.models._fit import Options, Structure, fit
from fairpc.models._forest_fit import ForestStart, fit_forest
from fairpc.models._strata import MAX_STRATA, UNDIVIDED
from models.tables import SHORT, random_rows
from strategies import examples

QUICK = Options(max_iter=6, min_iter=1, structure=Structure("chow-liu"), random_state=0)


def strata_rows(seed: int, n: int, n_groups: int, holes: float) -> Rows:
    """Random rows whose first one or two features make the strata; some have cells missing."""
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, n, n_groups, 2, holes)
    columns = (0,) if len(rows.names) == 2 or rng.random() < 0.6 else (0, 2)
    mine = tuple(int(rows.arities[j]) for j in columns)
    return rows.with_strata(Strata(columns, mine))


@st.composite
def stratified(draw: st.DrawFn, holes: tuple[float, ...] = (0.0, 0.2)) -> Rows:
    seed, n = draw(st.integers(0, 2**31)), draw(st.integers(60, 150))
    return strata_rows(seed, n, draw(st.integers(2, 3)), draw(st.sampled_from(holes)))


def largest_dependence(m: FairDistribution) -> float:
    """Largest error of both independencies, by exact query of the circuit, which knows of neither.

    |P(f | s, a) − P(f | a)|, and |P(d, x | f, s, a) − P(d | f, s, a) P(x | f, s, a)| for every
    single feature x.
    """
    layout, strata = m.layout, m.layout.strata

    def p(**fixed: int) -> float:
        row = np.full((1, len(layout.variables)), -1)
        for column, value in fixed.items():
            row[0, int(column[1:])] = value
        return float(np.exp(m.circuit.log_marginal(row)[0]))

    worst = 0.0
    for a in range(strata.n):
        values = zip(strata.columns, strata.values(a), strict=True)
        where = {f"c{layout.x[j]}": v for j, v in values}
        for s, f in np.ndindex(layout.n_groups, layout.n_classes):
            group, decided = {f"c{S}": s}, {f"c{DF}": f}
            alone = p(**where, **decided) / p(**where)
            worst = max(worst, abs(p(**where, **group, **decided) / p(**where, **group) - alone))
            cell = where | group | decided
            for d in range(layout.n_classes):
                label = {f"c{layout.d}": d}
                rate = p(**cell, **label) / p(**cell)
                for j in layout.features:
                    x = {f"c{j}": 0}
                    both = p(**cell, **label, **x) / p(**cell)
                    worst = max(worst, abs(both - rate * p(**cell, **x) / p(**cell)))
    return worst


@given(stratified())
@settings(max_examples=examples(60), deadline=None)
def test_both_independencies_hold_within_strata(rows: Rows) -> None:
    m = fit("LatNB", rows, options=QUICK).distribution
    assert largest_dependence(m) < 1e-9
    assert m.circuit.properties().smooth.holds
    np.testing.assert_allclose(m.parity_gap(), 0.0, atol=1e-9)


def test_both_independencies_hold_in_a_forest_whose_queries_are_those_of_its_circuit() -> None:
    rows = strata_rows(5, 500, 3, 0.15)
    m = fit_forest(ForestStart.of(rows), replace(SHORT, max_iter=40)).distribution
    assert largest_dependence(m) < 1e-9
    plain = FairDistribution("FairPC", m.layout, m.circuit)
    assert m.n_edges == plain.n_edges
    some = rows.take(np.arange(60))
    for s in (some.s, None):
        np.testing.assert_allclose(m.decision(s, some.x), plain.decision(s, some.x), atol=1e-9)
        np.testing.assert_allclose(m.observed(s, some.x), plain.observed(s, some.x), atol=1e-9)
        for d in (some.d, None):
            a, b = (k.posterior(s, d, some.x) for k in (m, plain))
            np.testing.assert_allclose(a, b, atol=1e-9)
            a, b = (k.log_likelihood(s, d, some.x) for k in (m, plain))
            np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(m.group(some.x), plain.group(some.x), atol=1e-9)
    for name in ("group_rate", "decision_rate", "stratum_rate", "subgroup_rate", "mechanism"):
        np.testing.assert_allclose(getattr(m, name), getattr(plain, name), atol=1e-9)
    (counts, logs), (others, also) = (
        m.altered_and_likelihood(some),
        plain.altered_and_likelihood(some),
    )
    np.testing.assert_allclose(counts, others, atol=1e-8)
    assert logs == pytest.approx(also, abs=1e-8)


@given(stratified())
@settings(max_examples=examples(40), deadline=None)
def test_rates_by_group_are_those_of_the_circuit(rows: Rows) -> None:
    m = fit("LatNB", rows, options=QUICK).distribution
    layout = m.layout
    codes = np.full((layout.n_groups, len(layout.variables)), -1)
    codes[:, S] = np.arange(layout.n_groups)
    np.testing.assert_allclose(m.group_rate, np.exp(m.circuit.log_marginal(codes)), atol=1e-12)
    np.testing.assert_allclose(m.decision_rate, m.circuit.posterior(DF, codes), atol=1e-12)
    for f in range(layout.n_classes):
        codes[:, DF] = f
        told = m.circuit.posterior(layout.d, codes)
        np.testing.assert_allclose(m.mechanism[:, f], told, atol=1e-12)


@given(stratified(holes=(0.0,)))
@settings(max_examples=examples(40), deadline=None)
def test_an_em_step_counts_labels_by_subgroup(rows: Rows) -> None:
    """The M-step by hand: posteriors of every (s, a, f)."""
    free = replace(QUICK, smoothing=0.0, max_iter=1, min_iter=0)
    try:
        before = fit("LatNB", rows, options=replace(QUICK, smoothing=0.0, max_iter=0)).distribution
    except EvidenceError:
        reject()  # without smoothing, a start may leave a row with holes no probability
    after = fit("LatNB", rows, options=free).distribution
    layout = before.layout
    posterior = before.posterior(rows.s, rows.d, rows.x) * rows.weights[:, None]
    counts = np.zeros((layout.n_groups, rows.strata.n, 2, 2))
    bent = before.subgroup_mechanism
    for g, d, share in zip(rows.subgroups, rows.d, posterior, strict=True):
        s, a = divmod(int(g), rows.strata.n)
        # A label that is missing counts as the model expects it.
        told = np.eye(2)[d][None] if d >= 0 else bent[s, a]
        counts[s, a] += share[:, None] * told
    total = counts.sum(axis=3, keepdims=True)
    expected = np.where(total > 1e-9, counts / np.where(total > 0, total, 1.0), np.nan)
    sure = ~np.isnan(expected)
    np.testing.assert_allclose(after.subgroup_mechanism[sure], expected[sure], atol=1e-8)


def test_without_columns_there_is_one_stratum_and_groups_are_subgroups() -> None:
    rows = random_rows(2, 300, 2, 2, 0.1)
    assert rows.strata is UNDIVIDED
    assert rows.by_subgroup() is rows
    layout = Layout.of("FairPC", rows)
    assert layout.n_subgroups == 2
    assert layout.features == list(layout.x)


def test_strata_with_the_same_rates_everywhere_are_recovered() -> None:
    """Rates that differ by stratum, a mechanism that does not: both are found from many rows."""
    rng = np.random.default_rng(0)
    n, pi = 30_000, np.array([0.2, 0.5, 0.8])
    s = rng.integers(0, 2, n)
    a = np.where(rng.random(n) < 0.4 * s, 0, rng.integers(0, 3, n))
    f = (rng.random(n) < pi[a]).astype(int)
    bent = np.array([[0.1, 0.95], [0.02, 0.6]])
    d = (rng.random(n) < bent[s, f]).astype(int)
    x = np.column_stack([a, *((rng.random(n) < 0.15 + 0.7 * f).astype(int) for _ in range(4))])
    rows = Rows.of(s, d, x, strata=Strata((0,), (3,)))
    m = fit("LatNB", rows, options=replace(QUICK, max_iter=500)).distribution
    np.testing.assert_allclose(m.stratum_rate[:, 1], pi, atol=0.02)
    np.testing.assert_allclose(m.mechanism[:, :, 1], bent, atol=0.02)


def test_turned_labels_add_up_to_the_rows_of_each_group() -> None:
    rows = strata_rows(9, 300, 3, 0.0)
    m = fit("LatNB", rows, options=QUICK).distribution
    totals = [rows.weights[rows.s == s].sum() for s in range(3)]
    np.testing.assert_allclose(m.altered(rows).sum(axis=(1, 2)), totals, rtol=1e-9)


def test_a_model_without_a_latent_decision_takes_no_strata() -> None:
    rows = strata_rows(1, 100, 2, 0.0)
    with pytest.raises(LearningError, match="was set for NLatPC"):
        fit("NLatPC", rows, options=QUICK)


def test_too_many_strata_and_nothing_but_strata_are_refused() -> None:
    with pytest.raises(LearningError, match=f"{MAX_STRATA} are the most"):
        Strata((0, 1), (20, 20))
    rows = Rows.of([0, 1, 0, 1], [0, 1, 1, 0], [[0], [1], [0], [1]], strata=Strata((0,), (2,)))
    with pytest.raises(LearningError, match="every feature is in given"):
        fit("LatNB", rows, options=QUICK)
