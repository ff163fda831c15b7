"""The rows of a table that is read in batches: equal ones merged, and some as they are, at random.

One pass. What is a sum over rows is taken over the merged ones, each with its count, and is what
it would be of the table in memory. What fits models to rows, or ranks them by features that are
not coded, takes the random ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from fairpc.auditing.rows import AuditedRows, asked, audited_rows
from fairpc.data.distinct import Distinct, DistinctSum, Packing
from fairpc.data.fingerprint import fingerprint
from fairpc.data.parts import pieces
from fairpc.data.row_sample import RowSample
from fairpc.data.source import Source, Watcher
from fairpc.data.table import check_some_weights
from fairpc.data.warned import Warned
from fairpc.errors import TableError
from fairpc.errors.arrays import Ints, Words
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.streaming import ROW_BYTES, FittedColumns, memory_bytes
from fairpc.fair.parted import parts_fingerprint

DRAWN: Final = 100_000
"""Rows that are kept as they are in the table, at least."""

CODED: Final = 1_000_000
"""Rows that are audited where more differ than memory holds; fewer where that is small."""

LEAST: Final = 1000

FEW: Final = 100_000
"""Distinct rows that a fit has in memory, whatever its limit is likely to be."""


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """What an audit knows of a table that it read in one pass.

    Attributes:
        rows: all rows of the table, equal ones merged; a sample where too many differ.
        drawn: rows as they are in the table: all of them, or as many at random.
    """

    rows: AuditedRows
    drawn: AuditedRows


def streamed_rows(
    model: CircuitClassifier,
    source: Source,
    label: Any,
    weight: Any,
    *,
    n_drawn: int,
    max_memory: int | str | None,
    seed: int,
    watch: Watcher | None = None,
) -> StreamedRows:
    """Read a table once, encode it as the model does, and ask the model about its rows.

    Args:
        label, weight: names of columns, or None.
        n_drawn: rows to be drawn as they are.
        max_memory: as at fit; where distinct rows take more, a sample of them is audited.
    """
    columns = FittedColumns.of(source, model.coding_, label=label, weight=weight, unused=True)
    coder = _Coder(columns)
    most = memory_bytes(max_memory) // ROW_BYTES
    n_coded = max(min(CODED, most // 2), LEAST)
    sums = _Sums(coder, most, RowSample(max(n_drawn, DRAWN), seed), RowSample(n_coded, seed))
    warned = Warned()
    with warned.watching():
        for batch in source.map(columns.columns, coder, stage="rows", watch=watch):
            if batch is not None:
                sums.push(batch)
    if not sums.drawn.n_seen:
        raise TableError(
            "the table is empty: it has no rows, or none with weight, give at least one"
        )
    warned.warn(stacklevel=6)
    entries, name = sums.entries.total(), sums.fingerprint()
    settled = entries is not None and entries.n_rows <= FEW and sums.whole
    facts: dict[str, Any] = {
        "fingerprint": name,
        "same_rows_as_fit": _same_rows(model, name, sums.groups, settled),
        "n_table": sums.drawn.n_seen,
    }
    rows = _asked(model, coder, sums.sampled() if entries is None else entries)
    with Warned().watching():  # it was said of all rows
        drawn = audited_rows(model, **columns.given(sums.drawn.rows()))
    return StreamedRows(replace(rows, **facts), replace(drawn, **facts))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows of a batch, those without weight left out.

    Attributes:
        frame: as they are.
        keys: packed codes; with weights, the weight as one word more.
        entries: distinct keys, and how many rows each is.
        rows: distinct rows as a fit merges them, weights added up.
        groups: rows of each group.
        whole: whether weights are whole numbers.
    """

    frame: Any
    keys: Words
    entries: Distinct
    rows: Distinct
    groups: Ints
    whole: bool = True


