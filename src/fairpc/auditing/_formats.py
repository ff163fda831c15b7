"""Names and numbers as an audit writes them, in sentences and on the page: one form for each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from fairpc.core import NONE as NONE, counted as counted, ranged as ranged

Form = Callable[[float | None], str]

MINUS: Final = "−"
NOTHING: Final = "–"
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


def sentence(words: str) -> str:
    """Words with a capital letter and a full stop."""
    words = words.strip()
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _joined(words: str) -> str:
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def quoted(value: Any) -> str:
    """A class in a sentence: “good”."""
    return f"“{short(value, 40)}”"


def due(said: str) -> str:
    """What somebody deserves, of a class as a sentence says it: “yes”, or to be approved."""
    return said if said.startswith("“") else f"to be {said}"


def listed(values: Sequence[Any]) -> str:
    """Names in a sentence: a, b and c."""
    return series([short(value, 40) for value in values])


def series(parts: Sequence[str]) -> str:
    """Parts of a sentence as they are: a, b and c."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def missing(value: Any) -> bool:
    """Whether there is no number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _if_known(form: Callable[..., str]) -> Callable[..., str]:
    """A dash in place of a number that is not there."""

    @wraps(form)
    def written(value: float | None, *more: Any) -> str:
        return NOTHING if missing(value) else form(value, *more)

    return written


def signed(written: str) -> str:
    """A true minus sign, and no minus before a zero."""
    if written.startswith("-"):
        digits = written[1:]
        return digits if not digits.strip("0.,%") else MINUS + digits
    return written


@_if_known
def share(value: float, digits: int = 1) -> str:
    """A probability or a rate: 31.4%."""
    return "∞" if math.isinf(value) else signed(f"{100 * value:.{digits}f}") + "%"


@_if_known
def threshold(value: float) -> str:
    """A score that is compared with: 31.4%, 0.037%, 99.96%."""
    if 0.999 < value < 1.0:
        return share(value, -math.floor(math.log10(100 * (1 - value))))
    return _powers(f"{100 * value:.2g}") + "%" if 0.0 < value < 0.001 else share(value)


@_if_known
def points(value: float) -> str:
    """A difference of two rates, in percentage points: −19.6."""
    written = signed(f"{100 * value:.1f}")
    return written if written.startswith(MINUS) or not written.strip("0.") else f"+{written}"


@_if_known
def size(value: float) -> str:
    """How large a difference of two rates is, in percentage points: 19.6."""
    return number(100 * value, 1)


@_if_known
def number(value: float, digits: int = 3) -> str:
    """A plain number: 0.358."""
    return signed(f"{value:,.{digits}f}").replace("inf", "∞")


@_if_known
def count(value: float) -> str:
    """A number of rows or people: 48,842."""
    return signed(f"{value:,.0f}")


@_if_known
def p_value(value: float) -> str:
    """A p-value, in which no line breaks: 0.032, and < 0.001 below that."""
    written = f"{value:.3f}" if value < 0.9995 else "1"
    return _joined("< 0.001") if value < 0.001 else written


def p_words(value: float) -> str:
    """A p-value after the letter p: = 0.032, < 0.001."""
    return "< 0.001" if value < 0.001 else f"= {p_value(value)}"


def gap(value: float) -> str:
    """The size of a difference of two rates: 2.8 percentage points."""
    return f"{size(value)} percentage points"


def span(bounds: Sequence[float | None] | None, form: Form = share) -> str:
    """An interval: 30.9% to 31.6%."""
    if bounds is None or any(map(missing, bounds)):
        return NOTHING
    low, high = map(form, bounds)
    return f"{low} to {high}"


def more_often(low: float, high: float, digits: int = 1) -> str:
    """A range of a difference of rates with its direction: 2.8 to 11.9 points more often."""
    digits = max(digits, int(min(abs(low), abs(high)) < 0.005))  # 0 would hide the direction
    if low == high == 0:
        return "equally often"
    if low <= 0 <= high:
        less, more = (number(100 * abs(end), digits) for end in (low, high))
        return f"between {less} points less and {more} more often"
    least, most = sorted((100 * abs(low), 100 * abs(high)))
    said = ranged(least, most, digits)
    unit = "point" if said == "1" else "points"
    return f"{said} {unit} {'more' if low > 0 else 'less'} often"


def at_most(
    bounds: Sequence[float | None] | None, form: Form = share, word: str = "{} to {}"
) -> str:
    """A range that may begin at nothing: at most 8.2%, none, 15.0% to 33.0%."""
    if bounds is None or any(map(missing, bounds)):
        return NOTHING
    low, high = map(form, bounds)
    if high == form(0.0):
        return NONE
    return f"at most {high}" if low == form(0.0) else word.format(low, high)


def bracketed(
    value: float | None, bounds: Sequence[float | None] | None, form: Form = share
) -> str:
    """A number and its interval: 31.2% (30.9% to 31.6%)."""
    interval = _joined(span(bounds, form))
    return form(value) if interval == NOTHING else f"{form(value)} ({interval})"


@_if_known
def share_tick(value: float) -> str:
    """A rate below an axis, or among finer ones: 20%, 2.5%, 0.0312%."""
    return signed(f"{100 * value:.4g}") + "%"


def points_tick(value: float) -> str:
    """A difference below an axis, in percentage points."""
    return signed(f"{round(100 * value, 6):.4g}")


def number_tick(value: float) -> str:
    """A number below an axis, as short as it can be said: 0.5, 4·10⁻⁵."""
    return _powers(f"{value:.6g}")


def _powers(written: str) -> str:
    digits, _, power = written.partition("e")
    return signed(digits) + (f"·10{str(int(power)).translate(_RAISED)}" if power else "")
