"""An encoding from a summary of the rows: the same rules as for a table in memory.

Each distinct value of a column stands for its rows, as a weighted row: what
``encode`` learns from rows it learns from these. Where a column has too many
distinct values to list, numbers come as points whose ranks are known to a bound,
and texts as those that are heavy enough to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.data import columns
from fairpc.data.coding import code_values
from fairpc.data.columns import Options
from fairpc.data.encoding import Encoding
from fairpc.data.groups import Groups, fit_groups
from fairpc.data.labels import Labels, fit_labels
from fairpc.data.plural import counted
from fairpc.data.points import MOST
from fairpc.data.schema import Column, Dropped
from fairpc.data.summary import Roles, Summary
from fairpc.data.table import no_weight
from fairpc.data.tally import Tally
from fairpc.data.values import Values, read_values
from fairpc.errors import TableError
from fairpc.errors.arrays import Floats, Ints

Copies = Callable[[tuple["Pair", ...]], tuple[bool, ...]]

_RAW_LEVELS: Final = 256


@dataclass(frozen=True)
class Pair:
    """Two columns that part the rows into parts of the same sizes, by their codes or raw values."""

    one: Column
    two: Column
    by_code: bool


@dataclass(frozen=True, eq=False)
class TableCoding:
    """How a table becomes codes: its features, its label and its groups."""

    features: Encoding
    labels: Labels
    groups: Groups


@dataclass(frozen=True, eq=False)
class _Fitted:
    column: Column
    by_code: bytes
    by_value: bytes


def fit_stream(
    summary: Summary,
    roles: Roles,
    names_in: tuple[str, ...],
    *,
    positive: Any = None,
    options: Options | None = None,
    copies: Copies | None = None,
) -> TableCoding:
    """Learn how a table becomes codes from the summary of its rows.

    Args:
        summary: of all rows.
        roles: which columns are what.
        names_in: the columns of the table that are given at prediction, in order.
        positive: the class that is meant by "positive".
        options: as for ``fit_encoding``.
        copies: tells which pairs of columns are one-to-one copies; it may read the table.
            Without, columns whose values have the same weights are taken to be copies.
    """
    if not summary.weight:
        raise no_weight()
    labels = fit_labels(
        summary.labels.alias(roles.label), positive=positive, name=roles.label,
        sample_weight=summary.label_weights, missing_values=roles.missing_values,
    )  # fmt: skip
    groups = _fit_groups(summary, roles)
    chosen = replace(options or Options(), missing_values=roles.missing_values)
    classes = labels.transform(summary.labels.alias(roles.label)).astype(np.int64)
    used, dropped = _fit_columns(summary, chosen, classes, labels, copies, names_in)
    if not used:
        reasons = "; ".join(d.message for d in dropped[:3])
        raise TableError(f"no column is left to learn from: {reasons}")
    features = Encoding(tuple(used), tuple(dropped), names_in, missing_values=roles.missing_values)
    return TableCoding(features, labels, groups)


def _fit_groups(summary: Summary, roles: Roles) -> Groups:
    """Groups, with the rows of each counted; combinations of weight are what fit_groups sees."""
    crossing = summary.groups
    groups = fit_groups(
        crossing.cells, sample_weight=crossing.weights, missing_values=roles.missing_values
    )
    codes = groups.transform(crossing.cells)
    known = codes >= 0
    rows = np.bincount(codes[known], crossing.rows[known], len(groups.cells))
    return replace(groups, rows=tuple(int(n) for n in rows))


def _fit_columns(
    summary: Summary,
    options: Options,
    classes: Ints,
    labels: Labels,
    copies: Copies | None,
    names_in: tuple[str, ...],
) -> tuple[list[Column], list[Dropped]]:
    fitted: dict[str, _Fitted | Dropped] = {}
    for name in names_in:
        if name in summary.columns:
            entries = _Entries.of(summary, name, classes, len(labels.classes), options)
            fitted[name] = entries.fit(options)
        else:
            fitted[name] = Dropped(name, "left out on request")
    originals = _originals([f for f in fitted.values() if isinstance(f, _Fitted)], copies)
    used, dropped = [], []
    for name, one in fitted.items():
        if isinstance(one, Dropped):
            dropped.append(one)
        elif name in originals:
            dropped.append(Dropped(name, f"it is a one-to-one copy of column {originals[name]!r}"))
        else:
            used.append(one.column)
    return used, dropped


def _originals(fitted: list[_Fitted], copies: Copies | None) -> Mapping[str, str]:
    """The first column that each copy is a copy of."""
    pairs = []
    for j, two in enumerate(fitted):
        for one in fitted[:j]:
            for by_code in (True, False):
                a, b = (one.by_code, two.by_code) if by_code else (one.by_value, two.by_value)
                if a == b:
                    pairs.append(Pair(one.column, two.column, by_code))
    if not pairs:
        return {}
    verdicts = (True,) * len(pairs) if copies is None else copies(tuple(pairs))
    found: dict[str, str] = {}
    for pair, same in zip(pairs, verdicts, strict=True):
        if same and pair.one.name not in found:
            found.setdefault(pair.two.name, pair.one.name)
    return found


@dataclass(frozen=True, eq=False)
class _Entries:
    """A column as weighted rows: one per distinct value and class, and one per class for holes."""

    name: str
    tally: Tally
    values: Values
    rows: columns.Rows

    @classmethod
    def of(
        cls,
        summary: Summary,
        name: str,
        classes: Ints,
        n_classes: int,
        options: Options,
    ) -> _Entries:
        tally = summary.columns[name].parsed or summary.columns[name]
        table = _table(tally)
        value, label = np.nonzero(table)
        holes = np.flatnonzero(tally.missing)
        weights = np.concatenate([table[value, label], tally.missing[holes]])
        if not summary.whole:
            weights = weights * (summary.n_rows / summary.weight)
        by_label = options.binning == "label" and n_classes > 1
        rows = columns.Rows(
            weights, classes[np.concatenate([label, holes])] if by_label else None,
            n_classes if by_label else 0, summary.whole,
        )  # fmt: skip
        return cls(name, tally, _values(name, tally, value, len(holes)), rows)

    def fit(self, options: Options) -> _Fitted | Dropped:
        tally, name = self.tally, self.name
        free = name not in options.categorical | options.numeric and not tally.declared
        if free and tally.repeats is not None and tally.repeats.none:
            return columns.identifier(name)
        if tally.rest is not None:
            column = self._open(options)
        else:
            column = columns.fit_column(name, self.values, options, self.rows)
            if isinstance(column, Column) and column.kind == "number":
                column = replace(column, integral=column.integral and tally.whole)
        if isinstance(column, Dropped):
            return column
        by_code = self._signature(code_values(column, self.values).astype(np.int64))
        return _Fitted(column, by_code, self._by_value(column) or by_code)

    def _open(self, options: Options) -> Column | Dropped:
        """Texts of which only the heavy ones are listed; all others are "other"."""
        tally, rest = self.tally, self.tally.rest
        mass = tally.text_weights.sum(axis=1)
        known = float(mass.sum()) + (0.0 if rest is None else float(rest.sum()))
        kept = np.flatnonzero(mass >= options.rare * known)
        kept = np.sort(kept[np.argsort(-mass[kept], kind="stable")][: options.max_levels - 1])
        if not len(kept):
            return Dropped(
                self.name, f"none of its more than {MOST:,} values holds {options.rare:.2%} of rows"
            )
        levels = tuple(tally.texts.gather(kept).to_list())
        return Column(
            self.name, "category", levels=levels, open=True,
            missing_share=float(tally.missing.sum() / (known + tally.missing.sum())),
            done=f"category of {counted(len(kept), 'level')}, "
            f"more than {MOST:,} merged into 'other'",
        )  # fmt: skip

    def _by_value(self, column: Column) -> bytes | None:
        """How the raw values part the rows, where they are few and codes merge some."""
        table = _table(self.tally)
        few = len(table) <= _RAW_LEVELS and 2 * len(table) <= self.rows.weights.sum()
        if not (few and self.tally.complete and (column.binned or column.merged)):
            return None
        return _parts(table, self.tally.missing)

    def _signature(self, codes: Ints) -> bytes:
        """Sizes of the parts, apart by class: equal for columns that are one-to-one copies."""
        table = _table(self.tally)
        value = np.nonzero(table)[0]
        of_value = np.full(len(table), -1)
        of_value[value] = codes[: len(value)]
        sums = np.zeros((int(codes.max(initial=0)) + 2, table.shape[1]))
        np.add.at(sums, of_value, table)
        if self.tally.rest is not None:
            sums[-2] += self.tally.rest
        return _parts(sums[:-1], self.tally.missing)


def _table(tally: Tally) -> Floats:
    """Weight per distinct value and class."""
    if tally.points is not None:
        return tally.points.weights
    return tally.text_weights if tally.texts is not None else np.zeros((0, len(tally.missing)))


def _parts(table: Floats, missing: Floats) -> bytes:
    seen = np.round(table[table.any(axis=1)], 6) + 0.0
    ordered = seen[np.lexsort(seen.T[::-1])]
    return np.vstack([ordered, np.round(missing, 6)]).tobytes()


def _values(name: str, tally: Tally, value: Ints, n_holes: int) -> Values:
    """The entries of a column as typed values, the holes last."""
    import narwhals as nw
    import polars as pl

    if tally.points is not None and tally.type is not None:
        data = tally.points.values[value]
        if tally.type == "boolean":
            return Values("boolean", np.append(data, [-1] * n_holes).astype(np.int8))
        if n_holes:
            data = np.append(data.astype(np.float64), [np.nan] * n_holes)
        return Values(tally.type, data, tally.declared, tally.remark)
    if tally.texts is None:
        return Values("text", pl.Series([None] * n_holes, dtype=pl.String))
    holes = pl.Series([None] * n_holes, dtype=pl.String)
    texts = pl.concat([tally.texts.gather(value), holes])
    if tally.declared or tally.rest is not None:
        return Values("text", texts, tally.declared)
    return read_values(name, nw.from_native(texts, series_only=True), parse=True)
