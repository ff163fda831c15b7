"""The model as data, so that a page can answer questions without Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairpc.circuit.file import to_dict
from fairpc.estimators.base import CircuitClassifier


@dataclass(frozen=True)
class Variable:
    """One column of the circuit.

    Attributes:
        name: in the circuit.
        role: what it is; "component" is never known.
        column: its number.
        kind: kind of a feature ("category", "number", …); None for other roles.
        values: a label per code.
    """

    name: str
    role: Literal["group", "decision", "label", "feature", "component"]
    column: int
    kind: str | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class WhatIf:
    """The circuit, and what its columns mean.

    Attributes:
        model: "FairPC", "NLatPC", "LatNB" or "TwoNB".
        circuit: as in the file format of circuits: variables, nodes, parameters.
        variables: per column, in order.
        decision: column of what is predicted: Df, or D where there is no Df.
        positive: code of the positive class.
        thresholds: one, or one per group.
        unknown_threshold: where the group is not known.
    """

    model: str
    circuit: Mapping[str, Any]
    variables: tuple[Variable, ...]
    decision: int
    positive: int
    thresholds: tuple[float, ...]
    unknown_threshold: float


def what_if(model: CircuitClassifier) -> WhatIf:
    """The circuit and the coding of a model as plain data."""
    layout, coding = model.distribution_.layout, model.coding_
    names = model.circuit_.graph.names
    classes = tuple(str(c) for c in coding.labels.classes)
    variables = [Variable(names[0], "group", 0, None, coding.groups.names)]
    if layout.latent:
        variables.append(
            Variable(names[layout.decision], "decision", layout.decision, None, classes)
        )
    variables.append(Variable(names[layout.d], "label", layout.d, None, classes))
    for column, feature in zip(layout.x, coding.features.columns, strict=True):
        variables.append(Variable(names[column], "feature", column, feature.kind, feature.labels))
    if layout.component is not None:
        numbers = tuple(str(k + 1) for k in range(layout.n_components))
        variables.append(
            Variable(names[layout.component], "component", layout.component, None, numbers)
        )
    return WhatIf(
        model=type(model).__name__,
        circuit=to_dict(model.circuit_),
        variables=tuple(variables),
        decision=layout.decision,
        positive=coding.labels.positive,
        thresholds=model.threshold_.values,
        unknown_threshold=model.threshold_.unknown,
    )
