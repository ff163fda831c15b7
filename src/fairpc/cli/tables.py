"""The table that a command is given: opened, its columns found, its cells made ready."""

from __future__ import annotations

import codecs
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli.absent import absent_features
from fairpc.data.files import TableFiles, find
from fairpc.data.values import EXACT, read_values
from fairpc.errors import FairpcError, FileFormatError, TableError

if TYPE_CHECKING:
    import polars as pl

    from fairpc.data.labels import Labels
    from fairpc.estimators.base import CircuitClassifier

STDIN: Final = "-"
# What people write where they know nothing; we ask before we believe it.
SUSPECTS: Final = ("?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "unknown")
MOSTLY: Final = 0.9
"""Share of numbers from which a column of text looks like a misread one."""


@dataclass(frozen=True)
class Reading:
    """How a text table is to be read, where that cannot be told from it."""

    delimiter: str | None = None
    encoding: str | None = None


@dataclass(frozen=True)
class Roles:
    """Which column is what, and what its values mean.

    Attributes:
        label, sensitive: columns of D and of S.
        positive: the class that is meant by "positive"; None: the last one.
        numeric, categorical, drop: columns whose kind is corrected, or that are left out.
        missing: texts that mean "missing"; empty cells always do.
    """

    label: str
    sensitive: tuple[str, ...]
    positive: str | None = None
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def sentinels(self) -> tuple[str | float, ...]:
        """What means "missing", as text and, where it is a number, as that."""
        return ("", *self.missing, *(n for n in map(_number, self.missing) if n is not None))


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table cut into features (the sensitive columns among them) and label.

    Attributes:
        hints: what a user may want to correct, a sentence each.
    """

    source: str
    roles: Roles
    X: pl.DataFrame
    y: pl.Series
    hints: tuple[str, ...] = field(default=())

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.X.height

    def label_counts(self, labels: Labels) -> list[int]:
        """Rows of each class, and last the rows without one."""
        codes = labels.transform(self.y)
        return [int((codes == k).sum()) for k in (*range(len(labels.classes)), -1)]

    def mean_log_likelihood(self, model: CircuitClassifier) -> float:
        """Per row of the table."""
        return float(model.score_samples(self.X, self.y).mean())

    def fit(self, model: CircuitClassifier, **options: Any) -> CircuitClassifier:
        """Fit a model to the table."""
        return model.fit(self.X, self.y, **options)


@contextmanager
def opened(table: str, reading: Reading) -> Iterator[TableFiles]:
    """The files of a table: a path, a folder, a pattern, or "-" for what comes on stdin."""
    if reading.encoding is None and table != STDIN:
        yield find(table, delimiter=reading.delimiter)
        return
    with tempfile.TemporaryDirectory(prefix="fairpc-") as folder:
        copy = Path(folder) / "table"
        source = "the table on stdin" if table == STDIN else table
        _copy(table, copy, reading.encoding)
        yield find(copy, delimiter=reading.delimiter, source=source)


def _copy(table: str, copy: Path, encoding: str | None) -> None:
    """Write what is on stdin, or in another encoding, to a file of its own in UTF-8."""
    if table == STDIN:
        if sys.stdin.isatty():
            raise FileFormatError("nothing comes on stdin: pipe a table in, or give its path")
        with copy.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        if encoding is None:
            return
    origin = copy.rename(copy.with_name("raw")) if table == STDIN else Path(table)
    try:
        codecs.lookup(encoding or "")
    except LookupError:
        raise FileFormatError(
            f"the encoding {encoding!r} is unknown: give one such as utf-8, cp1252 or latin-1"
        ) from None
    if not origin.is_file():
        raise FileFormatError(f"there is no file {table}: check the name and the folder")
    try:
        with (
            origin.open(encoding=encoding, newline="") as file,
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(file, out)
    except UnicodeError as error:
        raise FileFormatError(f"{table} is not written in {encoding}: {error}") from None


@contextmanager
def about(source: str) -> Iterator[None]:
    """Errors of a block, said to be about a table, which they do not know by name."""
    try:
        yield
    except FileFormatError:
        raise
    except FairpcError as error:
        if str(error).startswith(source):
            raise
        raise TableError(f"{source}: {error}") from error


def column(names: Sequence[str], wanted: str, option: str, source: str) -> str:
    """The column that is meant: exactly, or but for blanks around its name."""
    if wanted in names:
        return wanted
    stripped = [name for name in names if name.strip() == wanted.strip()]
    if len(stripped) == 1:
        return stripped[0]
    lower = {name.strip().lower(): name for name in names}
    close = [lower[name] for name in get_close_matches(wanted.strip().lower(), lower, n=3)]
    if close:
        repair = f"did you mean {' or '.join(map(repr, close))}?"
    else:
        more = ", …" if len(names) > 12 else ""
        repair = f"its columns are {', '.join(map(repr, names[:12]))}{more}"
    if len(names) == 1:
        repair += "; if there should be more, give --delimiter"
    elif any(_number(name) is not None for name in names):
        repair += "; the table needs a header line with the names of its columns"
    raise TableError(f"{source} has no column {wanted!r} ({option}): {repair}")


def ready(frame: pl.DataFrame, files: TableFiles) -> pl.DataFrame:
    """The cells as they are coded: text files without the blanks around values."""
    import polars as pl

    if files.format != "text":
        return frame
    return frame.with_columns(pl.col(pl.String).str.strip_chars())


def evidence(model: CircuitClassifier, cells: pl.DataFrame) -> dict[str, Any]:
    """Arguments of a model's methods for the rows of a table: X, and groups where they are apart.

    Features that are absent are empty columns of X. A model that was given its groups apart from
    X, in Python, finds them by the names of their columns.
    """
    import polars as pl

    absent = absent_features(model, tuple(cells.columns))
    cells = cells.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    names = model.coding_.groups.column_names
    if model.coding_.sensitive or not set(names) <= set(cells.columns):
        return {"X": cells}
    return {"X": cells, "sensitive_features": cells.select(names)}


def labelled(files: TableFiles, given: Roles) -> LabelledTable:
    """Read a table whole, and cut it by its roles."""
    roles = resolved(given, files)
    frame = ready(files.read(), files).drop(roles.drop)
    y = typed(frame[roles.label], roles)
    rest = frame.drop(roles.label)
    rest = rest.with_columns(_column(series, roles) for series in rest)
    return LabelledTable(files.source, roles, rest, y, tuple(_hints(rest, roles)))


def resolved(roles: Roles, files: TableFiles) -> Roles:
    """The roles under the names of the table; an error where two of them contradict."""
    names, source = files.names(), files.source

    def all_of(wanted: Sequence[str], option: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column(names, w, option, source) for w in wanted))

    label = column(names, roles.label, "--label", source)
    sensitive = all_of(roles.sensitive, "--sensitive")
    lists = {n: all_of(getattr(roles, n), f"--{n}") for n in ("numeric", "categorical", "drop")}
    if label in sensitive:
        raise TableError(
            f"{source}: column {label!r} is given as --label and as --sensitive: the label and the "
            "sensitive attribute must be different columns"
        )
    for option, chosen in lists.items():
        taken = {label, *(sensitive if option != "categorical" else ())} & set(chosen)
        if taken:
            role = "label" if label in taken else "sensitive attribute"
            raise TableError(
                f"{source}: column {min(taken)!r} is the {role} and is given as --{option} too: "
                "take one of the two away"
            )
    both = set(lists["numeric"]) & set(lists["categorical"])
    if both:
        raise TableError(
            f"{source}: column {min(both)!r} is given as --numeric and as --categorical: choose one"
        )
    return Roles(label, sensitive, roles.positive, missing=roles.missing, **lists)


def typed(series: pl.Series, roles: Roles) -> pl.Series:
    """A column of text that is nothing but numbers or dates as such; what is missing is null."""
    import polars as pl

    series = _without_sentinels(series, roles.sentinels)
    if series.dtype != pl.String:
        return series
    values = read_values(series.name, _wrapped(series), parse=True)
    if values.type == "text":
        return series
    numbers = pl.Series(series.name, values.data, nan_to_null=True)
    if values.type == "date":
        return numbers.cast(pl.Int64).cast(pl.Datetime("us"))
    whole = numbers.drop_nulls()
    exact = ((whole == whole.round()) & (whole.abs() < EXACT)).all()
    return numbers.cast(pl.Int64) if exact else numbers


def _without_sentinels(series: pl.Series, sentinels: Sequence[str | float]) -> pl.Series:
    import polars as pl

    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        missing = series.cast(pl.String).is_in([v for v in sentinels if isinstance(v, str)])
    elif series.dtype.is_numeric():
        missing = series.is_in([v for v in sentinels if not isinstance(v, str)])
    else:
        return series
    return pl.select(pl.when(~missing).then(series).alias(series.name)).to_series()


def _column(series: pl.Series, roles: Roles) -> pl.Series:
    """A column under its type; a sensitive one that is said to be categorical is declared so."""
    import polars as pl

    if series.name not in roles.categorical:
        return typed(series, roles)
    series = _without_sentinels(series, roles.sentinels)
    if series.name in roles.sensitive:
        return series.cast(pl.String).cast(pl.Categorical)
    return series


def _wrapped(series: pl.Series) -> Any:
    import narwhals as nw

    return nw.from_native(series, series_only=True)


def _hints(frame: pl.DataFrame, roles: Roles) -> Iterator[str]:
    """Texts that look like "missing" and are read as values."""
    import polars as pl

    words = [w for w in SUSPECTS if w not in roles.missing]
    found: dict[str, list[str]] = {}
    for series in frame.select(pl.col(pl.String)):
        for word in set(words) & set(series.filter(series.is_in(words)).unique().to_list()):
            found.setdefault(word, []).append(series.name)
    for word, names in sorted(found.items()):
        shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
        yield (
            f"{word!r} is read as a value in {shown}: if it means that nothing is known, add "
            f"--missing '{word}'"
        )
    for series in frame.select(pl.col(pl.String)):
        if series.name not in roles.categorical and (share := _share_of_numbers(series)) > MOSTLY:
            yield (
                f"{series.name!r} is read as names although {floor(100 * share)}% of its values "
                "are numbers: mend the others, or name what means that nothing is known with "
                "--missing"
            )


def _share_of_numbers(series: pl.Series) -> float:
    """Of the values that are there, those that are finite numbers."""
    import polars as pl

    known = series.drop_nulls()
    numbers = known.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    return float(numbers.mean() or 0.0) if len(known) else 0.0  # type: ignore[arg-type]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