@dataclass(frozen=True, eq=False)
class _Coder:
    """Batches to packed rows: group, label, features."""

    columns: FittedColumns

    @property
    def packing(self) -> Packing:
        coding = self.columns.coding
        sizes = (len(coding.groups.names), len(coding.labels.classes))
        return Packing((*sizes, *coding.features.arities))

    def __call__(self, frame: Any) -> _Batch | None:
        """The packed rows of a batch; None where none has weight."""
        columns, coding = self.columns, self.columns.coding
        if columns.weight is not None:
            weights = check_some_weights(frame[columns.weight].to_numpy(), len(frame))
            if not weights.any():
                return None
        given = columns.given(frame)
        if columns.label is None:
            given["y"] = np.full(len(frame), None)
        rows = coding.rows(**given)
        if not rows.weights.all():
            used = np.flatnonzero(rows.weights)
            frame, rows = frame[used], rows.take(used)
        groups = np.bincount(rows.s[rows.s >= 0], minlength=rows.n_groups)
        words = self.packing.pack([rows.s, rows.d, *rows.x.T])
        if columns.weight is None:
            merged = Distinct.of(words)
            return _Batch(frame, words, merged, merged, groups)
        keys = np.vstack([words, rows.weights.view(np.uint64)])
        whole = np.array_equal(rows.weights, np.floor(rows.weights))
        summed = Distinct.of(words, rows.weights)
        return _Batch(frame, keys, Distinct.of(keys), summed, groups, whole)


@dataclass
class _Sums:
    """What is kept of the batches that went by.

    Attributes:
        most: distinct rows that may be in memory.
        drawn, coded: rows at random, as they are and as keys.
        entries: distinct keys of all batches.
    """

    coder: _Coder
    most: int
    drawn: RowSample
    coded: RowSample
    entries: DistinctSum = field(init=False)
    whole: bool = True
    _rows: DistinctSum = field(init=False)
    _parts: list[str] = field(default_factory=list)
    _groups: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows = self.entries = DistinctSum(self.most, self._name)
        if self.coder.columns.weight is not None:
            self.entries = DistinctSum(self.most, lambda part: None)

    def push(self, batch: _Batch) -> None:
        import polars as pl

        if not len(batch.frame):
            return
        self.entries.push(batch.entries)
        if self._rows is not self.entries:
            self._rows.push(batch.rows)
        self.drawn.push(batch.frame)
        self.coded.push(pl.DataFrame({str(k): word for k, word in enumerate(batch.keys)}))
        self._groups.append(batch.groups)
        self.whole = self.whole and batch.whole

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each group."""
        return tuple(np.sum(self._groups, axis=0).tolist())

    def sampled(self) -> Distinct:
        """Distinct keys of rows at random."""
        drawn = self.coded.rows()
        return Distinct.of(np.stack([column.to_numpy() for column in drawn.iter_columns()]))

    def fingerprint(self) -> str:
        """The name of all rows as a fit makes it, in one part or in several."""
        rows = self._rows.total()
        if rows is None:
            return parts_fingerprint(self._parts)
        codes = self.coder.packing.unpack(rows.words)
        return fingerprint(codes[:, 0], codes[:, 1], codes[:, 2:], rows.weights)

    def _name(self, part: Distinct) -> None:
        packing = self.coder.packing
        self._parts += [fingerprint(*piece) for piece in pieces(part, packing)]


def _asked(model: CircuitClassifier, coder: _Coder, entries: Distinct) -> AuditedRows:
    """Distinct keys as rows with counts."""
    words, weights = entries.words, None
    if coder.columns.weight is not None:
        words, last = words[:-1], words[-1].view(np.float64)
        weights = None if np.ptp(last) == 0 else last
    codes = coder.packing.unpack(np.ascontiguousarray(words))
    rows = asked(model, codes[:, 0], codes[:, 1], codes[:, 2:])
    return replace(rows, weights=weights, counts=entries.weights)


def _same_rows(
    model: CircuitClassifier, name: str, groups: tuple[int, ...], settled: bool
) -> bool | None:
    """Whether the rows are those of the fit.

    Rows that only one of fit and audit had in memory go by two names, as do rows with weights that
    are fractions, which only streaming merges. Then as many rows in every group are no answer.
    """
    if name == model.data_fingerprint_:
        return True
    return False if settled or groups != model.coding_.groups.rows else None
