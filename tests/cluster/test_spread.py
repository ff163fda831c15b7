"""Fits of a cross-validation over the workers of a client are the fits of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict

from cli.calls import called
from decisions import table
from fairpc import LatNB, TwoNB, compare
from fairpc.baselines import LR
from fairpc.cluster.table import spread
from fairpc.errors import ComparisonError, TableError


def test_a_comparison_over_a_client_is_that_of_one_process(client: Any) -> None:
    frame = table(300).drop("weight")
    methods = {"NB": LatNB("sex", max_iter=10), "2NB": TwoNB("sex"), "LR": LR()}
    told: list[str] = []
    here = compare(methods, frame.drop("label"), frame["label"], cv=2)
    there = compare(
        methods, frame.drop("label"), frame["label"], cv=2, client=client,
        progress=lambda at: told.append(at.what),
    )  # fmt: skip
    assert told == [f"{name}, fold {k}" for name in methods for k in (1, 2)]
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


def test_the_command_compares_on_a_cluster(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    table(240).drop("weight").write_csv(path)
    ended = called(
        capsys, "compare", str(path), "--label", "label", "--sensitive", "sex", "--cv", "2",
        "--method", "TwoNB", "--json", "--engine", "dask", "--scheduler", client.scheduler.address,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["n_folds"] == 2
