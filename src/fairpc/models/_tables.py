"""The tables that a user gives, as sources and as rows: frames, files, lazy frames, Dask."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning

from fairpc.core import Bools, LearningError, TableError, private_folder, warn_caller
from fairpc.data import (
    MISSING,
    UNBOUNDED,
    Distinct,
    EncodingOptions,
    Frame,
    FrameSource,
    GivenNames,
    Roles,
    RowEncoder,
    RowParts,
    Source,
    TableCoding,
    Watcher,
    apart_name,
    check_not_both,
    check_rows,
    check_some_weights,
    check_weights,
    exactly,
    fit_coding,
    group_leaks,
    hidden_labels,
    is_dask,
    is_source,
    merged_leaks,
    open_source,
    read_columns,
    read_frame,
    resolve,
    warn_leak,
)
from fairpc.models._rows import PartedRows, Rows, TrainingRows, rows_fingerprint

Columns = str | int | Sequence[str | int] | None
"""Columns of a table by name or position."""


ROW_BYTES: Final = 2048
"""About what a distinct row takes in memory while a model is fitted to it."""

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, eq=False)
class GivenTable:
    """A labelled table as a source, and which of its columns are what."""

    source: Source
    roles: Roles

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        sensitive: Columns = None,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        missing_values: Iterable[Any] = (),
        numeric: Iterable[str | int] = (),
        decimal: str = ".",
        stack: ExitStack | None = None,
        coded: bool = False,
    ) -> GivenTable:
        """What ``fit`` is given. Of a Dask frame the source ends with the ``stack``.

        Rows that are ``coded`` by a coding that is known may lack their groups.
        """
        named = () if sensitive is None else listed(sensitive)
        groups: tuple[str, ...] = ()
        by_place = groups_by_place = False
        if is_source(X) or is_dask(X):
            check_not_apart(sensitive_features=sensitive_features)
            source = _opened(X, stack)
            check_columns(source, label=y, weight=sample_weight)
            label, weight = y, sample_weight
        else:
            frame, more = read_frame(X), dict[str, Any]()
            weight = None
            if sample_weight is not None:
                weight = apart_name("sample_weight", "weight")
                more[weight] = check_weights(sample_weight, frame.n_rows)
            label = _joined(more, X, frame, y, "label", "y")[0]
            by_place = frame.from_array
            if named:
                check_not_both(sensitive_features)
            elif (given := sensitive_features) is not None:
                groups = _joined(more, X, frame, given, "sensitive feature", "sensitive")
                groups_by_place = read_columns(given, "sensitive").from_array
            source = FrameSource.of(frame.with_columns(more))
        names = tuple(n for n in source.names if n not in (label, weight, *groups))
        if coded:
            named = tuple(n for n in named if n in names or not isinstance(n, str))
        chosen = groups or (() if coded and not named else _chosen(names, named))
        features = tuple(name for name in names if name not in chosen)
        how = tuple(missing_values), resolve(names, tuple(numeric), "numeric"), names, decimal
        places = by_place, groups_by_place
        return cls(source, Roles(label, chosen, features, weight, *how, *places))

    def hidden_labels(self, coding: TableCoding) -> Bools:
        """Rows, in memory, whose labels are those of too few people for the fit of the coding."""
        columns = (self.roles.label, *self.roles.sensitive)
        (hidden,) = self.source.map(
            columns, partial(hidden_labels, roles=self.roles, unlabelled=coding.unlabelled)
        )
        return hidden


def _opened(X: Any, stack: ExitStack | None) -> Source:
    """A table that is read in batches; of a Dask frame until the stack ends."""
    if not is_dask(X):
        return open_source(X)
    from fairpc.cluster import frame_table

    source: Source = (stack or ExitStack()).enter_context(frame_table(X))
    return source


def check_fit_input(estimator: Any, X: Any, y: Any) -> None:
    """What scikit-learn asks of every classifier, in its words where its tools read them."""
    name = type(estimator).__name__
    if y is None:
        raise TableError(
            f"This {name} estimator requires y to be passed, but the target y is None: give "
            "the recorded labels"
        )
    if read_frame(X).n_rows == 1:
        raise TableError("the table has 1 row (n_samples = 1): a fit needs rows of two classes")
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 and isinstance(y, np.ndarray):
        message = "A column-vector y was passed when a 1d array was expected: it is read as one"
        warn_caller(message, DataConversionWarning)


def warn_of_leaks(table: GivenTable, rows: Rows, coding: TableCoding) -> None:
    """Say which columns give a sensitive attribute away; ``rows`` are some rows of the table.

    Columns that predict the label were found when the table was coded.
    """
    features, groups = coding.features, coding.groups
    for j, (column, name) in enumerate(zip(groups.columns, table.roles.sensitive, strict=True)):
        found = merged_leaks(table.source, table.roles, name, column, features.columns)
        leaking = {leak.column for leak in found}
        others = [i for i, name in enumerate(features.names) if name not in leaking]
        values = np.array([*(cell[j] for cell in groups.cells), -1], np.int16)[rows.s]
        names = [features.names[i] for i in others]
        more = group_leaks(rows.x[:, others], values, rows.weights, names)
        for leak in (*found, *more):
            warn_leak(leak, f"the group {column.name!r}", group=True)


def listed(columns: Any) -> tuple[str | int, ...]:
    """Columns that are named by one name or position, or by several."""
    several: tuple[str | int, ...] = tuple([columns] if np.ndim(columns) == 0 else columns)
    return several


def check_columns(source: Source, **named: Any) -> None:
    """A TableError where a role is given to what is not a column of a streamed table."""
    for role, name in named.items():
        left_out = name is None and role != "label"
        if not (left_out or (isinstance(name, str) and name in source.names)):
            # Whatever is not a name may be long to write, and says nothing.
            text = name is None or isinstance(name, str)
            given = repr(name) if text else f"a {type(name).__name__}"
            raise TableError(
                f"the {role} of a streamed table is one of its columns, and {given} is none: name "
                f"one of {_shown(source.names)}"
            )


def check_not_apart(**given: Any) -> None:
    """A TableError where something was given apart from a table that is streamed."""
    for name in (name for name, values in given.items() if values is not None):
        column = "make them a column of it, or " if name == "sensitive_features" else ""
        raise TableError(
            f"{name} were given with a streamed table, whose rows have no index to match: "
            f"{column}read it into memory"
        )


def _joined(
    more: dict[str, Any], X: Any, frame: Frame, values: Any, what: str, default: str
) -> tuple[str, ...]:
    """Columns given apart from the table join it, under names of their own."""
    check_rows(X, frame, values, what)
    columns = read_columns(values, default)
    if len(set(columns.names)) < len(columns.names):
        raise TableError("a sensitive column appears twice: give each once")
    if what != "sensitive feature" and len(columns.names) != 1:
        raise TableError(f"the {what} has {len(columns.names)} columns: give one")
    keys = tuple(apart_name(name, what) for name in columns.names)
    more.update(zip(keys, columns.columns, strict=True))
    return keys


def _chosen(names: tuple[str, ...], sensitive: tuple[str | int, ...]) -> tuple[str, ...]:
    """Names of the sensitive columns of the table."""
    if not sensitive:
        raise TableError(
            "no sensitive attribute was given: name columns of X with sensitive=…, or give "
            "sensitive_features to fit, beside a table in memory"
        )
    chosen = [resolve(names, item, "sensitive") for item in sensitive]
    return tuple(dict.fromkeys(name for (name,) in chosen))


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """What a fitted model reads of a table."""

    coding: TableCoding  #: of the model
    columns: tuple[str, ...]  #: to be read
    #: columns of groups that were given apart at fit, and are found by their names
    groups: tuple[str, ...]
    label: str | None = None  #: among the columns, if it is there, as are the next two
    weight: str | None = None
    clusters: str | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        coding: TableCoding,
        *,
        unused: bool = False,
        **roles: Any,
    ) -> FittedColumns:
        """The columns that are used; with ``unused``, all that the fit had.

        ``roles`` name the columns of label, weight and clusters.
        """
        given = {role: name for role, name in roles.items() if name is not None}
        check_columns(source, **given)
        apart = () if coding.sensitive else coding.groups.column_names
        groups = apart if set(apart) <= set(source.names) else ()
        features, others = coding.features, {*given.values(), *groups}
        used = [name for name in given.values() if name in (*features.names, *coding.sensitive)]
        if used:
            raise TableError(
                f"column {used[0]!r} is a feature or a sensitive column of the model: as label or "
                "weight name another"
            )
        if features.from_array and not set(features.names) <= set(source.names):
            # Known by position: all of them.
            wanted = {name for name in source.names if name not in others}
        else:
            wanted = {*(features.names_in if unused else features.names), *coding.sensitive}
        columns = tuple(name for name in source.names if name in wanted | others)
        if not set(columns) - others:
            raise TableError(
                "none of the columns that the model was fitted with is in the table, which has "
                f"{_shown(source.names)}: give a table like that of the fit"
            )
        return cls(coding, columns, groups, **given)

    def given(self, batch: Any) -> dict[str, Any]:
        """What methods of a model take, of a batch or of a polars frame of its columns."""
        named = {
            "y": self.label,
            "sample_weight": self.weight,
            "clusters": self.clusters,
        }
        others = [*filter(None, named.values()), *self.groups]
        own = isinstance(batch, Frame)
        column = batch.column if own else batch.__getitem__
        groups = self.groups if own else exactly(self.groups)
        return {
            "X": batch.drop(others if own else exactly(others)),
            "sensitive_features": batch.select(groups) if self.groups else None,
            **{role: None if name is None else column(name) for role, name in named.items()},
        }


@dataclass(frozen=True, eq=False)
class Training:
    """A coding, and the rows under it."""

    coding: TableCoding
    rows: TrainingRows
    fingerprint: str
    forest: bool = False  #: whether the coding is that of a forest
    wide: bool = False  #: whether it is because circuits would have too many columns

    @classmethod
    def of(cls, coding: TableCoding, rows: TrainingRows) -> Training:
        return cls(coding, rows, rows_fingerprint(rows))


def memory_bytes(limit: int | str | None) -> int:
    """Bytes of a limit such as "4GB"; half of the machine's memory if None."""
    if limit is None:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (ValueError, OSError, AttributeError):
            return UNBOUNDED
    text = str(limit).strip().upper()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", text)
    if match is None or not float(match[1]):
        raise LearningError(f"max_memory is {limit!r}: give bytes, or text like '4GB'")
    return int(float(match[1]) * _UNITS[match[2]])


