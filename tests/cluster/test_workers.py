"""Workers that cannot do the work are said, and nothing is waited for that will not come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from decisions import table
from fairpc import LatNB
from fairpc.cluster.client import check_workers, finish
from fairpc.cluster.table import blamed
from fairpc.errors import ClusterError

dd = pytest.importorskip("dask.dataframe", reason="needs fairpc[cluster]")

LACKING = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{module}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Lacking())
"""


@contextmanager
def cluster(n_workers: int, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A cluster of its own on this machine, and its client."""
    from distributed import Client, LocalCluster

    given = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with (
        LocalCluster(n_workers=n_workers, **given, **options) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield local, client


@pytest.fixture
def lacking(tmp_path: Path) -> Any:
    """A script that hides a module from a worker that runs it first."""

    def script(module: str) -> str:
        path = tmp_path / f"no_{module}.py"
        path.write_text(LACKING.format(module=module))
        return str(path)

    return script


@pytest.mark.parametrize("module", ["fairpc", "polars"])
def test_a_fit_says_which_worker_lacks_a_module(module: str, lacking: Any) -> None:
    frame = table(60).drop("weight").to_pandas()
    with cluster(1, preload=lacking(module)) as (_, client), client.as_current():
        began = time.monotonic()
        with pytest.raises(ClusterError, match=f"has no {module}, and this is fairpc .*install"):
            LatNB("sex").fit(dd.from_pandas(frame, npartitions=2), "label")
        assert time.monotonic() - began < 10


def test_tasks_without_workers_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.cluster.client.LOOK", 0.2)
    monkeypatch.setattr("fairpc.cluster.client.PATIENCE", 1.0)
    with cluster(0) as (_, client):
        assert check_workers(client) == 0
        with pytest.raises(ClusterError, match="has had no workers for 1 seconds: start some"):
            finish(client, [client.submit(abs, -1)])


def test_tasks_that_the_scheduler_forgot_are_said(client: Any) -> None:
    future = client.submit(time.sleep, 30, pure=False)
    client.cancel([future])
    with pytest.raises(ClusterError, match="the Dask scheduler has gone or begun anew"):
        finish(client, [future])


def test_a_partition_that_needs_a_module_that_is_not_there_says_so() -> None:
    error = RuntimeError("Error during deserialization of the task graph.")
    error.__cause__ = ModuleNotFoundError("No module named 'ours'")
    said = blamed(error, "partition 3")
    assert isinstance(said, ClusterError)
    assert str(said).startswith("partition 3 cannot be read (No module named 'ours'): install")


def test_workers_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.cluster.client.LOOK", 0.2)
    with cluster(0) as (local, client):
        future = client.submit(abs, -1)
        local.scale(1)
        finish(client, [future])
        assert future.result() == 1
        assert check_workers(client) == 1
