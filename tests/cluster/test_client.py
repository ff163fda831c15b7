"""Who does the work, and what is said where nobody is there to do it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fairpc.cluster import client as module
from fairpc.cluster.client import SETTINGS, connected
from fairpc.cluster.table import is_dask
from fairpc.errors import ClusterError, MissingExtraError


def started_with() -> set[str]:
    """What a process had in its environment when it began, which is what malloc reads."""
    return set(Path("/proc/self/environ").read_text().split("\0"))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
def test_workers_keep_their_memory(client: Any) -> None:
    given = {f"{name}={value}" for name, value in SETTINGS.items()}
    for environ in client.run(started_with).values():
        assert environ >= given


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
def test_settings_come_through_after_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask leaves its own in the environment, and it has precedence there."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    before = dict(os.environ)
    with connected(n_workers=1) as client:
        assert os.environ == before
        (environ,) = client.run(started_with).values()
    assert environ >= {f"{name}={value}" for name, value in SETTINGS.items()}
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "123456")  # somebody's own wish
    with connected(n_workers=1) as client:
        (environ,) = client.run(started_with).values()
    assert "MALLOC_TRIM_THRESHOLD_=123456" in environ


def test_workers_leave_interrupts_to_whoever_started_them(client: Any) -> None:
    pids = client.run(os.getpid)
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)
    time.sleep(0.5)
    assert client.run(os.getpid) == pids


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
    said = "has fairpc .*, and this is fairpc 99.0: install the same"
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
