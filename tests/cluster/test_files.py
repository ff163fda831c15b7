"""Files that workers read: the model of a fit on one machine, and errors that name the file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import called
from decisions import table
from fairpc import LatNB
from fairpc.cluster.table import file_table
from fairpc.data.files import find
from fairpc.errors import FileFormatError
from fairpc.estimators import load

FIT = ("--label", "label", "--sensitive", "sex", "--model", "LatNB", "--drop", "weight", "--json")


def written(folder: Path, kind: str, frame: pl.DataFrame) -> str:
    for k in range(3):
        part = frame[k::3]
        write = part.write_csv if kind == "csv" else part.write_parquet
        write(folder / f"{k}.{kind}")
    return str(folder / f"*.{kind}")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_give_the_model_of_a_fit_on_one_machine(
    kind: str, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.data.source.BATCH_ROWS", 70)
    monkeypatch.setattr("fairpc.cluster.table.BATCH_ROWS", 70)
    pattern = written(tmp_path, kind, table(600).drop("weight"))
    lazy = file_table(find(pattern), client=client)
    assert len(lazy.places) == (3 if kind == "csv" else 9)
    here = LatNB("sex", random_state=0, max_iter=20).fit(pattern, "label")
    there = LatNB("sex", random_state=0, max_iter=20).fit(lazy, "label")
    assert np.array_equal(here.circuit_.parameters, there.circuit_.parameters)
    assert here.data_fingerprint_ == there.data_fingerprint_


def test_a_damaged_file_is_named(client: Any, tmp_path: Path) -> None:
    """Its last bytes say what it holds; what it holds is not there."""
    pattern = written(tmp_path, "parquet", table(600).drop("weight"))
    path = tmp_path / "1.parquet"
    content = bytearray(path.read_bytes())
    content[8 : len(content) // 2] = bytes(len(content) // 2 - 8)
    path.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match=f"{path} cannot be read"):
        LatNB("sex").fit(file_table(find(pattern), client=client), "label")


def test_a_file_with_a_bad_row_is_named(client: Any, tmp_path: Path) -> None:
    frame = table(600).with_columns(
        pl.when(pl.int_range(pl.len()) == 401).then(-3).otherwise("weight").alias("weight")
    )
    lazy = file_table(find(written(tmp_path, "parquet", frame)), client=client)
    with pytest.raises(ValueError, match=f"{tmp_path / '2.parquet'}: .*weight.*-3"):
        LatNB("sex").fit(lazy, "label", sample_weight="weight")


def test_the_command_fits_on_a_cluster(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path, "csv", table(600))
    model = partial(tmp_path.joinpath)
    here = called(capsys, "fit", pattern, *FIT, "-o", str(model("here")))
    there = called(
        capsys, "fit", pattern, *FIT, "-o", str(model("there")),
        "--engine", "dask", "--scheduler", client.scheduler.address,
    )  # fmt: skip
    assert (here.code, there.code) == (0, 0), there.err
    one, two = load(model("here")), load(model("there"))
    assert np.array_equal(one.circuit_.parameters, two.circuit_.parameters)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "spark"), "--engine is 'spark': choose one of local, dask"),
        (("--scheduler", "tcp://127.0.0.1:1"), "give --engine dask too"),
        (
            ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"),
            "there is no Dask scheduler at 'tcp://127.0.0.1:1'",
        ),
    ],
)
def test_the_command_refuses_what_it_cannot_do(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path, "csv", table(60))
    ended = called(capsys, "fit", pattern, *FIT, "-o", str(tmp_path / "m"), *options)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_the_command_starts_a_cluster_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path, "parquet", table(300))
    model = str(tmp_path / "m")
    ended = called(capsys, "fit", pattern, *FIT, "-o", model, "--engine", "dask")
    assert ended.code == 0, ended.err
    assert load(model).classes_.tolist() == [0, 1]
