"""Probabilistic circuits: exact queries, expected flows, EM, files. No word about fairness.

    from fairpc.circuit import CircuitBuilder, flows, em

Names are imported at first use; compiled kernels at the first query.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpc.circuit.builder import CircuitBuilder as CircuitBuilder
    from fairpc.circuit.file import load_circuit as load_circuit
    from fairpc.circuit.file import save_circuit as save_circuit
    from fairpc.circuit.graph import Circuit as Circuit
    from fairpc.circuit.graph import Graph as Graph
    from fairpc.circuit.psdd import read_psdd as read_psdd
    from fairpc.circuit.psdd import write_psdd as write_psdd

_MODULE_OF = {
    "Circuit": "graph",
    "CircuitBuilder": "builder",
    "Graph": "graph",
    "load_circuit": "file",
    "read_psdd": "psdd",
    "save_circuit": "file",
    "write_psdd": "psdd",
}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
