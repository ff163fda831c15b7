"""Df learned once the mechanism is known: trees and coefficients on raw tables, and their share."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fairpc import LatentDecision
from fairpc.core import Array, Floats, Ints
from fairpc.data import read_frame
from fairpc.learners import (
    AlteredLabels,
    BoostedOdds,
    LinearOdds,
    SavedTrees,
    _design,
    corrected_boosting,
    corrected_linear,
    encoded_sizes,
    learn_linear,
)
from fairpc.learners._design import Design, encoded_matrix
from fairpc.models import TableClassifier
from fairpc.models._score_map_fit import calibrated, fit_score_map

BENT = np.array([[[0.95, 0.05], [0.1, 0.9]], [[0.98, 0.02], [0.5, 0.5]]])


def bent(seed: int, n: int) -> tuple[pd.DataFrame, Array, Array, Array]:
    """Numbers, levels and holes that tell Df, the groups, Df, and labels bent by ``BENT``."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    number, town = rng.normal(size=n), rng.integers(0, 5, n)
    f = rng.random(n) < 1 / (
        1 + np.exp(-3 * np.sin(2 * number) - np.array([-2, 2, 0, 1, -1])[town])
    )
    d = (rng.random(n) < BENT[s, f.astype(int), 1]).astype(int)
    table = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, number),
            "town": np.array(["a", "b", "c", "d", "e"])[town],
            "noise": rng.integers(0, 3, n).astype(float),
        }
    )
    return table, np.array(["F", "M"])[s], f.astype(int), d


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Floats, Ints, AlteredLabels]:
    """Columns of many numbers, of few, and of levels; some cells are missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n = draw(st.integers(30, 400))
    few = rng.choice([-1e30, -1.5, 0.0, 2.0, 1e30], n)
    matrix = np.column_stack(
        [rng.normal(size=n), few, rng.integers(0, 6, n), rng.integers(0, 2, n)]
    )
    matrix[rng.random(matrix.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    told = np.nan_to_num(matrix[:, 0]) + (np.nan_to_num(matrix[:, 2]) > 2)
    d = (rng.random(n) < 1 / (1 + np.exp(-2 * told + 1))).astype(np.int64)
    rows = AlteredLabels.of(d, rng.random(n) + 0.5, rng.integers(0, 2, n), BENT)
    return matrix, np.array([0, 0, 6, 2]), rows


@given(matrices(), st.integers(2, 64))
def test_trees_with_thresholds_say_what_trees_of_bins_say(
    drawn: tuple[Floats, Ints, AlteredLabels], n_bins: int
) -> None:
    """Of training rows, and of rows with values that no training row had."""
    matrix, sizes, rows = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_design, "BINS", n_bins)
        edges = _design.edges_of(matrix, sizes)
    found = corrected_boosting(matrix, sizes, rows, 3, edges)
    rng = np.random.default_rng(0)
    new = matrix[rng.integers(0, len(matrix), 50)] + np.array([0.3, 0.1, 0, 0])
    asked = np.concatenate([matrix, new, np.full((1, 4), np.nan)])
    codes, own = (
        np.column_stack([_design.bin_codes(c, b) for b, c in zip(edges, some.T, strict=True)])
        for some in (asked, matrix)
    )
    arities = sizes + np.array([0 if b is None else len(b) + 1 for b in edges])
    slow = BoostedOdds.learned(own, rows, arities, sizes > 0, np.random.default_rng(3))
    np.testing.assert_allclose(found.probability(asked), slow.decided(codes)[:, 1], atol=1e-12)
    again = SavedTrees.from_dict(found.to_dict(), sizes, boosted=True)
    np.testing.assert_array_equal(again.probability(asked), found.probability(asked))


@given(matrices())
def test_linear_log_odds_say_what_their_columns_say(
    drawn: tuple[Floats, Ints, AlteredLabels],
) -> None:
    matrix, sizes, rows = drawn
    columns = Design.of(matrix, sizes, rows.weights).columns
    slow = LinearOdds.learned(columns, rows).decided(columns)[:, 1]
    found = corrected_linear(matrix, sizes, rows).probability(matrix)
    np.testing.assert_allclose(found, slow, atol=1e-9)


@pytest.mark.parametrize("kind", ["hgb", "logistic"])
def test_a_classifier_that_knows_the_mechanism_finds_df(kind: Any) -> None:
    table, s, _, d = bent(0, 4000)
    new, _, new_f, _ = bent(1, 4000)
    rows = AlteredLabels.of(d, np.ones(len(d)), (s == "M").astype(int), BENT)
    plain = TableClassifier(kind, random_state=0).fit(table, d)
    matrix = encoded_matrix(plain.encoding_, read_frame(table))
    edges = _design.edges_of(matrix, encoded_sizes(plain.encoding_))
    behind = TableClassifier.behind(kind, plain.encoding_, matrix, rows, edges)
    own, bent_rate = behind.predict_proba(new)[:, 1], plain.predict_proba(new)[:, 1].mean()
    assert abs(own.mean() - new_f.mean()) < 0.03 < abs(bent_rate - new_f.mean())
    again = TableClassifier.from_dict(behind.to_dict())
    np.testing.assert_array_equal(again.predict_proba(new), behind.predict_proba(new))


def fitted(n: int = 4000, **settings: Any) -> tuple[LatentDecision, pd.DataFrame, Array, Array]:
    table, s, _, d = bent(0, n)
    model = LatentDecision(random_state=0, **settings).fit(table, d, sensitive_features=s)
    return model, table, s, d


def test_the_second_round_finds_more_of_df_and_moves_no_estimate() -> None:
    """P(Df), the mechanism and what is possible are those of the scores of D alone."""
    model, table, s, d = fitted()
    assert model.second_round_ is not None
    assert model.second_round_.shares.sum() == pytest.approx(1.0)
    scored = model.cross_fitted(table, d, sensitive_features=s)
    first = fit_score_map(replace(scored, second=None), model.coding_.groups.names)
    np.testing.assert_array_equal(first.mechanism, model.score_map_.mechanism)
    assert first.decision_rate == model.score_map_.decision_rate
    assert first.ends.to_dict() == model.score_map_.ends.to_dict()
    again = calibrated(first, scored)
    assert again.to_dict() == model.score_map_.to_dict()
    new, new_s, new_f, _ = bent(1, 8000)
    once = LatentDecision(TableClassifier(random_state=0), random_state=0)
    once.fit(table, d, sensitive_features=s)
    twice, alone = (m.predict_proba(new, sensitive_features=new_s)[:, 1] for m in (model, once))
    assert roc_auc_score(new_f, twice) > roc_auc_score(new_f, alone) + 0.002


def test_no_label_of_a_fold_changes_what_its_classifiers_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a mechanism that is given: the classifiers of Df are those of the other folds."""
    from fairpc.models._fold_classifiers import FoldClassifiers

    kept: dict[str, Any] = {}
    usual = FoldClassifiers.of_decisions

    def seen(self: FoldClassifiers, *given: Any) -> Any:
        kept.update(cross=self, given=given)
        return usual(self, *given)

    monkeypatch.setattr(FoldClassifiers, "of_decisions", seen)
    fitted(1500)
    cross, (table, scored, *rest) = kept["cross"], kept["given"]
    d = np.where(scored.folds == 0, 1 - scored.rows.d, scored.rows.d).astype(scored.rows.d.dtype)
    turned = replace(scored, rows=replace(scored.rows, d=d))
    told = []
    for some in (scored, turned):
        own = replace(cross, rng=np.random.default_rng(5))
        each = usual(own, table, some, *rest)
        told.append([[c.to_dict()["learned"] for c in fold] for fold in each])
    assert told[0][0] == told[1][0]
    assert told[0][1] != told[1][1]


