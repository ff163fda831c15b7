"""Models from files: parts that are read, checked and put together as a fit does it."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from fairpc.circuit import Circuit, from_dict, to_dict
from fairpc.core import (
    ALTERED,
    AnyPath,
    CircuitError,
    FairpcError,
    FileFormatError,
    LearningError,
    record,
    serialise,
)
from fairpc.data import CODING_FIELDS, TableCoding
from fairpc.evidence import ANYTHING, LabelBounds, read_bounds
from fairpc.models._choices import Choices
from fairpc.models._classifiers import TableClassifier
from fairpc.models._distribution import FairDistribution, top_rates
from fairpc.models._estimators import CircuitClassifier, FairPC, LatNB, NLatPC, TwoNB
from fairpc.models._fair_layers import Layout, feature_circuits
from fairpc.models._file import (
    KEPT,
    MAX_BYTES,
    VERSION,
    FittedModel,
    Saved,
    SavedCircuits,
    SavedRound,
    SavedScores,
    SavedSettings,
    SavedView,
    json_text,
    read_content,
)
from fairpc.models._fold_classifiers import SECOND, GroupView, SecondRound, group_columns
from fairpc.models._forest import Forest
from fairpc.models._forest_decisions import ForestDistribution
from fairpc.models._knowledge import Knowledge, limits_of_coding
from fairpc.models._latent_decision import LatentDecision
from fairpc.models._priors import MECHANISM, RECIPE_MECHANISM
from fairpc.models._score_map import ScoreMap
from fairpc.models._settings import check_settings, strata_of
from fairpc.models._strata import Strata
from fairpc.models._tables import listed

MODELS: Final = {c.__name__: c for c in (FairPC, LatNB, NLatPC, TwoNB)}
LATENT_DECISION: Final = LatentDecision.__name__
OLDER: Final = "an earlier fairpc wrote it; fit the model again"
_WRONG_TYPE: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What reading a field raises whose content is of another kind."""
MOST_GAP: Final = 1e-9
"""Largest difference of P(decision | S) between groups that rounding explains."""
ROUNDED: Final = 1e-13
"""How far weights may sum from 1 if no product of some thousand sums is to move by as much."""


