"""The audit of a LatentDecision: the same sections from scores of a classifier."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import QUICK, plain_json, table
from fairpc import FairPC, LatentDecision
from fairpc.auditing import Audit, audit
from fairpc.errors import AuditError, TableWarning
from fairpc.models import TableClassifier


@cache
def fitted(**options: Any) -> LatentDecision:
    X, y, s = table(800)
    model = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0, **options)
    return model.fit(X, y, sensitive_features=s)


@cache
def found() -> Audit:
    X, y, s = table(800)
    return audit(fitted(), X, y, sensitive_features=s, **QUICK)


def test_every_section_is_there() -> None:
    record = found()
    lacking = {name for name, value in vars(record).items() if value is None}
    apart = {"review", "error_rates", "factors"}  # asked for otherwise
    assert lacking == {"strata", "group_hidden", *apart}
    assert set(record.left_out) == lacking
    assert plain_json(record) == record.to_dict()


def test_scores_and_decisions_are_those_of_the_model() -> None:
    X, y, s = table(800)
    facts = found().parity
    assert facts is not None
    scores = fitted().predict_proba(X, sensitive_features=s)[:, 1]
    chosen = fitted().predict(X, sensitive_features=s) == "yes"
    for part, values in ((facts.scores, scores), (facts.decisions, chosen.astype(float))):
        gap = values[s == "g1"].mean() - values[s == "g0"].mean()
        assert part[0].parity.difference == pytest.approx(gap)
    assert facts.model_gap == 0
    metrics = found().group_metrics
    assert metrics is not None
    assert metrics.groups[0].accuracy.value == pytest.approx((chosen == (y == "yes")).mean())


def test_altered_labels_are_those_of_the_fit_on_its_rows() -> None:
    """By scores of classifiers that had not seen the rows, and with the ranges of the account."""
    facts, account = found().mechanism, fitted().explain_bias()
    assert facts is not None
    shape = fitted().bias_mechanism_.shape
    for name, expected in (("probability", account.mechanism), ("count", account.counts)):
        values = np.array([getattr(cell, name) for cell in facts.cells]).reshape(shape)
        np.testing.assert_array_equal(values, expected)
    for name, ranges in (("range", account.ranges), ("count_range", account.count_ranges)):
        values = np.array([getattr(cell, name) for cell in facts.cells]).reshape(*shape, 2)
        np.testing.assert_array_equal(values, ranges)
    assert facts.sentences == account.sentences
    assert facts.range_level == 0.95


def test_other_rows_have_counts_of_their_own() -> None:
    X, y, s = table(300, seed=5)
    facts = audit(fitted(), X, y, sensitive_features=s, **QUICK).mechanism
    assert facts is not None
    soft = fitted().posterior(X, y, sensitive_features=s)
    for cell in facts.cells:
        here = (s == cell.group) & (y == cell.label)
        k = facts.classes.index(cell.decision)
        assert cell.count == pytest.approx(soft[here, k].sum(), abs=1e-5)


def test_rows_without_group_or_label_are_not_shared_out() -> None:
    X, y, s = table(800)
    groups: list[Any] = [None if i % 5 == 0 else g for i, g in enumerate(s)]
    labels: list[Any] = [None if i % 7 == 0 else c for i, c in enumerate(y)]
    with pytest.warns(TableWarning, match="group is not known have no score"):
        record = audit(fitted(), X, labels, sensitive_features=groups, **QUICK)
    assert record.mechanism is not None
    known = sum(g is not None and c is not None for g, c in zip(groups, labels, strict=True))
    assert sum(cell.count for cell in record.mechanism.cells) == pytest.approx(known)
    assert record.data.n_rows == record.data.n_grouped == sum(g is not None for g in groups)
    assert record.group_hidden is None
    with (
        pytest.warns(TableWarning, match="group is not known"),
        pytest.raises(AuditError, match="no row has a known group"),
    ):
        audit(fitted(), X, labels, **QUICK)


def test_the_range_of_the_fit_is_told_beside_that_of_the_audit() -> None:
    learned = found().decidable.learned
    assert learned is not None
    lower, upper = fitted().fair_rate_set_
    assert (lower, upper) != (learned.lower, learned.upper)
    assert learned.sentence.endswith(
        f"The fit left {lower:.1%} to {upper:.1%} possible: it looked for the same range with its "
        "own classifier and one split of its rows, the audit with other classifiers and 1 split."
    )
    assert learned.sentence in found().verdict.sure


@pytest.mark.parametrize("name", ["LatentDecision", "forest"])
def test_labels_that_need_no_explanation_are_not_called_right(name: str) -> None:
    """Two halves of one group: errors that both share leave no trace."""
    X, y, s = table(1600)
    X, y = X.filter(pl.Series(s == "g1")), y[s == "g1"]
    s = np.where(np.arange(len(y)) % 2, "g0", "g1")
    model: Any = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    if name == "forest":
        model = FairPC(structure="forest")
    model.fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert record.mechanism is not None
    alike = "No difference between the groups needs explaining"
    assert record.mechanism.sentence.startswith(alike)
    assert record.verdict.headline.startswith("No difference between people in group g0 and")
    assert all(cell.range and cell.range[1] > 0.02 for cell in record.mechanism.altered)
    said = " ".join((*record.verdict.sentences, *record.mechanism.sentences))
    assert "a review of some rows would show them" in said
    assert any("files reviewed" in one for one in record.verdict.to_do)
    assert "at most" in said


def test_what_the_fit_warned_of_is_said_first() -> None:
    """Features tell the label of one group only, and its rates leave no P(Df) for both."""
    rng = np.random.default_rng(0)
    n = 1200
    s, f = rng.integers(0, 2, n), rng.random(n) < 0.5
    d = np.where(s == 0, f, rng.random(n) < np.where(f, 0.97, 0.9))
    X = pl.DataFrame({"a": rng.normal(3.0 * f), "b": rng.normal(2.0 * d)})
    groups = np.array(["g0", "g1"])[s]
    model = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, d, sensitive_features=groups)
    assert "contradict the assumptions" in model.warnings_[0]
    record = audit(model, X, d, sensitive_features=groups, **QUICK)
    assert record.verdict.rejected
    assert record.verdict.drift == ()  # the headline says it
    assert "these labels cannot be explained" in record.verdict.headline
    assert not any("recorded otherwise" in sentence for sentence in record.verdict.sentences)
    assert record.mechanism is not None
    assert record.mechanism.sentence.startswith("Nothing is said about altered labels.")


def test_columns_that_the_fit_did_not_have_are_not_given_to_the_classifier() -> None:
    """scikit-learn's classifiers refuse them."""
    from sklearn.linear_model import LogisticRegression

    X, y, s = table(800)
    numbers = X.select("x0", "x1", "x2", "x3").to_pandas()
    codes = (s == "g1").astype(int)
    model = LatentDecision(LogisticRegression(), cv=3, random_state=0)
    model.fit(numbers, y, sensitive_features=codes)
    plain = audit(model, numbers, y, sensitive_features=codes, **QUICK)
    more = audit(model, numbers.assign(extra=1.0), y, sensitive_features=codes, **QUICK)
    assert plain.parity is not None
    assert more.parity is not None
    assert plain.parity.gap == more.parity.gap


