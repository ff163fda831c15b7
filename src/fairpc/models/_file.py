"""What a saved file holds: the parts of a model, as one JSON object that is never executed.

A file has no circuit of a whole model. It has rates, the mechanism, and circuits of the features
alone, a forest or a map of scores; :mod:`fairpc.models._loading` puts them together with the
builder of a fit. So no file can claim a model and break its independencies, whoever wrote it.

:class:`Saved` is what every file has, :class:`SavedCircuits` and :class:`SavedScores` what it has
beside. Each field is checked against its type when it is read, and by the constructor that it is
given to, as if a user had given it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from fairpc.circuit import to_dict
from fairpc.core import (
    ALTERED,
    AnyPath,
    FileFormatError,
    Floats,
    LearningError,
    read_json,
    serialise,
    write_atomically,
)
from fairpc.data import Level
from fairpc.models._choices import Choices
from fairpc.models._classifiers import TableClassifier
from fairpc.models._fair_layers import feature_circuits
from fairpc.models._forest_decisions import ForestDistribution
from fairpc.models._knowledge import Knowledge
from fairpc.models._model import Threshold
from fairpc.models._settings import serialised
from fairpc.models._tables import listed
from fairpc.models._top_em import TopRates

if TYPE_CHECKING:
    from fairpc.models._estimators import CircuitClassifier
    from fairpc.models._latent_decision import LatentDecision

FittedModel: TypeAlias = "CircuitClassifier | LatentDecision"

FORMAT: Final = "fairpc model"
VERSION: Final = 11
OLDEST: Final = 2
"""The lowest version that 0.2.0 still wrote; :mod:`fairpc.models._loading` makes it the present."""
MAX_BYTES: Final = 128 * 2**20
TABLE_OPTIONS: Final = frozenset(("delimiter", "encoding", "weight"))
KEPT: Final = {
    "threshold": "threshold_",
    "counts": "label_counts_",
    "n_features_in": "n_features_in_",
    "table": "table_options_",
    "warnings": "warnings_",
    "names": "names_",
}
"""Fields of a file, and the attributes of a model that they are."""


@dataclass(frozen=True)
class SavedSettings:
    """The settings that a fitted model reads; those of its fit alone are not in its file."""

    given: tuple[str | int, ...]
    delta: float
    min_cell: int
    decimal: Literal[".", ","]
    knowledge: dict[str, Any] | None

    @classmethod
    def of(cls, model: FittedModel) -> SavedSettings:
        """Those of a model. A review is as good as stated, and so are rates that it untied."""
        return cls(
            tuple(serialised(listed(model.given))),
            model._fair().strata.delta,
            int(model.min_cell),
            model.decimal,
            serialised(model.knowledge_) if model.knowledge_ else None,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the constructor of a model."""
        known = None if self.knowledge is None else Knowledge.from_dict(self.knowledge)
        return vars(self) | {"knowledge": known}


@dataclass(frozen=True)
class FileProvenance:
    """Which fairpc wrote the file, and the fingerprint of the training rows."""

    fairpc: str
    data: str


@dataclass(frozen=True, eq=False)
class Saved:
    """What a file holds of every model."""

    model: Literal["FairPC", "LatNB", "NLatPC", "TwoNB", "LatentDecision"]
    settings: SavedSettings
    coding: dict[str, Any]  #: how its table becomes codes
    threshold: Threshold
    counts: Floats  #: estimated weight of the training rows with Df = f and D = d, [s, f, d]
    n_features_in: int  #: columns of the table
    feature_names_in: tuple[str, ...] | None  #: None if it was an array
    provenance: FileProvenance
    table: dict[str, str]  #: what the command line was given, for later tables too
    warnings: tuple[str, ...]  #: what the fit check found
    #: what people call the label, sensitive columns and their values
    names: dict[str, dict[str, str]] = field(kw_only=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.counts).all() and (self.counts >= 0).all()):
            raise LearningError("a count of labels is not a number from 0 on")
        if self.n_features_in < 1:
            raise LearningError("the number of columns cannot be so low")
        names = self.feature_names_in
        if names is not None and not len(names) == len(set(names)) == self.n_features_in:
            raise LearningError("there are not as many names as columns")
        if not set(self.table) <= TABLE_OPTIONS:
            raise LearningError(f"a table is read by {', '.join(sorted(TABLE_OPTIONS))} alone")


