"""How tables come in on the command line: numbers as people write them, weights, levels."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.calls import FIT, HEADER, answer, called, small_table
from fairpc import load

pytestmark = [
    pytest.mark.filterwarnings("always::fairpc.errors.ColumnWarning"),
    pytest.mark.filterwarnings("always::fairpc.errors.GroupWarning"),
]


COMMA = ("--decimal", ",")


def european(text: str) -> str:
    """The small table as a German spreadsheet writes it: ages and amounts with decimals."""
    lines = [f"{HEADER.replace(',', ';')};pay"]
    for i, row in enumerate(csv.DictReader(text.splitlines())):
        age = int(row["age"])
        pay = f"{age * 101 + i % 5},50"
        lines.append(f"{age},5;{row['job']};{row['sex']};{row['hired']};{pay}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eu.csv").write_text(european(small_table()))
    (tmp_path / "t.csv").write_text(small_table())
    return tmp_path


def test_numbers_behind_a_comma_are_numbers_where_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(capsys, "fit", "eu.csv", *FIT, *COMMA, "-o", "m.fairpc").code == 0
    columns = {c.name: c for c in load("m.fairpc").coding_.features.columns}
    assert (columns["age"].kind, columns["pay"].kind) == ("number", "number")
    assert columns["pay"].decimal == ","
    assert called(capsys, "predict", "m.fairpc", "eu.csv", "-o", "out.csv").code == 0


def test_a_table_typed_otherwise_is_refused_by_column(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(capsys, "fit", "eu.csv", *FIT, *COMMA, "-o", "m.fairpc", "-q").code == 0
    text = Path("eu.csv").read_text()
    Path("words.csv").write_text(text.replace(",50", " euros"))
    ended = called(capsys, "predict", "m.fairpc", "words.csv", "-o", "out.csv")
    assert ended.code == 2
    assert "column 'pay' has" in ended.err
    assert "it held numbers at fit, written like 1234,5" in ended.err
    assert not Path("out.csv").exists()


@pytest.mark.parametrize("more", [(), ("--max-memory", "1GB")], ids=["whole", "streamed"])
def test_the_decimal_mark_can_be_said(
    more: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(
        f"{row['job']};{row['sex']};{row['hired']};{1 + i % 9},{100 + 10 * (i % 7)}"
        for i, row in enumerate(csv.DictReader(small_table().splitlines()))
    )
    Path("p.csv").write_text(f"job;sex;hired;pay\n{text}\n")
    for said in ((), COMMA):
        assert called(capsys, "fit", "p.csv", *FIT, "-o", "m.fairpc", *said, *more).code == 0
        kinds = {c.name: c.kind for c in load("m.fairpc").coding_.features.columns}
        assert (kinds.get("pay") == "number") == bool(said)
    ended = called(capsys, "fit", "p.csv", *FIT, "-o", "m.fairpc", "--decimal", ";")
    assert ended.code == 2
    assert "';' is not one of" in ended.err


def test_a_number_for_missing_holds_in_every_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader(small_table(400).splitlines()))
    for name, cell in (("coded", "999.0"), ("empty", "")):
        ages = [cell if i % 4 == 0 else row["age"] for i, row in enumerate(rows)]
        lines = [f"{a},{r['job']},{r['sex']},{r['hired']}" for a, r in zip(ages, rows, strict=True)]
        Path(f"{name}.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    fit = (
        "--label",
        "hired",
        "--positive",
        "yes",
        "--sensitive",
        "sex",
        "--model",
        "LatNB",
        "--missing",
        "999",
    )
    for name in ("coded", "empty"):
        assert called(capsys, "fit", f"{name}.csv", *fit, "-o", f"{name}.fairpc", "-q").code == 0
    scores = {}
    for model in ("coded", "empty"):
        for table in ("coded", "empty"):
            words = ("predict", f"{model}.fairpc", f"{table}.csv", "-o", "out.csv", "-q")
            assert called(capsys, *words).code == 0
            scored = csv.DictReader(Path("out.csv").read_text().splitlines())
            scores[model, table] = [row["p_df_yes"] for row in scored]
    assert len({tuple(s) for s in scores.values()}) == 1
    gate = ("--fail-over", "0", "--gap", "scores", "-q")
    gaps = {
        called(capsys, "audit", "coded.fairpc", f"{table}.csv", *gate).err
        for table in ("coded", "empty")
    }
    assert len(gaps) == 1
    assert "in scores may be as large as" in gaps.pop()
    unknown = answer(capsys, "query", "coded.fairpc", "Df=yes | age=?")
    for value in ("999", "999.0"):
        asked = answer(capsys, "query", "coded.fairpc", f"Df=yes | age={value}")
        assert asked["probability"] == unknown["probability"]
        assert asked["read_as"][0] == {"term": f"age = {value}", "values": ["?"]}
    ended = called(capsys, "query", "coded.fairpc", "age=999.0 | sex=F")
    assert "'999.0' means missing in 'age'" in ended.err


def test_weights_are_rows_that_are_repeated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = small_table().splitlines()
    times = [1 + i % 3 for i in range(len(rows))]
    weighted = [f"{row},{n}" for row, n in zip(rows, times, strict=True)]
    Path("w.csv").write_text("\n".join([f"{head},n", *weighted]) + "\n")
    repeated = [row for row, n in zip(rows, times, strict=True) for _ in range(n)]
    Path("r.csv").write_text("\n".join([head, *repeated]) + "\n")
    found = answer(capsys, "fit", "w.csv", *FIT, "--weight", "n", "-o", "w.fairpc")
    expected = answer(capsys, "fit", "r.csv", *FIT, "-o", "r.fairpc")
    rates = found["learned"]["decision_rate"], expected["learned"]["decision_rate"]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    done = {c["column"]: c["done"] for c in found["columns"]}
    assert done["n"] == "weight of the rows"
    (hint,) = found["hints"]
    assert "whole weights count rows" in hint
    assert "if 'n' has survey weights, divide them by their mean" in hint
    text = Path("w.csv").read_text().replace("\n", ".5\n").replace(f"{head},n.5", f"{head},n")
    Path("f.csv").write_text(text)
    for more in ((), ("--max-memory", "1GB")):
        told = answer(capsys, "fit", "w.csv", *FIT, "--weight", "n", *more, "-o", "f.fairpc")
        assert told["hints"] == [hint]
        told = answer(capsys, "fit", "f.csv", *FIT, "--weight", "n", *more, "-o", "f.fairpc")
        assert told["hints"] == []
    ended = called(capsys, "fit", "w.csv", *FIT, "--weight", "sex", "-o", "x.fairpc")
    assert ended.code == 2
    assert "is given as --weight and as --sensitive" in ended.err


def test_what_a_fit_was_told_of_its_table_holds_for_the_next(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = small_table(400).replace("cook", "K\xf6chin").replace(",", "~").splitlines()
    weights = ["W", *(str(1 + 6 * (i % 3)) for i in range(400))]
    text = "\n".join(f"{line}~{w}" for line, w in zip(lines, weights, strict=True)) + "\n"
    Path("old.csv").write_text(text, encoding="cp1252")
    told = ("--weight", "W", "--encoding", "cp1252", "--delimiter", "~")
    fit = ("--label", "hired", "--sensitive", "sex", "--model", "LatNB", "--positive", "no")
    ended = called(capsys, "fit", "old.csv", *fit, *told, "-o", "w.fairpc")
    again = "w.fairpc old.csv --delimiter '~' --encoding cp1252 -o report.html"
    assert f"\nNext: fairpc audit {again}\n" in ended.out

    def gap(table: str, *more: str) -> str:
        ended = called(capsys, "audit", "w.fairpc", table, "--fail-over", "0", "-q", *more)
        return ended.err.splitlines()[-1]

    assert "may be as large as" in gap("old.csv")
    assert gap("old.csv", *told) == gap("old.csv")
    assert gap("old.csv", "--weight", "") != gap("old.csv")
    # What is written in UTF-8 is read as such, and a table without weights has none.
    Path("new.csv").write_text(text.replace("~", ";"), encoding="utf-8")
    assert gap("new.csv", "--delimiter", ";") == gap("old.csv")
    Path("bare.csv").write_text("\n".join(lines), encoding="utf-8")
    ended = called(capsys, "audit", "w.fairpc", "bare.csv", "--fail-over", "1")
    assert "the column of weights of the fit, 'W', is not in bare.csv" in ended.err
    assert called(capsys, "predict", "w.fairpc", "old.csv", "-o", "out.csv").code == 0
    assert "K\xf6chin" in Path("out.csv").read_text("utf-8")
    ended = called(capsys, "predict", "w.fairpc", "t.csv", "-o", "out.csv")
    assert "none of the features of the model" in ended.err
    assert "give --delimiter" in ended.err


def test_many_groups_are_warned_of_before_the_fit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = small_table(300).splitlines()
    rows = [f"{line},g{i % 50 if i > 50 else i % 2}" for i, line in enumerate(lines[1:])]
    Path("g.csv").write_text("\n".join([f"{HEADER},unit", *rows]) + "\n")
    given = ("--label", "hired", "--positive", "yes", "--sensitive", "unit")
    ended = called(capsys, "fit", "g.csv", *given, "--model", "TwoNB", "-o", "m.fairpc")
    assert "'unit' makes 50 groups" in ended.err


def test_a_query_needs_a_value_behind_the_bar(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "query", "m.fairpc", "Df=yes | sex")
    assert ended.code == 2
    assert "'sex' stands after the bar without a value" in ended.err


def test_prior_rows_choose_the_point_where_they_are_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each point is also given without them, and none where they outweigh the rows."""
    asked = ("fit", "t.csv", *FIT, "-o", "p.fairpc", "--mechanism-prior")
    learned = answer(capsys, *asked, "30")["learned"]
    model = load("p.fairpc")
    assert model.prior_rows_ == learned["prior_rows"] == 30
    for cell in learned["mechanism"]:
        own = [c for c in learned["mechanism"] if c["group"] == cell["group"]]
        rows = {c["label"]: c["estimated_labels"] for c in own if c["decision"] == cell["decision"]}
        assert cell["mostly_prior"] == (sum(rows.values()) < 30)
    bare = np.asarray(model.mechanism_without_prior_).ravel().tolist()
    assert [cell["without_prior"] for cell in learned["mechanism"]] == pytest.approx(bare)
    assert " without prior rows)" in called(capsys, *asked, "30").out
    out = called(capsys, *asked, "9999").out
    assert "of those who deserved yes, an unknown number (mostly prior) were recorded no" in out
    assert called(capsys, "audit", "p.fairpc", "t.csv", "-o", "p.html", "-q").code == 0
    page = Path("p.html").read_text()
    assert "Point without prior rows" in page
    assert "none: mostly prior rows" in page
    for other in ("latent", "TwoNB"):
        words = ("--label", "hired", "--positive", "yes", "--sensitive", "sex", "--model", other)
        ended = called(capsys, "fit", "t.csv", *words, "--mechanism-prior", "30", "-o", "n.fairpc")
        assert ended.code == 2
        assert f"--mechanism-prior is not for --model {other}" in ended.err


SCORES = {
    "0,5": "",
    "50,0": "column 'a score' (--score) is 50,0 in data row 1: scores lie between 0 and 1, divide",
    "500": "(--score) is 500 in data row 1: scores lie between 0 and 1, give such scores",
    "high": "column 'a score' (--score) holds something other than numbers",
}


@pytest.mark.parametrize("score", SCORES)
def test_scores_as_a_table_has_them(
    folder: Path, score: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decimal commas are read; what is not from 0 to 1 is named as a spreadsheet counts it."""
    decided = pl.Series(["yes", "no"] * 60)
    table = pl.read_csv("t.csv").with_columns(
        decided.alias("decided"), pl.lit(score).alias("a score")
    )
    table.write_csv("scored.csv", separator=";")
    roles = ("--label", "hired", "--positive", "yes", "--sensitive", "sex", "--decision", "decided")
    scored = ("--score", "a score", *COMMA)
    call = ("audit", "scored.csv", *roles, *scored, "--fail-over", "1", "-q")
    ended = called(capsys, *call)
    assert (ended.code == 2) == bool(SCORES[score]), ended.err
    assert SCORES[score] in ended.err
