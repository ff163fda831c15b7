"""Sensitive attributes: one or several columns, crossed into groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Codes,
    Floats,
    GroupWarning,
    Integers,
    Ints,
    TableError,
    TableWarning,
    counted,
    refuse,
    warn_caller,
)
from fairpc.data._column import AS_MISSING, MIN_CELL, Coded, Column, Dropped, code_columns
from fairpc.data._column_summary import ColumnSummary, RowClasses
from fairpc.data._fit_column import EncodingOptions, fit_column
from fairpc.data._frame import Frame, read_columns
from fairpc.data._names import GivenNames, refuse_alike
from fairpc.data._table import MISSING, check_weights
from fairpc.data._values import (
    Level,
    Sentinel,
    Values,
    are_bare,
    is_integral,
    levels_of,
    read_classes,
)

MAX_GROUPS: Final = 64
SMALL: Final = 30  #: a group with fewer rows is reported as small
MANY: Final = 20
"""More groups or classes than this are warned of: each has parameters of its own to learn."""
NAMELESS: Final = "sensitive"  #: what a sensitive column is called that came without a name
_ABSENT: Final = (
    "sensitive column {!r} is absent: give it, or leave out all sensitive columns to have them "
    "marginalised"
)


@dataclass(frozen=True)
class Groups(Coded):
    """Groups by one or several sensitive columns."""

    columns: tuple[Column, ...]  #: the sensitive columns
    #: per group, its code in each column; only combinations that occur, ascending
    cells: tuple[tuple[int, ...], ...]
    #: number of training rows per group; those of fewer than ``min_cell`` are not groups
    rows: tuple[int, ...]
    missing_values: tuple[Sentinel, ...] = ()  #: values that mean "missing", besides null and NaN

    def __post_init__(self) -> None:
        faults = ((there, f"sensitive groups: {fault}") for there, fault in self._faults())
        refuse(TableError, faults)

    def _faults(self) -> Iterator[tuple[object, str]]:
        columns, cells = self.columns, self.cells
        few = not columns or len(cells) < 2 or len(self.rows) != len(cells)
        yield few, "at least one column and two groups are needed"
        yield len(set(self.column_names)) < len(columns), "a column appears twice"
        yield min(self.rows) < 0, "a number of rows is negative"
        blanks = not all(are_bare(column.known) for column in columns if not column.binned)
        yield blanks, "a value begins or ends with a blank"
        yield list(cells) != sorted(set(cells)), "cells must differ and ascend"
        for cell in cells:
            inside = all(0 <= c < k for c, k in zip(cell, self.arities, strict=False))
            known = inside and len(cell) == len(columns)
            yield not known, f"{cell} is not a cell of {self.arities} values"

    @property
    def arities(self) -> list[int]:
        """Number of values of each column."""
        return [column.arity for column in self.columns]

    @property
    def names(self) -> tuple[str, ...]:
        """A name per group: the level; "sex=F, race=B" for several columns."""
        if len(self.columns) == 1:
            return tuple(self.columns[0].labels[cell[0]] for cell in self.cells)
        return self._full_names

    @property
    def _full_names(self) -> tuple[str, ...]:
        return tuple(_name(self.columns, cell) for cell in self.cells)

    def code(self, group: Any) -> int | None:
        """Number of a group by its value, its name, or "column=value"; None if there is none."""
        for known in (self.values, self.names, self._full_names):
            if group in known:
                return known.index(group)
        return None

    def readable_names(self, classes: Iterable[Level]) -> tuple[str, ...]:
        """``names`` as people can read them beside the classes of a label.

        The rule: where a value does not speak for itself, all groups are "column=value". A number
        does not, nor does a word like "yes", nor one that is a class of the label too. A column
        that came without a name has none to give.
        """
        (column, *more), names = self.columns, self.names
        silent = {"yes", "no", "y", "n", "true", "false"} | {str(c).lower() for c in classes}
        words = column.textual and not any(map(_is_number, column.labels))
        speaks = words and not any(label.lower() in silent for label in column.labels)
        return names if more or speaks or column.name == NAMELESS else self._full_names

    @property
    def values(self) -> tuple[Level, ...]:
        """As ``names``; for a single column the level itself, which may be a number."""
        if len(self.columns) == 1:
            return tuple(self.columns[0].decoded_levels[cell[0]] for cell in self.cells)
        return self.names

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the sensitive columns."""
        return tuple(column.name for column in self.columns)

    def small(self, least: int = SMALL) -> tuple[tuple[str, int], ...]:
        """Groups with fewer than ``least`` training rows, and how many they have."""
        return tuple((n, r) for n, r in zip(self.names, self.rows, strict=True) if r < least)

    def transform(self, sensitive: Any, *, allow_absent: bool = False, warn: bool = True) -> Codes:
        """Group code of each row; -1 where a part of it is missing or, with a warning, unknown.

        ``sensitive`` is a vector or series for a single column, or a frame that has the columns.
        """
        frame = _read(sensitive, self.column_names[0])
        if frame.from_array and len(frame.names) == len(self.columns):
            # A vector, a series or an array is known by position.
            frame = replace(frame, names=self.column_names)
        absent = None if allow_absent else _ABSENT.format
        how = self.missing_values, absent
        codes = code_columns(self.columns, frame, *how, read=read_classes, warn=warn)
        return self._group_codes(codes, warn=warn)

    def unknown(self, sensitive: Any) -> Bools:
        """Rows of a group that is not one of these, though no part of it is missing."""
        codes = self.transform(sensitive, allow_absent=True, warn=False)
        frame = _read(sensitive, self.column_names[0])
        lacking = np.zeros(frame.n_rows, np.bool_)
        for name, column in zip(frame.names, frame.columns, strict=True):
            lacking |= read_classes(name, column, self.missing_values).missing()
        return np.asarray((codes < 0) & ~lacking & (len(frame.names) == len(self.columns)))

    def crossed_codes(self, columns: Mapping[str, Values]) -> Codes:
        """Group of each combination of values; -1 where it is none."""
        codes = [
            c.codes(v, warn=False) for c, v in zip(self.columns, columns.values(), strict=True)
        ]
        return self._group_codes(np.stack(codes, axis=1), warn=False)

    def _group_codes(self, codes: Codes, *, warn: bool) -> Codes:
        arities, cells = self.arities, np.array(self.cells)
        # The last place is that of cells with a missing part: their number is -1.
        place = np.full(math.prod(arities) + 1, MISSING, np.int16)
        place[np.ravel_multi_index(tuple(cells.T), arities)] = np.arange(len(cells))
        number: Integers = codes[:, 0]
        for arity, part in zip(arities[1:], codes.T[1:], strict=True):
            number = np.where((number < 0) | (part < 0), -1, number.astype(np.int64) * arity + part)
        groups = np.asarray(place[number])
        unseen = (groups < 0) & (number >= 0)
        if warn and unseen.any():
            row = codes[int(np.argmax(unseen))]
            n = counted(int(unseen.sum()), "row counts", "rows count")
            warn_caller(
                f"the group {_name(self.columns, tuple(row.tolist()))!r} was not seen at fit: {n} "
                "as of unknown group (one of fewer than min_cell labelled rows is not kept)",
                TableWarning,
            )
        return groups


