"""How numbers are written in text: decimal mark, thousands, currency or percent sign; and dates.

A spreadsheet in German writes 1.234,56 €, one in English $1,234.56, a French one 1 234,56. All
texts of a column are read in one way, which the column then keeps: what "1.234" means does not
follow from that text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, TableError

DECIMALS: Final = (".", ",")
PERCENT: Final = "%"
_CODES: Final = (
    *("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK"),
    *("PLN", "CZK", "HUF", "BRL", "MXN", "ZAR", "KRW", "TRY", "RUB"),
)
CURRENCIES: Final = frozenset([*"$€£¥₹₩₽₺₴₦₱₫₪฿¢", "US$", "R$", "kr", "zł", "Kč", *_CODES])
SPACES: Final = " \u00a0\u2009\u202f"
_SEPARATORS: Final = {"": "", ",": ",", ".": ".", " ": SPACES, "'": "'’"}
"""All signs that are written for each separator."""
_EXPONENT: Final = r"([eE][+-]?\d{1,3})?"
_ORDER: Final = (
    *((".", ""), (".", ","), (",", ""), (",", ".")),
    *((".", " "), (",", " "), (".", "'"), (",", "'")),
)
"""Decimal marks and separators in the order in which they are tried."""
DATED: Final = r"(\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4})([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
"""A date, as in ISO or with the day first; 31/12/2023 is none: others write the month first."""
_DATE: Final = re.compile(DATED, re.ASCII)


@dataclass(frozen=True)
class Writing:
    """How the numbers of a column are written."""

    decimal: str = "."  #: the mark before decimals
    thousands: str = ""  #: what stands between groups of three digits; a blank is any kind of blank
    unit: str = ""  #: a currency or percent sign before or behind the number; a text may lack it

    def __post_init__(self) -> None:
        marks = self.decimal in DECIMALS and self.thousands in _SEPARATORS
        known = self.unit in ("", PERCENT) or self.unit in CURRENCIES
        if not (marks and known) or self.decimal == self.thousands:
            raise TableError(
                f"numbers are not written with {self.decimal!r}, {self.thousands!r} and "
                f"{self.unit!r}: a decimal mark is one of {DECIMALS}, and separators differ from it"
            )

    @property
    def marks(self) -> tuple[str, str]:
        return self.decimal, self.thousands

    @property
    def separators(self) -> str:
        """The signs that stand between groups of three digits."""
        return _SEPARATORS[self.thousands]

    @property
    def pattern(self) -> str:
        """What a number looks like without its unit, its thousands apart or not."""
        return self._pattern(strict=False)

    @property
    def example(self) -> str:
        """A number that is written like this."""
        number = f"1{self.thousands}234{self.decimal}5"
        return f"{number} {self.unit}".rstrip()

    def fits(self, texts: Any) -> bool:
        """Whether all texts of a polars series are numbers, their thousands all apart."""
        shape = re.compile(self._pattern(strict=True), re.ASCII)
        return all(shape.search(bare) for bare in map(self._bare, texts.to_list()))

    def numbers(self, texts: Any) -> Any:
        """A polars series of texts as float64; null where a text is not a number.

        Without polars' own functions of text: in a forked process they would not return.
        """
        import polars as pl

        shape = re.compile(self.pattern, re.ASCII)
        found: dict[str | None, float] = {}
        given = texts.to_list()
        for text in set(given) - {None}:
            bare = self._bare(text)
            if shape.search(bare):
                for separator in self.separators:
                    bare = bare.replace(separator, "")
                found[text] = float(bare.replace(self.decimal, "."))
        return pl.Series(list(map(found.get, given)), dtype=pl.Float64)

    def _bare(self, text: str) -> str:
        """A text without the sign of the unit, before or behind the number, and blanks around."""
        bare = text.strip().replace("−", "-", 1)
        if self.unit:
            bare = bare.removesuffix(self.unit).rstrip()
            sign = bare[:1] if bare.startswith(("+", "-")) else ""
            number = bare.removeprefix(sign).lstrip()
            if number.startswith(self.unit):
                bare = sign + number.removeprefix(self.unit).lstrip()
        return bare

    def _pattern(self, *, strict: bool) -> str:
        """What a number looks like; unless ``strict``, thousands need not be apart."""
        whole = r"0|[1-9]\d*" if strict else r"\d+"
        if self.thousands:
            groups = rf"[1-9]\d{{0,2}}([{self.separators}]\d{{3}})"
            whole = rf"0|[1-9]\d{{0,2}}|{groups}+" if strict else rf"\d+|{groups}+"
        return rf"^[+-]?({whole})({re.escape(self.decimal)}\d+)?{_EXPONENT}$"


STANDARD: Final = Writing()  #: as programs write numbers


def writings(texts: Any, decimal: str | None = None) -> Iterator[Writing]:
    """The ways of writing in which all texts of a polars series are numbers, the likeliest first.

    ``decimal`` is the decimal mark, where it is known. All texts with a sign have the same one; if
    it is that of percent, every text has it.
    """
    unit = _unit(texts)
    if unit is None:
        return
    for marks in _ORDER:
        writing = Writing(*marks, unit)
        if decimal in (None, writing.decimal) and writing.fits(texts):
            yield writing


def likeliest(ways: Iterable[Any], is_whole: Callable[[Any], bool]) -> Any | None:
    """The likeliest of the ways in which text can be read, which come in order; None of none.

    An amount of money has no three decimals: where €1.200 can be whole, it is.
    """
    each = iter(ways)
    first = next(each, None)
    if first is None or first.written.unit not in CURRENCIES or is_whole(first):
        return first
    return next(filter(is_whole, each), first)


def _unit(texts: Any) -> str | None:
    """The one sign that stands beside the numbers, "" if there is none; None if they are none."""
    around = texts.str.replace_all(rf"(\d){_EXPONENT}", "$1").str.replace_all(
        rf"[\d.,'’+\-−\s{SPACES}]", ""
    )
    found = set(around.unique().to_list())
    named = found - {""}
    if not named:
        return ""
    if len(named) > 1:
        return None
    sign = named.pop()
    if sign == PERCENT:
        return sign if "" not in found else None
    return sign if sign in CURRENCIES else None


def dates_of(texts: Sequence[str]) -> Floats:
    """Dates as microseconds; NaN where a text is not a date."""
    dates = [_iso(text) if _DATE.fullmatch(text) else "NaT" for text in texts]
    try:
        found = np.array(dates, "datetime64[us]")
    except ValueError:  # one of them is a 30th of February
        found = np.array(list(map(_date, dates)), "datetime64[us]")
    return np.where(np.isnat(found), np.nan, found.astype(np.int64)).astype(np.float64)


def _iso(text: str) -> str:
    """A date with the year first."""
    day_first = text[2] == "."
    return f"{text[6:10]}-{text[3:5]}-{text[:2]}{text[10:]}" if day_first else text


def _date(text: str) -> str:
    """An ISO date that the calendar has, or none."""
    try:
        return str(np.datetime64(text, "us"))
    except ValueError:
        return "NaT"


def parsed_numbers(texts: Any, written: Writing = STANDARD) -> Any:
    """A polars series of numbers as float64; null where a text is not a number."""
    import polars as pl

    if written != STANDARD:
        return written.numbers(texts)
    found = texts.cast(pl.Float64, strict=False)
    odd = found.is_null() & texts.is_not_null()
    if not odd.any():
        return found
    # Blanks around a number are not part of it.
    stripped = pl.Series([text.strip() for text in texts.filter(odd).to_list()], dtype=pl.String)
    places = np.flatnonzero(odd.to_numpy())
    return found.scatter(places, stripped.cast(pl.Float64, strict=False))
