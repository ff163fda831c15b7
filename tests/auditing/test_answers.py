"""What people state: the form, and files that are not as they should be."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fairpc.auditing._blocks import Blank
from fairpc.auditing._documents import MAX_BYTES, questions
from fairpc.errors import FileFormatError
from fairpc.filings import Answers, form, read_answers


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "answers.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_form_asks_every_question_and_is_empty() -> None:
    data = tomllib.loads(form())
    keys = {f"{table}.{name}" for table, content in data.items() for name in content}
    assert keys == set(questions())
    found = Answers.of(data)
    assert not found.texts
    assert not any(found.lists.values())


def test_a_form_that_is_filled_in_is_read(tmp_path: Path) -> None:
    text = form().replace('owner = ""', 'owner = "A & Co"', 1)
    assert read_answers(written(tmp_path, text))["model.owner"] == "A & Co"


def test_a_question_without_an_answer_says_who_has_to_give_it() -> None:
    blank = Answers()["ll144.auditor"]
    assert isinstance(blank, Blank)
    assert blank.by == "the auditor"
    assert isinstance(Answers.of({"ll144": {"auditor": "  "}})["ll144.auditor"], Blank)


def test_a_date_needs_no_quotes(tmp_path: Path) -> None:
    found = read_answers(written(tmp_path, "[ll144]\ndistribution_date = 2026-01-31\n"))
    assert found["ll144.distribution_date"] == "2026-01-31"


def test_words_of_columns(tmp_path: Path) -> None:
    found = read_answers(written(tmp_path, '[notice.words]\nduration = "Length of the loan"\n'))
    assert found.words == {"duration": "Length of the loan"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[model]\nnmae = 'x'", "did you mean model.name"),
        ("[other]\nthing = 'x'", "none of the questions"),
        ("name = 'x'", "outside a table"),
        ("[model]\nname = ['x']", "not text"),
        ("[ll144]\nleave_out = 'x'", "not a list"),
        ("[notice]\nwords = 'x'", "not a table"),
        ("[model", "not TOML"),
        (b"\xff\xfe", "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
        (b" " * (MAX_BYTES + 1), "bytes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        read_answers(written(tmp_path, text))
