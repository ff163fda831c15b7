"""A table that is too large to be read whole: made ready lazily, its facts found in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli.options import Roles
from fairpc.cli.tables import Opening, absent_features, ready, resolved, typed
from fairpc.data.files import TableFiles
from fairpc.data.source import Source, source_of

if TYPE_CHECKING:
    import polars as pl

    from fairpc.data.labels import Labels
    from fairpc.estimators.base import CircuitClassifier

STREAMED_BYTES: Final = 1 << 28
"""Files of more bytes are streamed."""

_SEEN: Final = 1 << 17


@dataclass(frozen=True, eq=False)
class StreamedTable:
    """A table that is read in batches: features, sensitive columns and label.

    Attributes:
        table: its rows.
        labels: the raw labels, and how many rows have each.
        hints: none, for they would cost a pass over all cells.
    """

    source: str
    roles: Roles
    table: Source
    labels: pl.DataFrame
    hints: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.labels["len"].sum())

    def label_counts(self, labels: Labels) -> list[int]:
        """Rows of each class, and last the rows without one."""
        codes = labels.transform(self.labels[self.roles.label])
        counts = [0] * (len(labels.classes) + 1)
        for code, n in zip(codes.tolist(), self.labels["len"].to_list(), strict=True):
            counts[code] += n
        return counts

    def mean_log_likelihood(self, model: CircuitClassifier) -> float:
        """Per training row, as EM ended with."""
        return float(model.history_["log_likelihood"][-1])

    def fit(self, model: CircuitClassifier, **options: Any) -> CircuitClassifier:
        """Fit a model to the table."""
        return model.fit(self.table, self.roles.label, **options)


def is_large(files: TableFiles) -> bool:
    """Whether a table is better streamed."""
    return sum(path.stat().st_size for path in files.paths) > STREAMED_BYTES


def streamed(files: TableFiles, given: Roles, opening: Opening = source_of) -> StreamedTable:
    """A table by its roles, without reading it whole; ``opening`` says who reads it."""
    import polars as pl

    roles = resolved(given, files)
    apart = (roles.label, *roles.sensitive)

    def clean(frame: pl.LazyFrame) -> pl.LazyFrame:
        return ready(frame, files).drop(roles.drop)

    with files.reading():
        rows = clean(files.scan())
        seen = rows.select(apart).unique().head(_SEEN).collect(engine="streaming")
        types = [_typed(seen[name], roles) for name in apart]
        counts = rows.with_columns(types).group_by(roles.label).agg(pl.len())
        labels = counts.collect(engine="streaming")
    source = opening(files, lambda frame: clean(frame).with_columns(types))
    return StreamedTable(files.source, roles, source, labels)


def ready_source(model: CircuitClassifier, files: TableFiles) -> Source:
    """A table for a model: cells as they are coded, features that are absent as empty columns."""
    import polars as pl

    absent = absent_features(model, files.names())
    empty = [pl.lit(None, pl.String).alias(name) for name in absent]
    return source_of(files, lambda frame: ready(frame, files).with_columns(empty))


def _typed(seen: pl.Series, roles: Roles) -> pl.Expr:
    """A column under the type of the values that it has."""
    import polars as pl

    name = seen.name
    column = pl.col(name)
    if seen.dtype != pl.String:
        return column
    known = pl.when(~column.is_in([v for v in roles.sentinels if isinstance(v, str)])).then(column)
    dtype = pl.String if name in roles.categorical else typed(seen, roles).dtype
    if dtype.is_numeric():
        # Text like "1.0" is a whole number too.
        return known.cast(pl.Float64).cast(dtype).alias(name)
    return known.alias(name)
