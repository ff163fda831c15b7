"""Who does the work: a scheduler that is there, or workers of this machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from fairpc.cluster.workers import check_workers
from fairpc.errors import ClusterError, MissingExtraError

SECONDS: Final = 3
"""How long a scheduler is waited for."""

SETTINGS: Final[Mapping[str, int]] = {
    "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
"""Environment of workers. Dask has them give memory back to the system at once, and every
iteration of EM would then ask for the same pages again, zeroed."""

_HERE: Final = "127.0.0.1"
_PRIVATE: Final = f"{_HERE}:0"  # Dask's pages at a free port that this machine alone can reach
_ADDRESS: Final = re.compile(r"((tcp|tls|ucx|wss?)://)?\[?(?P<host>[^/\[\]]+)\]?:(?P<port>\d{1,5})")
_ENVIRON: Final = "distributed.nanny.pre-spawn-environ"


def need_dask() -> None:
    """A MissingExtraError if Dask is not installed."""
    if not all(find_spec(name) for name in ("dask", "distributed", "pandas", "pyarrow")):
        raise MissingExtraError(
            "a fit over many machines is run by Dask: pip install 'fairpc[cluster]'"
        )


@contextmanager
def connected(scheduler: str | None = None, n_workers: int | None = None) -> Iterator[Any]:
    """A client of the scheduler at an address; without one, of processes on this machine.

    The processes, one per core if ``n_workers`` is None, end with the block.
    """
    need_dask()
    from distributed import Client

    if scheduler is None:
        with _local_cluster(n_workers or _cores()) as cluster, Client(cluster) as client:
            yield client
        return
    try:
        _knock(scheduler)
        client = Client(scheduler, timeout=SECONDS)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"there is no Dask scheduler at {scheduler!r} ({_reason(error)}): check the address, "
            "such as tcp://10.0.0.1:8786, or start one with `dask scheduler`"
        ) from error
    with client:
        if not check_workers(client):
            raise ClusterError(
                f"the Dask scheduler at {scheduler} has no workers: start some with "
                f"`dask worker {scheduler}`"
            )
        yield client


@contextmanager
def current_client() -> Iterator[Any]:
    """The client that the program has opened; without one, threads of this process for a while."""
    need_dask()
    from distributed import Client, LocalCluster, get_client

    try:
        client = get_client()
    except ValueError:
        # Processes would import the user's script anew, which only guarded scripts survive.
        threads = {"n_workers": 1, "threads_per_worker": _cores(), "processes": False}
        with (
            LocalCluster(**threads, dashboard_address=_PRIVATE) as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            yield own
        return
    check_workers(client)  # none there may yet come
    yield client


def _knock(address: str) -> None:
    """An error if nobody listens: a client of Dask would go on trying, and leave threads behind."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError("an address is tcp://host:port")
    with socket.create_connection((parts["host"], int(parts["port"])), timeout=SECONDS):
        pass


def _local_cluster(n_workers: int) -> Any:
    """Processes of one thread each, which listen to this machine alone."""
    import dask
    from distributed import LocalCluster

    settings = {f"{_ENVIRON}.{name}": value for name, value in SETTINGS.items()}
    with _environment(dask.config.get(_ENVIRON, {})), dask.config.set(settings):
        return LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=_PRIVATE, host=_HERE,
            preload="fairpc.cluster.children",
        )  # fmt: skip


@contextmanager
def _environment(defaults: Mapping[str, Any]) -> Iterator[None]:
    """A block without what Dask has put into the environment, which is afterwards as before.

    Whoever starts workers leaves Dask's settings in the environment of this process, and
    the next workers take them from there before they look at the configuration.
    """
    before = dict(os.environ)
    for name, value in defaults.items():
        if os.environ.get(name) == str(value):
            del os.environ[name]
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".:")[:160] or type(error).__name__
