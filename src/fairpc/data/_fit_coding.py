"""Learn how tables become codes: columns, label and groups from the summary of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from fairpc.core import (
    Array,
    Codes,
    ColumnWarning,
    DroppedWarning,
    Floats,
    TableError,
    counted,
    warn_caller,
)
from fairpc.data._binning import value_label
from fairpc.data._coding import Encoding, TableCoding
from fairpc.data._column import Column, Dropped, code_values, numbers_of, unmarked
from fairpc.data._column_summary import ColumnSummary, Numbers
from fairpc.data._fit_column import EncodingOptions, fit_column
from fairpc.data._frame import Frame
from fairpc.data._groups import groups_of, labels_of, warn_of_classes, warn_of_groups
from fairpc.data._leaks import label_leaks, warn_leak
from fairpc.data._source import Roles, Source, Watcher, shown_name
from fairpc.data._summary import Summary, numbered, summarise_source, values_at, weighted
from fairpc.data._table import MISSING, distinct_columns, no_weight
from fairpc.data._values import AS_NUMBERS, Values, read_values

Names = str | int | Iterable[str | int]

LEFT_OUT: Final = "left out on request"
_MOST_SAID: Final = 10
"""Columns that a warning says the reason of."""
_CODE_FAR: Final = 10.0
"""How many times as large as all others a number is that may be a code for a missing value."""
_RAW_LEVELS: Final = 256


def fit_coding(
    source: Source,
    roles: Roles,
    *,
    positive: Any = None,
    options: EncodingOptions | None = None,
    watch: Watcher | None = None,
    again: bool = False,
    given_whole: bool = False,
) -> tuple[TableCoding, bool]:
    """Learn how a table becomes codes, in one pass; and whether its weights count rows.

    Columns that give the label away are warned of, unless the table was coded before (``again``).
    So are columns that are dropped, unless a classifier is ``given`` the table ``whole``.
    """
    summary = summarise_source(source, roles, watch)
    if not summary.weight:
        raise no_weight()
    if not roles.features:
        raise TableError(
            f"the table has n_features = {len(roles.sensitive)}, all of them sensitive: give "
            "features too"
        )
    crossing, sentinels = summary.groups, roles.missing_values
    groups = groups_of(crossing.columns, crossing.rows, crossing.weights, sentinels)
    n_labels = len(summary.labels.data) + bool(summary.label_weights[-1])
    found, known = values_at(summary.labels, np.arange(n_labels)), summary.label_weights[:n_labels]
    labels = labels_of(shown_name(roles.label), found, known, positive, sentinels)
    classes, n_classes = code_values(labels.column, summary.labels), len(labels.classes)
    given = options or EncodingOptions(), classes, n_classes, labels.positive
    features = fit_features(source, roles, summary, *given)
    if not again:
        _warn_of_columns(features, summary)
        _warn_of_codes(features, summary)
        if not given_whole:
            warn_of_dropped([d for d in features.dropped if d.reason != LEFT_OUT])
        warn_of_groups(groups)
        warn_of_classes(labels, len(groups.names))
        for leak in label_leaks(summary, classes.astype(np.int64), n_classes, features.columns):
            warn_leak(leak, f"the label {labels.name!r}")
    sensitive = tuple(name for name in roles.sensitive if name in (roles.names or source.names))
    return TableCoding(features, labels, groups, sensitive), summary.whole


def _warn_of_columns(features: Encoding, summary: Summary) -> None:
    """Say which columns are read otherwise than they are written."""
    for column in features.columns:
        content = summary.columns[column.name].read.content
        if column.written is not None and content is not None and content.remark != AS_NUMBERS:
            warn_caller(
                ColumnWarning(
                    f"column {column.name!r}: {content.remark}; name it with categorical=… to keep "
                    "the text, or the decimal mark with decimal"
                ),
            )


def _warn_of_codes(features: Encoding, summary: Summary) -> None:
    """Say which numbers look like codes for a missing value."""
    for column in features.columns:
        content = summary.columns[column.name].read.content
        if column.kind != "number" or not isinstance(content, Numbers):
            continue
        for code, low, high in _likely_codes(content.sketch.values):
            warn_caller(
                ColumnWarning(
                    f"column {column.name!r} has the number {code}, and others from {low} to "
                    f"{high} only: if it stands for a missing value, say so with "
                    f"missing_values=({code},) or --missing {code}"
                )
            )


def _likely_codes(values: Array) -> Iterator[tuple[str, str, str]]:
    """A first or last number of nines that is far from all others, and the ends of these."""
    for code, others in ((values[-1], values[:-1]), (values[0], values[1:])):
        if abs(code) >= 99 and set(str(int(abs(code)))) == {"9"} and len(others):
            extremes = float(others[0]), float(others[-1])
            if _CODE_FAR * max(map(abs, extremes)) <= abs(code):
                low, high = (value_label(end, date=False) for end in extremes)
                yield repr(code.item()), low, high


def warn_of_dropped(dropped: Sequence[Dropped]) -> None:
    """Say which columns are not used, and why."""
    if dropped:
        each = "; ".join(f"{d.name!r} ({d.reason})" for d in dropped[:_MOST_SAID])
        more = f" and {len(dropped) - _MOST_SAID} more" if len(dropped) > _MOST_SAID else ""
        n = counted(len(dropped), "column is", "columns are")
        warn_caller(DroppedWarning(f"{n} not used: {each}{more}"))


def resolve(names: tuple[str, ...], chosen: Names, option: str) -> frozenset[str]:
    """Names of columns given by name or position; a TableError names one that is not there."""
    resolved = []
    for item in [chosen] if isinstance(chosen, str | int | np.integer) else chosen:
        if isinstance(item, int | np.integer) and -len(names) <= item < len(names):
            resolved.append(names[item])
        elif item in names:
            resolved.append(str(item))
        else:
            raise TableError(
                f"column {item!r} in {option} is not in the table: "
                f"its columns are {', '.join(map(repr, names[:10]))}"
                + (", …" if len(names) > 10 else "")
            )
    return frozenset(resolved)


def fit_features(
    source: Source,
    roles: Roles,
    summary: Summary,
    options: EncodingOptions,
    classes: Codes,
    n_classes: int,
    positive: int = -1,
) -> Encoding:
    """How the features of a table become codes; ``classes`` are those of the distinct labels.

    Columns with one value, identifiers (a different value in every row) and
    one-to-one copies of an earlier column are dropped; ``Encoding.dropped`` says why.
    """
    codes = None
    if options.binning == "label" and n_classes > 1:
        codes = np.append(classes, -1).astype(np.int64)
    reading = summary.scale, codes, positive
    apart = {roles.label, roles.weight, roles.fair}
    names = roles.names or tuple(name for name in source.names if name not in apart)
    fitted: dict[str, Column | Dropped] = {
        name: fit_column(name, summary.columns[name], options.of_column(name), *reading)
        if name in summary.columns
        else Dropped(name, LEFT_OUT)
        for name in names
    }
    copies = _copies(source, roles, summary, [c for c in fitted.values() if isinstance(c, Column)])
    for name, original in copies.items():
        fitted[name] = Dropped(name, f"it is a one-to-one copy of column {original!r}")
    used = tuple(c for c in fitted.values() if isinstance(c, Column))
    dropped = tuple(d for d in fitted.values() if isinstance(d, Dropped))
    if not used:
        reasons = "; ".join(d.message for d in dropped[:3])
        raise TableError(f"no column is left to learn from: {reasons}")
    return Encoding(used, dropped, names, source.from_array, roles.missing_values)


_Read = tuple[int, bool]
"""A column by its number, and whether it is read by its codes or by its raw values."""


def _copies(
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
    """How columns cut a batch into sets of rows with equal values: a digest, and these values.

    The digest is that of the first row of each row's set; values come in the order of these rows.
    """
    used, _ = weighted(frame, roles)
    found = []
    for column, by_code in reads:
        given = read_values(column.name, used.column(column.name), roles.missing_values)
        values = unmarked(column, given)
        if by_code:
            ids, names = code_values(column, values).astype(np.int64), list(range(column.arity))
        else:
            if not column.textual and values.type == "text" and column.kind != "boolean":
                values = Values("number", numbers_of(column, values))
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
    if few and listed and (column.binned or column.merged):
        return by_code, _sizes(table, read.missing)
    return by_code, None


def _sizes_by_code(read: ColumnSummary, column: Column) -> bytes:
    table = read.weights
    if read.content is None:
        return b""
    codes = code_values(column, replace(read.content.values, declared=read.declared))
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
