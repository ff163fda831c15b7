"""The facts of an audit against numbers computed directly, for usual and for odd tables."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from auditing.tables import MODELS, fitted, table
from fairpc.auditing import Audit, assumptions, audit, refitted
from fairpc.auditing.mechanism import mechanism_facts
from fairpc.auditing.rows import AuditedRows, audited_rows
from fairpc.circuit.file import from_dict
from fairpc.datasets import load_adult, load_compas
from fairpc.errors import AuditError, TableError
from fairpc.estimators import FairPC, LatNB
from fairpc.evidence import parity, test_assumptions
from fairpc.fair.knowledge import Knowledge
from fairpc.metrics import accuracy, auc

QUICK: dict[str, Any] = {"n_seeds": 1, "n_starts": 0, "n_replicates": 0, "baselines": False}
SECTIONS = (
    "verdict", "data", "labels", "mechanism", "decidable", "parity", "group_metrics",
    "trade_off", "curves", "learning", "circuit", "limits", "provenance", "what_if", "left_out",
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Audit:
    X, y, s = table()
    return audit(fitted(), X, y, sensitive_features=s, **QUICK)


def plain_json(record: Audit) -> Any:
    """As JSON and back; a NaN would be an error."""
    return json.loads(json.dumps(record.to_dict(), allow_nan=False))


def test_public_name_is_the_function() -> None:
    assert fairpc.audit is audit


def test_json_round_trip_keeps_everything_in_order(found: Audit) -> None:
    plain = found.to_dict()
    assert plain_json(found) == plain
    assert json.loads(found.to_json()) == plain
    assert tuple(plain) == ("format", "version", *SECTIONS)
    assert plain["format"] == "fairpc audit"


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
    assert all(cell.interval is None for cell in facts.cells)
    assert "mechanism.intervals" in found.left_out


def test_assumptions_are_those_of_the_evidence(found: Audit) -> None:
    X, y, s = table()
    direct = test_assumptions(X.to_numpy(), y, s, classifier="logistic", n_seeds=1)
    (one,) = found.decidable.test.sets  # type: ignore[union-attr]
    assert (one.lower, one.upper) == pytest.approx((direct.lower, direct.upper))
    assert [bar.group for bar in one.groups] == ["g0", "g1"]
    assert found.decidable.rejected is direct.rejected


def test_identified_set_contains_the_model(found: Audit) -> None:
    facts = found.decidable.identified
    assert facts is not None
    assert facts.lower <= facts.upper
    assert facts.always + facts.never + facts.open == pytest.approx(1)  # type: ignore[operator]
    assert all(band.lower <= band.upper for band in facts.bands)
    assert sum(band.n for band in facts.bands) == 400


def test_parity_of_scores_and_decisions(found: Audit) -> None:
    X, _, s = table()
    model = fitted()
    score = model.predict_proba(X, sensitive_features=s)[:, 1]
    chosen = model.predict(X, sensitive_features=s) == "yes"
    facts = found.parity
    assert facts is not None
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
    guess, score = model.predict(X, sensitive_features=s), model.predict_proba(
        X, sensitive_features=s
    )[:, 1]  # fmt: skip
    facts = found.group_metrics
    assert facts is not None
    assert facts.on_training_rows
    assert "observed label" in facts.caption
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


def test_roc_is_thinned_and_has_the_area(found: Audit) -> None:
    facts, metrics = found.curves, found.group_metrics
    assert facts is not None
    assert metrics is not None
    for curve, metric in zip(facts.roc, metrics.groups, strict=True):
        area = np.trapezoid(curve.true_positive_rate, curve.false_positive_rate)
        assert curve.group == metric.group
        assert len(curve.true_positive_rate) <= 120
        assert area == pytest.approx(metric.auc.value, abs=0.01)


def test_calibration_counts_every_row(found: Audit) -> None:
    facts = found.curves
    assert facts is not None
    for points in (facts.decision_calibration, facts.observed_calibration):
        assert sum(point.weight for point in points) == 400


def test_what_if_holds_the_circuit_and_its_words(found: Audit) -> None:
    model = fitted()
    circuit = from_dict(plain_json(found)["what_if"]["circuit"])
    codes = np.full((1, len(found.what_if.variables)), -1, np.int16)
    score = circuit.posterior(found.what_if.decision, codes)[0, found.what_if.positive]
    assert score == pytest.approx(model.fair_rate_[1])
    for column, variable in enumerate(found.what_if.variables):
        assert variable.column == column
        assert len(variable.values) == circuit.arities[column]


def test_provenance_names_model_and_rows(found: Audit) -> None:
    facts = found.provenance
    assert facts.training_hash == facts.audited_hash == fitted().data_fingerprint_
    assert facts.settings["max_iter"] == 60
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


def test_what_was_stated_beforehand_is_an_assumption() -> None:
    X, y, s = table()
    known = Knowledge(fair_rate=0.5)
    model = LatNB(knowledge=known, max_iter=30).fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert f"Stated beforehand: {known}." in record.limits.assumptions


def contradicting() -> tuple[pl.DataFrame, Any, Any]:
    """Labels that X tells exactly, at rates that differ: no P(Df) can fit both groups."""
    rng = np.random.default_rng(0)
    s = np.repeat(["a", "b"], 300)
    d = rng.random(600) < np.where(s == "a", 0.8, 0.2)
    noise = rng.integers(0, 2, 600)
    return pl.DataFrame({"x": d.astype(int), "z": noise}), np.where(d, 1, 0), s


def test_a_rejection_is_said_first_and_has_no_intervals() -> None:
    X, y, s = contradicting()
    model = FairPC(structure="chow-liu", random_state=0, max_iter=40)
    model.fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK | {"n_replicates": 5})
    assert record.verdict.rejected
    assert "contradict the assumptions" in record.verdict.headline
    assert "contradict" in record.left_out["mechanism.intervals"]
    assert record.decidable.identified is not None
    assert record.decidable.identified.empty
    assert record.decidable.test is not None
    assert record.decidable.test.what_to_do
    assert not any("turned" in sentence for sentence in record.verdict.sentences)
    plain_json(record)


@pytest.mark.parametrize("name", MODELS)
def test_every_model(name: str) -> None:
    X, y, s = table()
    record = audit(fitted(name), X, y, sensitive_features=s, **QUICK)
    latent = name in ("FairPC", "LatNB")
    assert (record.mechanism is not None) is latent
    assert (record.decidable.identified is not None) is latent
    assert record.parity is not None
    assert (record.parity.model_gap < 1e-9) is (name != "TwoNB")
    assert bool(record.limits.guaranteed) is (name != "TwoNB")
    plain_json(record)


def test_several_groups() -> None:
    X, y, s = table(n_groups=4)
    record = audit(fitted(n_groups=4), X, y, sensitive_features=s, **QUICK)
    assert record.parity is not None
    assert len(record.parity.scores[0].parity.pairs) == 6
    assert record.labels is not None
    assert len(record.labels.disparities[0].significance) == 6
    plain_json(record)


def test_crossed_groups() -> None:
    X, y, s = table()
    other = np.where(np.arange(len(y)) % 2, "u", "v")
    both = pl.DataFrame({"sex": s, "age": other})
    model = FairPC(structure="chow-liu", random_state=0, max_iter=30)
    model.fit(X, y, sensitive_features=both)
    record = audit(model, X, y, sensitive_features=both, **QUICK)
    assert next(g.name for g in record.data.groups) == "sex=g0, age=u"
    assert record.data.sensitive == ("sex", "age")


def test_three_classes() -> None:
    X, y, s = table(n_classes=3)
    record = audit(fitted(n_classes=3), X, y, sensitive_features=s, **QUICK)
    assert record.labels is not None
    assert [d.label for d in record.labels.disparities] == ["no", "perhaps", "yes"]
    assert record.decidable.test is not None
    assert len(record.decidable.test.sets) == 3
    assert "decidable.identified" in record.left_out
    plain_json(record)


def test_without_groups_less_is_said() -> None:
    X, y, _ = table()
    record = audit(fitted(), X, y, **QUICK)
    assert record.labels is None
    assert record.parity is None
    assert record.decidable.test is None
    assert "groups" in record.left_out["parity"]
    assert record.data.n_grouped == 0
    assert record.group_metrics is not None
    assert any("not known" in sentence for sentence in record.verdict.sentences)
    plain_json(record)


def test_without_labels_parity_stands() -> None:
    X, _, s = table()
    record = audit(fitted(), X, sensitive_features=s, **QUICK)
    assert record.parity is not None
    assert record.labels is None
    assert record.data.n_labelled == 0
    assert record.parity.equal_rates is not None
    assert record.parity.equal_rates.accuracy is None
    plain_json(record)


def test_missing_cells_everywhere() -> None:
    X, y, s = table()
    row = pl.int_range(len(y))
    holes = X.with_columns(pl.when(row % 4 == 0).then(None).otherwise(pl.col("city")).alias("city"))
    some_s = np.where(np.arange(len(y)) % 5 == 0, None, s)
    some_y = np.where(np.arange(len(y)) % 8 == 0, None, y)
    record = audit(fitted(), holes, some_y, sensitive_features=some_s, **QUICK)
    shares = {m.column: m.share for m in record.data.missing}
    assert shares["city"] == pytest.approx(0.25)
    assert record.data.n_grouped == 320
    assert record.data.n_labelled == 350
    assert not record.data.same_rows_as_fit
    assert record.parity is not None
    assert record.parity.n_unknown == 80
    plain_json(record)


def test_a_group_of_one_is_named_and_left_out() -> None:
    X, y, s = table(n_groups=3)
    few = [*np.flatnonzero(s != "g2").tolist(), int(np.flatnonzero(s == "g2")[0])]
    record = audit(fitted(n_groups=3), X[few], y[few], sensitive_features=s[few], **QUICK)
    assert record.parity is not None
    assert record.parity.scores[0].too_small == ("g2",)
    assert [g.small for g in record.data.groups] == [False, False, True]
    assert record.decidable.test is not None
    plain_json(record)


def test_one_row() -> None:
    X, y, s = table()
    record = audit(fitted(), X[:1], y[:1], sensitive_features=s[:1], **QUICK)
    assert record.parity is None
    plain_json(record)


def test_weights_and_persons_widen() -> None:
    X, y, s = table()
    twice = [X.vstack(X), np.tile(y, 2), np.tile(s, 2)]
    model = fitted()
    plain = audit(model, twice[0], twice[1], sensitive_features=twice[2], **QUICK)
    by_person = audit(
        model, twice[0], twice[1], sensitive_features=twice[2],
        clusters=np.tile(np.arange(len(y)), 2), **QUICK,
    )  # fmt: skip
    assert by_person.data.n_persons == len(y)
    assert by_person.parity is not None
    assert plain.parity is not None
    assert by_person.parity.gap == pytest.approx(plain.parity.gap)
    assert by_person.parity.gap_upper > plain.parity.gap_upper
    weighted = audit(
        model, X, y, sensitive_features=s, sample_weight=np.arange(len(y)) % 3 + 1, **QUICK
    )
    assert weighted.data.weighted
    assert weighted.data.weight == pytest.approx((np.arange(len(y)) % 3 + 1).sum())


def test_arrays_and_sensitive_columns() -> None:
    X, y, s = table()
    numbers = np.column_stack([X.select("x0", "x1", "x2", "amount").to_numpy(), s == "g1"])
    model = FairPC(sensitive=4, structure="chow-liu", random_state=0, max_iter=30).fit(numbers, y)
    record = audit(model, numbers, y, **QUICK | {"baselines": True, "cv": 2})
    assert record.data.same_rows_as_fit
    assert record.trade_off is not None
    assert not record.trade_off.failures
    plain_json(record)


def test_intervals_and_starts_on_training_rows() -> None:
    X, y, s = table()
    asked = QUICK | {"n_replicates": 4, "n_starts": 2}
    record = audit(fitted("LatNB"), X, y, sensitive_features=s, **asked)
    assert record.mechanism is not None
    assert record.mechanism.n_replicates == 4
    for cell in record.mechanism.cells:
        assert cell.interval is not None
        assert 0 <= cell.interval[0] <= cell.interval[1] <= 1
    assert record.decidable.stability is not None
    assert len(record.decidable.stability.starts) == 2
    assert record.decidable.stability.folds == ()
    plain_json(record)


def test_trade_off_is_out_of_sample_and_says_how() -> None:
    X, y, s = table()
    wanted = QUICK | {"baselines": True, "cv": 2}
    on_training = audit(fitted(), X, y, sensitive_features=s, **wanted).trade_off
    assert on_training is not None
    assert "again without the rows of a fold" in on_training.how
    X2, y2, s2 = table(seed=1)
    model = fitted()
    record = audit(model, X2, y2, sensitive_features=s2, **wanted)
    assert record.trade_off is not None
    assert "only if none of these was among the rows of its fit" in record.trade_off.how
    mine = next(m for m in record.trade_off.methods if m["method"] == "FairPC")
    direct = accuracy(y2, model.predict(X2, sensitive_features=s2))
    assert mine["accuracy"] == pytest.approx(direct, abs=1e-9)
    assert {"LR", "Rand"} <= {m["method"] for m in record.trade_off.methods}


def test_other_methods_see_the_columns_of_the_fit_alone() -> None:
    """A column that tells the label, left out before the fit, is still in the audited table."""
    X, y, s = table()
    leaking = X.with_columns(answer=pl.Series(y))
    wanted = QUICK | {"baselines": True, "cv": 2}
    record = audit(fitted(), leaking, y, sensitive_features=s, **wanted).trade_off
    plain = audit(fitted(), X, y, sensitive_features=s, **wanted).trade_off
    assert record is not None
    assert plain is not None
    for mine, other in zip(record.methods, plain.methods, strict=True):
        assert mine["accuracy"] == other["accuracy"] < 1


def test_a_chosen_threshold_is_audited() -> None:
    """Group thresholds that equalise rates on these rows: the gap of decisions shrinks."""
    X, y, s = table()
    model = LatNB(max_iter=30).fit(X, y, sensitive_features=s)
    model.choose_threshold(X, equalise=True, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK | {"baselines": True, "cv": 2})
    assert record.parity is not None
    chosen = model.predict(X, sensitive_features=s) == "yes"
    gap = abs(chosen[s == "g1"].mean() - chosen[s == "g0"].mean())
    assert record.parity.decisions[0].gap == pytest.approx(gap)
    assert record.parity.thresholds == model.threshold_.values
    assert record.trade_off is not None
    assert "threshold there is that of its settings, 0.5" in record.trade_off.how


def test_a_large_table_is_sampled_and_says_so() -> None:
    X, y, s = table()
    model = fitted()
    record = audit(
        model, X, y, sensitive_features=s,
        **QUICK | {"max_rows": 150, "max_test_rows": 170, "baselines": True, "cv": 2},
    )  # fmt: skip
    assert record.decidable.test is not None
    assert record.decidable.test.n_rows == 170
    assert record.trade_off is not None
    assert "a random sample of 150 of the 400 audited rows" in record.trade_off.how
    assert record.parity is not None
    assert sum(g.n for g in record.parity.scores[0].parity.groups) == 400


@pytest.mark.parametrize(("n_distinct", "n_seeds"), [(50, 11), (7000, 7), (20_000, 3), (10**6, 3)])
def test_many_rows_are_split_in_fewer_ways(
    n_distinct: int, n_seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, s = table()
    rows = audited_rows(fitted(), X, y, s, None, None, None)
    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    assert assumptions.tested(rows, 0.95, None, "logistic").n_seeds == n_seeds
    assert assumptions.tested(rows, 0.95, 2, "logistic").n_seeds == 2


@pytest.mark.parametrize(
    ("n_distinct", "n_draws"), [(1, 200), (16_000, 117), (60_000, 50), (150_000, None)]
)
def test_draws_are_as_many_as_are_quick(
    n_distinct: int, n_draws: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(rows + 1000) × 1000 edges × 500 updates each, 10¹² in all; 50 draws for up to twice that."""
    X, y, s = table()
    model = fitted()
    rows = audited_rows(model, X, y, s, None, None, None)
    facts, test = mechanism_facts(model, rows), assumptions.tested(rows, 0.95, 1, "logistic")
    asked: list[int] = []

    def drawn(*_: Any, n_replicates: int, **__: Any) -> Any:
        asked.append(n_replicates)
        return SimpleNamespace(refused="drawn")

    edges = SimpleNamespace(graph=SimpleNamespace(n_edges=1000))
    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    monkeypatch.setattr(refitted, "bootstrap_mechanism", drawn)
    monkeypatch.setattr(type(model), "circuit_", edges)
    with pytest.raises(AuditError, match="drawn" if n_draws else "ask for it with n_replicates"):
        refitted.mechanism_with_intervals(
            model, rows, facts, test, level=0.95, n_replicates=None, random_state=0,
            progress=lambda now: None,
        )  # fmt: skip
    assert asked == ([] if n_draws is None else [n_draws])


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


