"""Patterns in an audit: which rows they are about, and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import QUICK, fitted, table
from fairpc import LatentDecision
from fairpc.auditing import Audit, _patterns as patterns_module, audit
from fairpc.auditing._patterns import PatternRow, PatternTable
from fairpc.models import TableClassifier

THRESHOLD = 0.02
"""So small that both tables have patterns."""


@pytest.fixture(scope="module")
def found() -> Audit:
    X, y, s = table()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns_module, "THRESHOLD", THRESHOLD)
        return audit(fitted(), X, y, sensitive_features=s, **QUICK)


def tables(record: Audit) -> list[PatternTable]:
    assert record.patterns is not None
    both = record.patterns.decisions, record.patterns.labels
    return [one for one in both if one is not None]


def rows_of(pattern: PatternRow) -> tuple[Any, Any]:
    """Which rows of the table are in the group with these values, and which have the values."""
    X, _, s = table()
    coding = fitted().coding_
    codes = coding.features.transform(X)
    alike = np.ones(len(X), bool)
    for name, label in pattern.features.items():
        j = coding.features.names.index(name)
        alike &= codes[:, j] == coding.features.columns[j].labels.index(label)
    (group,) = pattern.group.values()
    return alike & (s == group), alike


def test_rows_are_those_with_the_values(found: Audit) -> None:
    X, y, s = table()
    scores = fitted().predict_proba(X, sensitive_features=s)[:, 1]
    decisions, labels = tables(found)
    for part, values in ((decisions, scores), (labels, y == "yes")):
        assert part.patterns
        for pattern in part.patterns:
            inside, alike = rows_of(pattern)
            assert (pattern.n_rows, pattern.n_alike) == (inside.sum(), alike.sum())
            rate, of_all = values[inside].mean(), values[alike].mean()
            assert pattern.row_rate == pytest.approx(rate)
            assert pattern.row_rate_of_all == pytest.approx(of_all)
            same_way = np.sign(rate - of_all) == np.sign(pattern.difference)
            assert pattern.in_rows == (same_way and abs(rate - of_all) > part.threshold)


def test_patterns_are_those_of_the_model(found: Audit) -> None:
    model = fitted()
    for part in tables(found):
        assert part.min_share == 30 / 400
        every, front = (
            model.discrimination_patterns(
                of=part.of, threshold=THRESHOLD, min_share=30 / 400, top=None, keep=keep
            )
            for keep in ("largest", "pareto")
        )
        assert part.n_found == every.n_found
        assert part.account == front.account
        said = [(dict(p.group), dict(p.features)) for p in part.patterns]
        known = [(dict(p.group), dict(p.features)) for p in front.patterns]
        assert said[0] == known[0]
        assert set(map(str, said)) <= set(map(str, known))
        points = {round(100 * abs(p.difference)) for p in front.patterns}
        assert {round(100 * abs(p.difference)) for p in part.patterns} == points
        assert len(part.patterns) <= len(points) + 1


def test_the_sentence_names_the_largest(found: Audit) -> None:
    for part in tables(found):
        first = part.patterns[0]
        assert all(repr(value) in part.sentence for value in first.features.values())
        assert f"{100 * abs(first.difference):.1f} percentage points" in part.sentence


def test_without_groups_there_are_no_rows() -> None:
    X, y, _ = table()
    record = audit(fitted(), X, y, **QUICK)
    for part in tables(record):
        assert all(p.n_rows == p.n_alike == 0 for p in part.patterns)
        assert all(p.row_rate is p.in_rows is None for p in part.patterns)
        assert "In the audited rows" not in part.sentence


@pytest.mark.parametrize("name", ["NLatPC", "TwoNB"])
def test_without_a_hidden_decision_there_is_one_table(name: str) -> None:
    X, y, s = table()
    (one,) = tables(audit(fitted(name), X, y, sensitive_features=s, **QUICK))
    assert one.of == "decision"


def test_nothing_found_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns_module, "THRESHOLD", 0.95)
    X, y, s = table()
    record = audit(fitted(), X, y, sensitive_features=s, **QUICK)
    for part in tables(record):
        assert part.patterns == ()
        assert "by no more than 95.0 percentage points" in part.sentence
    assert "Nothing was missed." in record._repr_html_()


def test_a_large_model_is_searched_less_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns_module, "MOST_WORK", fitted().distribution_.extension_work)
    X, y, s = table()
    for part in tables(audit(fitted(), X, y, sensitive_features=s, **QUICK)):
        assert part.size == 1
        assert "up to 1 feature." in part.account


def test_a_classifier_has_no_patterns() -> None:
    X, y, s = table()
    model = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    model.fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert record.patterns is None
    assert "cannot marginalise what a pattern does not name" in record.left_out["patterns"]


def test_missing_values_are_in_no_pattern() -> None:
    X, y, s = table()
    holes = X.with_columns(pl.lit(None).cast(pl.Int64).alias(name) for name in X.columns[:4])
    record = audit(fitted(), holes, y, sensitive_features=s, **QUICK)
    for part in tables(record):
        for pattern in part.patterns:
            if set(pattern.features) & set(X.columns[:4]):
                assert pattern.n_rows == pattern.n_alike == 0
