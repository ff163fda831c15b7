"""Two passes over a table of any length: one for the encoding, one that merges equal rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.data.columns import Options
from fairpc.data.distinct import Distinct, DistinctSum, Packing
from fairpc.data.encoding import Encoding
from fairpc.data.points import MOST
from fairpc.data.source import Source, Watcher
from fairpc.data.stream import Pair, TableCoding, fit_stream
from fairpc.data.summary import Roles, Summary, SummaryTree, summarise
from fairpc.data.table import check_some_weights

UNBOUNDED: Final = 1 << 62

FEW_ROWS: Final = 1 << 20
"""Of a table of so many rows, distinct values are listed as far as there is room."""

LISTED: Final = 1 << 22
"""The room: distinct values of all columns together."""


def summarise_source(source: Source, roles: Roles, watch: Watcher | None = None) -> Summary:
    """The summary of all rows of a table, in one pass."""
    tree = SummaryTree()
    known: list[Summary] = []
    reading = replace(roles, most=listed(source, roles))

    def work(batch: Any) -> Summary:
        return summarise(batch, reading, known[0] if known else None)

    for part in source.map(roles.columns, work, stage="columns", watch=watch):
        if not known:
            known.append(part)
        tree.push(part)
    return tree.total()


def listed(source: Source, roles: Roles) -> int | None:
    """Distinct values of a column that are listed exactly: more than usual where rows are few.

    None is the usual number. A Dask frame does not say how many rows it has: it has a
    quarter of the room, for up to ``FAN_IN`` summaries of its partitions meet.
    """
    rows = source.n_rows
    if rows is None and not source.in_partitions:
        return None
    if rows is not None and rows > FEW_ROWS:
        return None
    types = source.types
    many = [name for name in roles.features if name in types and not _is_short(types[name])]
    room = LISTED // (1 if rows is not None else 4)
    return max(MOST, room // max(len(many), 1))


def _is_short(dtype: Any) -> bool:
    """Whether a column is known to have few values by its type."""
    import polars as pl

    return dtype in (pl.Boolean, pl.Int8, pl.UInt8, pl.Categorical, pl.Enum)


def fit_source(
    source: Source,
    roles: Roles,
    *,
    positive: Any = None,
    options: Options | None = None,
    watch: Watcher | None = None,
) -> TableCoding:
    """How the rows of a table become codes; ``roles.label`` and the weights are no features."""
    summary = summarise_source(source, roles, watch)
    apart = {roles.label, roles.weight}
    names_in = tuple(name for name in source.names if name not in apart)

    def copies(pairs: tuple[Pair, ...]) -> tuple[bool, ...]:
        return copied(source, roles, pairs)

    return fit_stream(summary, roles, names_in, positive=positive, options=options, copies=copies)


def copied(source: Source, roles: Roles, pairs: tuple[Pair, ...]) -> tuple[bool, ...]:
    """Which pairs of columns are one-to-one copies in every row."""
    names = sorted({c.name for pair in pairs for c in (pair.one, pair.two)})
    cells: list[set[tuple[Any, Any]]] = [set() for _ in pairs]

    def work(batch: Any) -> list[set[tuple[Any, Any]]]:
        return [_cells(batch, pair, roles) for pair in pairs]

    for found in source.map(names, work, stage="copies"):
        for seen, more in zip(cells, found, strict=True):
            seen.update(more)
    return tuple(
        len(seen) == len({a for a, _ in seen}) == len({b for _, b in seen}) for seen in cells
    )


@dataclass(frozen=True, eq=False)
class BatchEncoder:
    """Batches of a table to distinct rows of codes: label, group, features.

    Attributes:
        coding: how the table becomes codes.
        roles: which columns are what.
    """

    coding: TableCoding
    roles: Roles

    @property
    def packing(self) -> Packing:
        """Of the columns S, D, then the features."""
        coding = self.coding
        groups, classes = len(coding.groups.names), len(coding.labels.classes)
        return Packing((groups, classes, *coding.features.arities))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        weight = () if self.roles.weight is None else (self.roles.weight,)
        used = (self.roles.label, *self.roles.sensitive, *weight, *self.coding.features.names)
        return tuple(dict.fromkeys(used))

    def __call__(self, frame: Any) -> Distinct:
        """The distinct rows of a polars frame."""
        weights = None
        if self.roles.weight is not None:
            weights = check_some_weights(frame[self.roles.weight].to_numpy(), len(frame))
            if not weights.any():
                return Distinct(np.zeros((len(self.packing.words), 0), np.uint64), np.zeros(0))
            if not weights.all():
                frame, weights = frame.filter(weights > 0), weights[weights > 0]
        features = self.coding.features.transform(frame)
        columns = [
            self.coding.groups.transform(frame.select(self.roles.sensitive)),
            self.coding.labels.transform(frame[self.roles.label]),
            *features.T,
        ]
        return Distinct.of(self.packing.pack(columns), weights)


def compress(
    source: Source,
    encoder: BatchEncoder,
    *,
    most: int = UNBOUNDED,
    spill: Callable[[Distinct], object] = lambda part: None,
    watch: Watcher | None = None,
) -> Distinct | None:
    """The distinct rows of a table, in one pass.

    Where more than ``most`` would be in memory, they go to ``spill`` in several parts,
    and None is returned.
    """
    total = DistinctSum(most, spill)
    for part in source.map(encoder.columns, encoder, stage="rows", watch=watch):
        total.push(part)
    return total.total()


def _cells(batch: Any, pair: Pair, roles: Roles) -> set[tuple[Any, Any]]:
    """Pairs of codes, or of raw values, that occur in a batch."""
    names = (pair.one.name, pair.two.name)
    if not pair.by_code:
        return set(batch.select(names).unique().iter_rows())
    encoding = Encoding((pair.one, pair.two), (), names, missing_values=roles.missing_values)
    codes = encoding.transform(batch.select(names))
    return set(map(tuple, np.unique(codes, axis=0).tolist()))
