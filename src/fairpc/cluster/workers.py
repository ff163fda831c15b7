"""Workers of a cluster: whether they can do our tasks, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairpc.errors import ClusterError

LOOK: Final = 5.0
"""Seconds for which tasks are waited for before somebody looks after the workers."""

PATIENCE: Final = 60.0
"""Seconds after which a cluster without workers is given up."""

_PACKAGE: Final = "fairpc"
_LIBRARIES: Final = ("numba", "pandas", "polars", "pyarrow")


def check_workers(client: Any) -> int:
    """The number of workers.

    A ClusterError says that one lacks this very package: it would end itself at every task.
    """
    from fairpc import __version__

    workers = client.run(_versions(), _PACKAGE, _LIBRARIES, on_error="return")
    for address, found in workers.items():
        if isinstance(found, BaseException):  # it has just gone
            continue
        lacks = next((name for name, version in found.items() if version is None), None)
        if lacks is not None or found[_PACKAGE] != __version__:
            has = f"no {lacks}" if lacks else f"fairpc {found[_PACKAGE]}"
            raise ClusterError(
                f"the Dask worker at {address} has {has}, and this is fairpc {__version__}: "
                "install the same fairpc[cluster] on every worker"
            )
    return len(workers)


def finish(client: Any, futures: Sequence[Any]) -> None:
    """Return once tasks have ended, well or not; a ClusterError says why they never will."""
    from concurrent.futures import CancelledError

    from distributed import wait

    seen = time.monotonic()
    while True:
        try:
            with client.as_current():
                wait(list(futures), timeout=LOOK)
            return
        except TimeoutError:
            if any(future.status == "error" for future in futures):
                return
        except CancelledError as error:
            raise _gone() from error
        try:
            if check_workers(client):
                seen = time.monotonic()
        except OSError as error:
            raise _gone() from error
        if time.monotonic() - seen > PATIENCE:
            raise ClusterError(
                f"the Dask cluster has had no workers for {PATIENCE:.0f} seconds: start some, or "
                "see in the logs of those that ended what they could not do, such as an import"
            )


def results(client: Any, futures: Sequence[Any], what: str) -> list[Any]:
    """What tasks give, in order; ``what`` they are about is named where they end workers."""
    from distributed import KilledWorker

    finish(client, futures)
    try:
        found: list[Any] = client.gather(list(futures))
    except KilledWorker as error:
        raise killed(what) from error
    return found


def killed(what: str) -> ClusterError:
    """The error of a task that ended workers."""
    return ClusterError(
        f"{what} ended every worker that was given it, most often for want of memory or of a "
        "module that it imports: see their logs, give workers more, or make partitions smaller"
    )


def _gone() -> ClusterError:
    return ClusterError(
        "the Dask scheduler has gone or begun anew, and with it what the workers did: see that it "
        "runs, and fit again"
    )


def _versions() -> Any:
    """A function of names of modules, sent as what it is: workers may lack this module."""

    def versions(package: str, others: Sequence[str]) -> Mapping[str, str | None]:
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
        return found

    return versions
