"""Packed circuits: every number comes back, in the narrowest type."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given

from fairpc.auditing._background import packed_circuit, whole_numbers
from fairpc.circuit import Circuit, to_dict
from strategies import circuits


def unpacked(text: str) -> npt.NDArray[Any]:
    name, content = text.split(":")
    return np.frombuffer(base64.b64decode(content), f"<{name}")


@given(circuits())
def test_every_number_comes_back(circuit: Circuit) -> None:
    graph, packed = circuit.graph, packed_circuit(to_dict(circuit))
    assert np.array_equal(unpacked(packed["theta"]), circuit.parameters)
    assert np.array_equal(unpacked(packed["kind"]), graph.kind)
    assert np.array_equal(unpacked(packed["child"]), graph.child)
    leaves, sums = graph.kind == 0, graph.kind == 2
    assert np.array_equal(unpacked(packed["variable"]), graph.variable[leaves])
    assert np.array_equal(unpacked(packed["value"]), graph.value[leaves])
    assert np.array_equal(unpacked(packed["n_children"]), np.diff(graph.child_ptr)[~leaves])
    assert np.array_equal(unpacked(packed["start"]), graph.block_ptr[graph.block[sums]])


def test_types_are_as_narrow_as_they_can_be() -> None:
    for largest, name in ((0, "u1"), (255, "u1"), (256, "u2"), (65_535, "u2"), (65_536, "u4")):
        assert whole_numbers(np.array([0, largest])).startswith(f"{name}:")
    assert whole_numbers(np.array([], np.int64)) == "u1:"
