"""fit, predict, query, audit and data, as a person with a table would use them."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from cli.calls import FIT, answer, called, names, small_table
from fairpc.datasets import load_loans
from fairpc.errors import InterruptedWarning

ODD_HEADER = '\ufeff"age in ""years""",\u804c\u4e1a, sex ,hired?\n'


def read(path: str) -> pl.DataFrame:
    if path.endswith(".parquet"):
        return pl.read_parquet(path)
    if path.endswith(".feather"):
        return pl.read_ipc(path)
    return pl.read_csv(path, separator="\t" if path.endswith(".tsv") else ",")


def test_fit_says_what_it_did(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("fit", "t.csv", *FIT, "-o", "n.fairpc", "--drop", "job")
    ended = called(capsys, *call)
    assert ended.code == 0
    assert ended.err == ""
    assert "\x1b" not in ended.out
    model = fairpc.load("n.fairpc")
    assert model.coding_.features.names == ("age",)
    verdict, *groups, _ = ended.out.splitlines()[:4]
    assert verdict.startswith("A point for each rate, without a range")
    for line, mechanism in zip(groups, model.bias_mechanism_, strict=True):
        point = f"{100 * mechanism[1, 0]:.1f}".removesuffix(".0")
        assert f": of those who deserved yes, {point} of 100 were recorded" in line
    assert "Read 120 rows of t.csv; 'hired': no (" in ended.out
    assert "; favourable: 'yes'\n" in ended.out
    assert ended.out.endswith("\nNext: fairpc audit n.fairpc t.csv -o report.html\n")
    assert "number in" not in ended.out
    more = called(capsys, *call, "-v").out
    assert re.search(r"^age +number in \d bins", more, re.MULTILINE)
    assert re.search(r"^job +dropped: left out on request", more, re.MULTILINE)


def test_a_group_with_hardly_any_label_is_of_unknown_group(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pl.read_csv("t.csv")
    label = pl.when(pl.int_range(pl.len()) < 6).then(None).otherwise(pl.col("hired"))
    sex = pl.when(pl.int_range(pl.len()) < 6).then(pl.lit("X")).otherwise(pl.col("sex"))
    table.with_columns(label.alias("hired"), sex.alias("sex")).write_csv("some.csv")
    ended = called(capsys, "fit", "some.csv", *FIT, "-o", "n.fairpc")
    assert ended.code == 0
    said = " ".join((ended.out + ended.err).split())
    assert "not known in 6 rows" in said.partition("Groups by")[2]


def test_fit_as_json_equals_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "--positive", "no")
    model = fairpc.load("n.fairpc")
    assert found["label"]["positive"] == model.positive_class_ == "no"
    assert [c["column"] for c in found["columns"]] == ["age", "job", "sex", "hired"]
    assert sum(found["groups"]["rows"].values()) == found["rows"] == 120
    for cell in found["learned"]["mechanism"]:
        s = list(model.coding_.groups.names).index(cell["group"])
        f, d = (list(model.classes_).index(cell[k]) for k in ("decision", "label"))
        assert cell["probability"] == pytest.approx(model.bias_mechanism_[s, f, d], abs=1e-12)


def test_types_can_be_corrected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = small_table().replace("clerk", "1").replace("cook", "2").replace("smith", "?")
    (folder / "u.csv").write_text(lines)
    before = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc")
    assert any("--missing '?'" in hint for hint in before["hints"])
    after = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc", "--missing", "?")
    job = {c["column"]: c for c in after["columns"]}["job"]
    assert job["values"] == ["1", "2"]
    assert job["missing"] > 0.2
    assert after["hints"] == []
    named = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc", "--categorical", "age")
    assert {c["column"]: c for c in named["columns"]}["age"]["kind"] == "category"
    numeric = ("--missing", "?", "--numeric", "job")
    binned = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc", *numeric)
    assert {c["column"]: c for c in binned["columns"]}["job"]["kind"] == "number"


def test_an_interrupted_fit_leaves_the_old_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimator gives back what it had so far; the command does not write that."""
    before = (folder / "m.fairpc").read_bytes()

    def cut_short(self: Any, *args: Any, **options: Any) -> Any:
        warnings.warn("interrupted", InterruptedWarning, stacklevel=1)
        return self

    monkeypatch.setattr(fairpc.FairPC, "fit", cut_short)
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "m.fairpc")
    assert ended.code == 130
    assert "interrupted" in ended.err
    assert (folder / "m.fairpc").read_bytes() == before


def test_numbers_read_as_names_are_pointed_out_with_the_words_that_repair_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pl.read_csv("t.csv").with_columns(pl.col("age").cast(pl.String))
    ages = ["inf", "not given", "-", *table["age"].to_list()[3:]]
    codes = pl.format("0{}", "age").alias("zip")  # nothing is to be repaired
    table.with_columns(codes, pl.Series("age", ages)).write_csv("odd.csv")
    found = answer(capsys, "fit", "odd.csv", *FIT, "-o", "n.fairpc")
    (hint,) = [hint for hint in found["hints"] if "is read as names" in hint]
    assert hint.startswith("'age' ")
    assert "although 97% of its values are numbers: to read numbers" in hint
    told = shlex.split(hint.partition("add ")[2].partition(";")[0])
    assert told == ["--missing", "-", "--missing", "inf", "--missing", "not given"]
    found = answer(capsys, "fit", "odd.csv", *FIT, "-o", "n.fairpc", *told)
    assert {c["column"]: c["kind"] for c in found["columns"]}["age"] == "number"
    assert not found["hints"]
    assert called(capsys, "predict", "n.fairpc", "odd.csv", "-o", "p.csv").code == 0
    many = [f"see {i}" if i % 5 == 0 else str(20 + i % 30) for i in range(120)]
    more = pl.concat([table, table, table])
    more.with_columns(pl.Series("age", many + ["30"] * 240)).write_csv("many.csv")
    found = answer(capsys, "fit", "many.csv", *FIT, "-o", "n.fairpc")
    assert any("empty its 24 different others ('see 0', " in hint for hint in found["hints"])


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_predict_appends_what_the_model_says(
    folder: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = pl.read_csv("t.csv")
    expected = fairpc.load("m.fairpc").predict_proba(typed)
    typed.write_parquet("t.parquet")
    for source in ("t.csv", "t.parquet"):
        output = f"o.{ending}"
        found = answer(capsys, "predict", "m.fairpc", source, "-o", output, "--decide")
        assert found["rows"] == 120
        scored = read(output)
        assert scored.columns == [*typed.columns, "p_df_no", "p_df_yes", "decision"]
        kept = scored.select(typed.columns).cast(typed.schema)
        assert kept.equals(typed)
        scores = scored.select("p_df_no", "p_df_yes").to_numpy()
        np.testing.assert_array_equal(scores, expected.round(6))
        chosen = np.where(expected[:, 1] > 0.5, "yes", "no")
        assert scored["decision"].to_list() == chosen.tolist()


def test_all_digits_of_scores_can_be_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "predict", "m.fairpc", "t.csv", "-o", "o.csv", "--all-digits").code == 0
    expected = fairpc.load("m.fairpc").predict_proba(pl.read_csv("t.csv"))
    scores = pl.read_csv("o.csv").select("p_df_no", "p_df_yes").to_numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_the_decision_may_have_another_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = pl.read_csv("t.csv").with_columns(decision=pl.lit("theirs"))
    typed.write_csv("d.csv")
    ended = called(capsys, "predict", "m.fairpc", "d.csv", "-o", "o.csv", "--decide")
    assert ended.code == 2
    assert "d.csv has a column 'decision' already" in ended.err
    assert "call it otherwise with --decide-as" in ended.err
    found = answer(capsys, "predict", "m.fairpc", "d.csv", "-o", "o.csv", "--decide-as", "ours")
    assert found["added"] == ["p_df_no", "p_df_yes", "ours"]
    scored = pl.read_csv("o.csv")
    assert scored["decision"].unique().to_list() == ["theirs"]
    assert scored["ours"].to_list() == fairpc.load("m.fairpc").predict(typed).tolist()
    ended = called(capsys, "predict", "m.fairpc", "d.csv", "-o", "o.csv", "--decide-as", "p_df_no")
    assert ended.code == 2
    assert "--decide-as is 'p_df_no', a column that has scores" in ended.err


def test_predict_says_how_many_rows_are_done_where_the_total_is_not_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    shown = nullcontext(lambda now: lines.append(now.line))
    monkeypatch.setattr("fairpc.models.progress", lambda shows: shown)
    monkeypatch.setattr("fairpc.cli._predict.BATCH", 50)
    assert called(capsys, "predict", "m.fairpc", "t.csv", "-o", "o.csv").code == 0
    assert lines == [f"{n} rows so far" for n in (0, 50, 100, 120)]


def test_predict_in_many_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(capsys, "predict", "m.fairpc", "t.csv", "-o", "whole.csv")
    monkeypatch.setattr("fairpc.cli._predict.BATCH", 7)
    table = (folder / "t.csv").read_text().replace("cook", "pilot")
    (folder / "t.csv").write_text(table)
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "parts.csv")
    assert ended.code == 0
    assert ended.err.count("'pilot', not seen at fit") == 1
    whole, parts = pl.read_csv("whole.csv"), pl.read_csv("parts.csv")
    same = whole["job"] != "cook"
    assert len(parts) == 120
    np.testing.assert_allclose(
        whole.filter(same)["p_df_yes"], parts.filter(same)["p_df_yes"], atol=1e-12
    )
    assert parts["job"].to_list() == [j.replace("cook", "pilot") for j in whole["job"]]


def test_an_error_in_a_later_batch_ends_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fairpc.cli._predict.BATCH", 7)
    with (folder / "t.csv").open("a") as file:
        file.write("old,clerk,F,yes\n")
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "o.parquet")
    assert ended.code == 2
    assert "column 'age' has 'old'" in ended.err
    assert names(folder) == ["m.fairpc", "t.csv"]


def test_an_absent_feature_counts_as_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = pl.read_csv("t.csv")
    people.drop("job").write_csv("u.csv")
    ended = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv")
    assert ended.code == 0
    assert "u.csv has no column 'job': that counts as missing in every row" in ended.err
    rows = people.with_columns(pl.lit(None, pl.String).alias("job"))
    expected = fairpc.load("m.fairpc").predict_proba(rows.drop("hired"))
    np.testing.assert_array_equal(pl.read_csv("o.csv")["p_df_yes"], expected[:, 1].round(6))
    assert pl.read_csv("o.csv").columns == ["age", "sex", "hired", "p_df_no", "p_df_yes"]


OTHERS = {
    "spelling": {"clerk": "Clerk", "cook": "Cook", "smith": "Smith"},
    "numbers": {"clerk": "1", "cook": "2", "smith": "3"},
    "booleans": {"clerk": True, "cook": True, "smith": False},
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_of_new_values_alone_is_refused_unless_it_is_allowed(
    folder: Path, others: dict[str, Any], ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    people = pl.read_csv("t.csv")
    new = people.with_columns(job=pl.Series([others[job] for job in people["job"]]))
    source = f"u.{ending}"
    new.write_csv(source) if ending == "csv" else new.write_parquet(source)
    for call in (("predict", "-o", "o.csv"), ("predict", "-o", "-"), ("audit", "-o", "a.html")):
        ended = called(capsys, call[0], "m.fairpc", source, *call[1:])
        assert ended.code == 2
        assert not ended.out
        assert f"{source}: none of the 120 values (" in ended.err
        assert ") of column 'job' was there at fit ('clerk', 'cook', 'smith'): " in ended.err
        assert "count as missing with --allow-unseen job" in ended.err
    assert names(folder) == ["m.fairpc", "t.csv", source]
    ended = called(capsys, "predict", "m.fairpc", source, "-o", "o.csv", "--allow-unseen", "job")
    assert ended.code == 0
    assert "none there at fit: all count as missing" in ended.err
    hidden = people.with_columns(job=pl.lit(None, pl.String)).drop("hired")
    truth = fairpc.load("m.fairpc").predict_proba(hidden)[:, 1]
    np.testing.assert_array_equal(pl.read_csv("o.csv")["p_df_yes"], truth.round(6))
    for more in ((), ("--max-memory", "1GB")):
        allowed = ("--allow-unseen", "job", "--fail-over", "1", "--quiet")
        assert called(capsys, "audit", "m.fairpc", source, *allowed, *more).code == 0


def test_a_value_of_the_fit_in_any_row_will_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fairpc.cli._tables._FIRST", 5)
    header, *lines = (folder / "t.csv").read_text().replace("cook", "clerk").splitlines()
    new = [line.replace("clerk", "pilot").replace("smith", "pilot") for line in lines]
    tables = {"late": [*new, "30,smith,F,yes"], "few": new[:19], "all": new[:20]}
    tables["sparse"] = [*(line.replace("pilot", "") for line in new), *new[:19]]
    for name, rows in tables.items():
        (folder / "u.csv").write_text("\n".join([header, *rows]))
        ended = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv")
        assert ended.code == (2 if name == "all" else 0), name
        assert ("'pilot', not seen at fit" in ended.err) == (name != "all")


def test_no_output_is_written_into_what_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "a.csv").write_text(small_table())
    (folder / "parts" / "b.csv").symlink_to("../t.csv")
    (folder / "link.csv").symlink_to("t.csv")
    (folder / "m.csv").write_bytes((folder / "m.fairpc").read_bytes())
    before = {p: p.read_bytes() for p in folder.rglob("*.csv")}
    calls = [
        ("m.fairpc", "t.csv", "link.csv"),
        ("m.fairpc", "link.csv", "t.csv"),
        ("m.fairpc", "parts", "parts/new.csv"),
        ("m.fairpc", "parts", "t.csv"),
        ("m.fairpc", "p*/*.csv", "parts/new.csv"),
        ("m.csv", "t.csv", "m.csv"),
    ]
    for model, table, output in calls:
        ended = called(capsys, "predict", model, table, "-o", output)
        assert ended.code == 2
        assert f"-o {output} would write into the input" in ended.err
    assert {p: p.read_bytes() for p in folder.rglob("*.csv")} == before
    assert called(capsys, "predict", "m.fairpc", "parts", "-o", "all.csv").code == 0


def test_rows_without_group_or_label_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = small_table().splitlines()
    for i, column in ((1, 2), (2, 2), (3, 3)):
        cells = lines[i].split(",")
        cells[column] = ""
        lines[i] = ",".join(cells)
    (folder / "u.csv").write_text("\n".join(lines) + "\n")
    found = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc")
    assert (found["groups"]["missing"], found["label"]["missing"]) == (2, 1)
    shown = called(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc").out
    assert re.search(r"^Groups by 'sex': .*; not known in 2 rows$", shown, re.MULTILINE)
    assert re.search(r"'hired': .*; not known in 1 row; favourable", shown)


def test_what_was_dropped_can_be_kept_by_an_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = small_table().splitlines()
    numbered = ["id," + lines[0], *(f"{i},{line}" for i, line in enumerate(lines[1:]))]
    (folder / "u.csv").write_text("\n".join(numbered) + "\n")
    columns = answer(capsys, "fit", "u.csv", *FIT, "-o", "n.fairpc")["columns"]
    assert columns[0]["done"].endswith("name it with numeric=… or categorical=… to keep it")


def test_a_single_row_is_one_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "u.csv").write_text(small_table(n_rows=1))
    ended = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv")
    assert "note: 1 row written to o.csv" in ended.err


def test_an_absent_group_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pl.read_csv("t.csv").drop("sex").write_csv("u.csv")
    ended = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv")
    assert ended.code == 0
    assert "no column 'sex'" in ended.err
    quiet = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")


def test_stdin_and_stdout(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.BytesIO((folder / "t.csv").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(given))
    ended = called(capsys, "predict", "m.fairpc", "-", "-o", "-", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert pl.read_csv(io.StringIO(ended.out)).shape == (120, 6)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_that_has_seen_enough_is_no_failure(folder: Path) -> None:
    (folder / "big.csv").write_text(small_table(n_rows=20_000))
    program = f"{sys.executable} -c 'from fairpc.cli import main; main()'"
    script = f"set -o pipefail; {program} predict m.fairpc big.csv -o - -q | head -1"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("age,")
    assert ended.stderr == ""


def test_odd_names_work_everywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.csv").write_text(ODD_HEADER + small_table().partition("\n")[2], "utf-8")
    roles = (
        "--label",
        "hired?",
        "--positive",
        "yes",
        "--sensitive",
        "sex",
        "--structure",
        "chow-liu",
    )
    found = answer(capsys, "fit", "odd.csv", *roles, "-o", "odd.fairpc")
    names = [c["column"] for c in found["columns"]]
    assert names == ['age in "years"', "\u804c\u4e1a", " sex ", "hired?"]
    answer(capsys, "predict", "odd.fairpc", "odd.csv", "-o", "o.csv")
    assert pl.read_csv("o.csv").shape == (120, 6)
    query = "Df=yes | 'age in \"years\"'=45, \u804c\u4e1a=cook, sex=F"
    found = answer(capsys, "query", "odd.fairpc", query)
    row = pl.DataFrame({'age in "years"': [45], "\u804c\u4e1a": ["cook"], " sex ": ["F"]})
    score = fairpc.load("odd.fairpc").predict_proba(row)[0, 1]
    assert found["probability"] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(
    folder: Path, delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = small_table().replace(",", f" {delimiter} ").replace("\n", "\r\n")
    (folder / "d.txt").write_text(text, newline="")
    found = answer(capsys, "fit", "d.txt", *FIT, "-o", "n.fairpc")
    assert found["label"]["classes"] == ["no", "yes"]
    called(capsys, "predict", "n.fairpc", "d.txt", "-o", "o.txt")
    assert (folder / "o.txt").read_text().count(delimiter) == 121 * 5


def test_another_encoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "l.csv").write_text(small_table().replace("cook", "caf\xe9"), "latin-1")
    found = answer(capsys, "fit", "l.csv", *FIT, "-o", "n.fairpc", "--encoding", "latin-1")
    assert "caf\xe9" in {c["column"]: c for c in found["columns"]}["job"]["values"]


def test_several_files_are_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "parts").mkdir()
    head, _, rest = small_table().partition("\n")
    lines = rest.splitlines()
    for i in range(3):
        part = "\n".join([head, *lines[40 * i : 40 * i + 40]])
        (folder / "parts" / f"{i}.csv").write_text(part + "\n")
    model = fairpc.load("m.fairpc")
    for table in ("parts", "parts/*.csv"):
        found = answer(capsys, "fit", table, *FIT, "-o", "n.fairpc")
        assert found["rows"] == 120
        assert fairpc.load("n.fairpc").data_fingerprint_ == model.data_fingerprint_


def test_query_shows_how_it_was_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "query", "m.fairpc", "Df=yes | 37 < age <= 48, sex=?")
    words = r"37 < age <= 48 is read as '.*'\nP\(Df = yes \| 37 < age <= 48\) = 0\.\d{6}"
    assert re.search(words, ended.out)
    assert "part of " in ended.out
    exact = called(capsys, "query", "m.fairpc", "Df=yes | age=37")
    assert "read as" not in exact.out
    every = called(capsys, "query", "m.fairpc", "Df | sex=F")
    assert "P(Df | sex = F)" in every.out
    quiet = called(capsys, "query", "m.fairpc", "Df=yes | sex=F", "--quiet")
    model = fairpc.load("m.fairpc")
    point, *ends = map(float, quiet.out.split())
    assert point == pytest.approx(model.probability({"Df": "yes"}, {"S": "F"}), abs=1e-9)
    assert np.isnan(ends).tolist() == [True, True]  # too few rows for a range


def test_audit_is_an_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(called(capsys, "audit", "m.fairpc", "t.csv", "--json", "--quiet").out)
    assert 0 < found["gap_upper"] < 1
    assert found["exceeded"] is False
    decisions = max(one["gap_upper"] for one in found["parity"]["decisions"])
    assert (found["gap"], found["gap_upper"]) == ("decisions", decisions)
    below, above = (str(found["gap_upper"] + step) for step in (0.01, -0.01))
    good = called(capsys, "audit", "m.fairpc", "t.csv", "--fail-over", below, "--quiet")
    assert (good.code, good.out, good.err) == (0, "", "")
    bad = called(capsys, "audit", "m.fairpc", "t.csv", "--fail-over", above, "--quiet")
    assert (bad.code, bad.out) == (1, "")
    assert f"in decisions may be as large as {found['gap_upper']:.4f}, which is more" in bad.err
    scores = max(one["gap_upper"] for one in found["parity"]["scores"])
    for gap, upper in {"scores": scores, "either": max(decisions, scores)}.items():
        call = ("audit", "m.fairpc", "t.csv", "--fail-over", "0", "--gap", gap, "--quiet")
        assert f"may be as large as {upper:.4f}, which is more" in called(capsys, *call).err


def test_a_gate_that_cannot_decide_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gaps of rows that are all alike are small, however the model treats people."""
    table = pl.read_csv(io.StringIO(small_table(1200))).with_columns(
        sex=pl.when(pl.int_range(pl.len()) < 400).then(pl.lit("X")).otherwise("sex")
    )
    table.write_csv("t.csv")
    for name, threshold in {
        "m": (),
        "never": ("--threshold", "1"),
        "all": ("--threshold", "0"),
    }.items():
        call = ("fit", "t.csv", *FIT, *threshold, "-o", f"{name}.fairpc", "-q")
        assert called(capsys, *call).code == 0
    table.with_columns(age=pl.lit(None), job=pl.lit(None)).write_csv("empty.csv")
    table.filter((pl.col("sex") != "X") | (pl.int_range(pl.len()) == 0)).write_csv("one.csv")
    cases = {
        ("m", "t", "either"): "",
        ("never", "t", "scores"): "",
        ("never", "t", "decisions"): "the model decides 'yes' for under 1% of every group",
        ("all", "t", "either"): "the model decides 'yes' for over 99% of every group",
        ("m", "empty", "decisions"): "all rows of a group have the same score",
        ("m", "empty", "scores"): "all rows of a group have the same score",
        ("m", "one", "scores"): "group 'X' has too few rows",
    }
    for (model, of, gap), why in cases.items():
        call = ("audit", f"{model}.fairpc", f"{of}.csv", "--fail-over", "0.3", "--gap", gap)
        ended = called(capsys, *call, "-q")
        assert (ended.code, ended.out) == (int(bool(why)), "")
        said = f"fairpc: --fail-over cannot be decided: {why}"
        assert (said in ended.err) if why else not ended.err
    shown = called(capsys, "audit", "all.fairpc", "empty.csv", "--fail-over", "0.3", "--json")
    assert shown.code == 1
    assert "the same score" in json.loads(shown.out)["undecided"]


@pytest.mark.parametrize(
    ("name", "rows", "options"),
    [("german", 1000, ()), ("compas", 7214, ()), ("synthetic", 50, ("--rows", "50"))],
)
def test_data_is_a_table(
    folder: Path, name: str, rows: int, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "data", name, "-o", f"{name}.csv", *options)
    frame = pl.read_csv(f"{name}.csv", infer_schema_length=None)
    assert frame.columns == list(found["columns"])
    assert len(frame) == found["rows"] == rows
    assert {found["label"], found["sensitive"]} <= set(frame.columns)


def test_data_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert [d["name"] for d in answer(capsys, "data")][:2] == ["loans", "adult"]
    ended = called(capsys, "data")
    assert "german" in ended.out
    assert "fairpc data NAME -o FILE" in ended.out


def test_colours_on_a_terminal_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "-v")
    assert ended.code == 0
    assert "\x1b[1m" in ended.out
    assert "─" in ended.out


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with ranges, of loans, and its table."""
    folder, found = tmp_path_factory.mktemp("loans"), load_loans()
    X, y = found.X[:1_500, :3], found.y[:1_500]
    sex = found.sensitive[:1_500]
    fairpc.FairPC("sex", structure="chow-liu", positive="yes", random_state=0).fit(
        X.with_columns(sex=sex), y
    ).save(folder / "m.fairpc")
    X.with_columns(sex=sex, approved=y).write_csv(folder / "t.csv")
    return folder


def test_what_depends_on_the_mechanism_has_its_range(
    loans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = str(loans / "m.fairpc"), fairpc.load(loans / "m.fairpc")
    low, high = model.mechanism_range_[0, 1]
    question = "D=yes | Df=yes, sex=F"
    found = answer(capsys, "query", path, question)
    assert (found["lower"], found["upper"]) == pytest.approx((low, high))
    assert found["rows"][0]["lower"] == found["lower"]
    assert found["depends_on_mechanism"]
    assert None not in (found["given_lower"], found["given_upper"])
    quiet = called(capsys, "query", path, question, "-q").out.split()
    assert [*map(float, quiet[1:])] == pytest.approx([low, high])
    for asked in (question, "D, Df | sex=F", "sex=F | Df=yes"):
        assert "if the assumptions hold" in called(capsys, "query", path, asked).out
    observed = called(capsys, "query", path, "sex=F | D=yes")
    assert "assumptions" not in observed.out
    found = answer(capsys, "query", path, "sex=F | D=yes")
    assert not found["depends_on_mechanism"]
    assert (found["lower"], found["upper"]) == (None, None)


def test_the_mean_score_has_its_range(loans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, table, out = (str(loans / name) for name in ("m.fairpc", "t.csv", "o.csv"))
    scored = answer(capsys, "predict", path, table, "-o", out, "--bounds", "--level", "0.95")
    ends = pl.read_csv(out)["p_df_lower", "p_df_upper"].mean().row(0)
    assert (scored["mean_score_lower"], scored["mean_score_upper"]) == pytest.approx(ends, abs=1e-5)
    assert ends[0] <= scored["mean_score"] <= ends[1]
    plain = answer(capsys, "predict", path, table, "-o", out)
    assert plain["mean_score_lower"] == scored["mean_score_lower"]
    assert plain["mean_score_upper"] == scored["mean_score_upper"]
    for more in ([], ["--bounds"]):
        ended = called(capsys, "predict", path, table, "-o", out, *more)
        assert "if the assumptions hold" in ended.err
