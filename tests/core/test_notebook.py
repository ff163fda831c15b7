"""What a notebook shows of a record: all of it, small, escaped, in the notebook's colours."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from fairpc.auditing._verdict import Verdict
from fairpc.core._records import MOST, notebook_html
from fairpc.evidence import equal_rates, identified_set, parity
from fairpc.models import BiasAccount

ALLOWED = {"div", "p", "strong", "bdi", "details", "summary", "ul", "li"}
ALLOWED |= {"table", "thead", "tbody", "tr", "th", "td"}
HOSTILE = "<script>alert(1)</script>\u202e\" onload='x'"
RNG = np.random.default_rng(0)
SCORES = RNG.random(300)
GROUPS = np.array(["a", HOSTILE])[RNG.integers(0, 2, 300)]


RECORDS: dict[str, Any] = {
    "parity": parity(SCORES, GROUPS),
    "pair": parity(SCORES, GROUPS).largest,
    "equal rates": equal_rates(SCORES, GROUPS),
    "identified": identified_set(SCORES, GROUPS),
    "verdict": Verdict("a", (HOSTILE,), (), (), None, withdrawn=False),
    "account": BiasAccount(("a", HOSTILE), ("0", "1"), np.full((2, 2, 2), 0.5), np.ones((2, 2, 2))),
}


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.shown = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


@pytest.mark.parametrize("name", RECORDS)
def test_names_stay_text_and_nothing_runs(name: str) -> None:
    page = RECORDS[name]._repr_html_()
    reader = Reader(page)
    assert not reader.open
    assert reader.tags <= ALLOWED
    assert reader.names <= {"style", "scope"}
    assert "\u202e" not in page
    assert "<script>alert(1)</script>" in reader.shown
    assert len(page) < 30_000


def test_the_summary_comes_first_and_every_field_is_there() -> None:
    found = RECORDS["parity"]
    shown = Reader(found._repr_html_()).shown
    assert shown.startswith("Parity")
    for name in found.to_dict():
        assert name in shown or name == "summary"
    assert f"{found.level:.4g}" in shown


def test_colours_are_those_of_the_notebook() -> None:
    styles = re.findall(r'style="([^"]*)"', RECORDS["parity"]._repr_html_())
    assert styles
    for style in styles:
        assert not re.search(r"(^|;)(color|background-color)\s*:", style)
        assert set(re.findall(r"#\w+", style)) <= {"#8888"}


def test_long_tables_are_cut_and_it_says_so() -> None:
    page = notebook_html("Long", {"rows": [{"n": i} for i in range(MOST + 5)]})
    assert page.count("<tr>") == MOST + 1
    assert "… and 5 more" in page
