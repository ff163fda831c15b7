"""Assumptions and limits."""

from __future__ import annotations

from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Heading, Points, Section

TITLE = "Assumptions and limits"


def limits(facts: Facts) -> Section:
    """What is assumed, what follows, what does not."""
    found = facts["limits"]
    blocks: list[Block] = [Heading("What the model assumes"), Points(tuple(found["assumptions"]))]
    if found["guaranteed"]:
        blocks += [Heading("What then holds exactly"), Points(tuple(found["guaranteed"]))]
    blocks += [Heading("What does not follow"), Points(tuple(found["limits"]))]
    return Section("limits", TITLE, tuple(blocks))
