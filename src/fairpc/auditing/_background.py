"""What lies behind the numbers: the circuit, what it assumes, where it comes from.

The circuit also travels with the page, so that the browser can answer questions with it.
"""

from __future__ import annotations

import base64
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, cast
from xml.etree import ElementTree as ET

import numpy as np
from markupsafe import Markup

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._assumptions import ARGUED
from fairpc.auditing._drawing import element
from fairpc.auditing._job import Job
from fairpc.auditing._verdict import DISCLAIMER
from fairpc.circuit import depth, drawn, summary, to_dict
from fairpc.core import Array, AuditError, serialise
from fairpc.models import CircuitClassifier, LatentDecision

_PACKAGES: Final = ("fairpc", "numpy", "scipy", "scikit-learn", "numba", "polars", "fairlearn")
MOST_EDGES: Final = 2**21
"""Of a circuit that a page shows and holds: about 20 MB."""
_ASK: Final = "model.query answers the same questions"
_TAGS: Final = {"svg", "g", "polygon", "ellipse", "path", "text"}
_PLACES: Final = {"width", "height", "viewBox", "x", "y", "cx", "cy", "rx", "ry", "d", "points"}
_STYLES: Final = {"fill", "stroke", "stroke-dasharray", "text-anchor", "font-family", "font-size"}
_ATTRIBUTES: Final = {"transform"} | _PLACES | _STYLES
INDICATOR: Final = 0
SUM: Final = 2
_UNSIGNED: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))
_LATENT: Final = (
    "The hidden decision Df is independent of the group S.",
    "The observed label D depends on the features X through Df and S only.",
    "In every group a label is most likely under the hidden decision of the same name.",
)
_TIED: Final = ("The label D is independent of the group S under the model; there is no Df.",)
_FREE: Final = ("Nothing: P(S, D) is free, and the scores may depend on the group.",)
_BY_CIRCUIT: Final = (
    "Under the model the mean of P(decision | X, S) is the same in every group, whatever was "
    "learned: the circuit shares one set of parameters for it.",
)
_WITHIN: Final = (
    "The hidden decision Df is independent of the group S within each stratum of {columns}. In the "
    "whole table it need not be.",
    "The observed label D depends on the features X through {through} only.",
    "In every group{each} a label is most likely under the hidden decision of the same name.",
    ARGUED,
)
_BY_STRATUM: Final = (
    "Under the model the mean of P(decision | X, S) is the same in every group within each "
    "stratum, whatever was learned: the circuit shares one set of parameters for it.",
    "In the whole table the means differ by the mix of strata alone.",
)
_NEARLY: Final = (
    "The hidden decision Df is nearly independent of the group S: its rates in two groups differ "
    "by at most {delta}{within}."
)
_BY_DELTA: Final = (
    "Under the model the means of P(decision | X, S) of two groups differ by at most {delta}"
    "{within}, whatever was learned: every group has parameters of its own that are kept so near."
)
_CALIBRATED: Final = (
    "The classifier, after its calibration, gives P(D | X, S): in each group, of the rows with "
    "score p a share p has the positive label."
)
_BY_SCORES: Final = (
    "In each group P(Df = positive | x, s) is a line in P(D = positive | x, s).",
    "Under the model the mean of P(Df | X, S) is the same in every group.",
    "In the training rows, each scored by a classifier that had not seen it, the mean score of "
    "each group is P(Df): the odds of each group are shifted for that.",
)
_OF_SCORES: Final = (
    "An error of the calibration becomes an error of the score of Df, divided by the difference "
    "between P(D = positive | Df = positive) and P(D = positive | Df otherwise) in the group.",
    "Scores are means over the classifiers of the folds, those beyond the ends of the mechanism "
    "are bent towards 0 and 1, and the odds are shifted: the line holds up to that.",
    "Nothing is said about the distribution of the features, and what is missing of them is not "
    "summed out.",
)
_LIMITS: Final = (
    "Equal mean scores under the model do not imply equal mean scores on rows, or equal "
    "selection rates after a threshold.",
    "The equality holds if the group is known at prediction; it need not hold if it is hidden.",
    "The data fix the order of scores within a group, not their level or spread: different "
    "mechanisms fit equally well.",
    "Intervals cover only sampling error. They do not cover rows that do not represent the people "
    "concerned, labels that mean something else, or features that are proxies for what may not "
    "be used.",
    "Every number measured against the observed label inherits the errors of that label.",
    DISCLAIMER,
)