def test_progress_ends_at_the_last_step() -> None:
    X, y, s = table()
    seen: list[tuple[str, int, int]] = []
    audit(
        fitted(), X, y, sensitive_features=s, **QUICK,
        progress=lambda now: seen.append((now.what, now.done, now.total)),
    )  # fmt: skip
    assert seen[0][1:] == (0, seen[0][2])
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert seen[-1][1] == seen[-1][2] - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 2}, "level is 2: give a confidence level"),
        ({"n_seeds": 0}, "n_seeds is 0: give at least 1"),
        ({"cv": 1}, "cv is 1: give at least 2"),
        ({"classifier": "forest"}, "classifier is 'forest': give"),
        ({"clusters": [1, 2]}, "clusters has shape"),
        ({"clusters": [None] * 400}, "clusters is missing in row 0"),
    ],
)
def test_an_option_out_of_range_is_a_sentence(options: dict[str, Any], words: str) -> None:
    X, y, s = table()
    with pytest.raises(AuditError, match=words):
        audit(fitted(), X, y, sensitive_features=s, **options)


def test_what_is_no_model_is_a_sentence() -> None:
    X, y, _ = table()
    with pytest.raises(AuditError, match="the model is a str: audit takes a fitted FairPC"):
        audit("model", X, y)  # type: ignore[arg-type]
    with pytest.raises(AuditError, match="this FairPC is not fitted"):
        audit(FairPC(), X, y)
    with pytest.raises(TableError, match="the table is empty"):
        audit(fitted(), X[:0], y[:0])


