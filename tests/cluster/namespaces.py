"""A fit by two workers on networks of their own, of which one is killed during EM.

Run by ``unshare --net``: this process is the hub, with a bridge; each worker is in a network
namespace that has nothing but a cable to it. All of it is gone when the processes are.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

NOT_PERMITTED = 77
HUB = "10.77.0.1"


def ip(*words: str, at: int | None = None) -> None:
    """A command of ``ip``, perhaps in the network of another process."""
    there = [] if at is None else ["nsenter", "-t", str(at), "-n"]
    subprocess.run([*there, "ip", *words], check=True, capture_output=True)


def cabled(stack: ExitStack) -> list[int]:
    """Processes that keep two networks open, cabled to the bridge of this one."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "hub", "type", "bridge")
    ip("addr", "add", f"{HUB}/24", "dev", "hub")
    ip("link", "set", "hub", "up")
    found = []
    for k in (2, 3):
        keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=-1
        )
        stack.callback(keeper.kill)
        assert keeper.stdout is not None
        keeper.stdout.readline()  # it is in its own network now
        at = keeper.pid
        ip("link", "add", f"cable{k}", "type", "veth", "peer", "name", "far", "netns", str(at))
        ip("link", "set", f"cable{k}", "master", "hub", "up")
        ip("addr", "add", f"10.77.0.{k}/24", "dev", "far", at=at)
        for device in ("lo", "far"):
            ip("link", "set", device, "up", at=at)
        found.append(at)
    return found


def main(folder: Path) -> None:
    with ExitStack() as stack:
        try:
            networks = cabled(stack)
        except (OSError, subprocess.CalledProcessError):
            sys.exit(NOT_PERMITTED)
        sys.stdout.write("same bits" if fitted(networks, folder, stack) else "other bits")


def fitted(networks: list[int], folder: Path, stack: ExitStack) -> bool:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    import fairpc.cluster._table
    from decisions import table
    from fairpc import LatNB

    fairpc.cluster._table.PART_ROWS = 100  # type: ignore[misc]
    hub: dict[str, Any] = {"host": HUB, "dashboard_address": f"{HUB}:0"}
    cluster = stack.enter_context(LocalCluster(n_workers=0, **hub))
    client = stack.enter_context(Client(cluster))
    dask = shutil.which("dask", path=str(Path(sys.executable).parent)) or "dask"
    for k, at in enumerate(networks, 2):
        command = ["nsenter", "-t", str(at), "-n", dask, "worker", cluster.scheduler_address]
        command += ["--no-nanny", "--no-dashboard", "--nthreads=1", f"--host=10.77.0.{k}"]
        worker = subprocess.Popen([*command, f"--local-directory={folder}"], stderr=-3, stdout=-3)
        stack.callback(worker.kill)
    client.wait_for_workers(2, timeout=120)
    hosts = {own["host"] for own in client.scheduler_info()["workers"].values()}
    assert hosts == {"10.77.0.2", "10.77.0.3"}
    frame = table(900).drop("weight").to_pandas()
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 12, "tol": 0.0}
    steps: list[int] = []

    def fit(kill: int | None) -> Any:
        def on_step(step: Any) -> None:
            steps.append(step.iteration)
            if kill is not None and len(steps) == 18:  # in the run of EM over the parts
                os.kill(kill, signal.SIGKILL)

        rows = dd.from_pandas(frame, npartitions=4, sort=False)
        steps.clear()
        with patch("fairpc.models._circuit_fit.reporter", lambda say: on_step):
            return LatNB("sex", **settings).fit(rows, "label", max_memory="200KB")

    quiet = fit(None)
    pid = next(iter(client.run(os.getpid).values()))
    hurt = fit(pid)
    assert len(client.scheduler_info()["workers"]) == 1
    return bool(np.array_equal(quiet.circuit_.parameters, hurt.circuit_.parameters))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