def fit_groups(
    sensitive: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
    missing_values: Iterable[Sentinel] = (),
    name: str = NAMELESS,
) -> Groups:
    """Groups by one or several sensitive columns, from the rows of positive weight.

    Levels are never merged, however rare. A number with more than 8 values, or with broken ones,
    is cut at its quantiles into two to four bins of at least 30 rows each.

    ``sensitive`` is a vector, series, mapping of vectors, or a frame or array of such columns;
    those without a name of their own are called ``name``.
    """
    frame = _read(sensitive, name)
    weights = check_weights(sample_weight, frame.n_rows)
    used = weights > 0
    sentinels = tuple(missing_values)
    named = zip(frame.names, frame.columns, strict=True)
    columns = {own: read_classes(own, native, sentinels).taken(used) for own, native in named}
    rows = np.ones(int(used.sum()), np.int64)
    return groups_of(columns, rows, weights[used], sentinels)


def groups_of(
    columns: Mapping[str, Values],
    rows: Ints,
    weights: Floats,
    missing_values: tuple[Sentinel, ...] = (),
    min_cell: int = 1,
    *,
    labelled: Ints | None = None,
    again: bool = True,
    names: GivenNames | None = None,
) -> Groups:
    """Groups by sensitive columns whose combinations stand for some ``rows`` of some weight.

    Rows of groups under ``min_cell`` ``labelled`` rows are of unknown group: neither their level
    nor anything that was learned of them alone is kept. The two largest groups stay in any case,
    and all where half of the rows would go or the whole table is that small (under ten times as
    many rows). What does not stay is said, unless it was (``again``). Values that differ by case
    alone are refused, unless ``names`` calls one of them something else.
    """
    for name, values in columns.items():
        if values.type == "text":
            refuse_alike("sensitive column", name, levels_of(values), names)
    whole = bool((weights == np.floor(weights)).all())
    scale = 1.0 if whole else float(rows.sum() / weights.sum())
    fitted = [_column(name, values, weights, scale) for name, values in columns.items()]
    codes = [c.codes(values) for c, values in zip(fitted, columns.values(), strict=True)]
    crossed, n_rows = _crossed(np.stack(codes, axis=1), [c.arity for c in fitted], rows)
    if not 2 <= len(crossed) <= MAX_GROUPS:
        raise TableError(
            f"the columns {', '.join(map(repr, columns))} cross to {len(crossed)} groups in "
            f"complete rows: between 2 and {MAX_GROUPS} are needed"
        )
    people = n_rows
    if labelled is not None and min_cell > 1:
        _, people = _crossed(np.stack(codes, axis=1), [c.arity for c in fitted], rows, labelled)
    kept = people >= min_cell
    kept |= np.argsort(np.lexsort((-n_rows, -people))) < 2
    kept |= 2 * n_rows[kept].sum() <= n_rows.sum() or n_rows.sum() < 10 * min_cell
    if not (again or kept.all()):
        few = [_name(tuple(fitted), tuple(cell)) for cell in crossed[~kept].tolist()]
        warn_caller(
            f"{counted(len(few), 'group has', 'groups have')} fewer than {min_cell} labelled rows "
            f"({', '.join(few[:3])}{', …' if len(few) > 3 else ''}): "
            f"{counted(int(n_rows[~kept].sum()), 'row counts', 'rows count')} as of unknown group; "
            "min_cell=1 keeps them, and names them in the model file",
            GroupWarning,
        )
    fitted, crossed = _without_unused(fitted, crossed[kept])
    cells = tuple(tuple(cell) for cell in crossed.tolist())
    return Groups(tuple(fitted), cells, tuple(n_rows[kept].tolist()), missing_values)


