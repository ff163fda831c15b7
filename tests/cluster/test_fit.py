"""A fit on Dask is the fit on one machine, whatever the partitions and whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from cluster.namespaces import NOT_PERMITTED
from decisions import table
from fairpc import FairPC, LatNB
from fairpc.circuit import EMStep
from fairpc.data._column_summary import MOST
from fairpc.errors import TableError
from models.test_strata import table as strata_table

dask = pytest.importorskip("dask", reason="needs fairpc[cluster]")
dd = pytest.importorskip("dask.dataframe", reason="needs fairpc[cluster]")

SMALL = "200KB"
"""Room for a hundred distinct rows, and a sample of a thousand."""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of about a hundred rows, so that both workers have several."""
    monkeypatch.setattr("fairpc.cluster._table.PART_ROWS", 100)


def partitioned(frame: pl.DataFrame, n: int) -> Any:
    return dd.from_pandas(frame.to_pandas(), npartitions=n, sort=False)


def same(one: Any, two: Any, tolerance: float = 1e-9) -> bool:
    """Whether two models have the same structure and nearly the same parameters."""
    a, b = one.circuit_, two.circuit_
    return (
        a.graph.n_edges == b.graph.n_edges
        and np.array_equal(a.graph.child, b.graph.child)
        and np.allclose(a.parameters, b.parameters, rtol=0, atol=tolerance)
    )


@pytest.mark.parametrize(("structure", "n_partitions"), [("strudel", 1), ("chow-liu", 5)])
def test_a_dask_frame_gives_the_model_of_the_table_in_memory(
    client: Any, structure: Any, n_partitions: int
) -> None:
    frame = table(400).drop("weight")
    settings: dict[str, Any] = {"structure": structure, "max_iter": 10, "max_splits": 5}
    here = FairPC("sex", random_state=0, **settings).fit(frame.drop("label"), frame["label"])
    there = FairPC("sex", random_state=0, **settings).fit(partitioned(frame, n_partitions), "label")
    assert np.array_equal(here.circuit_.parameters, there.circuit_.parameters)
    assert here.data_fingerprint_ == there.data_fingerprint_
    assert list(there.feature_names_in_) == [n for n in frame.columns if n != "label"]
    assert np.array_equal(here.label_counts_, there.label_counts_)


def test_strata_of_a_dask_frame_are_those_of_the_table_in_memory(
    client: Any, small_parts: None
) -> None:
    frame = strata_table(900)[0].with_columns(label=pl.Series(strata_table(900)[1]))
    model: Any = FairPC("sex", given="hours", structure="forest", random_state=0)
    here = clone(model).fit(frame.drop("label"), frame["label"])
    there = clone(model).fit(partitioned(frame, 3), "label")
    assert np.array_equal(here.circuit_.parameters, there.circuit_.parameters)
    assert here.strata_ == there.strata_


@pytest.mark.parametrize("n_partitions", [2, 7])
def test_many_distinct_numbers_give_the_model_of_the_table_in_memory(
    client: Any, n_partitions: int
) -> None:
    rng = np.random.default_rng(3)
    frame = table(40_000).select("sex", "x0", "x1", "label")
    frame = frame.with_columns(score=rng.normal(frame["x0"].to_numpy()))
    assert frame["score"].n_unique() > MOST
    model = LatNB("sex", guard=False, random_state=0)
    here = clone(model).fit(frame.drop("label"), frame["label"])
    there = model.fit(partitioned(frame, n_partitions), "label")
    columns = [m.coding_.features.column("score") for m in (here, there)]
    assert columns[0] == columns[1]
    assert columns[0].ends
    assert np.array_equal(here.circuit_.parameters, there.circuit_.parameters)


def test_weights_are_a_column(client: Any) -> None:
    frame = table(900)
    here = LatNB("sex", random_state=0).fit(
        frame.drop("label", "weight"), frame["label"], sample_weight=frame["weight"].to_numpy()
    )
    there = LatNB("sex", random_state=0).fit(partitioned(frame, 3), "label", sample_weight="weight")
    assert same(here, there)


def test_without_a_client_threads_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_client() -> Any:
        raise ValueError("No global client found")

    monkeypatch.setattr("distributed.get_client", no_client)
    frame = table(300).drop("weight")
    here = LatNB("sex", random_state=0).fit(frame.drop("label"), frame["label"])
    there = LatNB("sex", random_state=0).fit(partitioned(frame, 2), "label")
    assert same(here, there)


