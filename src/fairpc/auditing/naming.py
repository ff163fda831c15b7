"""Evidence on codes, told by name: groups and classes keep the order of the model."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

import numpy as np

T = TypeVar("T")

_GROUP_FIELDS: Final = frozenset(("group", "first", "last"))
_CLASS_FIELDS: Final = frozenset(("label", "positive"))


def named(record: T, groups: tuple[str, ...], classes: tuple[str, ...] = ()) -> T:
    """The record with codes of groups and classes replaced by their names, all the way down."""
    if isinstance(record, tuple):
        return cast(T, tuple(named(item, groups, classes) for item in record))
    if not is_dataclass(record) or isinstance(record, type):
        return record
    changes: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in _GROUP_FIELDS:
            changes[field.name] = groups[int(value)]
        elif field.name in _CLASS_FIELDS:
            changes[field.name] = None if value is None else classes[int(value)]
        elif field.name == "classes" and all(isinstance(c, int | np.integer) for c in value):
            changes[field.name] = tuple(classes[int(c)] for c in value)
        elif isinstance(value, tuple) or is_dataclass(value):
            changes[field.name] = named(value, groups, classes)
    return replace(record, **changes)
