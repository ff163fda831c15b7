"""What every document has: its sections, what it is not, the record's numbers, marked blanks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from markdown_it import MarkdownIt

from auditing import facts
from auditing.hiring import NASTY, audited, nasty, one_attribute, person
from fairpc.auditing import Audit, _blocks as view, _formats as text, audit
from fairpc.auditing._blocks import Entries, escaped
from fairpc.errors import OptionError
from fairpc.filings import (
    Answers,
    Document,
    bias_audit_tables,
    model_card,
    statement_of_reasons,
    technical_documentation,
)

Paper = Callable[..., Document]
PAPERS = (model_card, bias_audit_tables, technical_documentation)
MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")


def cells(document: Document) -> list[str]:
    """Every cell of every table."""
    tables = (b for s in document.sections for b in s.blocks if isinstance(b, view.TableBlock))
    return [cell for table in tables for row in table.rows for cell in row]


def n_entries(document: Document) -> int:
    return sum(isinstance(b, Entries) for s in document.sections for b in s.blocks)


def titles(document: Document) -> list[str]:
    return [section.title for section in document.sections]


def statement() -> Document:
    return statement_of_reasons(person(degree=0, years=2.0, town="Bronx", sex="F", race="Asian"))


@pytest.fixture(params=[*PAPERS, statement], ids=lambda made: made.__name__)
def document(request: pytest.FixtureRequest) -> Document:
    """Each of the documents, without answers."""
    made = request.param
    found: Document = made() if made is statement else made(audited())
    return found


def test_a_card_has_the_usual_sections() -> None:
    assert titles(model_card(audited())) == [
        "Model details",
        "Intended use",
        "Factors",
        "Metrics",
        "Evaluation data",
        "Training data",
        "What the model file discloses",
        "Quantitative analyses",
        "Ethical considerations",
        "Caveats and recommendations",
    ]


def test_annex_iv_has_its_nine_points_and_article_10_its_letters() -> None:
    document = technical_documentation(audited())
    found = " ".join(titles(document))
    assert all(f"Annex IV, point {k}:" in found for k in range(1, 10))
    headings = [b.text for s in document.sections for b in s.blocks if isinstance(b, view.Heading)]
    for letter in "abcdefgh":
        assert any(h.startswith(f"Article 10(2)({letter})") for h in headings)
        assert any(h.startswith(f"({letter}) ") for h in headings)
    general = [b for b in document.sections[0].blocks if isinstance(b, Entries)]
    letters = {name[1] for block in general for name, _ in block.pairs}
    assert letters == set("abcdefgh")


def test_each_says_what_it_is_not(document: Document) -> None:
    assert document.disclaimer == "This is evidence, not a certificate of compliance."
    assert len(document.is_not) >= 3
    said = (document.to_html() + document.to_markdown()).lower()
    assert document.disclaimer.lower() in said
    for claim in ("is fair", "is compliant", "complies with", "is unbiased", "passes"):
        assert claim not in said


def test_the_numbers_are_those_of_the_record() -> None:
    audit = audited()
    assert audit.parity is not None
    assert audit.group_metrics is not None
    for paper in (model_card, technical_documentation):
        shown = cells(paper(audit))
        for found in audit.parity.decisions:
            for group in found.parity.groups:
                assert text.share(group.mean) in shown
            ratios = {cell.partition(" (")[0] for cell in shown}
            for pair in found.parity.pairs:
                assert text.number(pair.impact_ratio) in ratios
        for metric in audit.group_metrics.groups:
            assert text.bracketed(metric.accuracy.value, metric.accuracy.interval) in shown
        for count in (*audit.data.groups, *audit.data.classes):
            assert text.count(count.n) in shown


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize(
    "made",
    [
        one_attribute,
        facts.scored,
        facts.strata,
        facts.three_classes,
        facts.without_labels,
        lambda: Audit.from_json(audited().to_json()),
    ],
)
def test_every_audit_makes_every_paper(paper: Paper, made: Callable[[], Any]) -> None:
    document = paper(made())
    assert document.to_html().startswith("<!doctype html>")
    assert document.to_markdown().startswith("# ")


def test_html_and_markdown_say_the_same(document: Document) -> None:
    html, plain = document.to_html(), MARKDOWN.render(document.to_markdown())
    for tag in ("<h2", "<h3", "<table"):
        assert html.count(tag) == plain.count(tag)
    # A table of entries has no head in HTML.
    assert html.count("<tr") + n_entries(document) == plain.count("<tr")


def test_blanks_are_seen_and_counted(document: Document) -> None:
    assert document.blanks
    for written in (document.to_html(), document.to_markdown().replace("\\_", "_")):
        assert f"{len(document.blanks)} facts are still to be filled in" in written
        for blank in document.blanks:
            assert f"To be filled in by {blank.by}" in written
            assert f"({blank.key})" in written


def test_an_answer_takes_the_place_of_a_blank() -> None:
    answers = Answers.of({"model": {"name": "Screening <2>"}, "use": {"intended": "One.\n\nTwo."}})
    document = model_card(audited(), answers)
    assert {"model.name", "use.intended"} & {b.key for b in document.blanks} == set()
    assert document.title == "Screening <2>"
    assert "<p>One.</p>" in document.to_html()
    assert "Screening &lt;2&gt;" in document.to_html()


@pytest.fixture(params=[*PAPERS, statement], ids=lambda made: made.__name__)
def nasty_document(request: pytest.FixtureRequest) -> Document:
    """Each of the documents, in which every name wants to be markup."""
    audit, person_of = nasty()
    answers = Answers.of(
        {"model": {"name": NASTY[0]}, "data": {"source": NASTY[3]}, "use": {"intended": NASTY[5]}}
    )
    if request.param is statement:
        return statement_of_reasons(person_of, answers)
    found: Document = request.param(audit, answers)
    return found


def test_no_name_is_markup(nasty_document: Document) -> None:
    document = nasty_document
    html = document.to_html()
    assert "<script" not in html
    assert "script-src ;" in html
    plain = document.to_markdown()
    assert "\u202e" not in html + plain
    rendered = MARKDOWN.render(plain)
    for tag in ("<script", "<b>", "<a ", "<img", "<code", "<em>"):
        assert tag not in rendered
    assert rendered.count("<h1>") == 1
    assert rendered.count("<h2>") == len(document.sections)


def test_tables_keep_their_width(nasty_document: Document) -> None:
    document = nasty_document
    tables = [b for s in document.sections for b in s.blocks if isinstance(b, view.TableBlock)]
    rendered = MARKDOWN.render(document.to_markdown())
    found = re.findall(r"<table>.*?</table>", rendered, re.DOTALL)
    assert len(found) == len(tables) + n_entries(document)
    for table in found:
        widths = {len(re.findall(r"<t[hd]", row)) for row in table.split("<tr>")[1:]}
        assert len(widths) == 1


@pytest.mark.parametrize("name", [*NASTY, "1. one", "- a", "+ b", "= c", "---", "    code", "a\\"])
def test_an_escaped_text_is_shown_as_it_is(name: str) -> None:
    rendered = MARKDOWN.render(escaped(name))
    shown = re.fullmatch(r"<p>(.*)</p>\n", rendered)
    assert shown is not None
    meant = " ".join(name.replace("\n", "⏎").replace("\u202e", "\\u202e").split())
    unescaped = shown[1].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert unescaped.replace("&amp;", "&") == meant


def test_a_file_is_written_by_its_suffix(tmp_path: Any) -> None:
    document = statement()
    for name, beginning in (("a.html", "<!doctype"), ("a.md", "# "), ("b.HTM", "<!doctype")):
        document.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8").startswith(beginning)
    with pytest.raises(OptionError, match=r"\.html or \.md"):
        document.save(tmp_path / "a.docx")
    assert not (tmp_path / "a.docx").exists()


@pytest.mark.parametrize("paper", PAPERS, ids=lambda made: made.__name__)
def test_of_a_tool_that_is_not_ours_nothing_is_made_up(paper: Any) -> None:
    """Decisions alone were audited: class, hash, method and inputs of the tool are not known."""
    rng = np.random.default_rng(0)
    sex, y = np.repeat(["f", "m"], 200), rng.integers(0, 2, 400)
    decided = np.where(rng.random(400) < 0.2, 1 - y, y)
    frame = pl.DataFrame({"x": 2 * y + rng.integers(0, 4, 400)})
    page = paper(audit(decided, frame, y, sensitive_features=sex, n_seeds=1)).to_markdown()
    for made_up in ("Choi, Dang", "model gives P(", "most probable class", "model was fitted"):
        assert made_up not in page
    assert "(empty)" not in page
