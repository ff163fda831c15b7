"""Curves and points in a plane: ROC, calibration, learning curves, trade-offs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from fairpc.report import text
from fairpc.report.drawing.axes import Scale, bottom_axis, left_axis, limits
from fairpc.report.drawing.svg import (
    LETTER,
    WIDTH,
    element,
    line,
    marker,
    number,
    picture,
    style,
    words,
)

_LEFT: Final = 46.0
_KEY: Final = 20.0  # height of a line of the key

Form = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """A curve: its name and its points; ``spreads`` are intervals of y, one per point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spreads: Sequence[tuple[float, float]] | None = None


@dataclass(frozen=True)
class Plane:
    """What the axes mean and how far they go."""

    x_title: str
    y_title: str
    x_ends: tuple[float, float] = (0.0, 1.0)
    y_ends: tuple[float, float] = (0.0, 1.0)
    x_form: Form = text.share_tick
    y_form: Form = text.share_tick


def curves(
    title: str, description: str, plane: Plane, series: Sequence[Series], *,
    diagonal: str = "", marked: bool = False, joined: bool = True, height: float = 240.0,
) -> Markup:  # fmt: skip
    """Lines that differ by colour and dash, ``marked`` points besides or instead; a key above."""
    x, y, top, bottom = _frame(plane, len(series) + bool(diagonal), height)
    body = [*_axes(plane, x, y, top, bottom)]
    if diagonal:
        ends = (x(x.low), y(x.low), x(x.high), y(x.high))
        body.append(line(*ends, "reference"))
    for i, one in enumerate(series):
        body += _curve(i, one, x, y, marked, joined)
    body += _key([one.name for one in series], diagonal, marked, joined)
    return picture(title, description, body, height=bottom + 40)


@dataclass(frozen=True)
class Point:
    """A named point with intervals along both axes."""

    name: str
    x: float
    y: float
    x_interval: tuple[float, float] | None = None
    y_interval: tuple[float, float] | None = None


def scatter(
    title: str, description: str, plane: Plane, points: Sequence[Point], *,
    x_mark: float | None = None, height: float = 240.0,
) -> Markup:  # fmt: skip
    """Points with their names in a key above, and intervals as crosses."""
    x, y, top, bottom = _frame(plane, (len(points) + 1) // 2, height)
    body = [*_axes(plane, x, y, top, bottom)]
    if x_mark is not None and plane.x_ends[0] <= x_mark <= plane.x_ends[1]:
        body.append(line(x(x_mark), top, x(x_mark), bottom, "reference"))
    for i, point in enumerate(points):
        px, py = x(point.x), y(point.y)
        if point.x_interval is not None:
            low, high = point.x_interval
            body.append(line(x(low), py, x(high), py, f"thin {style(i)}"))
        if point.y_interval is not None:
            low, high = point.y_interval
            body.append(line(px, y(low), px, y(high), f"thin {style(i)}"))
    for i, point in enumerate(points):
        body.append(marker(i, x(point.x), y(point.y), 5.5))
    column = (WIDTH - 8) / 2
    for i, point in enumerate(points):
        left, row = 8 + column * (i % 2), 12 + _KEY * (i // 2)
        body.append(marker(i, left, row - 4))
        body.append(words(left + 12, row, text.short(point.name, int(column / LETTER) - 3), "key"))
    return picture(title, description, body, height=bottom + 40)


def around(
    points: Sequence[float], least: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Ends of an axis around some numbers, at least as wide as ``least``."""
    low, high = limits(points)
    if least is not None:
        low, high = min(low, least[0]), max(high, least[1])
    return low, high


def _frame(plane: Plane, key_lines: int, height: float) -> tuple[Scale, Scale, float, float]:
    top = _KEY * key_lines + (26 if plane.y_title else 10)
    bottom = top + height
    x = Scale(*plane.x_ends, _LEFT, WIDTH - 16)
    return x, Scale(*plane.y_ends, bottom, top), top, bottom


def _axes(plane: Plane, x: Scale, y: Scale, top: float, bottom: float) -> Iterator[Markup]:
    yield from left_axis(y, x.start, x.end, plane.y_form, plane.y_title)
    yield from bottom_axis(x, top, bottom, plane.x_form, plane.x_title)


def _curve(i: int, one: Series, x: Scale, y: Scale, marked: bool, joined: bool) -> Iterator[Markup]:
    path = " ".join(f"{number(x(a))},{number(y(b))}" for a, b in zip(one.x, one.y, strict=True))
    for a, (low, high) in zip(one.x, one.spreads or (), strict=False):
        yield line(x(a), y(low), x(a), y(high), f"thin {style(i)}")
    if joined:
        yield element("polyline", points=path, class_=f"curve {style(i)}")
    if marked:
        for a, b in zip(one.x, one.y, strict=True):
            yield marker(i, x(a), y(b), 3.6)


def _key(names: Sequence[str], diagonal: str, marked: bool, joined: bool) -> Iterator[Markup]:
    room = int((WIDTH - 44) / LETTER)
    for i, name in enumerate(names):
        row = 12 + _KEY * i
        if joined:
            yield line(6, row - 4, 34, row - 4, f"curve {style(i)}")
        if marked:
            yield marker(i, 20, row - 4, 3.6)
        yield words(42, row, text.short(name, room), "key")
    if diagonal:
        row = 12 + _KEY * len(names)
        yield line(6, row - 4, 34, row - 4, "reference")
        yield words(42, row, diagonal, "key")
