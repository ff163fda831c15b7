"""What a file holds of a LatentDecision beside what it holds of every model."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, Final

import numpy as np

from fairpc.core import FileFormatError, LearningError
from fairpc.data import Record, TableCoding
from fairpc.learners import CLASSIFIER_KINDS
from fairpc.models._classifier_rows import GroupView, group_columns
from fairpc.models._classifiers import TableClassifier
from fairpc.models._cross_fitting import SECOND, SecondRound
from fairpc.models._file import KINDS, Kind
from fairpc.models._knowledge import Knowledge
from fairpc.models._latent import LatentDecision
from fairpc.models._score_map import ScoreMap
from fairpc.models._settings import plain
from fairpc.models._strata_columns import strata_of

NAME: Final = LatentDecision.__name__
_VERSION: Final = 6
_STRATA_SINCE: Final = 7
_WRITTEN_SINCE: Final = 9
_USUAL: Final[dict[str, Any]] = {
    "given": [],
    "mechanism": "shared",
    "numeric": [],
    "decimal": None,
}
"""Settings that are written where they are not as usual: older readers take them for an error."""
_SECOND_SINCE: Final = 10
_FIELDS: Final = ("warnings", "score_map", "group_view", "classifiers", "group_classifiers")
_SECOND: Final = ("shares", "classifiers")
_VIEW: Final = ("names", "levels", "inside", "library")
_ESTIMATORS: Final = ("estimator", "sensitive_estimator")
_TIMES: Final = {"date": date, "datetime": datetime}
"""Values of a group that JSON has no word for, by what they are called there."""


def fields(version: int) -> frozenset[str]:
    """What a file of this version has of such a model alone."""
    return frozenset((*_FIELDS, "second_round") if version >= _SECOND_SINCE else _FIELDS)


def content(model: LatentDecision) -> dict[str, Any]:
    """The version of the file, the settings, and what was learned."""
    _refuse_others(model)
    second, own = model.second_round_, {}
    if second is not None:
        each = [[c.to_dict() for c in fold] for fold in second.estimators]
        own["second_round"] = {"shares": second.shares.tolist(), "classifiers": each}
    return (
        own
        | described(model)
        | {
            "classifiers": [[c.to_dict() for c in fold] for fold in model.estimators_],
            "group_classifiers": [c.to_dict() for c in model.group_estimators_],
        }
    )


def described(model: LatentDecision) -> dict[str, Any]:
    """The same without the classifiers."""
    settings = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    for name in _ESTIMATORS:
        given = getattr(model, name)
        settings[name] = given.kind if isinstance(given, TableClassifier) else given
    for name, usual in _USUAL.items():
        if settings[name] == usual:
            del settings[name]
    view = model.group_view_
    return {
        "version": _lowest(settings, model.coding_, model.second_round_ is not None),
        "settings": settings,
        "warnings": list(model.warnings_),
        "score_map": model.score_map_.to_dict(),
        "group_view": {
            "names": list(view.names),
            "levels": [[_written(value) for value in level] for level in view.levels],
            "inside": view.inside,
            "library": view.library,
        },
    }


def _refuse_others(model: LatentDecision) -> None:
    """A LearningError where a classifier is none of ours: a file holds data and no code."""
    learned = {
        "estimator": [c for fold in model.estimators_ for c in fold],
        "sensitive_estimator": list(model.group_estimators_),
    }
    for name, classifiers in learned.items():
        given = [getattr(model, name)]
        own = (*classifiers, *(c for c in given if not (c is None or c is False)))
        for other in own:
            if not isinstance(other, TableClassifier):
                raise LearningError(
                    f"the {name} is a {type(other).__name__}, which a file of data alone cannot "
                    "hold: keep the model with skops.io.dump(model, path), or only what is ours, "
                    "the mechanism, P(Df) and the calibration, as model.score_map_.to_dict()"
                )


def read(content: dict[str, Any], coding: TableCoding) -> LatentDecision:
    """The model of a file; errors are raised as they come."""
    if content["version"] < _lowest(content["settings"], coding, "second_round" in content):
        raise FileFormatError(f"its model {NAME} is younger than its version: it was altered")
    if len(coding.labels.classes) != 2:
        raise FileFormatError("its label has more than two classes: it was altered")
    given = _settings(content["settings"])
    strata = strata_of(given.get("given", ()), given.get("mechanism", "shared"), coding)
    found = ScoreMap.from_dict(content["score_map"], strata)
    if tuple(g.group for g in found.ends.groups) != coding.groups.names:
        raise FileFormatError("its map of scores is not of its groups: it was altered")
    view = _view(content["group_view"], coding)
    folds = [tuple(map(TableClassifier.from_dict, fold)) for fold in content["classifiers"]]
    groups = tuple(map(TableClassifier.from_dict, content["group_classifiers"]))
    second, of_df = None, []
    if "second_round" in content:
        if given["estimator"] is not None or given["per_group"]:
            raise FileFormatError("its settings have no second round: it was altered")
        second = _second_round(content["second_round"], len(folds))
        of_df = second.estimators
    _check_classifiers(folds, of_df, groups, coding, view)
    for name, first in zip(_ESTIMATORS, (folds[0][:1], groups[:1]), strict=True):
        given[name] = _estimator(given[name], name, first)
    model = LatentDecision(**given)
    model.score_map_, model.group_view_, model._strata = found, view, strata
    model.estimators_, model.second_round_, model.group_estimators_ = folds, second, groups
    return model


def _view(data: Any, coding: TableCoding) -> GroupView:
    record = Record(data, "the view of the groups", _VIEW)
    names, inside = record.texts("names"), record.flag("inside")
    levels = tuple(tuple(_read_levels(level)) for level in record.items("levels"))
    sizes = [len(level) for level in levels]
    if (names, inside) != group_columns(coding) or sizes != [len(names)] * len(coding.groups.names):
        raise FileFormatError("its view of the groups is not of its columns: it was altered")
    # A file holds no classifiers but ours.
    return GroupView(names, levels, inside, record.text("library"), coding.features)


def _second_round(data: Any, n_folds: int) -> SecondRound:
    """Classifiers of Df, and the shares of all in the score."""
    record = Record(data, "the second round", _SECOND)
    shares = np.array(record.numbers("shares"), np.float64)
    folds = [tuple(map(TableClassifier.from_dict, fold)) for fold in record.items("classifiers")]
    kinds = {tuple(c.kind for c in fold) for fold in folds}
    if len(folds) != n_folds or kinds != {SECOND} or len(shares) != 1 + len(SECOND):
        raise FileFormatError("its second round is not of its folds: it was altered")
    if not ((shares >= 0).all() and abs(shares.sum() - 1) < 1e-9):
        raise FileFormatError(
            "the shares of its second round are below 0 or do not sum to 1: it was altered"
        )
    return SecondRound(folds, shares)


def _lowest(settings: dict[str, Any], coding: TableCoding, twice: bool) -> int:
    """The lowest version of a file that can hold a model, that may have learned twice."""
    if twice:
        return _SECOND_SINCE
    if coding.features.rewritten or "decimal" in settings:
        return _WRITTEN_SINCE
    return _STRATA_SINCE if set(_USUAL) & set(settings) else _VERSION


def _written(value: Any) -> Any:
    """A value that stands for a group, as JSON; a time is told from a text."""
    for name in ("datetime", "date"):
        if isinstance(value, _TIMES[name]):
            return {name: value.isoformat()}
    if not isinstance(value, str | bool | int | float):
        raise LearningError(
            f"a sensitive column holds values of type {type(value).__name__}, which a file cannot "
            "hold: give them as text or numbers"
        )
    return value


def _read_levels(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            ((name, text),) = value.items()
            yield _TIMES[name].fromisoformat(text)
        else:
            yield Record({"level": [value]}, "a group", ("level",)).levels("level")[0]


def _check_classifiers(
    folds: list[tuple[TableClassifier, ...]],
    second: list[tuple[TableClassifier, ...]],
    groups: tuple[TableClassifier, ...],
    coding: TableCoding,
    view: GroupView,
) -> None:
    """A FileFormatError where classifiers are not those of these groups and columns."""
    n = len(coding.groups.names)
    sizes = {len(fold) for fold in folds}
    sound = len(folds) >= 2 and sizes in ({1}, {n}) and len(groups) in (0, 1 if n == 2 else n)
    folds = [*folds, *second]
    known = {*coding.features.names_in, *view.names}
    for classifier in (*(c for fold in folds for c in fold), *groups):
        sound &= classifier.classes_.tolist() == [0, 1]
        encoding = classifier.encoding_
        sound &= encoding.from_array or set(encoding.names) <= known
    if not sound:
        raise FileFormatError("its classifiers are not of its groups and columns: it was altered")


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments: tuples where tuples were."""
    result = dict(settings) | {"missing_values": tuple(settings["missing_values"])}
    for name in ("given", "numeric"):
        if isinstance(settings.get(name), list):
            result[name] = tuple(settings[name])
    if result["knowledge"] is not None:
        result["knowledge"] = Knowledge.from_dict(result["knowledge"])
    return result


def _estimator(kind: Any, name: str, fitted: tuple[TableClassifier, ...]) -> Any:
    """The classifier that is fitted to each fold, from its kind and what one of them was told."""
    if kind is None or (kind is False and name == "sensitive_estimator"):
        return kind
    if kind not in CLASSIFIER_KINDS:
        raise FileFormatError(f"its setting {name} is no kind of classifier: it was altered")
    told = {} if not fitted else fitted[0].get_params(deep=False)
    return TableClassifier(**(told | {"kind": kind}))


KINDS[NAME] = Kind(fields, content, described, read)
