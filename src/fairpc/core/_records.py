"""Records as plain data: given to JSON, shown in a notebook, and read back by their type hints.

Keys are the names of the fields. A file from outside is believed in nothing: its size, its kind,
and every value against the type of its field; what a record asks of its own fields is asked by its
constructor. What JSON has no word for, an infinite or undefined number, is written as null and
read as NaN. Nothing is run.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from html import escape
from itertools import chain, repeat
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints as type_hints,
)

import numpy as np

from fairpc.core._errors import FairpcError, FileFormatError
from fairpc.core._few import Fewer
from fairpc.core._whole_files import AnyPath, read_whole

MOST: Final = 20  #: rows of a table that a notebook shows

# A grey that is half transparent is seen on light and on dark alike; text keeps its colour.
_CELL: Final = "border:0;border-bottom:1px solid #8888;padding:.2em .8em .2em 0;text-align:left"
_HEAD: Final = f"{_CELL};font-weight:600"
_TABLE: Final = "border-collapse:collapse;margin:.4em 0;background:none"


class Record:
    """Base of records that are given as plain data too.

    ``_computed`` names properties and methods that are given beside the fields; ``_long`` names
    fields that are left out, because they are as long as the data.
    """

    _computed: ClassVar[tuple[str, ...]] = ()
    _long: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record and what follows from it as plain data, for JSON."""
        found = _fields(self, without=self._long)
        for name in self._computed:
            value = getattr(self, name)
            found[name] = serialise(value() if callable(value) else value)
        return found

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook_html(type(self).__name__, self.to_dict())


def serialise(value: Any) -> Any:
    """Numbers, text, lists and dicts only.

    A number that is infinite or undefined becomes None, because JSON cannot hold it; a
    crossed group becomes the list of its levels, and a name of any other type its text.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Fewer):
        return str(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): serialise(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, tuple | list | np.ndarray):
        return [serialise(item) for item in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return _fields(value) if is_dataclass(value) else str(value)


def _fields(record: Any, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    names = (each.name for each in fields(record) if each.name not in without)
    return {name: serialise(getattr(record, name)) for name in names}


def notebook_html(title: str, facts: Mapping[str, Any]) -> str:
    """Plain facts: the summary, then what folds: lists of records as tables, values as pairs."""
    parts = [f"<p><strong>{_text(title)}</strong></p>"]
    if "summary" in facts:
        parts += [f"<p>{_text(line)}</p>" for line in str(facts["summary"]).splitlines()]
    single = []
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            parts.append(_fold(f"{name} ({len(value)})", value))
        elif name != "summary":
            single.append({"": name, "value": value})
    if single:
        parts.append(_fold("values", single))
    return f"<div>{''.join(parts)}</div>"


def _fold(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Records below each other; the columns are those of the first."""
    names = list(rows[0])
    head = "".join(f'<th scope="col" style="{_HEAD}">{_text(name)}</th>' for name in names)
    body = ""
    for row in rows[:MOST]:
        cells = (f'<td style="{_CELL}">{_text(_short(row.get(name)))}</td>' for name in names)
        body += f"<tr>{''.join(cells)}</tr>"
    more = f"<p>… and {len(rows) - MOST:,} more</p>" if len(rows) > MOST else ""
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return (
        f"<details><summary>{_text(title)}</summary>"
        f'<table style="{_TABLE}">{table}</table>{more}</details>'
    )


def _text(value: str) -> str:
    """A name or a sentence that cannot become markup, nor hide or turn what stands beside it."""
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value)
    return f"<bdi>{escape(shown, quote=True)}</bdi>"


