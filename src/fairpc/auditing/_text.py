"""Names, intervals and ticks as the page writes them; its numbers are those of the audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from fairpc.auditing._numbers import MINUS as MINUS
from fairpc.auditing._numbers import NONE as NONE
from fairpc.auditing._numbers import NOTHING as NOTHING
from fairpc.auditing._numbers import count as count
from fairpc.auditing._numbers import counted as counted
from fairpc.auditing._numbers import (
    missing,
    signed,
)
from fairpc.auditing._numbers import number as number
from fairpc.auditing._numbers import number_or_none as number_or_none
from fairpc.auditing._numbers import p_value as _p_value
from fairpc.auditing._numbers import points as points
from fairpc.auditing._numbers import share as share

Form = Callable[[float | None], str]

LONGEST: Final = 80
"""Letters of a name that a table shows."""

_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ENDLESS: Final = re.compile(r"\S{60,}")
_P_VALUE: Final = re.compile(r"\bp ([<=]) (?=\d)")
_BREAKS: Final = re.compile("[\n\r\v\f\x85\u2028\u2029]")
# Control characters but for line breaks, marks that turn the direction of what follows, halves of
# surrogate pairs: shown by number, because they could hide text.
_HIDDEN: Final = re.compile(
    "[\x00-\x09\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(value: str) -> str:
    """Text without a mark that could hide or reorder what is shown; markup stays markup."""
    return type(value)(_HIDDEN.sub(lambda mark: f"\\u{ord(mark[0]):04x}", value))


def breaks(value: str) -> str:
    """Text in one line, its line breaks shown."""
    return _BREAKS.sub("⏎", value)


def name(value: Any) -> str:
    """A name from the data in one line."""
    if isinstance(value, list | tuple):
        return ", ".join(name(part) for part in value)
    return breaks(visible(str(value))) or "(empty)"


def short(value: Any, longest: int = LONGEST) -> str:
    """A name cut to so many letters."""
    full = name(value)
    return full if len(full) <= longest else full[: longest - 1].rstrip() + "…"


def prose(value: str) -> str:
    """A sentence whose very long words, as only names from data are, are cut.

    No line breaks inside a p-value: p < 0.001.
    """
    cut = _ENDLESS.sub(lambda word: f"{word[0][:40]}…", visible(value))
    return _P_VALUE.sub(lambda p: _joined(p[0]), cut)


def p_value(value: float | None) -> str:
    """A p-value, in which no line breaks: 0.032, and < 0.001 below that."""
    return _joined(_p_value(value))


def _joined(words: str) -> str:
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def quoted(value: Any) -> str:
    """A class in a sentence: “good”."""
    return f"“{short(value, 40)}”"


def span(ends: Sequence[float] | None, form: Form = share) -> str:
    """An interval: 30.9% to 31.6%."""
    if ends is None or any(missing(end) for end in ends):
        return NOTHING
    low, high = ends
    return f"{form(low)} to {form(high)}"


def bracketed(value: float | None, ends: Sequence[float] | None, form: Form = share) -> str:
    """A number and its interval: 31.2% (30.9% to 31.6%)."""
    interval = _joined(span(ends, form))
    return form(value) if interval == NOTHING else f"{form(value)} ({interval})"


def listed(values: Sequence[Any]) -> str:
    """Names in a sentence: a, b and c."""
    names = [short(value, 40) for value in values]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def share_tick(value: float) -> str:
    """A rate below an axis: 20%, and 2.5% where steps are finer."""
    return signed(f"{100 * value:.4g}") + "%"


def number_tick(value: float) -> str:
    """A number below an axis, as short as it can be said: 0.5, 4·10⁻⁵."""
    return _powers(f"{value:.6g}")


def figures(value: float) -> str:
    """A number of any size in two figures: 0.39, 2.7·10⁻⁵."""
    return _powers(f"{value:.2g}")


def _powers(written: str) -> str:
    digits, _, power = written.partition("e")
    return signed(digits) + (f"·10{str(int(power)).translate(_RAISED)}" if power else "")


def points_tick(value: float) -> str:
    """A difference below an axis, in percentage points."""
    return signed(f"{round(100 * value, 6):.4g}")
