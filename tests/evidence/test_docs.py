"""The figures of docs/evidence.md are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.arrays import published
from fairpc.evidence import parity

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence.md"


@pytest.mark.parametrize("name", ["Adult", "COMPAS", "German"])
def test_figures_of_gaps(name: str) -> None:
    _, y, s = published(name.lower())
    found = parity(y, s)
    values = (found.difference, *found.difference_interval, found.ratio, *found.ratio_interval)
    line = next(row for row in PAGE.read_text("utf-8").splitlines() if row.startswith(f"| {name},"))
    for value in values:
        assert f"{value:.4f}".replace("0.", ".").replace("-", "−") in line
    assert line.endswith(f"| {found.four_fifths} |")
