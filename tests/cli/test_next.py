"""The command that each command prints as the next one works as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from cli.calls import called
from fairpc.datasets import load_loans

N_ROWS = 800
LABEL = "--label approved --sensitive sex --positive yes"
DECIDED = f"{LABEL} --decision decided --score 'a score'"
STARTS = {
    f"fit loans.csv {LABEL} --structure chow-liu --delimiter ';' --name approved=no:refused -o m": (
        *("audit", "review", "audit", "review"),
    ),
    f"audit loans.csv {DECIDED} --drop 'file no' --given purpose -o a.html": (
        *("review", "audit"),  # all of so few rows are asked for: none are left
    ),
    f"audit loans.csv {DECIDED} --drop 'file no' --weight age": ("audit", "review"),
    f"review loans.csv {LABEL} --drop decided --drop 'a score' -n 80 -o drawn.csv": (
        *("review", "fit", "audit"),
    ),
    "data loans -o bundled.csv": ("fit",),
}


@pytest.fixture
def loans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pl.Series:
    """The working directory has a table of decisions; the truth of its rows."""
    data = load_loans("truth")
    rows = data.X.with_columns(sex=data.sensitive, approved=data.y, deserving=data.df).head(N_ROWS)
    high = pl.col("income") > 55
    decided = pl.when(high).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("decided")
    score = (pl.col("income") / 200).clip(0, 1).alias("a score")
    number = pl.int_range(pl.len()).alias("file no")
    monkeypatch.chdir(tmp_path)
    table = rows.drop("deserving").with_columns(decided, score, number)
    table.write_csv("loans.csv", separator=";")
    truth: pl.Series = rows["deserving"]
    return truth


QUICK = [start for start in STARTS if "fit" not in STARTS[start]]


@pytest.mark.parametrize(
    "start", [*QUICK, *(pytest.param(s, marks=pytest.mark.slow) for s in STARTS if s not in QUICK)]
)
def test_the_next_command_runs(
    loans: pl.Series, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(start)
    for then in (*STARTS[start], None):
        ended = called(capsys, *words)
        assert ended.code == 0, (words, ended.err)
        if words[0] == "review" and "-o" in words:
            _fill(words[words.index("-o") + 1], loans)
        if then is not None:
            [printed] = re.findall(r"^Next: fairpc (.*)$", ended.out, re.MULTILINE)
            words = shlex.split(printed)
            assert words[0] == then, printed


def _fill(path: str, truth: pl.Series) -> None:
    rows = pl.read_csv(path, separator=";" if ";" in Path(path).read_text() else ",")
    answers = truth[rows["review_id"].to_list()]
    rows.with_columns(fair_decision=answers).write_csv(path)
