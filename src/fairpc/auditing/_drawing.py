"""The pictures of the page, as SVG: rows of bars, estimates and ranges; curves.

Places across are shares of the width, so that a picture is as wide as its column and letters keep
their size on a desk, a phone and paper. Text is escaped, every picture has a title and a
description, and series differ by shape as well as by colour.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from fairpc.auditing import _formats as text
from fairpc.evidence import Interval

LETTERS: Final = 50
"""Letters of a name and a number that stand beside each other on a phone."""
MARKERS: Final = ("circle", "square", "triangle", "diamond", "cross", "ring")
N_STYLES: Final = 6
"""Colours, dashes and markers before they repeat; CSS classes s0 … s5."""

_COLUMN: Final = re.compile(r"(^(?:Group )?|, )[^=,]*=")  # as in colour=Black, sex=Female
_ROW: Final = 46.0
_STRIP: Final = (20.0, 40.0)  # where in its row a bar is drawn; the name stands above it
_MIDDLE: Final = 30.0
_KEY: Final = 20.0  # height of a line of the key
_PLANE: Final = 240.0

Form = Callable[[float], str]


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """One element; text and attributes are escaped, ``class_`` is class, _ is - in a name."""
    inside = Markup("").join(children)
    start = Markup("<{}").format(tag)
    for key, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, float | int) else str(value)
            name = key if key in _CAMEL else key.rstrip("_").replace("_", "-")
            start += Markup(' {}="{}"').format(name, shown)
    return start + (Markup(">{}</{}>").format(inside, tag) if children else Markup("/>"))


_CAMEL: Final = ("viewBox", "preserveAspectRatio")


def style(i: int) -> str:
    """CSS class of the i-th series: its colour, dash and pattern."""
    return f"s{i % N_STYLES}"


@dataclass(frozen=True)
class Picture:
    """What is drawn, and how high; it gets its name where it is shown."""

    body: Sequence[Markup]
    height: float

    def svg(self, title: str, description: str) -> Markup:
        """The picture as a whole, named and described for those who do not see it."""
        content = Markup("").join(self.body)
        key = hashlib.sha256(f"{title}\0{description}\0{content}".encode()).hexdigest()[:10]
        return element(
            "svg",
            element("title", title, id=f"t{key}"),
            element("desc", description, id=f"d{key}"),
            content,
            width="100%",
            height=self.height,
            class_="plot",
            role="img",
            aria_labelledby=f"t{key} d{key}",
        )


def words(
    x: float | str, y: float, content: str, class_: str | None = None, anchor: str = "start"
) -> Markup:
    """Text on one line; ``anchor`` is start, middle or end."""
    where = None if anchor == "start" else anchor
    return element("text", content, x=x, y=y, class_=class_, text_anchor=where)


def line(x1: float | str, y1: float, x2: float | str, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def marker(i: int, x: float | str, y: float, r: float = 5.0) -> Markup:
    """The mark of the i-th series: shapes differ as well as colours."""
    css = f"mark {style(i)}"
    a = 1.3 * r
    match MARKERS[i % len(MARKERS)]:
        case "circle":
            return element("circle", cx=x, cy=y, r=r, class_=css)
        case "ring":
            return element("circle", cx=x, cy=y, r=r, class_=f"{css} hollow")
        case "square":
            steps = f"M{number(-r)} {number(-r)}h{number(2 * r)}v{number(2 * r)}h{number(-2 * r)}z"
        case "triangle":
            steps = f"M0 {number(-1.2 * r)}l{number(a)} {number(2 * r)}h{number(-2 * a)}z"
        case "diamond":
            steps = f"M0 {number(-a)}L{number(a)} 0L0 {number(a)}L{number(-a)} 0z"
        case _:
            css += " stroked"
            low, high = number(-r), number(r)
            steps = f"M{low} {low}L{high} {high}M{low} {high}L{high} {low}"
    # A shape has no place in shares of the width of its own: a frame around it has.
    return element("svg", element("path", d=steps, class_=css), x=x, y=y, overflow="visible")


@dataclass(frozen=True)
class Scale:
    """Numbers ``low`` to ``high`` onto places from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Place of a number; those beyond an end stand at the end."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def at(self, value: float) -> str:
        """The place as a share of the width."""
        return f"{number(self(value))}%"

    def bar(self, interval: Interval, y: float, height: float, class_: str) -> Markup:
        """A bar over an interval, wide enough to be seen."""
        low, high = map(self, interval)
        return element(
            "rect",
            x=f"{number(low)}%",
            y=y,
            width=f"{number(max(high - low, 0.5))}%",
            height=height,
            rx=min(height / 2, 4.0),
            class_=class_,
        )


