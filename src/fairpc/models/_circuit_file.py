"""What a file holds of FairPC, NLatPC, LatNB and TwoNB beside what it holds of every model."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.circuit import Circuit, from_dict, to_dict
from fairpc.core import FileFormatError, serialise
from fairpc.data import NumberModel, TableCoding
from fairpc.evidence import LabelBounds, read_bounds
from fairpc.models._claims import verify_claims, verify_parity
from fairpc.models._distribution import FairDistribution
from fairpc.models._estimators import CircuitClassifier, FairPC, LatNB, NLatPC, TwoNB
from fairpc.models._file import KINDS, Kind
from fairpc.models._forest import FOREST_FIELDS, Forest, ForestDistribution
from fairpc.models._knowledge import Knowledge
from fairpc.models._recipe_log import Choices
from fairpc.models._settings import plain
from fairpc.models._strata import Strata
from fairpc.models._top import LATENT, Layout, Model, TopRates

MODELS: Final = {c.__name__: c for c in (FairPC, LatNB, NLatPC, TwoNB)}
_FIELDS: Final = frozenset(("n_components", "circuit", "history", "converged"))
_SINCE: Final = {"choices": 3, "warnings": 4, "forest": 5, "ends": 6}
"""Fields that older files lack, by the version that brought them.

