"""The rows that a model is fitted to, wherever they come from, and the folder a fit is kept in."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from fairpc.data.atomic import AnyPath
from fairpc.data.columns import Options
from fairpc.data.distinct import UNBOUNDED, Distinct
from fairpc.data.fit_encoding import fit_coding
from fairpc.data.frame import Frame, read_frame
from fairpc.data.parts import RowParts
from fairpc.data.source import Roles, Source, Watcher
from fairpc.data.table import check_some_weights, check_weights
from fairpc.data.table_coding import RowEncoder, TableCoding, check_rows
from fairpc.errors import Argument, LearningError, TableError
from fairpc.errors.signals import ending_on_signals
from fairpc.estimators.checkpoint import Checkpoint, identity
from fairpc.estimators.tables import GivenTable
from fairpc.fair.rows import Rows
from fairpc.fair.training_rows import PartedRows, TrainingRows, rows_fingerprint

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
        argument = Argument("max_memory")
        raise LearningError(argument, f" is {limit!r}: give bytes, or text like '4GB'")
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


class FitFolder:
    """Where a fit keeps what it must not lose, or what it has no room for.

    Without a checkpoint, rows that do not fit into memory go to a temporary folder that ends with
    the fit.
    """

    def __init__(
        self, path: AnyPath | None, settings: Mapping[str, Any], max_memory: int | str | None
    ) -> None:
        self._bytes = memory_bytes(max_memory)
        limit = None if max_memory is None else self._bytes
        self._path, self._settings = path, {**settings, "max_memory": limit}
        self.stack = ExitStack()
        self.checkpoint: Checkpoint | None = None
        if path is not None and type(settings.get("random_state")) is not int:
            raise LearningError(
                f"random_state is {settings.get('random_state')!r}: a fit with a checkpoint needs "
                "a whole number, to draw the same numbers when it goes on"
            )

    def __enter__(self) -> Self:
        if self._path is not None:
            self.stack.enter_context(ending_on_signals())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()

    @property
    def sample_rows(self) -> int:
        """Rows on which structure is learned where not all are in memory."""
        return max(self._bytes // ROW_BYTES // 2, 1000)

    def training(
        self,
        table: GivenTable,
        *,
        coding: TableCoding | None,
        positive: Any,
        options: Options,
        watch: Watcher | None,
    ) -> Training:
        """Begin, or go on with, a fit to a table; what is kept of files is not read again."""
        source, roles = table.source, table.roles
        files = identity(source)
        if files:
            self._open(f"{files} {roles}")
        checkpoint = self.checkpoint
        whole: bool | None = None
        coding = coding or (None if checkpoint is None else checkpoint.coding())
        if coding is None:
            coding, whole = fit_coding(
                source, roles, positive=positive, options=options, watch=watch
            )
            if checkpoint is not None:
                checkpoint.keep_coding(coding)
        if whole is None:
            whole = whole_weights(source, roles)
        training = Training.of(coding, self._rows(source, RowEncoder(coding, roles, whole), watch))
        if not files:
            self._open(training.fingerprint)
        return training

    def coded_again(self, table: GivenTable, *, positive: Any, options: Options) -> Training:
        """The same table under another coding, beside what is kept of the fit."""
        source, roles = table.source, table.roles
        coding, whole = fit_coding(source, roles, positive=positive, options=options, again=True)
        encoder = RowEncoder(coding, roles, whole)
        folder = None if source.in_memory else self._scratch()
        most = self._bytes // ROW_BYTES
        rows = _some(source.distinct(encoder, most=most, folder=folder))
        return Training.of(coding, self._formed(encoder, rows))

    def _rows(self, source: Source, encoder: RowEncoder, watch: Watcher | None) -> TrainingRows:
        """The distinct rows of a table: in memory, or in parts where they are too many."""
        checkpoint = self.checkpoint
        rows: Distinct | RowParts | None = None
        if checkpoint is not None:
            rows = checkpoint.rows(encoder.packing)
        if rows is None:
            folder = None
            if not source.in_memory:
                folder = checkpoint.parts if checkpoint else self._scratch()
            most = self._bytes // ROW_BYTES
            rows = _some(source.distinct(encoder, most=most, folder=folder, watch=watch))
            if checkpoint is not None:
                checkpoint.keep_rows(rows)
        return self._formed(encoder, rows)

    def _formed(self, encoder: RowEncoder, rows: Distinct | RowParts) -> TrainingRows:
        if isinstance(rows, Distinct):
            return _in_memory(encoder, rows)
        fair = encoder.roles.fair is not None
        names = encoder.coding.features.names
        return PartedRows(rows, names, fair, self._bytes // 2)

    def _open(self, data: str) -> None:
        if self._path is not None:
            self.checkpoint = Checkpoint.open(self._path, self._settings, data)

    def _scratch(self) -> Path:
        return Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="fairpc-")))


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
