"""How numbers and dates are written in text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fairpc.core import Floats

DECIMALS: Final = (".", ",")
DATED: Final = r"(\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4})([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
"""A date, as in ISO or with the day first; 31/12/2023 is none: others write the month first."""
_DATE: Final = re.compile(DATED, re.ASCII)


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


def parsed_numbers(texts: Any, decimal: str = ".") -> Any:
    """A polars series of numbers as float64; null where a text is not a number."""
    import polars as pl

    if decimal != ".":
        # Without polars' own functions of text: in a forked process they would not return.
        marked = [t if t is None else None if "." in t else t.replace(decimal, ".") for t in texts]
        texts = pl.Series(marked, dtype=pl.String)
    found = texts.cast(pl.Float64, strict=False)
    odd = found.is_null() & texts.is_not_null()
    if not odd.any():
        return found
    # Blanks around a number are not part of it.
    stripped = pl.Series([text.strip() for text in texts.filter(odd).to_list()], dtype=pl.String)
    places = np.flatnonzero(odd.to_numpy())
    return found.scatter(places, stripped.cast(pl.Float64, strict=False))
