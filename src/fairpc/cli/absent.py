"""Columns that a model knows and a table lacks: missing in every row, or misspelt."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from fairpc.errors import TableError

if TYPE_CHECKING:
    from fairpc.cli.screen import Voice
    from fairpc.data.files import TableFiles
    from fairpc.estimators.base import CircuitClassifier

_CLOSE: Final = 0.8
"""Names at least as alike, from 0 to 1, are taken for one name and a slip."""

_SHOWN: Final = 8


def note_absent(model: CircuitClassifier, files: TableFiles, voice: Voice) -> None:
    """Say which features are absent, and so missing in every row; refuse what looks like a slip."""
    absent = absent_features(model, files.names())
    if not absent:
        return
    known = model.coding_.features.names
    if len(absent) == len(known):
        raise TableError(
            f"{files.source} has none of the features of the model ({_listed(known)}): give a "
            "table with at least one of them"
        )
    _refuse_slips(model, files, absent)
    voice.note(
        f"{files.source} has no column {_listed(absent)}: that counts as missing in every row"
    )


def absent_features(model: CircuitClassifier, names: tuple[str, ...]) -> tuple[str, ...]:
    """Features that are not among some columns; columns of an array go by position instead."""
    features = model.coding_.features
    if features.from_array:
        return ()
    return tuple(name for name in features.names if name not in names)


def _refuse_slips(model: CircuitClassifier, files: TableFiles, absent: tuple[str, ...]) -> None:
    coding = model.coding_
    known = {*coding.features.names_in, *coding.groups.column_names, coding.labels.name}
    others = {name.lower(): name for name in files.names() if name not in known}
    for name in absent:
        for close in get_close_matches(name.lower(), others, n=1, cutoff=_CLOSE):
            raise TableError(
                f"{files.source} has no column {name!r}, and {others[close]!r}, which the model "
                f"does not know, looks like it: rename that, or add an empty column {name!r}"
            )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
