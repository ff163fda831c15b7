"""Who does the work, and what is said where nobody is there to do it."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from fairpc.cluster import client as module
from fairpc.cluster.client import SETTINGS, connected
from fairpc.cluster.table import is_dask
from fairpc.errors import ClusterError, MissingExtraError


def test_workers_keep_their_memory(client: Any) -> None:
    for environ in client.run(lambda: dict(os.environ)).values():
        for name, value in SETTINGS.items():
            assert environ[name] == str(value)


def test_a_scheduler_that_is_not_there_is_said_within_ten_seconds() -> None:
    began = time.monotonic()
    said = "no Dask scheduler at 'tcp://127.0.0.1:1'"
    with pytest.raises(ClusterError, match=said), connected("tcp://127.0.0.1:1"):
        pass
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "address", ["", "tcp://127.0.0.1:port", "ftp://127.0.0.1:8786", "tcp://127.0.0.1:99999"]
)
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


def test_workers_with_another_fairpc_are_said(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address = client.scheduler.address
    with connected(address) as second:
        assert len(second.run(os.getpid)) == 2
    monkeypatch.setattr("fairpc.__version__", "99.0")
    said = "has fairpc .*, and this is 99.0: install the same"
    with pytest.raises(ClusterError, match=said), connected(address):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    said = r"pip install 'fairpc\[cluster\]'"
    with pytest.raises(MissingExtraError, match=said), connected():
        pass


def test_only_dask_frames_are_dask() -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": [1, 2]})
    lazy = dd.from_pandas(frame, npartitions=1)
    assert is_dask(lazy)
    assert not is_dask(lazy["a"])
    assert not is_dask(frame)
    assert not is_dask("data/*.parquet")
