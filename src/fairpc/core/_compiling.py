"""How kernels are compiled: once, cached on disk, without the interpreter lock.

Kernels run from Python threads over fixed chunks of rows, so they release the
lock and are not parallel themselves. Fast-math is limited to reordering and
fusing: infinities and NaN keep their meaning, because log 0 is one of our values.
Kernels that compare sums to break ties are strict: they have no fast-math.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
from collections.abc import Callable
from functools import cache
from threading import Lock, local
from types import ModuleType
from typing import Any, TypeVar

from numba import njit
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

_STRICT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_OPTIONS: dict[str, Any] = _STRICT | {"fastmath": {"reassoc", "contract"}}


class _Compilation(event.Listener):  # type: ignore[misc]
    """Says once why the first call takes long, and lets garbage wait while kernels are compiled.

    A later process says it again if it calls what no process before it has called.
    The log of "fairpc" has the sentence at level INFO. A compiler makes many small objects that
    live on; looking through them for garbage is a sixth of its time.
    """

    def __init__(self) -> None:
        self.said = False
        self._depth = 0
        self._lock = Lock()

    def on_start(self, event: Any) -> None:
        if not _is_ours(event):
            return
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._collecting = gc.isenabled()
                gc.disable()
            said, self.said = self.said, True
        if not said:
            logging.getLogger("fairpc").info(
                "compiling what this needs for the first time: some seconds, and then it is kept"
            )

    def on_end(self, event: Any) -> None:
        if _is_ours(event):
            with self._lock:
                self._depth -= 1
                if self._depth == 0 and self._collecting:
                    gc.enable()


def _is_ours(event: Any) -> bool:
    return bool(event.data["dispatcher"].__module__.startswith("fairpc."))


_compilation = _Compilation()
event.register("numba:compile", _compilation)


@cache
def _say_uncached() -> None:
    """Say once that nothing compiled can be kept; the log of "fairpc" has it as a warning."""
    _compilation.said = True  # what is compiled anew each time is announced by this
    logging.getLogger("fairpc").warning(
        "no folder for compiled code can be written, so every process compiles anew, which "
        "takes some seconds: set NUMBA_CACHE_DIR to a folder that can"
    )


class _Definitions(local):
    """Whether kernels that are defined in this thread stay Python."""

    in_python = False


_here = _Definitions()


@cache
def in_python(name: str) -> ModuleType:
    """A module of kernels once more, not compiled: for less work than compiling would be."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    importlib.import_module(name)  # what it imports is compiled as ever
    module = importlib.util.module_from_spec(spec)
    _here.in_python = True
    try:
        spec.loader.exec_module(module)
    finally:
        _here.in_python = False
    return module


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk.

    Numba looks for a folder beside the source, then in the user's cache. Where
    none of them can be written the kernel still works, compiled per process.
    """
    return _compiled(function, _OPTIONS)


def strict_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`kernel`, with the order of sums kept as it is written."""
    return _compiled(function, _STRICT)


def inner_kernel(function: F) -> F:
    """As :func:`kernel`, for what only other kernels call: it is kept as a part of these."""
    return _inner(function, _OPTIONS)


def strict_inner_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`strict_kernel`, for what only other kernels call."""
    return _inner(function, _STRICT)


def _inner(function: F, options: dict[str, Any]) -> F:
    if _here.in_python:
        return function
    return njit(no_cpython_wrapper=True, **options)(function)  # type: ignore[no-any-return]


def _compiled(function: F, options: dict[str, Any]) -> F:
    if _here.in_python:
        return function
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:
        _say_uncached()
        compiled = njit(**options)(function)
    return compiled  # type: ignore[no-any-return]
