"""Columns that say what others say: leaks of a label or a group, and copies of one another.

A feature that says what the label says (``reject`` beside ``approve``, ``sub_grade`` beside
``grade``) was mostly written down after the decision. A model that sees it predicts it, and tells
nothing of the decision. A feature that says the group (``relationship`` beside ``sex``) makes
"without the group" an empty phrase. A hole is a value here: an interest rate that is known
for loans that were granted gives the label away by being there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from shlex import quote
from typing import Any, Final

import numpy as np

from fairpc.core import (
    Bools,
    Codes,
    Floats,
    Ints,
    LeakWarning,
    SameAsLabelWarning,
    TableError,
    warn_caller,
)
from fairpc.data._binning import value_label
from fairpc.data._column import Column
from fairpc.data._column_summary import ColumnSummary, Numbers
from fairpc.data._frame import Frame
from fairpc.data._groups import Groups
from fairpc.data._labels import Labels
from fairpc.data._source import Roles, Source
from fairpc.data._summary import FEW_ROWS, Summary, numbered, summarise_source, weighted
from fairpc.data._table import MISSING, distinct_columns
from fairpc.data._values import Values, read_values

WRONG: Final = 0.02  #: share of rows that a leak may tell wrongly, at most
OF_GUESSES: Final = 0.1  #: and of the rows that the most frequent value alone tells wrongly
FEWEST: Final = 100  #: rows under which nothing is said: a few may agree by chance
EACH_SIDE: Final = 5
"""Rows of one class, at least, on each side of a number that parts two. Of 100 rows in an order by
chance, 5 are all at one end once in 40 million times; a single one is there once in 50."""
_RAW_LEVELS: Final = 256
"""Values up to which a column is compared with others by its raw values, too."""


@dataclass(frozen=True)
class Leak:
    """A column that predicts the value of another one."""

    column: str  #: its name
    share: float  #: of the rows whose value it predicts, each row from the others that are like it
    copy: bool = False  #: whether it goes with the other one to one
    least: str = ""  #: the number from which on it predicts it, as text; else empty

    def sentence(self, of: str, *, group: bool = False) -> str:
        """What is given away, and what to do."""
        left = f"leave it out with {leaving_out(self.column)}"
        if self.copy and not group:
            what = f"column {self.column!r} says the same as {of} in every row: a model that sees "
            return f"{what}it repeats it; {left}"
        why = "unless known before the decision, "
        if group:
            why = "a decision that must not know the group would still know it; "
        often = f"{self.share:.1%} of rows"
        if often.startswith("100"):
            often = "every row" if self.share == 1 else "nearly every row"
        how = f" by whether it is at least {self.least}" if self.least else ""
        return f"column {self.column!r} gives {of} away{how}, in {often}: {why}{left}"


def label_leaks(
    summary: Summary, classes: Ints, n_classes: int, columns: Sequence[Column]
) -> tuple[Leak, ...]:
    """Single columns that predict the label, by the values that they have in the table, by whether
    these are at least some number, or by bins.

    ``classes`` are those of each label of the summary, -1 = missing.
    """
    leaks = []
    for column in columns:
        read = summary.columns[column.name].read
        by_label = np.vstack([read.weights, read.missing])[:, :-1] * summary.scale
        table = np.zeros((len(by_label), n_classes))
        for of_label, weights in zip(classes, by_label.T, strict=True):
            if of_label >= 0:
                table[:, of_label] += weights
        numbers = read.content if isinstance(read.content, Numbers) else None
        # QuantileSketch that stand for several numbers are not a value that rows have in common.
        leak = _leak(table, column.name) if numbers is None or numbers.listed else None
        if leak is None and numbers is not None:
            # Numbers of which each occurs once say what they say by their size.
            leak = _parted(table, column.name, numbers)
        if leak is None and column.binned and read.content is not None:
            codes = column.codes(read.content.values, warn=False)
            bins = np.zeros((column.arity + 1, n_classes))
            np.add.at(bins, np.append(codes, -1), table)
            leak = _leak(bins, column.name)
        if leak is not None:
            leaks.append(leak)
    return tuple(leaks)


def merged_leaks(
    source: Source, roles: Roles, sensitive: str, groups: Column, columns: Sequence[Column]
) -> tuple[Leak, ...]:
    """Columns with merged levels that tell a sensitive column by the values in the table.

    First names tell more than their codes do: most of them are rare. Where rows are many or not
    counted, the table is not read again for it. ``sensitive`` names the sensitive column in the
    source, ``groups`` is how it is coded.
    """
    merged = [column for column in columns if column.has_other]
    n_rows = source.n_rows
    if not merged or groups.binned or n_rows is None or n_rows > FEW_ROWS:
        return ()
    names = tuple(column.name for column in merged)
    asked = replace(roles, label=sensitive, sensitive=(), features=names)
    summary = summarise_source(source, asked)
    codes = groups.codes(summary.labels, warn=False).astype(np.int64)
    return label_leaks(summary, codes, groups.arity, merged)


def group_leaks(x: Codes, groups: Codes, weights: Floats, names: Sequence[str]) -> tuple[Leak, ...]:
    """Single columns that tell a sensitive one by their codes.

    A missing feature is a value like others; rows whose group is missing say nothing.
    """
    known = np.flatnonzero((groups >= 0) & (weights > 0))
    if not len(known):
        return ()
    values, codes = np.unique(groups[known], return_inverse=True)
    leaks = []
    for j, name in enumerate(names):
        ids = x[known, j].astype(np.int64) + 1
        shape = int(ids.max()) + 1, len(values)
        counts = np.bincount(ids * len(values) + codes, weights[known], math.prod(shape))
        leaks.append(_leak(counts.astype(np.float64).reshape(shape), name))
    return tuple(leak for leak in leaks if leak is not None)


def warn_leak(leak: Leak, of: str, *, group: bool = False) -> None:
    """Say what gives the label or the group away; a copy of the label has a warning of its own."""
    kind = SameAsLabelWarning if leak.copy and not group else LeakWarning
    warn_caller(kind(leak.sentence(of, group=group)))


def leaving_out(name: str) -> str:
    """How a column is left out."""
    return f"X.drop(columns={[name]!r}) or --drop {quote(name)}"


def _leak(table: Floats, column: str) -> Leak | None:
    """The leak of a table of weights, values × values that are predicted; None where it is none."""
    total = table.sum()
    share = table.sum(axis=0) / max(total, 1.0)
    wrong = _wrong(table)
    if total < FEWEST or wrong > min(WRONG, OF_GUESSES * (1 - share.max())):
        return None
    return Leak(column, 1 - wrong, _one_to_one(table > 0))


def _one_to_one(together: Bools) -> bool:
    """Whether the values that occur together, rows and columns of a table, are pairs."""
    by_row, by_column = together.sum(axis=1), together.sum(axis=0)
    return bool((by_row[by_row > 0] == 1).all() and (by_column[by_column > 0] == 1).all())


def _parted(table: Floats, name: str, numbers: Numbers) -> Leak | None:
    """The leak of numbers that lie below or above one; the last row of the table is for holes."""
    below = np.cumsum(table[:-1], axis=0)
    above = below[-1] - below
    right = below.max(axis=1) + above.max(axis=1)
    apart = np.minimum(below.max(axis=1), above.max(axis=1)) >= EACH_SIDE
    apart &= below.argmax(axis=1) != above.argmax(axis=1)
    last = int(np.argmax(np.where(apart, right, 0.0)))
    leak = _leak(np.stack([below[last], above[last], table[-1]]), name)
    if leak is None or not apart[last]:
        return None
    least = value_label(float(numbers.sketch.values[last + 1]), date=numbers.type == "date")
    return replace(leak, copy=False, least=least)


def _wrong(table: Floats) -> float:
    """Share of rows that the most frequent value of the *other* rows like them tells wrongly.

    A row that is like no other tells nothing, so columns of many values are not leaks for that.
    """
    counts = np.sort(table, axis=1)
    first = counts[:, -1]
    second = counts[:, -2] if table.shape[1] > 1 else np.zeros(len(first))
    right = first[(first > 1) & (first - 1 >= second)].sum()
    return 1.0 - float(right / max(table.sum(), 1e-300))


def check_apart(groups: Groups, labels: Labels, s: Codes, d: Codes) -> None:
    """Refuse a sensitive column that says what the label says; see ``same_as_label``."""
    same = same_as_label(groups, labels, s, d)
    if same is not None:
        raise TableError(same)


def same_as_label(groups: Groups, labels: Labels, s: Codes, d: Codes) -> str | None:
    """A sentence about a sensitive column that says what the label says, row by row; or None.

    ``s`` and ``d`` are the group and the class of each row. Where they go together
    one to one, there is nothing that a decision apart from the group could be
    learned from. A number that was cut into groups says more than they do, and is let pass.
    """
    known = (s >= 0) & (d >= 0)
    n_groups, n_classes = len(groups.cells), len(labels.classes)
    pairs = s[known].astype(np.int64) * n_classes + d[known]
    seen = np.bincount(pairs, minlength=n_groups * n_classes).reshape(n_groups, n_classes) > 0
    for j, column in enumerate(groups.columns):
        values = np.array([cell[j] for cell in groups.cells])
        together = np.stack([seen[values == v].any(axis=0) for v in np.unique(values)])
        several = np.count_nonzero(together.any(axis=1)) > 1
        if several and not column.binned and _one_to_one(together):
            return (
                f"the sensitive column {column.name!r} says the same as the label "
                f"{labels.name!r} in every row: nothing about decisions can be learned from it, "
                "give another column"
            )
    return None


_Read = tuple[int, bool]
"""A column by its number, and whether it is read by its codes or by its raw values."""


def column_copies(
    source: Source, roles: Roles, summary: Summary, columns: Sequence[Column]
) -> Mapping[str, str]:
    """The first column that each copy is a copy of; the table is read again where sizes agree."""
    alike = _alike(
        ((by_code, sizes[not by_code]), (j, by_code))
        for j, sizes in enumerate(_set_sizes(summary, column) for column in columns)
        for by_code in (True, False)
        if sizes[not by_code]
    )
    if not alike:
        return {}
    reads = sorted({read for some in alike for read in some})
    names = sorted({columns[j].name for j, _ in reads})
    names += [] if roles.weight is None else [roles.weight]
    work = partial(_cuts, [(columns[j], by_code) for j, by_code in reads], roles)
    batches = list(source.map(names, work, stage="copies"))
    keys = {read: _canonical([batch[k] for batch in batches]) for k, read in enumerate(reads)}
    same = [some for each in alike for some in _alike((keys[read], read) for read in each)]
    originals: dict[int, int] = {}
    for j, by_code in reads:
        earlier = [i for some in same if (j, by_code) in some for i, _ in some if i < j]
        original = next((i for i in sorted(earlier) if i not in originals), None)
        if original is not None:
            originals[j] = min(original, originals.get(j, original))
    return {columns[j].name: columns[i].name for j, i in originals.items()}


def _alike(keyed: Iterable[tuple[Any, _Read]]) -> list[list[_Read]]:
    """The columns with equal keys, where there are two at least."""
    by_key: dict[Any, list[_Read]] = {}
    for key, read in keyed:
        by_key.setdefault(key, []).append(read)
    return [some for some in by_key.values() if len(some) > 1]


def _cuts(
    reads: Sequence[tuple[Column, bool]], roles: Roles, frame: Frame
) -> list[tuple[bytes, list[Any]]]:
    """Sets of rows with equal values: a digest of each row's first row, and the values of these."""
    used, _ = weighted(frame, roles)
    found = []
    for column, by_code in reads:
        values = read_values(column.name, used.column(column.name), roles.missing_values)
        if by_code:
            ids = column.codes(values, warn=False).astype(np.int64)
            names = list(range(column.arity))
        else:
            if not column.textual and values.type == "text" and column.kind != "boolean":
                values = Values("number", column.numbers(values))
            ids, distinct = numbered(values)
            names = list(distinct.data)
            ids[ids == len(names)] = MISSING
        number, first = distinct_columns([ids], [len(names) + 1])
        cut = np.where(ids < 0, MISSING, first[number]).astype(np.int64)
        digest = blake2b(cut.tobytes(), digest_size=16).digest()
        found.append((digest, [names[i] for i in ids[first].tolist() if i >= 0]))
    return found


