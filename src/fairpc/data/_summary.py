"""What a table says of its columns: small, additive, enough to fit an encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import Bools, CodesError, Floats, Ints, TableError, is_extreme_weight
from fairpc.data._column_summary import MOST, ColumnSummary, RowClasses, add_columns, text_ids
from fairpc.data._frame import Frame
from fairpc.data._source import Roles, Source, Watcher, shown_name
from fairpc.data._table import check_some_weights
from fairpc.data._values import (
    Level,
    Values,
    distinct_numbers,
    read_classes,
    read_values,
    to_numbers,
)

MOST_CELLS: Final = 1 << 17  #: combinations of sensitive values that are counted
FEW_ROWS: Final = 1 << 20
"""Of a table of so many rows, distinct values are listed as far as there is room."""
LISTED: Final = 1 << 22  #: the room: distinct values of all columns together


@dataclass(frozen=True, eq=False)
class Crossing:
    """Combinations of values of the sensitive columns that occur, with rows and weight of each."""

    columns: Mapping[str, Values]
    rows: Ints
    weights: Floats
    labelled: Ints  #: rows whose label is known


@dataclass(frozen=True, eq=False)
class Summary:
    """The columns of some rows of a table."""

    n_rows: int  #: those of positive weight
    weight: float  #: of all of them
    whole: bool  #: all weights are whole numbers
    labels: Values  #: the distinct labels; the classes of every column, "missing" after them
    label_weights: Floats  #: weight of each, and of the missing ones
    columns: dict[str, ColumnSummary]  #: one summary per feature
    groups: Crossing  #: combinations of the sensitive columns
    most: int | None = None  #: distinct values of a column that are listed exactly

    @property
    def scale(self) -> float:
        """What makes the mean weight of a row 1; 1 where weights count rows."""
        return 1.0 if self.whole else self.n_rows / self.weight


Unlabelled = tuple[tuple[Level | None, ...], ...]
"""Combinations of sensitive values, None where missing, whose labels count as missing."""


def summarise(
    frame: Frame,
    roles: Roles,
    known: Summary | None = None,
    most: int | None = None,
    unlabelled: Unlabelled = (),
) -> Summary:
    """The summary of a batch; ``known`` is one of another batch, which makes it faster."""
    frame, weights = weighted(frame, roles)
    label = shown_name(roles.label)
    labelled = read_classes(label, frame.column(roles.label), roles.missing_values)
    ids, labels = numbered(labelled, None if known is None else known.labels)
    if unlabelled:
        ids, labels = _without(ids, labels, hidden_labels(frame, roles, unlabelled))
    n_labels = len(labels.data)
    if n_labels > 1000:  # a measurement; fit_labels says so of fewer already
        raise TableError(
            f"label {label!r} has more than 1000 values: give classes, or cut it into classes first"
        )
    rows = RowClasses(ids, n_labels + 1, weights, most)
    columns = {}
    for name in roles.features:
        column, sentinels = frame.column(name), roles.missing_values
        values = read_values(name, column, sentinels, decimal=roles.decimal)
        if name in roles.numeric:
            values = _said_numeric(name, values)
        expected = None if known is None else getattr(known.columns[name].content, "texts", None)
        columns[name] = ColumnSummary.of(values, rows, expected)
    return Summary(
        frame.n_rows,
        float(frame.n_rows if weights is None else weights.sum()),
        rows.whole,
        labels,
        np.bincount(ids, weights, n_labels + 1).astype(np.float64),
        columns,
        _crossing(frame, roles, weights, ids < n_labels, known),
        most,
    )


def hidden_labels(frame: Frame, roles: Roles, unlabelled: Unlabelled) -> Bools:
    """Rows of a batch with one of these combinations of the sensitive columns."""
    ids, levels = [], []
    for name in roles.sensitive:
        place, distinct = numbered(read_values(name, frame.column(name), roles.missing_values))
        ids.append(place)
        levels.append([*distinct.listed(), None])
    hidden = np.zeros(frame.n_rows, np.bool_)
    for values in unlabelled:
        found = [own.index(v) if v in own else -1 for own, v in zip(levels, values, strict=True)]
        hidden |= np.all([own == k for own, k in zip(ids, found, strict=True)], axis=0)
    return hidden


def _without(ids: Ints, labels: Values, hidden: Bools) -> tuple[Ints, Values]:
    """Labels by number as missing in some rows; a label that is left nowhere is not listed."""
    missing = len(labels.data)
    used = np.unique(ids[~hidden & (ids < missing)])
    rank = np.full(missing + 1, len(used))
    rank[used] = np.arange(len(used))
    return rank[np.where(hidden, missing, ids)], values_at(labels, used)


def _said_numeric(name: str, values: Values) -> Values:
    """A column that is said to hold numbers; a TableError names a value that is none.

    Text stays text: how its numbers are written is known when all batches were seen.
    """
    if values.type != "text":
        return to_numbers(name, values)
    values = replace(values, numeric=True)
    if not values.missing().all() and values.parsed().type == "text":
        to_numbers(name, values)
    return values


def weighted(frame: Frame, roles: Roles) -> tuple[Frame, Floats | None]:
    """The rows of positive weight, and their weights; None where rows are not weighted."""
    if roles.weight is None:
        return frame, None
    weights = check_some_weights(np.asarray(frame.column(roles.weight)), frame.n_rows)
    extreme = is_extreme_weight(weights)
    if extreme.any():
        raise CodesError(
            f"a weight is {weights[extreme][0]:g}, whose square no number holds: divide the "
            "weights by the largest"
        )
    if weights.all():
        return frame, weights
    used = np.flatnonzero(weights)
    return frame.taken(used), weights[used]


def add_summaries(parts: Sequence[Summary]) -> Summary:
    """The summary of all batches: sums are taken in the order of the table."""
    if len(parts) == 1:
        return parts[0]
    most = parts[0].most
    ids, labels = numbered(_joined([part.labels for part in parts]))
    n, missing = len(labels.data) + 1, len(labels.data)
    stops = np.cumsum([len(part.labels.data) for part in parts])
    renamed = [
        (part, np.append(ids[end - len(part.labels.data) : end], missing))
        for part, end in zip(parts, stops, strict=True)
    ]
    columns = {
        name: add_columns([p.columns[name].renamed(column, n) for p, column in renamed], most)
        for name in parts[0].columns
    }
    groups = [part.groups for part in parts]
    crossed = {name: _joined([g.columns[name] for g in groups]) for name in groups[0].columns}
    counts = ("rows", "weights", "labelled")
    rows, weights, labelled = (np.concatenate([getattr(g, f) for g in groups]) for f in counts)
    label_weights = np.zeros(n)
    for part, column in renamed:
        np.add.at(label_weights, column, part.label_weights)
    return Summary(
        sum(part.n_rows for part in parts),
        sum(part.weight for part in parts),
        all(part.whole for part in parts),
        labels,
        label_weights,
        columns,
        _crossed(crossed, rows, weights, labelled, {}),
        most,
    )


def summarise_source(
    source: Source, roles: Roles, watch: Watcher | None = None, unlabelled: Unlabelled = ()
) -> Summary:
    """The summary of all rows of a table, in one pass."""
    work = _Summariser(roles, listed(source, roles), unlabelled)
    total = source.total(roles.columns, work, add_summaries, stage="columns", watch=watch)
    if total is None:
        raise TableError("the table is empty: it has no rows, give at least one")
    return total


@dataclass
class _Summariser:
    """Summaries of batches: what the first one saw makes the next ones faster."""

    roles: Roles
    most: int | None
    unlabelled: Unlabelled
    known: Summary | None = None

    def __call__(self, frame: Frame) -> Summary:
        summary = summarise(frame, self.roles, self.known, self.most, self.unlabelled)
        self.known = self.known or summary
        return summary


def listed(source: Source, roles: Roles) -> int | None:
    """Distinct values of a column that are listed exactly: more than usual where rows are few.

    None is the usual number. A Dask frame does not say how many rows it has: it has a
    quarter of the room, for several summaries of its partitions meet.
    """
    import polars as pl

    rows = source.n_rows
    if rows is None and not source.in_partitions:
        return None
    if rows is not None and rows > FEW_ROWS:
        return None
    if source.in_memory:
        return FEW_ROWS
    # Types whose columns have few values.
    types, short = source.types, (pl.Boolean, pl.Int8, pl.UInt8, pl.Categorical, pl.Enum)
    many = [name for name in roles.features if name in types and types[name] not in short]
    room = LISTED // (1 if rows is not None else 4)
    return max(MOST, room // max(len(many), 1))


def numbered(values: Values, known: Values | None = None) -> tuple[Ints, Values]:
    """Number of each value among the sorted distinct ones, beyond them if missing; and these."""
    if values.type == "text":
        expected = None
        if known is not None and known.type == "text":
            expected = known.data.unique(maintain_order=True).drop_nulls()
        numbers, texts = text_ids(values.data, expected)
        order = texts.arg_sort().to_numpy()
        rank = np.full(len(texts) + 1, len(texts))
        rank[order] = np.arange(len(texts))
        return rank[numbers], replace(values, data=texts.gather(order))
    present = ~values.missing()
    distinct, place = distinct_numbers(values.data[present])
    ids = np.full(len(present), len(distinct), np.int64)
    ids[present] = place
    return ids, replace(values, data=distinct)


def _joined(parts: Sequence[Values]) -> Values:
    """Values of several batches, one after the other."""
    import polars as pl

    known = [part for part in parts if not part.missing().all()] or parts[:1]
    remark = max(part.remark for part in known)
    if known[0].type == "text":
        data: Any = pl.concat([part.data for part in parts if part.type == "text"])
    else:
        data = np.concatenate([part.data for part in parts if part.type == known[0].type])
    return replace(known[0], data=data, remark=remark)


def _crossing(
    frame: Frame,
    roles: Roles,
    weights: Floats | None,
    labelled: Bools,
    known: Summary | None = None,
) -> Crossing:
    """Combinations of the sensitive columns of a batch, in sorted order."""
    columns = {}
    for name in roles.sensitive:
        shown = shown_name(name)
        columns[shown] = read_classes(shown, frame.column(name), roles.missing_values)
    expected = {} if known is None else known.groups.columns
    mass = np.ones(frame.n_rows) if weights is None else weights
    return _crossed(columns, np.ones(frame.n_rows, np.int64), mass, labelled, expected)


def _crossed(
    columns: Mapping[str, Values],
    rows: Ints,
    weights: Floats,
    labelled: Ints | Bools,
    expected: Mapping[str, Values],
) -> Crossing:
    """The distinct combinations of the columns."""
    key, sizes, found = np.zeros(len(rows), np.int64), [1], {}
    for name, values in columns.items():
        ids, distinct = numbered(values, expected.get(name))
        sizes.append(len(distinct.data) + 1)
        if np.prod(sizes, dtype=np.float64) > MOST_CELLS:
            names = ", ".join(map(repr, columns))
            raise TableError(
                f"the sensitive columns {names} have more than {MOST_CELLS:,} combinations of "
                "values: give groups, or cut numbers into a few classes first"
            )
        key = key * sizes[-1] + ids
        found[name] = distinct
    counts = np.bincount(key, rows, int(np.prod(sizes)))
    seen = np.flatnonzero(counts)
    places = np.unravel_index(seen, sizes[1:]) if columns else ()
    cells = {
        name: values_at(distinct, place)
        for (name, distinct), place in zip(found.items(), places, strict=True)
    }
    mass = np.bincount(key, weights, len(counts)).astype(np.float64)
    with_label = np.bincount(key, labelled, len(counts))[seen].astype(np.int64)
    return Crossing(cells, counts[seen].astype(np.int64), mass[seen], with_label)


def values_at(distinct: Values, place: Ints) -> Values:
    """Values by number; the number after the last one is "missing"."""
    import polars as pl

    if distinct.type == "text":
        texts = pl.concat([distinct.data, pl.Series([None], dtype=pl.String)])
        return replace(distinct, data=texts.gather(place))
    if (place < len(distinct.data)).all():
        return replace(distinct, data=distinct.data[place])
    hole = np.int8(-1) if distinct.type == "boolean" else np.nan
    return replace(distinct, data=np.append(distinct.data, hole)[place])
