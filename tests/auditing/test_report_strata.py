"""The section on strata, and what other sections say of a model that has them."""

from __future__ import annotations

import re
from dataclasses import replace

from auditing import facts
from auditing.test_page import Reader
from fairpc.auditing import Audit, render
from fairpc.auditing._assumptions import ARGUED


def read(audit: Audit) -> str:
    """The page as it is read aloud."""
    return " ".join("".join(Reader(render(audit)).texts).split())


def section(audit: Audit, name: str) -> str:
    page = render(audit)
    found = re.search(rf'<h3 id="{name}">.*?(?=<h3 id=|</section>)', page, re.DOTALL)
    assert found is not None
    return found[0]


def test_nothing_is_equal_in_every_group_but_within_strata() -> None:
    shown = read(facts.strata())
    assert "has the same rate in every group by construction" not in shown
    assert "groups have the same mean score, by construction" not in shown
    assert "the same mean score within each stratum, by construction" in shown
    assert ARGUED in shown


def test_both_tests_and_both_sets_are_shown() -> None:
    shown = read(facts.strata())
    assert re.search("Parity in the whole table ?contradicted", shown)
    assert re.search("Parity within strata ?not contradicted", shown)
    assert "No one rate fits all groups of the whole table, without strata;" in shown
    assert "bars do not overlap" not in shown
    own = section(facts.strata(), "strata")
    assert "Mix of strata" in own
    for stratum in ("hours=h0", "hours=h1", "hours=h2"):
        assert stratum in own


def test_strata_with_their_own_mechanisms_are_listed_by_group() -> None:
    own = section(facts.strata(), "strata")
    assert "Mechanism of each group in each stratum" in own
    assert "What is possible in each stratum is in the part on strata" in section(
        facts.strata(), "decidable"
    )


def test_a_contradiction_within_strata_stands_out() -> None:
    known = facts.strata()
    assert known.strata is not None
    assert known.strata.test is not None
    test = replace(known.strata.test, rejected=True, outcome="no mechanism fits")
    changed = replace(known, strata=replace(known.strata, test=test))
    shown = read(changed)
    assert "Rejected: the data contradict the assumptions, within strata too." in shown
    assert "no mechanism fits" in shown


def test_a_model_without_strata_and_rejection_has_no_such_part() -> None:
    _, audit = facts.german()
    assert 'id="strata"' not in render(audit)
    assert "Not in this report" not in render(audit)
