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

import polars as pl
import pytest

from auditing import facts, tables
from fairpc import LatNB
from fairpc.auditing import Audit, audit, render
from fairpc.auditing._blocks import SHOWN
from fairpc.auditing._page import CHAPTERS
from fairpc.errors import TableError

ORDER = ("verdict", "gaps", "label-bias", "evidence", "appendix")
AUDITS: dict[str, Callable[[], Audit]] = {
    "german": lambda: facts.german()[1],
    "hostile": lambda: facts.hostile()[1],
    "three classes": facts.three_classes,
    "without labels": facts.without_labels,
    "scored": facts.scored,
    "strata": facts.strata,
}


class Reader(HTMLParser):
    """Tags with their attributes, and what the scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
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
        tag = self.tags[-1][0] if self.tags else ""
        if tag in ("script", "style"):
            self.raw.append((tag, data))
        else:
            self.texts.append(data)


@pytest.fixture(params=AUDITS)
def page(request: pytest.FixtureRequest) -> str:
    return render(AUDITS[request.param]())


def test_five_chapters_come_in_order_and_none_is_empty(page: str) -> None:
    found = tuple(re.findall(r'<section id="([^"]+)"', page))
    assert found == tuple(key for key in ORDER if key in found)
    assert {"verdict", "gaps", "evidence", "appendix"} <= set(found)
    assert not re.search(r"<h3[^>]*>[^<]*</h3>\s*(<h3|</section>)", page)


def test_every_section_of_the_record_is_a_part_of_one_chapter() -> None:
    names = {field.name for field in fields(Audit)} - {"left_out", "disclosure"}
    parts = [name for _, _, names, _ in CHAPTERS for name in names]
    assert set(SHOWN) == names == set(parts)
    assert len(parts) == len(names)


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
    for _, content in reader.raw:
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
    assert len(page.encode()) < 600_000


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
    (script,) = (content for tag, content in reader.raw if tag == "script")
    assert "alert(" not in script


@pytest.mark.parametrize("key", ["labels", "mechanism", "parity", "group_metrics"])
def test_a_section_without_facts_is_not_shown(key: str) -> None:
    known = facts.german()[1]
    left_out = {**known.left_out, key: "the moon was full"}
    lacking: dict[str, Any] = {key: None, "left_out": left_out}
    page = render(replace(known, **lacking))
    assert "The moon was full." not in page
    assert f'<h3 id="{key}"' not in page


def test_error_rates_that_lack_say_what_would_give_them() -> None:
    known = facts.german()[1]
    assert known.error_rates is None
    part = render(known).partition('<h3 id="error_rates"')[2]
    assert "only of rows that the model was not fitted to" in part[:400]


def test_no_command_line_and_no_python_in_front_of_managers(page: str) -> None:
    first = page[page.index('<section id="verdict"') : page.index('<details class="fold">')]
    assert not re.search(r"fairpc |--\w|\w+=…|\w+\(…|_", "".join(Reader(first).texts))


def test_a_rejection_is_said_in_the_first_lines() -> None:
    known = facts.german()[1]
    headline = "These rows contradict the assumptions."
    found = replace(known.verdict, rejected=True, withdrawn=True, headline=headline)
    page = render(replace(known, verdict=found))
    start = page.index('<section id="verdict"')
    assert 0 < page.index("These rows contradict the assumptions.") - start < 400
    assert 'class="finding alert"' in page[start : start + 400]


def test_names_of_classes_and_groups_are_those_that_were_given() -> None:
    X, y, s = tables.table()
    names = {
        "label": {"": "Loan decisions", "yes": "approved", "no": "refused"},
        "sensitive": {"g0": "women", "g1": "men"},
    }
    y = pl.Series("label", y)
    model = LatNB(max_iter=30).fit(X, y, sensitive_features=s)
    found = audit(model, X, y, sensitive_features=s, names=names, **facts.QUICK)
    assert found.data.title == "Loan decisions by sensitive"
    assert [g.name for g in found.data.groups] == ["women", "men"]
    assert {c.name for c in found.data.classes} == {"approved", "refused"}
    first = " ".join(found.verdict.sentences)
    assert re.search(r"Recorded approved: [\d,]+ of [\d,]+ (wo)?men \(\d", first)
    page = render(found)
    assert "<h1>Loan decisions by sensitive</h1>" in page
    shown = "".join(Reader(page).texts)
    assert "“yes”" not in shown
    assert "g0" not in shown


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"x0": {"0": "none"}}, "names has the column 'x0': name values of"),
        ({"sensitive": {"g7": "men"}}, "names has the value 'g7' of 'sensitive', which has 'g0'"),
        (
            {"sensitive": {"g0": "men", "g1": "men"}},
            "names gives two values of 'sensitive'",
        ),
    ],
)
def test_a_name_of_nothing_is_a_sentence(names: Any, said: str) -> None:
    X, y, s = tables.table()
    with pytest.raises(TableError, match=said):
        audit(tables.fitted(), X, y, sensitive_features=s, names=names, **facts.QUICK)


def test_a_title_is_read_from_the_columns() -> None:
    assert facts.strata().data.title == "Y by sex"
    assert facts.strata().data.people == {"f": "women", "m": "men"}
    assert facts.german()[1].data.people["female"] == "women"
