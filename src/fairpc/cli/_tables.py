"""What a command is given: a table, with its columns found and its cells made ready; a model.

What cannot be read or written is refused before the work begins.
"""

from __future__ import annotations

import codecs
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, BinaryIO, Final, TypeVar

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
from fairpc import core, data, models
from fairpc.cli._screen import Screen
from fairpc.core import FairpcError, FileFormatError, OptionError, TableError

Frame = TypeVar("Frame", "pl.DataFrame", "pl.LazyFrame")

STREAMED_BYTES: Final = 1 << 28
"""Files of more bytes are streamed."""

STDIN_BYTES: Final = 1 << 34
"""Most bytes of a table on stdin, which is copied to a file before it is read."""
_PIECE: Final = 1 << 20
_FIRST: Final = 10_000
"""Rows of a table in which values of the fit are looked for first."""

N_ROWS: Final = "\0rows"
"""Name of the counts beside labels, which no column of a table has."""

STDIN: Final = "-"
STDOUT: Final = "-"
ALONE: Final = "; if there should be more columns than one, give --delimiter"
"""What may be the matter with a table of one column."""

FORMULA: Final = r"^[=+\-@\t\r]"
"""How text begins that a spreadsheet takes for a formula; numbers do so too, and are none."""
CLOSE: Final = 0.8
"""Names at least as alike, from 0 to 1, are taken for one name and a slip."""


@contextmanager
def opened(
    table: str, text: opt.TextFormat, at_fit: Mapping[str, str] = MappingProxyType({})
) -> Iterator[data.TableFiles]:
    """The files of a table: a path, a folder, a pattern, or "-" for what comes on stdin.

    What is not said of it is as it was said ``at_fit``; an encoding where it is not UTF-8.
    """
    delimiter = at_fit.get("delimiter") if text.delimiter is None else text.delimiter
    # In most shells a tab is hard to type.
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    with ExitStack() as kept:
        path, source, encoding = table, table, text.encoding
        if table == STDIN:
            path, source = str(_scratch(kept)), "the table on stdin"
            _copy_stdin(Path(path), source)
        if encoding is None:
            try:
                called = None if path == table else source
                files = data.find(path, delimiter=delimiter, source=called)
            except data.NotUtf8Error:
                encoding = at_fit.get("encoding")
                if encoding is None or not Path(path).is_file():
                    raise
        if encoding is not None:
            copy = _scratch(kept)
            _recode(path, copy, encoding, source)
            files = data.find(copy, delimiter=delimiter, source=source)
        yield files


def _scratch(kept: ExitStack) -> Path:
    """A file of our own, in a folder that goes with the block."""
    return core.private_file(kept.enter_context(core.private_folder()) / "table")


def _copy_stdin(copy: Path, source: str) -> None:
    """Write what is on stdin to a file, no further than to a limit: it may be endless."""
    if sys.stdin.isatty():
        raise FileFormatError("there is no input on stdin: pipe a table in, or give its path")
    total = 0
    with _room(copy, source), copy.open("wb") as out:
        while piece := sys.stdin.buffer.read(_PIECE):
            total += len(piece)
            if total > STDIN_BYTES:
                raise FileFormatError(
                    f"{source} has more than {STDIN_BYTES:,} bytes: write it to a file and give "
                    "its path"
                )
            out.write(piece)