def test_small_groups_of_compas_leave_the_identified_set() -> None:
    """Six groups, two of them under 40 rows, whose held-out ends lie beside their mean scores."""
    data = load_compas()
    X, y, s = data.X, data.y, data.sensitive
    model = LatNB(max_iter=60).fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK | {"n_seeds": 3})
    facts = record.decidable.identified
    assert facts is not None, record.left_out
    assert len(facts.groups) == 6
    assert facts.lower <= facts.upper


def test_adult_contradicts_the_assumptions() -> None:
    """The published table: gap and ratio of the labels, and an empty set of P(Df)."""
    data = load_adult("paper")
    X, y, s = data.X, data.y, data.sensitive
    model = FairPC(structure="chow-liu", random_state=0).fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, n_starts=0, baselines=False)
    assert record.labels is not None
    gaps = record.labels.disparities[0].parity
    assert gaps.difference == pytest.approx(-0.1963, abs=5e-5)
    assert gaps.difference_interval == pytest.approx((-0.2047, -0.1877), abs=5e-5)
    assert gaps.ratio == pytest.approx(0.3580, abs=5e-5)
    assert gaps.ratio_interval == pytest.approx((0.3380, 0.3791), abs=5e-5)
    assert record.decidable.test is not None
    (overlap,) = record.decidable.test.sets
    assert overlap.empty
    assert overlap.lower == pytest.approx(0.294, abs=0.02)
    assert overlap.upper == pytest.approx(0.129, abs=0.02)
    assert record.verdict.headline.startswith("These rows contradict the assumptions")
