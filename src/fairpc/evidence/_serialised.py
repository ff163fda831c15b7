"""Records as plain data that JSON can hold; keys are the names of the attributes."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from fairpc.evidence._notebook import html


class Record:
    """Base of records that are given as plain data too.

    ``_computed`` names properties and methods that are given beside the fields; ``_long`` names
    fields that are left out, because they are as long as the data.
    """

    _computed: ClassVar[tuple[str, ...]] = ()
    _long: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record and what follows from it as plain data, for JSON."""
        found = fields_of(self, without=self._long)
        for name in self._computed:
            value = getattr(self, name)
            found[name] = plain(value() if callable(value) else value)
        return found

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html(type(self).__name__, self.to_dict())


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts only.

    A number that is infinite or undefined becomes None, because JSON cannot hold it; a
    crossed group becomes the list of its levels, and a name of any other type its text.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return fields_of(value)
    return str(value)


def fields_of(record: Any, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The attributes of a record as plain data, but for some."""
    names = (field.name for field in fields(record))
    return {name: plain(getattr(record, name)) for name in names if name not in without}
