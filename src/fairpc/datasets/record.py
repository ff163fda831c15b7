"""What a loader returns: a table cut into features, label and groups, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal, get_args

import polars as pl

from fairpc.errors import LearningError, MissingExtraError

FrameKind = Literal["polars", "pandas"]


@dataclass(frozen=True)
class Provenance:
    """Where a table comes from and what may be done with it.

    Attributes:
        source: who published it.
        url: where.
        licence: under which terms.
        attribution: how to cite it.
        files: name and SHA-256 of each file as it was read.
    """

    source: str
    url: str
    licence: str
    attribution: str
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Notes:
    """What one should know before using a table.

    Attributes:
        description: one paragraph.
        columns: a sentence per column of the whole table.
        traps: known mistakes, a sentence each.
    """

    description: str
    columns: Mapping[str, str]
    traps: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table with its roles.

    Attributes:
        name: of the data set.
        version: how it was prepared ("raw", "paper", …).
        frame: the whole table, label, groups and columns that are no features included.
        X: the features.
        y: the observed label D.
        sensitive: the sensitive attribute S.
        label: column of ``frame`` that is ``y``.
        sensitive_attribute: column of ``frame`` that is ``sensitive``.
        positive: the label's favourable value.
        persons: a number per person where a person may have several rows, else None;
            folds must not cut through a person.
        provenance: source, licence, attribution.
        notes: description, columns, traps.
    """

    name: str
    version: str
    frame: Any
    X: Any
    y: Any
    sensitive: Any
    label: str
    sensitive_attribute: str
    positive: int | str
    persons: Any
    provenance: Provenance
    notes: Notes = field()

    @property
    def description(self) -> str:
        """One paragraph on what the rows, the label and the groups are."""
        return self.notes.description

    @property
    def columns(self) -> Mapping[str, str]:
        """A sentence per column of ``frame``."""
        return self.notes.columns

    @property
    def traps(self) -> tuple[str, ...]:
        """Known mistakes in using the table."""
        return self.notes.traps

    def __repr__(self) -> str:
        rows, features = self.X.shape
        return (
            f"{type(self).__name__}({self.name!r}, version={self.version!r}: {rows:,} rows, "
            f"{features} features, label {self.label!r}, sensitive {self.sensitive_attribute!r})"
        )


@dataclass(frozen=True)
class Roles:
    """Which column is what; all others are features unless features are named."""

    label: str
    sensitive: str
    positive: int | str
    features: Sequence[str] = ()


def check_option(name: str, value: object, options: Any) -> None:
    """Refuse a value that is none of a ``Literal``'s options."""
    known = get_args(options)
    if value not in known:
        listed = ", ".join(repr(option) for option in known)
        raise LearningError(f"{name} is {value!r}: use one of {listed}")


def cut(
    name: str,
    version: str,
    frame: pl.DataFrame,
    roles: Roles,
    provenance: Provenance,
    notes: Notes,
    as_frame: FrameKind,
    persons: pl.Series | None = None,
) -> dict[str, Any]:
    """Fields of a Dataset: the frame cut by its roles, in the wanted kind of frame."""
    others = {roles.label, roles.sensitive}
    features = list(roles.features) or [c for c in frame.columns if c not in others]
    listed = {c: notes.columns[c] for c in frame.columns}
    return {
        "name": name,
        "version": version,
        "frame": as_kind(frame, as_frame),
        "X": as_kind(frame.select(features), as_frame),
        "y": as_kind(frame[roles.label], as_frame),
        "sensitive": as_kind(frame[roles.sensitive], as_frame),
        "label": roles.label,
        "sensitive_attribute": roles.sensitive,
        "positive": roles.positive,
        "persons": None if persons is None else as_kind(persons, as_frame),
        "provenance": provenance,
        "notes": Notes(notes.description, MappingProxyType(listed), notes.traps),
    }


def as_kind(data: pl.DataFrame | pl.Series, kind: FrameKind) -> Any:
    """A polars object as it is, or as pandas has it."""
    check_option("as_frame", kind, FrameKind)
    if kind == "polars":
        return data
    if find_spec("pandas") is None or find_spec("pyarrow") is None:
        raise MissingExtraError(
            "as_frame='pandas' needs pandas and pyarrow: pip install 'fairpc[frames]'"
        )
    return data.to_pandas()
