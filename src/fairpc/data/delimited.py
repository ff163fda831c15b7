"""Text tables (CSV, TSV and the like): their delimiter and header, and what is wrong with them."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.data.frame import MAX_COLUMNS
from fairpc.errors import EachWay, FileFormatError

if TYPE_CHECKING:
    import polars as pl

DELIMITERS: Final = (",", ";", "\t", "|")
NAMES: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}

_HEAD: Final = 2**20
_SAMPLE: Final = 50
_PIECE: Final = 2**20
_LONGEST: Final = 2**26  # bytes of a line: it must fit into memory several times
_NOWHERE: Final = "\x1f"  # "unit separator": a delimiter that text tables do not use
_AS_TEXT: Final[Mapping[str, Any]] = {"infer_schema": False, "glob": False}
_FOREIGN: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class NotUtf8Error(FileFormatError):
    """A table is text in another encoding."""


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Attributes:
        delimiter: what stands between two values.
        names: the header line.
        blank_lines: whether there are blank lines, which are no rows.
    """

    delimiter: str
    names: tuple[str, ...]
    blank_lines: bool

    def scan(self, path: Path) -> pl.LazyFrame:
        """The rows, every value as the text that it is; empty cells are null."""
        import polars as pl

        # polars leaves doubled quotes in names as they are; csv does not.
        named: Any = {"with_column_names": lambda _: list(self.names)}
        rows = pl.scan_csv(path, separator=self.delimiter, **named, **_AS_TEXT)
        return rows.filter(~pl.all_horizontal(pl.all().is_null())) if self.blank_lines else rows


def read_dialect(path: Path, source: str, delimiter: str | None = None) -> Dialect:
    """How the table is written; a FileFormatError names the line that breaks the rules.

    Every line is looked at: a table with a row too short or too long is refused,
    not padded.
    """
    if delimiter is not None and not _separates(delimiter):
        raise FileFormatError(
            f"the delimiter {delimiter!r} is no single character of ASCII that can separate "
            "values: give one, such as ';'"
        )
    _check_bytes(path, source)
    text = _head(path, source)
    chosen = delimiter or _sniff(text)
    names = _header(text, chosen, source)
    return Dialect(chosen, names, _check_lines(path, source, chosen, len(names)))


def _separates(delimiter: str) -> bool:
    """Whether values can stand on both sides: one byte, no quotation mark, no control but a tab."""
    single = len(delimiter) == 1 and delimiter.isascii() and delimiter != '"'
    return single and (delimiter.isprintable() or delimiter == "\t")


def _check_bytes(path: Path, source: str) -> None:
    """Refuse what is not UTF-8 text, with the number of the first line at fault."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, run = 1, 0
    with path.open("rb") as file:
        while True:
            piece = file.read(_PIECE)
            run = len(piece) - 1 - piece.rfind(b"\n") + (0 if b"\n" in piece else run)
            if run > _LONGEST:
                line = lines + piece.count(b"\n")
                raise FileFormatError(
                    f"{source}, line {line}: it has more than {_LONGEST:,} bytes: give a table "
                    "whose rows end with line feeds"
                )
            if lines == 1 and piece.startswith(_FOREIGN):
                raise NotUtf8Error(
                    f"{source} is written in UTF-16: save it as UTF-8",
                    EachWay("", ", or give --encoding utf-16"),
                )
            if b"\0" in piece:
                raise FileFormatError(
                    f"{source} is a binary file: give CSV, TSV, Parquet or Feather (Arrow)"
                )
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                line = lines + piece[: max(error.start, 0)].count(b"\n")
                raise NotUtf8Error(
                    f"{source}, line {line}: its bytes are not UTF-8: save the file as UTF-8",
                    EachWay("", ", or give its encoding, such as --encoding cp1252"),
                ) from None
            if not piece:
                return
            lines += piece.count(b"\n")


def _head(path: Path, source: str) -> str:
    """The first lines, whole ones only."""
    with path.open("rb") as file:
        data = file.read(_HEAD)
    text = data.decode("utf-8-sig", errors="ignore")
    if not text.strip():
        raise FileFormatError(f"{source} is empty: give a table with a header line and rows")
    if "\n" not in text and "\r" in text:
        raise FileFormatError(
            f"{source} ends its lines with bare carriage returns: save it with line feeds (Unix) "
            "or both (Windows)"
        )
    if len(data) == _HEAD:
        if "\n" not in text:
            raise FileFormatError(
                f"{source} has a first line of more than {_HEAD:,} bytes: give a table with a "
                "header line"
            )
        text = text[: text.rindex("\n") + 1]
    return text


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Rows of the first lines that are not blank, as far as they can be read."""
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row and any(cell.strip() for cell in row):
                yield row
    except csv.Error:
        return


