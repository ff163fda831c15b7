"""Who does the work: the workers of a user's scheduler, or threads of this process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from fairpc.core import ClusterError, FairpcError, MissingExtraError, TableError, private_folder
from fairpc.data import reason_of

T = TypeVar("T")
SECONDS: Final = 10.0  #: how long the answer of a scheduler is waited for, to begin with
_PRIVATE: Final = "127.0.0.1:0"  # a free port that this machine alone can reach
_NO_PAGES: Final[Mapping[str, Any]] = {
    f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
}
MOST_PORT: Final = (1 << 16) - 1
_ADDRESS: Final = re.compile(r"((tcp|tls|ucx|wss?)://)?\[?(?P<host>[^/\[\]]+)\]?:(?P<port>\d+)")


def need_dask() -> None:
    """A MissingExtraError if Dask is not installed."""
    if not all(map(find_spec, ("dask", "distributed", "pandas", "pyarrow"))):
        raise MissingExtraError(
            "a fit over many machines is run by Dask: pip install 'fairpc[cluster]'"
        )


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler at an address, which is talked to as Dask is configured."""
    need_dask()
    from distributed import Client

    try:
        _knock(scheduler)
        client = Client(scheduler, timeout=SECONDS)
    except (OSError, ValueError, TypeError) as error:  # the last where a key is lacking
        raise ClusterError(
            f"there is no Dask scheduler at {scheduler!r} "
            f"({reason_of(error) or type(error).__name__}): check the address, such as "
            "tcp://10.0.0.1:8786, or start one with `dask scheduler`"
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
    import dask
    from distributed import Client, LocalCluster, get_client

    try:
        client = get_client()
    except ValueError:
        # Processes would import the user's script anew, which only guarded scripts survive.
        threads = {"n_workers": 1, "threads_per_worker": _cores(), "processes": False}
        private = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), _PRIVATE)
        silent = {"scheduler_kwargs": {"dashboard": False}}
        with (
            private_folder() as scratch,
            dask.config.set({**_NO_PAGES, "temporary-directory": str(scratch)}),
            LocalCluster(**threads, **private, **silent) as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            yield own
        return
    check_workers(client)  # none there may yet come
    yield client


def _knock(address: str) -> None:
    """An error unless a scheduler answers in time: a client of Dask would wait for it for ever."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError("an address is tcp://host:port")
    if not 0 < int(parts["port"]) <= MOST_PORT:  # the system would wrap it
        raise ValueError(f"a port is a number from 1 to {MOST_PORT}")
    with socket.create_connection((parts["host"], int(parts["port"])), timeout=SECONDS):
        pass
    try:
        identity = asyncio.run(asyncio.wait_for(_identity(address), SECONDS))
    except TimeoutError as error:
        raise TimeoutError(f"no answer for {SECONDS:.0f} seconds") from error
    except (OSError, TypeError):  # the latter where a key is lacking
        raise
    except Exception as error:  # what other programs say is read as lengths and messages
        raise ValueError("another program answers there") from error
    if "workers" not in identity:
        raise ValueError(f"a Dask {identity['type'].lower()} answers there")


async def _identity(address: str) -> Mapping[str, Any]:
    """What a server of Dask says of itself."""
    from distributed.comm import connect
    from distributed.core import send_recv
    from distributed.security import Security

    options = Security().get_connection_args("client")
    comm = await connect(address, timeout=SECONDS, **options)
    try:
        identity: Mapping[str, Any] = await send_recv(comm, op="identity")
    finally:
        comm.abort()
    return identity


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


LOOK: Final = 5.0  #: seconds for which tasks are waited for before somebody looks after the workers
PATIENCE: Final = 60.0  #: seconds after which a cluster that does nothing is given up
SILENCE: Final = 30.0  #: seconds for which the answer of a scheduler or a worker is waited for
_PACKAGE: Final = "fairpc"
_LIBRARIES: Final = ("numba", "pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class WorkerState:
    """What a worker does."""

    paused: bool  #: whether it starts no tasks, as its memory is full
    busy: bool  #: whether it runs tasks, or fetches what they need
    steps: int  #: how often a task of it has changed its state


def check_workers(client: Any) -> dict[str, WorkerState]:
    """The workers by address; a ClusterError where one is silent, or lacks this very package."""
    from fairpc import __version__

    workers: dict[str, WorkerState] = {}
    for address, answer in client.sync(_answers, client).items():
        if isinstance(answer, BaseException):  # it has just gone
            continue
        installed, *state = answer
        lacks = next((name for name, version in installed.items() if version is None), None)
        if lacks is not None or installed[_PACKAGE] != __version__:
            has = f"no {lacks}" if lacks else f"fairpc {installed[_PACKAGE]}"
            raise ClusterError(
                f"the Dask worker at {address} has {has}, and this is fairpc {__version__}: "
                "install the same fairpc[cluster] on every worker"
            )
        workers[address] = WorkerState(*state)
    return workers


async def _answers(client: Any) -> dict[str, Any]:
    """What each worker has installed and does; each is asked alone, so that one holds up none."""

    async def answer(address: str) -> dict[str, Any]:
        asked = client.run(_state(), _PACKAGE, _LIBRARIES, workers=[address], on_error="return")
        try:
            return dict(await asyncio.wait_for(asked, SILENCE))
        except TimeoutError as error:
            if address not in await _addresses(client):
                return {}
            raise ClusterError(
                f"the Dask worker at {address} has not answered for {SILENCE:.0f} seconds: "
                "see whether it runs, and end it or start it again"
            ) from error

    answers = await asyncio.gather(*map(answer, await _addresses(client)))
    return {address: said for one in answers for address, said in one.items()}


async def _addresses(client: Any) -> list[str]:
    """Of the workers that the scheduler has."""
    try:
        return list(await asyncio.wait_for(client.nthreads(), SILENCE))
    except TimeoutError as error:
        raise ClusterError(
            f"the Dask scheduler has not answered for {SILENCE:.0f} seconds: "
            "see whether it runs, and start it again"
        ) from error


@dataclass(eq=False)
class Watch:
    """Who looks whether anything moves on the workers while tasks are waited for."""

    client: Any
    steps: Mapping[str, int] = field(default_factory=dict)  #: of each worker, at the last look
    moved: float = field(default_factory=time.monotonic)  #: when something moved, as far as seen

    def look(self) -> None:
        """A ClusterError if no worker has done anything for long."""
        workers = check_workers(self.client)
        steps = {address: worker.steps for address, worker in workers.items()}
        if steps != self.steps or any(worker.busy for worker in workers.values()):
            self.moved = time.monotonic()
        self.steps = steps
        if time.monotonic() - self.moved <= PATIENCE:
            return
        paused = next((address for address, worker in workers.items() if worker.paused), None)
        if not workers:
            raise ClusterError(
                f"the Dask cluster has had no workers for {PATIENCE:.0f} seconds: start some, "
                "or look in the logs of those that ended for errors, such as a failed import"
            )
        if paused is not None:
            raise ClusterError(
                f"the Dask worker at {paused} is paused, as its memory is full, and nothing has "
                f"moved for {PATIENCE:.0f} seconds: give workers more memory, or free some"
            )
        raise ClusterError(
            f"the Dask cluster has done nothing for {PATIENCE:.0f} seconds, and tasks wait: "
            "look in the logs of scheduler and workers"
        )


@contextmanager
def _losses() -> Iterator[None]:
    """What is said where the scheduler goes while it is waited for."""
    try:
        yield
    except (concurrent.futures.CancelledError, OSError) as error:
        raise ClusterError(
            "the Dask scheduler stopped or restarted, and the results of the workers are lost: "
            "check that it runs, and fit again"
        ) from error


def finish(client: Any, futures: Sequence[Any]) -> None:
    """Return once tasks have ended, well or not; a ClusterError says why they never will."""
    from distributed import wait

    watch = Watch(client)
    with _losses():
        while True:
            try:
                with client.as_current():
                    wait(list(futures), timeout=LOOK)
                return
            except TimeoutError:
                if any(future.status == "error" for future in futures):
                    return
            watch.look()


def answered(client: Any, method: Callable[..., T], *given: Any, **options: Any) -> T:
    """What a method of the client gives; a ClusterError where scheduler or worker fall silent."""

    async def called() -> T:
        result: T = await method(*given, **options)  # type: ignore[misc]
        return result

    future = asyncio.run_coroutine_threadsafe(called(), client.loop.asyncio_loop)
    try:
        while True:
            done, _ = concurrent.futures.wait([future], timeout=LOOK)
            if done:
                return future.result()
            check_workers(client)
    finally:
        future.cancel()


def results(client: Any, futures: Sequence[Any], what: str) -> list[Any]:
    """What tasks give, in order; ``what`` they are about is named where they end workers."""
    from distributed import KilledWorker

    finish(client, futures)
    try:
        with _losses():
            found: list[Any] = answered(client, client.gather, list(futures))
    except KilledWorker as error:
        raise blamed(error, what) from error
    return found


def itself(value: T) -> T:
    """A value as a task, so that it is made again where the worker that had it dies."""
    return value


def blamed(error: BaseException, where: str, failed: str = "cannot be read") -> FairpcError:
    """An error of a task as one of ours."""
    from distributed import KilledWorker

    if isinstance(error, FairpcError):
        return error
    lacks = next((e for e in (error, error.__cause__) if isinstance(e, ImportError)), None)
    reason = reason_of(lacks or error)
    if isinstance(error, KilledWorker):
        made: FairpcError = ClusterError(
            f"{where} ended every worker that ran it, usually because memory or a module is "
            "missing: see their logs, give workers more memory, or make partitions smaller"
        )
    elif lacks is not None:
        made = ClusterError(
            f"{where} {failed} ({reason}): install the libraries it needs on scheduler and workers"
        )
    else:
        reason = reason or type(error).__name__
        made = TableError(f"{where} {failed} ({reason}): look at its rows, or leave it out")
    made.__cause__ = error
    return made


def _state() -> Any:
    """A function of names of modules, sent as what it is: workers may lack this module."""

    def state(
        package: str, others: Sequence[str], dask_worker: Any
    ) -> tuple[Mapping[str, str | None], bool, bool, int]:
        from importlib import import_module
        from importlib.util import find_spec

        found: dict[str, str | None] = {}
        for name in (package, *others):
            try:
                known = find_spec(name) is not None
            except ImportError:
                known = False
            found[name] = "" if known else None
        if found[package] is not None:
            found[package] = import_module(package).__version__
        tasks = dask_worker.state
        busy = bool(tasks.executing or tasks.long_running or tasks.in_flight_tasks)
        return found, dask_worker.status.name == "paused", busy, tasks.transition_counter

    return state