def round_numbers(low: float, high: float) -> list[float]:
    """About five multiples of 1, 2 or 5 times a power of ten, from low to high."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Interval of an axis that holds these numbers with some room."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - room, high + room


@dataclass(frozen=True)
class Row:
    """One row: its name, a value, an interval, and the series whose colour it has."""

    name: str
    value: float | None
    interval: Interval | None = None
    series: int = 0
    note: str = ""


@dataclass(frozen=True)
class Mark:
    """A vertical line at a number that matters, with its name."""

    value: float
    name: str


def bars(rows: Sequence[Row]) -> Picture:
    """A share per row, as a bar from zero."""
    largest = max(row.value or 0.0 for row in rows)
    scale = Scale(0.0, max(1.04 * largest, 1e-6), 0.0, 99.0)
    stack = _Stack(rows, scale)

    def bar(row: Row, y: float) -> Iterator[Markup]:
        if row.value is not None:
            yield scale.bar((0.0, row.value), y + 22, 16.0, f"fill {style(row.series)}")

    return stack.picture(text.share_tick, bar)


def estimates(
    rows: Sequence[Row],
    form: Form,
    *,
    marks: Sequence[Mark] = (),
    extent: Interval | None = None,
    axis: str = "",
) -> Picture:
    """A point with its interval per row, against the numbers that matter."""
    numbers = [n for row in rows for n in (row.value, *(row.interval or ())) if n is not None]
    low, high = extent or limits([*numbers, *(mark.value for mark in marks)])
    scale = Scale(low, high, 2.0, 98.0)
    stack = _Stack(rows, scale, marks, axis)

    def estimate(row: Row, y: float) -> Iterator[Markup]:
        if row.interval is not None:
            yield scale.bar(row.interval, y + _MIDDLE - 3, 6.0, f"stem {style(row.series)}")
        if row.value is not None:
            yield marker(row.series, scale.at(row.value), y + _MIDDLE)

    return stack.picture(form, estimate)


def ranges(
    rows: Sequence[Row],
    overlap: Interval | None = None,
    *,
    extent: Interval = (0.0, 1.0),
) -> Picture:
    """A range per row with a mark at its value, and what all rows share as a band across them."""
    scale = Scale(*extent, 2.0, 98.0)
    stack = _Stack(rows, scale)

    def span(row: Row, y: float) -> Iterator[Markup]:
        if row.interval is not None:
            low, high = sorted(row.interval)
            void = " void" if row.interval[0] > row.interval[1] else ""
            yield scale.bar((low, high), y + 23, 14.0, f"fill {style(row.series)}{void}")
        if row.value is not None:
            x = scale.at(row.value)
            yield line(x, y + 18, x, y + 42, "needle")
            yield element("circle", cx=x, cy=y + _MIDDLE, r=4.5, class_="pin")

    band = (
        [] if overlap is None else [scale.bar(overlap, stack.top, stack.bottom - stack.top, "band")]
    )
    return stack.picture(text.share_tick, span, band)


@dataclass(frozen=True)
class _Stack:
    """Rows one below the other over a common scale, with marks across them."""

    rows: Sequence[Row]
    scale: Scale
    marks: Sequence[Mark] = ()
    title: str = ""

    @property
    def top(self) -> float:
        return 22.0 if self.marks else 4.0

    @property
    def bottom(self) -> float:
        return self.top + _ROW * len(self.rows)

    def picture(
        self,
        form: Form,
        draw: Callable[[Row, float], Iterable[Markup]],
        behind: Sequence[Markup] = (),
    ) -> Picture:
        """The rows as ``draw`` draws each, over an axis with numbers in this form."""
        body = [*behind, *self.axis(form), *self.marked(), *self.each(draw)]
        return Picture(body, self.bottom + (42 if self.title else 24))

    def axis(self, form: Form) -> Iterator[Markup]:
        """Grid lines behind the bars, so that they never cross a name; numbers below."""
        for tick in round_numbers(self.scale.low, self.scale.high):
            x, anchor = self.scale.at(tick), "middle"
            if self.scale(tick) < 4:
                anchor = "start"
            elif self.scale(tick) > 96:
                anchor = "end"
            for low, high in self._strips():
                yield line(x, low, x, high, "grid")
            yield words(x, self.bottom + 14, form(tick), "tick", anchor)
        if self.title:
            yield words("50%", self.bottom + 33, self.title, "axis", "middle")

    def each(self, draw: Callable[[Row, float], Iterable[Markup]]) -> Iterator[Markup]:
        """Each row: the name on the left and the number on the right, above what is drawn."""
        for i, row in enumerate(self.rows):
            y = self.top + _ROW * i
            right = row.note or ("" if row.value is None else text.share(row.value))
            room = LETTERS - len(right) - 2
            name = row.name if len(row.name) <= room else _COLUMN.sub(r"\1", row.name)
            yield words(0.0, y + 14, text.short(name, room), "name")
            yield words("100%", y + 14, right, "value", "end")
            yield from draw(row, y)

    def marked(self) -> Iterator[Markup]:
        """Vertical lines with their names on top, which stay inside the picture."""
        for mark in self.marks:
            x, place = self.scale.at(mark.value), self.scale(mark.value)
            anchor = "start" if place < 15 else "end" if place > 85 else "middle"
            for low, high in self._strips():
                yield line(x, low - 2, x, high + 2, "reference")
            yield words(x, self.top - 8, mark.name, "tick", anchor)

    def _strips(self) -> list[Interval]:
        tops = (self.top + _ROW * i for i in range(len(self.rows)))
        return [(top + _STRIP[0], top + _STRIP[1]) for top in tops]


@dataclass(frozen=True)
class Series:
    """A curve: its name and its points; ``spreads`` are intervals of y, one per point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spreads: Sequence[Interval] = ()


