"""A cluster that falls silent, or does nothing: every wait for it ends, and says why."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairpc.cluster import connected
from fairpc.cluster._client import answered, check_workers, finish, results
from fairpc.errors import ClusterError

MODULE = "fairpc.cluster._client"
SERVER = """import sys
from distributed.cli.dask_{0} import main
sys.argv[0] = "dask"
main(sys.argv[1:])"""


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, stopped or not, that ends with the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process stands still for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def started(who: str, *given: str) -> subprocess.Popen[bytes]:
    """A scheduler or a worker as a user starts it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-c", SERVER.format(who), "--host=127.0.0.1", *given]
    return subprocess.Popen([*command, "--no-dashboard"], **quiet)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Address and process of a scheduler with two workers of one thread each."""
    import json

    found = tmp_path / "scheduler.json"
    with (
        ended(started("scheduler", "--port=0", f"--scheduler-file={found}")) as process,
        ended(started("worker", f"--scheduler-file={found}", "--no-nanny", "--nthreads=1")),
        ended(started("worker", f"--scheduler-file={found}", "--no-nanny", "--nthreads=1")),
    ):
        deadline = time.monotonic() + 60
        while not found.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield json.loads(found.read_text())["address"], process.pid


@pytest.fixture
def client(scheduler: tuple[str, int]) -> Iterator[Any]:
    from distributed import Client

    with Client(scheduler[0], timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        client._timeout = 1  # a client whose scheduler stands still waits for it at its end
        yield client


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK", 0.2), ("PATIENCE", 2.0), ("SILENCE", 2.0), ("SECONDS", 2.0)):
        monkeypatch.setattr(f"{MODULE}.{name}", seconds)


@contextmanager
def peer(answer: Callable[[socket.socket], object], port: int = 0) -> Iterator[str]:
    """The address of somebody who accepts and answers so."""
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(0.1)
        end = threading.Event()
        kept: list[socket.socket] = []

        def serve() -> None:
            while not end.is_set():
                try:
                    kept.append(server.accept()[0])
                    answer(kept[-1])
                except OSError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            end.set()
            thread.join()
            for talk in kept:
                talk.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


PAGE = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "answer",
    [
        lambda talk: None,
        lambda talk: talk.sendall(PAGE),
        lambda talk: talk.sendall(b"\x08" + bytes(7) + b"whatever"),
        lambda talk: talk.close(),
    ],
    ids=["silent", "page", "garbage", "closes"],
)
def test_another_program_at_the_address_is_said(answer: Callable[[socket.socket], object]) -> None:
    with (
        peer(answer) as address,
        within(6),
        pytest.raises(ClusterError, match="there is no Dask scheduler at"),
        connected(address),
    ):
        pass


@pytest.mark.usefixtures("hasty")
def test_a_worker_is_not_taken_for_a_scheduler(client: Any) -> None:
    with (
        within(4),
        pytest.raises(ClusterError, match="a Dask worker answers there"),
        connected(next(iter(client.nthreads()))),
    ):
        pass


@pytest.mark.usefixtures("hasty")
def test_a_scheduler_that_stands_still_is_not_waited_for(scheduler: tuple[str, int]) -> None:
    address, pid = scheduler
    with (
        stopped(pid),
        within(4),
        pytest.raises(ClusterError, match="no answer for 2 seconds"),
        connected(address),
    ):
        pass


def free_port() -> int:
    """Of this machine, so low that 65536 more has five digits."""
    for port in range(20_000, 34_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")


def test_a_port_that_is_none_is_refused_before_anybody_is_asked() -> None:
    came: list[socket.socket] = []
    port = free_port()

    def closed(talk: socket.socket) -> None:
        came.append(talk)
        talk.close()

    with peer(closed, port):
        said = "a port is a number from 1 to 65535"
        for wrong in (0, port + (1 << 16), port + (1 << 32)):
            address = f"tcp://127.0.0.1:{wrong}"
            with pytest.raises(ClusterError, match=said), connected(address):
                pass
        with socket.create_connection(("127.0.0.1", port)) as ours:
            assert ours.recv(1) == b""
    assert len(came) == 1


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("whose", ["scheduler", "worker"])
@pytest.mark.parametrize(
    "wait",
    [
        lambda client, pending: check_workers(client),
        lambda client, pending: finish(client, [pending]),
        lambda client, pending: results(client, [pending], "it"),
        lambda client, pending: answered(client, client.scatter, [1], broadcast=True),
    ],
    ids=["check", "finish", "results", "scatter"],
)
def test_whoever_stands_still_is_named(
    whose: str, wait: Callable[[Any, Any], object], client: Any, scheduler: tuple[str, int]
) -> None:
    pids = client.run(os.getpid)
    address, pid = next(iter(pids.items()))
    pending = client.submit(time.sleep, 60, workers=[address], pure=False)
    said = address if whose == "worker" else "the Dask scheduler"
    with (
        stopped(pid if whose == "worker" else scheduler[1]),
        within(8),
        pytest.raises(ClusterError, match=f"{said} has not answered for 2 seconds"),
    ):
        wait(client, pending)


@pytest.mark.usefixtures("hasty")
def test_what_a_silent_worker_holds_is_not_waited_for(client: Any) -> None:
    address, pid = next(iter(client.run(os.getpid).items()))
    there = client.submit(bytes, 100_000, workers=[address], pure=False)
    finish(client, [there])
    with stopped(pid), within(8), pytest.raises(ClusterError, match="has not answered for 2"):
        results(client, [there], "it")


def pause(dask_worker: Any) -> None:
    """What Dask does with a worker whose memory is full."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = 1e-6
    dask_worker.status = Status.paused


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("n", [1, 2])
def test_tasks_of_a_paused_worker_are_given_up(n: int, client: Any) -> None:
    addresses = list(client.nthreads())
    client.run(pause, workers=addresses[:n])
    waiting = client.submit(abs, -1, workers=addresses[:1], pure=False)
    with within(8), pytest.raises(ClusterError, match="is paused, as its memory is full"):
        finish(client, [waiting])


@pytest.mark.usefixtures("hasty")
def test_tasks_that_take_their_time_are_waited_for(client: Any) -> None:
    slow = client.submit(time.sleep, 5, pure=False)
    behind = client.submit(abs, -1, workers=list(client.nthreads()), pure=False)
    assert results(client, [slow, behind], "it") == [None, 1]
