"""Circuits as data-only JSON files: checked before they are believed, never executed.

A file is one JSON object::

    {"format": "fairpc circuit", "version": 1, "checksum": "sha256:…",
     "variables": {"names": […], "arities": […]},
     "nodes": {"kind": […], "variable": […], "value": […], "child_ptr": […], "child": […],
               "block": […], "block_ptr": […]},
     "parameters": […]}

The arrays are those of ``Graph``; parameters are written with all their digits,
so that they come back bit for bit. The checksum is over the values and not over
their spelling: the names as JSON, then each array as little-endian 64-bit
numbers, each preceded by its name and length.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from fairpc.circuit._circuit import Circuit
from fairpc.circuit._graph import Graph
from fairpc.core import (
    ALTERED,
    AnyPath,
    CircuitError,
    FileFormatError,
    Floats,
    Ints,
    read_json,
    record,
    serialise,
    write_atomically,
)

FORMAT: Final = "fairpc circuit"
VERSION: Final = 1

MAX_BYTES: Final = 32 * 2**20
"""Largest file that is read unless the caller says otherwise."""


@dataclass(frozen=True, eq=False)
class SavedVariables:
    names: tuple[str, ...]
    arities: Ints


@dataclass(frozen=True, eq=False)
class SavedNodes:
    kind: Ints
    variable: Ints
    value: Ints
    child_ptr: Ints
    child: Ints
    block: Ints
    block_ptr: Ints


@dataclass(frozen=True, eq=False)
class SavedCircuit:
    """The content of a file but for what it says about itself."""

    variables: SavedVariables
    nodes: SavedNodes
    parameters: Floats

    @classmethod
    def of(cls, circuit: Circuit) -> SavedCircuit:
        g = circuit.graph
        nodes = SavedNodes(*(getattr(g, f.name) for f in fields(SavedNodes)))
        return cls(SavedVariables(g.names, g.arities), nodes, circuit.parameters)

    @property
    def checksum(self) -> str:
        names = self.variables.names
        digest = hashlib.sha256(f"{FORMAT} {VERSION}\n{json.dumps(names)}\n".encode())
        arrays = {"arities": self.variables.arities, **vars(self.nodes)}
        for name, array in {**arrays, "parameters": self.parameters}.items():
            digest.update(f"{name} {len(array)}\n".encode())
            digest.update(array.astype("<f8" if name == "parameters" else "<i8").tobytes())
        return f"sha256:{digest.hexdigest()}"

    def circuit(self) -> Circuit:
        own = asdict(self.variables) | asdict(self.nodes)
        return Circuit(Graph(**own), self.parameters)


def save_circuit(circuit: Circuit, path: AnyPath) -> None:
    """Write a circuit to a file, whole or not at all."""
    text = json.dumps(to_dict(circuit), separators=(",", ":"), allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def load_circuit(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> Circuit:
    """The circuit of a file; a FileFormatError says what is wrong with one that is not as saved."""
    return from_dict(read_json(path, max_bytes), os.fspath(path))


def to_dict(circuit: Circuit) -> dict[str, Any]:
    """The content of a file, as plain dicts, lists, strings and numbers."""
    saved = SavedCircuit.of(circuit)
    about = {"format": FORMAT, "version": VERSION}
    return {**about, **serialise(saved), "checksum": saved.checksum}


def from_dict(payload: Any, source: str = "the circuit") -> Circuit:
    """The circuit of what ``to_dict`` gave; ``source`` is what errors call it."""
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise FileFormatError(f"{source}: it is not a {FORMAT} file: its 'format' does not say so")
    if (version := payload.get("version")) != VERSION or isinstance(version, bool):
        raise FileFormatError(
            f"{source}: its version is {str(version)[:20]!r}, not {VERSION}: update fairpc if a "
            "newer version made it"
        )
    content = {name: payload[name] for name in payload if name not in ("format", "version")}
    checksum = content.pop("checksum", None)
    saved = record(SavedCircuit, content, source, exact=True, repair=ALTERED)
    if checksum != saved.checksum:
        raise FileFormatError(f"{source}: its checksum does not fit its content: {ALTERED}")
    try:
        return saved.circuit()
    except CircuitError as error:
        raise FileFormatError(f"{source} holds no circuit: {error}") from error
