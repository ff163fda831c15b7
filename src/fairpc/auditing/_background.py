"""What the model is: its circuit, what it assumes, where it comes from."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, cast

from fairpc.auditing._job import Job
from fairpc.auditing._strata import ARGUED
from fairpc.auditing._verdict import DISCLAIMER
from fairpc.circuit import depth, drawn, summary, to_dict
from fairpc.core import AuditError, counted, serialise
from fairpc.models import CircuitClassifier, LatentDecision

_PACKAGES: Final = ("fairpc", "numpy", "scipy", "scikit-learn", "numba", "polars", "fairlearn")
MOST_EDGES: Final = 2**21
"""Of a circuit that a page shows and holds: about 20 MB."""
_ASK: Final = "model.query answers the same questions"
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
            f"as a circuit this model of {counted(layout.n_subgroups, 'group')} and "
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


Role = Literal["group", "decision", "label", "feature", "component"]


@dataclass(frozen=True)
class Variable:
    """One column of the circuit."""

    name: str  #: in the circuit
    #: what it is; "component" is never known
    role: Role
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
    found: list[tuple[Role, int, str | None, tuple[str, ...], tuple[float, ...]]]
    found = [("group", 0, None, coding.group_names, ())]
    if layout.latent:
        found.append(("decision", layout.decision, None, classes, ()))
    found.append(("label", layout.d, None, classes, ()))
    for column, feature in zip(layout.x, coding.features.columns, strict=True):
        found.append(("feature", column, feature.kind, feature.labels, feature.edges))
    if layout.component is not None:
        numbers = tuple(str(k + 1) for k in range(layout.n_components))
        found.append(("component", layout.component, None, numbers, ()))
    return WhatIf(
        model=type(model).__name__,
        circuit=to_dict(model.circuit_),
        variables=tuple(Variable(names[v[1]], *v) for v in found),
        decision=layout.decision,
        positive=coding.labels.positive,
        thresholds=model.threshold_.values,
        unknown_threshold=model.threshold_.unknown,
    )


@dataclass(frozen=True)
class Limits:
    """Assumptions and limits in words."""

    assumptions: tuple[str, ...]  #: of the model
    guaranteed: tuple[str, ...]  #: what holds exactly under them
    limits: tuple[str, ...]  #: what does not follow


def limits(job: Job) -> Limits:
    """The words for a model of this kind, and for what it was told beforehand."""
    model = job.model
    if isinstance(model, LatentDecision):
        return Limits((*_LATENT, _CALIBRATED, *_told(job)), _BY_SCORES, (*_OF_SCORES, *_LIMITS))
    layout = cast(CircuitClassifier, model).distribution_.layout
    if not layout.tied:
        return Limits(_FREE, (), _LIMITS)
    if job.strata:
        return Limits((*_assumed_within(job), *_told(job)), _BY_STRATUM, _LIMITS)
    return Limits((*(_LATENT if layout.latent else _TIED), *_told(job)), _BY_CIRCUIT, _LIMITS)


def _assumed_within(job: Job) -> list[str]:
    columns = " × ".join(job.rows.features.names[j] for j in job.strata.columns)
    own = job.strata.within
    words = {"through": "Df, S and the stratum", "each": " and stratum"}
    if not own:
        words = {"through": "Df and S", "each": ""}
    return [sentence.format(columns=columns, **words) for sentence in _WITHIN]


def _told(job: Job) -> list[str]:
    model = job.model
    told = [f"Stated beforehand: {model.knowledge_}."] if model.knowledge_ else []
    if model.n_anchors_:
        told.append(f"The fair decision of {model.n_anchors_:,} training rows is known.")
    return told


@dataclass(frozen=True)
class Provenance:
    """What would be needed to do the audit again."""

    model: str  #: class of the model
    #: of the circuit, structure and parameters; or of the map from scores of a classifier to Df
    model_hash: str
    training_hash: str  #: of the rows that the model was fitted to, encoded
    audited_hash: str  #: of the audited rows, encoded the same way
    settings: Mapping[str, Any]  #: of the model
    audit_settings: Mapping[str, Any]  #: of the audit
    versions: Mapping[str, str]  #: of Python and of the packages that are installed
    platform: str  #: machine and operating system
    date: str  #: when the audit was made, UTC
    seconds: Mapping[str, float]  #: time each part of the audit took


def provenance(job: Job) -> Provenance:
    """Hashes, versions and settings as they are now."""
    model, installed = job.model, {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return Provenance(
        model=type(model).__name__,
        model_hash=model._fingerprint(),
        training_hash=model.data_fingerprint_,
        audited_hash=job.rows.fingerprint,
        settings={name: _setting(value) for name, value in model.get_params().items()},
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
