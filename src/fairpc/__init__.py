"""fairpc: exact probabilistic circuits, and decisions learned from biased labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpc import circuit, data, errors, evidence, metrics, structure
    from fairpc.auditing import Audit, audit
    from fairpc.comparison import Comparison, compare
    from fairpc.errors import FairpcError
    from fairpc.estimators import FairPC, LatentDecision, LatNB, NLatPC, TwoNB, load
    from fairpc.exporting import export
    from fairpc.fair.knowledge import Knowledge
    from fairpc.refits import bootstrap_mechanism, sensitivity, stability, suggest_anchors

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
    "sensitivity",
    "stability",
    "structure",
    "suggest_anchors",
]

_HOME = {
    "Audit": "fairpc.auditing",
    "Comparison": "fairpc.comparison",
    "FairPC": "fairpc.estimators",
    "FairpcError": "fairpc.errors",
    "Knowledge": "fairpc.fair.knowledge",
    "LatNB": "fairpc.estimators",
    "LatentDecision": "fairpc.estimators",
    "NLatPC": "fairpc.estimators",
    "load": "fairpc.estimators",
    "TwoNB": "fairpc.estimators",
    "audit": "fairpc.auditing",
    "bootstrap_mechanism": "fairpc.refits",
    "compare": "fairpc.comparison",
    "export": "fairpc.exporting",
    "sensitivity": "fairpc.refits",
    "stability": "fairpc.refits",
    "suggest_anchors": "fairpc.refits",
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
