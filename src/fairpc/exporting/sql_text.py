"""Words of SQL that SQLite and DuckDB read alike, and how the columns of a table become codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from fairpc.data.codes_of import TRUTH
from fairpc.data.writing import SPACES
from fairpc.errors import NotAnsweredError, OptionError
from fairpc.exporting.program import Input, Scorer

WORD: Final = 62
"""Bits of a whole number that neither language takes for its sign."""
LARGEST: Final = "1.7976931348623157e308"
_EPOCH: Final = datetime(1970, 1, 1)
_DAY_LIKE: Final = "____-__-__%"
_DAY_FIRST: Final = "__.__.____%"
_BLANKS: Final = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""What Python strips from text."""
_DIGITS: Final = "0123456789.eE+-"


def quoted(name: str) -> str:
    """The name of a column."""
    if not name or "\x00" in name:
        raise NotAnsweredError(
            f"a column is called {name!r}, which SQL has no way to write: rename it and fit again"
        )
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def table_name(name: str) -> str:
    """The name of a table, which may have that of a schema before it."""
    parts = name.split(".")
    if not all(parts) or "\x00" in name:
        raise OptionError(f"the table is called {name!r}: give a name, or schema.name")
    return ".".join(map(quoted, parts))


def literal(text: str) -> str:
    """A text."""
    if "\x00" in text:
        raise NotAnsweredError(
            f"a level is {text!r}, which SQL has no way to write: export to .onnx or .py"
        )
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def number(value: float) -> str:
    """A 64-bit number: with an exponent, or DuckDB would take it for a decimal fraction."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def exact(value: float) -> str:
    """A number to compare with, to the last bit.

    SQLite reads the last digits of a fraction in its own way, but whole numbers and their
    quotients as everyone does.
    """
    above, below = float(value).as_integer_ratio()
    if below == 1 and abs(above) < 2**53:
        return f"{above}.0e0"
    if abs(above) < 2**62 and below < 2**62:
        return f"(CAST({above} AS DOUBLE) / CAST({below} AS DOUBLE))"
    return number(value)


def values(rows: Iterable[Sequence[Any]]) -> str:
    """A table of numbers."""
    written = (
        ", ".join(number(v) if isinstance(v, float) else str(v) for v in row) for row in rows
    )
    return "VALUES " + ",\n".join(f"({row})" for row in written)


def stage(name: str, text: str, columns: Sequence[str] = ()) -> str:
    """A named part of a query that is computed once."""
    head = f"{name}({', '.join(columns)})" if columns else name
    return f"{head} AS MATERIALIZED (\n{text}\n)"


def row_number(scorer: Scorer) -> str:
    """What the number of a row is called: none of the columns, in capitals or not."""
    name, taken = "fairpc_row", {given.name.lower() for given in scorer.inputs}
    while name in taken:
        name += "_"
    return name


def coding_stages(scorer: Scorer, table: str) -> list[str]:
    """The rows, numbered; their values; codes x0, x1 … of the features, and the group s."""
    clean = [
        f"{_cleaned(given)} AS {letter}{j}"
        for letter, columns in (("x", scorer.features), ("c", scorer.sensitive))
        for j, given in enumerate(columns)
    ]
    features = [f"{_code(given, f'x{j}')} AS x{j}" for j, given in enumerate(scorer.features)]
    groups = [f"{_code(given, f'c{j}')} AS c{j}" for j, given in enumerate(scorer.sensitive)]
    names = [f"x{j}" for j in range(len(features))]
    cells = " ".join(
        f"WHEN {' AND '.join(f'c{k} = {code}' for k, code in enumerate(cell))} THEN {s}"
        for s, cell in enumerate(scorer.cells)
    )
    row = row_number(scorer)
    numbered = selected([f"ROW_NUMBER() OVER () AS {row}", "t.*"], f"{table_name(table)} AS t")
    return [
        stage("fairpc_rows", numbered),
        stage("fairpc_values", selected([f"{row} AS n", *clean], "fairpc_rows AS t")),
        stage("fairpc_parts", selected(["n", *features, *groups], "fairpc_values")),
        stage("fairpc_codes", selected(["n", f"CASE {cells} END AS s", *names], "fairpc_parts")),
    ]


def selected(columns: Sequence[str], source: str) -> str:
    """A SELECT, a column on each line."""
    listed = ",\n  ".join(columns)
    return f"SELECT {listed}\nFROM {source}"


def allows(scorer: Scorer, subgroup: int) -> list[tuple[str, int]]:
    """Columns of codes, and what each must be, if it is known, in a subgroup."""
    s, a = divmod(subgroup, scorer.strata.n)
    pairs = zip(scorer.strata.columns, scorer.strata.values(a), strict=True)
    return [("s", s), *((f"x{j}", value) for j, value in pairs)]


def _spelt(given: Input) -> dict[str, int] | None:
    """Code of each text, where values are told by their text."""
    if given.texts is TRUTH:
        return TRUTH | {"0.0": 0, "1.0": 1}
    return dict(given.texts) if given.kind == "text" else None


def _cleaned(given: Input) -> str:
    """A value as it is compared: text, a number, or the text of a date."""
    column = f"t.{quoted(given.name)}"
    text = f"CAST({column} AS VARCHAR)"
    stripped = f"TRIM({text}, {literal(_BLANKS)})"
    marks = [mark.strip() for mark in given.marks if isinstance(mark, str)]
    if _spelt(given) is not None:
        empty = [] if "" in given.texts else [""]
        missing = [*empty, *marks]
        if not missing:
            return text
        return f"CASE WHEN {stripped} NOT IN ({_listed(missing)}) THEN {text} END"
    present = f"{stripped} NOT IN ({_listed(['', *marks])})"
    if given.kind == "date":
        cut = ((7, 4), (4, 2), (1, 2))
        iso = " || '-' || ".join(f"SUBSTR({text}, {start}, {n})" for start, n in cut)
        dated = f"CASE WHEN {text} LIKE '{_DAY_FIRST}' THEN {iso} || SUBSTR({text}, 11) ELSE {text}"
        return f"CASE WHEN {present} THEN REPLACE({dated} END, 'T', ' ') END"
    return f"CASE WHEN NOT {present} THEN NULL {_numbered(given, column, stripped)} END"


def _numbered(given: Input, column: str, stripped: str) -> str:
    """The end of a CASE: a number, or text that is one.

    A column of SQLite holds text and numbers together, and its casts take "seven" for 0 and
    "1.234,50 €" for 1.234; that is missing here. DuckDB refuses such text by itself.
    """
    bare = stripped
    if given.written is not None:
        signs = given.written.separators
        if given.written.unit:
            bare, signs = f"REPLACE({bare}, {literal(given.written.unit)}, '')", signs + SPACES
        for sign in dict.fromkeys(signs):
            bare = f"REPLACE({bare}, {literal(sign)}, '')"
        bare = f"REPLACE({bare}, {literal(given.written.decimal)}, '.')"
        bare = f"REPLACE({bare}, '\N{MINUS SIGN}', '-')"
    is_text = f"LOWER(TYPEOF({column}))"
    return (
        f"WHEN {is_text} = 'text' AND TRIM({bare}, '{_DIGITS}') <> '' THEN NULL "
        f"WHEN {is_text} IN ('text', 'varchar') THEN CAST({bare} AS DOUBLE) "
        f"ELSE CAST({column} AS DOUBLE)"
    )


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(literal, texts))


def _code(given: Input, x: str) -> str:
    """The code of a value; NULL where it is missing."""
    if given.kind == "date" and given.edges is not None:
        edges = [literal(_iso(edge)) for edge in given.edges]
        missing = f"{x} IS NULL OR {x} NOT LIKE '{_DAY_LIKE}'"
        for mark in (int(mark) for mark in given.marks if not isinstance(mark, str)):
            missing += f" OR ({x} >= {literal(_iso(mark))} AND {x} < {literal(_iso(mark + 1))})"
        return _binned(x, edges, missing)
    texts = _spelt(given)
    if texts is not None:
        cases = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in texts.items())
        found = f"CASE {x} {cases}{_otherwise(given)} END"
        return f"CASE WHEN {x} IS NOT NULL THEN {found} END"
    marks = [exact(mark) for mark in given.marks if not isinstance(mark, str)]
    marked = f" OR {x} IN ({', '.join(marks)})" if marks else ""
    # DuckDB holds NaN to be larger than all numbers.
    missing = f"{x} IS NULL OR NOT ({x} BETWEEN -{LARGEST} AND {LARGEST}){marked}"
    if given.edges is not None:
        return _binned(x, [exact(edge) for edge in given.edges], missing)
    cases = " ".join(f"WHEN {x} = {exact(v)} THEN {code}" for v, code in given.numbers.items())
    return f"CASE WHEN {missing} THEN NULL {cases}{_otherwise(given)} END"


def _otherwise(given: Input) -> str:
    return f" ELSE {given.other}" if given.other >= 0 else ""


def _binned(x: str, edges: Sequence[str], missing: str) -> str:
    cases = " ".join(f"WHEN {x} < {edge} THEN {code}" for code, edge in enumerate(edges))
    return f"CASE WHEN {missing} THEN NULL {cases} ELSE {len(edges)} END"


def _iso(edge: float) -> str:
    """The first instant of a bin as the shortest text, which sorts as instants do."""
    day, _, time = str(_EPOCH + timedelta(microseconds=math.ceil(edge))).partition(" ")
    hour, minute, second = time.split(":")
    if "." in second:
        return f"{day} {time.rstrip('0')}"
    if second != "00":
        return f"{day} {time}"
    return f"{day} {hour}:{minute}" if (hour, minute) != ("00", "00") else day
