"""Rooms whose names are loaded when they are first used.

A room imports its names for type checkers alone, and this reads them from there::

    if TYPE_CHECKING:
        from fairpc.evidence._gaps import SMALL, parity as parity

    __getattr__, __dir__ = on_first_use(__name__)

So a name is listed once, and whoever asks for it does not load the modules of all others. What has
an ``as`` is for users, too, and becomes ``__all__``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_first_use(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) of what imports names under ``TYPE_CHECKING``."""
    room: Any = sys.modules[module]
    source = room.__spec__.loader.get_source(module)
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    names = [(node.module, alias) for node in imports for alias in node.names]
    homes = {alias.asname or alias.name: (home, alias.name) for home, alias in names}
    if not hasattr(room, "__all__"):
        room.__all__ = sorted(alias.asname for _, alias in names if alias.asname)

    def load(name: str) -> Any:
        home, known = homes.get(name, (None, name))
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if home == module:  # a room of the package
            return import_module(f"{module}.{name}")
        value = getattr(import_module(home), known)
        setattr(room, name, value)
        return value

    return load, lambda: sorted(room.__all__)
