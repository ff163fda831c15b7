"""What a loader returns: a table cut into features, label and groups, and where it comes from.

The tables come with the package, compressed, in ``files/``; what is known of them is in
``notes/``, a TOML file each.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import polars as pl

from fairpc.errors import FileFormatError, LearningError, MissingExtraError

FrameKind = Literal["polars", "pandas"]

BUNDLED: Final = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    "compas-scores-two-years.csv": (
        "889057646e5439d789eb568de1f61c57fc62af2f0efed630f1d51ea69d9d571f"
    ),
}
"""SHA-256 of the files that come with the package, uncompressed."""
DOWNLOADED: Final = {
    "compas-scores-raw.csv": "827209b9a22ed7e1a97da899d85c56d4b05af8c9f9dda8e20ce1b931c015d193"
}
"""SHA-256 of the file that is fetched when it is asked for."""


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
class Card:
    """What is known of a table before its rows are read.

    Attributes:
        name, version: of the data set.
        label, sensitive, positive: its columns' roles, and the label's favourable value.
        provenance, notes: as in :class:`Dataset`; the notes may describe more columns.
        features: columns of X; all but label and groups where none are named.
    """

    name: str
    version: str
    label: str
    sensitive: str
    positive: int | str
    provenance: Provenance
    notes: Notes
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, version: str) -> Card:
        """The card of a version, as the notes of the data set have it."""
        known = read_notes(name)
        part = known[version]
        source = known["provenance"][part["provenance"]]
        checksums = BUNDLED | DOWNLOADED
        found = tuple((file, checksums[file]) for file in source["files"])
        return cls(
            name,
            version,
            label=part["label"],
            sensitive=part["sensitive"],
            positive=part["positive"],
            provenance=Provenance(**source | {"files": found}),
            notes=Notes(part["description"], part["columns"], tuple(part["traps"])),
            features=tuple(part.get("features", ())),
        )

    def cut(
        self, frame: pl.DataFrame, as_frame: FrameKind, persons: pl.Series | None = None
    ) -> dict[str, Any]:
        """Fields of a Dataset: the frame cut by its roles, in the wanted kind of frame."""
        others = {self.label, self.sensitive}
        features = list(self.features) or [c for c in frame.columns if c not in others]
        listed = {c: self.notes.columns[c] for c in frame.columns}
        return {
            "name": self.name,
            "version": self.version,
            "frame": as_kind(frame, as_frame),
            "X": as_kind(frame.select(features), as_frame),
            "y": as_kind(frame[self.label], as_frame),
            "sensitive": as_kind(frame[self.sensitive], as_frame),
            "label": self.label,
            "sensitive_attribute": self.sensitive,
            "positive": self.positive,
            "persons": None if persons is None else as_kind(persons, as_frame),
            "provenance": self.provenance,
            "notes": Notes(self.notes.description, MappingProxyType(listed), self.notes.traps),
        }


def read_notes(name: str) -> dict[str, Any]:
    """What is known of a data set: provenance, and per version its roles and notes."""
    text = files("fairpc.datasets").joinpath("notes", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def read_bundled(name: str) -> bytes:
    """The uncompressed bytes of a bundled file, checked."""
    packed = files("fairpc.datasets").joinpath("files", f"{name}.gz").read_bytes()
    data = gzip.decompress(packed)
    if hashlib.sha256(data).hexdigest() != BUNDLED[name]:
        raise FileFormatError(
            f"the bundled file {name} is not the one fairpc was built with: reinstall fairpc"
        )
    return data


def check_option(name: str, value: object, options: Any) -> None:
    """Refuse a value that is none of a ``Literal``'s options."""
    known = get_args(options)
    if value not in known:
        listed = ", ".join(repr(option) for option in known)
        raise LearningError(f"{name} is {value!r}: use one of {listed}")


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