def of_circuits(job: Job, without: str) -> CircuitClassifier:
    """The model, if it is a circuit; an AuditError says what a classifier does not have."""
    if isinstance(job.model, CircuitClassifier):
        return job.model
    raise AuditError(
        f"{type(job.model).__name__} turns scores of a classifier into those of Df, so {without}; "
        "use FairPC for that"
    )


def _check_size(model: CircuitClassifier, so: str) -> None:
    """An AuditError where a circuit would take minutes to make, and a page more than a browser."""
    n_edges = model.distribution_.n_edges
    if n_edges > MOST_EDGES:
        layout = model.distribution_.layout
        raise AuditError(
            f"as a circuit this model of {text.counted(layout.n_subgroups, 'group')} and "
            f"{layout.n_classes} classes has {n_edges:,} edges, more than {MOST_EDGES:,}, so {so}"
        )


@dataclass(frozen=True)
class CircuitFacts:
    """The distribution as a circuit."""

    model: str  #: "FairPC", "NLatPC", "LatNB" or "TwoNB"
    n_nodes: int  #: its size, as are the next three
    n_edges: int
    n_parameters: int
    depth: int
    n_components: int  #: circuits mixed inside each P(x | f, s)
    variables: tuple[str, ...]  #: names, in the order of the columns
    summary: str  #: size and properties, a line each
    svg: str  #: a drawing; of a large circuit its top; empty where Graphviz is not installed


def circuit_facts(job: Job) -> CircuitFacts:
    """Facts about the circuit of a model."""
    model = of_circuits(job, "there is no circuit")
    _check_size(model, "it is not drawn")
    circuit = model.circuit_
    graph, layout = circuit.graph, model.distribution_.layout
    variables = list(layout.variables)
    names = variables[0], variables[layout.d], variables[layout.decision]
    return CircuitFacts(
        model=type(model).__name__,
        n_nodes=graph.n_nodes,
        n_edges=graph.n_edges,
        n_parameters=graph.n_parameters,
        depth=depth(graph),
        n_components=layout.n_components,
        variables=graph.names,
        summary=summary(circuit),
        svg=drawn(circuit.to_dot(labels=model.coding_.value_names(*names))),
    )


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
    """The circuit, and what its columns mean."""

    model: str  #: "FairPC", "NLatPC", "LatNB" or "TwoNB"
    circuit: Mapping[str, Any]  #: as in the file format of circuits: variables, nodes, parameters
    variables: tuple[Variable, ...]  #: per column, in order
    decision: int  #: column of what is predicted: Df, or D where there is no Df
    positive: int  #: code of the positive class
    thresholds: tuple[float, ...]  #: one, or one per group
    unknown_threshold: float  #: where the group is not known


def what_if(job: Job) -> WhatIf:
    """The circuit and the coding of a model as plain data."""
    model = of_circuits(
        job,
        "the page cannot answer questions in which something is unknown: a classifier cannot sum "
        "out what it is not told",
    )
    _check_size(model, f"the page has no form that asks it; {_ASK}")
    layout, coding = model.distribution_.layout, model.coding_
    names = model.circuit_.graph.names
    classes = tuple(str(c) for c in coding.labels.classes)
    asked = [Variable(names[0], "group", 0, None, coding.group_names)]
    if layout.latent:
        decision = layout.decision
        asked.append(Variable(names[decision], "decision", decision, None, classes))
    asked.append(Variable(names[layout.d], "label", layout.d, None, classes))
    for x, feature in zip(layout.x, coding.features.columns, strict=True):
        asked.append(Variable(names[x], "feature", x, feature.kind, feature.labels, feature.edges))
    if (k := layout.component) is not None:
        numbers = tuple(str(i + 1) for i in range(layout.n_components))
        asked.append(Variable(names[k], "component", k, None, numbers))
    return WhatIf(
        model=type(model).__name__,
        circuit=to_dict(model.circuit_),
        variables=tuple(asked),
        decision=layout.decision,
        positive=coding.labels.positive,
        thresholds=model.threshold_.values,
        unknown_threshold=model.threshold_.unknown,
    )


