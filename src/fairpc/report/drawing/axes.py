"""Scales, round tick marks and the axes of a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairpc.report.drawing.svg import line, words

Form = Callable[[float], str]


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

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers, about so many."""
        return round_numbers(self.low, self.high, about)


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, from low to high."""
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def limits(values: Sequence[float], *, pad: float = 0.06) -> tuple[float, float]:
    """Ends of an axis that holds these numbers with some room."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = pad * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - room, high + room


def bottom_axis(
    scale: Scale, top: float, bottom: float, form: Form, title: str = "", about: int = 5
) -> Iterator[Markup]:
    """Grid lines from top to bottom, numbers below them, and what they mean."""
    for tick in scale.ticks(about):
        x = scale(tick)
        yield line(x, top, x, bottom, "grid")
        yield words(x, bottom + 15, form(tick), "tick", "middle")
    if title:
        yield words((scale.start + scale.end) / 2, bottom + 32, title, "axis", "middle")


def left_axis(
    scale: Scale, left: float, right: float, form: Form, title: str = "", about: int = 5
) -> Iterator[Markup]:
    """Grid lines from left to right, numbers left of them; the title stands above."""
    for tick in scale.ticks(about):
        y = scale(tick)
        yield line(left, y, right, y, "grid")
        yield words(left - 6, y + 4, form(tick), "tick", "end")
    if title:
        yield words(2.0, scale.end - 12, title, "axis")
