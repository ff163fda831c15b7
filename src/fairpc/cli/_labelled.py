"""A table by the roles of its columns, with text read as numbers, dates or names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import floor
from shlex import quote
from typing import Any, Final

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import data
from fairpc.core import TableError

_SEEN: Final = 1 << 17
"""Rows of a streamed table that are looked at to tell types and to give hints."""
# What people write where they know nothing; we ask before we believe it.
SUSPECTS: Final = ("?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "unknown")
MOSTLY: Final = 0.9
"""Share of numbers from which a column of text looks like a misread one."""
WORDS: Final = 20
"""Words for missing that a hint offers for one column."""
EXCLUSIVE: Final = (
    ("label", "sensitive", "drop", "given", "weight"),
    ("label", "sensitive", "numeric"),
    ("label", "categorical"),
    ("numeric", "categorical"),
)
"""Roles of which a column has one."""
FAVOURABLE: Final = (
    *("approve", "approved", "grant", "granted", "accept", "accepted", "hire", "hired"),
    *("admit", "admitted", "pay", "paid", "pass", "passed", "good", "favourable", "favorable"),
)
"""Classes whose own word says that they are favourable; a yes to "deny" is not.

Of other labels --positive says it.
"""
MANY_CLASSES: Final = 20
"""Labels of more classes have no favourable one that people could name."""


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table by its roles, in memory or to be streamed."""

    source: str
    roles: opt.ColumnOptions
    X: Any  #: features, the sensitive columns among them; or a source
    y: Any  #: the label; or its name
    labels: pl.DataFrame  #: the raw labels, and how many rows have each
    given: Sequence[str] = ()  #: columns of the strata
    weight: str | None = None  #: the column of the weights
    weights: Any = None  #: its values, or its name; None if there are none
    hints: tuple[str, ...] = ()  #: what a user may want to correct, a sentence each

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.labels[tables.N_ROWS].sum())

    def label_counts(self, labels: data.Labels) -> list[int]:
        """Rows of each class, and last the rows without one."""
        codes = labels.transform(self.labels[self.roles.label])
        counts = [0] * (len(labels.classes) + 1)
        for code, n in zip(codes.tolist(), self.labels[tables.N_ROWS].to_list(), strict=True):
            counts[code] += n
        return counts


def labelled(
    files: data.TableFiles,
    given: opt.ColumnOptions,
    learner: opt.ModelOptions | None = None,
    names: data.Names | None = None,
) -> LabelledTable:
    """Read a table whole, and cut it by its roles; ``names`` are those of its values."""
    roles, strata, weight = _resolved(given, learner or opt.ModelOptions(), files)
    kept = [name for name in files.names() if name not in roles.drop]
    frame = _typed(tables.ready(files.read(kept), files), roles)
    label = data.exactly([roles.label])
    rest, y = frame.drop(label), frame[roles.label]
    counts = frame.group_by(label).len(tables.N_ROWS)
    positive = _favourable(files.source, counts, roles, names or {})
    hints = tuple(_hints(rest, roles, weight))
    weights = None
    if weight is not None:
        weights, rest = rest[weight].to_numpy(), rest.drop(data.exactly([weight]))
    roles = replace(roles, positive=positive)
    return LabelledTable(files.source, roles, rest, y, counts, strata, weight, weights, hints)


def _favourable(
    source: str, labels: pl.DataFrame, roles: opt.ColumnOptions, names: data.Names
) -> str | None:
    """The class that is meant by "positive": the one that is named, or whose own word says it."""
    classes = classes_in(labels[roles.label])
    data.refuse_alike("label", roles.label, classes, names)
    if roles.positive is not None or not 2 <= len(classes) <= MANY_CLASSES:
        return roles.positive  # what is odd about other labels the model says
    known = [name for name in classes if name.lower() in FAVOURABLE]
    if len(known) != 1:
        raise opt.NoPositiveError(
            f"{source}: label {roles.label!r} has the classes {', '.join(map(repr, classes))}, and "
            "which one is favourable is not known",
            classes,
        )
    return known[0]


def classes_in(labels: pl.Series) -> list[str]:
    """The classes of a label as text, in sorted order."""
    given = labels.alias("").drop_nulls().unique().sort().to_list()
    return list(dict.fromkeys(str(name).strip() for name in given))


def under_types(rows: LabelledTable) -> pl.DataFrame:
    """The features of a table in memory, under the types that they are said to have.

    A classifier is given a table, without roles.
    """
    roles = rows.roles
    changed = [rows.X[n].cast(pl.String).cast(pl.Categorical) for n in roles.categorical]
    for name in roles.numeric:
        values = tables.read_cells(rows.X[name], roles.sentinels, roles.decimal)
        if roles.decimal != ".":
            continue  # the model reads it
        values = data.to_numbers(name, values)
        if values.type == "number":
            changed.append(pl.Series(name, values.data, nan_to_null=True))
    features: pl.DataFrame = rows.X.with_columns(changed)
    return features


def streamed(
    files: data.TableFiles,
    given: opt.ColumnOptions,
    client: Any,
    learner: opt.ModelOptions,
    names: data.Names,
) -> LabelledTable:
    """A table by its roles, without reading it whole; workers read it where there is a client."""
    roles, strata, weight = _resolved(given, learner, files)
    apart, label = (roles.label, *roles.sensitive), data.exactly([roles.label])

    def clean(frame: pl.LazyFrame) -> pl.LazyFrame:
        return tables.ready(frame, files).drop(data.exactly(roles.drop))

    with files.reading():
        rows = clean(files.scan())
        seen = rows.select(data.exactly(apart)).unique().head(_SEEN).collect(engine="streaming")
        types = [_type_of(seen[name], roles) for name in apart]
        counts = rows.with_columns(types).group_by(label).len(tables.N_ROWS)
        labels = counts.collect(engine="streaming")
        head = rows.drop(label).head(_SEEN).collect(engine="streaming")
    opening = data.source_of
    if client is not None:
        from fairpc.cluster import file_table

        opening = partial(file_table, client=client)
    source = opening(files, lambda frame: clean(frame).with_columns(types))
    positive = _favourable(files.source, labels, roles, names)
    hints = tuple(_hints(_typed(head, roles), roles, weight))
    roles = replace(roles, positive=positive)
    said = strata, weight, weight, hints
    return LabelledTable(files.source, roles, source, roles.label, labels, *said)