def test_there_is_one_round_where_a_classifier_is_given() -> None:
    assert fitted(1500, estimator=TableClassifier(random_state=0))[0].second_round_ is None


def test_labels_that_nobody_bent_are_learned_once() -> None:
    """Both groups have the same rate of labels to the row, so no label need be altered."""
    table, s, f, _ = bent(0, 1500)
    of_each = [np.flatnonzero((s == g) & (f == d)) for g, d in product(np.unique(s), np.unique(f))]
    kept = np.sort(np.concatenate([rows[: min(map(len, of_each))] for rows in of_each]))
    model = LatentDecision(random_state=0)
    model.fit(table.iloc[kept], f[kept], sensitive_features=s[kept])
    assert model.score_map_.straight
    assert model.second_round_ is None


def test_strata_have_their_own_mechanisms() -> None:
    """Rows whose stratum is not known are asked, too, and q has the mean of each subgroup."""
    table, s, _, d = bent(0, 4000)
    model = LatentDecision(random_state=0, given="noise")
    model.fit(table, d, sensitive_features=s)
    assert model.second_round_ is not None
    scored = model.cross_fitted(table, d, sensitive_features=s)
    q = model.score_map_.decision(scored.last[None], scored.at)
    own = model.score_map_.strata
    assert own is not None
    for g, a in np.ndindex(2, 3):
        here = (scored.groups == g) & (scored.strata == a)
        assert q[here].mean() == pytest.approx(own.decision_rate[a], abs=1e-6)
    asked = table.assign(noise=np.nan)[:50]
    scores = model.predict_proba(asked, sensitive_features=s[:50])
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("altered", [False, True])
def test_linear_learners_give_the_same_bits_for_any_number_of_threads(altered: bool) -> None:
    rng = np.random.default_rng(1)
    matrix, sizes = rng.normal(size=(20_000, 30)), np.zeros(30, np.int64)
    y, weights = (matrix[:, 0] + rng.normal(size=20_000) > 0).astype(np.int64), np.ones(20_000)

    def learned() -> Floats:
        if altered:
            labels = AlteredLabels.of(
                y, weights, np.zeros_like(y), np.array([[[0.9, 0.1], [0, 1]]])
            )
            return corrected_linear(matrix, sizes, labels).slope
        return learn_linear(matrix, sizes, y, weights).slope

    found = []
    for n in (1, 2):
        with threadpool_limits(n):
            found.append(learned())
    assert np.array_equal(found[0], found[1])
