"""What stands in the place of a section or a part that the audit has no facts for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpc.report.view import Paragraph, Section

Facts = Mapping[str, Any]


def reason(facts: Facts, key: str, otherwise: str = "the audit was made without it") -> str:
    """Why a section or "section.part" is not there, as the audit says it."""
    why = str(facts["left_out"].get(key, otherwise)).strip()
    return why[:1].upper() + why[1:].rstrip(".") + "."


def absent(facts: Facts, key: str, title: str) -> Section:
    """A section that says why it is empty."""
    return Section(key, title, (Paragraph(f"Not in this report. {reason(facts, key)}"),))
