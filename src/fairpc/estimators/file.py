"""Models as data-only files: one JSON object, checked before it is believed, never executed."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict
from typing import Any, Final, NoReturn

import numpy as np

from fairpc.circuit.file import from_dict, parse_json, to_dict
from fairpc.circuit.graph import Circuit
from fairpc.data.atomic import AnyPath, read_whole, write_atomically
from fairpc.data.table_coding import CODING_FIELDS, TableCoding
from fairpc.errors import FairpcError, FileFormatError
from fairpc.errors.arrays import Floats
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.models import FairPC, LatNB, NLatPC, TwoNB
from fairpc.estimators.settings import plain
from fairpc.evidence.ends import LabelEnds
from fairpc.fair.distribution import FairDistribution, Threshold
from fairpc.fair.forest import Forest, ForestDistribution
from fairpc.fair.knowledge import Knowledge
from fairpc.fair.recipe_log import Choices
from fairpc.fair.top import LATENT, Layout, Model, TopRates

FORMAT: Final = "fairpc model"
VERSION: Final = 6
MAX_BYTES: Final = 128 * 2**20
MODELS: Final = {c.__name__: c for c in (FairPC, LatNB, NLatPC, TwoNB)}
_NAMES: Final = (
    "format version checksum model settings sensitive features labels groups n_components circuit "
    "threshold history counts converged n_features_in feature_names_in provenance"
)
_FIELDS: Final = frozenset(_NAMES.split())
_SINCE: Final = {"anchors": 2, "choices": 3, "warnings": 4, "forest": 5, "ends": 6}
"""Fields that older files lack, by the version that brought them.

A file has the lowest version that can hold it: only models of the recipe have choices, and only
some models have warnings, or a setting that version 3 does not know.
"""

_WRONG_TYPE: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What reading a field raises whose content is of another kind."""


def save(model: CircuitClassifier, path: AnyPath) -> None:
    """Write a fitted model to a file, whole or not at all."""
    content = _content(model)
    content["checksum"] = _checksum(content)
    write_atomically(path, _text(content) + b"\n")


