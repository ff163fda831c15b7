"""Benchmarks as modules of the tests."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

BENCHMARKS = str(Path(__file__).resolve().parents[1] / "benchmarks")


def script(name: str) -> Any:
    """A benchmark. Its folder has names that the tests have too: it is on the path meanwhile."""
    sys.path.insert(0, BENCHMARKS)
    try:
        return import_module(name)
    finally:
        sys.path.remove(BENCHMARKS)
