"""The rows that a model is fitted to, wherever they come from, and the folder a fit is kept in."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairpc.cluster.parts import DaskParts
from fairpc.cluster.table import frame_table, is_dask
from fairpc.data.atomic import AnyPath
from fairpc.data.distinct import Distinct
from fairpc.data.fingerprint import fingerprint
from fairpc.data.parts import Parts
from fairpc.data.source import Source, Watcher, open_source
from fairpc.data.summary import Roles
from fairpc.errors import LearningError
from fairpc.estimators.checkpoint import Checkpoint, ending_on_sigterm, identity
from fairpc.estimators.inputs import Coding
from fairpc.estimators.streaming import (
    ROW_BYTES,
    encoder_of,
    fit_streamed_coding,
    memory_bytes,
    streamed_rows,
    training_rows,
)
from fairpc.fair.parted import PartedRows
from fairpc.fair.rows import Rows


@dataclass(frozen=True, eq=False)
class Training:
    """A coding, and the rows under it."""

    coding: Coding
    rows: Rows | PartedRows


def name_of(rows: Rows | PartedRows) -> str:
    """The fingerprint of rows."""
    if isinstance(rows, PartedRows):
        return rows.fingerprint()
    known = [] if rows.f is None else [rows.f]
    return fingerprint(rows.s, rows.d, rows.x, rows.weights, *known)


class FitFolder:
    """Where a fit keeps what it must not lose, or what it has no room for.

    Without a checkpoint, parts of rows go to a temporary folder that ends with the fit.
    """

    def __init__(
        self, path: AnyPath | None, settings: Mapping[str, Any], max_memory: int | str | None
    ) -> None:
        self._bytes = memory_bytes(max_memory)
        limit = None if max_memory is None else self._bytes
        self._path, self._settings = path, {**settings, "max_memory": limit}
        self._stack = ExitStack()
        self.checkpoint: Checkpoint | None = None
        if path is not None and type(settings.get("random_state")) is not int:
            raise LearningError(
                f"random_state is {settings.get('random_state')!r}: a fit with a checkpoint needs "
                "a whole number, to draw the same numbers when it goes on"
            )

    def __enter__(self) -> Self:
        if self._path is not None:
            self._stack.enter_context(ending_on_sigterm())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def sample_rows(self) -> int:
        """Rows on which structure is learned where not all are in memory."""
        return max(self._bytes // ROW_BYTES // 2, 1000)

    def opened(self, table: Any) -> Source:
        """A table that is read in batches, until the fit ends."""
        if is_dask(table):
            return self._stack.enter_context(frame_table(table))
        return open_source(table)

    def known_by_rows(self, training: Training) -> Training:
        """Begin, or go on with, a fit to rows that can only be told by what they are."""
        if self._path is not None:
            self._open(name_of(training.rows))
        return training

    def streamed(
        self,
        source: Source,
        roles: Roles,
        *,
        coding: Coding | None,
        positive: Any,
        options: Mapping[str, Any],
        watch: Watcher | None,
    ) -> Training:
        """Begin, or go on with, a fit to a streamed table; what is kept is not read again."""
        files = identity(source)
        if self._path is not None and files:
            self._open(f"{files} {roles}")
        checkpoint = self.checkpoint if files else None
        coding = coding or (None if checkpoint is None else checkpoint.coding())
        if coding is None:
            coding = fit_streamed_coding(
                source, roles, positive=positive, options=options, watch=watch
            )
            if checkpoint is not None:
                checkpoint.keep_coding(coding)
        encoder = encoder_of(roles, coding)
        rows: Distinct | Parts | DaskParts | None = None
        if checkpoint is not None:
            rows = checkpoint.rows() or Parts.find(checkpoint.parts)
        if rows is None:
            folder = checkpoint.parts if checkpoint else self._scratch()
            rows = streamed_rows(source, encoder, folder, self._bytes // ROW_BYTES, watch)
            if checkpoint is not None and isinstance(rows, Distinct):
                checkpoint.keep_rows(rows)
        training = Training(coding, training_rows(rows, encoder, self._bytes // 2))
        return training if files else self.known_by_rows(training)

    def _open(self, data: str) -> None:
        if self._path is not None:
            self.checkpoint = Checkpoint.open(self._path, self._settings, data)

    def _scratch(self) -> Path:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fairpc-"))
        return Path(folder)