def load(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> FittedModel:
    """The model of a file; a FileFormatError says what is wrong with one that is not as saved."""
    source = os.fspath(path)
    content = read_content(path, max_bytes)
    older = content["version"] < VERSION
    repair = OLDER if older else ALTERED
    try:
        if older:
            content = _present(content)
        own = {n: v for n, v in content.items() if n not in ("format", "version", "checksum")}
        return _model_of(own, repair)
    except FileFormatError as error:
        raise FileFormatError(f"{source} holds no model: {error}") from error
    except FairpcError as error:
        raise FileFormatError(f"{source} holds no model: {error}: {repair}") from error
    except _WRONG_TYPE as error:
        raise FileFormatError(
            f"{source} holds no model: a field is not of its kind ({error}): {repair}"
        ) from error


def _model_of(content: dict[str, Any], repair: str) -> FittedModel:
    kind: type[SavedScores | SavedCircuits] = SavedCircuits
    if content.get("model") == LATENT_DECISION:
        kind = SavedScores
    saved = record(kind, content, "the file", exact=True, repair=repair)
    coding = TableCoding.from_dict(saved.coding)
    made = _scored(saved, coding) if isinstance(saved, SavedScores) else _circuits(saved, coding)
    _restore(made, saved, coding)
    _check_ends(made, coding)
    return made


def _restore(model: FittedModel, saved: Saved, coding: TableCoding) -> None:
    """Set what every model has, as far as it fits its coding and its settings."""
    n, k = len(coding.groups.names), len(coding.labels.classes)
    if saved.counts.shape != (n, k, k) or len(saved.threshold.values) not in (1, n):
        raise LearningError("its counts or thresholds are not of its groups and classes")
    names = saved.feature_names_in
    if names is not None and not {*coding.features.names_in, *coding.sensitive} <= {*names}:
        raise LearningError("its columns are not those of its table")
    own = coding.groups.column_names if coding.sensitive else ()
    if frozenset(coding.sensitive) != frozenset(own):
        raise LearningError("its sensitive columns are not those of its groups")
    model.coding_ = coding
    if coding.names_of(saved.names) != saved.names:
        raise LearningError("its names are not those of its values")
    model.names = saved.names or None
    for name, attribute in KEPT.items():
        setattr(model, attribute, getattr(saved, name))
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.data_fingerprint_ = saved.provenance.data
    model.knowledge_ = model.knowledge or Knowledge()
    check_settings(vars(saved.settings))
    _check_as_read(serialise(SavedSettings.of(model)), serialise(saved.settings), "settings")


def _check_ends(model: FittedModel, coding: TableCoding) -> None:
    """An error where held-out ends say something else of P(Df) than what is stated."""
    bounds, limits = model.label_ends_, limits_of_coding(model.knowledge_, coding)
    possible = [ANYTHING]  # as where a review says more of the mechanism
    if limits is not None:
        p = coding.labels.positive
        possible.append((float(limits.rate_lower[p]), float(limits.rate_upper[p])))
    parts = () if bounds is None else bounds.parts()
    if any(own.pi not in possible for _, _, own in parts):
        raise LearningError("its held-out ends have a P(Df) that its settings do not state")


def _check_as_read(read: Any, content: Any, name: str) -> None:
    """An error where what was read is not what the file says: a text was read as a number."""
    if json_text(read) != json_text(content):
        raise LearningError(f"its {name} are not as they were saved")


def _label_bounds(saved: Any, coding: TableCoding, strata: Strata) -> LabelBounds | None:
    if saved is None:
        return None
    bounds = read_bounds(saved, strata.n if strata else None)
    if (
        tuple(g.group for g in bounds.groups) != coding.group_names
        or len(coding.labels.classes) > 2
    ):
        raise LearningError("its held-out ends are not of its groups")
    if bounds.with_delta(strata.delta) != bounds:
        raise LearningError("its held-out ends have another delta")
    _check_as_read(bounds.to_dict(), saved, "held-out ends")
    return bounds


def _circuits(saved: SavedCircuits, coding: TableCoding) -> CircuitClassifier:
    """FairPC, NLatPC, LatNB or TwoNB."""
    model: CircuitClassifier = MODELS[saved.model](**saved.settings.arguments)
    layout = _layout(model, coding)
    model.distribution_ = distribution = _distribution(saved, layout)
    _check_parity(distribution)
    model.history_, model.converged_ = saved.history, saved.converged
    model.n_iter_ = max(len(saved.history["objective"]) - 1, 1)
    model.mechanism_without_prior_, model.prior_rows_ = saved.without_prior, saved.prior_rows
    model.choices_ = choices = saved.choices
    forest = saved.forest is not None
    if choices is None and forest:
        raise LearningError("its choices are lacking, and the automatic selection made it")
    if choices is not None and choices.forest != forest:
        raise LearningError("its choices are not those of its circuits")
    model.label_ends_ = _label_bounds(saved.ends, coding, layout.strata)
    return model


def _layout(model: CircuitClassifier, coding: TableCoding) -> Layout:
    return Layout(
        len(coding.groups.names),
        len(coding.labels.classes),
        coding.features.names,
        tuple(coding.features.arities),
        model._model,
        strata=model._strata(coding),
    )


def _distribution(saved: SavedCircuits, layout: Layout) -> FairDistribution:
    if saved.forest is not None:
        forest = Forest.from_dict(saved.forest)
        sizes = tuple(value.shape[3] for value in forest.values)
        rest = tuple(layout.arities[j] for j in layout.strata.rest(len(layout.names)))
        fits = forest.leaf_rate.shape[:2] == (layout.n_subgroups, layout.n_classes)
        if saved.model != "FairPC" or not fits or sizes != rest:
            raise LearningError("its forest is not over its columns")
        return ForestDistribution(layout, forest, saved.rates)
    if layout.strata:
        raise LearningError("its circuits have strata, and only forest circuits have them now")
    features = from_dict(saved.features, "its circuits")
    made = FairDistribution.of_parts(MODELS[saved.model]._model, layout, saved.rates, features)
    # Nodes that are equal become one: a file that has some twice would be saved as another.
    if _size(feature_circuits(made.circuit, made.layout)) != _size(features):
        raise LearningError("its circuits have a node twice, or one that is not used")
    return made


def _check_parity(distribution: FairDistribution) -> None:
    """A CircuitError where exact queries find rates of a decision that differ by more than delta.

    Groups share the parameters of a tied decision, so its rates can differ only where weights below
    do not sum to 1. They may be off by what a circuit tolerates; where all of them are exact, no
    query is needed.
    """
    layout = distribution.layout
    allowed = MOST_GAP + layout.strata.delta
    if not (layout.tied or layout.strata.delta):
        return
    if np.ptp(distribution.subgroup_decision_rate, axis=0).max() > allowed:
        raise CircuitError("P(decision) differs between groups by more than delta")
    if np.abs(distribution.sums() - 1.0).max() < ROUNDED:
        return
    possible = bool((distribution.subgroup_rate > 0).all())
    if not possible or not distribution.parity_gap().max() < allowed:
        raise CircuitError("P(decision) differs between groups, as weights do not sum to 1")


def _scored(saved: SavedScores, coding: TableCoding) -> LatentDecision:
    """A LatentDecision."""
    if len(coding.labels.classes) != 2:
        raise LearningError("its label has more than two classes")
    given = saved.settings
    strata = strata_of(given.given, coding, given.delta)
    score_map = ScoreMap.from_dict(saved.score_map, strata)
    _check_as_read(score_map.to_dict(), saved.score_map, "scores")
    if tuple(g.group for g in score_map.ends.groups) != coding.group_names:
        raise LearningError("its map of scores is not of its groups")
    view = _view(saved.group_view, coding)
    folds = [TableClassifier.from_dict(classifier) for classifier in saved.classifiers]
    second, of_df = None, []
    if saved.second_round is not None:
        second = _second_round(saved.second_round, len(folds))
        of_df = second.estimators
    _check_classifiers(folds, of_df, coding, view)
    model = LatentDecision(**given.arguments)
    model.score_map_, model.group_view_, model._strata = score_map, view, strata
    model.estimators_, model.second_round_ = folds, second
    return model


def _view(saved: SavedView, coding: TableCoding) -> GroupView:
    names, inside = saved.names, saved.inside
    sizes = [] if inside else [len(names)] * len(coding.groups.names)
    if (names, inside) != group_columns(coding) or [*map(len, saved.levels)] != sizes:
        raise LearningError("its view of the groups is not of its columns")
    # A file holds no classifiers but ours.
    return GroupView(names, saved.levels, inside, saved.library, coding.features)


def _second_round(saved: SavedRound, n_folds: int) -> SecondRound:
    """Classifiers of Df, and the shares of all in the score."""
    shares = np.array(saved.shares, np.float64)
    folds = [tuple(map(TableClassifier.from_dict, fold)) for fold in saved.classifiers]
    kinds = {tuple(c.kind for c in fold) for fold in folds}
    if len(folds) != n_folds or kinds != {SECOND} or len(shares) != 1 + len(SECOND):
        raise LearningError("its second round is not of its folds")
    if not ((shares >= 0).all() and abs(shares.sum() - 1) < 1e-9):
        raise LearningError("the shares of its second round are below 0 or do not sum to 1")
    return SecondRound(folds, shares)


def _check_classifiers(
    folds: list[TableClassifier],
    second: list[tuple[TableClassifier, ...]],
    coding: TableCoding,
    view: GroupView,
) -> None:
    """An error where classifiers are not those of these groups and columns."""
    sound = len(folds) >= 2
    known = {*coding.features.names_in, *view.names}
    for classifier in (*folds, *(c for fold in second for c in fold)):
        encoding = classifier.encoding_
        sound &= classifier.classes_.tolist() == [0, 1]
        sound &= encoding.from_array or set(encoding.names) <= known
    if not sound:
        raise LearningError("its classifiers are not of its groups and columns")


def _present(content: dict[str, Any]) -> dict[str, Any]:
    """What 0.2.0 wrote, as it is written now: a file had the lowest version that could hold it.

    Fields that were younger than the version are added, and the circuit of the whole model is
    taken apart. What is not of the builder's form has more nodes than its parts, and is refused.
    """
    coding = {name: content.pop(name) for name in CODING_FIELDS}
    content.pop("anchors", None)
    content = {"coding": coding, "warnings": [], "table": {}, "names": {}, **content}
    given, latent = content["settings"], content["model"] == LATENT_DECISION
    given["decimal"] = given.get("decimal") or "."
    for column in coding["features"]["columns"]:
        column.pop("density", None)  # numbers are uniform within a bin
        column["decimal"] = (column.pop("written", None) or {}).get("decimal", ".")
    usual = {"given": (), "delta": 0.0, "min_cell": 1, "decimal": ".", "knowledge": None}
    content["settings"] = settings = {name: given.get(name, usual[name]) for name in usual}
    settings["given"] = list(listed(settings["given"]))
    if given.get("mechanism", "shared") == "shared" and settings["given"]:
        raise LearningError("its strata share a mechanism, and each has its own now")
    if latent:
        scores = content["score_map"]
        content["score_map"] = scores | {"ends": _same_rates(scores["ends"])}
        content["classifiers"] = [classifier for (classifier,) in content["classifiers"]]
        content.pop("group_classifiers")
        content.pop("without_prior", None)  # there are no prior rows
        if content["group_view"]["inside"]:
            content["group_view"] |= {"levels": []}
        return {"second_round": None, **content}
    content = {
        "choices": None,
        "forest": None,
        "ends": None,
        "features": None,
        "without_prior": None,
        **content,
    }
    content["ends"] = _same_rates(content["ends"])
    content["prior_rows"] = _prior_rows(content["model"], given)
    read = TableCoding.from_dict(coding)
    if content["choices"]:
        content["choices"] = _present_choices(content["choices"])
    circuit, n_components = content.pop("circuit"), content.pop("n_components")
    if content["forest"] is not None:
        upper = ("group_rate", "decision_rate", "mechanism")
        content["rates"] = {name: content["forest"].pop(name) for name in upper}
        return content
    whole = from_dict(circuit, "its circuit")
    known = record(SavedSettings, settings, "its settings", exact=True, repair=OLDER)
    model = MODELS[content["model"]](**known.arguments)
    layout = replace(_layout(model, read), n_components=n_components)
    rates, features = top_rates(whole, layout), feature_circuits(whole, layout)
    again = FairDistribution.of_parts(content["model"], layout, rates, features).circuit
    if _size(again) != _size(whole):
        raise LearningError(f"its circuit is not that of a {content['model']}")
    return content | {"rates": rates.to_dict(), "features": to_dict(features)}


def _prior_rows(model: str, settings: dict[str, Any]) -> float:
    """Prior rows of the mechanism, by the settings that a file had."""
    if settings.get("mechanism_prior") is not None:
        return float(settings["mechanism_prior"])
    auto = settings.get("structure") == "auto" and settings.get("init") == "prior"
    holds = settings.get("structure") == "forest" or (model == "FairPC" and auto)
    return RECIPE_MECHANISM if holds else MECHANISM


def _present_choices(choices: dict[str, Any]) -> dict[str, Any]:
    """Choices without what is chosen no more."""
    names = {f.name for f in fields(Choices)}
    kept = {name: value for name, value in choices.items() if name in names}
    return {"n_rows": choices["n_train"], "ruled": False, **kept}


def _same_rates(bounds: Any) -> Any:
    """Bounds of a file that was written before rates could differ: they do not, in any stratum."""
    if not isinstance(bounds, dict):
        return bounds
    if isinstance(bounds.get("strata"), list):
        return bounds | {"strata": [_same_rates(own) for own in bounds["strata"]]}
    return {"delta": 0.0} | bounds


def _size(circuit: Circuit) -> tuple[Any, ...]:
    graph = circuit.graph
    return graph.names, graph.arities.tolist(), graph.n_nodes, graph.n_edges, graph.n_parameters