def load(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> CircuitClassifier:
    """The model of a file; a FileFormatError says what is wrong with one that is not as saved."""
    source = os.fspath(path)
    content = parse_json(read_whole(path, max_bytes), source, max_bytes)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        _fail(source, f"it is no {FORMAT} file: its field 'format' does not say so")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        _fail(source, f"its format is {version!r} and this fairpc reads up to {VERSION}: update it")
    odd = set(content) ^ (_FIELDS | {name for name, v in _SINCE.items() if v <= version})
    if odd:
        _fail(source, f"its field {min(odd)!r} is unknown or lacking: it was altered or truncated")
    if content["checksum"] != _checksum(content):
        _fail(source, "its checksum does not fit its content: it was altered; use an intact copy")
    try:
        return _model(content, source)
    except (FairpcError, *_WRONG_TYPE) as error:
        raise FileFormatError(f"{source} holds no model: {error}") from error


def _content(model: CircuitClassifier) -> dict[str, Any]:
    from fairpc import __version__

    coding, distribution = model._coding(), model._distribution()
    names = getattr(model, "feature_names_in_", None)
    settings = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    for name, usual in (("guard", True), ("hold_mechanism", False)):
        if settings[name] == usual:
            del settings[name]  # the default, and older readers take it for an error
    newer: dict[str, Any] = {}
    if model.choices_ is not None:
        newer["choices"] = model.choices_.to_dict()
    forest: dict[str, Any] = {}
    if isinstance(distribution, ForestDistribution):
        forest = {"forest": distribution.forest.to_dict() | distribution.top_rates.to_dict()}
    if model.warnings_ or {"guard", "hold_mechanism"} & set(settings) or forest:
        newer = {"choices": None, **newer, "warnings": list(model.warnings_), **forest}
    if model.label_ends_ is not None:
        older = {"choices": None, "warnings": list(model.warnings_), "forest": None}
        newer = {**older, **newer, "ends": model.label_ends_.to_dict()}
    return newer | {
        "format": FORMAT,
        "version": max((_SINCE[name] for name in newer), default=_SINCE["anchors"]),
        "model": type(model).__name__,
        "settings": settings,
        **coding.to_dict(),
        "n_components": distribution.layout.n_components,
        "circuit": None if newer.get("forest") else to_dict(distribution.circuit),
        "threshold": asdict(model.threshold_) | {"values": list(model.threshold_.values)},
        "history": {name: _numbers(values) for name, values in model.history_.items()},
        "counts": _numbers(model.label_counts_),
        "converged": bool(model.converged_),
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else [str(n) for n in names],
        "provenance": {"fairpc": __version__, "data": model.data_fingerprint_},
        "anchors": int(model.n_anchors_),
    }


def _model(content: dict[str, Any], source: str) -> CircuitClassifier:
    if content["model"] not in MODELS:
        _fail(source, f"its model {content['model']!r} is unknown: update fairpc")
    planted = content.get("forest") is not None
    circuit = None if planted else from_dict(content["circuit"], source)
    model: CircuitClassifier = MODELS[content["model"]](**_settings(content["settings"], circuit))
    coding = TableCoding.from_dict({name: content[name] for name in CODING_FIELDS})
    layout = Layout(
        len(coding.groups.names),
        len(coding.labels.classes),
        coding.features.names,
        tuple(coding.features.arities),
        latent=model._model in LATENT,
        tied=model._model != "TwoNB",
        n_components=int(content["n_components"]),
    )
    model.coding_ = coding
    model.distribution_ = _distribution(model._model, layout, circuit, content, source)
    if circuit is not None:
        model.distribution_.top  # noqa: B018 - another shape has no upper layers to read
    model.history_ = {name: _array(values) for name, values in content["history"].items()}
    model.label_counts_ = _array(content["counts"])
    model.converged_ = bool(content["converged"])
    model.starts_, model.choices_ = (), None
    # From version 4 on a file may have warnings and no choices.
    if content.get("choices") is not None or content["version"] == _SINCE["choices"]:
        model.choices_ = Choices.from_dict(content["choices"])
        own = model.choices_.forest == isinstance(model.distribution_, ForestDistribution)
        if not own or not (
            model.choices_.forest or len(model.choices_.components) == layout.n_components
        ):
            _fail(source, "its choices are not those of its circuit: it was altered")
    model.warnings_ = tuple(str(sentence) for sentence in content.get("warnings", ()))
    model.label_ends_ = None
    if content.get("ends") is not None:
        model.label_ends_ = LabelEnds.from_dict(content["ends"])
        if len(model.label_ends_.groups) != layout.n_groups or layout.n_classes != 2:
            _fail(source, "its held-out ends are not of its groups: it was altered")
    model.n_iter_ = max(len(model.history_["objective"]) - 1, 1)
    threshold = content["threshold"]
    values = tuple(float(v) for v in threshold["values"])
    model.threshold_ = Threshold(values, float(threshold["unknown"]))
    model.n_features_in_ = int(content["n_features_in"])
    if content["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
    model.data_fingerprint_ = str(content["provenance"]["data"])
    model.knowledge_ = model.knowledge or Knowledge()
    model.n_anchors_ = int(content.get("anchors", 0))
    return model


def _distribution(
    model: Model, layout: Layout, circuit: Circuit | None, content: dict[str, Any], source: str
) -> FairDistribution:
    if circuit is not None:
        if dict(zip(circuit.names, circuit.arities.tolist(), strict=True)) != layout.variables:
            _fail(source, "its circuit is not over its columns: it was altered")
        return FairDistribution(model, layout, circuit)
    forest, rates = Forest.from_dict(content["forest"]), TopRates.from_dict(content["forest"])
    sizes = tuple(value.shape[2] for value in forest.values)
    shape = layout.n_groups, layout.n_classes
    fits = forest.leaf_rate.shape[:2] == shape and rates.mechanism.shape == (*shape, shape[1])
    if model != "FairPC" or not fits or sizes != layout.arities:
        _fail(source, "its forest is not over its columns: it was altered")
    return ForestDistribution(layout, forest, rates)


def _settings(settings: dict[str, Any], circuit: Circuit | None) -> dict[str, Any]:
    """Constructor arguments: tuples where tuples were; a structure without a name is a kept one."""
    lists = ("missing_values", "numeric", "categorical")
    result = dict(settings) | {name: tuple(settings[name]) for name in lists if name in settings}
    if result.get("structure", "auto") is None:
        result["structure"] = circuit
    if result.get("knowledge") is not None:
        result["knowledge"] = Knowledge.from_dict(result["knowledge"])
    return result


def _numbers(values: Floats) -> Any:
    """Nested lists; None where a number is not finite, which JSON has no word for."""
    if values.ndim == 0:
        return float(values) if math.isfinite(values) else None
    return [_numbers(v) for v in values]


def _array(values: Any) -> Floats:
    return np.array(values, dtype=np.float64)


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def _checksum(content: dict[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "checksum"}
    return f"sha256:{hashlib.sha256(_text(kept)).hexdigest()}"


def _fail(source: str, problem: str) -> NoReturn:
    raise FileFormatError(f"{source}: {problem}")
