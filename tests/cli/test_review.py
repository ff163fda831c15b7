"""Reviews from the command line: draw, fill in, audit, next batch; and files that do not belong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import answer, called, names
from fairpc.cli import _review_files as files, main
from fairpc.core import LearningError
from fairpc.datasets import load_loans
from fairpc.models import FairPC, LatentDecision, Reviewed, load

LABEL = ("--label", "approved", "--positive", "yes", "--sensitive", "sex")
N_ROWS = 1500
MODEL, TABLE = "loans.fairpc", "loans.csv"
FIT = ("fit", TABLE, *LABEL, "--structure", "chow-liu")
ANSWERED = ("--reviewed", "to_review.csv")


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    data = load_loans("truth")
    rows: pl.DataFrame = data.X.with_columns(sex=data.sensitive, approved=data.y, deserving=data.df)
    return rows.head(N_ROWS).select(pl.exclude("deserving"), "deserving")


@pytest.fixture(scope="module")
def drawn(truth: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a model and 200 rows to review, filled in."""
    folder = tmp_path_factory.mktemp("review")
    truth.drop("deserving").write_csv(folder / TABLE)
    fit = ["fit", str(folder / TABLE), *LABEL, "--structure", "chow-liu"]
    draw = ["review", str(folder / MODEL), str(folder / TABLE), "-n", "200"]
    for words in ([*fit, "-o", str(folder / MODEL)], [*draw, "-o", str(folder / "to_review.csv")]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--quiet"])
        assert ended.value.code == 0
    fill(folder / "to_review.csv", truth)
    return folder


@pytest.fixture
def work(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a copy of that folder."""
    for path in drawn.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(path: Path, truth: pl.DataFrame) -> None:
    """Answer as the truth does."""
    rows = pl.read_csv(path)
    answers = truth["deserving"][rows["review_id"].to_list()]
    rows.with_columns(fair_decision=answers).write_csv(path)


def change(path: str, edit: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    edit(pl.read_csv(path, infer_schema=False)).write_csv(path)


def test_a_file_to_fill_in(work: Path, truth: pl.DataFrame) -> None:
    rows = pl.read_csv(work / "to_review.csv")
    assert rows.columns == ["review_id", *truth.columns[:-1], "fair_decision"]
    assert rows.height == rows["review_id"].n_unique() == 200
    np.testing.assert_array_equal(rows["income"], truth["income"][rows["review_id"].to_list()])
    design = json.loads((work / "to_review.csv.design.json").read_text())
    assert design["rows"] == rows["review_id"].to_list()
    assert abs(np.corrcoef(np.arange(200), design["rows"])[0, 1]) < 0.25  # in random order
    assert design["classes"] == ["no", "yes"]
    assert all(0 < p <= 1 for p in design["probability"])


def test_the_loop(work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    reviewed = ("--reviewed", "to_review.csv")
    ended = called(capsys, "review", MODEL, TABLE, *reviewed, "-n", "100", "-o", "next.csv")
    assert ended.code == 0, ended.err
    assert "What 200 reviewed rows of 1,500 show" in ended.out
    assert "With 300 files" in ended.out
    assert "batch 2" in ended.out
    first, second = (set(pl.read_csv(f)["review_id"]) for f in ("to_review.csv", "next.csv"))
    assert len(second) == 100
    assert not first & second
    fill(work / "next.csv", truth)
    audit = ("audit", MODEL, TABLE, *reviewed, "--reviewed", "next.csv")
    found = answer(capsys, *audit, "-o", "report.html")["review"]
    assert (found["n_drawn"], found["n_blank"], found["n_batches"]) == (300, 0, 2)
    page = (work / "report.html").read_text()
    assert page.index('id="review"') < page.index('id="data"')
    assert "What the review showed" in page
    for rate in found["rates"]:
        if rate["name"] == "fair_rate":
            true = truth.filter(sex=rate["group"])["deserving"] == "yes"
            assert rate["interval"][0] <= true.mean() <= rate["interval"][1]
            narrow, wide = (np.ptp(rate[k]) for k in ("interval", "alone_interval"))
            assert narrow < wide
    refused = {r["group"]: r["interval"] for r in found["rates"] if r["name"] == "mechanism_1"}
    assert refused["F"][1] < refused["M"][0]
    alone = called(capsys, "review", MODEL, TABLE, "--reviewed", "next.csv")
    assert alone.code == 2
    assert "batch 2" in alone.err


def test_without_a_model(
    work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    decided = truth["income"].gt(55).cast(pl.Int64)
    truth.drop("deserving").with_columns(decided=decided).write_csv("decided.csv")
    options = ("decided.csv", *LABEL, "--decision", "decided")
    draw = ("-n", "80", "-o", "rows.csv", "--blind", "--for", "errors", "--by", "purpose")
    ended = called(capsys, "review", *options, *draw)
    assert ended.code == 0, ended.err
    assert "--decision decided --reviewed rows.csv" in ended.out
    shown = pl.read_csv("rows.csv")
    assert not {"sex", "approved", "decided"} & set(shown.columns)
    assert min(shown["purpose"].value_counts()["count"].to_list()) >= 4
    fill(work / "rows.csv", truth)
    change("rows.csv", lambda rows: rows.with_columns(fair_decision=_blank_first(rows)))
    for command in ("review", "audit"):
        found = answer(capsys, command, *options, "--reviewed", "rows.csv")["review"]
        assert (found["n_drawn"], found["n_blank"]) == (80, 1)
        assert any("Rows without an answer: 1 of 80" in note for note in found["notes"])


def test_the_same_command_draws_and_shows_the_same(
    work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model a classifier of our own says where to look: it has the command's seed."""
    decided = truth["income"].gt(55).cast(pl.Int64)
    truth.drop("deserving").with_columns(decided=decided).write_csv("decided.csv")
    options = ("decided.csv", *LABEL, "--decision", "decided")
    for name in ("one", "two"):
        assert called(capsys, "review", *options, "-n", "60", "-o", f"{name}.csv").code == 0
    designs = [Path(f"{name}.csv.design.json").read_bytes() for name in ("one", "two")]
    assert designs[0] == designs[1]
    fill(work / "one.csv", truth)
    shown = [answer(capsys, "audit", *options, "--reviewed", "one.csv")["review"] for _ in "ab"]
    shown.append(answer(capsys, "review", *options, "--reviewed", "one.csv")["review"])
    assert shown[0] == shown[1]
    assert shown[0]["rates"][0]["value"] == shown[2]["rates"][0]["value"]


def test_rows_without_a_group_are_not_drawn(
    work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = pl.int_range(pl.len()) < 40
    decided = truth["income"].gt(55).cast(pl.Int64)
    rows = truth.drop("deserving").with_columns(decided=decided)
    rows.with_columns(pl.when(~nobody).then("sex").alias("sex")).write_csv("some.csv")
    options = ("some.csv", *LABEL, "--decision", "decided")
    ended = called(capsys, "review", *options, "-n", "200", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    assert "40 rows without a label or a group cannot be drawn" in ended.err
    assert pl.read_csv("rows.csv")["review_id"].min() >= 40  # type: ignore[operator]


def test_a_fit_to_reviewed_rows(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in Python; a model without a fair decision cannot learn from a review."""
    call = ("fit", TABLE, *LABEL, "--structure", "chow-liu", "--reviewed", "to_review.csv")
    assert called(capsys, *call, "-o", "held.fairpc").code == 0
    rows, design = pl.read_csv(TABLE), files.DrawnRows.read("to_review.csv")
    answers = pl.read_csv("to_review.csv")["fair_decision"].eq("yes").cast(pl.Float64)
    reviewed = Reviewed.of(rows.height, [(design.rows, design.probability, answers)])
    model = FairPC("sex", structure="chow-liu", positive="yes", random_state=0)
    model.fit(rows.drop("approved"), rows["approved"], reviewed=reviewed)
    held, free = (
        np.abs(load(name).bias_mechanism_ - model.bias_mechanism_).max()
        for name in ("held.fairpc", MODEL)
    )
    assert held < free / 10
    refused = called(capsys, *call, "--model", "NLatPC", "-o", "none.fairpc")
    assert refused.code == 2
    assert "--reviewed is for --model FairPC or LatNB" in refused.err


def test_a_fit_says_what_the_review_contradicts(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reviewers who deny all women what they grant nearly all men: fair rates cannot be equal."""
    by_sex = pl.when(sex="M").then(pl.lit("yes")).otherwise(pl.lit("no"))
    one_off = pl.when(pl.int_range(pl.len()) % 10 == 0).then(pl.col("approved")).otherwise(by_sex)
    change("to_review.csv", lambda rows: rows.with_columns(fair_decision=one_off))
    call = ("fit", TABLE, *LABEL, "--structure", "chow-liu", "--reviewed", "to_review.csv")
    for more in ((), ("-v",)):
        ended = called(capsys, *call, "-o", "held.fairpc", *more)
        assert ended.code == 0, ended.err
        contradicted = load("held.fairpc").warnings_
        assert contradicted
        said = " ".join((ended.out + ended.err).split())
        assert [said.count(" ".join(sentence.split())) for sentence in contradicted] == [1] * len(
            contradicted
        )


@pytest.mark.parametrize("deaf", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("command", "written"),
    [
        (("review", MODEL, TABLE, "-n", "20", "-o", "rows.csv", *ANSWERED), "rows.csv"),
        (("predict", MODEL, "unknown.csv", "-o", "scored.csv"), "scored.csv"),
        *(
            pytest.param((*words, "-o", name), name, marks=pytest.mark.slow)
            for words, name in (
                (FIT, "again.fairpc"),
                (("export", MODEL), "model.onnx"),
                (("distil", MODEL, TABLE), "scorer.fairpc"),
            )
        ),
    ],
)
def test_files_are_written_though_nobody_reads_what_is_printed(
    deaf: str, command: tuple[str, ...], written: str, work: Path
) -> None:
    """Of each pipe the reading end is closed, as after `head`."""
    pl.read_csv(TABLE).drop("sex").head(50).write_csv("unknown.csv")
    reading, writing = os.pipe()
    os.close(reading)
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {
        deaf: writing
    }
    try:
        done = subprocess.run([sys.executable, "-m", "fairpc", *command], **streams, timeout=300)
    finally:
        os.close(writing)
    assert done.returncode == 0
    assert (work / written).exists()


def test_quiet_commands_print_what_was_found(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (MODEL, TABLE, "--reviewed", "to_review.csv")
    review, audit = (called(capsys, name, *given, "-q") for name in ("review", "audit"))
    assert "share that deserves “yes”" in review.out
    assert "Next:" not in review.out + audit.out
    assert audit.out.strip() == answer(capsys, "audit", *given)["verdict"]["headline"]
    assert review.err == audit.err == ""


def test_a_part_at_a_time(
    work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """300 rows in all, of which 200 were drawn; then there is nothing left to draw."""
    given = ("review", MODEL, TABLE, "--reviewed", "to_review.csv")
    draw = ("-n", "300", "--per-batch", "150")
    ended = called(capsys, *given, *draw, "-o", "next.csv")
    assert ended.code == 0, ended.err
    assert "With 300 files" in ended.out
    assert "20 files would not help (±" in ended.out
    assert pl.read_csv("next.csv").height == 100
    fill(work / "next.csv", truth)
    again = called(capsys, *given, "--reviewed", "next.csv", *draw, "-o", "last.csv")
    assert again.code == 2
    assert "300 rows were drawn before" in again.err
    assert not Path("last.csv").exists()


def test_audit_and_review_ask_for_the_same_number_of_files(
    work: Path, truth: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a model and without one; the draw of decisions by anyone is the same each time."""
    decided = truth.drop("deserving").with_columns(decided=truth["deserving"])
    decided.write_csv("decided.csv")
    anyone = ("decided.csv", *LABEL, "--decision", "decided")
    for about in ((MODEL, TABLE), anyone):
        ended = called(capsys, "audit", *about)
        assert ended.code == 0, ended.err
        # Of decisions by anyone the report asks for what decides its first sentence instead.
        advised = ended.out.partition("for ±5 review ")[2].partition(".")[0]
        assert bool(advised) is (about[0] == MODEL)
        for name in ("once.csv", "twice.csv"):
            said = called(capsys, "review", *about, "-n", "300", "-o", name).out
            assert f"for ±5 points review {advised}" in said
        assert Path("once.csv").read_bytes() == Path("twice.csv").read_bytes()
        for path in Path().glob("*ce.csv*"):
            path.unlink()


def _blank_first(rows: pl.DataFrame) -> pl.Series:
    return pl.Series([None, *rows["fair_decision"].to_list()[1:]])


def test_a_table_that_no_model_fits_is_drawn_evenly(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LearningError("the classifier gives all rows of a group one score")

    monkeypatch.setattr(LatentDecision, "fit", refuse)
    ended = called(capsys, "review", TABLE, *LABEL, "-n", "50", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    assert "rows are drawn evenly" in ended.err
    design = json.loads((work / "rows.csv.design.json").read_text())
    assert len(set(np.round(design["probability"], 9))) == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_answers_as_a_spreadsheet_saves_them(
    encoding: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Semicolons, CRLF, capitals, blanks, and a note beside the answers, in its own encoding."""
    given = ("review", MODEL, TABLE, "--reviewed", "to_review.csv")
    plain = answer(capsys, *given)
    said = pl.col("fair_decision").str.to_uppercase() + " "
    rows = pl.read_csv("to_review.csv").with_columns(said, note=pl.lit("Prüfung: São João"))
    text = rows.write_csv(separator=";", line_terminator="\r\n")
    Path("to_review.csv").write_bytes(text.encode(encoding))
    assert answer(capsys, *given) == plain


def test_one_answer_says_what_it_cannot(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change("to_review.csv", lambda rows: rows.head(1))
    ended = called(capsys, "review", MODEL, TABLE, "--reviewed", "to_review.csv")
    assert ended.code == 0, ended.err
    assert "What 1 reviewed row of 1,500 shows" in ended.out
    assert "Too few groups have reviewed rows to compare fair rates" in ended.out
    assert "No column was tested" in ended.out
    assert "nan" not in ended.out


def test_a_file_to_fill_in_has_no_formulas(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People open it in spreadsheets; a class may look like one, and is an answer as written."""
    said = pl.when(approved="yes").then(pl.lit("=1+1")).otherwise(pl.lit("-no")).alias("approved")
    names = (pl.col("purpose").alias(name) for name in ("@x", "'@x"))
    rows = pl.read_csv(TABLE).with_columns(said, *names)
    rows.with_columns(pl.lit("@y").cast(pl.Categorical).alias("note")).write_parquet("t.parquet")
    given = ("t.parquet", *LABEL[:2], *LABEL[4:], "--positive", "=1+1")
    ended = called(capsys, "review", *given, "-n", "60", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    shown = pl.read_csv("rows.csv")
    assert {"'@x", "''@x"} < set(shown.columns)
    assert set(shown["approved"]) == {"'=1+1", "'-no"}
    assert set(shown["note"]) == {"'@y"}
    shown.with_columns(fair_decision="approved").write_csv("rows.csv")
    found = answer(capsys, "review", *given, "--reviewed", "rows.csv")["review"]
    assert (found["n_drawn"], found["n_blank"]) == (60, 0)


def _seal(**fields: object) -> None:
    """Alter a design, and write a checksum that fits."""
    path = Path("to_review.csv.design.json")
    design = json.loads(path.read_text()) | fields
    own = {k: v for k, v in design.items() if k not in ("format", "version", "checksum")}
    sealed = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(design | {"checksum": f"sha256:{sealed}"}))


def _edit_design(old: str, new: str) -> None:
    path = Path("to_review.csv.design.json")
    path.write_text(path.read_text().replace(old, new, 1))


def _answers(**columns: pl.Expr) -> None:
    change("to_review.csv", lambda rows: rows.with_columns(**columns))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a row that was not drawn": (
        lambda: _answers(review_id=pl.col("review_id").cast(pl.Int64) + N_ROWS),
        "which was not drawn",
    ),
    "an id that is not a number": (lambda: _answers(review_id=pl.lit("x")), "which was not drawn"),
    "an id twice": (
        lambda: change("to_review.csv", lambda rows: pl.concat([rows, rows.head(1)])),
        "twice",
    ),
    "an unknown answer": (lambda: _answers(fair_decision=pl.lit("perhaps")), "not an answer: give"),
    "no answer at all": (
        lambda: _answers(fair_decision=pl.lit(None, pl.String)),
        "has no answer yet",
    ),
    "no column of answers": (
        lambda: change("to_review.csv", lambda rows: rows.drop("fair_decision")),
        "no column 'fair_decision'",
    ),
    "a header alone": (lambda: change("to_review.csv", lambda rows: rows.head(0)), "no rows"),
    "an empty file": (lambda: Path("to_review.csv").write_text(""), "empty"),
    "a table in another order": (
        lambda: change(TABLE, lambda rows: rows.reverse()),
        "has changed since",
    ),
    "a table with another value": (
        lambda: change(TABLE, lambda rows: rows.with_columns(income=pl.lit("40.0"))),
        "has changed since",
    ),
    "no design": (lambda: Path("to_review.csv.design.json").unlink(), "there is no to_review.csv"),
    "an edited design": (lambda: _edit_design('"seed": 0', '"seed": 1'), "was edited"),
    "a chance that overflows": (
        lambda: _seal(probability=[1e-300] * 200),
        "a row that was drawn has a chance of 1e-09 to 1",
    ),
    "a chance above 1": (lambda: _seal(probability=[2.0] * 200), "has a chance of 1e-09 to 1"),
    "a row drawn twice": (lambda: _seal(rows=[1] * 200), "each is drawn once"),
    "a row beyond the table": (lambda: _seal(rows=[*range(199), 9999]), "not below 1500"),
    "an unknown quantity": (lambda: _seal(quantity="evil"), "quantity is"),
    "a table of other length": (lambda: _seal(n_rows=9999), "has changed since"),
    "a column of the table twice": (lambda: _seal(columns=["sex", "sex"]), "a column twice"),
    "a design cut in half": (
        lambda: Path("to_review.csv.design.json").write_text('{"format": "fairpc review"'),
        "truncated or altered",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_belong(
    case: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, sentence = BAD[case]
    spoil()
    before = names(work)
    ended = called(
        capsys, "review", MODEL, TABLE, "--reviewed", "to_review.csv", "-n", "10", "-o", "next.csv"
    )
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert names(work) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-n", "10", "-o", "to_review.csv"), "may hold answers"),
        (("-n", "10"), "go together"),
        (("--per-batch", "10"), "a part of -n"),
        (("-n", "9999", "-o", "next.csv"), "n is 9999"),
        (("-n", "10", "-o", "next.csv", "--by", "income"), "at most 20"),
        ((), "nothing to do"),
    ],
)
def test_options_that_do_not_fit(
    words: tuple[str, ...], sentence: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(work)
    ended = called(capsys, "review", MODEL, TABLE, *words)
    assert ended.code == 2
    assert sentence in ended.err
    assert names(work) == before


def test_rows_lost_on_the_way_leave_no_design(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("fairpc.data.write_table", fail)
    before = names(work)
    assert called(capsys, "review", MODEL, TABLE, "-n", "10", "-o", "next.csv").code == 2
    assert names(work) == before


@pytest.mark.parametrize(
    ("classes", "yes", "no"),
    [
        (("no", "yes"), ["Yes", "1", "TRUE", "1.0"], ["NO ", "0", "False"]),
        (("rejected", "approved"), ["Approved", "yes"], ["rejected", "no", "0"]),
        (("1", "2"), ["2", "yes", "true"], ["1", "no"]),
    ],
)
def test_words_for_answers(classes: tuple[str, str], yes: list[str], no: list[str]) -> None:
    assert files._understood(pl.Series(yes), classes) == [1.0] * len(yes)
    assert files._understood(pl.Series(no), classes) == [0.0] * len(no)


def test_words_that_could_mean_either_are_none() -> None:
    """Where 1 names the negative class, 0 has no meaning."""
    assert files._understood(pl.Series(["0"]), ("1", "2")) == [None]