def _recode(path: str, copy: Path, encoding: str, source: str) -> None:
    """Write a file in another encoding to a file of its own in UTF-8."""
    try:
        b" ".decode(encoding)  # knows rot13 and its like from encodings of text
    except UnicodeError:
        pass  # one space is not text in UTF-16
    except (LookupError, ValueError):
        raise FileFormatError(
            f"the encoding {encoding!r} is unknown: give one such as utf-8, cp1252 or latin-1"
        ) from None
    if not Path(path).is_file():
        raise FileFormatError(f"there is no file {source}: check the name and the folder")
    try:
        with (
            Path(path).open("rb") as file,
            _room(copy, source),
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(codecs.getreader(encoding)(file), out, _PIECE)
    except UnicodeError as error:
        raise FileFormatError(
            f"{source} is not written in {encoding} ({error}): give its encoding, such as cp1252"
        ) from None


@contextmanager
def _room(copy: Path, source: str) -> Iterator[None]:
    """A block that writes the copy of a table; an error says where there was no room for it."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileFormatError(
            f"{source} cannot be copied to {copy.parent.parent} ({reason}): set TMPDIR to a folder "
            "with more space"
        ) from error


@contextmanager
def about(source: str) -> Iterator[None]:
    """A block whose errors are said to be about a table."""
    try:
        yield
    except FileFormatError:
        raise
    except FairpcError as error:
        if str(error).startswith(source):
            raise
        raise TableError(f"{source}: {error}") from error


def check_output(output: str | None, *reads: str | None) -> None:
    """Refuse a file that cannot be written, or that is part of what the command reads."""
    if output is None:
        return
    for given in reads:
        if given is not None and data.is_part(output, given):
            raise OptionError(
                f"-o {output} would write into the input ({given}): give -o another file"
            )
    core.check_writable(output)


def target_of(output: str, screen: Screen, *reads: str) -> str | BinaryIO:
    """Where a table is written: a file, by its name, or stdout."""
    if output != STDOUT:
        data.format_of(output)
        check_output(output, *reads)
        return output
    if screen.json:
        raise OptionError("-o - and --json both want stdout: give -o a file, or leave out --json")
    return sys.stdout.buffer


def loaded(path: str, *, then: str = "TABLE") -> models.FittedModel:
    """The model of a file; where there is none, what is expected there and after it."""
    order = f"give MODEL, a file that `fairpc fit` wrote, and then {then}"
    try:
        return models.load(path)
    except FileNotFoundError:
        raise FileFormatError(f"there is no model {path}: {order}") from None
    except FileFormatError as error:
        if is_scorer(path):
            raise FileFormatError(
                f"{path} is a scorer that distil made, and only predict takes it: audit it by "
                "`fairpc predict --decide-as decided`, then `fairpc audit TABLE --decision decided`"
            ) from None
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                if file.read(1) == b"{":  # as models begin: it was altered, or is of another kind
                    raise
        raise FileFormatError(f"{path} is not a model: {order}") from error


def is_scorer(path: str) -> bool:
    """Whether a file was written by ``distil``; what else is wrong with it is said by others."""
    try:
        data = core.read_whole(path, models.MAX_BYTES)
    except (OSError, FileFormatError):
        return False
    return f'"format":"{models.SCORER_FORMAT}"'.encode() in data


def client_of(scheduler: str | None) -> AbstractContextManager[Any]:
    """A block with a client of Dask; None where this process does the work."""
    if scheduler is None:
        return nullcontext()
    from fairpc.cluster import connected

    return connected(scheduler)


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
        repair = f"its columns are {listed(names, 12)}"
    if len(names) == 1:
        repair += ALONE
    elif any(opt.as_number(name) is not None for name in names):
        repair += "; the table needs a header line with the names of its columns"
    raise TableError(f"{source} has no column {wanted!r} ({option}): {repair}")


def display_names(naming: opt.Naming, files: data.TableFiles) -> dict[str, dict[str, str]]:
    """Column of a table -> value -> what it is called."""
    named = naming.names.items()
    return {column(files.names(), name, "--name", files.source): words for name, words in named}


def ready(frame: Frame, files: data.TableFiles) -> Frame:
    """The cells as they are coded: text files without the blanks around values."""
    if files.format != "text":
        return frame
    return frame.with_columns(pl.col(pl.String).str.strip_chars())


def note_absent(model: models.FittedModel, files: data.TableFiles, screen: Screen) -> None:
    """Say which features are absent, and so missing in every row; refuse what looks like a slip."""
    absent = absent_features(model, files.names())
    if not absent:
        return
    coding = model.coding_
    known = coding.features.names
    if len(absent) == len(known):
        raise TableError(
            f"{files.source} has none of the features of the model ({listed(known)}): give a "
            f"table with at least one of them{ALONE if len(files.names()) == 1 else ''}"
        )
    taken = {*coding.features.names_in, *coding.groups.column_names, coding.labels.name}
    others = {name.lower(): name for name in files.names() if name not in taken}
    for name in absent:
        for close in get_close_matches(name.lower(), others, n=1, cutoff=CLOSE):
            raise TableError(
                f"{files.source} has no column {name!r}, and {others[close]!r}, which the model "
                f"does not know, looks like it: rename that, or add an empty column {name!r}"
            )
    screen.note(
        f"{files.source} has no column {listed(absent)}: that counts as missing in every row"
    )


def unseen_columns(
    model: models.FittedModel, files: data.TableFiles, allowed: Sequence[str] | None, screen: Screen
) -> tuple[str, ...]:
    """Columns of which no value was there at fit, and that may be such; a TableError for others.

    The first rows settle most columns; others are looked through before anything is written.
    """
    names, coding, found = files.names(), model.coding_, []
    may = {column(names, name, "--allow-unseen", files.source) for name in allowed or ()}
    parts = () if coding.features.from_array else (coding.features, coding.groups)
    known = [(c, p) for p in parts for c in p.columns if c.name in names]
    levels = [(c, p) for c, p in known if not (c.binned or c.open)]
    with files.reading(), about(files.source):
        rows = ready(files.scan(), files)
        head = rows.select(data.exactly({c.name for c, _ in levels})).head(_FIRST).collect()
        for each, part in levels:
            if each.any_seen(_values(head[each.name], part)):
                continue
            if (new := _all_new(each, part, rows)) is None:
                continue
            if each.name not in may:
                shown = listed(each.labels, 3)
                raise TableError(
                    f"none of the {new} of column {each.name!r} was there at fit ({shown}): give "
                    "them as they were, or let them count as missing with --allow-unseen "
                    f"{quote(each.name)}"
                )
            screen.note(f"column {each.name!r} has {new}, none there at fit: all count as missing")
            found.append(each.name)
    return tuple(found)


def _all_new(
    column: data.Column, part: data.Encoding | data.Groups, rows: pl.LazyFrame
) -> str | None:
    """How many values a column has, and some, where none was there at fit; a few may be new."""
    counts = rows.group_by(data.exactly([column.name])).len(N_ROWS).collect(engine="streaming")
    values = _values(counts[column.name], part)
    given = counts.filter(~pl.Series(values.missing()))
    n = int(given[N_ROWS].sum())
    if n < data.TYPE_ROWS or column.any_seen(values):
        return None
    return f"{n:,} values ({listed(sorted(given[column.name].to_list()), 3)})"


def _values(series: pl.Series, part: data.Encoding | data.Groups) -> data.Values:
    values = read_cells(series, part.missing_values)
    return data.bare(values) if isinstance(part, data.Groups) else values


def read_cells(
    series: pl.Series, marks: Sequence[data.Sentinel], decimal: str = "."
) -> data.Values:
    """The cells of a column as models read them."""
    import narwhals as nw

    wrapped = nw.from_native(series, series_only=True)
    return data.read_values(series.name, wrapped, marks, decimal=decimal)


def absent_features(model: models.FittedModel, names: tuple[str, ...]) -> tuple[str, ...]:
    """Features that are not among some columns, and can be marginalised.

    Columns of an array go by position instead; a classifier says itself what it needs.
    """
    features = model.coding_.features
    if features.from_array or isinstance(model, models.LatentDecision):
        return ()
    return tuple(name for name in features.names if name not in names)


def listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def evidence(
    model: models.FittedModel, cells: pl.DataFrame, unseen: Sequence[str] = ()
) -> dict[str, Any]:
    """Arguments of a model's methods for the rows of a table: X, and groups where they are apart.

    A model that was given its groups apart from X, in Python, finds them by the names of their
    columns. Columns that are ``unseen`` count as missing.
    """
    cells = _with_empty(model, cells, tuple(cells.columns), unseen)
    names = model.coding_.groups.column_names
    if model.coding_.sensitive or not set(names) <= set(cells.columns):
        return {"X": cells}
    apart = data.exactly(name for name in names if name not in model.coding_.features.names_in)
    return {"X": cells.drop(apart), "sensitive_features": cells[list(names)]}


def used_columns(model: models.FittedModel, names: Sequence[str], *more: str) -> list[str]:
    """The columns of a table that the model was fitted with, and some more."""
    features, groups = model.coding_.features, model.coding_.groups.column_names
    if features.from_array and not set(features.names) <= set(names):
        return [*names]  # known by position: all of them
    return [name for name in names if name in (*features.names_in, *groups, *more)]


def model_source(
    model: models.FittedModel, files: data.TableFiles, unseen: Sequence[str]
) -> data.Source:
    """A table to be streamed to a model."""
    names = files.names()
    return data.source_of(
        files, lambda frame: _with_empty(model, ready(frame, files), names, unseen)
    )


def _with_empty(
    model: models.FittedModel, frame: Frame, names: tuple[str, ...], unseen: Sequence[str]
) -> Frame:
    """A table in which features that are absent, and columns of new values, are empty."""
    empty = dict.fromkeys((*absent_features(model, names), *unseen))
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in empty)


def without_formulas(batch: pl.DataFrame) -> pl.DataFrame:
    """A table in which no spreadsheet finds a formula: such text begins with a quotation mark."""
    text = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    formula = text.str.contains(FORMULA) & text.cast(pl.Float64, strict=False).is_null()
    safe = batch.with_columns(pl.when(formula).then("'" + text).otherwise(text).name.keep())
    quoted = {name: f"'{name}" for name in batch.columns if re.search(FORMULA, name)}
    for name, new in quoted.items():
        while new in batch.columns:
            new = f"'{new}"
        quoted[name] = new
    return safe.rename(quoted)


def is_large(files: data.TableFiles) -> bool:
    """Whether a table is better streamed."""
    return sum(path.stat().st_size for path in files.paths) > STREAMED_BYTES
