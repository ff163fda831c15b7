"""``fairpc audit`` of a table that is streamed says what it says of one in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.calls import FIT, called, small_table
from closeness import assert_close
from fairpc.cli import main


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table, with blanks around its values, and of a model of it."""
    folder = tmp_path_factory.mktemp("streamed")
    head, _, rows = small_table(600).partition("\n")
    (folder / "t.csv").write_text(f"{head}\n{rows.replace(',', ' , ')}")
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "t.csv"), *FIT, "-o", str(folder / "m.fairpc"), "--quiet"])
    assert ended.value.code == 0
    return folder


def audited(
    folder: Path, table: str, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[Any, str]:
    ended = called(capsys, "audit", str(folder / "m.fairpc"), str(folder / table), "--json", *more)
    assert ended.code in (0, None, 1), ended.err
    return json.loads(ended.out), ended.err


@pytest.mark.parametrize(
    "absent", [None, "hired", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sex", "job"))]
)
def test_a_streamed_audit_is_the_audit(
    absent: str | None,
    fitted: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = "t.csv"
    if absent is not None:
        lines = [line.split(",") for line in (fitted / table).read_text().splitlines()]
        place = [name.strip() for name in lines[0]].index(absent)
        table = f"without_{absent}.csv"
        kept = [",".join(cell for j, cell in enumerate(line) if j != place) for line in lines]
        (fitted / table).write_text("\n".join(kept) + "\n")
    whole, said = audited(fitted, table, capsys)
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 100)
    ours, also_said = audited(fitted, table, capsys, "--max-memory", "4GB")
    # How long work takes is said by the clock.
    without = [[w for w in words.splitlines() if " s: " not in w] for words in (said, also_said)]
    assert without[0] == without[1]
    for record in (whole, ours):
        for name in ("date", "seconds", "audit_settings"):
            del record["provenance"][name]
    assert_close(whole, ours)
    assert ours["data"]["same_rows_as_fit"] is (absent is None)


def test_the_page_and_the_exit_code(
    fitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cli._tables.STREAMED_BYTES", 0)
    page = fitted / "report.html"
    files = str(fitted / "m.fairpc"), str(fitted / "t.csv")
    ended = called(capsys, "audit", *files, "-o", str(page), "--fail-over", "0.001")
    assert ended.code == 1
    assert f"Report: {page}\n" in ended.out
    assert ended.out.count("\n") <= 12
    assert "The table has 600 rows" in page.read_text("utf-8")


def test_a_card_beside_the_report(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card, files = fitted / "card.md", (str(fitted / "m.fairpc"), str(fitted / "t.csv"))
    facts = audited(fitted, "t.csv", capsys, "--card", str(card))[0]
    text = card.read_text("utf-8")
    assert facts["card"] == str(card)
    assert facts["provenance"]["model_hash"] in text
    # A gate alone still writes it.
    card.unlink()
    ended = called(capsys, "audit", *files, "--card", str(card), "--fail-over", "1", "-q")
    assert ended.code == 0, ended.err
    assert card.exists()
    for name, said in (("card.html", "ending in .md"), ("t.csv", "ending in .md")):
        ended = called(capsys, "audit", *files, "--card", str(fitted / name))
        assert ended.code == 2
        assert said in ended.err


def test_bad_input_is_one_sentence(
    fitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cli._tables.STREAMED_BYTES", 0)
    model = str(fitted / "m.fairpc")
    (fitted / "empty.csv").write_text("age,job,sex,hired\n")
    (fitted / "short.csv").write_text(small_table(300) + "41,clerk\n")
    for table, more, words in (
        ("t.csv", ("--label", "hierd"), "did you mean 'hired'?"),
        ("empty.csv", (), "no rows"),
        ("short.csv", (), "line 302"),
    ):
        ended = called(capsys, "audit", model, str(fitted / table), *more)
        assert ended.code == 2
        assert words in " ".join(ended.err.split()), ended.err
        assert "Traceback" not in ended.err


def test_a_bad_limit_is_one_sentence(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = str(fitted / "m.fairpc"), str(fitted / "t.csv")
    ended = called(capsys, "audit", *files, "--max-memory", "much")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "max_memory is 'much'" in ended.err


def test_a_label_without_any_known_class_is_refused(
    fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = str(fitted / "m.fairpc"), str(fitted / "t.csv")
    ended = called(capsys, "audit", *files, "--label", "job")
    assert ended.code == 2
    assert "label 'job' holds" in ended.err
    assert "none of the classes of the fit, 'no', 'yes'" in ended.err
    ended = called(capsys, "audit", *files, "--label", "job", "--max-memory", "4GB")
    assert ended.code == 2
    assert "column 'job' is a feature" in ended.err


def test_progress_is_in_words_of_people() -> None:
    from fairpc.auditing._audit import STEP_WORDS
    from fairpc.cli._audit import STAGES, in_stages
    from fairpc.models import Progress

    assert list(STAGES) == [words for words in STEP_WORDS.values() if words in STAGES]
    lines: list[str] = []
    report = in_stages(lambda now: lines.append(now.line))
    for done, words in enumerate(STEP_WORDS.values()):
        report(Progress(words, done, len(STEP_WORDS), "step"))
    distinct = list(dict.fromkeys(lines))
    assert distinct == [f"{stage} {k}/6" for k, stage in enumerate(STAGES.values(), 1)]
