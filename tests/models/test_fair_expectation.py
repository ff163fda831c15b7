"""Expectations of functions of boxes, against enumeration on random small circuits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import oracle
from fairpc.circuit import CircuitBuilder
from fairpc.errors import EvidenceError, PropertyError
from fairpc.models._outside_classifier import Boxes, box_masses, expected_boxes
from strategies import Case, cases

Array = oracle.Array


def random_boxes(rng: np.random.Generator, arities: Array) -> Boxes:
    """Boxes that may overlap, be empty, or hold everything."""
    n_boxes = int(rng.integers(1, 6))
    allowed = tuple(rng.random((n_boxes, int(a))) < 0.7 for a in arities)
    return Boxes(allowed, rng.normal(size=n_boxes))


def summed(boxes: Boxes, rows: Array) -> Array:
    """The function by its definition: row by row, box by box."""
    total = np.zeros(len(rows))
    for i, row in enumerate(rows):
        for k, value in enumerate(boxes.value):
            if all(box[k, v] for box, v in zip(boxes.allowed, row, strict=True)):
                total[i] += value
    return total


@given(cases(), st.integers(0, 2**32 - 1))
def test_expectations_equal_enumeration(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arities = np.asarray(case.circuit.arities)
    order = rng.permutation(len(arities))[: int(rng.integers(1, len(arities) + 1))].tolist()
    boxes = random_boxes(rng, arities[order])
    found = expected_boxes(case.circuit, boxes, order, case.codes.astype(np.int16))
    slow = oracle.expectations(case.circuit, lambda rows: summed(boxes, rows), order, case.codes)
    np.testing.assert_allclose(found, slow, atol=1e-10)
    rows = oracle.all_rows(case.circuit.graph)[:, order]
    np.testing.assert_allclose(boxes(rows), summed(boxes, rows), atol=1e-12)


@given(cases(), st.integers(0, 2**32 - 1))
def test_masses_equal_enumeration(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, np.asarray(case.circuit.arities))
    rows, p = oracle.all_rows(case.circuit.graph), oracle.joint(case.circuit)
    found = box_masses(case.circuit, dict(enumerate(boxes.allowed)), len(boxes.value))
    for k, mass in enumerate(found):
        alone = Boxes(tuple(box[[k]] for box in boxes.allowed), np.ones(1))
        assert mass == pytest.approx(float(p @ summed(alone, rows)), abs=1e-10)


def test_many_boxes_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = CircuitBuilder({"a": 2, "b": 3})
    node = builder.product(
        builder.categorical("a", [0.4, 0.6]), builder.categorical("b", [0.2, 0.3, 0.5])
    )
    circuit = builder.build(node)
    rng = np.random.default_rng(0)
    allowed = {0: rng.random((50, 2)) < 0.6, 1: rng.random((50, 3)) < 0.6}
    at_once = box_masses(circuit, allowed, 50)
    monkeypatch.setattr("fairpc.models._outside_classifier.CELLS", 7 * circuit.graph.n_nodes)
    np.testing.assert_array_equal(box_masses(circuit, allowed, 50), at_once)


def test_what_cannot_be_asked_is_refused() -> None:
    builder = CircuitBuilder({"a": 2, "b": 2})
    never = builder.build(
        builder.product(builder.indicator("a", 0), builder.categorical("b", [0.5, 0.5]))
    )
    boxes = Boxes((np.ones((1, 2), np.bool_),), np.ones(1))
    with pytest.raises(EvidenceError, match="probability zero"):
        expected_boxes(never, boxes, [1], np.array([[1, -1]], np.int16))
    builder = CircuitBuilder({"a": 2, "b": 2})
    rough = builder.build(
        builder.sum([builder.indicator("a", 0), builder.indicator("b", 0)], [0.5, 0.5])
    )
    with pytest.raises(PropertyError, match="smooth"):
        box_masses(rough, {}, 1)