def coded_rows(table: GivenTable, coding: TableCoding) -> Rows:
    """The rows of a table under a coding that is known, in memory."""
    encoder = RowEncoder(coding, table.roles, whole_weights(table.source, table.roles))
    return _in_memory(encoder, _some(table.source.distinct(encoder)))


def rows_in_order(
    coding: TableCoding,
    X: Any,
    y: Any = None,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    *,
    warn: bool = True,
    hidden: Bools | None = None,
) -> Rows:
    """The rows of a frame one by one under a coding that is known; what is not given is missing,
    as are labels that are ``hidden``."""
    frame = read_frame(X)
    unknown = np.full(frame.n_rows, -1, np.int16)
    if y is not None:
        check_rows(X, frame, y, "label")
    groups = coding.group_codes(X, frame, sensitive_features, warn=warn)
    labels = unknown if y is None else coding.labels.transform(y)
    return Rows(
        unknown if groups is None else groups,
        labels if hidden is None else np.where(hidden, MISSING, labels).astype(np.int16),
        coding.features.transform(frame, warn=warn),
        check_weights(sample_weight, frame.n_rows),
        len(coding.groups.names),
        len(coding.labels.classes),
        np.array(coding.features.arities, np.int64),
        coding.features.names,
    )


def whole_weights(source: Source, roles: Roles) -> bool:
    """Whether the weights of a table count rows."""
    used = roles.weight
    return not used or source.total((used,), partial(_are_whole, used), all) is not False