def test_empty_partitions_and_partitions_with_other_categories(client: Any) -> None:
    frame = table(600).drop("weight").to_pandas()
    frame["job"] = frame["job"].fillna("a")
    parts = [frame[frame.job.isin(["a", "b"])], frame[:0], frame[~frame.job.isin(["a", "b"])]]
    cut = [part.assign(job=part.job.astype("category")) for part in parts]
    assert list(cut[0].job.cat.categories) != list(cut[2].job.cat.categories)
    lazy = dd.from_delayed([dask.delayed(part) for part in cut], meta=cut[1], verify_meta=False)
    whole = pd.concat(parts)
    whole = whole.assign(job=whole.job.astype("category"))
    here = LatNB("sex", random_state=0).fit(whole.drop(columns="label"), whole["label"])
    there = LatNB("sex", random_state=0).fit(lazy, "label")
    assert same(here, there)
    levels = {c.name: c.levels for c in there.coding_.features.columns}
    assert levels["job"] == ("a", "b", "c", "d")


def test_a_table_of_empty_partitions_is_refused(client: Any) -> None:
    lazy = partitioned(table(100).drop("weight"), 2)
    with pytest.raises(TableError, match="the table is empty"):
        LatNB("sex").fit(lazy[lazy.age > 1000], "label")


def test_a_bad_partition_is_named(client: Any) -> None:
    frame = table(300)
    frame = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 250).then(-1).otherwise("weight").alias("weight")
    )
    with pytest.raises(ValueError, match="partition 2 of the Dask frame: .*weight.*-1"):
        LatNB("sex").fit(partitioned(frame, 3), "label", sample_weight="weight")


def test_a_partition_that_cannot_be_read_is_named(client: Any) -> None:
    good = table(100).drop("weight").to_pandas()
    parts = [dask.delayed(good), dask.delayed(int)("no rows")]
    lazy = dd.from_delayed(parts, meta=good[:0], verify_meta=False)
    with pytest.raises(TableError, match="partition 1 of the Dask frame cannot be read .*no rows"):
        LatNB("sex").fit(lazy, "label")


def test_groups_given_apart_are_refused(client: Any) -> None:
    lazy = partitioned(table(100).drop("weight"), 2)
    with pytest.raises(TableError, match="make them a column of it"):
        LatNB().fit(lazy, "label", sensitive_features=lazy["sex"])


@pytest.mark.usefixtures("small_parts")
def test_rows_that_stay_on_the_workers_give_the_same_model(client: Any, tmp_path: Any) -> None:
    """The sample holds all rows here, so that structure is that of a fit on this machine."""
    frame = table(900).drop("weight")
    settings: dict[str, Any] = {"structure": "chow-liu", "random_state": 0, "max_iter": 10}
    frame.write_parquet(tmp_path / "t.parquet")
    on_disk = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", max_memory=SMALL)
    for n_partitions in (1, 4):
        lazy = partitioned(frame, n_partitions)
        there = FairPC("sex", **settings).fit(lazy, "label", max_memory=SMALL)
        assert same(on_disk, there)
        assert np.allclose(on_disk.label_counts_, there.label_counts_, atol=1e-8)


@pytest.mark.usefixtures("small_parts")
def test_a_sample_does_not_depend_on_the_partitions(client: Any) -> None:
    frame = table(2500).drop("weight")
    fitted = [
        LatNB("sex", random_state=0, max_iter=10).fit(
            partitioned(frame, n), "label", max_memory=SMALL
        )
        for n in (2, 7)
    ]
    assert same(*fitted)


@pytest.mark.usefixtures("small_parts")
def test_a_worker_that_dies_costs_time_and_not_the_result(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table(900).drop("weight")
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 12, "tol": 0.0}
    quiet = LatNB("sex", **settings).fit(partitioned(frame, 4), "label", max_memory=SMALL)
    pids = client.run(os.getpid)
    steps: list[int] = []

    def kill(step: EMStep) -> None:
        steps.append(step.iteration)
        if len(steps) == 18:  # in the second run of EM, which is over the parts
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    monkeypatch.setattr("fairpc.models._circuit_fit.reporter", lambda say: kill)
    hurt = LatNB("sex", **settings).fit(partitioned(frame, 4), "label", max_memory=SMALL)
    assert steps == [*range(13), *range(13)]
    assert np.array_equal(quiet.circuit_.parameters, hurt.circuit_.parameters)
    client.wait_for_workers(2, timeout=120)
    assert set(client.run(os.getpid).values()) != set(pids.values())


@pytest.mark.slow
def test_workers_on_networks_of_their_own_give_the_same_bits_when_one_is_killed(
    tmp_path: Path,
) -> None:
    """Two workers in network namespaces, whose only way is a cable to the scheduler."""
    pytest.importorskip("cryptography", reason="TLS needs fairpc[cluster]")
    script = Path(__file__).with_name("namespaces.py")
    if not (shutil.which("unshare") and shutil.which("ip") and shutil.which("nsenter")):
        pytest.skip("there is no unshare, nsenter or ip here")
    command = ["unshare", "--net", sys.executable, str(script), str(tmp_path)]
    path = os.pathsep.join([str(script.parents[1]), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": path.rstrip(os.pathsep)},
    )
    if found.returncode == NOT_PERMITTED or "Operation not permitted" in found.stderr:
        pytest.skip("network namespaces are not permitted here")
    assert found.stdout.strip() == "same bits", found.stderr[-2000:]
