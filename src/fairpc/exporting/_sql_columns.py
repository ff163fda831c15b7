"""How the columns of a table in a database become codes.

Each column has a type, which the head of the query lists: text, numbers, booleans or dates. A
value of another type, or one that cannot be read, ends the query with an error; it is never
another value. Numbers and dates may be text, as a file that was loaded without types has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from fairpc.core import NotAnsweredError, OptionError
from fairpc.exporting._scorer import Input, InputKind, ScorerProgram

LARGEST: Final = "1.7976931348623157e308"
_EPOCH: Final = datetime(1970, 1, 1)
_TEXT: Final = ("text", "VARCHAR", "ENUM")
_WHOLE: Final = (
    *("integer", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)
_NUMBERS: Final = (*_WHOLE, "real", "FLOAT", "DOUBLE", "DECIMAL")
_TYPES: Final[Mapping[InputKind, tuple[str, ...]]] = {
    "text": _TEXT,
    "number": (*_NUMBERS, *_TEXT),
    "boolean": ("BOOLEAN", *_WHOLE, *_TEXT),
    "date": ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", *_TEXT),
}
"""Types of each kind of column, as SQLite writes them (in small letters) and DuckDB."""
_RULES: Final[Mapping[InputKind, str]] = {
    "text": "it held text at fit, load it as text",
    "number": "it held numbers at fit, give a number, or NULL if it is not known",
    "boolean": "it held booleans at fit, give true, false or NULL",
    "date": "it held dates at fit, give a date without a zone, as text like 2024-05-31",
}
_INSTANT: Final = "0000-00-00 00:00:00.000000"
_LENGTHS: Final = "10, 16, 19, 21, 22, 23, 24, 25, 26"
"""Of texts that are dates: those of ``_INSTANT``, cut where a part of it ends."""
_SHAPE: Final = "[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9].*"


def quoted(name: str) -> str:
    """The name of a column."""
    # SQLite forgets in a nested query that a column is called "true".
    if not name or "\x00" in name or name.lower() in ("true", "false"):
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
    # Whoever reads the file as text, line by line, makes "\n" of "\r".
    if "\x00" in text or "\r" in text:
        raise NotAnsweredError(
            f"a level is {text!r}, which SQL has no way to write: export to .onnx or .py"
        )
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def listed(texts: Iterable[str]) -> str:
    """Texts, a comma between them."""
    return ", ".join(map(literal, texts))


_BLANKS: Final = literal("".join(c for c in map(chr, range(0x3001)) if c.isspace() and c != "\r"))
"""What Python strips from text, but for the sign that no literal holds."""


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


def stage(name: str, text: str, columns: Sequence[str] = ()) -> str:
    """A named part of a query that is computed once."""
    head = f"{name}({', '.join(columns)})" if columns else name
    return f"{head} AS MATERIALIZED (\n{text}\n)"


def selected(columns: Sequence[str], source: str) -> str:
    """A SELECT, a column on each line."""
    listed = ",\n  ".join(columns)
    return f"SELECT {listed}\nFROM {source}"


def free_name(scorer: ScorerProgram, name: str) -> str:
    """A name that no column has, in capitals or not."""
    taken = {other.lower() for other in scorer.names}
    while name in taken:
        name += "_"
    return name


def coding_stages(scorer: ScorerProgram, table: str) -> list[str]:
    """The rows, numbered; their values; codes x0, x1 … of the features, and the group s."""
    _refuse_twins(scorer)
    columns = {f"x{j}": given for j, given in enumerate(scorer.features)}
    columns |= {f"c{j}": given for j, given in enumerate(scorer.sensitive)}
    row = free_name(scorer, "fairpc_row")
    rows = [f"ROW_NUMBER() OVER () AS {row}", "t.*"]
    known = [f"{_known(given, f't.{quoted(given.name)}')} AS {x}" for x, given in columns.items()]
    values = [f"{_value(given, x)} AS {x}" for x, given in columns.items()]
    codes = [f"{_code(given, x)} AS {x}" for x, given in columns.items()]
    cells = " ".join(
        f"WHEN {' AND '.join(f'c{k} = {code}' for k, code in enumerate(cell))} THEN {s}"
        for s, cell in enumerate(scorer.cells)
    )
    grouped = ["n", f"CASE {cells} END AS s", *(x for x in columns if x.startswith("x"))]
    return [
        stage("fairpc_rows", selected(rows, f"{table_name(table)} AS t")),
        stage("fairpc_known", selected([f"{row} AS n", *known], "fairpc_rows AS t")),
        stage("fairpc_values", selected(["n", *values], "fairpc_known")),
        stage("fairpc_parts", selected(["n", *codes], "fairpc_values")),
        stage("fairpc_codes", selected(grouped, "fairpc_parts")),
    ]


def _refuse_twins(scorer: ScorerProgram) -> None:
    """A NotAnsweredError where SQL would take the name of another column for that of an input."""
    for given in scorer.inputs:
        for other in scorer.names:
            # Bytes have no capitals but those of ASCII, and so have names in both languages.
            if other != given.name and other.encode().lower() == given.name.encode().lower():
                raise NotAnsweredError(
                    f"the columns {given.name!r} and {other!r} differ in capitals alone, and SQL "
                    "takes them for one: rename one and fit again, or export to .onnx or .py"
                )


def _text(x: str) -> str:
    """A value as text, whose capitals count even where those of its column do not."""
    return f'CAST({x} AS VARCHAR) COLLATE "binary"'


def _of_type(x: str, types: Iterable[str]) -> str:
    """Whether a value is of one of these types, of any width."""
    bare = f"SUBSTR(TYPEOF({x}), 1, INSTR(TYPEOF({x}) || '(', '(') - 1)"
    return f"{bare} IN ({listed(types)})"


def _refused(given: Input, x: str, rule: str, type_: str) -> str:
    """An expression that ends the query with a sentence: a path into JSON that is none."""
    start, end = literal(f"$column {given.name!r} has "), literal(f": {rule}")
    said = f"{start} || CAST({x} AS VARCHAR) || ' of type ' || TYPEOF({x}) || {end}"
    return f"CAST(JSON_EXTRACT('{{}}', {said}) AS {type_})"


def _known(given: Input, x: str) -> str:
    """A value under its type; NULL where it is missing."""
    marks = [mark.strip() for mark in given.marks if isinstance(mark, str)]
    tests = [f"TRIM({_text(x)}, {_BLANKS}) IN ({listed(marks)})"] if marks else []
    tests += [f"{_text(x)} = ''"] if "" not in given.texts else []
    return f"CASE WHEN {' OR '.join(tests) or '1 = 0'} THEN NULL ELSE {x} END"


def _value(given: Input, x: str) -> str:
    """The code of a name, a number of 64 bits, the text of an instant; an error of other types."""
    if given.kind == "number":
        found, type_ = _number(given, x), "DOUBLE"
    elif given.kind == "date":
        found, type_ = _instant(given, x), "VARCHAR"
    else:
        found, type_ = _name_code(given, x), "INTEGER"
    refused = _refused(given, x, _RULES[given.kind], type_)
    typed = _of_type(x, _TYPES[given.kind])
    return f"CASE WHEN {x} IS NULL THEN NULL WHEN {typed} THEN {found} ELSE {refused} END"


def _name_code(given: Input, x: str) -> str:
    """The code of a value by its text."""
    text, other = _text(x), _other(given)
    padded = "it held this text without the blanks at fit, take them away"
    refused = _refused(given, x, padded, "INTEGER")
    cases = " ".join(f"WHEN {literal(t)} THEN {code}" for t, code in given.texts.items())
    blanks = f"TRIM({text}, {_BLANKS}) IN ({listed(given.texts)})"
    return f"CASE {text} {cases} ELSE CASE WHEN {blanks} THEN {refused} ELSE {other} END END"


def _number(given: Input, x: str) -> str:
    """A number, or the text of one as programs write it."""
    refused = _refused(given, x, _RULES["number"], "DOUBLE")
    bare = f"TRIM({_text(x)}, {_BLANKS})"
    # SQLite takes "1-2" for 1. But text that is compared with a number is one only as a whole, and
    # all other text is larger. STRING is a number to SQLite, and text to DuckDB, which refuses such
    # text by itself.
    strange = f"TYPEOF({x}) = 'text' AND NOT ({bare} <= CAST('9e999' AS STRING))"
    odd = f"TRIM({bare}, '0123456789.eE+-') <> '' OR {strange}"
    text = f"CASE WHEN {odd} THEN {refused} ELSE CAST({bare} AS DOUBLE) END"
    return f"CASE WHEN {_of_type(x, _TEXT)} THEN {text} ELSE CAST({x} AS DOUBLE) END"


def _instant(given: Input, x: str) -> str:
    """The text of an instant, which sorts as instants do."""
    text = _text(x)
    rest = f"SUBSTR('{_INSTANT}', LENGTH({text}) + 1)"
    whole = f"SUBSTR(REPLACE({text}, 'T', ' ') || {rest}, 1, 26)"
    refused = _refused(given, x, _RULES["date"], "VARCHAR")
    sound = f"LENGTH({text}) IN ({_LENGTHS}) AND {whole} GLOB '{_SHAPE}'"
    return f"CASE WHEN {sound} THEN {whole} ELSE {refused} END"


def _code(given: Input, x: str) -> str:
    """The code of a value; NULL where it is missing."""
    if given.kind == "date":
        edges = [literal(_iso(edge)) for edge in given.edges or ()]
        return f"CASE WHEN {x} IS NULL{_marked(given, x)} THEN NULL {_binned(x, edges)}"
    if given.kind != "number":
        return x
    # DuckDB holds NaN to be larger than all numbers.
    beyond = f"NOT ({x} BETWEEN -{LARGEST} AND {LARGEST})"
    infinite = _refused(given, x, "numbers must be finite, give NULL if it is not known", "INTEGER")
    start = (
        f"CASE WHEN {x} IS NULL{_marked(given, x)} THEN NULL "
        f"WHEN {beyond} THEN CASE CAST({x} AS VARCHAR) WHEN 'nan' THEN NULL ELSE {infinite} END "
    )
    if given.edges is not None:
        return start + _binned(x, [exact(edge) for edge in given.edges])
    cases = " ".join(f"WHEN {x} = {exact(v)} THEN {code}" for v, code in given.numbers.items())
    return f"{start}{cases} ELSE {_other(given)} END"


def _marked(given: Input, x: str) -> str:
    """The end of a condition: or a number, or an instant, is one that means "missing"."""
    marks = [mark for mark in given.marks if not isinstance(mark, str)]
    written = [literal(_iso(m)) if given.kind == "date" else exact(m) for m in marks]
    return f" OR {x} IN ({', '.join(written)})" if written else ""


def _other(given: Input) -> str:
    """The code of what is not listed."""
    return str(given.other) if given.other >= 0 else "NULL"


def _binned(x: str, edges: Sequence[str]) -> str:
    """The end of a CASE that gives the bin of a value."""
    cases = " ".join(f"WHEN {x} < {edge} THEN {code}" for code, edge in enumerate(edges))
    return f"{cases} ELSE {len(edges)} END"


def _iso(edge: float) -> str:
    """The first instant of a bin as text, which sorts as instants do."""
    return (_EPOCH + timedelta(microseconds=math.ceil(edge))).isoformat(" ", "microseconds")


def allows(scorer: ScorerProgram, subgroup: int) -> list[tuple[str, int]]:
    """Columns of codes, and what each must be, if it is known, in a subgroup."""
    s, a = divmod(subgroup, scorer.strata.n)
    pairs = zip(scorer.strata.columns, scorer.strata.values(a), strict=True)
    return [("s", s), *((f"x{j}", value) for j, value in pairs)]
