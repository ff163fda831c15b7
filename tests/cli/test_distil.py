"""``fairpc distil``, and a table that its scorer decides."""

from __future__ import annotations

import shlex
from pathlib import Path

import polars as pl
import pytest

from cli.calls import FIT, answer, called

_EXPORT = ("export", "s.fairpc", "-o", "s.onnx")


def test_distil_and_predict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "distil", "m.fairpc", "t.csv", "-o", "s.fairpc")
    assert ended.code == 0, ended.err
    assert "A scorer without 'sex', learned from 120 rows." in ended.out
    assert "Decided as the fair decision, at the point of the model" in ended.out
    assert " %" not in ended.out
    for start in ("Next: fairpc ", "To audit it: fairpc "):
        (line,) = (said for said in ended.out.splitlines() if said.startswith(start))
        then = called(capsys, *shlex.split(line.removeprefix(start)))
        assert then.code == 0, then.err
    pl.read_csv("t.csv").drop("sex", "hired").write_csv("new.csv")
    found = answer(capsys, "predict", "s.fairpc", "new.csv", "--decide", "-o", "out.csv", "-q")
    assert found["added"] == ["p_df_no", "p_df_yes", "decision"]
    scored = pl.read_csv("out.csv")
    assert scored.height == 120
    assert set(scored["decision"]) <= {"no", "yes"}
    price = answer(capsys, "distil", "m.fairpc", "t.csv", "-o", "s.fairpc", "-q")["price"]
    assert 0 <= price["agreement"] <= 1


def test_rows_without_a_group_are_left_out_of_the_scorer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pl.read_csv("t.csv")
    known = ["distil", "m.fairpc", "known.csv", "-o", "k.fairpc"]
    table.slice(7).write_csv("known.csv")
    sex = pl.when(pl.int_range(pl.len()) < 7).then(None).otherwise(pl.col("sex")).alias("sex")
    table.with_columns(sex).write_csv("some.csv")
    ended = called(capsys, "distil", "m.fairpc", "some.csv", "-o", "s.fairpc")
    assert ended.code == 0, ended.err
    assert "the group of 7 rows is not known: left out" in ended.err
    assert "learned from 113 rows" in ended.out
    assert called(capsys, *known).code == 0
    assert Path("s.fairpc").read_bytes() == Path("k.fairpc").read_bytes()


def test_a_fit_says_that_the_group_is_an_input(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc")
    assert "Decisions use 'sex'. Where the law forbids that, `fairpc distil` makes" in ended.out
    crossed = called(capsys, "fit", "t.csv", *FIT, "--sensitive", "job", "-o", "n.fairpc")
    assert "makes a scorer without the group and" in crossed.out


def test_what_a_scorer_cannot(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "distil", "m.fairpc", "t.csv", "-o", "s.fairpc", "-q").code == 0
    bounds = called(capsys, "predict", "s.fairpc", "t.csv", "-o", "o.csv", "--bounds")
    assert bounds.code == 2
    assert "it has no --bounds" in bounds.err
    pl.read_csv("t.csv").drop("age").write_csv("less.csv")
    less = called(capsys, "predict", "s.fairpc", "less.csv", "-o", "o.csv")
    assert less.code == 2
    assert "has no column 'age', which the scorer needs" in less.err
    for call in (("audit", "s.fairpc", "t.csv"), ("inspect", "s.fairpc"), _EXPORT):
        ended = called(capsys, *call)
        assert ended.code == 2
        assert "is a scorer that distil made, and only predict takes it" in ended.err
    scored = {}
    for digits in ((), ("--all-digits",)):
        assert called(capsys, "predict", "s.fairpc", "t.csv", *digits, "-o", "o.csv").code == 0
        scored[digits] = pl.read_csv("o.csv")["p_df_yes"]
    assert scored[()].to_list() == scored["--all-digits",].round(6).to_list()


def test_a_decision_has_a_column_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(capsys, "distil", "m.fairpc", "t.csv", "-o", "s.fairpc", "-q").code == 0
    predicted = ("predict", "s.fairpc", "t.csv", "-o", "o.csv")
    ended = called(capsys, *predicted, "--decide-as", "p_df_yes")
    assert ended.code == 2
    assert "--decide-as is 'p_df_yes', a column that has scores" in ended.err
    there = called(capsys, *predicted, "--decide-as", "age")
    assert "has a column 'age' already" in there.err
