"""Tables that are read in batches, as rows of codes: files, lazy frames, partitions of Dask."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairpc.cluster.parts import DaskParts
from fairpc.cluster.passes import compress_partitions, fit_partitions
from fairpc.cluster.table import DaskTable
from fairpc.data.columns import Options
from fairpc.data.distinct import Distinct
from fairpc.data.encode import resolve
from fairpc.data.parts import Parts, PartWriter
from fairpc.data.passes import UNBOUNDED, BatchEncoder, compress, fit_source
from fairpc.data.source import Source, Watcher, open_source
from fairpc.data.stream import TableCoding
from fairpc.data.summary import Roles
from fairpc.errors import Argument, LearningError, TableError
from fairpc.estimators.inputs import Coding
from fairpc.fair.compressed import rows_of
from fairpc.fair.parted import PartedRows
from fairpc.fair.rows import Rows

ROW_BYTES: Final = 2048
"""About what a distinct row takes in memory while a model is fitted to it."""

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


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
        argument = Argument("max_memory")
        raise LearningError(argument, f" is {limit!r}: give bytes, or text like '4GB'")
    return int(float(match[1]) * _UNITS[match[2]])


def roles_of(
    source: Source,
    label: Any,
    sensitive: str | int | Sequence[str | int] | None,
    weight: Any,
    missing_values: Iterable[Any],
) -> Roles:
    """Which columns of a streamed table are what; all are named, for they cannot be given apart."""
    if label is None:
        raise _no_column(source, "label", label)
    check_columns(source, label=label, weight=weight)
    if sensitive is None:
        raise TableError("no sensitive attribute was given: name columns of the table, sensitive=…")
    given = [sensitive] if isinstance(sensitive, str | int) else list(sensitive)
    features = tuple(name for name in source.names if name not in (label, weight))
    chosen = tuple(dict.fromkeys(min(resolve(features, [item], "sensitive")) for item in given))
    rest = tuple(name for name in features if name not in chosen)
    if not rest:
        raise TableError("every column of the table is sensitive: give features too")
    return Roles(label, chosen, rest, weight, tuple(missing_values))


def check_columns(source: Source, **named: Any) -> None:
    """A TableError where a role is given to what is no column of a streamed table."""
    for role, name in named.items():
        if not (name is None or (isinstance(name, str) and name in source.names)):
            raise _no_column(source, role, name)


def check_not_apart(**given: Any) -> None:
    """A TableError where something was given apart from a table that is streamed."""
    for name in (name for name, values in given.items() if values is not None):
        column = "make them a column of it, or " if name == "sensitive_features" else ""
        raise TableError(
            f"{name} were given with a table that is streamed, whose rows have no number to go by: "
            f"{column}read it into memory"
        )


def _no_column(source: Source, role: str, name: Any) -> TableError:
    # Whatever is no name may be long to write, and says nothing.
    given = repr(name) if name is None or isinstance(name, str) else f"a {type(name).__name__}"
    return TableError(
        f"the {role} of a streamed table is one of its columns, and {given} is none: name one of "
        f"{_shown(source.names)}"
    )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """What a fitted model reads of a streamed table.

    Attributes:
        coding: of the model.
        columns: to be read.
        label, weight: among them, if there are any.
        groups: columns of groups that were given apart at fit, and are found by their names.
    """

    coding: Coding
    columns: tuple[str, ...]
    label: str | None
    weight: str | None
    groups: tuple[str, ...]

    @classmethod
    def of(
        cls,
        source: Source,
        coding: Coding,
        *,
        label: Any = None,
        weight: Any = None,
        unused: bool = False,
    ) -> FittedColumns:
        """The columns that are used; with ``unused``, all that the fit had."""
        check_columns(source, label=label, weight=weight)
        apart = () if coding.sensitive else coding.groups.column_names
        groups = apart if set(apart) <= set(source.names) else ()
        features, roles = coding.features, {label, weight, *groups}
        used = next((n for n in (label, weight) if n in (*features.names, *coding.sensitive)), None)
        if used is not None:
            raise TableError(
                f"column {used!r} is a feature or a sensitive column of the model: as label or "
                "weight name another"
            )
        if features.from_array and not set(features.names) <= set(source.names):
            # Known by position: all of them.
            wanted = {name for name in source.names if name not in roles}
        else:
            wanted = {*(features.names_in if unused else features.names), *coding.sensitive}
        columns = tuple(name for name in source.names if name in wanted | roles)
        if not set(columns) - roles:
            raise TableError(
                "none of the columns that the model was fitted with is in the table, which has "
                f"{_shown(source.names)}: give a table like that of the fit"
            )
        return cls(coding, columns, label, weight, groups)

    def given(self, frame: Any) -> dict[str, Any]:
        """X, y, groups and weights of a batch, as methods of a model take them."""
        apart = [name for name in (self.label, self.weight, *self.groups) if name is not None]
        return {
            "X": frame.drop(apart),
            "y": None if self.label is None else frame[self.label],
            "sensitive_features": frame.select(self.groups) if self.groups else None,
            "sample_weight": None if self.weight is None else frame[self.weight].to_numpy(),
        }


def fit_streamed_coding(
    source: Source,
    roles: Roles,
    *,
    positive: Any,
    options: Mapping[str, Any],
    watch: Watcher | None = None,
) -> Coding:
    """Learn how a streamed table becomes codes, in one pass."""
    chosen = dict(options)
    for name in ("numeric", "categorical"):
        chosen[name] = resolve((*roles.sensitive, *roles.features), chosen.get(name, ()), name)
    given: dict[str, Any] = {"positive": positive, "options": Options(**chosen), "watch": watch}
    if isinstance(source, DaskTable):
        coding = fit_partitions(source, roles, **given)
    else:
        coding = fit_source(source, roles, **given)
    return Coding(coding.features, coding.labels, coding.groups, roles.sensitive)


def streamed_rows(
    source: Source,
    encoder: BatchEncoder,
    folder: Path,
    most: int = UNBOUNDED,
    watch: Watcher | None = None,
) -> Distinct | Parts | DaskParts:
    """The distinct rows of a streamed table, in one pass.

    Beyond ``most`` they stay in parts: on disk, or on the workers that read them.
    """
    if isinstance(source, DaskTable):
        return compress_partitions(source, encoder, most, watch)
    writers: list[PartWriter] = []

    def spill(part: Distinct) -> None:
        if not writers:
            writers.append(PartWriter(folder, encoder.packing))
        writers[0].write(part)

    rows = compress(source, encoder, most=most, spill=spill, watch=watch)
    if rows is not None:
        return rows
    if not writers:
        raise TableError("the table is empty: it has no rows, give at least one")
    return writers[0].finish()


def encoder_of(roles: Roles, coding: Coding) -> BatchEncoder:
    """What makes rows of codes of batches."""
    return BatchEncoder(TableCoding(coding.features, coding.labels, coding.groups), roles)


def training_rows(
    rows: Distinct | Parts | DaskParts, encoder: BatchEncoder, kept_bytes: int = 0
) -> Rows | PartedRows:
    """Rows to fit to, in memory or in parts."""
    if not isinstance(rows, Distinct):
        return PartedRows(rows, encoder.coding.features.names, kept_bytes)
    return rows_of(rows, encoder.packing, encoder.coding)


def labelled_rows(table: Any, label: Any, coding: Coding, missing_values: Iterable[Any]) -> Rows:
    """The rows of a streamed table under a coding that is known, in memory."""
    source = open_source(table)
    encoder = encoder_of(roles_of(source, label, coding.sensitive, None, missing_values), coding)
    rows = compress(source, encoder)
    if rows is None:
        raise TableError("the table is empty: it has no rows, give at least one")
    return rows_of(rows, encoder.packing, encoder.coding)