def _without_unused(columns: list[Column], cells: Codes) -> tuple[list[Column], Codes]:
    """The columns without the levels that no group has; the codes of groups go with them."""
    fitted, codes = [], []
    for column, own in zip(columns, cells.T, strict=True):
        used = np.unique(own)
        if column.kind == "category" and len(used) < column.arity:
            levels = tuple(column.levels[i] for i in used.tolist())
            done = f"category of {counted(len(used), 'level')}, others count {AS_MISSING}"
            column, own = replace(column, levels=levels, done=done), np.searchsorted(used, own)
        fitted.append(column)
        codes.append(own)
    return fitted, np.stack(codes, axis=1).astype(np.int16)


def warn_of_groups(groups: Groups, min_cell: int = MIN_CELL) -> None:
    """Say before the work begins that groups are many, or of a handful of rows."""
    tiny, n = groups.small(MIN_CELL), len(groups.names)
    if n <= MANY and not tiny:
        return
    by = " × ".join(map(repr, groups.column_names))
    name, rows = min(zip(groups.names, groups.rows, strict=True), key=lambda each: each[1])
    few = f"{counted(len(tiny), 'group has', 'groups have')} fewer than {MIN_CELL} rows, "
    stays = "; they stay, for a model needs two groups, and its file tells of so few people"
    warn_caller(
        f"{by} makes {n} groups; {few if tiny else ''}the smallest, {name!r}, has "
        f"{counted(rows, 'row')}: each group is learned by itself, which takes time and of few "
        f"rows tells little (under {SMALL} next to nothing); merge values, or leave out rows of "
        f"the smallest groups{stays if tiny and min_cell > 1 else ''}",
        GroupWarning,
    )


