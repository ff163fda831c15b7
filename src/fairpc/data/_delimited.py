"""Text tables (CSV, TSV and the like): their delimiter and header, and rows of another width."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.core import FileFormatError, refuse
from fairpc.data._frame import MAX_COLUMNS, doubled

if TYPE_CHECKING:
    import polars as pl

DELIMITERS: Final = ",;\t|"
NAMES: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_QUOTED: Final = re.compile(r'"[^"]*(?:"|\Z)')
_LINE_END: Final = re.compile("[\r\n]")
_NOWHERE: Final = "\x1f"  # "unit separator": a delimiter that text tables do not use
_AS_TEXT: Final[Mapping[str, Any]] = {"infer_schema": False, "glob": False}


class NotUtf8Error(FileFormatError):
    """A table is text in another encoding."""


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    delimiter: str  #: what stands between two values
    names: tuple[str, ...]  #: the header line
    blank_lines: bool  #: whether there are blank lines, which are not rows

    def scan(self, path: Path) -> pl.LazyFrame:
        """The rows, every value as the text that it is; empty cells are null."""
        import polars as pl

        # polars leaves doubled quotes in names as they are; csv does not.
        named: Any = {"with_column_names": lambda _: list(self.names)}
        rows = pl.scan_csv(path, separator=self.delimiter, **named, **_AS_TEXT)
        return rows.filter(~pl.all_horizontal(pl.all().is_null())) if self.blank_lines else rows


def read_dialect(path: Path, source: str, delimiter: str | None = None) -> Dialect:
    """How the table is written; a FileFormatError names the line that breaks the rules.

    Every line is looked at: a table with a row too short or too long is refused, not padded.
    """
    if delimiter is not None and not re.fullmatch(r"[\t !#-~]", delimiter):
        raise FileFormatError(
            f"the delimiter {delimiter!r} is not a single character of ASCII that can separate "
            "values: give one, such as ';'"
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            chosen = delimiter or _delimiter_of(file.read(1 << 16))
            file.seek(0)
            names = next((tuple(row) for row in csv.reader(file, delimiter=chosen) if row), ())
    except UnicodeDecodeError as error:
        raise _not_unicode(source, error) from None
    except csv.Error as error:
        raise FileFormatError(
            f"{source}, line 1: the header cannot be read ({error}): give names of columns"
        ) from None
    _check_names(names, source)
    return Dialect(chosen, names, _check_lines(path, source, chosen, len(names)))


def _delimiter_of(text: str) -> str:
    """The delimiter that the header has most of outside quotes; a comma where it has none."""
    header = _QUOTED.sub("", text).lstrip("\r\n")
    return max(DELIMITERS, key=_LINE_END.split(header, 1)[0].count)


def _check_names(names: tuple[str, ...], source: str) -> None:
    if not any(name.strip() for name in names):
        raise FileFormatError(f"{source} is empty: give a table with a header line and rows")
    if len(names) > MAX_COLUMNS:
        raise FileFormatError(
            f"{source} has {len(names):,} columns: at most {MAX_COLUMNS:,} can be learned from, "
            "drop those that say nothing about the decision"
        )
    refuse(FileFormatError, doubled(names, f"{source}: "))


def _check_lines(path: Path, source: str, delimiter: str, width: int) -> bool:
    """Refuse rows that are wider or shorter than the header; whether there are blank lines."""
    import polars as pl

    line, quote = pl.col("line"), '"'
    quotes = line.str.count_matches(quote, literal=True)
    bare = pl.when(quotes > 0).then(line.str.replace_all('"(?:[^"]|"")*"', "")).otherwise(line)
    found = bare.str.count_matches(delimiter, literal=True) + 1
    wrong = found != width
    whole: Any = {"quote_char": None, "has_header": False, "new_columns": ["line"]}
    lines = pl.scan_csv(path, separator=_NOWHERE, **whole, **_AS_TEXT)
    facts = {"odd": ((quotes % 2) == 1).any(), "blank": line.is_null().any(), "wrong": wrong.any()}
    facts |= {"row": wrong.arg_max(), "found": found.get(wrong.arg_max())}
    try:
        seen = lines.select(**facts).collect(engine="streaming").row(0, named=True)
    except pl.exceptions.PolarsError as error:
        if "utf-8" in str(error):
            raise _not_unicode(source, error) from None
        seen = {"odd": True}
    if seen["odd"]:
        # Values that hold line breaks: the rows must be read one by one.
        return _check_rows(path, source, delimiter, width)
    if seen["wrong"]:
        raise _ragged(source, seen["row"] + 1, seen["found"], width, delimiter)
    return bool(seen["blank"])


def _check_rows(path: Path, source: str, delimiter: str, width: int) -> bool:
    """As ``_check_lines``, row by row; a row may span lines."""
    blank, first = False, 1
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if row and len(row) != width:
                    raise _ragged(source, first, len(row), width, delimiter)
                blank, first = blank or not row, reader.line_num + 1
        except UnicodeDecodeError as error:
            raise _not_unicode(source, error) from None
        except csv.Error as error:
            raise FileFormatError(
                f"{source}, line {first}: it cannot be read ({error}): look for a quotation mark "
                "that is not closed"
            ) from None
    return blank


def _ragged(source: str, line: int, n_fields: int, width: int, delimiter: str) -> FileFormatError:
    name = NAMES.get(delimiter, repr(delimiter))
    return FileFormatError(
        f"{source}, line {line}: {n_fields} value{'s' * (n_fields != 1)} where the header has "
        f"{width} (delimiter: {name}): correct the line and line ends (LF or CRLF), or give its "
        "delimiter (--delimiter) if it is another one"
    )


def _not_unicode(source: str, error: Exception) -> NotUtf8Error:
    return NotUtf8Error(
        f"{source} is not UTF-8 ({error}): save it as UTF-8, or give its encoding, such as "
        "--encoding cp1252"
    )
