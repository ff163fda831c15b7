"""A cluster of two processes on this machine, started once for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the cluster's tests need fairpc[cluster]")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **here) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(cluster: Any) -> Any:
    """The cluster's client, with both workers there, whatever a test before did to them."""
    cluster.wait_for_workers(2, timeout=120)
    with cluster.as_current():
        yield cluster


@pytest.fixture
def address(client: Any) -> str:
    """Of the scheduler."""
    return str(client.scheduler.address)
