"""The examples of docs/evidence.md run, and its figures are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evidence.arrays import published
from fairpc.evidence import parity

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence.md"


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    printed = capsys.readouterr().out
    assert "Not rejected" in printed
    assert "overlap" in printed


@pytest.mark.parametrize("name", ["Adult", "COMPAS", "German"])
def test_figures_of_gaps(name: str) -> None:
    _, y, s = published(name.lower())
    found = parity(y, s)
    values = (found.difference, *found.difference_interval, found.ratio, *found.ratio_interval)
    line = next(row for row in PAGE.read_text("utf-8").splitlines() if row.startswith(f"| {name},"))
    for value in values:
        assert f"{value:.4f}".replace("0.", ".").replace("-", "−") in line
    assert line.endswith(f"| {found.four_fifths} |")