def _short(value: Any) -> str:
    """A value in a cell: numbers in four figures, lists in a line, records by their names."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        single = (k for k, v in value.items() if not isinstance(v, Mapping | list))
        return ", ".join(f"{name}: {_short(value[name])}" for name in single)
    if isinstance(value, list):
        shown = ", ".join(map(_short, value[:MOST]))
        return f"{shown}, …" if len(value) > MOST else shown
    return str(value)


R = TypeVar("R")
_EXACT: Final = 2**53
"""Beyond it a float is not every whole number: the file would be read as another one."""
ALTERED: Final = "it was altered or truncated; use an intact copy"
_BYTES_PER_VALUE: Final = 20  # memory goes with values, not with bytes: "[],[]," is small in a file
_MAX_MARKS: Final = 1_000_000  # strings and brackets are names; a few hundred are usual
_MAX_DEPTH: Final = 64  # ours have about ten
_MAYBE_INFINITE: Final = re.compile(rb"[eE]\+?\d{3}|\d{300}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: AnyPath, max_bytes: int) -> object:
    """The JSON of a regular file, which is refused unread where it has more bytes."""
    return parse_json(read_whole(path, max_bytes), os.fspath(path), max_bytes)


def parse_json(data: bytes, source: str, max_bytes: int) -> object:
    """JSON that is safe to parse: bounded in size, values and depth, finite, no key twice."""

    def fail(problem: str) -> NoReturn:
        raise FileFormatError(f"{source}: {problem}")

    if len(data) > max_bytes:
        fail(f"it has more than {max_bytes:,} bytes: no file of fairpc that is read here has")
    values = data.count(b",")
    if values > max_bytes // _BYTES_PER_VALUE:
        fail(
            f"it has {values:,} values and the limit is {max_bytes // _BYTES_PER_VALUE:,}: "
            "use a smaller file, or a larger max_bytes if you trust this one"
        )
    if max(map(data.count, (b'"', b"[", b"{", b":"))) > _MAX_MARKS:
        fail(f"it has more than {_MAX_MARKS:,} strings or brackets: no file of fairpc has")
    hooks: dict[str, Any] = {"object_pairs_hook": _without_repeats, "parse_constant": _no_number}
    if _MAYBE_INFINITE.search(data):  # asking every number costs more than reading it
        hooks["parse_float"] = _finite
    try:
        found = json.loads(data.decode(), **hooks)
        _check_depth(found)
        if _SURROGATE.search(data):
            # Halves of a pair are not text: nobody could print, write or compare them.
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        fail("it is nested too deeply: no file of fairpc is")
    except UnicodeDecodeError as error:
        fail(f"it is not UTF-8 text (byte {error.start:,}): no file of fairpc")
    except UnicodeEncodeError:
        fail("it has half of a surrogate pair, which is not text: it was altered")
    except ValueError as error:
        fail(f"it is not valid JSON ({error}): it was truncated or altered")


def _check_depth(found: object) -> None:
    """A RecursionError where lists and objects lie deeper than what writes them again can go."""
    level: list[Any] = [found]
    for _ in range(_MAX_DEPTH):
        inner = chain.from_iterable(
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        )
        level = [part for part in inner if isinstance(part, dict | list)]
        if not level:
            return
    raise RecursionError


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    """A number; to JSON 1e999 is one, to Python it is infinite, and none that we write."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def record(
    kind: type[R], data: Any, where: str, *, exact: bool = False, repair: str = ALTERED
) -> R:
    """A record of this class from its fields, each of the type that it is declared with.

    What else is there follows from its fields; an ``exact`` record has nothing else.
    """
    return _Reader(exact, repair).record(kind, data, where)


