"""Rates, ratios, who is unknown and who may be left out, against the rows themselves."""

from __future__ import annotations

from typing import Any

import pytest

from auditing.hiring import audited, fitted, one_attribute, people
from fairpc.auditing import _blocks as view, _formats as text
from fairpc.auditing._blocks import Entries
from fairpc.auditing._local_law_144 import impact_ratios
from fairpc.errors import OptionError
from fairpc.filings import Answers, Document, bias_audit_tables

NAMED: dict[str, Any] = {"sex": "sex", "race": "race"}


def made(**more: Any) -> Document:
    return bias_audit_tables(audited(), Answers.of({"ll144": NAMED | more}))


def headings(document: Document) -> list[str]:
    return [b.text for s in document.sections for b in s.blocks if isinstance(b, view.Heading)]


def table(document: Document, caption: str) -> dict[str, tuple[str, ...]]:
    found = [b for s in document.sections for b in s.blocks if isinstance(b, view.TableBlock)]
    (one,) = [b for b in found if b.caption.startswith(caption)]
    return {row[0]: tuple(row[1:]) for row in one.rows}


def test_tables_by_sex_by_race_and_by_both() -> None:
    assert headings(made())[:3] == ["Sex", "Race or ethnicity", "Sex × Race or ethnicity"]


def test_rates_and_ratios_are_those_of_the_rows() -> None:
    X, _ = people()
    selected = fitted().predict(X) == "yes"
    known = X["sex"].is_not_null().to_numpy()
    rates = {}
    for race in ("Asian", "Black", "Native", "White"):
        here = known & (X["race"] == race).to_numpy()
        rates[race] = here.sum(), (here & selected).sum(), selected[here].mean()
    shown = table(made(), "Selected as “yes”, by race")
    best = max(rate for _, _, rate in rates.values())
    for race, (n, chosen, rate) in rates.items():
        ratio = text.number(rate / best)
        assert shown[race][:4] == (str(n), str(chosen), text.share(rate), ratio)


def test_people_of_unknown_category_are_counted() -> None:
    unknown = people()[0]["sex"].null_count()
    assert unknown > 0
    (entries,) = [b for b in made().sections[0].blocks if isinstance(b, Entries)]
    assert dict(entries.pairs)["In an unknown category"] == str(unknown)
    assert f"{unknown} people of unknown category" in made().to_markdown()


def test_a_category_that_is_left_out_keeps_its_number_and_loses_its_ratio() -> None:
    document = made(leave_out=["race=Native"], justification="Six people.")
    row = table(document, "Selected as “yes”, by race")["Native"]
    assert row[3:] == (text.NOTHING, "left out, few rows")
    assert row[2] != text.NOTHING
    under = table(document, "Categories with less than 2%")
    assert under["race=Native"][-1] == "left out"
    assert under["sex=F, race=Native"][-1] == "kept"
    assert "Six people." in document.to_markdown()
    assert "ll144.justification" not in {b.key for b in document.blanks}


def test_the_reason_for_leaving_out_is_asked_for() -> None:
    assert "ll144.justification" in {b.key for b in made(leave_out=["race=Native"]).blanks}
    assert "ll144.justification" not in {b.key for b in made().blanks}


def test_the_largest_rate_is_among_the_categories_that_are_kept() -> None:
    parity = audited().parity
    assert parity is not None
    (race,) = [p for p in parity.categories if p.attributes == ("race",)]
    best = max(race.categories, key=lambda c: c.selection_rate or 0)
    ratios = impact_ratios(race, frozenset([f"race={best.levels[0]}"]))
    assert max(r for r in ratios if r is not None) == 1.0
    assert ratios[race.categories.index(best)] is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"leave_out": ["race=White"]}, "under 2%"),
        ({"leave_out": ["White"]}, "not a category"),
        ({"sex": "gender"}, "sensitive columns 'sex', 'race'"),
        ({"sex": "race"}, "name two columns"),
    ],
)
def test_what_may_not_be_left_out_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        made(**more)


def test_no_threshold_is_printed() -> None:
    said = made().to_markdown().lower()
    assert "four fifths" not in said
    assert "four-fifths" not in said
    assert "80%" not in said
    assert "0.8 " not in said


def test_one_attribute_is_not_enough() -> None:
    document = bias_audit_tables(one_attribute())
    assert "The tables by both attributes are not here" in document.to_markdown()


def test_which_column_is_which_is_asked_for() -> None:
    keys = {b.key for b in bias_audit_tables(audited()).blanks}
    assert {"ll144.sex", "ll144.race"} <= keys
