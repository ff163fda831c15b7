"""Rows to review: what is suggested narrows more than chance does, and labels play no part."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression

from fairpc import FairPC, LatentDecision, NLatPC, suggest_anchors
from fairpc.errors import LearningError

Array = npt.NDArray[Any]
BENT = np.array([[0.10, 0.95], [0.05, 0.60]])


@functools.cache
def people(n: int = 3000) -> tuple[Array, Array, Array, Array]:
    """Features, labels bent against group 1, groups, and Df, which is 1 in .15 of the rows."""
    rng = np.random.default_rng(0)
    s, f = rng.integers(0, 2, n), (rng.random(n) < 0.15).astype(int)
    x = rng.normal(size=(n, 2)) + f[:, None] * np.array([1.2, 0.8])
    return x, (rng.random(n) < BENT[s, f]).astype(int), s, f


def fitted(known: Array | None = None) -> LatentDecision:
    x, d, s, _ = people()
    model = LatentDecision(LogisticRegression(), sensitive_estimator=False, random_state=0)
    return model.fit(x, d, sensitive_features=s, fair_labels=known)


def width(model: LatentDecision) -> float:
    """Mean width of the bounds of scores, without what is not known of P(D | x, s)."""
    x, _, s, _ = people()
    r = model.predict_observed_proba(x, sensitive_features=s)[:, 1]
    low, high = model._unstratified_bounds().score_bounds(r, r, s.astype(np.intp), 0.95)
    return float((high - low).mean())


def reviewed(rows: Array) -> Array:
    *_, f = people()
    known = np.full(len(f), None, object)
    known[rows] = f[rows]
    return known


def test_reviewing_them_narrows_as_expected_and_more_than_chance() -> None:
    x, d, s, _ = people()
    model = fitted()
    plan = suggest_anchors(model, x, d, 200, sensitive_features=s)
    assert len(set(plan.rows.tolist())) == 200 == sum(cell.n for cell in plan.cells)
    after = width(fitted(reviewed(plan.rows)))
    first, last = plan.curve[0], plan.curve[-1]
    assert first.suggested == first.random == pytest.approx(width(model), abs=0.01)
    assert after < first.suggested
    assert after == pytest.approx(last.suggested, abs=0.06)
    rng = np.random.default_rng(1)
    random = [width(fitted(reviewed(rng.choice(3000, 200, replace=False)))) for _ in range(3)]
    assert after < np.mean(random) - 0.03
    assert last.suggested < last.random - 0.03


def test_the_curve_falls_and_is_told() -> None:
    x, d, s, _ = people()
    plan = suggest_anchors(fitted(), x, d, 60, sensitive_features=s)
    assert [step.n for step in plan.curve] == list(range(0, 61, 3))
    for name in ("suggested", "random"):
        widths = [getattr(step, name) for step in plan.curve]
        assert np.diff(widths).max() <= 1e-12
    assert "Review 60 rows" in plan.summary()
    json.dumps(plan.to_dict())


def test_labels_play_no_part_but_rows_without_one_are_left_out() -> None:
    x, d, s, _ = people()
    model = fitted()
    plan = suggest_anchors(model, x, d, 40, sensitive_features=s)
    other = suggest_anchors(model, x, 1 - d, 40, sensitive_features=s)
    assert np.array_equal(plan.rows, other.rows)
    some = d.astype(object)
    some[plan.rows] = None
    again = suggest_anchors(model, x, some, 40, sensitive_features=s)
    assert not set(again.rows) & set(plan.rows)


def test_a_forest_has_rows_to_review_too() -> None:
    x, d, s, _ = people()
    model = FairPC(structure="forest", random_state=0).fit(x, d, sensitive_features=s)
    plan = suggest_anchors(model, x, d, 10, sensitive_features=s)
    assert plan.curve[-1].suggested < plan.curve[0].suggested


@pytest.mark.parametrize("n", [0, 5000, 2.5, True])
def test_a_wrong_number_gets_a_sentence(n: Any) -> None:
    x, d, s, _ = people()
    with pytest.raises(LearningError, match="whole number from 1 to 3000"):
        suggest_anchors(fitted(), x, d, n, sensitive_features=s)


def test_models_and_rows_that_cannot_be_asked_are_refused() -> None:
    x, d, s, _ = people()
    plain = NLatPC(structure="chow-liu", random_state=0).fit(x, d, sensitive_features=s)
    with pytest.raises(LearningError, match="NLatPC"):
        suggest_anchors(plain, x, d, 5, sensitive_features=s)
    with pytest.raises(LearningError, match="groups of the rows are not known"):
        suggest_anchors(fitted(), x, d, 5)
    blind = FairPC(structure="chow-liu", guard=False, random_state=0)
    blind.fit(x, d, sensitive_features=s)
    with pytest.raises(LearningError, match="guard=True"):
        suggest_anchors(blind, x, d, 5, sensitive_features=s)