@cache
def _hints(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Type of each field, and whether it has no default."""
    hints = type_hints(kind)
    given = [each for each in fields(kind) if each.init]
    needed = [each.default is MISSING and each.default_factory is MISSING for each in given]
    return {each.name: (hints[each.name], need) for each, need in zip(given, needed, strict=True)}


@dataclass(frozen=True)
class _Reader:
    exact: bool
    repair: str

    def record(self, kind: type[R], data: Any, where: str) -> R:
        if not isinstance(data, dict):
            raise self.unfit(where, "an object", data)
        hints = _hints(kind)  # type: ignore[arg-type] # a class can be hashed, whatever it holds
        if self.exact and (unknown := set(data) - set(hints)):
            raise FileFormatError(f"{where} has the unknown field {min(unknown)!r}: {self.repair}")
        given = {}
        for name, (hint, needed) in hints.items():
            if name in data:
                given[name] = self.value(hint, data[name], f"{where}: {name}")
            elif needed or self.exact:
                raise FileFormatError(f"{where} has no {name!r}: {self.repair}")
        try:
            return kind(**given)
        except FileFormatError:
            raise
        except FairpcError as error:
            raise FileFormatError(f"{where} is not valid: {error}") from error

    def value(self, hint: Any, data: Any, where: str) -> Any:
        """A value of this type."""
        origin, inner = get_origin(hint), get_args(hint)
        if hasattr(origin, "__value__"):  # a name of a type, as NDArray is from NumPy 2.5 on
            return self.value(origin.__value__[inner], data, where)
        if hint is Any or hint is object:
            return data
        if is_dataclass(hint) and isinstance(hint, type):
            return self.record(hint, data, where)
        if origin in (Union, UnionType):
            return self.one_of(inner, data, where)
        if origin is Literal:
            if not isinstance(data, str | int) or data not in inner:
                raise self.unfit(where, " or ".join(map(repr, inner)), data)
            return data
        if origin is np.ndarray:
            return self.array(inner, data, where)
        if origin in (dict, Mapping):
            return self.mapping(inner, data, where)
        if origin in (tuple, list):
            any_length = origin is list or inner[1:] == (...,)
            return origin(self.items(inner, data, where, any_length=any_length))
        return self.single(hint, data, where)

    def one_of(self, kinds: Sequence[Any], data: Any, where: str) -> Any:
        """A value of the first of these types that it fits."""
        if data is None and NoneType in kinds:
            return None
        problem: FileFormatError | None = None
        for kind in kinds:
            if kind is not NoneType:
                try:
                    return self.value(kind, data, where)
                except FileFormatError as error:
                    problem = problem or error
        raise problem or self.unfit(where, "nothing", data)

    def single(self, hint: Any, data: Any, where: str) -> Any:
        if hint is float:
            if data is None:
                return float("nan")
            if isinstance(data, float) or (type(data) is int and abs(data) <= _EXACT):
                return float(data)
            raise self.unfit(where, "a number", data)
        if type(data) is not hint or (hint is int and abs(data) >= 2**63):
            raise self.unfit(where, _WORDS.get(hint, "another kind of value"), data)
        return data

    def items(
        self, kinds: tuple[Any, ...], data: Any, where: str, *, any_length: bool
    ) -> Iterator[Any]:
        """Values of a list: one of each kind, or all of the first."""
        if not isinstance(data, list):
            raise self.unfit(where, "a list", data)
        if not any_length and len(data) != len(kinds):
            raise self.unfit(where, f"a list of {len(kinds)}", data)
        each = repeat(kinds[0], len(data)) if any_length else kinds
        return (self.value(kind, item, where) for kind, item in zip(each, data, strict=True))

    def mapping(self, inner: tuple[Any, ...], data: Any, where: str) -> dict[Any, Any]:
        if not isinstance(data, dict):
            raise self.unfit(where, "an object", data)
        names = {name: name for name in data}
        if inner[0] is float:
            try:
                names = {name: float(name) for name in data}
            except ValueError:
                raise self.unfit(where, "an object with numbers for names", data) from None
        return {names[k]: self.value(inner[1], item, f"{where}: {k}") for k, item in data.items()}

    def array(self, inner: tuple[Any, ...], data: Any, where: str) -> Any:
        """An array of numbers; null is NaN, or no number where they are whole ones."""
        dtype = get_args(inner[1])[0]
        whole = issubclass(dtype, np.integer)
        if not isinstance(data, list):
            raise self.unfit(where, "a list", data)
        flat = data
        while flat and all(type(part) is list for part in flat):
            flat = list(chain.from_iterable(flat))
        fault = self.unfit(where, "numbers in rows of one length", data)
        kinds = set(map(type, flat))
        if not kinds <= ({int} if whole else {float, int, NoneType}):
            raise fault
        if not whole and int in kinds and any(type(n) is int and abs(n) > _EXACT for n in flat):
            raise fault
        try:
            found = np.array(data, dtype)
        except (TypeError, ValueError, OverflowError):
            raise fault from None
        found.flags.writeable = False
        return found

    def unfit(self, where: str, wanted: str, data: Any) -> FileFormatError:
        shown = json.dumps(data) if not isinstance(data, list | dict) or len(data) < 9 else "[…"
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        return FileFormatError(f"{where} is {shown}, not {wanted}: {self.repair}")


_WORDS: Final = {str: "text", int: "a whole number", bool: "true or false"}
