"""polars under its own names, loaded when one is first used: help does not wait for it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polars import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(import_module("polars"), name)
