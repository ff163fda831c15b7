"""How a table becomes codes: features, label, groups; and its rows under it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import Codes, TableError, TableWarning, counted
from fairpc.data._distinct import Distinct, Packing
from fairpc.data._encoding import Encoding
from fairpc.data._frame import Frame, read_columns, read_frame
from fairpc.data._groups import SMALL, Groups
from fairpc.data._labels import Labels
from fairpc.data._schema import Record
from fairpc.data._source import Roles, shown_name
from fairpc.data._summary import weighted

CODING_FIELDS: Final = ("sensitive", "features", "labels", "groups")


@dataclass(frozen=True, eq=False)
class TableCoding:
    """How a table becomes codes.

    Attributes:
        features, labels, groups: how its columns do.
        sensitive: names of the columns of X that are S; empty if they are given apart.
    """

    features: Encoding
    labels: Labels
    groups: Groups
    sensitive: tuple[str, ...] = ()

    def evidence(
        self, X: Any, sensitive_features: Any = None, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X."""
        frame = read_frame(X)
        features = self.features.transform(frame, allow_absent=allow_absent)
        return self.group_codes(X, frame, sensitive_features), features

    def group_codes(self, X: Any, frame: Frame, sensitive_features: Any) -> Codes | None:
        """Groups of the rows: from columns of X, or given apart; None if neither is there."""
        if self.sensitive:
            check_not_both(sensitive_features)
            if not set(self.sensitive) & set(frame.names):
                return None
            return self.groups.transform(frame.select(self.sensitive), allow_absent=True)
        if sensitive_features is None:
            return None
        check_rows(X, frame, sensitive_features, "sensitive feature")
        return self.groups.transform(sensitive_features)

    @property
    def group_names(self) -> tuple[str, ...]:
        """What groups are called where people read of them, beside the label: "afam=yes"."""
        return self.groups.told(self.labels.classes)

    def small_groups(self) -> tuple[tuple[str, int], ...]:
        """Groups with fewer than 30 training rows, and how many they have."""
        rows = zip(self.group_names, self.groups.rows, strict=True)
        return tuple((name, n) for name, n in rows if n < SMALL)

    def value_names(self, group: str, label: str, decision: str) -> dict[str, tuple[str, ...]]:
        """What values are called: of the features, and of S, D and Df under these names."""
        classes = self.labels.column.labels
        named = {group: self.groups.names, label: classes, decision: classes}
        return named | {column.name: column.labels for column in self.features.columns}

    def fair_codes(self, fair_labels: Any) -> Codes:
        """Codes of decisions known by other means: a value that is no class is a mistake."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", TableWarning)
            try:
                return self.labels.transform(fair_labels)
            except TableWarning:
                classes = ", ".join(str(c) for c in self.labels.classes)
                raise TableError(
                    f"fair_labels hold a value that is no class of the label: use {classes}, and "
                    "leave out what is not known"
                ) from None

    def to_dict(self) -> dict[str, Any]:
        """The coding as JSON-safe data."""
        parts = {"features": self.features, "labels": self.labels, "groups": self.groups}
        known = {name: part.to_dict() for name, part in parts.items()}
        return {"sensitive": list(self.sensitive), **known}

    @classmethod
    def from_dict(cls, data: Any) -> TableCoding:
        """The coding of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        record = Record(data, "the coding", CODING_FIELDS)
        return cls(
            Encoding.from_dict(record.data["features"]),
            Labels.from_dict(record.data["labels"]),
            Groups.from_dict(record.data["groups"]),
            record.texts("sensitive"),
        )


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """Batches of a table to distinct rows of codes.

    Attributes:
        coding: how the table becomes codes.
        roles: which columns are what.
        whole: whether weights count rows.
    """

    coding: TableCoding
    roles: Roles
    whole: bool = True

    @property
    def packing(self) -> Packing:
        """Of the columns S, D, the features, and Df where some fair decisions are known."""
        coding = self.coding
        groups, classes = len(coding.groups.names), len(coding.labels.classes)
        known = () if self.roles.fair is None else (classes,)
        return Packing((groups, classes, *coding.features.arities, *known), unit=not self.whole)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        roles = self.roles
        more = [name for name in (roles.weight, roles.fair) if name is not None]
        features = roles.names if self.positional else self.coding.features.names
        return tuple(dict.fromkeys((roles.label, *roles.sensitive, *more, *features)))

    @property
    def positional(self) -> bool:
        """Whether columns are known by position, in the table or at the fit of the coding."""
        features = self.coding.features
        unnamed = features.from_array and not set(features.names) <= set(self.roles.names)
        return self.roles.positional or (unnamed and bool(self.roles.names))

    def codes(self, frame: Frame) -> list[Codes]:
        """Columns of codes of the rows of a batch."""
        coding, roles = self.coding, self.roles
        table = frame
        if self.positional:
            table = replace(frame.select(roles.names), from_array=True)
        s = np.full(frame.n_rows, -1, np.int16)
        if roles.sensitive:
            names, by_place = tuple(map(shown_name, roles.sensitive)), roles.groups_positional
            groups = replace(frame.select(roles.sensitive), names=names, from_array=by_place)
            s = coding.groups.transform(groups, allow_absent=bool(coding.sensitive))
        columns = [
            s,
            coding.labels.transform(frame.column(roles.label)),
            *coding.features.transform(table).T,
        ]
        if roles.fair is not None:
            columns.append(coding.fair_codes(frame.column(roles.fair)))
        return columns

    def __call__(self, frame: Frame) -> Distinct:
        """The distinct rows of a batch, those without weight left out."""
        frame, weights = weighted(frame, self.roles)
        if not frame.n_rows:
            return Distinct.empty(self.packing)
        return self.packing.distinct(self.codes(frame), weights)


def check_not_both(sensitive_features: Any) -> None:
    """A TableError where groups are given apart although columns were named."""
    if sensitive_features is not None:
        raise TableError(
            "sensitive columns were named and sensitive_features given: use one of the two"
        )


def check_rows(X: Any, frame: Frame, values: Any, what: str) -> None:
    """A TableError where something is not given for each row of a table, in their order."""
    length = read_columns(values, "values").n_rows
    if length != frame.n_rows:
        rows = counted(frame.n_rows, "row")
        raise TableError(f"{rows} and {counted(length, what)}: give one per row")
    # Two pandas objects must have one index: joining them silently would mix up rows.
    ours, theirs = getattr(X, "index", None), getattr(values, "index", None)
    if ours is None or theirs is None or callable(ours) or callable(theirs):
        return
    if not ours.equals(theirs):
        raise TableError(
            f"the index of the {what}s differs from that of the table: align them, or give "
            "arrays with .to_numpy()"
        )
