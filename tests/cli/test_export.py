"""``fairpc export``: the file, what is said of it, and what is refused."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cli.calls import answer, called, names
from exporting.scored import imported


def predicted(capsys: pytest.CaptureFixture[str]) -> list[tuple[float, float]]:
    call = ("predict", "m.fairpc", "t.csv", "-o", "out.csv", "--all-digits")
    assert called(capsys, *call).code == 0
    with Path("out.csv").open(encoding="utf-8") as file:
        return [(float(r["p_df_no"]), float(r["p_df_yes"])) for r in csv.DictReader(file)]


def test_a_python_file_scores_rows_of_the_csv_module(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "export", "m.fairpc", "-o", "scorer.py")
    assert ended.code == 0
    assert "scorer.py gives P(Df = class | row) for no, yes, from 3 columns: sex, age, job." in (
        " ".join(ended.out.split())
    )
    with Path("t.csv").open(encoding="utf-8") as file:
        found = imported(folder / "scorer.py").predict_proba_rows(csv.DictReader(file))
    np.testing.assert_allclose(found, predicted(capsys), rtol=0, atol=1e-12)


def test_a_query_scores_a_table_that_sqlite_holds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = answer(capsys, "export", "m.fairpc", "-o", "m.sql", "--table", "people")
    assert facts["format"] == "sql"
    assert facts["model_file"] == "m.fairpc"
    assert facts["inputs"] == {"sex": "text", "age": "number", "job": "text"}
    with (
        Path("t.csv").open(encoding="utf-8") as file,
        closing(sqlite3.connect(":memory:")) as database,
    ):
        header, *rows = csv.reader(file)
        database.execute(f"CREATE TABLE people ({', '.join(header)})")
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
        cursor = database.execute(Path("m.sql").read_text("utf-8"))
        shown = [column[0] for column in cursor.description]
        found = [row[-2:] for row in cursor]
    assert shown == ["fairpc_row", *header, "p_df_no", "p_df_yes"]
    np.testing.assert_allclose(found, predicted(capsys), rtol=0, atol=1e-12)


def test_the_next_steps_score_a_csv_file_with_sqlite(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "export", "m.fairpc", "-o", "m.sql")
    found = re.search(r"Next: (sqlite3 .*), then (sqlite3 .*)", ended.out)
    assert found is not None
    ended = called(capsys, "export", "m.fairpc", "-o", "n.sql", "--table", "a.b")
    assert "Next: put your rows into the table a.b, then sqlite3 " in ended.out
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    shutil.copy("t.csv", "rows.csv")
    for command in found.groups():
        out = subprocess.check_output(["bash", "-c", command], text=True)
    scores = [(float(r["p_df_no"]), float(r["p_df_yes"])) for r in csv.DictReader(io.StringIO(out))]
    np.testing.assert_allclose(scores, predicted(capsys), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("m.fairpc", "-o", "m.pmml"), "use .onnx, .sql or .py"),
        (("m.fairpc", "-o", "m.py", "--table", "t"), "only a query names a table"),
        (("m.fairpc", "-o", "m.sql", "--table", ""), "give a name, or schema.name"),
        (("none.fairpc", "-o", "m.py"), "there is no model none.fairpc"),
        (("t.csv", "-o", "m.py"), "t.csv is not a model"),
        (("m.fairpc",), "-o"),
        (("own.py", "-o", "own.py"), "own.py"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    Path("own.py").write_bytes(Path("m.fairpc").read_bytes())
    before = {name: Path(name).read_bytes() for name in names(folder)}
    ended = called(capsys, "export", *arguments)
    assert ended.code == 2
    assert sentence in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert {name: Path(name).read_bytes() for name in names(folder)} == before


def test_a_latent_decision_is_refused_by_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--label", "hired", "--positive", "yes", "--sensitive", "sex", "--model", "latent")
    more = ("--classifier", "logistic", "--quiet")
    assert called(capsys, "fit", "t.csv", *given, *more, "-o", "l.fairpc").code == 0
    ended = called(capsys, "export", "l.fairpc", "-o", "l.onnx")
    assert ended.code == 2
    said = " ".join(ended.err.split())
    assert "LatentDecision scores with classifiers" in said
    assert "or `fairpc predict`" in said
