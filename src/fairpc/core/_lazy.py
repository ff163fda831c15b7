"""Rooms whose names are loaded when they are first used.

A room imports its names for type checkers alone, and this reads them from there::

    if TYPE_CHECKING:
        from fairpc.evidence._gaps import parity

    __getattr__ = on_first_use(__name__)

So a name is listed once, editors and type checkers see where it comes from, and whoever asks for
one name does not load the modules of all others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import getsource
from typing import Any


def on_first_use(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` (PEP 562) of a module that imports names under ``TYPE_CHECKING``."""
    room = sys.modules[module]
    blocks = (node for node in ast.parse(getsource(room)).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    homes = {a.asname or a.name: (node.module, a.name) for node in imports for a in node.names}

    def load(name: str) -> Any:
        home, known = homes.get(name, (None, name))
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(home), known)
        setattr(room, name, value)
        return value

    return load
