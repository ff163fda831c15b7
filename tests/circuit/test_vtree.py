"""Vtrees: read from files, and derived from circuits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.circuit._psdd import read_vtree
from fairpc.errors import FileFormatError
from psdd_writing import scopes_of, vtree_of, vtree_text
from strategies import circuits, examples

# ((3 1) 2), with the ids of a tree that was labelled in order.
TEXT = """c a comment
vtree 5
L 0 3
L 2 1
I 1 0 2
L 4 2
I 3 1 4
"""
LIMIT = 2**20


def written(folder: Path, text: str) -> Path:
    path = folder / "a.vtree"
    path.write_text(text)
    return path


def test_a_file(tmp_path: Path) -> None:
    vtree = read_vtree(written(tmp_path, TEXT), LIMIT)
    assert vtree.left.tolist() == [-1, -1, 0, -1, 2]
    assert vtree.right.tolist() == [-1, -1, 1, -1, 3]
    assert vtree.variable.tolist() == [2, 0, -1, 1, -1]
    assert scopes_of(vtree) == [0b100, 0b001, 0b101, 0b010, 0b111]
    assert vtree_text(vtree) == "vtree 5\nL 0 3\nL 1 1\nI 2 0 1\nL 3 2\nI 4 2 3\n"


def test_one_leaf(tmp_path: Path) -> None:
    vtree = read_vtree(written(tmp_path, "vtree 1\nL 7 1\n"), LIMIT)
    assert vtree_text(vtree) == "vtree 1\nL 0 1\n"


REFUSED = {
    "empty": "",
    "header only": "vtree 0\n",
    "a psdd": "psdd 1\nL 0 0 1\n",
    "claims a billion": TEXT.replace("vtree 5", "vtree 1000000000"),
    "claims more": TEXT.replace("vtree 5", "vtree 6"),
    "claims fewer": TEXT.replace("vtree 5", "vtree 4"),
    "root missing": TEXT.replace("I 3 1 4\n", ""),
    "id twice": TEXT.replace("L 4 2", "L 2 2"),
    "unknown child": TEXT.replace("I 1 0 2", "I 1 0 9"),
    "forward child": TEXT.replace("I 1 0 2", "I 1 0 4"),
    "child twice": TEXT.replace("I 3 1 4", "I 3 0 4"),
    "own child": TEXT.replace("I 3 1 4", "I 3 1 3"),
    "same sides": TEXT.replace("I 3 1 4", "I 3 1 1"),
    "two roots": TEXT.replace("I 3 1 4", "L 3 4"),
    "variable twice": TEXT.replace("L 4 2", "L 4 1"),
    "variable skipped": TEXT.replace("L 4 2", "L 4 4"),
    "variable 0": TEXT.replace("L 4 2", "L 4 0"),
    "letter": TEXT.replace("L 4 2", "T 4 2"),
    "too few fields": TEXT.replace("I 3 1 4", "I 3 1"),
    "too many fields": TEXT.replace("L 4 2", "L 4 2 1"),
    "no number": TEXT.replace("L 4 2", "L four 2"),
    "endless number": TEXT.replace("L 4 2", f"L {'4' * 9999} 2"),
    "binary": "vtree 1\nL 0 \0",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    path = written(tmp_path, REFUSED[case])
    with pytest.raises(FileFormatError) as caught:
        read_vtree(path, LIMIT)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400


@settings(max_examples=examples(300))
@given(circuits(structured=True))
def test_a_circuit_respects_its_vtree(circuit: Circuit) -> None:
    """Every scope of the circuit is the scope of a vtree node, and each variable has a leaf."""
    vtree = vtree_of(circuit.graph)
    scopes = scopes_of(vtree)
    assert sorted(vtree.variable[vtree.variable >= 0].tolist()) == list(range(len(circuit.names)))
    assert scopes[-1] == (1 << len(circuit.names)) - 1
    assert set(circuit.graph.scopes) <= set(scopes)
    assert len(scopes) == 2 * len(circuit.names) - 1


def test_decisions_are_on_the_left_and_what_is_common_on_the_right() -> None:
    b = CircuitBuilder({"X": 2, "Y": 2, "S": 2})
    y = b.categorical("Y")
    cells = [b.product(b.categorical("X"), y, b.indicator("S", s)) for s in (0, 1)]
    vtree = vtree_of(b.build(b.sum(cells)).graph)
    assert vtree_text(vtree) == "vtree 5\nL 0 1\nL 1 2\nL 2 3\nI 3 0 1\nI 4 2 3\n"
