"""JSON objects read field by field."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np

from fairpc.core import FairpcError, FileFormatError, Floats
from fairpc.data._values import Level

T = TypeVar("T")

_INT64: Final = 2**63


@dataclass(frozen=True)
class Record:
    """A JSON object that is read field by field and believed in nothing."""

    data: Mapping[str, Any]
    what: str
    fields: Collection[str]

    def __post_init__(self) -> None:
        if not isinstance(self.data, dict):
            raise FileFormatError(
                f"{self.what} is not a JSON object: give the file as it was saved"
            )
        if set(self.data) != set(self.fields):
            odd = sorted(str(key) for key in set(self.data) ^ set(self.fields))
            raise FileFormatError(
                f"{self.what} has missing or unknown fields ({', '.join(odd)[:200]}): "
                "give the file as it was saved"
            )

    def error(self, field: str, rule: str) -> FileFormatError:
        return FileFormatError(f"{field!r} of {self.what} must be {rule}")

    def build(self, make: Callable[[], T]) -> T:
        """What ``make`` returns; its complaints are complaints about the file."""
        try:
            return make()
        except FileFormatError:
            raise
        except FairpcError as error:
            raise FileFormatError(f"{self.what} is not valid: {error}") from error

    def _typed(self, field: str, kind: type[T], rule: str) -> T:
        value = self.data[field]
        if not isinstance(value, kind):
            raise self.error(field, rule)
        return value

    def text(self, field: str) -> str:
        return self._typed(field, str, "text")

    def flag(self, field: str) -> bool:
        return self._typed(field, bool, "true or false")

    def whole(self, field: str, least: int = 0) -> int:
        value = self.data[field]
        if type(value) is not int or not least <= value < _INT64:
            raise self.error(field, f"a whole number of at least {least}")
        return value

    def number(self, field: str) -> float:
        return _number(self.data[field], self.error(field, "a finite number of double precision"))

    def items(self, field: str) -> list[Any]:
        return self._typed(field, list, "a list")

    def numbers(self, field: str) -> tuple[float, ...]:
        fault = self.error(field, "a list of finite numbers of double precision")
        return tuple(_number(value, fault) for value in self.items(field))

    def array(self, field: str, *n_axes: int) -> Floats:
        """Numbers in lists of lists, of one of these numbers of axes."""
        fault = self.error(field, f"numbers in lists within lists, {n_axes[-1]} deep")
        flat, depth = [self.data[field]], 0
        while flat and all(type(part) is list for part in flat):
            flat, depth = list(chain.from_iterable(flat)), depth + 1
        if depth not in n_axes or not set(map(type, flat)) <= {float}:
            raise fault
        try:
            return np.array(self.data[field], np.float64)
        except ValueError:  # lists of several lengths
            raise fault from None

    def texts(self, field: str) -> tuple[str, ...]:
        values = self.items(field)
        if not all(isinstance(value, str) for value in values):
            raise self.error(field, "a list of text")
        return tuple(values)

    def levels(self, field: str) -> tuple[Level, ...]:
        values = self.items(field)
        for value in values:
            whole = type(value) is int and abs(value) < _INT64
            real = isinstance(value, float) and math.isfinite(value)
            if not (whole or real or isinstance(value, str | bool)):
                raise self.error(field, "a list of text, finite numbers or true and false")
        return tuple(values)


def _number(value: Any, fault: FileFormatError) -> float:
    try:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if real else math.nan
    except OverflowError:
        raise fault from None
    # A whole number beyond 2**53 may be none of double precision: it would be read as another.
    if not math.isfinite(number) or number != value:
        raise fault
    return number
