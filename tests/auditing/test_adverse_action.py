"""Reasons: exact changes, in order, in words, the sensitive attribute apart."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from auditing.hiring import fitted, people, person
from fairpc import FairPC, LatentDecision
from fairpc.auditing import _blocks as view, reasons
from fairpc.auditing._reasons import MOST
from fairpc.datasets import load_german
from fairpc.errors import AuditError, LearningError
from fairpc.filings import Answers, statement_of_reasons
from fairpc.models import TableClassifier

ADVERSE: dict[str, Any] = {"degree": 0, "years": 1.5, "town": "Bronx", "sex": "F", "race": "Asian"}


def test_each_change_is_the_score_minus_the_score_without_the_value() -> None:
    found = person(**ADVERSE)
    model = fitted()
    whole = model.predict_proba(pl.DataFrame([ADVERSE]))[0, 1]
    assert found.score == whole
    for reason in (*found.lowered, *found.raised, *found.unmoved):
        left = pl.DataFrame([ADVERSE | {reason.column: None}])
        assert reason.without == pytest.approx(model.predict_proba(left)[0, 1], abs=1e-12)
        assert reason.change == pytest.approx(whole - reason.without, abs=1e-12)
    assert found.group is not None
    left = pl.DataFrame([ADVERSE | {"sex": None, "race": None}])
    assert found.group.without == pytest.approx(model.predict_proba(left)[0, 1], abs=1e-12)


def test_the_largest_change_comes_first_and_the_group_is_apart() -> None:
    found = person(**ADVERSE)
    assert found.adverse
    assert found.decision == "no"
    assert [r.change for r in found.lowered] == sorted(r.change for r in found.lowered)
    assert all(r.change < 0 for r in found.lowered)
    assert all(r.change > 0 for r in found.raised)
    columns = {r.column for r in (*found.lowered, *found.raised, *found.unmoved)}
    assert columns == {"degree", "years", "town"}


def test_a_feature_called_group_is_a_feature() -> None:
    X, y = people()
    model = type(fitted())(["sex", "race"], max_iter=5).fit(X.rename({"town": "group"}), y)
    row = X.rename({"town": "group"}).filter(pl.col("sex").is_not_null()).head(1)
    found = reasons(model, row)
    assert "group" in {r.column for r in (*found.lowered, *found.raised, *found.unmoved)}
    assert found.group is not None
    assert found.group.column == "sex, race"


def test_what_is_not_known_is_said() -> None:
    found = person(degree=0)
    assert set(found.unknown) == {"years", "town"}
    assert found.group is None
    assert "was not given" in statement_of_reasons(found).to_markdown()


def test_words_and_the_exact_change_are_printed() -> None:
    found = person(**ADVERSE)
    words = Answers.of({"notice": {"words": {"degree": "Education"}}})
    document = statement_of_reasons(found, words)
    headings = [b.text for b in document.sections[1].blocks if isinstance(b, view.Heading)]
    assert len(headings) == min(MOST, len(found.lowered))
    assert any(h.startswith("Education: 0") for h in headings)
    first = found.lowered[0]
    assert f"by {-100 * first.change:.2f} percentage points" in document.to_markdown()
    assert f"{100 * first.without:.2f}% instead of {100 * found.score:.2f}%" in (
        document.to_markdown()
    )


def test_the_sensitive_attribute_is_no_reason_but_is_shown() -> None:
    document = statement_of_reasons(person(**ADVERSE))
    said = document.to_markdown()
    assert "The score took sex and race into account" in said
    assert "1002.6(b)" in said
    assert not any("sex" in b.text for b in document.sections[1].blocks if hasattr(b, "text"))


def test_a_favourable_decision_is_said_to_be_one() -> None:
    found = person(degree=1, years=12.0, town="Bronx", sex="M", race="White")
    assert not found.adverse
    assert "there is no adverse decision" in statement_of_reasons(found).to_markdown()


def test_a_number_is_shown_as_given_and_as_read() -> None:
    (years,) = [r for r in person(**ADVERSE).lowered if r.column == "years"]
    assert years.given == "1.5"
    assert years.value != "1.5"


def test_bounds_are_those_of_the_model() -> None:
    data = load_german()
    model = FairPC(structure="chow-liu", random_state=0)
    with pytest.warns(UserWarning, match="gives the group"):
        model.fit(data.X, data.y, sensitive_features=data.sensitive)
    row, group = data.X.head(1), data.sensitive[:1]
    found = reasons(model, row, sensitive_features=group)
    bounds = model.predict_bounds(row, sensitive_features=group)[0]
    assert found.bounds == pytest.approx(tuple(bounds))


def test_two_people_and_other_models_are_refused() -> None:
    X, y = people()
    with pytest.raises(LearningError, match="one at a time"):
        reasons(fitted(), X.head(2))
    latent = LatentDecision(TableClassifier("logistic"), cv=2, sensitive="town").fit(X, y)
    with pytest.raises(AuditError, match="LatentDecision"):
        reasons(latent, X.head(1))
