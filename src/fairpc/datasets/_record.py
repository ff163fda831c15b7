"""What a loader returns: a table cut into features, label and groups, and where it comes from.

The tables come with the package, compressed, in ``files/``; what is known of them is in
``notes/``, a TOML file each.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, get_args

import polars as pl

from fairpc.core import FileFormatError, MissingExtraError, check_choice

FrameKind = Literal["polars", "pandas"]
Made = TypeVar("Made", bound="Dataset")
_FOLDER: Final = files("fairpc.datasets")

BUNDLED: Final = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    "compas-scores-two-years.csv": (
        "889057646e5439d789eb568de1f61c57fc62af2f0efed630f1d51ea69d9d571f"
    ),
}
"""SHA-256 of the files that come with the package, uncompressed."""


@dataclass(frozen=True)
class Provenance:
    """Where a table comes from and what may be done with it."""

    source: str  #: who published it
    url: str  #: where
    licence: str  #: under which terms
    attribution: str  #: how to cite it
    files: tuple[tuple[str, str], ...] = ()  #: name and SHA-256 of each file as it was read


@dataclass(frozen=True)
class Notes:
    """What one should know before using a table."""

    description: str  #: one paragraph
    columns: Mapping[str, str]  #: a sentence per column of the whole table
    traps: tuple[str, ...]  #: known mistakes, a sentence each


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table with its roles."""

    name: str  #: of the data set
    version: str  #: how it was prepared ("raw", "paper", …)
    frame: Any  #: the whole table, label, groups and columns that are not features included
    X: Any  #: the features
    y: Any  #: the recorded label D
    sensitive: Any  #: the sensitive attribute S
    label: str  #: column of ``frame`` that is ``y``
    sensitive_attribute: str  #: column of ``frame`` that is ``sensitive``
    positive: int | str  #: the label's favourable value
    #: a number per person where a person may have several rows, else None; folds must not cut
    #: through a person
    persons: Any
    provenance: Provenance  #: source, licence, attribution
    notes: Notes  #: description, columns, traps

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


@dataclass(frozen=True, eq=False, repr=False)
class TruthDataset(Dataset):
    """A table that was made, with the truth behind its labels."""

    df: Any = field(kw_only=True)  #: the true fair decision of each row


def published(
    kind: type[Made],
    name: str,
    version: str,
    frame: pl.DataFrame,
    as_frame: FrameKind,
    persons: pl.Series | None = None,
    **more: Any,
) -> Made:
    """A version of a data set, cut as its notes say; they may describe more columns."""
    known = read_notes(name)
    part = known.get(version) or known["every version"]
    source = known["provenance"][part["provenance"]]
    read = tuple((file, BUNDLED[file]) for file in source.get("files", ()))
    columns = MappingProxyType({c: part["columns"][c] for c in frame.columns})
    return kind(
        name,
        version,
        **cut(frame, as_frame, part["label"], part["sensitive"], part.get("features", ())),
        positive=part["positive"],
        persons=None if persons is None else as_kind(persons, as_frame),
        provenance=Provenance(**source | {"files": read}),
        notes=Notes(part["description"], columns, tuple(part["traps"])),
        **more,
    )


def cut(
    frame: pl.DataFrame, as_frame: FrameKind, label: str, sensitive: str, features: Sequence[str]
) -> dict[str, Any]:
    """Fields of a Dataset: the table and its parts, in the wanted kind of frame, and their roles.

    Where no features are named, they are all columns but label and groups.
    """
    chosen = features or [c for c in frame.columns if c not in (label, sensitive)]
    return {
        "frame": as_kind(frame, as_frame),
        "X": as_kind(frame.select(chosen), as_frame),
        "y": as_kind(frame[label], as_frame),
        "sensitive": as_kind(frame[sensitive], as_frame),
        "label": label,
        "sensitive_attribute": sensitive,
    }


def read_notes(name: str) -> dict[str, Any]:
    """What is known of a data set: provenance, and per version its roles and notes."""
    return tomllib.loads((_FOLDER / "notes" / f"{name}.toml").read_text("utf-8"))


def read_bundled(name: str) -> bytes:
    """The uncompressed bytes of a bundled file, checked."""
    data = gzip.decompress((_FOLDER / "files" / f"{name}.gz").read_bytes())
    if hashlib.sha256(data).hexdigest() != BUNDLED[name]:
        raise FileFormatError(
            f"the bundled file {name} is not the one fairpc was built with: reinstall fairpc"
        )
    return data


def as_kind(data: pl.DataFrame | pl.Series, kind: FrameKind) -> Any:
    """A polars object as it is, or as pandas has it."""
    check_choice("as_frame", kind, get_args(FrameKind))
    if kind == "polars":
        return data
    if find_spec("pandas") is None or find_spec("pyarrow") is None:
        raise MissingExtraError(
            "as_frame='pandas' needs pandas and pyarrow: pip install 'fairpc[frames]'"
        )
    return data.to_pandas()
