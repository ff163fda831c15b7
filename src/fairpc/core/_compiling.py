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
import os
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Lock, local
from types import ModuleType
from typing import Any, Self, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import caching, config, event, types
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable[..., Any])
_STRICT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_OPTIONS: dict[str, Any] = _STRICT | {"fastmath": {"reassoc", "contract"}}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True}


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


@cache
def kernel_folder() -> Path | None:
    """Where compiled kernels are kept, named by all that they are made of; None if that is unsafe.

    It lies in ``NUMBA_CACHE_DIR`` or in the user's cache, so every environment with the same
    sources and versions shares it. Numba tells processors apart inside it. Code from there is run:
    the folder must belong to the user or to root, and nobody else may write into it.
    """
    of_user = caching.AppDirs(appname="fairpc", appauthor=False).user_cache_dir
    root = Path(config.CACHE_DIR, "fairpc") if config.CACHE_DIR else Path(of_user)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = Path(os.path.realpath(root))  # whose link it was may let it lead elsewhere later
        folder = root / f"kernels-{_fingerprint()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if sys.platform == "win32":  # folders of a user are closed to others there
            return folder
        states = [path.stat() for path in (root, folder)]
    except OSError:
        return None
    own = all(s.st_uid in {os.getuid(), 0} and not s.st_mode & 0o022 for s in states)
    return folder if own else None


def _fingerprint() -> str:
    """Of the sources of all kernels, for they call each other, and of what compiles them."""
    versions = (sys.implementation.cache_tag, numba.__version__, version("llvmlite"))
    digest = sha256(repr(versions).encode())
    here = Path(__file__)
    for path in (here, *sorted(here.parents[1].glob("*/*_kernels.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _KernelLocator(caching._CacheLocator):  # type: ignore[misc]
    """Finds a kernel by what it is made of; numba's own locators go by the path of its source."""

    def __init__(self, function: Callable[..., Any], file: str, folder: Path) -> None:
        self._py_file, self._folder = file, folder
        self._name = f"{function.__module__}-{function.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self | None:
        folder = kernel_folder()
        return None if folder is None else cls(function, file, folder)


class _Locations(caching.CompileResultCacheImpl):  # type: ignore[misc]
    # Beside the source code is as safe as the source; numba's other folders go unchecked.
    _locator_classes = (
        _KernelLocator,
        *(c for c in caching.CompileResultCacheImpl._locator_classes if "InTree" in c.__name__),
    )


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Kernels on disk. They may be read where they cannot be written, as in an image."""

    _impl_class = _Locations

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            _say_uncached()


_here = local()
"""It has ``in_python`` in a thread while kernels that are defined in it stay Python."""


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
        del _here.in_python
    return module


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk.

    It is kept in :func:`kernel_folder`, else beside the source. Where neither can be written the
    kernel still works, compiled per process.
    """
    return _compiled(function, _OPTIONS)


def strict_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`kernel`, with the order of sums kept as it is written."""
    return _compiled(function, _STRICT)


def inner_kernel(function: F) -> F:
    """As :func:`kernel`, for what only other kernels call: it is kept as a part of these."""
    return _compiled(function, _OPTIONS | _INNER)


def strict_inner_kernel(function: Callable[..., Any]) -> Any:
    """As :func:`strict_kernel`, for what only other kernels call."""
    return _compiled(function, _STRICT | _INNER)


def _compiled(function: F, options: dict[str, Any]) -> F:
    if hasattr(_here, "in_python"):
        return function
    compiled = njit(**options)(function)
    # Inner kernels are not kept; where NUMBA_DISABLE_JIT is set, nothing is.
    if options.keys().isdisjoint(_INNER) and hasattr(compiled, "enable_caching"):
        try:
            compiled._cache = _KernelCache(function)
        except RuntimeError:
            _say_uncached()
    return compiled  # type: ignore[no-any-return]


def add_four(sums: Any, i: Any, *terms: Any) -> None:
    """Add four numbers to row ``i`` of a matrix of four columns; compiled, by one instruction.

    The compiler itself puts numbers together in loops over many rows alone.
    """
    for k in range(4):
        sums[i, k] += terms[k]


@overload(add_four)  # type: ignore[untyped-decorator]
def _compiled_add_four(sums: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def add(sums: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        _add_at_once(sums, i, a, b, c, d)

    return add


@intrinsic  # type: ignore[untyped-decorator]
def _add_at_once(_: Any, sums: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        wide = ir.VectorType(ir.DoubleType(), 4)
        rows = context.make_array(sums)(context, builder, given[0]).data
        place = context.cast(builder, given[1], i, types.intp)
        row = builder.gep(builder.bitcast(rows, wide.as_pointer()), [place])
        terms = ir.Constant(wide, ir.Undefined)
        for k, term in enumerate(given[2:]):
            terms = builder.insert_element(terms, term, ir.Constant(ir.IntType(32), k))
        builder.store(builder.fadd(builder.load(row, align=8), terms), row, align=8)
        return context.get_dummy_value()

    return types.void(sums, i, a, b, c, d), write
