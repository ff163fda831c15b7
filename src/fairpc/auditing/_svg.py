"""SVG elements, escaped; the frame of a picture with its title and description; scales and axes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

WIDTH: Final = 360.0
"""Units across a picture: the width of a phone, so that letters stay readable there."""
LETTER: Final = 7.0
"""Width of an average letter, in units."""
MARKERS: Final = ("circle", "square", "triangle", "diamond", "cross", "ring")
N_STYLES: Final = 6
"""Colours, dashes and markers before they repeat; CSS classes s0 … s5."""

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

    def ticks(self) -> list[float]:
        """Round numbers, about five."""
        return round_numbers(self.low, self.high)


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, from low to high."""
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis that holds these numbers with some room."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - room, high + room


def bottom_axis(
    scale: Scale, top: float, bottom: float, form: Form, title: str
) -> Iterator[Markup]:
    """Grid lines from top to bottom, numbers below them, and what they mean."""
    for tick in scale.ticks():
        x = scale(tick)
        yield line(x, top, x, bottom, "grid")
        yield words(x, bottom + 15, form(tick), "tick", "middle")
    if title:
        yield words((scale.start + scale.end) / 2, bottom + 32, title, "axis", "middle")


def left_axis(scale: Scale, left: float, right: float, form: Form, title: str) -> Iterator[Markup]:
    """Grid lines from left to right, numbers left of them; the title stands above."""
    for tick in scale.ticks():
        y = scale(tick)
        yield line(left, y, right, y, "grid")
        yield words(left - 6, y + 4, form(tick), "tick", "end")
    if title:
        yield words(2.0, scale.end - 12, title, "axis")
