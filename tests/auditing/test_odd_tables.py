"""Audits of unusual tables: few rows, holes, many groups, what is not given, published ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import MODELS, QUICK, fitted, plain_json, table
from fairpc.auditing import audit, render
from fairpc.datasets import load_adult, load_compas
from fairpc.errors import ContradictionWarning, DriftWarning
from fairpc.models import FairPC, LatNB
from models.drifting import drifting


def contradicting() -> tuple[pl.DataFrame, Any, Any]:
    """Labels that X tells almost, at rates that differ: no P(Df) can fit both groups."""
    rng = np.random.default_rng(0)
    s = np.repeat(["a", "b"], 300)
    d = rng.random(600) < np.where(s == "a", 0.8, 0.2)
    noise = rng.integers(0, 2, 600)
    seen = np.where(rng.random(600) < 0.01, ~d, d)
    return pl.DataFrame({"x": seen.astype(int), "z": noise}), np.where(d, 1, 0), s


@pytest.mark.filterwarnings("ignore::fairpc.errors.ColumnWarning")
def test_the_decimal_mark_of_the_fit_holds_for_the_test() -> None:
    """The test is given text as the numbers that the model read."""
    X, y, s = table()
    pay = 0.5 + X["amount"].rank("ordinal").cast(pl.Int64) % 9
    texts = pl.Series([f"{v}".replace(".", ",") for v in pay])
    tests = []
    for column in (pay, texts):
        model = LatNB(decimal=",", max_iter=30)
        frame = X.with_columns(pay=column)
        model.fit(frame, y, sensitive_features=s)
        record = audit(model, frame, y, sensitive_features=s, **QUICK)
        tests.append(record.decidable.test)
    assert tests[0] == tests[1]


@pytest.mark.filterwarnings("ignore:column 'x' gives the label 'y' away")
def test_a_rejection_is_said_first_and_has_no_intervals() -> None:
    """Before what the guard said, if it did: no model is right where the assumptions are not."""
    X, y, s = contradicting()
    model = FairPC(structure="chow-liu", random_state=0, max_iter=40)
    with pytest.warns(ContradictionWarning):
        model.fit(X, y, sensitive_features=s)
    model.warnings_ = (*model.warnings_, "Df is not about the label.")
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert record.verdict.rejected
    assert "these labels cannot be explained" in record.verdict.headline
    assert "must differ by at least" in record.verdict.headline
    assert record.verdict.drift == ("Df is not about the label.",)  # the rest is the headline
    assert record.verdict.drift[0] not in record.verdict.headline
    assert record.mechanism is not None
    assert record.mechanism.sentence.startswith("Nothing is said about altered labels.")
    assert all(cell.range is None for cell in record.mechanism.cells)
    assert record.decidable.identified is not None
    assert record.decidable.identified.empty
    assert record.decidable.test is not None
    assert record.decidable.test.what_to_do
    assert not any("turned" in sentence for sentence in record.verdict.sentences)
    plain_json(record)


def test_a_drift_is_said_first_and_no_mechanism_is_put_into_words() -> None:
    X, y, s = drifting()
    model = LatNB()
    with pytest.warns(DriftWarning):
        model.fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK)
    assert record.verdict.rejected is False
    assert record.verdict.drift == model.warnings_
    assert record.verdict.headline.startswith("The mechanism of this model must not be read")
    assert model.warnings_[0] == record.verdict.found[0]
    assert not any("turned" in sentence for sentence in record.verdict.sentences)
    page = render(record)
    assert "Nothing is said about altered labels." in page
    assert "of the people whose fair decision is" not in page
    plain_json(record)


@pytest.mark.parametrize("name", MODELS)
def test_every_model(name: str) -> None:
    X, y, s = table()
    record = audit(fitted(name), X, y, sensitive_features=s, **QUICK)
    latent = name in ("FairPC", "LatNB")
    assert (record.mechanism is not None) is latent
    assert (record.decidable.identified is not None) is latent
    assert record.parity is not None
    assert record.parity.model_gap is not None
    assert (record.parity.model_gap < 1e-9) is (name != "TwoNB")
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
    assert record.decidable.test is None
    assert "merge classes" in record.left_out["decidable.test"]
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
    _, _, mechanism, gaps, *_, untested, audited = record.verdict.sentences
    assert "the groups of the rows are not known" in untested
    assert audited.startswith("Audited: 400 rows of unknown groups, not exactly")
    assert "with groups that it infers, because they are not known" in mechanism
    assert "the groups are not known. Give the sensitive column 'sensitive'" in gaps
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
    assert record.parity.change is not None
    assert "Where a label is known, recorded" in record.parity.change.sentence
    plain_json(record)


def test_a_group_of_one_is_left_out() -> None:
    """Nothing is said of it, and no total has it."""
    X, y, s = table(n_groups=3)
    few = [*np.flatnonzero(s != "g2").tolist(), int(np.flatnonzero(s == "g2")[0])]
    record = audit(fitted(n_groups=3), X[few], y[few], sensitive_features=s[few], **QUICK)
    assert record.parity is not None
    assert [g.n for g in record.data.groups][2] == 0
    assert record.data.n_rows == len(few) - 1
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
    who = np.tile(np.arange(len(y)), 2)
    by_person = audit(model, *twice[:2], sensitive_features=twice[2], clusters=who, **QUICK)
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
    record = audit(model, numbers, y, **QUICK)
    assert record.data.same_rows_as_fit
    plain_json(record)


def test_small_groups_of_compas_leave_the_identified_set() -> None:
    """Six groups, two of them under 40 rows, whose held-out ends lie beside their mean scores."""
    data = load_compas()
    X, y, s = data.X, data.y, data.sensitive
    model = LatNB(max_iter=60, guard=False).fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK | {"n_seeds": 3})
    facts = record.decidable.identified
    assert facts is not None, record.left_out
    assert len(facts.groups) == 6
    assert facts.lower <= facts.upper


@pytest.mark.slow
def test_adult_contradicts_the_assumptions() -> None:
    """The published table: gap and ratio of the labels, and an empty set of P(Df)."""
    data = load_adult("paper")
    X, y, s = data.X, data.y, data.sensitive
    with pytest.warns(ContradictionWarning, match="must differ by at least"):
        model = FairPC(structure="chow-liu", random_state=0).fit(X, y, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, n_seeds=11, classifier="logistic")
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
    assert "must differ by at least" in record.verdict.headline
