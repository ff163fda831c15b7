"""The facts of an ordinary audit against numbers computed directly."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairpc
from auditing.tables import QUICK, fitted, plain_json, table
from fairpc.auditing import (
    Audit,
    audit,
    group_gaps,
)
from fairpc.auditing._audit import AT_ONCE, STEPS
from fairpc.errors import AuditError, FairpcError, TableError
from fairpc.evidence import parity, test_assumptions
from fairpc.metrics import accuracy, auc
from fairpc.models import FairPC, LatNB, Progress

SECTIONS = (
    *("verdict", "review", "review_plan", "data", "labels", "mechanism", "decidable", "strata"),
    *("parity", "group_hidden", "error_rates", "factors", "subgroups"),
    *("group_metrics", "provenance", "left_out", "disclosure"),
)


@pytest.fixture(scope="module")
def found() -> Audit:
    X, y, s = table()
    return audit(fitted(), X, y, sensitive_features=s, **QUICK)


def test_public_name_is_the_function() -> None:
    assert fairpc.audit is audit


def test_json_round_trip_keeps_everything_in_order(found: Audit) -> None:
    plain = found.to_dict()
    assert plain_json(found) == plain
    assert json.loads(found.to_json()) == plain
    assert tuple(plain) == ("format", "version", *SECTIONS)
    assert plain["format"] == "fairpc audit"


def test_every_section_is_computed_once() -> None:
    steps = {step.name for step in STEPS}
    assert len(steps) == len(STEPS)
    assert {field.name for field in fields(Audit)} <= steps | {*AT_ONCE, "verdict"}
    assert {name.partition(".")[0] for name in steps | {*AT_ONCE, "verdict"}} == set(SECTIONS)


def test_data(found: Audit) -> None:
    X, y, s = table()
    assert found.data.same_rows_as_fit
    assert found.data.n_rows == len(X)
    assert [g.n for g in found.data.groups] == [(s == "g0").sum(), (s == "g1").sum()]
    assert found.data.classes[1].share == pytest.approx((y == "yes").mean())
    assert all(column.share == 0 for column in found.data.missing)


def test_label_rates_and_significance(found: Audit) -> None:
    from scipy.stats import chi2_contingency

    _, y, s = table()
    (one,) = found.labels.disparities  # type: ignore[union-attr]
    rates = [(y[s == g] == "yes").mean() for g in ("g0", "g1")]
    assert [g.mean for g in one.parity.groups] == pytest.approx(rates)
    assert one.gap == pytest.approx(abs(rates[1] - rates[0]))
    assert one.parity.difference_interval == parity(y == "yes", s).difference_interval
    counts = [[(y[s == g] == c).sum() for c in ("no", "yes")] for g in ("g0", "g1")]
    expected = chi2_contingency(counts, correction=False).pvalue
    assert one.significance[0].p_value == pytest.approx(expected)


def test_mechanism_counts_are_those_of_the_fit(found: Audit) -> None:
    model, facts = fitted(), found.mechanism
    assert facts is not None
    counts = np.array([cell.count for cell in facts.cells]).reshape(2, 2, 2)
    np.testing.assert_allclose(counts, model.label_counts_, rtol=1e-9)
    values = np.array([cell.probability for cell in facts.cells]).reshape(2, 2, 2)
    np.testing.assert_array_equal(values, model.bias_mechanism_)
    assert facts.turned[0].up == pytest.approx(counts[0, 0, 1])
    assert facts.turned[0].down == pytest.approx(counts[0, 1, 0])


def test_assumptions_are_those_of_the_evidence(found: Audit) -> None:
    """With the same classifier, where neither is told which."""
    X, y, s = table()
    direct = test_assumptions(X.to_numpy(), y, s, n_seeds=1)
    (one,) = found.decidable.test.sets  # type: ignore[union-attr]
    assert (one.lower, one.upper) == pytest.approx((direct.lower, direct.upper))
    assert [bar.group for bar in one.groups] == ["g0", "g1"]
    assert found.decidable.rejected is direct.rejected


def test_identified_set_contains_the_model(found: Audit) -> None:
    facts = found.decidable.identified
    assert facts is not None
    assert facts.lower <= facts.upper
    assert facts.always + facts.never + facts.open == pytest.approx(1)  # type: ignore[operator]


def test_parity_of_scores_and_decisions(found: Audit) -> None:
    X, _, s = table()
    model = fitted()
    score = model.predict_proba(X, sensitive_features=s)[:, 1]
    chosen = model.predict(X, sensitive_features=s) == "yes"
    facts = found.parity
    assert facts is not None
    assert facts.model_gap is not None
    assert facts.model_gap < 1e-12
    for part, values in ((facts.scores, score), (facts.decisions, chosen.astype(float))):
        gap = values[s == "g1"].mean() - values[s == "g0"].mean()
        interval = parity(values, s).difference_interval
        assert part[0].parity.difference == pytest.approx(gap)
        assert part[0].gap_upper == pytest.approx(max(map(abs, interval)))
    assert facts.gap == max(facts.scores[0].gap, facts.decisions[0].gap)
    assert facts.gap_upper == max(facts.scores[0].gap_upper, facts.decisions[0].gap_upper)
    assert facts.gap_upper > facts.gap
    assert facts.equal_rates is not None
    assert facts.equal_rates.rate == pytest.approx(chosen.mean())


def test_group_metrics(found: Audit) -> None:
    X, y, s = table()
    model = fitted()
    guess = model.predict(X, sensitive_features=s)
    score = model.predict_proba(X, sensitive_features=s)[:, 1]
    facts = found.group_metrics
    assert facts is not None
    assert facts.on_training_rows
    assert "recorded label" in facts.caption
    whole, first, _ = facts.groups
    assert whole.accuracy.value == pytest.approx(accuracy(y, guess))
    here = s == "g0"
    assert first.auc.value == pytest.approx(auc(y[here], score[here], positive="yes"))
    assert first.brier.value == pytest.approx(np.mean((score[here] - (y[here] == "yes")) ** 2))
    positives = guess[here & (y == "yes")] == "yes"
    assert first.true_positive_rate.value == pytest.approx(positives.mean())
    assert first.true_positive_rate.n == len(positives)
    for metric in (first.accuracy, first.auc, first.brier, first.precision):
        assert metric.lower <= metric.value <= metric.upper  # type: ignore[operator]


def test_provenance_names_model_and_rows(found: Audit) -> None:
    facts = found.provenance
    assert facts.training_hash == facts.audited_hash == fitted().data_fingerprint_
    assert facts.settings["min_cell"] == fitted().min_cell
    assert facts.audit_settings["n_seeds"] == 1
    assert facts.versions["fairpc"] == fairpc.__version__


def test_words_never_certify(found: Audit) -> None:
    text = found.to_json()
    assert "evidence, not a certificate of compliance" in text
    assert "is fair" not in text
    assert str(found).startswith(found.verdict.headline)


def test_page_is_written_whole_and_framed(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert found.verdict.disclaimer.rstrip(".") in page
    frame = found._repr_html_()
    assert frame.startswith("<iframe sandbox")
    assert unescape(frame.partition('srcdoc="')[2].removesuffix('"></iframe>')) == page


def test_numbers_in_words_are_those_of_the_page(found: Audit) -> None:
    """Rates in per cent, gaps in percentage points, p as = 0.032 or < 0.001; no bare decimals."""
    parity, labels = found.parity, found.labels
    assert parity is not None
    assert labels is not None
    assert f"{100 * parity.scores[0].gap:.1f} percentage points" in parity.sentences[0]
    assert f"at most {100 * parity.decisions[0].gap_upper:.1f}" in parity.sentences[1]
    assert re.search(r"; p (= \d\.\d{3}|< 0\.001|= 1)\)\.$", labels.sentence)
    for sentence in found.verdict.sentences:
        bare = re.sub(r"impact ratio \d\.\d{3}|p (=|<) \d(\.\d{3})?", "", sentence)
        assert not re.search(r"0\.\d{2,}|\de-\d|(?<!\w)-\d", bare), sentence


def test_gaps_alone_are_those_of_the_audit(found: Audit) -> None:
    X, y, s = table()
    steps: list[str] = []
    gaps = group_gaps(
        fitted(), X, y, sensitive_features=s, progress=lambda now: steps.append(now.what)
    )
    assert gaps == found.parity
    assert not any("assumptions" in step for step in steps)
    with pytest.raises(AuditError, match="the groups of the rows are not known"):
        group_gaps(fitted(), X, y)


def test_progress_ends_at_the_last_step() -> None:
    X, y, s = table()
    seen: list[tuple[str, int, int]] = []
    lines: list[str] = []

    def tell(now: Progress) -> None:
        seen.append((now.what, now.done, now.total))
        lines.append(now.line)

    audit(fitted(), X, y, sensitive_features=s, **QUICK, progress=tell)
    assert seen[0][1:] == (0, seen[0][2])
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert seen[-1][1] == seen[-1][2] - 1
    assert lines[-1] == f"step {seen[-1][2]} of {seen[-1][2]}, verdict"
    # Words for whoever waits, and no names of sections such as decidable.test.
    assert not any("." in line or "_" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 2}, "level is 2: give the confidence level"),
        ({"n_seeds": 0}, "n_seeds is 0: give at least 1"),
        ({"classifier": "forest"}, "classifier is 'forest': use one of"),
        ({"clusters": [1, 2]}, "clusters"),
        ({"clusters": [None] * 400}, "clusters"),
    ],
)
def test_an_option_out_of_range_is_a_sentence(options: dict[str, Any], words: str) -> None:
    X, y, s = table()
    with pytest.raises(FairpcError, match=words):
        audit(fitted(), X, y, sensitive_features=s, **options)


def test_what_is_no_model_is_a_sentence() -> None:
    X, y, _ = table()
    with pytest.raises(AuditError, match="the model is a str: audit takes a fitted FairPC"):
        audit("model", X, y)
    with pytest.raises(AuditError, match="this FairPC is not fitted"):
        audit(FairPC(), X, y)
    with pytest.raises(TableError, match="the table is empty"):
        audit(fitted(), X[:0], y[:0])


def test_a_large_table_is_tested_on_a_sample_that_it_names() -> None:
    X, y, s = table()
    record = audit(fitted(), X, y, sensitive_features=s, **QUICK, max_test_rows=170)
    assert record.decidable.test is not None
    assert (record.decidable.test.n_rows, record.decidable.test.n_known) == (170, 400)
    assert record.parity is not None
    assert sum(g.n for g in record.parity.scores[0].parity.groups) == 400


def test_a_chosen_threshold_is_audited() -> None:
    """Group thresholds that equalise rates on these rows: the gap of decisions shrinks."""
    X, y, s = table()
    model = LatNB(max_iter=30).fit(X, y, sensitive_features=s)
    model.choose_threshold(X, equalise=True, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert record.parity is not None
    chosen = model.predict(X, sensitive_features=s) == "yes"
    gap = abs(chosen[s == "g1"].mean() - chosen[s == "g0"].mean())
    assert record.parity.decisions[0].gap == pytest.approx(gap)
    assert record.parity.thresholds == model.threshold_.values


def test_an_area_just_below_one_has_an_interval() -> None:
    """A group that scores separate but for rounding: the logit of its area is beyond a float."""
    X, y, s = table(600, n_groups=6, n_classes=3)
    model = FairPC(structure="chow-liu", random_state=0, max_iter=60)
    record = audit(model.fit(X, y, sensitive_features=s), X, y, sensitive_features=s, **QUICK)
    assert record.group_metrics is not None
