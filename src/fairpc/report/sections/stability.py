"""Spread of the mechanism over random starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.bars import Row, estimates
from fairpc.report.sections.absent import Facts, reason
from fairpc.report.view import Block, Figure, Points, Table
from fairpc.report.view import Paragraph as Words

_DRAWN: Final = 12


def stability(facts: Facts) -> Iterator[Block]:
    """What moved when EM started elsewhere."""
    found = facts["decidable"]["stability"]
    if found is None:
        yield Words(f"Not in this report. {reason(facts, 'decidable.stability')}")
        return
    if found.get("summary"):
        yield Points(tuple(found["summary"].splitlines()))
    positive = facts["what_if"]["positive"] if facts["what_if"] else len(found["classes"]) - 1
    yield _figure(found, positive)
    used, n_all = facts["decidable"]["stability_rows"], facts["data"]["n_rows"]
    if used < n_all:
        yield Words(
            f"Fitted to a random sample of {text.count(used)} of the "
            f"{text.counted(n_all, 'audited row')}.",
            "note",
        )


def _figure(found: Facts, positive: int) -> Figure:
    label = text.short(found["classes"][positive], 30)
    rows, cells = [], []
    for s, group in enumerate(found["groups"]):
        for f, decision in enumerate(found["classes"]):
            values = [run["mechanism"][s][f][positive] for run in found["starts"]]
            own, ends = found["mechanism"][s][f][positive], (min(values), max(values))
            name = f"{text.short(group, 20)}, Df = {text.short(decision, 20)}"
            rows.append(Row(name, own, ends, s, note=text.share(own)))
            cells.append((name, text.share(own), text.share(ends[0]), text.share(ends[1])))
    sentence = (
        f"Mark: probability of the label {label} in the model. Line: from the lowest to the "
        f"highest value over {text.counted(len(found['starts']), 'random start')}."
    )
    if len(rows) > _DRAWN:
        sentence += f" The first {_DRAWN} of {len(rows)} are drawn."
    title = "The mechanism over random starts"
    head = ("Group and latent decision", "Model", "Lowest", "Highest")
    numbers = Table.of(title, head, cells, folded=len(cells) > _DRAWN)
    svg = estimates(title, sentence, rows[:_DRAWN], form=text.share_tick, ends=(0.0, 1.0))
    return Figure(title, sentence, svg, numbers)
