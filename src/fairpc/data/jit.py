"""How kernels are compiled: once, cached on disk, without the interpreter lock.

Kernels run from Python threads over fixed chunks of rows, so they release the
lock and are not parallel themselves. Fast-math is limited to reordering and
fusing: infinities and NaN keep their meaning, because log 0 is one of our values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract"},
    "error_model": "numpy",
}


class _FirstCompilation(event.Listener):  # type: ignore[misc]
    """Says once why the first call takes long; the log of "fairpc" has it at level INFO."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said and event.data["dispatcher"].__module__.startswith("fairpc."):
            self.said = True
            logging.getLogger("fairpc").info(
                "compiling for this machine, once after an installation: up to half a minute"
            )

    def on_end(self, event: Any) -> None:
        """Not spoken of."""


event.register("numba:compile", _FirstCompilation())


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk.

    Numba looks for a folder beside the source, then in the user's cache. Where
    none of them can be written the kernel still works, compiled per process.
    """
    try:
        compiled = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        compiled = njit(**_OPTIONS)(function)
    return compiled  # type: ignore[no-any-return]
