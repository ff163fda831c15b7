"""The model card: numbers of the audit, front matter that is YAML, and no name that is markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from markdown_it import MarkdownIt

from auditing import facts
from auditing.hiring import NASTY, audited, nasty
from fairpc.auditing import Audit, _formats as text, audit
from fairpc.auditing._page import escaped

MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")


def parts(card: str) -> tuple[dict[str, object], str]:
    """Front matter, each of whose values is JSON but for one bare name, and the rest as HTML."""
    _, front, rest = card.split("---\n", 2)
    pairs = (line.split(": ", 1) for line in front.splitlines())
    known = {key: json.loads(value) if key != "library_name" else value for key, value in pairs}
    return known, MARKDOWN.render(rest)


def test_the_numbers_are_those_of_the_audit() -> None:
    found = audited()
    front, page = parts(found.card())
    assert front["model_hash"] == found.provenance.model_hash
    assert front["audited_hash"] == found.provenance.audited_hash
    assert front["sensitive"] == ["sex", "race"]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    assert found.parity is not None
    assert found.group_metrics is not None
    for group in found.parity.decisions[0].parity.groups:
        assert {group.group, text.share(group.mean)} <= {*cells}
    for metric in found.group_metrics.groups:
        accuracy = text.bracketed(metric.accuracy.value, metric.accuracy.interval)
        assert " ".join(accuracy.split()) in cells
    assert found.verdict.disclaimer in page
    assert "To be filled in by the owner" in page


@pytest.mark.parametrize(
    "made", [facts.scored, facts.strata, facts.three_classes, facts.without_labels, audited]
)
def test_every_audit_makes_a_card(made: Callable[[], Audit]) -> None:
    front, page = parts(made().card())
    assert front["model"] == made().provenance.model
    assert page.count("<h1>") == 1
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        assert len({len(re.findall(r"<t[hd]", row)) for row in table.split("<tr>")[1:]}) == 1


def test_no_name_is_markup() -> None:
    found = nasty()
    card = found.card()
    assert "\u202e" not in card
    front, page = parts(card)
    assert front["label"] == found.data.label
    for tag in ("<script", "<b>", "<a ", "<img", "<code"):
        assert tag not in page
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == re.findall(r"(?m)^## (.*)$", facts.german()[1].card())


@pytest.mark.parametrize("name", [*NASTY, "1. one", "- a", "+ b", "= c", "---", "    code", "a\\"])
def test_an_escaped_text_is_shown_as_it_is(name: str) -> None:
    shown = re.fullmatch(r"<p>(.*)</p>\n", MARKDOWN.render(escaped(name)))
    assert shown is not None
    meant = " ".join(name.replace("\n", "⏎").replace("\u202e", "\\u202e").split())
    unescaped = shown[1].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert unescaped.replace("&amp;", "&") == meant


def test_of_a_tool_that_is_not_ours_nothing_is_made_up() -> None:
    """Decisions alone were audited: class, hash and assumptions of the tool are not known."""
    rng = np.random.default_rng(0)
    sex, y = np.repeat(["f", "m"], 200), rng.integers(0, 2, 400)
    decided = np.where(rng.random(400) < 0.2, 1 - y, y)
    frame = pl.DataFrame({"x": 2 * y + rng.integers(0, 4, 400)})
    card = audit(decided, frame, y, sensitive_features=sex, n_seeds=1).card()
    front, page = parts(card)
    assert (front["model_hash"], front["training_hash"], front["settings"]) == ("", "", {})
    for made_up in ("Choi, Dang", "It is given", "What the model file discloses", "(empty)"):
        assert made_up not in page
