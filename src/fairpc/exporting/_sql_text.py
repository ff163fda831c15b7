"""Words of SQL that SQLite and DuckDB read alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fairpc.core import NotAnsweredError, OptionError

WORD: Final = 62
"""Bits of a whole number that neither language takes for its sign."""
LARGEST: Final = "1.7976931348623157e308"


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


def selected(columns: Sequence[str], source: str) -> str:
    """A SELECT, a column on each line."""
    listed = ",\n  ".join(columns)
    return f"SELECT {listed}\nFROM {source}"
