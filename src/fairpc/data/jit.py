"""How kernels are compiled: once, cached on disk, without the interpreter lock.

Kernels run from Python threads over fixed chunks of rows, so they release the
lock and are not parallel themselves. Fast-math is limited to reordering and
fusing: infinities and NaN keep their meaning, because log 0 is one of our values.
Kernels that compare sums to break ties are strict: they have no fast-math.
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
_STRICT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


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


class _NoCache:
    """Says once that nothing compiled can be kept; the log of "fairpc" has it as a warning."""

    said = False

    @classmethod
    def say(cls) -> None:
        if not cls.said:
            cls.said = True
            logging.getLogger("fairpc").warning(
                "no folder for compiled code can be written, so every process compiles anew: set "
                "NUMBA_CACHE_DIR to a folder that can"
            )


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk.

    Numba looks for a folder beside the source, then in the user's cache. Where
    none of them can be written the kernel still works, compiled per process.
    """
    return _compiled(function, _OPTIONS)


def strict_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`kernel`, with the order of sums kept as it is written."""
    return _compiled(function, _STRICT)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`strict_kernel`, for what only other kernels call."""
    return _compiled(function, _STRICT | {"no_cpython_wrapper": True})


def _compiled(function: F, options: dict[str, Any]) -> F:
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:
        _NoCache.say()
        compiled = njit(**options)(function)
    return compiled  # type: ignore[no-any-return]
