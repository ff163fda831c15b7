"""Pictures: named, described, escaped, inside their frame, the same every time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies as st

from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import (
    Mark,
    Picture,
    Plane,
    Row,
    Scale,
    Series,
    bars,
    curves,
    estimates,
    limits,
    ranges,
    round_numbers,
)

HOSTILE = "<script>alert(1)</script>\"'&"
ROWS = [Row(HOSTILE, 0.31, (0.2, 0.4), 0), Row("y" * 300, None, None, 1), Row("z", 0.9, (0.8, 1))]
PLANE = Plane("x", "y")

MARKS = [Mark(0.0, HOSTILE), Mark(0.01, "next")]
CURVE = Series(HOSTILE, [0, 0.5, 1], [0, 0.7, 1], [(0, 0.1)] * 3)

PICTURES: dict[str, Callable[[], Picture]] = {
    "bars": lambda: bars(ROWS),
    "estimates": lambda: estimates(ROWS, text.points_tick, marks=MARKS, axis=HOSTILE),
    "ranges": lambda: ranges(ROWS, (0.2, 0.3)),
    "empty overlap": lambda: ranges([Row("a", None, (0.6, 0.4))], None),
    "curves": lambda: curves(PLANE, [CURVE], diagonal="chance"),
}


def drawn(name: str) -> str:
    return PICTURES[name]().svg("T", "D")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_named_described_and_escaped(name: str) -> None:
    svg = drawn(name)
    root = ET.fromstring(svg)
    assert [child.tag for child in root[:2]] == ["title", "desc"]
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    assert "<script" not in svg
    assert "style=" not in svg, "a style attribute is forbidden by the page's policy"
    assert svg == drawn(name)


@pytest.mark.parametrize("name", PICTURES)
def test_marks_stay_inside_the_frame(name: str) -> None:
    root = ET.fromstring(drawn(name))
    height = float(str(root.get("height")))
    assert root.get("width") == "100%"
    assert root.get("viewBox") is None, "letters would be stretched"
    for part in root.iter():
        for key in ("x", "x1", "x2", "cx"):
            place = str(part.get(key, "0"))
            most = 100 if place.endswith("%") else 60  # what is not a share is beside the left edge
            assert -0.01 <= float(place.removesuffix("%")) <= most
        for key in ("y", "y1", "y2", "cy"):
            assert -0.01 <= float(part.get(key, 0)) <= height + 0.01


def test_groups_of_crossed_columns_can_be_told_apart() -> None:
    """Beside a long number a name keeps its values, not the names of its columns."""
    names = [f"Group colour={c}, sex={s}" for c in ("Black", "White") for s in ("Female", "Male")]
    svg = ranges([Row(n, 0.8, (0.5, 0.9), note="48% to 99%, recorded 87%") for n in names], None)
    shown = re.findall(r'class="name">([^<]*)<', svg.svg("T", "D"))
    assert shown == [f"Group {c}, {s}" for c in ("Black", "White") for s in ("Female", "Male")]


def test_a_bar_is_as_long_as_its_share() -> None:
    svg = bars([Row("a", 0.25), Row("b", 0.5)]).svg("T", "D")
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)%"', svg)]
    assert widths[1] == pytest.approx(2 * widths[0], rel=1e-3)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_and_inside(low: float, width: float) -> None:
    high = low + width
    if high - low < 1e-9 * abs(low):
        return
    ticks = round_numbers(low, high)
    slack = 1e-6 * width
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert len(ticks) <= 7


def test_a_scale_holds_what_is_outside_at_its_ends() -> None:
    scale = Scale(0, 1, 10, 110)
    assert [scale(-1), scale(0.5), scale(math.inf)] == [10, 60, 110]
    assert limits([math.inf, 0.2, math.nan]) == pytest.approx((0.19, 0.21))
