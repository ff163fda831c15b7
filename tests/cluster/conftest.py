"""A cluster of two processes on this machine, started once for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpc.cluster import connected

pytest.importorskip("distributed", reason="the cluster's tests need fairpc[cluster]")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    with connected(n_workers=2) as client:
        yield client


@pytest.fixture
def client(cluster: Any) -> Any:
    """The cluster's client, with both workers there, whatever a test before did to them."""
    cluster.wait_for_workers(2, timeout=120)
    with cluster.as_current():
        yield cluster


@pytest.fixture
def address(client: Any) -> Iterator[str]:
    """Of the scheduler, whose key Dask's settings have meanwhile, as users set it."""
    import dask

    key = client.security
    tls = {
        "distributed.comm.tls.ca-file": key.tls_ca_file,
        "distributed.comm.tls.client.key": key.tls_client_key,
        "distributed.comm.tls.client.cert": key.tls_client_cert,
    }
    with dask.config.set(tls):
        yield client.scheduler.address
