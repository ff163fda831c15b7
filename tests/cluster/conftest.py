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
