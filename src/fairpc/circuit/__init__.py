"""Probabilistic circuits: exact queries, expected flows, EM, files. No word about fairness.

    from fairpc.circuit import CircuitBuilder, flows, em

Compiled kernels are imported at the first query.
"""

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.file import load_circuit, save_circuit
from fairpc.circuit.graph import Circuit, Graph
from fairpc.circuit.psdd import read_psdd, write_psdd

__all__ = [
    "Circuit",
    "CircuitBuilder",
    "Graph",
    "load_circuit",
    "read_psdd",
    "save_circuit",
    "write_psdd",
]
