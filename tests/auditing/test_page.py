"""The page as text: order, escaping, policy, size, and what stands where facts are lacking."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
from collections.abc import Callable
from dataclasses import fields, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from auditing import facts
from fairpc.auditing import Audit, render
from fairpc.auditing._blocks import SHOWN

ORDER = (
    *("verdict", "data", "labels", "mechanism", "decidable", "strata", "parity", "error_rates"),
    *("patterns", "group_metrics", "trade_off", "curves", "learning", "circuit", "what_if"),
    *("review", "limits", "provenance"),
)
AUDITS: dict[str, Callable[[], Audit]] = {
    "german": lambda: facts.german()[1],
    "hostile": lambda: facts.hostile()[1],
    "three classes": facts.three_classes,
    "without labels": facts.without_labels,
    "scored": facts.scored,
    "strata": facts.strata,
    "strata apart": facts.strata_apart,
}


class Reader(HTMLParser):
    """Tags with their attributes, and what the scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", {}))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if tag in ("script", "style"):
            self.raw.append((tag, attributes, data))
        else:
            self.texts.append(data)


@pytest.fixture(params=AUDITS)
def page(request: pytest.FixtureRequest) -> str:
    return render(AUDITS[request.param]())


def test_sections_come_in_order(page: str) -> None:
    assert tuple(re.findall(r'<section id="([^"]+)"', page)) == ORDER


def test_every_section_of_the_record_is_shown() -> None:
    """A section is a field of the record and a function of the page, by the same name."""
    names = {field.name for field in fields(Audit)} - {"left_out", "disclosure"}
    assert set(SHOWN) == names == {*ORDER, "factors"}  # that one only where it is asked for


def test_it_says_what_it_is_not(page: str) -> None:
    assert "evidence, not a certificate of compliance" in page.lower()


def test_nothing_is_asked_for_and_nothing_runs_from_attributes(page: str) -> None:
    for tag, attributes in Reader(page).tags:
        assert tag not in ("img", "iframe", "link", "object", "embed", "base")
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has {name}"
            assert name != "style", f"{tag} has a style"
            if name in ("href", "src", "action"):
                assert str(value).startswith("#")


def test_the_policy_names_each_script_and_the_style(page: str) -> None:
    reader = Reader(page)
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for _, attributes, content in reader.raw:
        if attributes.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy


def test_pictures_and_tables_can_be_read_aloud(page: str) -> None:
    tags = Reader(page).tags
    names = [tag for tag, _ in tags]
    plots = [a for t, a in tags if t == "svg" and str(a.get("class")).startswith("plot")]
    assert all(a.get("role") == "img" and a.get("aria-labelledby") for a in plots)
    assert names.count("table") == names.count("caption")
    assert all(a.get("scope") in ("col", "row") for t, a in tags if t == "th")
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_it_is_small(page: str) -> None:
    assert len(page.encode()) < 1_000_000


def test_equal_facts_give_equal_bytes() -> None:
    known = facts.german()[1]
    assert render(known) == render(copy.deepcopy(known))


def test_hostile_names_are_text() -> None:
    page = render(facts.hostile()[1])
    reader = Reader(page)
    shown = "".join(reader.texts)
    assert facts.SCRIPT in shown
    assert "<b>sex</b>⏎" in shown
    assert "<i>label</i>" in shown
    assert "\u202e" not in page
    assert "\\u202eright to left" in shown
    scripts = [content for tag, _, content in reader.raw if tag == "script"]
    assert len(scripts) == 4
    assert not any("alert(" in content for content in scripts[1:])


@pytest.mark.parametrize(
    "key",
    ["labels", "mechanism", "parity", "group_metrics", "trade_off", "curves", "circuit", "what_if"],
)
def test_a_section_without_facts_says_why(key: str) -> None:
    known = facts.german()[1]
    left_out = {**known.left_out, key: "the moon was full"}
    lacking: dict[str, Any] = {key: None, "left_out": left_out}
    page = render(replace(known, **lacking))
    assert "The moon was full." in page
    assert tuple(re.findall(r'<section id="([^"]+)"', page)) == ORDER


def test_a_page_without_a_circuit_says_so_and_has_no_questions() -> None:
    page = render(facts.scored())
    shown = " ".join("".join(Reader(page).texts).split())
    assert "a classifier cannot sum out what it is not told; use FairPC for that." in shown
    assert "so there is no circuit; use FairPC for that." in shown
    assert "Calibration within groups" in shown
    assert "Map of scores" in shown
    assert "of EM" not in shown
    assert "sums them out" not in shown
    assert 'id="what-if-tool"' not in page
    assert 'type="application/json"' not in page


def with_drawing(svg: str) -> str:
    known = facts.german()[1]
    assert known.circuit is not None
    return render(replace(known, circuit=replace(known.circuit, svg=svg)))


def test_a_drawing_is_copied_without_what_could_act() -> None:
    page = with_drawing(
        '<svg width="9pt" onload="alert(2)" style="x"><script>alert(2)</script>'
        '<a href="https://example.org"><text>a link</text></a>'
        '<g class="node" id="n"><title>1</title><text x="1" fill="red">S = 0</text></g></svg>'
    )
    assert '<svg width="9pt"><g><text x="1" fill="red">S = 0</text></g></svg>' in page
    assert "Sums are marked +" in page


def test_a_page_without_a_drawing_says_how_to_get_one() -> None:
    page = with_drawing("")
    assert "The circuit is not drawn: with Graphviz installed, the next audit draws it." in page
    assert "Drawing of the circuit" not in page


def test_a_rejection_is_said_in_the_first_lines() -> None:
    known = facts.german()[1]
    headline = "These rows contradict the assumptions."
    found = replace(known.verdict, rejected=True, withdrawn=True, headline=headline)
    page = render(replace(known, verdict=found))
    start = page.index('<section id="verdict"')
    assert 0 < page.index("These rows contradict the assumptions.") - start < 400
    assert 'class="notice alert"' in page[start : start + 400]


def test_a_group_of_which_no_label_was_turned_is_told_in_words() -> None:
    known = facts.german()[1]
    assert known.mechanism is not None
    group = known.mechanism.groups[0]
    cells = tuple(
        replace(cell, count=0.2) if cell.group == group and cell.label != cell.decision else cell
        for cell in known.mechanism.cells
    )
    page = render(replace(known, mechanism=replace(known.mechanism, cells=cells)))
    shown = " ".join("".join(Reader(page).texts).split())
    none = r"At the point practically none of \d+ labels differ from the fair decision\. The table"
    assert re.search(none, shown)
    assert re.search(r"At the point \d+ of \d+ labels \(\d+\.\d%\), the dark bands, differ", shown)