def _sniff(text: str) -> str:
    """The delimiter under which most first rows are as wide as the header; then the widest."""

    def rank(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row, _ in zip(_rows(text, delimiter), range(_SAMPLE), strict=False)]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return sum(w == widths[0] for w in widths) / len(widths), widths[0]

    best = max(DELIMITERS, key=rank)
    return best if rank(best)[1] else DELIMITERS[0]


def _header(text: str, delimiter: str, source: str) -> tuple[str, ...]:
    names = tuple(next(_rows(text, delimiter), []))
    if not names:
        raise FileFormatError(f"{source}, line 1: the header cannot be read: give names of columns")
    if len(names) > MAX_COLUMNS:
        raise FileFormatError(
            f"{source} has {len(names):,} columns: at most {MAX_COLUMNS:,} can be learned from, "
            "drop those that say nothing about the decision"
        )
    refuse_copies(names, source)
    return names


def refuse_copies(names: Sequence[str], source: str) -> None:
    """A FileFormatError where a name stands for two columns."""
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise FileFormatError(
                f"{source}: column {name!r} appears {count} times: column names must differ, "
                "rename or drop the copies"
            )


def _check_lines(path: Path, source: str, delimiter: str, width: int) -> bool:
    """Refuse rows of another width than the header's; the answer is whether lines are blank."""
    import polars as pl

    line, quote = pl.col("line"), '"'
    quotes = line.str.count_matches(quote, literal=True)
    bare = pl.when(quotes > 0).then(line.str.replace_all('"(?:[^"]|"")*"', "")).otherwise(line)
    found = bare.str.count_matches(delimiter, literal=True) + 1
    blank = line.is_null() | (line.str.strip_chars() == "")
    wrong = ~blank & (found != width)
    whole: Any = {"quote_char": None, "has_header": False, "new_columns": ["line"]}
    lines = pl.scan_csv(path, separator=_NOWHERE, **whole, **_AS_TEXT)
    facts = {"odd": ((quotes % 2) == 1).any(), "blank": blank.any(), "wrong": wrong.any()}
    facts |= {"row": wrong.arg_max(), "found": found.get(wrong.arg_max())}
    try:
        seen = lines.select(**facts).collect(engine="streaming").row(0, named=True)
    except pl.exceptions.PolarsError:
        seen = {"odd": True}
    if seen["odd"]:
        # Values that hold line breaks: the rows must be read one by one.
        return _check_rows(path, source, delimiter, width)
    if seen["wrong"]:
        raise _ragged(source, seen["row"] + 1, seen["found"], width, delimiter)
    return bool(seen["blank"])


def _check_rows(path: Path, source: str, delimiter: str, width: int) -> bool:
    """As ``_check_lines``, row by row; a row may span lines."""
    seen: list[str] = []

    def remembered(file: Any) -> Iterator[str]:
        for text in file:
            seen.append(text)
            yield text

    blank, first = False, 1
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(remembered(file), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if not row or not "".join(seen).strip():
                    blank = True
                elif len(seen) == 1 and seen[0].count('"') % 2:
                    raise FileFormatError(
                        f"{source}, line {first}: a quotation mark stands inside a value: put the "
                        "value into quotation marks and double the mark"
                    )
                elif len(row) != width:
                    raise _ragged(source, first, len(row), width, delimiter)
                seen.clear()
                first = reader.line_num + 1
        except csv.Error as error:
            raise FileFormatError(
                f"{source}, line {first}: it cannot be read ({error}): look for a quotation mark "
                "that is not closed"
            ) from None
    return blank


def _ragged(source: str, line: int, found: int, width: int, delimiter: str) -> FileFormatError:
    name = NAMES.get(delimiter, repr(delimiter))
    return FileFormatError(
        f"{source}, line {line}: {found} value{'s' * (found != 1)} where the header has {width} "
        f"(delimiter: {name}): correct the line",
        EachWay("", ", or give --delimiter if it is another one"),
    )
