"""Who does the work, and what is said where nobody is there to do it."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from decisions import table
from fairpc import LatNB
from fairpc.cluster import _client as module, connected
from fairpc.cluster._client import blamed, check_workers, finish
from fairpc.data import is_dask
from fairpc.errors import ClusterError, MissingExtraError


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no other test of this process had a client open."""

    def nobody() -> Any:
        raise ValueError("no client")

    monkeypatch.setattr("distributed.get_client", nobody)


@pytest.mark.usefixtures("alone")
def test_nothing_is_put_aside_beside_the_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with module.current_client():
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("alone")
def test_threads_of_this_process_listen_to_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listening: list[Any] = []
    listen = socket.socket.listen

    def noted(self: socket.socket, *given: int) -> None:
        listening.append(self.getsockname()[0])
        listen(self, *given)

    monkeypatch.setattr(socket.socket, "listen", noted)
    with module.current_client():
        assert set(listening) == {"127.0.0.1"}


def test_a_scheduler_that_is_not_there_is_said_at_once(silent_port: int) -> None:
    began = time.monotonic()
    address = f"tcp://127.0.0.1:{silent_port}"
    said = f"no Dask scheduler at '{address}'"
    with pytest.raises(ClusterError, match=said), connected(address):
        pass
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("address", ["", "tcp://127.0.0.1:port", "ftp://127.0.0.1:8786"])
def test_an_address_that_is_none_is_said(address: str) -> None:
    with pytest.raises(ClusterError, match="check the address"), connected(address):
        pass


def test_a_scheduler_without_workers_is_said() -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(ClusterError, match="has no workers: start some with `dask worker"),
        connected(empty.scheduler_address),
    ):
        pass


def test_workers_with_another_fairpc_are_said(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(address) as second:
        assert len(second.run(os.getpid)) == 2
    monkeypatch.setattr("fairpc.__version__", "99.0")
    said = "has fairpc .*, and this is fairpc 99.0: install the same"
    with pytest.raises(ClusterError, match=said), connected(address):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    said = r"pip install 'fairpc\[cluster\]'"
    with pytest.raises(MissingExtraError, match=said), connected("tcp://127.0.0.1:1"):
        pass


def test_only_dask_frames_are_dask() -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": [1, 2]})
    lazy = dd.from_pandas(frame, npartitions=1)
    assert is_dask(lazy)
    assert not is_dask(lazy["a"])
    assert not is_dask(frame)
    assert not is_dask("data/*.parquet")


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
    dd = pytest.importorskip("dask.dataframe")
    frame = table(60).drop("weight").to_pandas()
    with cluster(1, preload=lacking(module)) as (_, client), client.as_current():
        began = time.monotonic()
        with pytest.raises(ClusterError, match=f"has no {module}, and this is fairpc .*install"):
            LatNB("sex").fit(dd.from_pandas(frame, npartitions=2), "label")
        assert time.monotonic() - began < 10


def test_tasks_without_workers_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.cluster._client.LOOK", 0.2)
    monkeypatch.setattr("fairpc.cluster._client.PATIENCE", 1.0)
    with cluster(0) as (_, client):
        assert not check_workers(client)
        with pytest.raises(ClusterError, match="has had no workers for 1 seconds: start some"):
            finish(client, [client.submit(abs, -1)])


def test_tasks_that_the_scheduler_forgot_are_said(client: Any) -> None:
    future = client.submit(time.sleep, 30, pure=False)
    client.cancel([future])
    with pytest.raises(ClusterError, match="the Dask scheduler stopped or restarted"):
        finish(client, [future])


def test_a_partition_that_needs_a_module_that_is_not_there_says_so() -> None:
    error = RuntimeError("Error during deserialization of the task graph.")
    error.__cause__ = ModuleNotFoundError("No module named 'ours'")
    said = blamed(error, "partition 3")
    assert isinstance(said, ClusterError)
    assert str(said).startswith("partition 3 cannot be read (No module named 'ours'): install")


def test_workers_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.cluster._client.LOOK", 0.2)
    with cluster(0) as (local, client):
        future = client.submit(abs, -1)
        local.scale(1)
        finish(client, [future])
        assert future.result() == 1
        assert len(check_workers(client)) == 1