@dataclass(frozen=True)
class Caveats:
    """Assumptions and limits in words."""

    assumptions: tuple[str, ...]  #: of the model
    guaranteed: tuple[str, ...]  #: what holds exactly under them
    limits: tuple[str, ...]  #: what does not follow


def limits(job: Job) -> Caveats:
    """The words for a model of this kind, and for what it was told beforehand."""
    found = _of_kind(job)
    if not job.strata.delta:
        return found
    words = {
        "delta": text.gap(job.strata.delta),
        "within": " within each stratum" * bool(job.strata),
    }
    # The first assumption is that of independence; lines hold whatever the rates are.
    lines = tuple(s for s in found.guaranteed if s == _BY_SCORES[0])
    return Caveats(
        (_NEARLY.format(**words), *found.assumptions[1:]),
        (*lines, _BY_DELTA.format(**words)),
        found.limits,
    )


def _of_kind(job: Job) -> Caveats:
    """The same where rates are equal."""
    model = job.model
    if isinstance(model, LatentDecision):
        return Caveats((*_LATENT, _CALIBRATED, *_stated(job)), _BY_SCORES, (*_OF_SCORES, *_LIMITS))
    layout = cast(CircuitClassifier, model).distribution_.layout
    if not layout.tied and not layout.latent:
        return Caveats(_FREE, (), _LIMITS)
    if job.strata:
        return Caveats((*_assumed_within(job), *_stated(job)), _BY_STRATUM, _LIMITS)
    return Caveats((*(_LATENT if layout.latent else _TIED), *_stated(job)), _BY_CIRCUIT, _LIMITS)


def _assumed_within(job: Job) -> list[str]:
    columns = " × ".join(job.rows.features.names[j] for j in job.strata.columns)
    own = job.strata.within
    words = {"through": "Df, S and the stratum", "each": " and stratum"}
    if not own:
        words = {"through": "Df and S", "each": ""}
    return [sentence.format(columns=columns, **words) for sentence in _WITHIN]


def _stated(job: Job) -> list[str]:
    model = job.model
    stated = [f"Stated beforehand: {model.knowledge_}."] if model.knowledge_ else []
    if model.n_anchors_:
        stated.append(f"The fair decision of {model.n_anchors_:,} training rows is known.")
    return stated


@dataclass(frozen=True)
class AuditProvenance:
    """What would be needed to do the audit again."""

    model: str  #: class of the model; "decisions" where they came without one
    #: of the circuit, structure and parameters; or of the map from scores of a classifier to Df;
    #: empty, as the next, for decisions of anybody
    model_hash: str
    training_hash: str  #: of the rows that the model was fitted to, encoded
    audited_hash: str  #: of the audited rows, encoded the same way
    settings: Mapping[str, Any]  #: of the model
    audit_settings: Mapping[str, Any]  #: of the audit
    versions: Mapping[str, str]  #: of Python and of the packages that are installed
    platform: str  #: machine and operating system
    date: str  #: when the audit was made, UTC
    seconds: Mapping[str, float]  #: time each part of the audit took


