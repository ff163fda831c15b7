"""``fairpc document`` and ``fairpc explain``: documents from one audit, reasons for one person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.calls import Ended, answer, called, names
from fairpc import load


@pytest.fixture
def audited(folder: Path, audit_of_fitted: str) -> Path:
    (folder / "audit.json").write_text(audit_of_fitted)
    return folder


def refused(ended: Ended) -> str:
    """The one sentence of a call that was refused."""
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    return ended.err


@pytest.mark.parametrize("name", ["card", "ll144", "annex-iv"])
def test_one_audit_serves_every_document(
    name: str, audited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, beginning in ((f"{name}.html", "<!doctype html>"), (f"{name}.md", "# ")):
        ended = called(capsys, "document", name, "audit.json", "-o", file)
        assert ended.code == 0
        assert "still to be filled in" in ended.err
        assert (audited / file).read_text("utf-8").startswith(beginning)
    printed = called(capsys, "document", name, "audit.json")
    assert printed.out == (audited / f"{name}.md").read_text("utf-8")


def test_answers_fill_the_blanks(audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "document", "answers", "-o", "a.toml").code == 0
    form = (audited / "a.toml").read_text("utf-8")
    before = answer(capsys, "document", "card", "audit.json", "--answers", "a.toml")
    (audited / "a.toml").write_text(form.replace('owner = ""', 'owner = "Us & Co"', 1))
    after = answer(capsys, "document", "card", "audit.json", "--answers", "a.toml")
    assert set(before["to_fill_in"]) - set(after["to_fill_in"]) == {"model.owner"}
    assert called(capsys, "document", "answers").out == form


def test_json_gives_the_blocks(audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "document", "ll144", "audit.json", "-o", "x.html")
    assert found["output"] == "x.html"
    assert (audited / "x.html").exists()
    tables = [b for s in found["sections"] for b in s["blocks"] if b["kind"] == "Table"]
    record = json.loads((audited / "audit.json").read_text())
    (part,) = record["parity"]["categories"]
    assert [row[1] for row in tables[0]["rows"]] == [str(c["n"]) for c in part["categories"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("document", "poster", "audit.json"), "no document"),
        (("document", "card"), "needs an audit"),
        (("document", "card", "none.json"), "none.json"),
        (("document", "card", "t.csv"), "not JSON"),
        (("document", "card", "m.fairpc"), "not an audit"),
        (("document", "card", "audit.json", "-o", "x.docx"), ".html or .md"),
        (("document", "card", "audit.json", "-o", "no/folder.md"), "no/folder.md"),
        (("document", "card", "audit.json", "--answers", "t.csv"), "not TOML"),
        (("document", "card", "audit.json", "--answers", "none.toml"), "none.toml"),
        (("document", "answers", "audit.json"), "empty form"),
        (("document", "answers", "-o", "form.md"), ".toml"),
        (("explain", "m.fairpc"), "one person"),
        (("explain", "m.fairpc", "age=30", "--table", "t.csv", "--row", "1"), "one person"),
        (("explain", "m.fairpc", "--table", "t.csv"), "go together"),
        (("explain", "m.fairpc", "--table", "t.csv", "--row", "999"), "no row 999"),
        (("explain", "m.fairpc", "agee=30"), "did you mean 'age'"),
        (("explain", "m.fairpc", "age>30"), "with ="),
        (("explain", "m.fairpc", "age=30, age=31"), "one value for each"),
        (("explain", "m.fairpc", "job | age=30"), "one value for each"),
        (("explain", "m.fairpc", "age=30", "-o", "t.csv"), ".html or .md"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: tuple[str, ...], said: str, audited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(audited)
    assert said in refused(called(capsys, *arguments))
    assert names(audited) == before


def test_an_audit_of_another_version_is_refused(
    audited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((audited / "audit.json").read_text())
    del record["parity"]["categories"]
    (audited / "audit.json").write_text(json.dumps(record))
    said = refused(called(capsys, "document", "card", "audit.json"))
    assert "audit.json: the audit: parity has no 'categories'" in said


@pytest.mark.parametrize(("key", "value"), [("group", "nobody"), ("mean", None)])
def test_an_audit_that_contradicts_itself_is_refused(
    key: str, value: str | None, audited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody wrote another group into it, or took a number out."""
    content = json.loads((audited / "audit.json").read_text())
    content["labels"]["disparities"][0]["parity"]["groups"][0][key] = value
    (audited / "odd.json").write_text(json.dumps(content))
    said = refused(called(capsys, "document", "card", "odd.json", "-o", "card.html"))
    assert "odd.json: what it says does not fit together" in said
    assert not (audited / "card.html").exists()


def test_explain_gives_exact_changes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import polars as pl

    found = answer(capsys, "explain", "m.fairpc", "age=25, job=cook, sex=F")
    model = load(folder / "m.fairpc")
    row = {"age": ["25"], "job": ["cook"], "sex": ["F"]}
    score = model.predict_proba(pl.DataFrame(row))[0, 1]
    assert found["score"] == pytest.approx(score, abs=1e-12)
    for reason in (*found["lowered"], *found["raised"], *found["unmoved"]):
        without = pl.DataFrame(row | {reason["column"]: pl.Series([None], dtype=pl.String)})
        left = model.predict_proba(without)[0, 1]
        assert reason["change"] == pytest.approx(score - left, abs=1e-12)


def test_a_row_of_a_table_and_its_words_are_the_same_person(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age, job, sex, _ = (folder / "t.csv").read_text().splitlines()[3].split(",")
    said = answer(capsys, "explain", "m.fairpc", f"age={age}, job={job}, sex={sex}")
    taken = answer(capsys, "explain", "m.fairpc", "--table", "t.csv", "--row", "3")
    for part in ("score", "decision", "lowered", "raised", "group", "unknown"):
        assert said[part] == taken[part]


def test_reasons_on_the_screen_and_as_a_document(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = ("explain", "m.fairpc", "age=25, job=cook, sex=F")
    shown = called(capsys, *person)
    assert "The probability that the fair decision is “yes” is" in shown.out
    assert "do not add up" in shown.out
    assert called(capsys, *person, "-o", "r.md").code == 0
    assert "## 2. Principal reasons" in (folder / "r.md").read_text("utf-8")
    assert called(capsys, *person, "-o", "-").out.startswith("# Reasons for the decision")