def few_labelled(labelled: Ints | Floats, min_cell: int) -> Bools:
    """Groups in which some people have a label, and fewer than ``min_cell``."""
    return np.asarray((labelled > 0) & (labelled < min_cell))


def _crossed(
    codes: Codes, arities: list[int], rows: Ints, counted_rows: Ints | None = None
) -> tuple[Codes, Ints]:
    """The distinct complete cells in lexicographic order, and how many rows are in each; of
    ``counted_rows``, if they are given."""
    complete = (codes >= 0).all(axis=1)
    number = np.ravel_multi_index(tuple(codes[complete].T.astype(np.int64)), arities)
    found, place = np.unique(number, return_inverse=True)
    cells = np.stack(np.unravel_index(found, arities), axis=1).astype(np.int16)
    n = rows if counted_rows is None else counted_rows
    return cells, np.bincount(place, n[complete], len(found)).astype(np.int64)


def _read(sensitive: Any, name: str) -> Frame:
    frame = read_columns(sensitive, name)
    if len(set(frame.names)) < len(frame.names):
        raise TableError("a sensitive column appears twice: give each once")
    return frame


def _column(name: str, values: Values, weights: Floats, scale: float) -> Column:
    """A sensitive column; an error that names it where it has no groups, or too many."""
    n_present = round(float(weights[~values.missing()].sum()) * scale)
    if not n_present:
        raise TableError(
            f"column {name!r} is missing in every row: a sensitive attribute needs at least two "
            "groups in the training rows"
        )
    numeric = values.type == "date"
    if values.type == "number" and not values.declared:
        known = values.data[~values.missing()]
        numeric = len(np.unique(known)) > (8 if is_integral(known) else 2)
    options = EncodingOptions(
        n_bins=min(4, max(2, n_present // SMALL)),
        rare=0.0,
        max_levels=MAX_GROUPS + 1,
        categorical=frozenset() if numeric else frozenset([name]),
        numeric=frozenset([name]) if numeric else frozenset(),
        binning="quantile",
    )
    summary = ColumnSummary.of(values, RowClasses(np.zeros(len(weights), np.int64), 1, weights))
    column = fit_column(name, summary, options, scale, parse=False)
    if isinstance(column, Dropped) or len(np.setdiff1d(column.codes(values), -1)) < 2:
        raise TableError(
            f"column {name!r} has 1 value ({_only(values)}): a sensitive attribute needs at least "
            "two groups in the training rows"
        )
    if column.has_other or column.arity > MAX_GROUPS:
        raise TableError(
            f"column {name!r} has more than {MAX_GROUPS} values: a sensitive attribute has at most "
            f"{MAX_GROUPS} groups, merge some of them"
        )
    return column


def _only(values: Values) -> str:
    """The first value, as a reader would write it."""
    first = values.taken(~values.missing()).data[0]
    if values.type == "boolean":
        return repr(bool(first))
    return repr(first if values.type == "text" else first.item())


def _name(columns: tuple[Column, ...], cell: tuple[int, ...]) -> str:
    parts = zip(columns, cell, strict=True)
    return ", ".join(f"{column.name}={column.labels[code]}" for column, code in parts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
