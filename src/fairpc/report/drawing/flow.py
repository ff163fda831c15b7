"""The flow picture of one group: latent decisions on the left, observed labels on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from fairpc.report import text
from fairpc.report.drawing.svg import WIDTH, box, element, number, picture, style, words

_HEIGHT: Final = 150.0
_TOP: Final = 24.0
_GAP: Final = 14.0
_BAR: Final = 12.0
_SIDE: Final = 84.0  # room for the names on either side
_LEAST: Final = 0.6  # a flow is never drawn thinner
_UNSEEN: Final = 0.05  # one that is far thinner is not drawn at all


def flow(
    title: str, description: str, classes: Sequence[str], shares: Sequence[Sequence[float]]
) -> Markup:
    """``shares[f][d]``: part of the group with latent decision f and observed label d.

    A band that keeps its class is pale; one that changes it is striped and strong.
    """
    k = len(classes)
    total = sum(map(sum, shares)) or 1.0
    unit = (_HEIGHT - _GAP * (k - 1)) / total
    lefts = _stack([sum(row) * unit for row in shares])
    rights = _stack([sum(row[d] for row in shares) * unit for d in range(k)])
    body: list[Markup] = [
        words(_SIDE + _BAR, 12, "latent decision Df", "axis", "end"),
        words(WIDTH - _SIDE - _BAR, 12, "observed label D", "axis"),
    ]
    body += _bands(shares, unit, [y for y, _ in lefts], [y for y, _ in rights])
    for f, (y, size) in enumerate(lefts):
        body.append(box(_SIDE, y, _BAR, max(size, _LEAST), f"node {_class_style(f)}"))
        body += _label(_SIDE - 8, y + size / 2, classes[f], sum(shares[f]) / total, "end")
    for d, (y, size) in enumerate(rights):
        share = sum(row[d] for row in shares) / total
        body.append(
            box(WIDTH - _SIDE - _BAR, y, _BAR, max(size, _LEAST), f"node {_class_style(d)}")
        )
        body += _label(WIDTH - _SIDE + 8, y + size / 2, classes[d], share, "start")
    return picture(title, description, body, height=_TOP + _HEIGHT + 12)


def _class_style(k: int) -> str:
    """Colour of a class: none that the first two groups have elsewhere on the page."""
    return style(k + 2)


def _stack(sizes: Sequence[float]) -> list[tuple[float, float]]:
    """Top and size of blocks one below the other; the last class, usually the positive, first."""
    places: list[tuple[float, float]] = []
    y = _TOP
    for size in reversed(sizes):
        places.append((y, size))
        y += size + _GAP
    return places[::-1]


def _bands(
    shares: Sequence[Sequence[float]], unit: float, left: Sequence[float], right: Sequence[float]
) -> Iterator[Markup]:
    """Bands in the order of the stacks, so that none crosses without need."""
    k = len(shares)
    starts, ends = list(left), list(right)
    for f in reversed(range(k)):
        for d in reversed(range(k)):
            size = shares[f][d] * unit
            if size > _UNSEEN:
                css = f"band-kept {_class_style(f)}" if f == d else f"band-turned {_class_style(d)}"
                yield _band(starts[f], ends[d], max(size, _LEAST), css)
            starts[f] += size
            ends[d] += size


def _band(y: float, v: float, size: float, css: str) -> Markup:
    x, u = _SIDE + _BAR, WIDTH - _SIDE - _BAR
    middle = number((x + u) / 2)
    path = (
        f"M{number(x)} {number(y)}C{middle} {number(y)} {middle} {number(v)} {number(u)} "
        f"{number(v)}V{number(v + size)}C{middle} {number(v + size)} {middle} "
        f"{number(y + size)} {number(x)} {number(y + size)}Z"
    )
    return element("path", d=path, class_=css)


def _label(x: float, y: float, name: str, share: float, anchor: str) -> Iterator[Markup]:
    yield words(x, y - 2, text.short(name, 12), "name", anchor)
    yield words(x, y + 13, text.share(share), "value", anchor)
