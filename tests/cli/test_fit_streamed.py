"""``fairpc fit`` of a table that is streamed says and learns what it does of one in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import called
from fairpc.models import load
from models.drifting import drifting


def written(folder: Path, kind: str) -> Path:
    rng = np.random.default_rng(0)
    n = 600
    f = rng.random(n) < 0.5
    frame = pl.DataFrame(
        {
            "sex": rng.choice([" 1", "2 "] if kind == "csv" else ["1", "2"], n),
            "granted": ["" if r < 0.03 else str(int(r < 0.5)) for r in rng.random(n)],
            "x": (rng.random(n) < np.where(f, 0.8, 0.3)).astype(int),
            "age": rng.integers(18, 70, n) + 3 * f,
            "town": rng.choice(["Rome", "Oslo", "?"], n),
            "id": np.arange(n),
        }
    )
    path = folder / f"t.{kind}"
    (frame.write_csv if kind == "csv" else frame.write_parquet)(path)
    return path


ROLES = ("--label", "granted", "--positive", "1", "--sensitive", "sex")
OPTIONS = ("--drop", "id", "--missing", "?", "--structure", "chow-liu")


def fitted(table: Path, model: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    call = ("fit", str(table), *ROLES, *OPTIONS, "-o", str(model), "--json", *more)
    ended = called(capsys, *call)
    assert not ended.code, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_streamed_fit_is_the_fit(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = written(tmp_path, kind)
    whole = fitted(table, tmp_path / "whole.json", capsys)
    ours = fitted(table, tmp_path / "streamed.json", capsys, "--max-memory", "1GB")
    for name in ("rows", "label", "groups", "learned", "iterations", "converged"):
        assert ours[name] == whole[name], name
    assert ours["log_likelihood_per_row"] == pytest.approx(whole["log_likelihood_per_row"])
    done = [{k: r[k] for k in ("column", "used", "values")} for r in ours["columns"]]
    assert done == [{k: r[k] for k in ("column", "used", "values")} for r in whole["columns"]]
    models = [load(tmp_path / name) for name in ("whole.json", "streamed.json")]
    one, two = (m.circuit_.parameters for m in models)
    assert np.array_equal(one, two)


@pytest.mark.parametrize("more", [(), ("--max-memory", "1GB")])
def test_the_likelihood_is_of_all_rows_of_the_table(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a search for structure held some of them out."""
    table = written(tmp_path, "parquet")
    call = ("fit", str(table), *ROLES, "--structure", "strudel", "-o", str(tmp_path / "m.json"))
    found = json.loads(called(capsys, *call, "--json", *more).out)
    frame = pl.read_parquet(table)
    model = load(tmp_path / "m.json")
    scores = model.score_samples(frame.drop("granted"), frame["granted"])
    coding = model.coding_.features  # EM sees no more of a number than its bin
    scores -= coding.log_density(coding.transform(frame.drop("granted")))
    assert found["log_likelihood_per_row"] == pytest.approx(scores.mean(), rel=1e-12)


def test_a_streamed_fit_gives_the_same_hints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = written(tmp_path, "csv")
    text = table.read_text().replace("Oslo", "unknown")
    table.write_text(re.sub(r",(\d\d),", r",\1 years,", text, count=9))
    call = ("fit", str(table), *ROLES, "-o", str(tmp_path / "m.json"), "--json")
    whole, ours = (
        json.loads(called(capsys, *call, "--structure", "chow-liu", *more).out)["hints"]
        for more in ((), ("--max-memory", "1GB"))
    )
    assert ours == whole
    said = "'?' is read", "'unknown' is read", "'age' is read"
    for hint, words in zip(ours, said, strict=True):
        assert words in hint


def test_a_bad_limit_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("fit", str(written(tmp_path, "csv")), *ROLES, "-o", str(tmp_path / "m.json"))
    ended = called(capsys, *call, "--max-memory", "plenty")
    assert ended.code == 2
    assert "max_memory is 'plenty': give bytes" in ended.err


@pytest.mark.filterwarnings("default::fairpc.errors.DriftWarning")
def test_a_drift_is_noted_and_in_the_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X, d, s = drifting()
    path, model = tmp_path / "t.csv", tmp_path / "model.json"
    X.with_columns(granted=pl.Series(d), sex=pl.Series(s)).write_csv(path)
    call = ("fit", str(path), *ROLES, "--model", "LatNB", "-o", str(model))
    shown = called(capsys, *call, "--json")
    assert not shown.code, shown.err
    found = json.loads(shown.out)
    assert tuple(found["warnings"]) == load(model).warnings_ != ()
    assert all(f"note: {sentence}" in shown.err for sentence in found["warnings"])
    assert found["learned"]["sentences"] == []
    assert "whose fair decision is" not in called(capsys, *call).out
