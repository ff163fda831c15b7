"""fairpc: exact probabilistic circuits, and decisions learned from biased labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
        bootstrap_mechanism,
        load,
        stability,
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
    "bootstrap_mechanism",
    "circuit",
    "compare",
    "data",
    "errors",
    "evidence",
    "export",
    "load",
    "metrics",
    "stability",
    "structure",
]

_HOME = {
    "Audit": "fairpc.auditing",
    "Comparison": "fairpc.comparison",
    "FairPC": "fairpc.models",
    "FairpcError": "fairpc.core",
    "Knowledge": "fairpc.models",
    "LatNB": "fairpc.models",
    "LatentDecision": "fairpc.models",
    "NLatPC": "fairpc.models",
    "load": "fairpc.models",
    "TwoNB": "fairpc.models",
    "audit": "fairpc.auditing",
    "bootstrap_mechanism": "fairpc.models",
    "compare": "fairpc.comparison",
    "export": "fairpc.exporting",
    "stability": "fairpc.models",
}


def __getattr__(name: str) -> Any:
    """Public names on first use (PEP 562): importing fairpc loads no compiler and no learner."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("fairpc")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in __all__:
        return import_module(f"fairpc.{name}")
    else:
        raise AttributeError(f"module 'fairpc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