A file has the lowest version that can hold it. What it then has to hold, and the model has not, is
None: only models of the recipe and forests have choices, only some have warnings, a setting that
version 3 does not know, or held-out ends.
"""
_FIRST: Final = 2
_STRATA_SINCE: Final = 7
_DENSITY_SINCE: Final = 8
"""Numbers with a density inside their bins, and forests with a density for each class."""
_WRITTEN_SINCE: Final = 9
"""Numbers that are text, written otherwise than programs do."""
_USUAL: Final = {"guard": True, "hold_mechanism": False, "given": [], "mechanism": "shared"}
"""Settings that are written where they are not as usual: older readers take them for an error."""
_NUMBERS: Final = ("numbers", "monotone")
"""The same, where numbers may have a density."""
_DECIMAL: Final = "decimal"
"""The same, where numbers may be written in several ways."""


def fields(version: int) -> frozenset[str]:
    """What a file of this version has."""
    return _FIELDS | {name for name, since in _SINCE.items() if since <= version}


def content(model: CircuitClassifier) -> dict[str, Any]:
    """The version of the file, the settings, and what was learned."""
    distribution, said = model._distribution(), described(model)
    forest = None
    if isinstance(distribution, ForestDistribution):
        forest = distribution.forest.to_dict() | distribution.top_rates.to_dict()
    if _SINCE["forest"] <= said["version"]:
        said["forest"] = forest
    return said | {"circuit": None if forest else to_dict(distribution.circuit)}


def described(model: CircuitClassifier) -> dict[str, Any]:
    """The same without the circuit, or the forest."""
    distribution = model._distribution()
    settings = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    usual = _USUAL | {"numbers": _numbers_of(model._coding()), "monotone": [], _DECIMAL: None}
    for name, value in usual.items():
        if settings[name] == value:
            del settings[name]
    choices, ends = model.choices_, model.label_ends_
    newer = {
        "choices": None if choices is None else choices.to_dict(),
        "warnings": list(model.warnings_),
        "ends": None if ends is None else ends.to_dict(),
    }
    # The list of warnings came with the settings.
    told = {name for name, value in newer.items() if value}
    told |= {"warnings"} if set(_USUAL) & set(settings) else set()
    version = max((_SINCE[name] for name in told), default=_FIRST)
    if distribution.layout.strata:
        version = _STRATA_SINCE
    tilted = isinstance(distribution, ForestDistribution)
    if tilted or _has_densities(model._coding()) or set(_NUMBERS) & set(settings):
        version = _DENSITY_SINCE
    if model._coding().features.rewritten or _DECIMAL in settings:
        version = _WRITTEN_SINCE
    return {
        **{name: value for name, value in newer.items() if _SINCE[name] <= version},
        "version": version,
        "settings": settings,
        "n_components": distribution.layout.n_components,
        "history": {name: serialise(values) for name, values in model.history_.items()},
        "converged": bool(model.converged_),
    }


def _has_densities(coding: TableCoding) -> bool:
    return any(column.density is not None for column in coding.features.columns)


def _numbers_of(coding: TableCoding) -> NumberModel:
    """What the setting ``numbers`` was where a file does not say: older ones know bins alone."""
    binned = any(column.binned for column in coding.features.columns)
    return "bins" if binned and not _has_densities(coding) else "density"


def read(content: dict[str, Any], coding: TableCoding) -> CircuitClassifier:
    """The model of a file; errors are raised as they come."""
    younger = _has_densities(coding) or set(_NUMBERS) & set(content["settings"])
    if younger and content["version"] < _DENSITY_SINCE:
        raise FileFormatError("its densities are younger than its version: it was altered")
    written = coding.features.rewritten or _DECIMAL in content["settings"]
    if written and content["version"] < _WRITTEN_SINCE:
        raise FileFormatError("how its numbers are written is younger than its version: altered")
    settings = {"numbers": _numbers_of(coding)} | content["settings"]
    planted = content.get("forest") is not None
    if planted and content["circuit"] is not None:
        raise FileFormatError("it has a forest and a circuit, and a model is one of them: altered")
    circuit = None if planted else from_dict(content["circuit"], "its circuit")
    model: CircuitClassifier = MODELS[content["model"]](**_settings(settings, circuit))
    layout = Layout(
        len(coding.groups.names),
        len(coding.labels.classes),
        coding.features.names,
        tuple(coding.features.arities),
        latent=model._model in LATENT,
        tied=model._model != "TwoNB",
        n_components=int(content["n_components"]),
        strata=model._strata(coding),
    )
    model.distribution_ = _distribution(model._model, layout, circuit, content)
    if circuit is not None:
        verify_claims(model.distribution_)
    verify_parity(model.distribution_)
    model.history_ = {
        name: np.array(values, np.float64) for name, values in content["history"].items()
    }
    model.n_iter_ = max(len(model.history_["objective"]) - 1, 1)
    model.converged_ = bool(content["converged"])
    model.starts_ = ()
    model.choices_ = _choices(content, model)
    model.label_ends_ = _ends(content, coding, layout.strata)
    return model


def _choices(content: dict[str, Any], model: CircuitClassifier) -> Choices | None:
    """What the recipe chose; an error where the file hides it, or it is that of another model."""
    given: Any = content.get("choices")
    version, distribution = content["version"], model.distribution_
    forest = isinstance(distribution, ForestDistribution)
    if given is None and version != _SINCE["choices"]:
        # Up to version 5, a model whose structure was learned on a sample of its rows has none.
        if version >= _SINCE["ends"] and (forest or model._is_auto()):
            raise FileFormatError("its choices are lacking, and the recipe made it: it was altered")
        return None
    choices = Choices.from_dict(given)
    if version >= _DENSITY_SINCE and set(given) != set(choices.to_dict()):
        raise FileFormatError("its choices lack what files of its version have: it was altered")
    fits = choices.forest or len(choices.components) == distribution.layout.n_components
    if choices.forest != forest or not fits:
        raise FileFormatError("its choices are not those of its circuit: it was altered")
    return choices


def _ends(content: dict[str, Any], coding: TableCoding, strata: Strata) -> LabelBounds | None:
    if content.get("ends") is None:
        return None
    ends = read_bounds(content["ends"], strata.n if strata else None, within=strata.within)
    names = tuple(group.group for group in ends.groups)
    if names != coding.groups.names or len(coding.labels.classes) != 2:
        raise FileFormatError("its held-out ends are not of its groups: it was altered")
    return ends


def _distribution(
    model: Model, layout: Layout, circuit: Circuit | None, content: dict[str, Any]
) -> FairDistribution:
    if circuit is not None:
        variables = list(zip(circuit.names, circuit.arities.tolist(), strict=True))
        if variables != list(layout.variables.items()):
            raise FileFormatError("its circuit is not over its columns: it was altered")
        return FairDistribution(model, layout, circuit)
    planted = content["forest"]
    boxes = {name: value for name, value in planted.items() if name in FOREST_FIELDS}
    forest = Forest.from_dict(boxes)
    rates = TopRates.from_dict({name: planted[name] for name in set(planted) - set(boxes)})
    sizes = tuple(value.shape[3] for value in forest.values)
    rest = tuple(layout.arities[j] for j in layout.strata.rest(len(layout.names)))
    fits = forest.leaf_rate.shape[:2] == (layout.n_subgroups, layout.n_classes)
    if model != "FairPC" or not fits or sizes != rest:
        raise FileFormatError("its forest is not over its columns: it was altered")
    return ForestDistribution(layout, forest, rates)


def _settings(settings: dict[str, Any], circuit: Circuit | None) -> dict[str, Any]:
    """Constructor arguments: tuples where tuples were; a structure without a name is a kept one."""
    lists = ("missing_values", "numeric", "categorical", "monotone", "given")
    given = {name: settings[name] for name in lists if isinstance(settings.get(name), list)}
    result = dict(settings) | {name: tuple(value) for name, value in given.items()}
    if result.get("structure", "auto") is None:
        result["structure"] = circuit
    if result.get("knowledge") is not None:
        result["knowledge"] = Knowledge.from_dict(result["knowledge"])
    return result


KINDS.update(dict.fromkeys(MODELS, Kind(fields, content, described, read)))
