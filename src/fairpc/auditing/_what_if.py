"""What if: a form in the page that asks the model, exactly, with anything unknown.

The page holds a circuit. Where that of the model is small it is that one. A large one is
marginalised to the features that move the score most, as many as there is room for: the joint
distribution of these, the group and the decision is then a tree of conditional probabilities.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Literal

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.circuit import Circuit, CircuitBuilder, to_dict
from fairpc.core import Array, AuditError, Floats
from fairpc.models import CircuitClassifier, GivenRows

MOST_BYTES: Final = 200_000
"""Of what the page holds for the form."""
MOST_EDGES: Final = 25_000
"""Of a circuit that may be so small."""
_ASKED: Final = 1000  # rows, drawn at random, whose scores are looked at
_CELLS: Final = 13_000  # of a tree: 13 bytes each
INDICATOR: Final = 0
SUM: Final = 2
_UNSIGNED: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))


@dataclass(frozen=True)
class Variable:
    """One column of the circuit."""

    name: str  #: in the circuit
    #: what it is; "component" is never known
    role: Literal["group", "decision", "label", "feature", "component"]
    column: int  #: its number
    kind: str | None  #: kind of a feature ("category", "number", …); None for other roles
    values: tuple[str, ...]  #: a label per code
    edges: tuple[float, ...] = ()  #: between the bins of numbers, and of dates in microseconds


@dataclass(frozen=True)
class WhatIf:
    """A circuit that answers as the model does, and what its columns mean."""

    model: str  #: "FairPC", "NLatPC", "LatNB" or "TwoNB"
    circuit: Mapping[str, Any]  #: as in the file format of circuits: variables, nodes, parameters
    variables: tuple[Variable, ...]  #: per column, in order
    decision: int  #: column of what is predicted: Df, or D where there is no Df
    positive: int  #: code of the positive class
    thresholds: tuple[float, ...]  #: one, or one per group
    unknown_threshold: float  #: where the group is not known
    n_features: int = 0  #: of the model; more than those here where all would be too many


def what_if(job: Job) -> WhatIf:
    """What the form of the page needs of a model, as plain data."""
    model = job.circuits("a classifier cannot marginalise what it is not given: there is no form")
    layout, coding = model.distribution_.layout, model.coding_
    chosen: Sequence[int] = range(len(layout.x))
    circuit = model.circuit_ if model.distribution_.n_edges <= MOST_EDGES else None
    if circuit is not None:
        size = sum(len(part) for part in packed_circuit(to_dict(circuit)).values())
        circuit = circuit if size <= MOST_BYTES else None
    places = 0, layout.decision, layout.d, tuple(layout.x)
    if circuit is None:
        chosen = _informative(job, layout.n_groups * layout.n_classes)
        circuit = _marginalised(model, chosen)
        first = 3 if layout.latent else 2
        places = 0, 1, first - 1, tuple(range(first, first + len(chosen)))
    names, (_, decision, observed, at) = circuit.graph.names, places
    classes = job.rows.classes
    asked = [Variable(names[0], "group", 0, None, job.rows.groups)]
    if layout.latent:
        asked.append(Variable(names[decision], "decision", decision, None, classes))
    asked.append(Variable(names[observed], "label", observed, None, classes))
    for x, j in zip(at, chosen, strict=True):
        feature = coding.features.columns[j]
        asked.append(Variable(names[x], "feature", x, feature.kind, feature.labels, feature.edges))
    for k in range(len(names)):
        if k not in {v.column for v in asked}:  # the component of a mixture
            numbers = tuple(str(i + 1) for i in range(circuit.arities[k]))
            asked.append(Variable(names[k], "component", k, None, numbers))
    return WhatIf(
        model=type(model).__name__,
        circuit=to_dict(circuit),
        variables=tuple(asked),
        decision=decision,
        positive=coding.labels.positive,
        thresholds=model.threshold_.values,
        unknown_threshold=model.threshold_.unknown,
        n_features=len(layout.x),
    )


def _informative(job: Job, n_cells: int) -> list[int]:
    """Features by how far scores move, on average, where one is hidden; as many as fit."""
    rows = job.rows.sample(_ASKED, job.settings.random_state)
    given, moved = rows.given(), list[float]()
    for j in range(rows.x.shape[1]):
        x = given.codes.x.copy()
        x[:, j] = -1
        hidden, _ = job.model._answers(GivenRows(replace(given.codes, x=x), given.table))
        apart = np.abs(hidden - rows.scores)[:, rows.positive]
        moved.append(float(np.average(apart, weights=rows.each_weight)))
    chosen, cells = list[int](), n_cells
    for j in np.argsort(moved, kind="stable")[::-1].tolist():
        if cells * rows.features.arities[j] <= _CELLS:
            chosen.append(j)
            cells *= rows.features.arities[j]
    return sorted(chosen)


def _marginalised(model: CircuitClassifier, chosen: Sequence[int]) -> Circuit:
    """The distribution of group, decision, label and some features as a tree, exactly."""
    fair, layout = model.distribution_, model.distribution_.layout
    if layout.strata:
        raise AuditError("the circuit is large, and labels depend on strata: there is no form")
    names, arities = [layout.names[j] for j in chosen], [layout.arities[j] for j in chosen]
    x = np.full((math.prod(arities), len(layout.x)), -1, np.int16)
    x[:, list(chosen)] = list(product(*map(range, arities)))
    shape = layout.n_groups, layout.n_classes, *arities
    joint = np.empty((layout.n_groups, len(x), layout.n_classes))
    for s in range(layout.n_groups):
        group = np.full(len(x), s)
        joint[s] = np.exp(fair.log_likelihood(group, None, x))[:, None] * fair.decision(group, x)
    variables = list(layout.variables)
    own = [variables[k] for k in dict.fromkeys((0, layout.decision, layout.d))]
    sizes = [layout.n_groups, *[layout.n_classes] * (len(own) - 1), *arities]
    b = CircuitBuilder(dict(zip([*own, *names], sizes, strict=True)))

    def features(mass: Floats, j: int) -> int:
        """P(features from the j-th on) in proportion to a mass."""
        if j == len(names) - 1:
            return b.categorical(names[j], _shares(mass))
        parts = [
            b.product(b.indicator(names[j], v), features(below, j + 1))
            for v, below in enumerate(mass)
        ]
        return b.sum(parts, _shares(mass))

    # One sum below the other: over groups, decisions, and one feature after the other.
    joint, groups = np.moveaxis(joint, 2, 1).reshape(shape), []
    for s, of_group in enumerate(joint):
        decisions = []
        for f, mass in enumerate(of_group):
            children = [b.indicator(own[1], f), features(mass, 0)]
            if layout.latent:
                children.append(b.categorical(own[2], model.bias_mechanism_[s, f].tolist()))
            decisions.append(b.product(*children))
        below = b.sum(decisions, _shares(of_group))
        groups.append(b.product(b.indicator(own[0], s), below))
    return b.build(b.sum(groups, _shares(joint)))


def _shares(mass: Floats) -> list[float]:
    """Shares of the parts along the first axis; equal ones where there is nothing."""
    parts = mass.reshape(len(mass), -1).sum(axis=1)
    total = float(parts.sum())
    shares = parts / total if total > 0 else np.full(len(parts), 1 / len(parts))
    return list(shares.tolist())


@blocks.section("what_if", "What if")
def show_what_if(audit: blocks.Audit, what_if: WhatIf) -> Iterator[blocks.Block]:
    """A form with features and the group; anything may stay unknown."""
    asked = _asked(what_if)
    some = ""
    if len(asked) - 1 < what_if.n_features:
        some = (
            f" The form has {len(asked) - 1} of {what_if.n_features} columns, those that move the "
            "score most as far as they fit into a page; the others stay unknown."
        )
    yield blocks.Paragraph(
        "Set what is known about a person and leave the rest unknown. The page evaluates the "
        f"model here, exactly; nothing leaves this file.{some}",
        "lead",
    )
    yield blocks.Paragraph(
        "The answers are those of the model, with its assumptions and its errors. A value "
        "that changes a probability here need not change anything in a person's life."
    )
    choices = []
    for v in asked:
        # Numbers and dates, which have bins, are written into a field of that kind.
        field = v.kind if v.edges and v.kind is not None else ""
        choices.append((v.column, _name(v, audit), [*map(text.short, v.values)], field))
    yield blocks.Form(choices, _questions(audit, what_if))


def _questions(audit: blocks.Audit, what_if: WhatIf) -> dict[str, Any]:
    """The circuit and the names, as the script of the page reads them."""
    columns = {v.role: v for v in what_if.variables if v.role != "feature"}
    return {
        "circuit": packed_circuit(what_if.circuit),
        "roles": {
            "group": columns["group"].column,
            "decision": what_if.decision,
            "observed": columns["label"].column,
            "positive": what_if.positive,
        },
        "classes": [text.short(value, 40) for value in columns["label"].values],
        "decisionName": "Fair decision" if "decision" in columns else "Label",
        "observedName": "Recorded label",
        "variables": [
            {
                "column": v.column,
                "name": _name(v, audit),
                "values": [text.short(value, 60) for value in v.values],
                "edges": list(v.edges),
            }
            for v in _asked(what_if)
        ],
    }


def _asked(what_if: WhatIf) -> list[Variable]:
    """The group, then the features."""
    return [v for role in ("group", "feature") for v in what_if.variables if v.role == role]


def _name(variable: Variable, audit: blocks.Audit) -> str:
    if variable.role == "group":
        return f"{text.listed(audit.data.sensitive)} (group)"
    return text.short(variable.name, 60)


def packed_circuit(circuit: Mapping[str, Any]) -> dict[str, Any]:
    """A circuit as text that a browser turns into typed arrays without losing a digit.

    Each array is its type and the base64 of its bytes. What follows from the kind of a node is
    left out: indicators have a variable and a value, other nodes a number of children, sums the
    place of their first weight.
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
