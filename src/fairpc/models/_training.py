"""The rows that a model is fitted to, wherever they come from."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import LearningError, TableError
from fairpc.data import (
    UNBOUNDED,
    Distinct,
    Frame,
    Options,
    Roles,
    RowEncoder,
    RowParts,
    Source,
    TableCoding,
    Watcher,
    check_rows,
    check_some_weights,
    check_weights,
    fit_coding,
    read_frame,
)
from fairpc.models._rows import Rows
from fairpc.models._tables import GivenTable
from fairpc.models._training_rows import PartedRows, TrainingRows, rows_fingerprint

ROW_BYTES: Final = 2048
"""About what a distinct row takes in memory while a model is fitted to it."""

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


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
    fair_labels: Any = None,
) -> Rows:
    """The rows of a frame one by one under a coding that is known; what is not given is missing."""
    frame = read_frame(X)
    unknown = np.full(frame.n_rows, -1, np.int16)
    if y is not None:
        check_rows(X, frame, y, "label")
    groups = coding.group_codes(X, frame, sensitive_features)
    rows = Rows(
        unknown if groups is None else groups,
        unknown if y is None else coding.labels.transform(y),
        coding.features.transform(frame),
        check_weights(sample_weight, frame.n_rows),
        len(coding.groups.names),
        len(coding.labels.classes),
        np.array(coding.features.arities, np.int64),
        coding.features.names,
    )
    if fair_labels is None:
        return rows
    check_rows(X, frame, fair_labels, "fair label")
    return rows.with_fair_decisions(coding.fair_codes(fair_labels))


def whole_weights(source: Source, roles: Roles) -> bool:
    """Whether the weights of a table count rows."""
    if roles.weight is None:
        return True
    return source.total((roles.weight,), partial(_are_whole, roles.weight), all) is not False


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
        options: Options,
        coding: TableCoding | None = None,
        watch: Watcher | None = None,
        again: bool = False,
    ) -> Training:
        """The coding of a table, learned unless it is given, and the rows, equal ones merged.

        ``again`` says that the table was coded before.
        """
        source, roles = table.source, table.roles
        if coding is None:
            coding, whole = fit_coding(
                source, roles, positive=positive, options=options, watch=watch, again=again
            )
        else:
            whole = whole_weights(source, roles)
        encoder = RowEncoder(coding, roles, whole)
        folder, most = None, self.max_bytes // ROW_BYTES
        if not source.in_memory:
            temporary = tempfile.TemporaryDirectory(prefix="fairpc-")
            folder = Path(self.stack.enter_context(temporary))
        rows = _some(source.distinct(encoder, most=most, folder=folder, watch=watch))
        if isinstance(rows, Distinct):
            return Training.of(coding, _in_memory(encoder, rows))
        fair, names = roles.fair is not None, coding.features.names
        return Training.of(coding, PartedRows(rows, names, fair, self.max_bytes // 2))


def _in_memory(encoder: RowEncoder, rows: Distinct | RowParts) -> Rows:
    if not isinstance(rows, Distinct):
        raise TableError("the rows beside the training rows do not fit into memory: give fewer")
    packing, names = encoder.packing, encoder.coding.features.names
    fair = encoder.roles.fair is not None
    return Rows.coded(packing.rows(rows), packing.arities, names, fair=fair)


def _some(rows: Distinct | RowParts | None) -> Distinct | RowParts:
    if rows is None or (isinstance(rows, Distinct) and not rows.n_rows):
        raise TableError("the table is empty: it has no rows, give at least one")
    return rows