def _canonical(cuts: Sequence[tuple[bytes, list[Any]]]) -> tuple[Any, ...]:
    """The cuts of all batches with values numbered as they appear: equal for one-to-one copies."""
    numbers: dict[Any, int] = {}
    return tuple(
        (digest, tuple(numbers.setdefault(value, len(numbers)) for value in values))
        for digest, values in cuts
    )


def _set_sizes(summary: Summary, column: Column) -> tuple[bytes, bytes | None]:
    """Sizes of the sets of rows with equal codes and with equal raw values, apart by class.

    Raw values are left alone where they are many: a different value in every row is a
    one-to-one copy of any other such column.
    """
    read = summary.columns[column.name].read
    by_code = _sizes_by_code(read, column)
    table, total = read.weights, (read.weights.sum() + read.missing.sum()) * summary.scale
    few = len(table) <= _RAW_LEVELS and 2 * len(table) <= total
    listed = read.content is not None and read.content.listed
    if few and listed and (column.binned or column.has_other or column.few):
        return by_code, _sizes(table, read.missing)
    return by_code, None


def _sizes_by_code(read: ColumnSummary, column: Column) -> bytes:
    table = read.weights
    if read.content is None:
        return b""
    own = replace(read.content.values, declared=read.declared)
    codes = column.codes(own, warn=False)
    seen = codes >= 0
    by_label = [np.bincount(codes[seen], w[seen], column.arity) for w in table.T]
    sums = np.stack(by_label, axis=1).astype(np.float64)
    rest = getattr(read.content, "rest", None)
    if rest is not None:
        sums[column.arity - 1] += rest
    return _sizes(sums, read.missing)


def _sizes(table: Floats, missing: Floats) -> bytes:
    seen = np.round(table[table.any(axis=1)], 6) + 0.0
    ordered = seen[np.lexsort(seen.T[::-1])]
    return np.vstack([ordered, np.round(missing, 6)]).tobytes()