@dataclass(frozen=True, eq=False)
class SavedCircuits(Saved):
    """What a file holds of FairPC, NLatPC, LatNB and TwoNB."""

    rates: TopRates
    features: dict[str, Any] | None  #: P(x | f, s) as one circuit whose root sums over them
    forest: dict[str, Any] | None  #: boxes of a forest in their place
    history: dict[str, Floats]  #: of EM
    converged: bool
    choices: Choices | None  #: of the automatic selection, if the model is its own
    ends: dict[str, Any] | None  #: what held-out rows say of P(D | x, s), for bounds
    #: the mechanism without its prior rows, if any, [s, f, d]
    without_prior: Floats | None
    prior_rows: float  #: per (f, s), with D = Df in nine of ten

    def __post_init__(self) -> None:
        super().__post_init__()
        bare = self.without_prior
        if bare is not None and not (
            bare.shape == self.counts.shape and (bare >= 0).all() and (bare <= 1).all()
        ):
            raise LearningError("a mechanism without prior rows has no probabilities")
        if not (np.isfinite(self.prior_rows) and self.prior_rows >= 0):
            raise LearningError("its number of prior rows is not one from 0 on")
        if (self.forest is None) == (self.features is None):
            raise LearningError("a model has circuits or a forest, one of the two")
        steps = {len(values) for values in self.history.values()}
        if "objective" not in self.history or len(steps) != 1 or not steps.pop():
            raise LearningError("the history needs an objective, and as many steps of all it has")


@dataclass(frozen=True)
class SavedView:
    """How classifiers see the group of a row."""

    names: tuple[str, ...]
    levels: tuple[tuple[Level, ...], ...]
    inside: bool
    library: str


@dataclass(frozen=True)
class SavedRound:
    """Classifiers of Df per fold, and the shares of all in the score."""

    shares: tuple[float, ...]
    classifiers: list[Any]


@dataclass(frozen=True, eq=False)
class SavedScores(Saved):
    """What a file holds of a LatentDecision."""

    score_map: dict[str, Any]  #: rates, mechanism and calibrations
    group_view: SavedView
    classifiers: list[Any]  #: of D, one per fold
    second_round: SavedRound | None


def save(model: Any, path: AnyPath) -> None:
    """Write a fitted model to a file, whole or not at all."""
    content = {"format": FORMAT, "version": VERSION, **serialise(_saved(model))}
    content["checksum"] = checksum(content)
    write_atomically(path, json_text(content) + b"\n")


def _saved(model: Any) -> Saved:
    from fairpc import __version__

    names = getattr(model, "feature_names_in_", None)
    described = {
        "model": type(model).__name__,
        "settings": SavedSettings.of(model),
        "coding": model._coding().to_dict(),
        "feature_names_in": None if names is None else tuple(map(str, names)),
        "provenance": FileProvenance(__version__, model.data_fingerprint_),
        **{name: getattr(model, attribute) for name, attribute in KEPT.items()},
    }
    if hasattr(model, "score_map_"):
        return SavedScores(**described, **_scores(model))
    distribution, ends = model._distribution(), model.label_ends_
    forest = isinstance(distribution, ForestDistribution)
    cells = None if forest else feature_circuits(distribution.circuit, distribution.layout)
    return SavedCircuits(
        **described,
        rates=distribution.top_rates,
        features=None if cells is None else to_dict(cells),
        forest=distribution.forest.to_dict() if forest else None,
        history=model.history_,
        converged=bool(model.converged_),
        choices=model.choices_,
        ends=None if ends is None else ends.to_dict(),
        without_prior=model.mechanism_without_prior_,
        prior_rows=model.prior_rows_,
    )


def _scores(model: LatentDecision) -> dict[str, Any]:
    for other in model.estimators_:
        if not isinstance(other, TableClassifier):
            raise LearningError(
                f"the estimator is a {type(other).__name__}, which a file of data alone cannot "
                "hold: keep the model with skops.io.dump(model, path), or only what is ours, "
                "the mechanism, P(Df) and the calibration, as model.score_map_.to_dict()"
            )
    second, view = model.second_round_, model.group_view_
    return {
        "score_map": model.score_map_.to_dict(),
        "group_view": SavedView(view.names, view.levels, view.inside, view.library),
        "classifiers": model.estimators_,
        "second_round": second and SavedRound(tuple(second.shares), second.estimators),
    }


def read_content(path: AnyPath, max_bytes: int) -> dict[str, Any]:
    """The object of a file whose format, version and checksum are right, without these."""
    source = os.fspath(path)
    content = read_json(path, max_bytes)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileFormatError(
            f"{source}: it is not a {FORMAT} file: its field 'format' does not say so"
        )
    version = content.get("version")
    if type(version) is not int or version > VERSION:
        raise FileFormatError(
            f"{source}: its format is {version!r} and this fairpc reads up to {VERSION}: update it"
        )
    if version < OLDEST:
        raise FileFormatError(
            f"{source}: its format is {version}, which this fairpc reads no more: fit the model "
            "again, or load and save it with fairpc 0.2.0"
        )
    if content.get("checksum") != checksum(content):
        raise FileFormatError(f"{source}: its checksum does not fit its content: {ALTERED}")
    return content


def json_text(content: Any) -> bytes:
    """JSON with one spelling, so that equal contents are equal texts."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def checksum(content: dict[str, Any]) -> str:
    """Of all fields but the one that holds it."""
    kept = {name: value for name, value in content.items() if name != "checksum"}
    return f"sha256:{hashlib.sha256(json_text(kept)).hexdigest()}"
