"""Records as a notebook shows them: small HTML without scripts, in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

MOST: Final = 20
"""Rows of a table that are shown."""

# A grey that is half transparent is seen on light and on dark alike; text keeps its colour.
_LINE: Final = "border:0;border-bottom:1px solid #8888;padding:.2em .8em .2em 0;"
_HEAD: Final = f"{_LINE}text-align:left;font-weight:600"
_CELL: Final = f"{_LINE}text-align:left"
_TABLE: Final = "border-collapse:collapse;margin:.4em 0;background:none"


def html(title: str, facts: Mapping[str, Any]) -> str:
    """Plain facts: the summary, single values as pairs, lists of records as tables that fold."""
    rest = {name: value for name, value in facts.items() if name != "summary"}
    single = {name: value for name, value in rest.items() if not _records(value)}
    parts = [f"<p><strong>{text(title)}</strong></p>"]
    if "summary" in facts:
        parts += [f"<p>{text(line)}</p>" for line in str(facts["summary"]).splitlines()]
    parts += [
        _fold(f"{name} ({len(value)})", table(value))
        for name, value in rest.items()
        if _records(value)
    ]
    if single:
        parts.append(_fold("values", table([{"": k, "value": v} for k, v in single.items()])))
    return f"<div>{''.join(parts)}</div>"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Records below each other; the columns are those of the first."""
    names = list(rows[0])
    head = "".join(f'<th scope="col" style="{_HEAD}">{text(name)}</th>' for name in names)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL}">{text(_short(row.get(name)))}</td>' for name in names)
        + "</tr>"
        for row in rows[:MOST]
    )
    more = f"<p>… and {len(rows) - MOST:,} more</p>" if len(rows) > MOST else ""
    return (
        f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'
    )


def text(value: str) -> str:
    """A name or a sentence that cannot become markup, nor hide or turn what stands beside it."""
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value)
    return f"<bdi>{escape(shown, quote=True)}</bdi>"


def _fold(title: str, content: str) -> str:
    return f"<details><summary>{text(title)}</summary>{content}</details>"


def _records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _short(value: Any) -> str:
    """A value in a cell: numbers in four figures, lists in a line, records by their names."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(_pairs(value))
    if isinstance(value, list):
        shown = ", ".join(map(_short, value[:MOST]))
        return f"{shown}, …" if len(value) > MOST else shown
    return str(value)


def _pairs(value: Mapping[str, Any]) -> Iterator[str]:
    for name, one in value.items():
        if not isinstance(one, Mapping | list):
            yield f"{name}: {_short(one)}"
