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
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import numpy as np

from fairpc.circuit._circuit import Circuit
from fairpc.circuit._graph import Graph
from fairpc.core import (
    AnyPath,
    Array,
    CircuitError,
    FileFormatError,
    Ints,
    parse_json,
    read_whole,
    write_atomically,
)

FORMAT: Final = "fairpc circuit"
VERSION: Final = 1

MAX_BYTES: Final = 32 * 2**20
"""Largest file that is read unless the caller says otherwise."""

_LARGEST: Final = {"kind": 255}
_NODE_FIELDS: Final = ("kind", "variable", "value", "child_ptr", "child", "block", "block_ptr")
_FIELDS: Final = ("format", "version", "checksum", "variables", "nodes", "parameters")


def save_circuit(circuit: Circuit, path: AnyPath) -> None:
    """Write a circuit to a file, whole or not at all."""
    text = json.dumps(to_dict(circuit), separators=(",", ":"), allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def load_circuit(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> Circuit:
    """The circuit of a file; a FileFormatError says what is wrong with one that is not as saved."""
    source = os.fspath(path)
    return from_dict(parse_json(read_whole(path, max_bytes), source, max_bytes), source)


def to_dict(circuit: Circuit) -> dict[str, Any]:
    """The content of a file, as plain dicts, lists, strings and numbers."""
    graph = circuit.graph
    return {
        "format": FORMAT,
        "version": VERSION,
        "variables": {"names": list(graph.names), "arities": graph.arities.tolist()},
        "nodes": {name: getattr(graph, name).tolist() for name in _NODE_FIELDS},
        "parameters": circuit.parameters.tolist(),
        "checksum": _checksum(graph.names, vars(graph), circuit.parameters),
    }


def from_dict(payload: object, source: str = "the circuit") -> Circuit:
    """The circuit of what ``to_dict`` gave; ``source`` is what errors call it."""
    fields = _object(payload, (), source)
    if fields.get("format") != FORMAT:
        _fail(source, f"it is no {FORMAT} file: its field 'format' does not say so")
    version = fields.get("version")
    if type(version) is not int or version < 1:
        _fail(source, "its field 'version' is no positive integer: it was altered")
    if version > VERSION:
        _fail(
            source,
            f"it was made by a newer version of fairpc (its format is {version}, this one reads "
            f"up to {VERSION}): update fairpc",
        )
    fields = _object(payload, _FIELDS, source)
    variables = _object(fields["variables"], ("names", "arities"), source)
    nodes = _object(fields["nodes"], _NODE_FIELDS, source)
    names = _list(variables["names"], "names", str, source)
    if not names:
        _fail(source, "it has no variables: it was altered")
    integers = {"arities": variables["arities"], **nodes}
    arrays: dict[str, Any] = {n: _integers(v, n, source) for n, v in integers.items()}
    parameters = np.array(_list(fields["parameters"], "parameters", float, source), np.float64)
    if fields["checksum"] != _checksum(tuple(names), arrays, parameters):
        _fail(source, "its checksum does not fit its content: it was altered; use an intact copy")
    try:
        return Circuit(Graph(names=tuple(names), **arrays), parameters)
    except CircuitError as error:
        raise FileFormatError(f"{source} holds no circuit: {error}") from error


def _object(value: object, names: tuple[str, ...], source: str) -> dict[str, Any]:
    """A JSON object with exactly these fields; any fields if none are named."""
    if not isinstance(value, dict):
        _fail(source, "a list or value stands where an object is expected: it was altered")
    if names and set(value) != set(names):
        odd = sorted(map(str, set(value) ^ set(names)))[0]
        state = "lacks the field" if odd in names else "has the unknown field"
        _fail(source, f"it {state} {odd[:40]!r}: it was altered or truncated")
    return value


def _list(value: object, name: str, kind: type, source: str) -> list[Any]:
    if not isinstance(value, list) or not set(map(type, value)) <= {kind}:
        _fail(source, f"its field {name!r} is no list of {kind.__name__}: it was altered")
    return value


def _integers(value: object, name: str, source: str) -> Ints:
    """Integers that fit the graph's arrays, which would else wrap around in silence."""
    values = _list(value, name, int, source)
    largest = _LARGEST.get(name, np.iinfo(np.int32).max)
    if values and not -1 <= min(values) <= max(values) <= largest:
        _fail(source, f"its field {name!r} has a number out of range: it was altered")
    return np.array(values, np.int64)


def _checksum(names: tuple[str, ...], arrays: Mapping[str, Array], parameters: Array) -> str:
    digest = hashlib.sha256(f"{FORMAT} {VERSION}\n{json.dumps(names)}\n".encode())
    for name in ("arities", *_NODE_FIELDS):
        digest.update(f"{name} {len(arrays[name])}\n".encode())
        digest.update(arrays[name].astype("<i8").tobytes())
    digest.update(f"parameters {len(parameters)}\n".encode())
    digest.update(parameters.astype("<f8").tobytes())
    return f"sha256:{digest.hexdigest()}"


def _fail(source: str, problem: str) -> NoReturn:
    raise FileFormatError(f"{source}: {problem}")
