"""fairpc: exact probabilistic circuits, and decisions learned from biased labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc import circuit, data, errors, evidence, metrics, structure
    from fairpc.auditing import Audit, audit
    from fairpc.comparison import Comparison, compare
    from fairpc.core import FairpcError
    from fairpc.exporting import export
    from fairpc.models import (
        FairPC,
        Knowledge,
        LatentDecision,
        LatNB,
        NLatPC,
        TwoNB,
        load,
    )

    __version__: str

__all__ = [
    "Audit",
    "Comparison",
    "FairPC",
    "FairpcError",
    "Knowledge",
    "LatNB",
    "LatentDecision",
    "NLatPC",
    "TwoNB",
    "__version__",
    "audit",
    "circuit",
    "compare",
    "data",
    "errors",
    "evidence",
    "export",
    "load",
    "metrics",
    "structure",
]

_load, __dir__ = on_first_use(__name__)


def __getattr__(name: str) -> Any:
    """Public names on first use: importing fairpc loads no compiler and no learner."""
    if name == "__version__":
        from importlib.metadata import version

        return version("fairpc")
    return _load(name)
