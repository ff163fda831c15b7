"""An audit read back from its JSON, field by field after the types of the record.

A file from outside is checked like any other: its size, its kind, and every value against the
type of its field. What JSON has no word for, an infinite or undefined number, was written as null
and is read as NaN. Nothing in the file is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fairpc.core._errors import EachWay, FileFormatError, Phrase

R = TypeVar("R")

_INT64: Final = 2**63
MAX_BYTES: Final = 1 << 28
"""Of a file. The record of a large audit has a few megabytes."""
_JSON: Final = EachWay("Audit.to_json", "`fairpc audit MODEL TABLE --json`")
AGAIN: Final = Phrase("make the audit again with this version of fairpc, ", _JSON)
_NO_AUDIT: Final = Phrase("the file is no audit: give what was written by ", _JSON)


def read_json(text: str | bytes, kind: str, version: int) -> dict[str, Any]:
    """The object of a JSON text that says it is of this kind and version."""
    if len(text) > MAX_BYTES:
        raise FileFormatError(f"the audit has more than {MAX_BYTES:,} bytes: {AGAIN}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"the audit is not JSON ({_reason(error)}): {AGAIN}") from None
    if not isinstance(data, dict) or data.get("format") != kind:
        raise FileFormatError(_NO_AUDIT)
    if data.get("version") != version:
        raise FileFormatError(
            f"the audit is of version {data.get('version')!r}, not {version}: {AGAIN}"
        )
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}"
    return "it cannot be decoded" if isinstance(error, ValueError) else "it is nested too deeply"


def record(kind: type[R], data: Any, where: str = "the audit") -> R:
    """A record of this class from its fields; what else is there follows from them."""
    if not isinstance(data, dict):
        raise _unfit(where, "an object", data)
    given = {}
    hints = _hints(kind)  # type: ignore[arg-type] # a class can be hashed, whatever it holds
    for name, (hint, needed) in hints.items():
        if name in data:
            given[name] = _value(hint, data[name], f"{where}: {name}")
        elif needed:
            raise FileFormatError(f"{where} has no {name!r}: {AGAIN}")
    return kind(**given)


@cache
def _hints(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Type of each field, and whether it has no default."""
    hints = get_type_hints(kind)
    return {
        each.name: (
            hints[each.name],
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    }


def _value(hint: Any, data: Any, where: str) -> Any:
    """A value of this type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return data
    if is_dataclass(hint) and isinstance(hint, type):
        return record(hint, data, where)
    if origin in (Union, UnionType):
        return _one_of(inner, data, where)
    if origin is Literal:
        if data not in inner:
            raise _unfit(where, " or ".join(map(repr, inner)), data)
        return data
    if origin is np.ndarray:
        return _array(data, where)
    if origin in _COLLECTIONS:
        return _COLLECTIONS[origin](inner, data, where)
    return _plain(hint, data, where)


def _one_of(kinds: Sequence[Any], data: Any, where: str) -> Any:
    """A value of the first of these types that it fits."""
    if data is None and NoneType in kinds:
        return None
    problem: FileFormatError | None = None
    for kind in kinds:
        if kind is not NoneType:
            try:
                return _value(kind, data, where)
            except FileFormatError as error:
                problem = problem or error
    raise problem or _unfit(where, "nothing", data)


def _plain(hint: Any, data: Any, where: str) -> Any:
    if hint is float:
        if data is None:
            return float("nan")
        if isinstance(data, float) or (type(data) is int and abs(data) < _INT64):
            return float(data)
        raise _unfit(where, "a number", data)
    if type(data) is not hint or (hint is int and abs(data) >= _INT64):
        raise _unfit(where, _WORDS.get(hint, "another kind of value"), data)
    return data


def _tuple(inner: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    items = _list(data, where)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_value(inner[0], item, where) for item in items)
    if len(items) != len(inner):
        raise _unfit(where, f"a list of {len(inner)}", data)
    return tuple(_value(hint, item, where) for hint, item in zip(inner, items, strict=True))


def _listed(inner: tuple[Any, ...], data: Any, where: str) -> list[Any]:
    return [_value(inner[0], item, where) for item in _list(data, where)]


def _mapping(inner: tuple[Any, ...], data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _unfit(where, "an object", data)
    return {name: _value(inner[1], item, f"{where}: {name}") for name, item in data.items()}


def _list(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise _unfit(where, "a list", data)
    return data


def _array(data: Any, where: str) -> Any:
    """An array of numbers; null is NaN."""
    try:
        found = np.array(_list(data, where), np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _unfit(where, "numbers in rows of one length", data) from None
    found.flags.writeable = False
    return found


_COLLECTIONS: Final[Mapping[Any, Callable[[tuple[Any, ...], Any, str], Any]]] = {
    tuple: _tuple,
    list: _listed,
    Mapping: _mapping,
    dict: _mapping,
}
_WORDS: Final = {str: "text", int: "a whole number", bool: "true or false"}


def _unfit(where: str, wanted: str, data: Any) -> FileFormatError:
    shown = json.dumps(data)
    shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
    return FileFormatError(f"{where} is {shown}, not {wanted}: {AGAIN}")
