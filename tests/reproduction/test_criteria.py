"""The rules by which the paper's statements are judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reproduction import criteria
from reproduction.criteria import Criterion
from reproduction.exhibit import Claim, claim_grid, markdown_table

FOLDER = Path(criteria.__file__).parent
ALL = {name: c for name, c in vars(criteria).items() if isinstance(c, Criterion)}


@pytest.mark.parametrize("name", ALL)
def test_every_rule_has_a_reason_and_is_used(name: str) -> None:
    criterion = ALL[name]
    assert all((criterion.says, criterion.where, criterion.rule, criterion.why))
    texts = [p.read_text("utf-8") for p in FOLDER.glob("*.py") if p.name != "criteria.py"]
    assert any(re.search(rf"Claim\(\s*criteria\.{name}\b", text) for text in texts) or any(
        f"criteria.{name}," in text for text in texts
    )


def test_no_statement_is_counted_twice() -> None:
    assert len({c.says for c in ALL.values()}) == len(ALL)


def test_a_claim_shows_its_rule() -> None:
    claim = Claim(criteria.NEAR_BEST, False, "accuracy .7", "Adult")
    text = markdown_table(claim_grid([claim]))
    assert claim.statement == f"Adult: {criteria.NEAR_BEST.says}"
    for words in (claim.statement, criteria.NEAR_BEST.rule, "**not confirmed**", "accuracy .7"):
        assert words in text
