"""Models as data-only files: one JSON object, checked before it is believed, never executed.

What all models have is written and read here. What circuits and maps of scores have is added by
:mod:`fairpc.models._circuit_file` and :mod:`fairpc.models._latent_file`, which know the estimators.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from fairpc.core import (
    AnyPath,
    FairpcError,
    FileFormatError,
    Floats,
    parse_json,
    read_whole,
    serialise,
    write_atomically,
)
from fairpc.data import CODING_FIELDS, Record, TableCoding
from fairpc.models._knowledge import Knowledge
from fairpc.models._model import Threshold

if TYPE_CHECKING:
    from fairpc.models._estimators import CircuitClassifier
    from fairpc.models._latent import LatentDecision

FittedModel: TypeAlias = "CircuitClassifier | LatentDecision"


@dataclass(frozen=True)
class Kind:
    """How one kind of model is written and read.

    Attributes:
        fields: what a file of a version has of such a model alone.
        content: the version of the file, the settings, and what was learned.
        described: the same without what takes room.
        read: the model of a file; errors are raised as they come.
    """

    fields: Callable[[int], frozenset[str]]
    content: Callable[[Any], dict[str, Any]]
    described: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any], TableCoding], Any]


KINDS: Final[dict[str, Kind]] = {}
"""By the name of the model; each module that knows estimators adds its own."""

FORMAT: Final = "fairpc model"
VERSION: Final = 10
MAX_BYTES: Final = 128 * 2**20
_NAMES: Final = (
    "format version checksum model settings threshold counts n_features_in feature_names_in "
    "provenance"
)
_FIELDS: Final = frozenset((*_NAMES.split(), *CODING_FIELDS))
_TABLE: Final = "table"
"""What the command line was told of the training table, which tables that follow are read by.

The field is there only if it was told something; what the model itself knows is in the settings.
"""
_TABLE_OPTIONS: Final = frozenset(("delimiter", "encoding", "weight"))
_ANCHORS_SINCE: Final = 2
_LATER: Final = ("knowledge", "numeric", "categorical")
"""Settings that came with the anchors; the models of older files have them as usual."""

_WRONG_TYPE: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What reading a field raises whose content is of another kind."""


def save(model: Any, path: AnyPath) -> None:
    """Write a fitted model to a file, whole or not at all."""
    content = _content(model)
    content["checksum"] = _checksum(content)
    write_atomically(path, _text(content) + b"\n")