@dataclass(frozen=True)
class Plane:
    """What the axes mean and how far they go."""

    x_title: str
    y_title: str
    x_limits: Interval = (0.0, 1.0)
    y_limits: Interval = (0.0, 1.0)
    x_form: Form = text.share_tick
    y_form: Form = text.share_tick

    def frame(self, key_lines: int) -> tuple[Scale, Scale, list[Markup]]:
        """Scales along, in shares of the width, and up, below a key; and the axes."""
        top = _KEY * key_lines + 28
        x, y = Scale(*self.x_limits, 12.0, 97.0), Scale(*self.y_limits, top + _PLANE, top)
        left, right = f"{number(x.start)}%", f"{number(x.end)}%"
        axes = [words(0.0, y.end - 14, self.y_title, "axis")]
        for tick in round_numbers(y.low, y.high):
            axes.append(line(left, y(tick), right, y(tick), "grid"))
            axes.append(words("11%", y(tick) + 4, self.y_form(tick), "tick", "end"))
        for tick in round_numbers(x.low, x.high):
            axes.append(line(x.at(tick), y.end, x.at(tick), y.start, "grid"))
            anchor = "end" if x(tick) > 94 else "middle"
            axes.append(words(x.at(tick), y.start + 16, self.x_form(tick), "tick", anchor))
        axes.append(words("54%", y.start + 34, self.x_title, "axis", "middle"))
        return x, y, axes


def curves(
    plane: Plane,
    series: Sequence[Series],
    *,
    diagonal: str = "",
    joined: bool = True,
) -> Picture:
    """Points that differ by colour and mark, perhaps ``joined`` by lines; a key above."""
    x, y, body = plane.frame(len(series) + bool(diagonal))
    if diagonal:
        body.append(line(x.at(x.low), y(x.low), x.at(x.high), y(x.high), "reference"))
    lines = []
    for i, one in enumerate(series):
        points = list(zip(one.x, one.y, strict=True))
        for a, (low, high) in zip(one.x, one.spreads, strict=False):
            body.append(line(x.at(a), y(low), x.at(a), y(high), f"thin {style(i)}"))
        places = " ".join(f"{number(x(a))},{number(y(b))}" for a, b in points)
        lines.append(element("polyline", points=places, class_=f"curve {style(i)}"))
        body += [marker(i, x.at(a), y(b), 3.8) for a, b in points]
    if joined:
        # Stretched to the width; the strokes are not.
        box, height = f"0 0 100 {number(y.start)}", y.start
        stretched = {"viewBox": box, "preserveAspectRatio": "none"}
        body.insert(0, element("svg", *lines, width="100%", height=height, **stretched))
    names = [one.name for one in series]
    for i, name in enumerate([*names, diagonal] if diagonal else names):
        row, reference = 12 + _KEY * i, bool(diagonal) and i == len(series)
        if joined or reference:
            css = "reference" if reference else f"curve {style(i)}"
            body.append(line(4.0, row - 4, 32.0, row - 4, css))
        if not reference:
            body.append(marker(i, 18.0, row - 4, 3.8))
        body.append(words(42.0, row, text.short(name, LETTERS - 10), "key"))
    return Picture(body, y.start + 42)
