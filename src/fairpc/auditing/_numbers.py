"""Numbers as an audit writes them, in words and on the page: one format for each kind."""

from __future__ import annotations

import math
from typing import Any, Final

from fairpc.core import NONE as NONE
from fairpc.core import counted as counted

MINUS: Final = "−"
NOTHING: Final = "–"


def missing(value: Any) -> bool:
    """Whether there is no number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def signed(text: str) -> str:
    """A true minus sign, and no minus before a zero."""
    if text.startswith("-"):
        digits = text[1:]
        return digits if not digits.strip("0.,%") else MINUS + digits
    return text


def share(value: float | None, digits: int = 1) -> str:
    """A probability or a rate: 31.4%."""
    if missing(value) or value is None:
        return NOTHING
    if math.isinf(value):
        return "∞"
    return signed(f"{100 * value:.{digits}f}") + "%"


def points(value: float | None) -> str:
    """A difference of two rates, in percentage points: −19.6."""
    if missing(value) or value is None:
        return NOTHING
    text = signed(f"{100 * value:.1f}")
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def number(value: float | None, digits: int = 3) -> str:
    """A plain number: 0.358."""
    if missing(value) or value is None:
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    return signed(f"{value:,.{digits}f}")


def count(value: float | None) -> str:
    """A number of rows or people: 48,842."""
    return NOTHING if missing(value) or value is None else signed(f"{value:,.0f}")


def number_or_none(value: float) -> str:
    """A number of labels in a sentence: 48,842, and in words what rounds to zero."""
    return count(value) if round(value) else NONE


def p_value(value: float | None) -> str:
    """A p-value: 0.032, and < 0.001 below that."""
    if missing(value) or value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.9995 else "1"


def p_words(value: float) -> str:
    """A p-value after the letter p: = 0.032, < 0.001."""
    shown = p_value(value)
    return shown if shown.startswith("<") else f"= {shown}"


def gap(value: float) -> str:
    """The size of a difference of two rates: 2.8 percentage points."""
    return f"{number(100 * value, 1)} percentage points"
