"""A circuit as short text that a browser turns into typed arrays without losing a digit."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fairpc.errors.arrays import Array

INDICATOR: Final = 0
SUM: Final = 2

_UNSIGNED: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))


def packed_circuit(circuit: Mapping[str, Any]) -> dict[str, Any]:
    """The circuit of an audit, each array as its type and the base64 of its bytes.

    What follows from the kind of a node is left out: indicators have a variable
    and a value, other nodes a number of children, sums the place of their first
    weight. Whole numbers take the narrowest type that holds them.
    """
    nodes = {name: np.asarray(values) for name, values in circuit["nodes"].items()}
    kind = nodes["kind"]
    counts = np.diff(nodes["child_ptr"])
    blocks = nodes["block"][kind == SUM]
    return {
        "arities": list(circuit["variables"]["arities"]),
        "kind": whole_numbers(kind),
        "variable": whole_numbers(nodes["variable"][kind == INDICATOR]),
        "value": whole_numbers(nodes["value"][kind == INDICATOR]),
        "n_children": whole_numbers(counts[kind != INDICATOR]),
        "child": whole_numbers(nodes["child"]),
        "start": whole_numbers(nodes["block_ptr"][blocks]),
        "theta": _packed("f8", np.asarray(circuit["parameters"])),
    }


def whole_numbers(values: Array) -> str:
    """Whole numbers from 0 in the narrowest type that holds the largest."""
    largest = int(values.max(initial=0))
    return _packed(next(name for name, limit in _UNSIGNED if largest < limit), values)


def _packed(name: str, values: Array) -> str:
    little_endian = values.astype(f"<{name}")
    return f"{name}:{base64.b64encode(little_endian.tobytes()).decode('ascii')}"