def load(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> FittedModel:
    """The model of a file; a FileFormatError says what is wrong with one that is not as saved."""
    source = os.fspath(path)
    content = parse_json(read_whole(path, max_bytes), source, max_bytes)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        _fail(source, f"it is no {FORMAT} file: its field 'format' does not say so")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        _fail(source, f"its format is {version!r} and this fairpc reads up to {VERSION}: update it")
    if str(content.get("model")) not in KINDS:
        _fail(source, f"its model {content.get('model')!r} is unknown: update fairpc")
    odd = (set(content) - {_TABLE}) ^ _fields(content["model"], version)
    if odd:
        _fail(source, f"its field {min(odd)!r} is unknown or lacking: it was altered or truncated")
    try:
        checksum = _checksum(content)
    except ValueError as error:  # 1e999 is a number to Python, and to JSON, but none that we write
        _fail(source, f"it has a number that is not finite ({error}): it was altered")
    if content["checksum"] != checksum:
        _fail(source, "its checksum does not fit its content: it was altered; use an intact copy")
    try:
        model = _model(content)
        _verify_read(model, content)
    except FairpcError as error:
        raise FileFormatError(f"{source} holds no model: {error}") from error
    except _WRONG_TYPE as error:
        raise FileFormatError(
            f"{source} holds no model: a field is not of its kind ({error}): it was altered"
        ) from error
    return model


def _fields(model: str, version: int) -> frozenset[str]:
    """What a file of this version has for such a model."""
    return (
        _FIELDS
        | KINDS[model].fields(version)
        | ({"anchors"} if version >= _ANCHORS_SINCE else set())
    )


def _content(model: FittedModel) -> dict[str, Any]:
    return (
        KINDS[type(model).__name__].content(model)
        | _described(model)
        | {"format": FORMAT, **model._coding().to_dict()}
    )


def _described(model: FittedModel) -> dict[str, Any]:
    """What is written of every model beside how its table becomes codes."""
    from fairpc import __version__

    names = getattr(model, "feature_names_in_", None)
    told = {_TABLE: dict(model.table_options_)} if model.table_options_ else {}
    return told | {
        "model": type(model).__name__,
        "threshold": asdict(model.threshold_) | {"values": list(model.threshold_.values)},
        "counts": serialise(model.label_counts_),
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else [str(n) for n in names],
        "provenance": {"fairpc": __version__, "data": model.data_fingerprint_},
        "anchors": int(model.n_anchors_),
    }


def _model(content: dict[str, Any]) -> FittedModel:
    coding = TableCoding.from_dict({name: content[name] for name in CODING_FIELDS})
    model: FittedModel = KINDS[content["model"]].read(content, coding)
    model.coding_ = coding
    model.threshold_ = _threshold(content["threshold"], len(coding.groups.names))
    model.label_counts_ = _counts(content["counts"], coding)
    model.warnings_ = ()
    if "warnings" in content:
        model.warnings_ = Record(content, "the file", content).texts("warnings")
    model.n_features_in_ = int(content["n_features_in"])
    if content["feature_names_in"] is not None:
        names = Record(content, "the file", content).texts("feature_names_in")
        if len(set(names)) != model.n_features_in_ or len(names) != model.n_features_in_:
            raise FileFormatError("its columns are not as many as it has names: it was altered")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.data_fingerprint_ = str(content["provenance"]["data"])
    model.knowledge_ = model.knowledge or Knowledge()
    model.n_anchors_ = int(content.get("anchors", 0))
    model.table_options_ = _table_options(content.get(_TABLE, {}))
    return model


def _table_options(content: dict[str, Any]) -> dict[str, str]:
    record = Record(content, "what was said of its table", _TABLE_OPTIONS & set(content))
    return {name: record.text(name) for name in content}


def _verify_read(model: FittedModel, content: dict[str, Any]) -> None:
    """A FileFormatError where a model, written again, would not say what its file says.

    Then a field was read as something else, or not at all: a text as a number, a part of a list.
    Circuits, classifiers and codings are read by readers that take nothing but what they write.
    """
    said = KINDS[content["model"]].described(model) | _described(model)
    said["provenance"]["fairpc"] = content["provenance"]["fairpc"]
    del said["version"]  # the lowest that can hold it: a file may have a higher one
    if content["version"] < _ANCHORS_SINCE:
        for name in _LATER:
            del said["settings"][name]
    if said.get("choices") and content.get("choices"):  # its reader says which ones may lack
        said["choices"] = {name: said["choices"][name] for name in content["choices"]}
    for name, value in said.items():
        if name in content and _text({name: value}) != _text({name: content[name]}):
            raise FileFormatError(f"its field {name!r} is not as it was saved: it was altered")


def _threshold(content: dict[str, Any], n_groups: int) -> Threshold:
    values = tuple(float(v) for v in content["values"])
    if len(values) not in (1, n_groups):
        raise FileFormatError("its thresholds are not one, or one per group: it was altered")
    return Threshold(values, float(content["unknown"]))


def _counts(content: Any, coding: TableCoding) -> Floats:
    counts = np.array(content, np.float64)
    n_classes = len(coding.labels.classes)
    if counts.shape != (len(coding.groups.names), n_classes, n_classes):
        raise FileFormatError("its counts are not of its groups and classes: it was altered")
    return counts


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def _checksum(content: dict[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "checksum"}
    return f"sha256:{hashlib.sha256(_text(kept)).hexdigest()}"


def _fail(source: str, problem: str) -> NoReturn:
    raise FileFormatError(f"{source}: {problem}")
