"""What a table says of its columns, part by part: small, additive, enough to fit an encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from fairpc.data.categories import distinct_numbers
from fairpc.data.points import FAN_IN
from fairpc.data.table import check_some_weights
from fairpc.data.tally import Rows, Tally, add_tallies, text_ids
from fairpc.data.values import Sentinel, read_values
from fairpc.errors import TableError
from fairpc.errors.arrays import Floats, Ints

MOST_LABELS: Final = 1000
"""A label with more values is a measurement; fit_labels says so of fewer already."""

MOST_CELLS: Final = 1 << 17
"""Combinations of sensitive values that are counted."""


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what.

    Attributes:
        label: the observed label.
        sensitive: the sensitive columns.
        features: all others that may be used.
        weight: the column of row weights, if any.
        missing_values: values that mean "missing", besides null and NaN.
        most: distinct numbers of a column that are listed exactly, as in ``Points``.
    """

    label: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None = None
    missing_values: tuple[Sentinel, ...] = ()
    most: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, once."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((self.label, *self.sensitive, *weight, *self.features)))


@dataclass(frozen=True, eq=False)
class Crossing:
    """Combinations of raw values that occur: a polars frame, with rows and weight of each."""

    cells: Any
    rows: Ints
    weights: Floats


@dataclass(frozen=True, eq=False)
class Summary:
    """The columns of a part of a table.

    Attributes:
        n_rows, weight: rows of positive weight, and their total weight.
        whole: all weights are whole numbers.
        labels: distinct raw labels, null among them; the classes of every tally.
        label_weights: weight of each.
        columns: one tally per feature.
        groups: combinations of the sensitive columns.
    """

    n_rows: int
    weight: float
    whole: bool
    labels: Any
    label_weights: Floats
    columns: dict[str, Tally]
    groups: Crossing


def summarise(frame: Any, roles: Roles, known: Summary | None = None) -> Summary:
    """The summary of a polars frame; ``known`` is one of another part, which makes it faster."""
    import narwhals as nw

    weights = None
    if roles.weight is not None:
        weights = check_some_weights(frame[roles.weight].to_numpy(), len(frame))
        if not weights.all():
            frame, weights = frame.filter(weights > 0), weights[weights > 0]
    ids, labels = raw_ids(frame[roles.label], None if known is None else known.labels)
    if len(labels) > MOST_LABELS:
        raise TableError(
            f"label {roles.label!r} has more than {MOST_LABELS} values: give classes, or cut it "
            "into classes first"
        )
    rows = Rows(ids, len(labels), weights, roles.most)
    columns = {}
    for name in roles.features:
        values = read_values(
            name, nw.from_native(frame[name], series_only=True), roles.missing_values
        )
        columns[name] = Tally.of(values, rows, None if known is None else known.columns[name].texts)
    return Summary(
        len(frame), float(len(frame) if weights is None else weights.sum()),
        weights is None or bool((weights == np.floor(weights)).all()), labels,
        np.bincount(ids, weights, len(labels)).astype(np.float64), columns,
        _crossing(frame.select(roles.sensitive), weights, known),
    )  # fmt: skip


def add_summaries(parts: Sequence[Summary]) -> Summary:
    """The summary of all parts, in the order of the table: the order of sums is that of parts."""
    import polars as pl

    if len(parts) == 1:
        return parts[0]
    ids, labels = raw_ids(pl.concat([part.labels for part in parts]))
    n = len(labels)
    ends = np.cumsum([len(part.labels) for part in parts])
    renamed = [
        (part, ids[end - len(part.labels) : end]) for part, end in zip(parts, ends, strict=True)
    ]
    columns = {
        name: add_tallies([part.columns[name].renamed(column, n) for part, column in renamed])
        for name in parts[0].columns
    }
    given = np.concatenate([part.label_weights for part in parts])
    label_weights = np.bincount(ids, given, n).astype(np.float64)
    return Summary(
        sum(part.n_rows for part in parts), sum(part.weight for part in parts),
        all(part.whole for part in parts), labels, label_weights, columns,
        _add_crossings([part.groups for part in parts]),
    )  # fmt: skip