def _are_whole(name: str, frame: Frame) -> bool:
    """Whether the weights of a batch are whole numbers."""
    weights = check_some_weights(np.asarray(frame.column(name)), frame.n_rows)
    return bool((weights == np.floor(weights)).all())


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a fit; what memory has no room for goes to a temporary folder."""

    max_bytes: int
    stack: ExitStack  #: ends with the fit

    @property
    def sample_rows(self) -> int:
        """Rows on which structure is learned where not all are in memory."""
        return max(self.max_bytes // ROW_BYTES // 2, 1000)

    def training(
        self,
        table: GivenTable,
        *,
        positive: Any,
        names: GivenNames | None,
        options: EncodingOptions,
        coding: TableCoding | None = None,
        watch: Watcher | None = None,
        again: bool = False,
    ) -> Training:
        """The coding of a table, learned unless it is given, and the rows, equal ones merged.

        ``again`` says that the table was coded before.
        """
        source, roles = table.source, table.roles
        if new := coding is None:
            how: dict[str, Any] = {"options": options, "watch": watch, "again": again}
            coding, whole = fit_coding(source, roles, positive=positive, names=names, **how)
        else:
            whole = whole_weights(source, roles)
        encoder = RowEncoder(coding, roles, whole, warn=not new)
        folder, most = None, self.max_bytes // ROW_BYTES
        if not source.in_memory:
            folder = self.stack.enter_context(private_folder())
        rows = _some(source.distinct(encoder, most=most, folder=folder, watch=watch))
        if isinstance(rows, Distinct):
            return Training.of(coding, _in_memory(encoder, rows))
        return Training.of(coding, PartedRows(rows, coding.features.names, self.max_bytes // 2))


def _in_memory(encoder: RowEncoder, rows: Distinct | RowParts) -> Rows:
    if not isinstance(rows, Distinct):
        raise TableError("the rows beside the training rows do not fit into memory: give fewer")
    packing, names = encoder.packing, encoder.coding.features.names
    return Rows.coded(packing.rows(rows), packing.arities, names)


def _some(rows: Distinct | RowParts | None) -> Distinct | RowParts:
    if rows is None or (isinstance(rows, Distinct) and not rows.n_rows):
        raise TableError("the table is empty: it has no rows, give at least one")
    return rows
