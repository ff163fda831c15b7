"""Expectations of a function that is constant on boxes, such as a sum of trees, under a circuit.

Definition 1 of the paper asks for E[f(X, S) | S] of *any* probabilistic classifier f. A tree is
constant on the box of each leaf, so its expectation is Σ P(box | e) · value; and P(box | e) is a
marginal in which each variable may have some of its values. A smooth and decomposable circuit
answers it in one upward pass: the leaf [X = v] has the value 1 where the box allows v.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.circuit import INDICATOR, PRODUCT, Circuit, refuse_impossible, require
from fairpc.core import Array, Bools, Codes, Floats, Ints

CELLS: Final = 1 << 22
"""Node values that are held at once."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """A function of some variables: the sum of the values of the boxes that hold a row.

    Attributes:
        allowed: per variable whether a box allows a value; boxes × values.
        value: what each box adds; with several columns, as many functions.
    """

    allowed: tuple[Bools, ...]
    value: Floats

    def __call__(self, codes: Ints) -> Floats:
        """The function at rows of codes of its variables."""
        holds = np.ones((len(codes), len(self.value)), np.bool_)
        for column, box in zip(codes.T, self.allowed, strict=True):
            holds &= box[:, column].T
        result: Floats = holds @ self.value
        return result


def leaf_boxes(
    left: Array,
    right: Array,
    feature: Array,
    goes_left: Callable[[int], Bools],
    sizes: Sequence[int],
) -> tuple[list[int], list[Bools]]:
    """The leaves of a tree that can be reached, and the values that each allows, per feature.

    ``left`` is negative at leaves; ``goes_left`` says which values a node sends to the left. On the
    way only features that are cut are kept: a wide table has thousands of others.
    """
    waiting: list[tuple[int, dict[int, Bools]]] = [(0, {})]
    found: dict[int, dict[int, Bools]] = {}
    while waiting:
        node, box = waiting.pop()
        if left[node] < 0:
            found[node] = box
            continue
        j, side = int(feature[node]), goes_left(node)
        for child, half in ((left[node], side), (right[node], ~side)):
            narrowed = box[j] & half if j in box else half
            if narrowed.any():
                waiting.append((int(child), {**box, j: narrowed}))
    allowed = [np.ones((len(found), size), np.bool_) for size in sizes]
    for i, box in enumerate(found.values()):
        for j, inside in box.items():
            allowed[j][i] = inside
    return list(found), allowed


def box_masses(circuit: Circuit, allowed: Mapping[int, Bools], n_boxes: int) -> Floats:
    """P(every variable j has a value that the box allows), for each box.

    ``allowed`` gives boxes × values for some variables; others may have any value.
    """
    require(circuit.graph, "the mass of a box", "smooth", "decomposable")
    step = max(CELLS // circuit.graph.n_nodes, 1)
    parts = [
        _masses(circuit, {j: box[first : first + step] for j, box in allowed.items()}, n)
        for first in range(0, n_boxes, step)
        for n in [min(step, n_boxes - first)]
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _masses(circuit: Circuit, allowed: Mapping[int, Bools], n_boxes: int) -> Floats:
    graph = circuit.graph
    values = np.empty((graph.n_nodes, n_boxes))
    for node in range(graph.n_nodes):
        if graph.kind[node] == INDICATOR:
            box = allowed.get(int(graph.variable[node]))
            values[node] = 1.0 if box is None else box[:, graph.value[node]]
        elif graph.kind[node] == PRODUCT:
            values[node] = values[graph.children(node)].prod(axis=0)
        else:
            values[node] = circuit.weights(node) @ values[graph.children(node)]
    result: Floats = values[graph.root].copy()
    return result


def expected_boxes(
    circuit: Circuit, boxes: Boxes, variables: Sequence[int], evidence: Codes
) -> Floats:
    """E[f(variables) | e] of a function of boxes for each row of evidence, exactly."""
    refuse_impossible(circuit.log_marginal(evidence))
    n_boxes = len(boxes.value)
    found = []
    for row in evidence:
        known = {j: _only(int(v), int(circuit.arities[j])) for j, v in enumerate(row) if v >= 0}
        whole = {j: np.broadcast_to(one, (n_boxes, one.shape[1])) for j, one in known.items()}
        for j, box in zip(variables, boxes.allowed, strict=True):
            whole[j] = box & whole[j] if j in whole else box
        total = box_masses(circuit, known, 1)[0]
        found.append(box_masses(circuit, whole, n_boxes) @ boxes.value / total)
    return np.array(found)


def _only(value: int, arity: int) -> Bools:
    """A box that allows one value."""
    box = np.zeros((1, arity), np.bool_)
    box[0, value] = True
    return box
