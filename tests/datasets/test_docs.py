"""docs/data.md says what the records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairpc.datasets import (
    Dataset,
    load_adult,
    load_compas,
    load_german,
    load_loans,
    make_synthetic,
)
from fairpc.datasets._record import read_notes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "data.md"
VERSIONS = {
    "adult": ("raw", "paper"),
    "german": ("raw", "paper"),
    "compas": ("two-year",),
}
NOTES = [read_notes(name)[v] for name, versions in VERSIONS.items() for v in versions]


def page() -> str:
    return " ".join(PAGE.read_text("utf-8").split())


@pytest.mark.parametrize("notes", NOTES, ids=lambda n: n["description"][:20])
def test_notes(notes: dict[str, Any]) -> None:
    text = page()
    for sentence in (notes["description"], *notes["traps"]):
        assert sentence in text


@pytest.mark.parametrize(
    "data",
    [load_loans(), load_adult(), load_german(), load_compas(), make_synthetic(2, 5, 0)],
    ids=repr,
)
def test_provenance(data: Dataset) -> None:
    text = page()
    assert all(trap in text for trap in data.traps)
    if data.name != "synthetic":
        assert f"| `load_{data.name}` | {data.version} | {len(data.X):,} |" in text
        for part in (data.provenance.url, data.provenance.licence, data.provenance.attribution):
            assert part in text
