"""What stumbled when tables that nobody had seen before went through the commands."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import fairpc
from cli.calls import FIT, answer, called, names


def written(folder: Path, **columns: Sequence[object]) -> str:
    """The small table with more columns."""
    frame = pl.read_csv(folder / "t.csv").with_columns(
        **{k: pl.Series(v) for k, v in columns.items()}
    )
    frame.write_csv(folder / "more.csv")
    return "more.csv"


def test_a_copy_of_the_label_is_refused_with_the_option_that_leaves_it_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hired = pl.read_csv("t.csv")["hired"]
    table = written(folder, **{"not hired": [int(h == "no") for h in hired]})
    before = names(folder)
    ended = called(capsys, "fit", table, *FIT, "-o", "n.fairpc")
    assert ended.code == 2
    assert "column 'not hired' says the same as the label 'hired' in every row" in ended.err
    assert ended.err.endswith("or --drop 'not hired'\n")
    assert names(folder) == before
    ended = called(capsys, "fit", table, *FIT, "-o", "n.fairpc", "--drop", "not hired")
    assert ended.code == 0


@pytest.mark.filterwarnings("always::fairpc.errors.LeakWarning")
def test_columns_that_give_the_group_away_are_noted_with_options(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sex = pl.read_csv("t.csv")["sex"]
    rng = random.Random(0)
    first = [f"{s}{rng.randrange(10)}" for s in sex]
    ended = called(capsys, "fit", written(folder, first=first), *FIT, "-o", "n.fairpc")
    assert ended.code == 0
    assert "column 'first' gives the group 'sex' away" in ended.err
    assert "or --drop first" in ended.err


def test_a_threshold_is_kept_in_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "--threshold", "0.3")
    assert "The decision is yes above a score of 0.300." in ended.out
    assert called(capsys, "predict", "n.fairpc", "t.csv", "-o", "s.csv", "--decide").code == 0
    scored = pl.read_csv("s.csv")
    assert (scored["decision"] == "yes").to_list() == (scored["p_df_yes"] > 0.3).to_list()
    assert "score of" not in called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc").out


def test_a_model_is_written_although_nobody_reads_the_rest(folder: Path) -> None:
    """``fairpc fit … | head -1`` ended with 0 and without a model, when text came first."""
    fit = f'"{sys.executable}" -c "from fairpc.cli import main; main()" fit t.csv'
    script = f"set -o pipefail; {fit} {' '.join(FIT)} -v -o n.fairpc | head -1"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert (folder / "n.fairpc").exists()


@pytest.mark.parametrize("model", ["LatNB", "latent"])
def test_equal_rates_gives_each_group_a_threshold(
    model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("fit", "t.csv", *FIT[:6], "--model", model, "-o", "n.fairpc", "--equal-rates")
    found = answer(capsys, *given)
    loaded = fairpc.load("n.fairpc")
    assert tuple(found["thresholds"].values()) == loaded.threshold_.values
    frame = pl.read_csv("t.csv")
    decided = loaded.predict(frame.drop("hired")) == "yes"
    for group, rate in found["selection_rates"].items():
        assert rate == pytest.approx(decided[(frame["sex"] == group).to_numpy()].mean())
    rates = found["selection_rates"].values()
    assert max(rates) - min(rates) < 0.1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--threshold", "0.4"), "leave one of the two out"),
        (("--weight", "age"), "leave one of the two out"),
        (("--max-memory", "1GB"), "needs the whole table in memory"),
    ],
)
def test_equal_rates_refuses_what_it_cannot_do(
    more: tuple[str, ...], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "--equal-rates", *more)
    assert ended.code == 2
    assert words in ended.err


def test_every_command_that_writes_takes_the_same_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("demo", "fit", "predict", "audit", "export"):
        assert re.search(r"--output +-o ", called(capsys, command, "--help").out)


def test_help_shows_first_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    shown = called(capsys, "fit", "--help").out
    heads = re.findall(r"─ (\w+) ─", shown)
    assert heads == ["Arguments", "Options", "Columns", "Model", "Decisions", "Resources", "Output"]
    first = shown.partition("─ Options ─")[2].partition("─ Columns ─")[0]
    options = re.findall(r"(--[a-z]+)  ", first)
    assert options == ["--label", "--sensitive", "--output", "--positive", "--given", "--help"]
