"""Audits read back from JSON: nothing is lost, and what is altered is refused in one sentence."""

from __future__ import annotations

import json
import tracemalloc
from functools import cache
from typing import Any

import pytest

from auditing.tables import QUICK, fitted, table
from fairpc.auditing import Audit, audit, render
from fairpc.core import MAX_BYTES
from fairpc.errors import FileFormatError


@cache
def made(name: str = "FairPC", n_classes: int = 2) -> Audit:
    X, y, s = table(n_classes=n_classes)
    return audit(fitted(name, n_classes=n_classes), X, y, sensitive_features=s, **QUICK)


def without_page(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what only the page needs."""
    return {k: v for k, v in record.items() if k not in ("what_if", "left_out")}


@pytest.mark.parametrize(("name", "n_classes"), [("FairPC", 2), ("LatNB", 3), ("TwoNB", 2)])
def test_nothing_but_the_page_is_lost(name: str, n_classes: int) -> None:
    before = made(name, n_classes)
    after = Audit.from_json(before.to_json())
    assert without_page(after.to_dict()) == without_page(before.to_dict())
    assert after.what_if is None
    assert set(after.left_out) == {*before.left_out, "what_if"}


def test_the_page_can_be_made_again() -> None:
    again = Audit.from_json(made().to_json())
    assert again.verdict == made().verdict
    assert "that does not show that they hold" in render(again)


def changed(path: str, value: Any) -> str:
    """The record with one value replaced, or taken away."""
    record = json.loads(made().to_json())
    *parents, last = path.split(".")
    place = record
    for name in parents:
        place = place[int(name)] if name.isdigit() else place[name]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("format", "fairpc model", "not an audit"),
        ("version", 99, "version 99"),
        ("data", KeyError, "'data'"),
        ("data", [], "not an object"),
        ("data.n_rows", "many", "not a whole number"),
        ("data.n_rows", True, "not a whole number"),
        ("data.groups", {}, "not a list"),
        ("data.groups.0.name", 3, "not text"),
        ("data.n_rows", 10**400, "not a whole number"),
        ("parity.model_gap", "wide", "not a number"),
        ("parity.model_gap", 10**400, "not a number"),
        ("parity.categories", KeyError, "'categories'"),
        ("parity.decisions.0.parity.kind", "guess", "'mean score' or 'rate'"),
        ("parity.decisions.0.parity.pairs.0.ratio_interval", [1.0], "a list of 2"),
        ("verdict.rejected", "no", "not true or false"),
        ("left_out", [], "not an object"),
    ],
    ids=lambda value: "huge" if value == 10**400 else None,
)
def test_an_altered_record_is_refused(path: str, value: Any, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        Audit.from_json(changed(path, value))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", b"\xff\xfe", "[" * 100_000, '{"format": "\ud83d"}']
)
def test_what_is_no_record_is_refused(text: str | bytes) -> None:
    with pytest.raises(FileFormatError):
        Audit.from_json(text)


@pytest.mark.parametrize("more", ['"version": 1', '"more": 1e999', '"more": NaN'])
def test_a_record_with_a_field_that_json_has_not_is_refused(more: str) -> None:
    with pytest.raises(FileFormatError, match="not valid JSON"):
        Audit.from_json(f"{made().to_json()[:-1]}, {more}}}")


def test_a_text_that_is_too_long_is_not_read() -> None:
    with pytest.raises(FileFormatError, match="bytes"):
        Audit.from_json(b" " * (MAX_BYTES + 1))


def test_brackets_are_refused_before_they_take_memory() -> None:
    text = b"[" + b"[],[]," * (2**22) + b"[]]"
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError):
            Audit.from_json(text)
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()
