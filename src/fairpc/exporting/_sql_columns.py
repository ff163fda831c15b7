"""How the columns of a table in a database become codes.

A database holds what a reader of files made of a table: booleans of "yes" and "no", numbers of
"007", text of numbers. Each value is compared under its own type. What was of another kind at fit,
or cannot be told, ends the query with an error; it is never another value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from fairpc.core import NotAnsweredError, OptionError
from fairpc.data import Writing
from fairpc.exporting._scorer import Input, ScorerProgram


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
    if "\r" not in doubled:
        return f"'{doubled}'"
    # Whoever reads the file as text, line by line, makes "\n" of this sign; of its name, nothing.
    sign = """' || ('"\\r"' ->> '$') || '"""
    return f"('{doubled.replace(chr(13), sign)}')"


def listed(texts: Iterable[str]) -> str:
    """Texts, a comma between them."""
    return ", ".join(map(literal, texts))


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


LARGEST: Final = "1.7976931348623157e308"
_EPOCH: Final = datetime(1970, 1, 1)
_BLANKS: Final = literal("".join(filter(str.isspace, map(chr, range(0x3001)))))
"""What Python strips from text."""
_NUMBERS: Final = (
    *("integer", "real", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT"),
    *("USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE"),
)
_DATES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
"""Types, as SQLite writes them (in small letters) and DuckDB."""
_INSTANT: Final = "0000-00-00 00:00:00.000000"
_LENGTHS: Final = "10, 16, 19, 21, 22, 23, 24, 25, 26"
"""Of texts that are dates: those of ``_INSTANT``, cut where a part of it ends."""
_TRUTHS: Final = ("true", "false")
"""How DuckDB writes booleans."""
_GROUPS: Final = 6
"""Groups of three digits that a number in text may have."""
_LIKE_NUMBER: Final = re.compile(r"[+-]?\.?\d")


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
    # SQLite forgets in a nested query that a column is called "true".
    kept = {
        given.name: free_name(scorer, f"fairpc_{given.name.lower()}")
        for given in scorer.inputs
        if given.name.lower() in _TRUTHS
    }
    rows = [f"ROW_NUMBER() OVER () AS {row}", "t.*"]
    rows += [f"t.{quoted(name)} AS {alias}" for name, alias in kept.items()]
    known: list[str] = [f"{row} AS n"]
    for x, given in columns.items():
        known += _known(given, f"t.{kept.get(given.name) or quoted(given.name)}", x)
    bare_values = [f"{_as_programs_write(given, x)} AS {x}" for x, given in columns.items()]
    values = [f"{_value(given, x)} AS {x}" for x, given in columns.items()]
    codes = [f"{_code(given, x)} AS {x}" for x, given in columns.items()]
    cells = " ".join(
        f"WHEN {' AND '.join(f'c{k} = {code}' for k, code in enumerate(cell))} THEN {s}"
        for s, cell in enumerate(scorer.cells)
    )
    grouped = ["n", f"CASE {cells} END AS s", *(x for x in columns if x.startswith("x"))]
    return [
        stage("fairpc_rows", selected(rows, f"{table_name(table)} AS t")),
        stage("fairpc_known", selected(known, "fairpc_rows AS t")),
        stage("fairpc_plain", selected(["n", *bare_values], "fairpc_known")),
        stage("fairpc_values", selected(["n", *values], "fairpc_plain")),
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


def _is_text(x: str) -> str:
    return f"(TYPEOF({x}) IN ('text', 'VARCHAR') OR TYPEOF({x}) LIKE 'ENUM(%')"


def _is_number(x: str) -> str:
    return f"(TYPEOF({x}) IN ({listed(_NUMBERS)}) OR TYPEOF({x}) LIKE 'DECIMAL(%')"


def _refused(given: Input, x: str, rule: str) -> str:
    """An expression that ends the query with a sentence: a path into JSON that is none."""
    start, end = literal(f"$column {given.name!r} has "), literal(f": {rule}")
    said = f"{start} || CAST({x} AS VARCHAR) || ' of type ' || TYPEOF({x}) || {end}"
    return f"CAST(JSON_EXTRACT('{{}}', {said}) AS INTEGER)"


def _known(given: Input, column: str, x: str) -> list[str]:
    """A value under its type, NULL where it is missing; beside it the text of a number or date."""
    text = _text(column)
    stripped = f"TRIM({text}, {_BLANKS})"
    marks = [mark.strip() for mark in given.marks if isinstance(mark, str)]
    tests = [f"{stripped} IN ({listed(marks)})"] if marks else []
    tests += [f"{text} = ''"] if "" not in given.texts else []
    missing = " OR ".join(tests) or "1 = 0"
    known = f"CASE WHEN {missing} THEN NULL ELSE {column} END AS {x}"
    if given.kind == "number":
        return [known, f"{_without_unit(stripped, given.written)} AS {x}_t"]
    if given.kind == "date":
        rest = f"SUBSTR('{_INSTANT}', LENGTH({text}) + 1)"
        iso = " || '-' || ".join(f"SUBSTR({text}, {at}, {n})" for at, n in ((7, 4), (4, 2), (1, 2)))
        dated = f"CASE WHEN {text} LIKE '__.__.____%' THEN {iso} || SUBSTR({text}, 11) ELSE {text}"
        return [known, f"SUBSTR(REPLACE({dated} END, 'T', ' ') || {rest}, 1, 26) AS {x}_t"]
    return [known]


def _without_unit(text: str, written: Writing | None) -> str:
    """The text of a number without the sign of its currency, which may stand on either side."""
    if written is None:
        return text
    text = f"REPLACE({text}, '\N{MINUS SIGN}', '-')"
    unit, n = literal(written.unit), len(written.unit)
    if not n:
        return text
    signed = f"LTRIM(SUBSTR({text}, 2), {_BLANKS})"
    return (
        f"CASE WHEN SUBSTR({text}, 1, 1) IN ('+', '-') AND SUBSTR({signed}, 1, {n}) = {unit} "
        f"THEN SUBSTR({text}, 1, 1) || LTRIM(SUBSTR({signed}, {n + 1}), {_BLANKS}) "
        f"WHEN SUBSTR({text}, 1, {n}) = {unit} THEN LTRIM(SUBSTR({text}, {n + 1}), {_BLANKS}) "
        f"WHEN SUBSTR({text}, -{n}) = {unit} "
        f"THEN RTRIM(SUBSTR({text}, 1, LENGTH({text}) - {n}), {_BLANKS}) ELSE {text} END"
    )


def _as_programs_write(given: Input, x: str) -> str:
    """The code of a name; a number, or its text as programs write it; the text of a date."""
    if given.kind == "number":
        return _bare_number(given, x)
    if given.kind == "date":
        cut = f"{_is_text(x)} AND LENGTH({_text(x)}) IN ({_LENGTHS})"
        typed = f"TYPEOF({x}) IN ({listed(_DATES)})"
        refused = _refused(given, x, "it held dates at fit, give a date without a zone")
        return (
            f"CASE WHEN {x} IS NULL THEN NULL WHEN ({cut} OR {typed}) AND {_in_calendar(f'{x}_t')} "
            f"THEN {x}_t ELSE CAST({refused} AS VARCHAR) END"
        )
    return _name_code(given, x)


def _name_code(given: Input, x: str) -> str:
    """The code of a value that is told by its text.

    A CSV reader makes numbers of "007", and booleans of "yes" and "no"; only where these can mean
    nothing else they are names.
    """
    text, other = _text(x), _other(given)
    example = next(iter(given.texts))
    refused = _refused(given, x, f"it held text such as {example!r} at fit, load it as text")
    padded = _refused(given, x, "it held this text without the blanks at fit, take them away")
    unseen = f"CASE WHEN TRIM({text}, {_BLANKS}) IN ({listed(given.texts)}) THEN {padded} "
    short = f"CASE WHEN INSTR({text}, '.') > 0 THEN RTRIM(RTRIM({text}, '0'), '.') ELSE {text} END"
    numbers = _numbers_among(given)
    strange = f"CASE WHEN TRIM({text}, '-.0123456789') <> '' THEN {refused} ELSE {other} END"
    truths = {(t.lower(), code) for t, code in given.texts.items() if t.lower() in _TRUTHS}
    by_number = _looked_up(short, numbers, strange if numbers else refused)
    both = len(truths) == len(dict(truths)) == len(_TRUTHS)
    by_truth = _looked_up(text, dict(sorted(truths)), other) if both else refused
    return (
        f"CASE WHEN {x} IS NULL THEN NULL "
        f"WHEN {_is_text(x)} THEN {_looked_up(text, given.texts, f'{unseen}ELSE {other} END')} "
        f"WHEN {_is_number(x)} THEN {by_number} "
        f"WHEN TYPEOF({x}) = 'BOOLEAN' THEN {by_truth} ELSE {refused} END"
    )


def _numbers_among(given: Input) -> dict[str, int | str]:
    """Codes of names that are numbers; none where some are written as no program writes them."""
    found: dict[str, int | str] = {t: c for t, c in given.texts.items() if _is_canonical(t)}
    if not found or any(t not in found and _LIKE_NUMBER.match(t) for t in given.texts):
        return {}
    marks = {f"{mark:.15g}": "NULL" for mark in given.marks if not isinstance(mark, str)}
    zero = {"-0": found["0"]} if "0" in found else {}
    return found | zero | marks | {"nan": "NULL"}


def _is_canonical(text: str) -> bool:
    """Whether a number is written as both databases write it."""
    if re.fullmatch(r"0|-?[1-9]\d*", text, re.ASCII):
        return True
    fraction = re.fullmatch(r"-?\d+\.\d+", text, re.ASCII)
    return fraction is not None and f"{float(text):.15g}" == text


def _looked_up(x: str, codes: Mapping[str, int | str], otherwise: str) -> str:
    cases = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in codes.items())
    return f"CASE {x} {cases} ELSE {otherwise} END" if cases else otherwise


def _bare_number(given: Input, x: str) -> str:
    """A number, or the text of one as programs write it."""
    bare, typed, like = f"{x}_t", _is_number(x), ""
    fits = f" AND TRIM({bare}, '0123456789.eE+-') = ''"
    if given.written is not None:
        fits, bare = _unwritten(bare, given.written)
        like = f" like {given.written.example}"
        if given.written.thousands == ".":
            # A reader of files may have taken 1.234 for a fraction.
            typed += f" AND TYPEOF({x}) NOT IN ('real', 'FLOAT', 'DOUBLE')"
            like += " in text, or as DECIMAL"
    rule = f"it held numbers at fit, give a number{like}, or NULL if it is not known"
    # STRING is text to DuckDB, and to SQLite a number, which stays as exact as it is.
    return (
        f"CASE WHEN {x} IS NULL THEN NULL WHEN {typed} THEN CAST({x} AS STRING) "
        f"WHEN {_is_text(x)}{fits} THEN {bare} "
        f"ELSE CAST({_refused(given, x, rule)} AS VARCHAR) END"
    )


def _unwritten(text: str, written: Writing) -> tuple[str, str]:
    """Whether a text is written as the numbers of the fit; and the number as programs write it.

    It is if it is what the number would be written as, its thousands apart or not.
    """
    signed = f"SUBSTR({text}, 1, 1) IN ('+', '-')"
    bare = f"CASE WHEN {signed} THEN SUBSTR({text}, 2) ELSE {text} END"
    apart = written.separators[:1]
    for sign in written.separators[1:]:
        bare = f"REPLACE({bare}, {literal(sign)}, {literal(apart)})"
    digits = f"REPLACE({bare}, {literal(apart)}, '')" if apart else f"({bare})"
    digits = f"REPLACE({digits}, {literal(written.decimal)}, '.')"
    point = f"INSTR({digits} || '.', '.')"
    whole = f"SUBSTR({digits}, 1, {point} - 1)"
    rest = f"REPLACE(SUBSTR({digits}, {point}), '.', {literal(written.decimal)})"
    same = f"({bare}) = {whole} || {rest}"
    if apart:
        parts = (f"SUBSTR({whole}, {-3 * k}, 3)" for k in range(_GROUPS, 0, -1))
        grouped = f"LTRIM({f' || {literal(apart)} || '.join(parts)}, {literal(apart)})"
        same += f" OR (({bare}) = {grouped} || {rest} AND ({bare}) NOT LIKE '0%')"
    fits = (
        f" AND ({bare}) GLOB '[0-9]*' AND ({bare}) GLOB '*[0-9]' "
        f"AND TRIM({digits}, '0123456789.') = '' AND ({same})"
    )
    return fits, f"CASE WHEN {text} LIKE '-%' THEN '-' ELSE '' END || {digits}"


def _in_calendar(x: str) -> str:
    """Whether the text of an instant is one."""
    year = f"CAST(SUBSTR({x}, 1, 4) AS INTEGER)"
    leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))"
    last = (
        f"CASE WHEN SUBSTR({x}, 6, 2) IN ('04', '06', '09', '11') THEN '30' "
        f"WHEN SUBSTR({x}, 6, 2) <> '02' THEN '31' WHEN {leap} THEN '29' ELSE '28' END"
    )
    shape = _INSTANT.replace("0", "[0-9]").replace(":[0-9]", ":[0-5]")
    return (
        f"CASE WHEN {x} GLOB '{shape}' THEN SUBSTR({x}, 6, 2) BETWEEN '01' AND '12' "
        f"AND SUBSTR({x}, 9, 2) BETWEEN '01' AND {last} AND SUBSTR({x}, 12, 2) < '24' "
        "ELSE 1 = 0 END"
    )


def _value(given: Input, x: str) -> str:
    """A number as one of 64 bits; all else as it is."""
    if given.kind != "number":
        return x
    refused = _refused(given, x, "it held numbers at fit, give a number")
    # SQLite takes "1-2" for 1. But text that is compared with a number is one only as a whole, and
    # all other text is larger. DuckDB refuses such text by itself.
    strange = f"TYPEOF({x}) = 'text' AND NOT ({x} <= CAST('9e999' AS STRING))"
    return f"CASE WHEN {strange} THEN {refused} ELSE CAST({x} AS DOUBLE) END"


def _code(given: Input, x: str) -> str:
    """The code of a value; NULL where it is missing."""
    if given.kind == "date":
        edges = [literal(_iso(edge)) for edge in given.edges or ()]
        return f"CASE WHEN {x} IS NULL{_marked(given, x)} THEN NULL {_binned(x, edges)}"
    if given.kind != "number":
        return x
    # DuckDB holds NaN to be larger than all numbers.
    beyond = f"NOT ({x} BETWEEN -{LARGEST} AND {LARGEST})"
    infinite = _refused(given, x, "numbers must be finite, give NULL if it is not known")
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
