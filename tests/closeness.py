"""Plain data that is equal but for the rounding of sums."""

from __future__ import annotations

from typing import Any

import pytest


def assert_close(one: Any, two: Any, place: str = "") -> None:
    """The same dicts, lists, words and whole numbers; other numbers to 1e-12."""
    if isinstance(one, dict) and isinstance(two, dict):
        assert one.keys() == two.keys(), place
        for key in one:
            assert_close(one[key], two[key], f"{place}.{key}")
    elif isinstance(one, list) and isinstance(two, list):
        assert len(one) == len(two), place
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            assert_close(a, b, f"{place}[{k}]")
    elif isinstance(one, float) and isinstance(two, float):
        assert one == pytest.approx(two, rel=1e-12, abs=1e-12), place
    else:
        assert one == two, place