@dataclass
class SummaryTree:
    """Summaries added up as they come, ``FAN_IN`` at a time, so that few are kept."""

    _levels: list[list[Summary]] = field(default_factory=list)

    def push(self, part: Summary) -> None:
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(part)
            if len(self._levels[level]) < FAN_IN:
                return
            part = add_summaries(self._levels[level])
            self._levels[level] = []
            level += 1

    def total(self) -> Summary:
        """The sum of all, in the order they came."""
        parts = [part for level in reversed(self._levels) for part in level]
        if not parts:
            raise TableError("the table is empty: it has no rows, give at least one")
        return add_summaries(parts)


def raw_ids(series: Any, known: Any = None) -> tuple[Ints, Any]:
    """Number of each raw value of a polars series among the distinct ones, and these, sorted.

    Null is a value of its own, and comes first. ``known`` lists texts to be expected.
    """
    import polars as pl

    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
        numbers, texts = text_ids(series, None if known is None else known.drop_nulls())
        order = texts.arg_sort()
        values = texts.gather(order)
        if not series.null_count() and (order == pl.arange(len(texts), eager=True)).all():
            return numbers.astype(np.int64), values
        rank = np.full(len(texts) + 1, -1)
        rank[order.to_numpy()] = np.arange(len(texts))
        ids = rank[numbers]
    else:
        present = series.drop_nulls()
        close = present.dtype.is_integer() and present.dtype != pl.UInt64
        if close or present.dtype == pl.Boolean:
            found, place = distinct_numbers(present.cast(pl.Int64).to_numpy())
            values = pl.Series(found).cast(series.dtype)
        else:
            values = present.unique().sort()
            place = values.search_sorted(present).to_numpy()
        if not series.null_count():
            return np.asarray(place, np.int64), values
        ids = np.full(len(series), -1, np.int64)
        ids[series.is_not_null().to_numpy()] = place
    if series.null_count():
        empty = pl.Series([None], dtype=values.dtype)
        return ids + 1, pl.concat([empty, values])
    return ids, values


def _crossing(frame: Any, weights: Floats | None, known: Summary | None = None) -> Crossing:
    """Combinations of the columns of a frame, in sorted order."""
    import polars as pl

    key, found = np.zeros(1, np.int64), []
    sizes: list[int] = []
    for name in frame.columns:
        ids, values = raw_ids(
            frame[name], None if known is None else known.groups.cells[name].unique()
        )
        key = ids if not sizes else key * len(values) + ids
        sizes.append(len(values))
        found.append(values)
        _check_cells(int(np.prod(sizes, dtype=np.float64)), frame.columns)
    counts = np.bincount(key, minlength=int(np.prod(sizes)))
    seen = np.flatnonzero(counts)
    places = np.unravel_index(seen, sizes)
    cells = pl.DataFrame(
        [v.gather(p).alias(n) for v, p, n in zip(found, places, frame.columns, strict=True)]
    )
    mass = counts.astype(np.float64)
    if weights is not None:
        mass = np.asarray(np.bincount(key, weights, len(counts)), np.float64)
    return Crossing(cells, counts[seen], mass[seen])


def _add_crossings(parts: Sequence[Crossing]) -> Crossing:
    import polars as pl

    cells = pl.concat([part.cells for part in parts])
    one = _crossing(cells, np.concatenate([part.weights for part in parts]))
    rows = _crossing(cells, np.concatenate([part.rows for part in parts]).astype(np.float64))
    return replace(one, rows=rows.weights.astype(np.int64))


def _check_cells(n: int, names: Sequence[str]) -> None:
    if n > MOST_CELLS:
        raise TableError(
            f"the sensitive columns {', '.join(map(repr, names))} have more than {MOST_CELLS:,} "
            "combinations of values: give groups, or cut numbers into a few classes first"
        )
