"""What the form of the page holds: packed circuits, and trees of a few features of large ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given

from auditing.tables import QUICK, fitted, table
from fairpc import FairPC
from fairpc.auditing import _what_if as what_if, audit, render
from fairpc.auditing._what_if import packed_circuit, whole_numbers
from fairpc.circuit import Circuit, from_dict, to_dict
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


@pytest.mark.parametrize("name", ["LatNB", "NLatPC", "forest"])
def test_a_large_circuit_is_marginalised_exactly(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any values of its features, known or not, the tree says what the model says."""
    X, y, s = table()
    model: Any = FairPC(structure="forest", random_state=0)
    model = model.fit(X, y, sensitive_features=s) if name == "forest" else fitted(name)
    monkeypatch.setattr(what_if, "MOST_EDGES", 0)
    monkeypatch.setattr(what_if, "_CELLS", 400)
    found = audit(model, X, y, sensitive_features=s, **QUICK)
    facts = found.what_if
    assert facts is not None
    asked = [v for v in facts.variables if v.role == "feature"]
    assert 1 < len(asked) < facts.n_features == len(model.coding_.features.columns)
    assert "of 6 columns, those that move the score most" in render(found)
    moved = {}  # by how much scores move where a column is hidden: the first is in the form
    scores = model.predict_proba(X, sensitive_features=s)
    for column in X.columns:
        hidden = X.with_columns(pl.lit(None).alias(column).cast(X.schema[column]))
        moved[column] = np.abs(model.predict_proba(hidden, sensitive_features=s) - scores).mean()
    assert max(moved, key=lambda column: moved[column]) in {v.name for v in asked}
    circuit, layout = from_dict(to_plain(facts.circuit)), model.distribution_.layout
    rng = np.random.default_rng(0)
    ours = np.full((50, len(facts.variables)), -1, np.int16)
    theirs = np.full((50, len(layout.x)), -1, np.int16)
    for variable in (v for v in facts.variables if v.role in ("group", "feature")):
        codes = rng.integers(-1, len(variable.values), 50)
        ours[:, variable.column] = codes
        if variable.role == "feature":
            theirs[:, layout.names.index(variable.name)] = codes
    groups = ours[:, 0]
    answers = circuit.posterior(facts.decision, ours)
    np.testing.assert_allclose(answers, model.distribution_.decision(groups, theirs), atol=1e-9)
    if layout.latent:
        label = next(v.column for v in facts.variables if v.role == "label")
        expected = model.distribution_.observed(groups, theirs)
        np.testing.assert_allclose(circuit.posterior(label, ours), expected, atol=1e-9)


def to_plain(circuit: Any) -> Any:
    return json.loads(json.dumps(circuit))