def _resolved(
    roles: opt.ColumnOptions, learner: opt.ModelOptions, files: data.TableFiles
) -> tuple[opt.ColumnOptions, list[str], str | None]:
    """Roles, strata and weight under the names of the table; an error where two contradict."""
    names, source = files.names(), files.source
    wanted = {
        "label": [roles.label],
        "sensitive": roles.sensitive,
        "numeric": roles.numeric,
        "categorical": roles.categorical,
        "drop": roles.drop,
        "given": learner.given,
        "weight": [] if learner.weight is None else [learner.weight],
    }
    columns = {
        role: list(dict.fromkeys(tables.column(names, w, f"--{role}", source) for w in some))
        for role, some in wanted.items()
    }
    for one, other in (pair for some in EXCLUSIVE for pair in combinations(some, 2)):
        if both := set(columns[one]) & set(columns[other]):
            raise TableError(
                f"{source}: column {min(both)!r} is given as --{other} and as --{one}: it can be "
                "one of the two, take the other away"
            )
    strata, weights = columns.pop("given"), columns.pop("weight")
    lists: dict[str, Any] = {"labels": columns.pop("label"), **columns}
    return replace(roles, **lists), strata, weights[0] if weights else None


def _column(series: pl.Series, roles: opt.ColumnOptions) -> pl.Series:
    """A column under its type: text that is nothing but numbers or dates as such, missing as null.

    What is said to be categorical keeps its values; a sensitive column is declared so.
    """
    name = series.name
    # Labels and groups are names, which have no decimals.
    decimal = "." if name in (roles.label, *roles.sensitive) else roles.decimal
    values = tables.read_cells(series, roles.sentinels, decimal)
    known = pl.Series(~values.missing())
    series = pl.select(pl.when(known).then(series).alias(name)).to_series()
    if name in roles.categorical and name in roles.sensitive:
        return series.cast(pl.String).cast(pl.Categorical)
    if series.dtype != pl.String or name in roles.categorical:
        return series
    values = values.parsed()
    if values.type == "text" or values.decimal != ".":
        # The model keeps how numbers are written, for the next table.
        return series
    numbers = pl.Series(values.data, nan_to_null=True)
    if values.type == "date":
        return numbers.cast(pl.Int64).cast(pl.Datetime("us")).alias(name)
    whole = numbers.drop_nulls()
    exact = ((whole == whole.round()) & (whole.abs() < data.EXACT)).all()
    return (numbers.cast(pl.Int64) if exact else numbers).alias(name)


def _typed(frame: pl.DataFrame, roles: opt.ColumnOptions) -> pl.DataFrame:
    return frame.with_columns(_column(series, roles) for series in frame)


def _type_of(seen: pl.Series, roles: opt.ColumnOptions) -> pl.Expr:
    """A column that is streamed, under the type of the values that it has."""
    column: pl.Expr = data.exactly([seen.name]).as_expr()
    dtype = _column(seen, roles).dtype
    if seen.dtype != pl.String:
        return column
    known = pl.when(~column.is_in([v for v in roles.sentinels if isinstance(v, str)])).then(column)
    # Text like "1.0" is a whole number too.
    read = known.cast(pl.Float64).cast(dtype) if dtype.is_numeric() else known
    return read.alias(seen.name)


def _hints(frame: pl.DataFrame, roles: opt.ColumnOptions, weight: str | None) -> Iterator[str]:
    """Weights that count rows, and texts like "missing"."""
    weights = pl.Series([0]) if weight is None else frame[weight]
    if weights.dtype.is_numeric() and (weights % 1 == 0).all() and (weights > 1).any():
        yield (
            f"whole weights count rows, as if each were in the table so often: if {weight!r} has "
            "survey weights, divide them by their mean, or what is said is much too sure"
        )
    words = [w for w in SUSPECTS if w not in roles.missing]
    found: dict[str, list[str]] = {}
    texts = frame.select(pl.col(pl.String)).get_columns()
    for series in texts:
        nameless = series.alias("")
        for word in set(words) & set(nameless.filter(nameless.is_in(words)).unique().to_list()):
            found.setdefault(word, []).append(series.name)
    for word, names in sorted(found.items()):
        yield (
            f"{word!r} is read as a value in {tables.listed(names, 5)}: if it means missing, "
            f"add --missing '{word}'"
        )
    for series in texts:
        known = series.alias("").drop_nulls()
        finite = known.cast(pl.Float64, strict=False).is_finite().fill_null(False)
        share: Any = finite.mean() or 0.0
        if series.name not in roles.categorical and share > MOSTLY:
            others = known.filter(~finite).unique().sort().to_list()
            if not others:  # codes with leading zeros
                continue
            marks = " ".join(f"--missing {quote(word)}" for word in others)
            repair = f"with the others as missing, add {marks}; or correct them"
            if len(others) > WORDS:
                few = tables.listed(others, 3)
                repair = f"correct or empty its {len(others)} different others ({few})"
            yield (
                f"{series.name!r} is read as names although {floor(100 * share)}% of its values "
                f"are numbers: to read numbers, {repair}"
            )
