"""The pictures of the page, as SVG: rows of bars, estimates and ranges; curves, points; flows.

Text is escaped, every picture has a title and a description, and series differ by shape as well
as by colour.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from markupsafe import Markup

from fairpc.auditing import _formats as text
from fairpc.evidence import Interval

WIDTH: Final = 360.0
"""Units across a picture: the width of a phone, so that letters stay readable there."""
LETTER: Final = 7.0
"""Width of an average letter, in units."""
MARKERS: Final = ("circle", "square", "triangle", "diamond", "cross", "ring")
N_STYLES: Final = 6
"""Colours, dashes and markers before they repeat; CSS classes s0 … s5."""

_LEFT: Final = 4.0
_RIGHT: Final = WIDTH - 16.0
_ROW: Final = 42.0
_STRIP: Final = (18.0, 36.0)  # where in its row a bar is drawn; the name stands above it

_AXIS: Final = 46.0  # room for the numbers left of a plane
_KEY: Final = 20.0  # height of a line of the key
_PLANE: Final = 240.0

_FLOW: Final = 150.0
_FLOW_TOP: Final = 24.0
_GAP: Final = 14.0
_BAR: Final = 12.0
_SIDE: Final = 84.0  # room for the names on either side of a flow
_LEAST: Final = 0.6  # a flow is never drawn thinner
_UNSEEN: Final = 0.05  # one that is far thinner is not drawn at all
_CLASS: Final = 2  # style of the positive class: none that the first two groups have on the page


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
            start += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), shown)
    return start + (Markup(">{}</{}>").format(inside, tag) if children else Markup("/>"))


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
            viewBox=f"0 0 {number(WIDTH)} {number(self.height)}",
            class_="plot",
            role="img",
            aria_labelledby=f"t{key} d{key}",
        )


def words(
    x: float, y: float, content: str, class_: str | None = None, anchor: str = "start"
) -> Markup:
    """Text on one line; ``anchor`` is start, middle or end."""
    where = None if anchor == "start" else anchor
    return element("text", content, x=x, y=y, class_=class_, text_anchor=where)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return element("rect", x=x, y=y, width=max(width, 0.0), height=height, class_=class_)


def marker(i: int, x: float, y: float, r: float = 4.5) -> Markup:
    """The mark of the i-th series: shapes differ as well as colours."""
    css = f"mark {style(i)}"
    match MARKERS[i % len(MARKERS)]:
        case "circle":
            return element("circle", cx=x, cy=y, r=r, class_=css)
        case "ring":
            return element("circle", cx=x, cy=y, r=r, class_=f"{css} hollow")
        case "square":
            return box(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r, css)
        case "triangle":
            sides = ("l", 1.15 * r, 2 * r), ("h", -2.3 * r), ("z",)
            return path(css, ("M", x, y - 1.2 * r), *sides)
        case "diamond":
            a = 1.3 * r
            return path(css, ("M", x, y - a), ("l", a, a), ("l", -a, a), ("l", -a, -a), ("z",))
        case _:
            other = ("m", 0, -2 * r), ("l", -2 * r, 2 * r)
            return path(f"{css} stroked", ("M", x - r, y - r), ("l", 2 * r, 2 * r), *other)


def path(class_: str, *steps: tuple[Any, ...]) -> Markup:
    """A path of commands, each with its numbers."""
    written = "".join(f"{command}{' '.join(map(number, at))}" for command, *at in steps)
    return element("path", d=written, class_=class_)


@dataclass(frozen=True)
class Scale:
    """Numbers ``low`` to ``high`` onto places ``start`` to ``end`` of the picture."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Place of a number; those beyond an end stand at the end."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, from low to high."""
    raw = (high - low) / max(about, 1)
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
    scale = Scale(0.0, max(1.04 * largest, 1e-6), _LEFT, _RIGHT)
    stack = _Stack(rows, scale)

    def bar(row: Row, y: float) -> Iterator[Markup]:
        if row.value is not None:
            yield box(_LEFT, y + 20, scale(row.value) - _LEFT, 14.0, f"fill {style(row.series)}")

    return stack.picture([*stack.axis(text.share_tick), *stack.each(bar)])


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
    scale = Scale(low, high, _LEFT + 8, _RIGHT - 8)
    stack = _Stack(rows, scale, marks, axis)

    def estimate(row: Row, y: float) -> Iterator[Markup]:
        if row.interval is not None:
            low, high = map(scale, row.interval)
            yield line(low, y + 27, high, y + 27, f"stem {style(row.series)}")
        if row.value is not None:
            yield marker(row.series, scale(row.value), y + 27)

    return stack.picture([*stack.axis(form), *stack.marked(), *stack.each(estimate)])


def ranges(
    rows: Sequence[Row], overlap: Interval | None, *, marks: Sequence[Mark] = (), axis: str = ""
) -> Picture:
    """A range from 0 to 1 per row, and what all of them share, as a band and as a last row."""
    shared = "none" if overlap is None else text.span(overlap)
    rows = [*rows, Row("Overlap of all groups", None, None, note=shared)]
    scale = Scale(0.0, 1.0, _LEFT + 10, _RIGHT - 10)
    stack = _Stack(rows, scale, marks, axis)

    def span(row: Row, y: float) -> Iterator[Markup]:
        if row.interval is not None:
            left, right = map(scale, sorted(row.interval))
            void = " void" if row.interval[0] > row.interval[1] else ""
            css = f"fill {style(row.series)}{void}"
            yield box(left, y + 22, max(right - left, 2.0), 10.0, css)

    body = [*stack.axis(text.share_tick)]
    if overlap is not None:
        left, right = map(scale, overlap)
        band = box(left, stack.top, max(right - left, 1.5), stack.bottom - stack.top, "band")
        last = box(left, stack.bottom - _ROW + 22, max(right - left, 2.0), 10.0, "overlap")
        body = [band, *body, last]
    return stack.picture([*body, *stack.each(span), *stack.marked()])


@dataclass(frozen=True)
class _Stack:
    """Rows one below the other over a common scale, with marks across them."""

    rows: Sequence[Row]
    scale: Scale
    marks: Sequence[Mark] = ()
    title: str = ""

    @property
    def top(self) -> float:
        return 22.0 if self.marks else 6.0

    @property
    def bottom(self) -> float:
        return self.top + _ROW * len(self.rows)

    def picture(self, body: Sequence[Markup]) -> Picture:
        return Picture(body, self.bottom + (40 if self.title else 24))

    def axis(self, form: Form) -> Iterator[Markup]:
        """Grid lines behind the bars, so that they never cross a name; numbers below."""
        for tick in round_numbers(self.scale.low, self.scale.high):
            x = self.scale(tick)
            for low, high in self._strips():
                yield line(x, low, x, high, "grid")
            yield words(x, self.bottom + 12, form(tick), "tick", "start" if x < 12 else "middle")
        if self.title:
            middle = (self.scale.start + self.scale.end) / 2
            yield words(middle, self.bottom + 29, self.title, "axis", "middle")

    def each(self, draw: Callable[[Row, float], Iterable[Markup]]) -> Iterator[Markup]:
        """Each row: the name on the left and the number on the right, above what is drawn."""
        for i, row in enumerate(self.rows):
            y = self.top + _ROW * i
            right = row.note or ("" if row.value is None else text.share(row.value))
            room = int((_RIGHT - _LEFT) / LETTER - len(right) - 2)
            yield words(_LEFT, y + 14, text.short(row.name, room), "name")
            yield words(_RIGHT, y + 14, right, "value", "end")
            yield from draw(row, y)

    def marked(self) -> Iterator[Markup]:
        """Vertical lines with their names on top, moved apart from each other and the edges."""
        taken = -1e9
        for mark in sorted(self.marks, key=lambda m: m.value):
            x = self.scale(mark.value)
            half = LETTER * len(mark.name) / 2
            centre = min(max(x, _LEFT + half, taken + half + 6), max(_RIGHT - half, _LEFT + half))
            taken = centre + half
            for low, high in self._strips():
                yield line(x, low - 2, x, high + 2, "reference")
            yield words(centre, self.top - 7, mark.name, "tick", "middle")

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
class Point:
    """A named point with intervals along both axes."""

    name: str
    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None


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
        """Scales along and up, below so many lines of a key; and the axes."""
        top = _KEY * key_lines + 26
        x = Scale(*self.x_limits, _AXIS, WIDTH - 16)
        y = Scale(*self.y_limits, top + _PLANE, top)
        axes = []
        for tick in round_numbers(y.low, y.high):
            axes.append(line(x.start, y(tick), x.end, y(tick), "grid"))
            axes.append(words(x.start - 6, y(tick) + 4, self.y_form(tick), "tick", "end"))
        axes.append(words(2.0, y.end - 12, self.y_title, "axis"))
        for tick in round_numbers(x.low, x.high):
            axes.append(line(x(tick), y.end, x(tick), y.start, "grid"))
            axes.append(words(x(tick), y.start + 15, self.x_form(tick), "tick", "middle"))
        middle = (x.start + x.end) / 2
        axes.append(words(middle, y.start + 32, self.x_title, "axis", "middle"))
        return x, y, axes


def curves(
    plane: Plane,
    series: Sequence[Series],
    *,
    diagonal: str = "",
    marked: bool = False,
    joined: bool = True,
) -> Picture:
    """Lines that differ by colour and dash, ``marked`` points besides or instead; a key above."""
    x, y, body = plane.frame(len(series) + bool(diagonal))
    if diagonal:
        body.append(line(x(x.low), y(x.low), x(x.high), y(x.high), "reference"))
    for i, one in enumerate(series):
        points = list(zip(one.x, one.y, strict=True))
        for a, (low, high) in zip(one.x, one.spreads, strict=False):
            body.append(line(x(a), y(low), x(a), y(high), f"thin {style(i)}"))
        if joined:
            places = _places(x, y, points)
            body.append(element("polyline", points=places, class_=f"curve {style(i)}"))
        if marked:
            body += [marker(i, x(a), y(b), 3.6) for a, b in points]
    for i, one in enumerate(series):
        body += _key(i, one.name, "curve" if joined else "", marker_size=3.6 if marked else 0.0)
    if diagonal:
        body += _key(len(series), diagonal, "reference")
    return Picture(body, y.start + 40)


def scatter(plane: Plane, points: Sequence[Point]) -> Picture:
    """Points with their names in a key above, and intervals as crosses."""
    x, y, body = plane.frame((len(points) + 1) // 2)
    for i, point in enumerate(points):
        px, py = x(point.x), y(point.y)
        if point.x_interval is not None:
            low, high = map(x, point.x_interval)
            body.append(line(low, py, high, py, f"thin {style(i)}"))
        if point.y_interval is not None:
            low, high = map(y, point.y_interval)
            body.append(line(px, low, px, high, f"thin {style(i)}"))
    for i, point in enumerate(points):
        body.append(marker(i, x(point.x), y(point.y), 5.5))
    column = (WIDTH - 8) / 2
    for i, point in enumerate(points):
        left, row = 8 + column * (i % 2), 12 + _KEY * (i // 2)
        body.append(marker(i, left, row - 4))
        body.append(words(left + 12, row, text.short(point.name, int(column / LETTER) - 3), "key"))
    return Picture(body, y.start + 40)


def areas(plane: Plane, sets: Sequence[Series], mark: Point) -> Picture:
    """Polygons over each other, each with its colour and dash, and a point; a key above.

    One without corners is empty.
    """
    x, y, body = plane.frame(len(sets) + 1)
    for i, one in enumerate(sets):
        body += _key(i, one.name if one.x else f"{one.name}: nothing", "area")
        if one.x:
            points = _places(x, y, zip(one.x, one.y, strict=True))
            body.append(element("polygon", points=points, class_=f"area {style(i)}"))
    body += _key(len(sets), mark.name, marker_size=4.5)
    body.append(marker(len(sets), x(mark.x), y(mark.y), 5.5))
    return Picture(body, y.start + 40)


def _places(x: Scale, y: Scale, points: Iterable[Interval]) -> str:
    return " ".join(f"{number(x(a))},{number(y(b))}" for a, b in points)


def _key(i: int, name: str, css: str = "", *, marker_size: float = 0.0) -> Iterator[Markup]:
    """The i-th line of the key above a plane: a line or an area, a mark, a name."""
    row = 12 + _KEY * i
    if css == "area":
        yield box(6, row - 12, 28, 12, f"area {style(i)}")
    elif css:
        series = css if css == "reference" else f"{css} {style(i)}"
        yield line(6, row - 4, 34, row - 4, series)
    if marker_size:
        yield marker(i, 20, row - 4, marker_size)
    yield words(42, row, text.short(name, int((WIDTH - 44) / LETTER)), "key")


def flow(classes: Sequence[str], shares: Sequence[Sequence[float]], positive: int) -> Picture:
    """Latent decisions of a group on the left, observed labels on the right.

    The positive class is on top and has the same colour on every page.

    ``shares[f][d]`` is the part of the group with latent decision f and observed label d. A band
    that keeps its class is pale; one that changes it is striped and strong.
    """
    order = [positive, *(k for k in range(len(classes)) if k != positive)]
    classes, shares = [classes[k] for k in order], [[shares[f][d] for d in order] for f in order]
    decisions, labels = list(map(sum, shares)), list(map(sum, zip(*shares, strict=True)))
    total = sum(decisions) or 1.0
    unit = (_FLOW - _GAP * (len(classes) - 1)) / total
    lefts, rights = (_stack([part * unit for part in side]) for side in (decisions, labels))
    body: list[Markup] = [
        words(_SIDE + _BAR, 12, "latent decision Df", "axis", "end"),
        words(WIDTH - _SIDE - _BAR, 12, "observed label D", "axis"),
    ]
    body += _bands(shares, unit, [y for y, _ in lefts], [y for y, _ in rights])
    for x, beside, anchor, places, sums in (
        (_SIDE, _SIDE - 8, "end", lefts, decisions),
        (WIDTH - _SIDE - _BAR, WIDTH - _SIDE + 8, "start", rights, labels),
    ):
        for k, (y, size) in enumerate(places):
            middle = y + size / 2
            body.append(box(x, y, _BAR, max(size, _LEAST), f"node {style(k + _CLASS)}"))
            body.append(words(beside, middle - 2, text.short(classes[k], 12), "name", anchor))
            body.append(words(beside, middle + 13, text.share(sums[k] / total), "value", anchor))
    return Picture(body, _FLOW_TOP + _FLOW + 12)


def _stack(sizes: Sequence[float]) -> list[tuple[float, float]]:
    """Top and size of blocks one below the other."""
    tops = accumulate((size + _GAP for size in sizes), initial=_FLOW_TOP)
    return [*zip(tops, sizes, strict=False)]


def _bands(
    shares: Sequence[Sequence[float]], unit: float, left: Sequence[float], right: Sequence[float]
) -> Iterator[Markup]:
    """Bands in the order of the stacks, so that none crosses without need."""
    k, starts, ends = len(shares), list(left), list(right)
    x, u = _SIDE + _BAR, WIDTH - _SIDE - _BAR
    m = (x + u) / 2
    for f in range(k):
        for d in range(k):
            size = shares[f][d] * unit
            if size > _UNSEEN:
                css = f"{'band-kept' if f == d else 'band-turned'} {style(d + _CLASS)}"
                y, v, tall = starts[f], ends[d], max(size, _LEAST)
                there = ("C", m, y, m, v, u, v)
                back = ("C", m, v + tall, m, y + tall, x, y + tall)
                yield path(css, ("M", x, y), there, ("V", v + tall), back, ("Z",))
            starts[f] += size
            ends[d] += size
