"""Records as plain data that JSON can hold, and as a notebook shows them.

Keys are the names of the attributes. The HTML is small, has no scripts and the notebook's colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, ClassVar, Final

import numpy as np

MOST: Final = 20
"""Rows of a table that a notebook shows."""

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
    names = (field.name for field in fields(record))
    return {name: serialise(getattr(record, name)) for name in names if name not in without}


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
