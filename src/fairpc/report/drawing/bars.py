"""Horizontal rows, one per group: shares as bars, estimates with intervals, ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from fairpc.report import text
from fairpc.report.drawing.axes import Scale, limits
from fairpc.report.drawing.svg import LETTER, WIDTH, box, line, marker, picture, style, words

_LEFT: Final = 4.0
_RIGHT: Final = WIDTH - 16.0
_ROW: Final = 42.0
_TOP: Final = 6.0
_STRIP: Final = (18.0, 36.0)  # where in its row a bar is drawn; the name stands above it

Form = Callable[[float], str]


@dataclass(frozen=True)
class Row:
    """One row: its name, a value, an interval, and the series whose colour it has."""

    name: str
    value: float | None
    interval: tuple[float, float] | None = None
    series: int = 0
    note: str = ""


@dataclass(frozen=True)
class Mark:
    """A vertical line at a number that matters, with its name."""

    value: float
    name: str


def bars(
    title: str, description: str, rows: Sequence[Row], *, marks: Sequence[Mark] = (),
    form: Form = text.share_tick, high: float | None = None, axis: str = "",
) -> Markup:  # fmt: skip
    """A bar from zero per row, with its interval as a whisker."""
    top = _below_marks(marks)
    largest = max([max(row.interval or (0.0,)) for row in rows] + [row.value or 0 for row in rows])
    largest = max([largest, *(mark.value for mark in marks)])
    scale = Scale(0.0, high or max(1.04 * largest, 1e-6), _LEFT, _RIGHT)
    bottom = top + _ROW * len(rows)
    body = [*_axis(scale, top, len(rows), form, axis)]
    for i, row in enumerate(rows):
        y = top + _ROW * i
        body += _heading(row, y)
        if row.value is not None:
            css = f"fill {style(row.series)}"
            body.append(box(_LEFT, y + 20, scale(row.value) - _LEFT, 14.0, css))
        if row.interval is not None:
            body += _whisker(scale, row.interval, y + 27)
    body += _marks(marks, scale, top, len(rows))
    return picture(title, description, body, height=bottom + (40 if axis else 24))


def estimates(
    title: str, description: str, rows: Sequence[Row], *, marks: Sequence[Mark] = (),
    form: Form = text.points_tick, axis: str = "", ends: tuple[float, float] | None = None,
) -> Markup:  # fmt: skip
    """A point with its interval per row, against the numbers that matter."""
    top = _below_marks(marks)
    numbers = [n for row in rows for n in (row.value, *(row.interval or ())) if n is not None]
    low, high = ends or limits([*numbers, *(mark.value for mark in marks)])
    scale = Scale(low, high, _LEFT + 8, _RIGHT - 8)
    bottom = top + _ROW * len(rows)
    body = [*_axis(scale, top, len(rows), form, axis)]
    body += _marks(marks, scale, top, len(rows))
    for i, row in enumerate(rows):
        y = top + _ROW * i
        body += _heading(row, y)
        if row.interval is not None:
            css = f"stem {style(row.series)}"
            body.append(line(scale(row.interval[0]), y + 27, scale(row.interval[1]), y + 27, css))
        if row.value is not None:
            body.append(marker(row.series, scale(row.value), y + 27))
    return picture(title, description, body, height=bottom + (40 if axis else 24))


def ranges(
    title: str, description: str, rows: Sequence[Row], *,
    overlap: tuple[float, float] | None, marks: Sequence[Mark] = (), axis: str = "",
) -> Markup:  # fmt: skip
    """A range from 0 to 1 per row, and what all of them share, as a band and as a last row."""
    shared = "none" if overlap is None else text.span(overlap)
    rows = [*rows, Row("Overlap of all groups", None, None, note=shared)]
    top = _below_marks(marks)
    scale = Scale(0.0, 1.0, _LEFT + 10, _RIGHT - 10)
    bottom = top + _ROW * len(rows)
    body: list[Markup] = []
    if overlap is not None:
        left, right = scale(overlap[0]), scale(overlap[1])
        body.append(box(left, top, max(right - left, 1.5), bottom - top, "band"))
    body += _axis(scale, top, len(rows), text.share_tick, axis)
    if overlap is not None:
        body.append(box(left, bottom - _ROW + 22, max(right - left, 2.0), 10.0, "overlap"))
    for i, row in enumerate(rows):
        y = top + _ROW * i
        body += _heading(row, y)
        if row.interval is not None:
            low, high = sorted(row.interval)
            left, right = scale(low), scale(high)
            empty = row.interval[0] > row.interval[1]
            css = f"fill {style(row.series)}{' void' if empty else ''}"
            body.append(box(left, y + 22, max(right - left, 2.0), 10.0, css))
    body += _marks(marks, scale, top, len(rows))
    return picture(title, description, body, height=bottom + (40 if axis else 24))


def _below_marks(marks: Sequence[Mark]) -> float:
    return _TOP + (16 if marks else 0)


def _strips(top: float, n_rows: int) -> list[tuple[float, float]]:
    return [(top + _ROW * i + _STRIP[0], top + _ROW * i + _STRIP[1]) for i in range(n_rows)]


def _axis(scale: Scale, top: float, n_rows: int, form: Form, title: str) -> Iterator[Markup]:
    """Grid lines behind the bars, so that they never cross a name; numbers below."""
    bottom = top + _ROW * n_rows
    for tick in scale.ticks():
        x = scale(tick)
        for low, high in _strips(top, n_rows):
            yield line(x, low, x, high, "grid")
        yield words(x, bottom + 12, form(tick), "tick", "start" if x < 12 else "middle")
    if title:
        yield words((scale.start + scale.end) / 2, bottom + 29, title, "axis", "middle")


def _heading(row: Row, y: float) -> Iterator[Markup]:
    """The name on the left and the number on the right, above what is drawn."""
    right = row.note or ("" if row.value is None else text.share(row.value))
    room = int((_RIGHT - _LEFT) / LETTER - len(right) - 2)
    yield words(_LEFT, y + 14, text.short(row.name, room), "name")
    yield words(_RIGHT, y + 14, right, "value", "end")


def _whisker(scale: Scale, ends: tuple[float, float], y: float) -> Iterator[Markup]:
    low, high = scale(ends[0]), scale(ends[1])
    yield line(low, y, high, y, "whisker")
    for x in (low, high):
        yield line(x, y - 4, x, y + 4, "whisker")


def _marks(marks: Sequence[Mark], scale: Scale, top: float, n_rows: int) -> Iterator[Markup]:
    """Vertical lines with their names on top, moved apart from each other and from the edges."""
    taken = -1e9
    for mark in sorted(marks, key=lambda m: m.value):
        x = scale(mark.value)
        half = LETTER * len(mark.name) / 2
        centre = min(max(x, _LEFT + half, taken + half + 6), max(_RIGHT - half, _LEFT + half))
        taken = centre + half
        for low, high in _strips(top, n_rows):
            yield line(x, low - 2, x, high + 2, "reference")
        yield words(centre, top - 7, mark.name, "tick", "middle")