def test_a_file_is_read_into_memory_or_as_much_of_it_as_fits(tmp_path: Path) -> None:
    X, y, s = table(2000)
    path = tmp_path / "rows.parquet"
    frame = X.with_columns(group=pl.Series(s), label=pl.Series(y))
    frame.write_parquet(path)
    model = LatentDecision(TableClassifier("logistic"), sensitive="group", cv=3, random_state=0)
    model.fit(frame.drop("label"), frame["label"])
    whole = audit(model, path, "label", **QUICK)
    memory = audit(model, frame.drop("label"), frame["label"], **QUICK)
    assert whole.data.same_rows_as_fit
    assert whole.parity == memory.parity
    assert whole.mechanism == memory.mechanism
    some = audit(model, path, "label", max_memory="2.2MB", max_test_rows=500, **QUICK)
    assert some.data.n_rows < some.data.n_table == 2000
    assert any("a random sample of" in sentence for sentence in some.verdict.sentences)


def test_a_model_that_is_not_fitted_or_not_ours_is_refused() -> None:
    X, y, _ = table()
    with pytest.raises(AuditError, match="this LatentDecision is not fitted"):
        audit(LatentDecision(), X, y)
    with pytest.raises(AuditError, match="decisions are audited beside recorded labels and groups"):
        audit(TableClassifier(), X, y)
