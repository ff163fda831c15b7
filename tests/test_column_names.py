"""Columns whose names polars takes for patterns, or uses itself, are columns like any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import called
from fairpc import FairPC, LatentDecision, LatNB, audit, load
from fairpc.data import _files as files
from fairpc.errors import TableWarning
from fairpc.models import Vocabulary, parse

PLAIN = ("group", "label", "kind", "size", "since", "seen")
ODD = ("^a$", "*", "^.*$", "^kind$", "len", "literal")
"""Two that would match no column, one that would match all, one that would match another."""


def table(names: tuple[str, ...], n: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    f, s = rng.random(n) < 0.5, rng.choice(["u", "v"], n)
    holes = rng.random(n) < 0.1
    columns: tuple[Any, ...] = (
        s,
        np.where(f ^ (rng.random(n) < np.where(s == "u", 0.3, 0.1)), "yes", "no"),
        [None if h else str(k) for h, k in zip(holes, np.where(f, "p", "q"), strict=True)],
        rng.normal(size=n) + f,
        np.datetime64("2020-01-01") + rng.integers(0, 500, n),
        rng.integers(0, 5, n) + f,
    )
    return pl.DataFrame(dict(zip(names, columns, strict=True)))


def write(frame: pl.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_ipc(path)
    return path


def scores(names: tuple[str, ...], source: Any, frame: pl.DataFrame, **more: Any) -> Any:
    model = LatNB(names[0], random_state=0, max_iter=20)
    if isinstance(source, Path | pl.LazyFrame):
        model.fit(source, names[1], **more)
    else:
        label = pl.Series("", frame[names[1]].to_list())
        X = frame[[n for n in names if n != names[1]]]
        model.fit(X if source is None else source(X), label, **more)
    return model.predict_proba(frame)


def both(make: Any) -> tuple[Any, Any]:
    """What is found under plain names and under odd ones."""
    return make(PLAIN, table(PLAIN)), make(ODD, table(ODD))


@pytest.mark.parametrize("convert", [None, lambda X: X.to_pandas(), lambda X: X.to_arrow()])
def test_frames(convert: Any) -> None:
    one, two = both(lambda names, frame: scores(names, convert, frame))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("n_files", [1, 2])
def test_files(suffix: str, n_files: int, tmp_path: Path) -> None:
    def fitted(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        folder = tmp_path / names[0].strip("^$")
        folder.mkdir()
        step = len(frame) // n_files
        for k in range(n_files):
            part = frame[k * step : (k + 1) * step]
            if k:  # another order of columns
                part = part[list(reversed(part.columns))]
            write(part, folder / f"{k}{suffix}")
        source = folder if n_files > 1 else folder / f"0{suffix}"
        return scores(names, source, frame)

    one, two = both(fitted)
    assert np.array_equal(one, two)


def test_types_that_differ_between_files(tmp_path: Path) -> None:
    frame = table(ODD)
    other = pl.DataFrame([c.cast(pl.Int16) if c.name == "literal" else c for c in frame])
    write(frame, tmp_path / "0.parquet")
    write(other, tmp_path / "1.parquet")
    read = files.find(tmp_path).read()
    assert read["literal"].dtype == pl.Int64
    assert read.equals(pl.concat([frame, frame]))


def test_a_lazy_frame() -> None:
    one, two = both(lambda names, frame: scores(names, frame.lazy(), frame))
    assert np.array_equal(one, two)


def test_a_classifier(tmp_path: Path) -> None:
    def fitted(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        X = frame[[n for n in names if n != names[1]]]
        model = LatentDecision(sensitive=[names[0]], cv=2, random_state=0)
        model.fit(X, frame[names[1]]).save(tmp_path / "m")
        without = X[[n for n in X.columns if n != names[0]]]
        with pytest.warns(TableWarning, match="whose group is not known have no score"):
            nothing = load(tmp_path / "m").predict_proba(without)
        assert np.isnan(nothing).all()
        return load(tmp_path / "m").predict_proba(X)

    one, two = both(fitted)
    assert np.array_equal(one, two)


def test_strata_and_weights() -> None:
    def fitted(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        model = FairPC(names[0], given=[names[2]], structure="forest", random_state=0)
        X = frame[[n for n in names if n not in (names[1], names[5])]]
        weights = pl.Series(names[5], frame[names[5]] + 0.5)
        model.fit(X, frame[names[1]], sample_weight=weights)
        return model.predict_proba(X)

    one, two = both(fitted)
    assert np.array_equal(one, two)


def test_an_audit() -> None:
    def audited(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        X = frame[[n for n in names if n != names[1]]]
        model = LatNB(names[0], random_state=0, max_iter=20).fit(X, frame[names[1]])
        few: Any = {"n_seeds": 1, "classifier": "logistic"}
        found = audit(model, X, frame[names[1]], random_state=0, **few)
        assert found.parity is not None
        return replace(found.parity, categories=())  # which name the sensitive columns

    one, two = both(audited)
    assert one == two


def test_a_query() -> None:
    frame = table(ODD)
    model = LatNB("^a$", random_state=0, max_iter=5).fit(frame[[ODD[0], *ODD[2:]]], frame["*"])
    coding = model.coding_
    words = Vocabulary(model.distribution_, coding.features, coding.labels, coding.groups)
    assert 0 < words.answer(parse("Df=yes | ^.*$=p, ^a$=u")).rows[0][1] < 1


def test_dask(tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")

    def fitted(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        parts = dd.from_pandas(frame.to_pandas(), npartitions=2)
        model = LatNB(names[0], random_state=0, max_iter=20).fit(parts, names[1])
        return model.predict_proba(frame)

    one, two = both(fitted)
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    "suffix", [".csv", *(pytest.param(s, marks=pytest.mark.slow) for s in (".parquet", ".arrow"))]
)
def test_commands(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(names: tuple[str, ...], frame: pl.DataFrame) -> tuple[Any, Any]:
        source = str(write(frame, tmp_path / f"t{suffix}"))
        model, scored = str(tmp_path / "m"), tmp_path / f"scored{suffix}"
        roles = (
            f"--label={names[1]}",
            f"--sensitive={names[0]}",
            f"--drop={names[5]}",
            "--positive=yes",
        )
        typed = (f"--numeric={names[3]}", f"--categorical={names[2]}", "--missing", "?")
        done = called(capsys, "fit", source, *roles, *typed, "--model", "LatNB", "-o", model)
        assert done.code == 0, done.err
        done = called(capsys, "predict", model, source, "-o", str(scored), "--decide")
        assert done.code == 0, done.err
        done = called(capsys, "audit", model, source, "--json")
        assert done.code == 0, done.err
        audited = json.loads(done.out)["parity"]
        del audited["categories"]  # they name the sensitive columns
        frame = files.find(scored).read()
        assert frame.columns[: len(names)] == list(names)
        return frame["p_df_yes"].to_list(), audited

    one, two = both(run)
    assert one == two


def test_streamed_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cli._tables.STREAMED_BYTES", 100)

    def run(names: tuple[str, ...], frame: pl.DataFrame) -> Any:
        source = str(write(frame, tmp_path / "t.csv"))
        model, scored = str(tmp_path / "m"), tmp_path / "scored.csv"
        roles = (
            f"--label={names[1]}",
            f"--sensitive={names[0]}",
            f"--drop={names[5]}",
            "--positive=yes",
        )
        done = called(capsys, "fit", source, *roles, "--model", "LatNB", "-o", model)
        assert done.code == 0, done.err
        done = called(capsys, "predict", model, source, "-o", str(scored))
        assert done.code == 0, done.err
        done = called(capsys, "audit", model, source, "--json")
        assert done.code == 0, done.err
        return files.find(scored).read()["p_df_yes"].to_list()

    one, two = both(run)
    assert one == two
