"""What lies behind the numbers: how the model was learned, what it assumes, where it comes from."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._assumptions import ARGUED
from fairpc.auditing._job import Job
from fairpc.circuit import depth
from fairpc.core import AuditError, serialise
from fairpc.models import CircuitClassifier, LatentDecision, SecondRound, TableClassifier

DISCLAIMER: Final = "This is evidence, not a certificate of compliance."
MOST_EDGES: Final = 100_000
"""Of a circuit that is made to be counted: a forest circuit decides without it."""
_PACKAGES: Final = ("fairpc", "numpy", "scipy", "scikit-learn", "numba", "polars", "fairlearn")
_KINDS: Final = {
    "hgb": "gradient boosting",
    "logistic": "logistic regression",
    "forest": "a random forest",
}
_HOW_CALIBRATED: Final = {
    "isotonic": "calibrated within each group by isotonic regression",
    "sigmoid": "calibrated within each group by a sigmoid",
    None: "taken as calibrated within each group, as the settings say",
}
_POINTS: Final = {
    "between": "Of the rates of Df that they leave open, the middle of those between the groups' "
    "recorded rates was chosen, then the mechanism that alters the fewest labels.",
    "prior": "Of what they leave open, the mechanism that alters the fewest labels was chosen, by "
    "a prior.",
    "middle": "Of what they leave open, the middle was chosen.",
}


@dataclass(frozen=True)
class CircuitFacts:
    """The size of the circuit."""

    model: str  #: "FairPC", "NLatPC", "LatNB" or "TwoNB"
    n_nodes: int
    n_edges: int
    n_parameters: int
    depth: int
    n_components: int  #: circuits mixed inside each P(x | f, s)
    variables: tuple[str, ...]  #: names, in the order of the columns


def circuit_facts(job: Job) -> CircuitFacts:
    """Facts about the circuit of a model; of a large one it is not made."""
    model = job.circuits("there is no circuit")
    if model.distribution_.n_edges > MOST_EDGES:
        raise AuditError(f"the circuit has {model.distribution_.n_edges:,} edges: it was not made")
    graph, layout = model.circuit_.graph, model.distribution_.layout
    return CircuitFacts(
        model=type(model).__name__,
        n_nodes=graph.n_nodes,
        n_edges=graph.n_edges,
        n_parameters=graph.n_parameters,
        depth=depth(graph),
        n_components=layout.n_components,
        variables=graph.names,
    )


@dataclass(frozen=True)
class Learning:
    """How a circuit was learned."""

    n_iter: int  #: updates of EM
    converged: bool  #: whether it stopped by itself
    choices: tuple[str, ...]  #: how the structure was chosen, in words

    @property
    def sentences(self) -> tuple[str, ...]:
        """In words, as documents say it."""
        ended = "It stopped by itself" if self.converged else "It was stopped by the limit"
        updates = f"Parameters were learned by {text.counted(self.n_iter, 'update')} of EM."
        return (*self.choices, f"{updates} {ended}.")


@dataclass(frozen=True)
class ScoreLearningFacts:
    """How scores of a classifier became those of the fair decision."""

    classifier: str  #: in words
    n_folds: int  #: classifiers, each learned without a fold; their scores are averaged
    per_group: bool  #: whether each group has its own
    calibration: str | None  #: "isotonic", "sigmoid"; None where scores were taken as they are
    select: str  #: the point of the identified set: "between", "prior" or "middle"
    straight: bool  #: whether the point alters hardly any label, so that D = Df was kept
    #: the same for P(S | x), for rows whose group is not known; None where such rows are refused
    group_classifier: str | None
    positive: str  #: the class
    sentences: tuple[str, ...]  #: in words


def learning(job: Job) -> Learning | ScoreLearningFacts:
    """What there is to say of the fit."""
    model: Any = job.model
    if not isinstance(model, LatentDecision):
        choices = () if model.choices_ is None else model.choices_.sentences
        return Learning(model.n_iter_, bool(model.converged_), choices)
    groups = model.group_estimators_
    return ScoreLearningFacts(
        classifier=_words(model.estimators_[0][0]),
        n_folds=len(model.estimators_),
        per_group=bool(model.per_group),
        calibration=model.calibration,
        select=model.select,
        straight=model.score_map_.straight,
        group_classifier=_words(groups[0]) if groups else None,
        positive=str(model.positive_class_),
        sentences=_sentences(model),
    )


def _sentences(model: LatentDecision) -> tuple[str, ...]:
    n, own = len(model.estimators_), ", one for each group" if model.per_group else ""
    point = _POINTS[model.select]
    if model.score_map_.straight:
        point += (
            " That point alters hardly any label, so the scores are those of the label, with the "
            "same mean in every group. It is chosen by a rule, not found: the ranges of the "
            "mechanism say how many labels may be altered."
        )
    hidden = "Rows whose group is not known are refused."
    if model.group_estimators_:
        hidden = (
            "Where the group is not known, the score is a mean over the groups, weighted by how "
            f"likely {_words(model.group_estimators_[0])} finds each of them from the features."
        )
    source, second = "the same scores", list[str]()
    if model.second_round_ is not None:
        source = "the scores of the label alone"
        second.append(_second_round(model.second_round_))
    return (
        f"The label was learned from features and group by {_words(model.estimators_[0][0])}{own}, "
        f"{text.counted(n, 'time')}, each time without one fold of the rows. Scores are means over "
        "these.",
        *second,
        f"Scores of the rows left out were {_HOW_CALIBRATED[model.calibration]}.",
        f"P(Df) and the mechanism come from {source}. {point}",
        hidden,
    )


def _second_round(second_round: SecondRound) -> str:
    """What was learned once the mechanism was known."""
    names = [_words(classifier) for classifier in second_round.estimators[0]]
    shares = " and ".join(
        f"{share:.0%} by {name}" for name, share in zip(names, second_round.shares[1:], strict=True)
    )
    return (
        "Once the mechanism was known, Df was learned behind the labels in the same folds: "
        f"scores are made {second_round.shares[0]:.0%} by the classifiers of the label, {shares} "
        "of Df. Under these shares the labels of the rows left out are likeliest."
    )


def _words(classifier: Any) -> str:
    """What a classifier is."""
    if isinstance(classifier, TableClassifier):
        return _KINDS[classifier.kind]
    steps = getattr(classifier, "steps", None)
    name = type(steps[-1][1] if steps else classifier).__name__
    return f"{name} at the end of a pipeline" if steps else name


@dataclass(frozen=True)
class Caveats:
    """Assumptions and limits in words."""

    assumptions: tuple[str, ...]  #: of the model
    guaranteed: tuple[str, ...]  #: what holds exactly under them
    limits: tuple[str, ...]  #: what does not follow


def limits(job: Job) -> Caveats:
    """The words for a model of this kind, and for what was stated beforehand."""
    if job.decisions:
        said = blocks.sentences
        return Caveats(said("of_decisions"), (), said("limits_of_decisions"))
    found, delta = _of_kind(job), job.strata.delta
    if not delta:
        return found
    words = {"delta": text.gap(delta), "within": " within each stratum" * bool(job.strata)}
    (nearly,), (by_delta,) = blocks.sentences("nearly"), blocks.sentences("by_delta")
    # The first assumption is that of independence; lines hold whatever the rates are.
    lines = tuple(s for s in found.guaranteed if s == blocks.sentences("by_scores")[0])
    assumed = (nearly.format(**words), *found.assumptions[1:])
    return Caveats(assumed, (*lines, by_delta.format(**words)), found.limits)


def _of_kind(job: Job) -> Caveats:
    """The same where rates are equal."""
    said, limits = blocks.sentences, blocks.sentences("limits")
    if isinstance(job.model, LatentDecision):
        assumed = (*said("latent"), *said("calibrated"), *_stated(job))
        return Caveats(assumed, said("by_scores"), (*said("of_scores"), *limits))
    layout = cast(CircuitClassifier, job.model).distribution_.layout
    if not layout.tied and not layout.latent:
        return Caveats(said("free"), (), limits)
    if not job.strata:
        assumed = (*said("latent" if layout.latent else "tied"), *_stated(job))
        return Caveats(assumed, said("by_circuit"), limits)
    columns = " × ".join(job.rows.features.names[j] for j in job.strata.columns)
    within = (sentence.format(columns=columns) for sentence in said("within"))
    return Caveats((*within, ARGUED, *_stated(job)), said("by_stratum"), limits)


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


@blocks.section("learning", "How the model was learned")
def show_learning(
    audit: blocks.Audit, learning: Learning | ScoreLearningFacts
) -> Iterator[blocks.Block]:
    """The fit in words, and the size of the circuit."""
    yield blocks.Points(learning.sentences)
    if (found := audit.circuit) is not None:
        yield blocks.Paragraph(
            f"As a circuit the model has {text.count(found.n_nodes)} nodes, "
            f"{text.count(found.n_edges)} edges and {text.count(found.n_parameters)} parameters. "
            "Every probability in this report that holds under the model is an exact evaluation "
            "of it.",
            "note",
        )


@blocks.section("limits", "Assumptions and limits")
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


@blocks.section("provenance", "Provenance")
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
    tables: dict[str, Mapping[str, Any]] = {
        "Identity": {name: value for name, value in identity.items() if value},
        "Versions": provenance.versions,
        "Settings of the model": provenance.settings,
        "Settings of the audit": provenance.audit_settings,
        "Time of each part": {k: f"{value:,.1f} s" for k, value in provenance.seconds.items()},
    }
    for number, (caption, values) in enumerate(tables.items()):
        cells = []
        for name, value in values.items():
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            cells.append((name, text.name(written)))
        if cells or caption != "Settings of the model":
            head, folded = ("What", "Value"), number > 1
            yield blocks.TableBlock(caption, head, cells, words={1}, folded=folded)
