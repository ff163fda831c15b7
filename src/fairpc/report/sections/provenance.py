"""Provenance: what would be needed to do the audit again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairpc.report import text
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Paragraph, Section, Table

TITLE = "Provenance"


def provenance(facts: Facts) -> Section:
    """Hashes, versions, settings, date."""
    found = facts["provenance"]
    hashes = (
        ("Model", found["model"]),
        ("Circuit and parameters", found["model_hash"]),
        ("Training rows, encoded", found["training_hash"]),
        ("Audited rows, encoded", found["audited_hash"]),
        ("Date", found["date"]),
        ("Platform", found["platform"]),
    )
    blocks: list[Block] = [
        Paragraph("The hashes identify the model and the rows; equal hashes mean equal content."),
        _table("Identity", [(name, text.name(value)) for name, value in hashes]),
        _table("Versions", _pairs(found["versions"])),
        _table("Settings of the model", _pairs(found["settings"]), folded=True),
        _table("Settings of the audit", _pairs(found["audit_settings"]), folded=True),
    ]
    times = [(name, text.seconds(value)) for name, value in found["seconds"].items()]
    blocks.append(_table("Time of each part", times, folded=True))
    return Section("provenance", TITLE, tuple(blocks))


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _shown(value)) for name, value in values.items()]


def _shown(value: Any) -> str:
    return text.name(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _table(caption: str, pairs: list[tuple[str, str]], *, folded: bool = False) -> Table:
    return Table.of(caption, ("What", "Value"), pairs, words={1}, folded=folded)