def provenance(job: Job) -> AuditProvenance:
    """Hashes, versions and settings as they are now."""
    installed, own = {}, job.decisions
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    params = {} if own else job.model.get_params()
    return AuditProvenance(
        model=own.name if own else type(job.model).__name__,
        model_hash="" if own else job.model._fair().fingerprint,
        training_hash="" if own else job.model.data_fingerprint_,
        audited_hash=job.rows.fingerprint,
        settings={name: _setting(value) for name, value in params.items()},
        audit_settings=asdict(job.settings),
        versions={"python": platform.python_version(), **installed},
        platform=platform.platform(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds={name: round(value, 3) for name, value in job.seconds.items()},
    )


def _setting(value: Any) -> Any:
    """A setting that JSON can hold; of anything else its class."""
    if value is None or isinstance(value, str | int | float | bool):
        return serialise(value)
    if isinstance(value, tuple | list):
        return [_setting(item) for item in value]
    return type(value).__name__


@blocks.section("circuit", "The circuit", lambda _, facts: text.counted(facts.n_nodes, "node"))
def show_circuit(_: blocks.Audit, facts: CircuitFacts) -> Iterator[blocks.Block]:
    """What the model is made of."""
    yield blocks.Paragraph(
        f"The model is a {text.name(facts.model)}: one circuit of sums and products over "
        f"{text.counted(len(facts.variables), 'variable')}. Every probability in this "
        "report that holds under the model is an exact evaluation of it."
    )
    names = ("Nodes", "Edges", "Parameters", "Depth", "Components per cell")
    sizes = (facts.n_nodes, facts.n_edges, facts.n_parameters, facts.depth, facts.n_components)
    yield blocks.KeyNumbers([*zip(names, map(text.count, sizes), strict=True)])
    note = "The circuit is not drawn: with Graphviz installed, the next audit draws it."
    if facts.svg:
        drawn = ET.fromstring(text.visible(facts.svg))  # noqa: S314 - drawn by Graphviz
        yield blocks.Drawing("Drawing of the circuit, root on top", _copied(drawn))
        note = "Sums are marked +, products ×. Only the top of a large circuit is drawn."
    yield blocks.Paragraph(note, "note")
    yield blocks.Lines(facts.summary)


def _copied(part: ET.Element) -> Markup:
    """A drawing with known shapes and attributes only."""
    tag = part.tag.rpartition("}")[2]
    if tag not in _TAGS:
        return Markup("")
    kept = {name: value for name, value in part.attrib.items() if name in _ATTRIBUTES}
    inside = [part.text.strip()] if part.text and part.text.strip() else []
    return element(tag, *inside, *map(_copied, part), **kept)


@blocks.section(
    "limits", "Assumptions and limits", lambda *_: "What is assumed, what follows, what does not"
)
def show_limits(audit: blocks.Audit, caveats: Caveats) -> Iterator[blocks.Block]:
    """What is assumed, what follows, what does not."""
    who = "model" if audit.data.fitted else "audit"
    for title, sentences in (
        (f"What the {who} assumes", caveats.assumptions),
        ("What then holds exactly", caveats.guaranteed),
        ("What does not follow", caveats.limits),
    ):
        if sentences:
            yield blocks.Heading(title)
            yield blocks.Points(sentences)


@blocks.section("provenance", "Provenance", lambda *_: "Hashes, versions, settings, date")
def show_provenance(audit: blocks.Audit, provenance: AuditProvenance) -> Iterator[blocks.Block]:
    """What would be needed to do the audit again: hashes, versions, settings, date."""
    hashes = "The hashes identify the model and the rows; equal hashes mean equal content."
    yield blocks.Paragraph(hashes)
    learned = (
        "Map of scores" if provenance.model == LatentDecision.__name__ else "Circuit and parameters"
    )
    identity = {
        "Model": provenance.model,
        learned: provenance.model_hash,
        "Training rows, encoded": provenance.training_hash,
        "Audited rows, encoded": provenance.audited_hash,
        "Date": provenance.date,
        "Platform": provenance.platform,
    }
    yield _pairs("Identity", {name: value for name, value in identity.items() if value})
    yield _pairs("Versions", provenance.versions)
    if provenance.settings:
        yield _pairs("Settings of the model", provenance.settings, folded=True)
    yield _pairs("Settings of the audit", provenance.audit_settings, folded=True)
    times = {name: f"{value:,.1f} s" for name, value in provenance.seconds.items()}
    yield _pairs("Time of each part", times, folded=True)


def _pairs(caption: str, values: Mapping[str, Any], *, folded: bool = False) -> blocks.TableBlock:
    def shown(value: Any) -> str:
        return text.name(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    cells = [(name, shown(value)) for name, value in values.items()]
    return blocks.TableBlock(caption, ("What", "Value"), cells, words={1}, folded=folded)


@blocks.section(
    "what_if", "What if: ask the model", lambda *_: "Set what is known of a person; exact answers"
)
def show_what_if(audit: blocks.Audit, what_if: WhatIf) -> Iterator[blocks.Block]:
    """A form with every feature and the group; anything may stay unknown."""
    yield blocks.Paragraph(
        "Set what is known about a person and leave the rest unknown. The page evaluates the "
        "circuit here, exactly; nothing leaves this file.",
        "lead",
    )
    yield blocks.Paragraph(
        "The answers are those of the model, with its assumptions and its errors. A value "
        "that changes a probability here need not change anything in a person's life."
    )
    choices = []
    for v in _asked(what_if):
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
        "decisionName": "P(Df | known)" if "decision" in columns else "P(D | known)",
        "observedName": "P(D | known)",
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
