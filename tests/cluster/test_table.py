"""Files that workers read: the model of a fit on one machine, and errors that name the file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import cross_val_predict

from cli.calls import called
from decisions import table
from fairpc import LatNB, TwoNB, compare
from fairpc.cluster import file_table, spread
from fairpc.comparison import LR
from fairpc.data import find
from fairpc.errors import ComparisonError, FileFormatError, TableError
from fairpc.models import load

FIT = (
    "--label",
    "label",
    "--positive",
    "1",
    "--sensitive",
    "sex",
    "--model",
    "LatNB",
    "--drop",
    "weight",
    "--json",
)


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
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 70)
    monkeypatch.setattr("fairpc.cluster._table.BATCH_ROWS", 70)
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
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path, "csv", table(600))
    model = partial(tmp_path.joinpath)
    here = called(capsys, "fit", pattern, *FIT, "-o", str(model("here")))
    dask = "--scheduler", address
    there = called(capsys, "fit", pattern, *FIT, "-o", str(model("there")), *dask)
    assert (here.code, there.code) == (0, 0), there.err
    one, two = load(model("here")), load(model("there"))
    assert np.array_equal(one.circuit_.parameters, two.circuit_.parameters)


def test_the_command_refuses_an_address_where_nobody_listens(
    silent_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path, "csv", table(60))
    dask = "--scheduler", f"tcp://127.0.0.1:{silent_port}"
    ended = called(capsys, "fit", pattern, *FIT, "-o", str(tmp_path / "m"), *dask)
    assert ended.code == 2
    assert "there is no Dask scheduler at" in ended.err
    assert not (tmp_path / "m").exists()


def test_a_comparison_over_a_client_is_that_of_one_process(client: Any) -> None:
    frame = table(300).drop("weight")
    methods = {"NB": LatNB("sex", max_iter=10), "2NB": TwoNB("sex"), "LR": LR()}
    here = compare(methods, frame.drop("label"), frame["label"], cv=2)
    there = compare(methods, frame.drop("label"), frame["label"], cv=2, client=client)
    for one, two in zip(here.scores, there.scores, strict=True):
        assert (one.method, one.fold, one.accuracy) == (two.method, two.fold, two.accuracy)
        assert one.log_likelihood == pytest.approx(two.log_likelihood, abs=1e-9)
        assert one.discrimination == pytest.approx(two.discrimination, abs=1e-9)
    with pytest.raises(ComparisonError, match="a client has its own workers"):
        compare(methods, frame.drop("label"), frame["label"], client=client, n_jobs=2)


def test_a_method_that_fails_is_said(client: Any) -> None:
    frame = table(120).drop("weight")
    methods = {"NB": LatNB("sex", max_iter=5), "bad": LatNB("sex", smoothing=-1.0)}
    found = compare(methods, frame.drop("label"), frame["label"], cv=2, client=client)
    assert list(found.failures) == ["bad"]
    assert "smoothing" in found.failures["bad"]


def test_jobs_come_back_in_order_and_errors_name_theirs(client: Any) -> None:
    assert list(spread(client, np.add, 10, [3, 1, 2])) == [13, 11, 12]
    with pytest.raises(TableError, match="job 0 cannot be done .*zero"):
        list(spread(client, divmod, 1, [1, 0]))


def test_cross_validation_of_scikit_learn_runs_on_the_client(client: Any) -> None:
    joblib = pytest.importorskip("joblib")
    frame = table(240).drop("weight").to_pandas()
    X, y = frame.drop(columns="label"), frame["label"]
    model = LatNB("sex", random_state=0, max_iter=5)
    here = cross_val_predict(model, X, y, cv=3, method="predict_proba")
    with joblib.parallel_config(backend="dask"):
        there = cross_val_predict(model, X, y, cv=3, method="predict_proba", n_jobs=-1)
    assert np.allclose(here, there, rtol=0, atol=1e-9)
